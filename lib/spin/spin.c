/* SPDX-License-Identifier: BSD-3-Clause */
/* spin.c: what a rank's worker does in a call that kernels of several devices do, and how it ends where
 * something fails.
 *
 * The worker says in its row that it has come to the call, waits until its own kernels are over, and until
 * all others have come to it, too, with the same call, or have gone after kernels that ended well. No stream
 * waits for that: it is how calls that differ are found also where kernels do not see it.
 *
 * Kernels that wait leave when the host says so. What has failed has ended the communicator, at all ranks;
 * each then says so to its own kernels. One that has told others where buffers are then lasts until theirs
 * are out, too; and the rank has its memory back when its own is over. Where none that may have told that is
 * out, a rank can end the communicator for itself: kernels that begin later leave and tell nothing. */
#include "spin/spin.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "transports/arena.h"

enum { LEAVE_MS = 10000, GONE_MS = 1000, NAMED = 64 };

static struct tt_spin *spin_of(struct tt_meeting *meeting)
{
    return (struct tt_spin *)(void *)meeting;
}

static void begin(struct tt_meeting *meeting)
{
    struct tt_spin *spin = spin_of(meeting);
    spin->calls++;
    spin->told = false;
    meeting->over = meeting->served = false;
    meeting->held = true;
    meeting->late = meeting->wrong = TT_NONE;
}

static void tell(struct tt_spin *spin, uint64_t signature)
{
    struct tt_spin_row *row = spin->its.row;
    row->here[spin->calls % 2].signature = signature;
    atomic_store_explicit(&row->here[spin->calls % 2].call, spin->calls, memory_order_release);
    spin->told = true;
}

/* Has that rank's worker come to this call? One that has ended it may have left, and its row with it. */
static bool is_here(const struct tt_spin *spin, int rank)
{
    struct tt_endpoint *e = spin->comm->endpoint;
    return atomic_load_explicit(&spin->rows[rank]->here[spin->calls % 2].call, memory_order_acquire) ==
               spin->calls ||
           e->control->completed_by(e, rank) >= spin->comm->numbers.sequence;
}

/* It will come no more. If this rank's kernels have ended well, they have had all that they need of it. */
static bool comes_no_more(const struct tt_spin *spin, int rank)
{
    struct tt_endpoint *e = spin->comm->endpoint;
    struct tt_peer_place place;
    return e->control->peer_state(e, rank, &place) != TT_PEER_ALIVE;
}

/* It has come with another one. */
static bool calls_something_else(const struct tt_spin *spin, int rank, uint64_t signature)
{
    const struct tt_spin_row *row = spin->rows[rank];
    bool same = row->here[spin->calls % 2].signature == signature;
    atomic_thread_fence(memory_order_acquire); /* the row is still that of this call */
    return !same &&
           atomic_load_explicit(&row->here[spin->calls % 2].call, memory_order_relaxed) == spin->calls;
}

/* The first rank whose worker has not come; TT_NONE: all have. Finds one that has come with another call.
 * `well`: the kernels are over, and well, so that a rank that has gone since is not waited for. */
static int32_t look_at_workers(struct tt_spin *spin, uint64_t signature, bool well)
{
    int32_t late = TT_NONE;
    for (int r = spin->n; r-- > 0;) {
        if (!is_here(spin, r)) {
            late = well && comes_no_more(spin, r) ? late : r;
        } else if (calls_something_else(spin, r, signature)) {
            spin->meeting.wrong = r;
            spin->meeting.why = TUTTI_MISMATCH;
        }
    }
    return late;
}

/* That rank's kernels are behind the one of this rank that began with this epoch, or meet nobody any more. */
static bool is_behind(const struct tt_spin *spin, int rank, uint64_t begun)
{
    const struct tt_direct_words *words = &spin->rows[rank]->words;
    return tt_spin_load(&words->begun) < begun || (rank != spin->me && tt_spin_load(&words->left) != 0);
}

