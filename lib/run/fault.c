/* SPDX-License-Identifier: BSD-3-Clause */
/* fault.c: what went wrong, decided once, told to all.
 *
 * A rank that has waited long compares its peers' call records with its own (a mismatch), asks whether
 * they live and have completed this operation (a death or departure matters only if they have not), and
 * looks at the deadline. The first cause on any rank is every rank's. Each text names both calls, the
 * ranks and the operation's number, and is read on every rank: it speaks of each rank by its number. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "run/run.h"
#include "observe/recorder.h"

enum { DESCRIPTION = 128, NAMED_AT_MOST = 16, LEARN_MS = 500, WAIT_TEXT = 192 + TT_REFUSAL_TEXT };

static tutti_status __attribute__((format(printf, 4, 5)))
tell(const struct tt_pending *p, tutti_status status, int peer, const char *format, ...)
{
    const struct tt_comm *comm = p->call.comm;
    struct tt_cause cause = {
        .status = status, .rank = comm->rank, .peer = peer, .sequence = p->op->messages.sequence
    };
    snprintf(cause.operation, sizeof cause.operation, "%s", tt_collectives[p->call.collective].name);
    int length =
        snprintf(cause.text, sizeof cause.text, "%s, found by rank %d: ", comm->identity.name, comm->rank);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cause.text + length, sizeof cause.text - (size_t)length, format, arguments);
    va_end(arguments);
    return tt_comm_fail(p->call.comm, &cause);
}

/* Operation `sequence`, as this rank and a peer called it. */
static tutti_status tell_mismatch(const struct tt_pending *p, int peer, uint64_t sequence,
    const struct tt_call_record *mine, const struct tt_call_record *theirs)
{
    const struct tt_comm *comm = p->call.comm;
    char ours[DESCRIPTION], other[DESCRIPTION];
    struct tt_cause cause = {
        .status = TUTTI_MISMATCH, .rank = comm->rank, .peer = peer, .sequence = sequence
    };
    tt_record_describe(mine, ours, sizeof ours);
    tt_record_describe(theirs, other, sizeof other);
    bool same_text = strcmp(ours, other) == 0;
    snprintf(cause.operation, sizeof cause.operation, "%s", tt_collectives[mine->collective].name);
    tt_cause_say(&cause, "%s, found by rank %d: operation %llu: rank %d called %s, rank %d called %s%s",
        comm->identity.name, comm->rank, (unsigned long long)sequence, comm->rank, ours, peer, other,
        same_text ? " (with another algorithm, exactness, slicing or other counts)" : "");
    return tt_comm_fail(p->call.comm, &cause);
}

/* A rank whose part needed no answer may have gone on: the operation that differs can be an earlier one. */
static bool find_difference(const struct tt_op *op, int peer, uint64_t *sequence, struct tt_call_record *mine,
    struct tt_call_record *theirs)
{
    const struct tt_control_ops *control = op->endpoint->control;
    for (uint64_t back = TT_CALLS_KEPT; back-- > 0;) {
        *sequence = op->messages.sequence - back;
        if (back <= op->messages.sequence &&
            control->call_of(op->endpoint, op->endpoint->me, *sequence, mine) &&
            control->call_of(op->endpoint, peer, *sequence, theirs) && mine->signature != theirs->signature)
            return true;
    }
    return false;
}

/* Counts that only two ranks know, and do not agree on. `what` says how it showed. */
static tutti_status tell_counts(const struct tt_pending *p, int peer, const char *what)
{
    const struct tt_op *op = p->op;
    char mine[DESCRIPTION];
    uint32_t me = (uint32_t)p->call.comm->rank, other = (uint32_t)peer;
    const struct tt_collective_row *row = &tt_collectives[p->call.collective];
    uint64_t given = tt_layout_chunk(&op->given, row->in == TT_REACH_OWN ? me : other).count;
    uint64_t expected = tt_layout_chunk(&op->layout, row->out == TT_REACH_OWN ? me : other).count;
    tt_call_describe(&p->call, mine, sizeof mine);
    return tell(p, TUTTI_MISMATCH, peer,
        "operation %llu, %s: rank %d %s: the counts differ; those of rank %d say %llu elements to rank %d "
        "and %llu from it",
        (unsigned long long)op->messages.sequence, mine, peer, what, (int)me,
        (unsigned long long)(row->in == TT_REACH_ROOT && p->call.root != (int)me ? 0 : given), peer,
        (unsigned long long)(row->out == TT_REACH_ROOT && p->call.root != (int)me ? 0 : expected));
}