/* The first of those. */
static int32_t find_late_kernel(const struct tt_spin *spin)
{
    uint64_t begun = tt_spin_load(&spin->its.row->words.begun);
    for (int r = 0; r < spin->n; r++)
        if (is_behind(spin, r, begun))
            return r;
    return TT_NONE;
}

/* A kernel of a call behind this one has left: this one was over before, and well. */
static bool left_later(const struct tt_spin *spin, const struct tt_gate *gate)
{
    const struct tt_direct_words *words = &spin->its.row->words;
    return tt_spin_load(&words->left) != 0 && tt_spin_load(&words->differs_in) > gate->spin.last;
}

/* A kernel of this call has found that a rank is in another one. */
static void look_at_difference(struct tt_spin *spin, const struct tt_gate *gate)
{
    uint64_t differs = tt_spin_load(&spin->its.row->words.differs);
    if (tt_spin_load(&spin->its.row->words.left) == 0 || differs == 0 || spin->meeting.wrong != TT_NONE ||
        left_later(spin, gate))
        return;
    spin->meeting.wrong = (int32_t)(differs - 1);
    spin->meeting.why = TUTTI_MISMATCH;
}

/* A device takes its time; but a rank that others wait for must not. */
static bool advance(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature)
{
    struct tt_spin *spin = spin_of(meeting);
    const struct tt_direct_words *words = &spin->its.row->words;
    bool moved = !spin->told;
    if (!spin->told)
        tell(spin, signature);
    uint64_t begun = tt_spin_load(&words->begun), over = tt_spin_load(&words->over);
    moved = moved || begun != spin->begun || over != spin->over;
    spin->begun = begun;
    spin->over = over;
    bool ended = over >= gate->spin.last, entered = tt_spin_load(&words->entered) >= gate->spin.first;
    bool well = ended && (tt_spin_load(&words->left) == 0 || left_later(spin, gate));
    int32_t late = look_at_workers(spin, signature, well);
    look_at_difference(spin, gate);
    meeting->served = well;
    meeting->over = well && late == TT_NONE;
    meeting->held = !meeting->over;
    if (meeting->over)
        atomic_store(&spin->numbers_over, gate->spin.last);
    if (!ended)
        late = entered ? find_late_kernel(spin) : TT_NONE;
    meeting->late = late;
    return moved || meeting->over;
}

/* --- The end */

/* The rank's process has ended with all that its device did; or it destroyed the communicator, after its
 * kernels. */
static bool has_gone(struct tt_spin *spin, int rank)
{
    struct tt_endpoint *e = spin->comm->endpoint;
    struct tt_peer_place place;
    const struct tt_arena *arena = spin->arenas[rank];
    bool left = e->control->peer_state(e, rank, &place) == TT_PEER_LEFT;
    return left ||
           (!spin->same_process[rank] && tt_process_is_gone(&spin->processes[rank], !tt_arena_alive(arena)));
}

/* No kernel of another rank reads this one's buffers: those leave, and one that has not begun will see that
 * when it does. */
static bool others_are_out(struct tt_spin *spin)
{
    bool out = true;
    for (int r = 0; r < spin->n && out; r++) {
        const struct tt_direct_words *words = &spin->rows[r]->words;
        bool leaves = __atomic_load_n(&words->abort, __ATOMIC_ACQUIRE) != 0;
        atomic_thread_fence(memory_order_seq_cst);
        out = r == spin->me || (leaves && !tt_spin_is_out(words)) || has_gone(spin, r);
    }
    return out;
}

/* Two threads may say so, and it never becomes less. */
static void tell_kernels(const struct tt_spin *spin, uint32_t what)
{
    uint32_t *abort = &spin->its.row->words.abort, before = __atomic_load_n(abort, __ATOMIC_RELAXED);
    while (before < what &&
           !__atomic_compare_exchange_n(abort, &before, what, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    atomic_thread_fence(memory_order_seq_cst);
}

static bool is_in(struct tt_spin *spin)
{
    return !tt_spin_is_out(&spin->its.row->words);
}

/* A rank that has gone alone had told nobody where its buffers are (tt_spin_goes_alone). */
static bool is_unread(struct tt_spin *spin)
{
    bool left = tt_spin_load(&spin->its.row->words.left) != 0,
         alone = atomic_load(&spin->comm->endpoint->gone);
    return !left || !atomic_load(&spin->placed) || alone || others_are_out(spin);
}

static bool await(struct tt_spin *spin, bool (*is_true)(struct tt_spin *spin))
{
    struct tt_wait w;
    bool is;
    int64_t until = tt_deadline_ns(LEAVE_MS);
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    while (!(is = is_true(spin)) && tt_now_ns() < until)
        tt_wait_idle(&w);
    tt_wait_awake(&w);
    return is;
}

/* Kernels of this rank leave, now and from now on. Returns when the one that runs has, and so stores nothing
 * more, and nobody reads its buffers. */
static void stop(struct tt_spin *spin)
{
    const char *name = spin->comm->identity.name;
    tell_kernels(spin, TT_DIRECT_LEAVE);
    bool in = await(spin, is_in);
    if (!in)
        tt_log(TT_LOG_ERROR,
            "%s, rank %d: its kernel has not left within %d ms; the results of this call are undefined", name,
            spin->me, LEAVE_MS);
    if (in && await(spin, is_unread))
        atomic_store(&spin->numbers_over, UINT64_MAX);
    else if (in)
        tt_log(TT_LOG_ERROR,
            "%s, rank %d: a kernel of another rank has not left within %d ms, and may still read the buffers "
            "of this call",
            name, spin->me, LEAVE_MS);
    tell_kernels(spin, TT_DIRECT_RELEASED);
}

static void leave(struct tt_meeting *meeting, const struct tt_gate *gate)
{
    struct tt_spin *spin = spin_of(meeting);
    (void)gate;
    if (atomic_load(&spin->closing) || tt_endpoint_is_over(spin->comm->endpoint))
        stop(spin);
}

bool tt_spin_goes_alone(struct tt_spin *spin)
{
    if (!spin->serves)
        return true;
    tell_kernels(spin, TT_DIRECT_LEAVE);
    return !atomic_load(&spin->placed) || is_in(spin);
}

void tt_spin_set_meeting(struct tt_spin *spin)
{
    spin->meeting =
        (struct tt_meeting){ .begin = begin, .advance = advance, .leave = leave, .way = TT_MEET_ON_DEVICES };
}

void tt_spin_end(struct tt_spin *spin)
{
    if (spin->serves)
        stop(spin);
}

/* --- Replays, of which no worker knows */

/* "1, 3": whose kernels are behind this one's. Returns the first. */
static int32_t list_late(const struct tt_spin *spin, char *text, size_t bytes)
{
    uint64_t begun = tt_spin_load(&spin->its.row->words.begun);
    int32_t first = find_late_kernel(spin);
    text[0] = '\0';
    for (int r = 0; r < spin->n; r++) {
        size_t length = strlen(text);
        if (is_behind(spin, r, begun))
            snprintf(text + length, bytes - length, "%s%d", length > 0 ? ", " : "", r);
    }
    return first;
}

static void fail_replay(struct tt_spin *spin, tutti_status status, int32_t peer, const char *what)
{
    struct tt_comm *comm = spin->comm;
    struct tt_cause cause = { .status = status, .rank = spin->me, .peer = peer };
    cause.sequence = comm->endpoint->control->completed_by(comm->endpoint, spin->me);
    snprintf(cause.operation, sizeof cause.operation, "replay");
    tt_cause_say(&cause, "%s, found by rank %d: a replay of captured calls waits on device %d %s",
        comm->identity.name, spin->me, spin->its.device, what);
    tt_comm_fail(comm, &cause);
}

/* "for rank 1, 3, for 10000 ms: not launched there". Returns the first of these. */
static int32_t describe_late(const struct tt_spin *spin, int64_t ms, char *what, size_t bytes)
{
    char late[NAMED];
    int32_t peer = list_late(spin, late, sizeof late);
    snprintf(what, bytes, "for rank %s, for %lld ms: not launched there", late, (long long)ms);
    return peer;
}

static void fail_late(struct tt_spin *spin, int64_t ms)
{
    char what[2 * NAMED];
    int32_t peer = describe_late(spin, ms, what, sizeof what);
    fail_replay(spin, TUTTI_TIMEOUT, peer, what);
}

static void tell_late(struct tt_spin *spin, int64_t ms)
{
    char what[2 * NAMED];
    spin->watched.told_late = true;
    describe_late(spin, ms, what, sizeof what);
    tt_log(spin->comm->waiting.timeout_ms < 0 ? TT_LOG_WARN : TT_LOG_INFO,
        "%s, rank %d: a replay of captured calls waits on device %d %s", spin->comm->identity.name, spin->me,
        spin->its.device, what);
}

/* A kernel has left, because another rank's did something else. */
static void look_at_left(struct tt_spin *spin)
{
    const struct tt_direct_words *words = &spin->its.row->words;
    uint64_t differs = tt_spin_load(&words->differs);
    char what[2 * NAMED];
    bool queued = atomic_load(&spin->comm->streams.queued) > 0; /* its worker can say more of it */
    if (tt_spin_load(&words->left) == 0 || differs == 0 || queued)
        return;
    snprintf(
        what, sizeof what, "for rank %d, which has called, or replays, something else", (int)(differs - 1));
    fail_replay(spin, TUTTI_MISMATCH, (int32_t)(differs - 1), what);
}

static void look_at_replay(struct tt_spin *spin)
{
    const struct tt_comm *comm = spin->comm;
    const struct tt_direct_words *words = &spin->its.row->words;
    struct tt_endpoint *e = comm->endpoint;
    struct tt_peer_place place;
    uint64_t begun = tt_spin_load(&words->begun);
    bool numbered = tt_spin_load(&words->entered) != tt_spin_load(&words->over);
    int32_t late = find_late_kernel(spin);
    if (numbered || !tt_spin_is_out(words) || late == TT_NONE) {
        spin->watched.epoch = 0;
        return;
    }
    if (spin->watched.epoch != begun) {
        spin->watched.epoch = begun;
        spin->watched.since_ns = tt_now_ns();
        spin->watched.told_late = false;
        return;
    }
    int64_t ms = (tt_now_ns() - spin->watched.since_ns) / 1000000;
    for (int r = 0; r < spin->n && ms >= GONE_MS; r++) /* not one that has ended this, and left */
        if (is_behind(spin, r, begun) && e->control->peer_state(e, r, &place) != TT_PEER_ALIVE) {
            fail_replay(spin, TUTTI_PEER_LOST, r, "for a rank that has ended, or destroyed its communicator");
            return;
        }
    if (!spin->watched.told_late && tt_fault_is_slow(comm, ms))
        tell_late(spin, ms);
    if (comm->waiting.timeout_ms >= 0 && ms >= comm->waiting.timeout_ms)
        fail_late(spin, ms);
}

/* Kernels of replays leave as those of calls do, and here nobody waits. */
static void end_replays(struct tt_spin *spin)
{
    tell_kernels(spin, TT_DIRECT_LEAVE);
    if (spin->watched.ended_ns == 0)
        spin->watched.ended_ns = tt_deadline_ns(2 * LEAVE_MS);
    if (is_in(spin) && (is_unread(spin) || tt_now_ns() >= spin->watched.ended_ns))
        tell_kernels(spin, TT_DIRECT_RELEASED);
}

void tt_spin_watch(struct tt_spin *spin)
{
    if (!spin->serves)
        return;
    if (tt_endpoint_is_over(spin->comm->endpoint)) {
        end_replays(spin);
        return;
    }
    look_at_left(spin);
    look_at_replay(spin);
}