/* Calls that differ, of which no record is left. */
static tutti_status tell_earlier(const struct tt_pending *p, int peer, const char *what)
{
    char mine[DESCRIPTION];
    tt_call_describe(&p->call, mine, sizeof mine);
    return tell(p, TUTTI_MISMATCH, peer,
        "operation %llu: rank %d called %s, and rank %d %s: the ranks have called different things, in this "
        "operation or in one that is more than %d operations back",
        (unsigned long long)p->op->messages.sequence, p->call.comm->rank, mine, peer, what,
        TT_CALLS_KEPT - 1);
}

static bool has_called(const struct tt_op *op, int peer)
{
    const struct tt_control_ops *control = op->endpoint->control;
    struct tt_call_record record;
    return control->call_of(op->endpoint, peer, op->messages.sequence, &record) ||
           control->completed_by(op->endpoint, peer) > op->messages.sequence;
}

/* Waits a moment for what the peer called, for a rank of another host tells that only when it is asked. */
static void learn_call(const struct tt_op *op, int peer)
{
    int64_t deadline_ns = tt_deadline_ns(LEARN_MS);
    while (!has_called(op, peer) && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
}

tutti_status tt_fault_of_op(const struct tt_pending *p)
{
    const struct tt_op *op = p->op;
    struct tt_call_record own, theirs;
    uint64_t sequence;
    char mine[DESCRIPTION];
    if (op->messages.class == TT_CLASS_COLLECTIVE && op->result.status == TUTTI_MISMATCH)
        learn_call(op, op->result.peer);
    tt_call_describe(&p->call, mine, sizeof mine);
    if (op->result.status != TUTTI_MISMATCH)
        return tell(p, op->result.status, op->result.peer,
            "%s: rank %d cannot read the memory of rank %d: %s", mine, p->call.comm->rank, op->result.peer,
            tt_last_error());
    if (op->messages.class == TT_CLASS_COLLECTIVE &&
        find_difference(op, op->result.peer, &sequence, &own, &theirs))
        return tell_mismatch(p, op->result.peer, sequence, &own, &theirs);
    if (op->one_sided)
        return tell_counts(p, op->result.peer, "sent a message of another length, or of a later call");
    if (op->messages.class == TT_CLASS_COLLECTIVE)
        return tell_earlier(p, op->result.peer, "sent a message of another call");
    return tell(p, TUTTI_MISMATCH, op->result.peer,
        "operation %llu: rank %d called %s, but rank %d sent a message of %llu bytes that belongs to another "
        "call, or to an earlier one where rank %d expected none",
        (unsigned long long)op->messages.sequence, p->call.comm->rank, mine, op->result.peer,
        (unsigned long long)op->result.arrival.bytes, p->call.comm->rank);
}

/* Rank `peer` refused a collective, or, as `sends` says, a message of its own with this rank, and has
 * started nothing since. Not so if this rank refused the same: then both went on. */
static bool refused_alone(
    const struct tt_pending *p, int peer, bool message, bool sends, struct tt_refusal *r)
{
    const struct tt_op *op = p->op;
    *r = (struct tt_refusal){ .peer = message ? op->endpoint->me : TT_NONE, .sends = sends };
    return op->endpoint->control->refused(op->endpoint, peer, r) &&
           tt_refused_of(p->call.comm, message ? peer : TT_NONE, message && !sends)->last != r->number + 1;
}

/* Rank `peer`, which this call waits for, has its words in `r`. */
static bool has_refused(const struct tt_pending *p, int peer, struct tt_refusal *r)
{
    const struct tt_op *op = p->op;
    if (op->endpoint->control->refused == NULL ||
        (op->messages.class == TT_CLASS_COLLECTIVE && has_called(op, peer)))
        return false;
    return refused_alone(p, peer, false, false, r) || refused_alone(p, peer, true, false, r) ||
           refused_alone(p, peer, true, true, r);
}

/* Ends a wait for a peer that has refused its own call, unless the peer makes that call right soon. */
static tutti_status inspect_refusals(struct tt_pending *p, int64_t stalled_ms)
{
    const struct tt_comm *comm = p->call.comm;
    bool p2p = p->op->messages.class == TT_CLASS_P2P, found = false;
    int peer = p2p ? p->call.root : 0, end = p2p ? peer + 1 : comm->n;
    struct tt_refusal refusal;
    char mine[DESCRIPTION];
    if (comm->settings.refusal_ms == 0)
        return TUTTI_OK;
    while (!found && peer < end)
        if (peer == comm->rank || !(found = has_refused(p, peer, &refusal)))
            peer++;
    if (!found || p->refused_ms > stalled_ms + 1)
        p->refused_ms = 0;
    if (found && p->refused_ms == 0)
        p->refused_ms = stalled_ms + 1;
    if (!found || stalled_ms + 1 - p->refused_ms < (int64_t)comm->settings.refusal_ms)
        return TUTTI_OK;
    tt_call_describe(&p->call, mine, sizeof mine);
    return tell(p, TUTTI_INVALID_USAGE, peer, "operation %llu, %s: rank %d refused its own call, %s",
        (unsigned long long)p->op->messages.sequence, mine, peer, refusal.text);
}

static tutti_status inspect_records(const struct tt_pending *p)
{
    const struct tt_op *op = p->op;
    uint64_t sequence;
    struct tt_call_record own, record;
    for (int peer = 0; peer < p->call.comm->n; peer++)
        if (peer != p->call.comm->rank &&
            op->endpoint->control->call_of(op->endpoint, peer, op->messages.sequence, &record) &&
            record.signature != tt_hash_short(op->messages.hash) &&
            find_difference(op, peer, &sequence, &own, &record))
            return tell_mismatch(p, peer, sequence, &own, &record);
    return TUTTI_OK;
}

static tutti_status tell_gone(
    const struct tt_pending *p, int peer, enum tt_peer_state state, const struct tt_peer_place *place)
{
    static const char *const ways[] = { [TT_PEER_LEFT] = "destroyed its communicator without taking part",
        [TT_PEER_ABORTED] = "aborted its end of the communicator (tutti_comm_abort_local)",
        [TT_PEER_EXITED] = "ended without tutti_comm_destroy",
        [TT_PEER_DEAD] = "died or became another program",
        [TT_PEER_GONE] = "has ended, or destroyed its communicator, without taking part",
        [TT_PEER_REFUSES] = "refuses connections",
        [TT_PEER_SILENT] = "is on a host that does not answer any more (TUTTI_HEARTBEAT)" };
    char mine[DESCRIPTION], process[40 + TT_HOST_TEXT] = "", doubt[200 + TT_HOST_TEXT] = "";
    struct tt_refusal refusal;
    tt_call_describe(&p->call, mine, sizeof mine);
    if (place->process != 0 && (state != TT_PEER_LEFT || place->host[0] != '\0'))
        snprintf(process, sizeof process, " (process %ld%s%s)", place->process,
            place->host[0] != '\0' ? " at " : "", place->host);
    if (state == TT_PEER_REFUSES)
        snprintf(doubt, sizeof doubt,
            ", of rank %d at %s: it has ended, or destroyed its communicator, without taking part; or that "
            "address is not its own (TUTTI_INTERFACE there), or a firewall refuses for it",
            p->call.comm->rank, place->from);
    bool refused = has_refused(p, peer, &refusal);
    return tell(p, TUTTI_PEER_LOST, peer, "operation %llu, %s: rank %d %s%s%s%s%s",
        (unsigned long long)p->op->messages.sequence, mine, peer, ways[state], process, doubt,
        refused ? ", having refused its own call, " : "", refused ? refusal.text : "");
}

/* A rank that has completed an operation will neither send nor take anything more of it. What it did before
 * may still be on its way: one more poll decides. */
static tutti_status inspect_completed(struct tt_pending *p)
{
    const struct tt_op *op = p->op;
    const struct tt_control_ops *control = op->endpoint->control;
    int peer = tt_exec_waits_for(op);
    uint64_t completed = peer != TT_NONE ? control->completed_by(op->endpoint, peer) : 0;
    bool over = completed > op->messages.sequence;
    struct tt_peer_place place;
    if (completed == TT_ALL_OVER && p->call.collective == TT_BARRIER &&
        control->peer_state(op->endpoint, peer, &place) == TT_PEER_ALIVE)
        over = false; /* it comes to that (release.c) */
    if (over && p->suspect && completed == TT_ALL_OVER) {
        control->peer_state(op->endpoint, peer, &place);
        return tell_gone(p, peer, TT_PEER_LEFT, &place);
    }
    if (over && p->suspect) {
        char what[80];
        snprintf(what, sizeof what, "has completed it without the message that rank %d awaits",
            p->call.comm->rank);
        return op->one_sided ? tell_counts(p, peer, what) : tell_earlier(p, peer, what);
    }
    p->suspect = over;
    return TUTTI_OK;
}

static tutti_status inspect_peers(struct tt_pending *p)
{
    const struct tt_op *op = p->op;
    const struct tt_control_ops *control = op->endpoint->control;
    struct tt_peer_place place;
    if (op->messages.class == TT_CLASS_P2P) { /* what it sent before may be there: one more poll decides */
        enum tt_peer_state state = control->peer_state(op->endpoint, p->call.root, &place);
        if (state == TT_PEER_ALIVE && control->completed_by(op->endpoint, p->call.root) == TT_ALL_OVER)
            state = TT_PEER_LEFT; /* its end is still there, but it makes no calls any more */
        if (state != TT_PEER_ALIVE && p->suspect)
            return tell_gone(p, p->call.root, state, &place);
        p->suspect = state != TT_PEER_ALIVE;
        return TUTTI_OK;
    }
    bool before = p->missed; /* a kernel may have ended the call since the last poll: one more decides */
    p->missed = false;
    if (tt_exec_is_served(op))
        return TUTTI_OK;
    for (int peer = 0; peer < p->call.comm->n && !p->missed; peer++) {
        if (peer == p->call.comm->rank)
            continue;
        enum tt_peer_state state = control->peer_state(op->endpoint, peer, &place);
        p->missed =
            state != TT_PEER_ALIVE && control->completed_by(op->endpoint, peer) <= op->messages.sequence;
        if (p->missed && before)
            return tell_gone(p, peer, state, &place);
    }
    return TUTTI_OK;
}

/* "2, 5": the ranks that have not made this call; empty if all have. Returns the only one; TT_NONE if there
 * is none, or more. */
static int list_absent(const struct tt_pending *p, char *text, size_t bytes)
{
    int only = TT_NONE;
    int absent = 0;
    text[0] = '\0';
    for (int peer = 0; peer < p->call.comm->n; peer++) {
        if (peer == p->call.comm->rank || has_called(p->op, peer))
            continue;
        size_t length = strlen(text);
        only = absent == 0 ? peer : TT_NONE;
        if (absent++ < NAMED_AT_MOST)
            snprintf(text + length, bytes - length, "%s%d", absent == 1 ? "" : ", ", peer);
    }
    if (absent > NAMED_AT_MOST)
        snprintf(text + strlen(text), bytes - strlen(text), " and %d more", absent - NAMED_AT_MOST);
    return only;
}

/* ", which ..." of a rank that is waited for. */
static void name_reason(const struct tt_pending *p, int peer, char *text, size_t bytes)
{
    struct tt_refusal refusal;
    if (peer >= 0 && peer < p->call.comm->n && has_refused(p, peer, &refusal))
        snprintf(text, bytes, ", which refused its own call, %s", refusal.text);
    else
        tt_fault_name_call(p, peer, text, bytes);
}

/* "not called yet by rank 2, 5", or "waiting for rank 3, which ...". Returns the rank that it waits for. */
static int describe_wait(const struct tt_pending *p, char *text, size_t bytes)
{
    char absent[160] = "", theirs[TT_REFUSAL_TEXT + 32] = "";
    int peer = tt_exec_waits_for(p->op), only = TT_NONE;
    if (p->op->messages.class == TT_CLASS_COLLECTIVE)
        only = list_absent(p, absent, sizeof absent);
    name_reason(p, absent[0] != '\0' ? only : peer, theirs, sizeof theirs);
    if (absent[0] != '\0')
        snprintf(text, bytes, "not called yet by rank %s%s", absent, theirs);
    else
        snprintf(text, bytes, "waiting for rank %d%s", peer, theirs);
    return peer;
}

static tutti_status tell_timeout(const struct tt_pending *p, int64_t stalled_ms)
{
    char mine[DESCRIPTION], whom[WAIT_TEXT];
    int peer = describe_wait(p, whom, sizeof whom);
    tt_call_describe(&p->call, mine, sizeof mine);
    return tell(p, TUTTI_TIMEOUT, peer, "operation %llu, %s: nothing moved for %lld ms; %s",
        (unsigned long long)p->op->messages.sequence, mine, (long long)stalled_ms, whom);
}

bool tt_fault_is_slow(const struct tt_comm *comm, int64_t stalled_ms)
{
    return comm->settings.wait_warning_ms != 0 && stalled_ms >= (int64_t)comm->settings.wait_warning_ms;
}

/* A deadline tells in the end; without one nobody would. */
static enum tt_log_level level_of(const struct tt_comm *comm)
{
    return comm->waiting.timeout_ms < 0 ? TT_LOG_WARN : TT_LOG_INFO;
}

void tt_fault_tell_slow(struct tt_pending *p, int64_t stalled_ms)
{
    const struct tt_comm *comm = p->call.comm;
    char mine[DESCRIPTION], whom[WAIT_TEXT];
    if (p->told || !tt_fault_is_slow(comm, stalled_ms) || !tt_log_enabled(level_of(comm)))
        return;
    p->told = true;
    tt_call_describe(&p->call, mine, sizeof mine);
    describe_wait(p, whom, sizeof whom);
    tt_log(level_of(comm), "%s, rank %d: operation %llu, %s: nothing moved for %lld ms; %s",
        comm->identity.name, comm->rank, (unsigned long long)p->op->messages.sequence, mine,
        (long long)stalled_ms, whom);
}

void tt_fault_tell_undecided(const struct tt_call *call, int64_t ms)
{
    const struct tt_comm *comm = call->comm;
    char mine[DESCRIPTION];
    tt_call_describe(call, mine, sizeof mine);
    tt_log(level_of(comm),
        "%s, rank %d: operation %llu, %s: nothing moved for %lld ms; not called yet by all ranks of this "
        "process",
        comm->identity.name, comm->rank, (unsigned long long)comm->numbers.sequence, mine, (long long)ms);
}

tutti_status tt_fault_inspect(struct tt_pending *p, int64_t stalled_ms)
{
    tutti_status status = TUTTI_OK;
    tt_entry_wait(p->op->observed.entry, tt_exec_waits_for(p->op), stalled_ms);
    if (p->call.staging != NULL)
        tt_entry_serve(p->op->observed.entry, tt_gate_served(&p->call.staging->gate));
    if (p->op->messages.class == TT_CLASS_COLLECTIVE)
        status = inspect_records(p);
    if (status == TUTTI_OK)
        status = inspect_peers(p);
    if (status == TUTTI_OK)
        status = inspect_refusals(p, stalled_ms);
    if (status == TUTTI_OK && p->op->messages.class == TT_CLASS_COLLECTIVE)
        status = inspect_completed(p);
    bool decided = !p->missed && !p->suspect; /* else the next look tells a better reason, or there is none */
    if (status == TUTTI_OK && decided && p->call.comm->waiting.timeout_ms >= 0 &&
        stalled_ms >= p->call.comm->waiting.timeout_ms)
        status = tell_timeout(p, stalled_ms);
    return status;
}
