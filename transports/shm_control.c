/* SPDX-License-Identifier: BSD-3-Clause */
/* shm_control.c: the control part of the transport: what ranks tell each other besides messages: what they
 * call, how far they are, that they live, and why a communicator ended. */
#include <stddef.h>
#include <string.h>

#include "base/schedule.h"
#include "transports/shm_segment.h"

/* The words of a record that are compared: those between its first one and what is reserved. */
enum { TOLD_WORDS = (offsetof(struct tt_call_record, reserved) + 7) / 8 - 1 };

static struct tt_shm_endpoint *of(struct tt_endpoint *head)
{
    return (struct tt_shm_endpoint *)head;
}

/* Takes back what peers may store here by: a peer that finds no grant, and no mark of a single reader, stores
 * nothing in this rank's memory any more. */
static void withdraw(struct tt_shm_endpoint *e)
{
    struct tt_shm_grant *grants = tt_shm_at(e->control, e->shape.grants);
    struct tt_shm_line *lines = tt_shm_at(e->control, e->shape.lines);
    for (int i = 0; i < TT_CLASSES * e->head.n * TT_SLOTS; i++)
        atomic_store_explicit(&grants[i].number, 0, memory_order_relaxed);
    for (int i = 0; i < TT_CLASSES * e->head.n * TT_SHM_LINES; i++)
        atomic_store_explicit(&lines[i].single_reader, false, memory_order_relaxed);
}

static void ring_all(struct tt_shm_endpoint *e)
{
    for (int i = 0; i < e->nbells; i++)
        tt_doorbell_ring_always(e->bells[i]);
    tt_doorbell_ring_always(&e->control->bell);
}

/* Peers that go on find nothing of this rank any more that they would read in place: the flag of such a line
 * becomes that of its neighbour, which nobody looks for there. Then they are told once more, for a peer that
 * has seen the abort before may have found a line since. */
static void withdraw_sources(struct tt_shm_endpoint *e)
{
    struct tt_shm_line *lines = tt_shm_at(e->control, e->shape.lines);
    if (e->alone.withdrawn)
        return;
    for (int i = 0; i < TT_CLASSES * e->head.n * TT_SHM_LINES; i++)
        if (lines[i].path == TT_PATH_MAPPED || lines[i].path == TT_PATH_PULLED)
            atomic_fetch_add_explicit(&lines[i].flag, 1, memory_order_relaxed);
    e->alone.number = atomic_fetch_add(e->alone.count, 1) + 1;
    e->alone.withdrawn = true;
    ring_all(e);
}

/* True if this peer uses nothing of this rank's: it is outside, or has seen the local abort of this rank. */
static bool is_outside(const struct tt_shm_endpoint *e, const struct tt_shm_peer *peer)
{
    uint32_t seen = atomic_load_explicit(&peer->control->seen, memory_order_acquire);
    return atomic_load_explicit(&peer->control->inside, memory_order_acquire) == 0 ||
           (e->alone.withdrawn && (int32_t)(seen - e->alone.number) >= 0) || !tt_arena_alive(peer->arena);
}

/* Threads are waited for in any case, because what they read may be unmapped next. */
static bool shm_quiet(struct tt_endpoint *head, bool patient)
{
    struct tt_shm_endpoint *e = of(head);
    withdraw(e);
    if (atomic_load(&head->gone))
        withdraw_sources(e);
    bool fenced = tt_fence_heavy();
    for (int rank = 0; rank < head->n; rank++) {
        const struct tt_shm_peer *peer = &e->peers[rank];
        if (rank != head->me && peer->control != NULL && (peer->same || patient) && !is_outside(e, peer))
            return false;
    }
    return fenced || !patient;
}

/* True if the same was called TT_CALLS_KEPT operations ago, as in a loop. */
static bool stands(const _Atomic uint64_t *words, const struct tt_call_record *call)
{
    uint64_t told[TOLD_WORDS];
    memcpy(told, (const uint8_t *)call + sizeof told[0], sizeof told);
    return ((atomic_load_explicit(&words[1], memory_order_relaxed) ^ told[0]) |
               (atomic_load_explicit(&words[2], memory_order_relaxed) ^ told[1]) |
               (atomic_load_explicit(&words[3], memory_order_relaxed) ^ told[2]) |
               (atomic_load_explicit(&words[4], memory_order_relaxed) ^ told[3])) == 0;
}

/* A record may be read while it is replaced, so it is written word by word: the first one is taken away
 * first and written last, and who reads a new word also sees that the old first one is gone. */
static void write_record(_Atomic uint64_t *words, const struct tt_call_record *call, uint64_t first)
{
    uint64_t word;
    atomic_store_explicit(&words[0], 0, memory_order_relaxed);
    for (int i = 1; i < TT_SHM_CALL_WORDS; i++) {
        memcpy(&word, (const uint8_t *)call + i * sizeof word, sizeof word);
        atomic_store_explicit(&words[i], word, memory_order_release);
    }
    atomic_store_explicit(&words[0], first, memory_order_release);
}

static bool read_record(const _Atomic uint64_t *words, uint64_t first, struct tt_call_record *call)
{
    uint64_t copy[TT_SHM_CALL_WORDS];
    if (atomic_load_explicit(&words[0], memory_order_acquire) != first)
        return false;
    copy[0] = first;
    for (int i = 1; i < TT_SHM_CALL_WORDS; i++)
        copy[i] = atomic_load_explicit(&words[i], memory_order_acquire);
    if (atomic_load_explicit(&words[0], memory_order_relaxed) != first)
        return false;
    memcpy((void *)call, copy, sizeof copy);
    return true;
}

static void publish_wait(struct tt_shm_control *control, const struct tt_call_record *call)
{
    if (call != NULL)
        write_record(control->wait, call, 1);
    else
        atomic_store_explicit(&control->wait[0], 0, memory_order_relaxed);
}

static void shm_publish(struct tt_endpoint *head, const struct tt_call_record *call, uint64_t sequence)
{
    struct tt_shm_control *control = of(head)->control;
    _Atomic uint64_t *words = control->calls[sequence % TT_CALLS_KEPT];
    _Static_assert(TOLD_WORDS == 4, "all of them are compared");
    if (sequence == TT_WAIT)
        publish_wait(control, call);
    else if (call == NULL)
        atomic_store_explicit(&control->completed, sequence + 1, memory_order_release);
    else if (stands(words, call))
        atomic_store_explicit(&words[0], sequence + 1, memory_order_release);
    else
        write_record(words, call, sequence + 1);
}

static bool shm_call_of(struct tt_endpoint *head, int peer, uint64_t sequence, struct tt_call_record *call)
{
    const struct tt_shm_control *control = of(head)->peers[peer].control;
    return sequence == TT_WAIT ? read_record(control->wait, 1, call)
                               : read_record(control->calls[sequence % TT_CALLS_KEPT], sequence + 1, call);
}

static _Atomic uint64_t *refused_word(
    const struct tt_shm_endpoint *e, struct tt_shm_control *control, const struct tt_refusal *r)
{
    _Atomic uint64_t *messages = tt_shm_at(control, e->shape.refused);
    return r->peer == TT_NONE ? &control->refused : &messages[(r->sends ? e->head.n : 0) + r->peer];
}

static void take_back(struct tt_shm_endpoint *e)
{
    _Atomic uint64_t *messages = tt_shm_at(e->control, e->shape.refused);
    atomic_store_explicit(&e->control->refused, 0, memory_order_release);
    for (int i = 0; i < 2 * e->head.n; i++)
        atomic_store_explicit(&messages[i], 0, memory_order_release);
}

/* A text may be read while it is replaced, so all is between two counts. */
static void shm_refuse(struct tt_endpoint *head, const struct tt_refusal *refusal)
{
    struct tt_shm_endpoint *e = of(head);
    struct tt_shm_control *c = e->control;
    uint64_t told = atomic_load_explicit(&c->refusals, memory_order_relaxed), word;
    if (refusal == NULL) {
        take_back(e);
        return;
    }
    atomic_store_explicit(&c->refusals, told + 1, memory_order_relaxed);
    for (int i = 0; i < TT_SHM_REFUSAL_WORDS; i++) {
        memcpy(&word, refusal->text + i * sizeof word, sizeof word);
        atomic_store_explicit(&c->refusal[i], word, memory_order_release);
    }
    atomic_store_explicit(refused_word(e, c, refusal), refusal->number + 1, memory_order_release);
    atomic_store_explicit(&c->refusals, told + 2, memory_order_release);
}

static bool shm_refused(struct tt_endpoint *head, int rank, struct tt_refusal *refusal)
{
    struct tt_shm_endpoint *e = of(head);
    struct tt_shm_control *c = e->peers[rank].control;
    uint64_t told = atomic_load_explicit(&c->refusals, memory_order_acquire), word;
    uint64_t number = atomic_load_explicit(refused_word(e, c, refusal), memory_order_acquire);
    if (told % 2 != 0 || number == 0)
        return false;
    refusal->number = number - 1;
    for (int i = 0; i < TT_SHM_REFUSAL_WORDS; i++) {
        word = atomic_load_explicit(&c->refusal[i], memory_order_acquire);
        memcpy(refusal->text + i * sizeof word, &word, sizeof word);
    }
    refusal->text[TT_REFUSAL_TEXT - 1] = '\0';
    return atomic_load_explicit(&c->refusals, memory_order_relaxed) == told;
}

/* A note may be read while it is replaced, so it is between two counts. */
static void shm_note(struct tt_endpoint *head, const struct tt_note *note)
{
    struct tt_shm_control *c = of(head)->control;
    uint64_t left = atomic_load_explicit(&c->notes, memory_order_relaxed), word;
    atomic_store_explicit(&c->notes, left + 1, memory_order_relaxed);
    for (int i = 0; i < TT_SHM_NOTE_WORDS; i++) {
        memcpy(&word, (const uint8_t *)note + i * sizeof word, sizeof word);
        atomic_store_explicit(&c->note[i], word, memory_order_release);
    }
    atomic_store_explicit(&c->notes, left + 2, memory_order_release);
}

static bool shm_note_of(struct tt_endpoint *head, int peer, struct tt_note *note)
{
    const struct tt_shm_control *c = of(head)->peers[peer].control;
    uint64_t left = atomic_load_explicit(&c->notes, memory_order_acquire), word;
    for (int i = 0; i < TT_SHM_NOTE_WORDS; i++) {
        word = atomic_load_explicit(&c->note[i], memory_order_acquire);
        memcpy((uint8_t *)note + i * sizeof word, &word, sizeof word);
    }
    return left != 0 && left % 2 == 0 && atomic_load_explicit(&c->notes, memory_order_relaxed) == left;
}

static uint64_t shm_completed_by(struct tt_endpoint *head, int peer)
{
    return atomic_load_explicit(&of(head)->peers[peer].control->completed, memory_order_acquire);
}

static enum tt_peer_state shm_peer_state(struct tt_endpoint *head, int peer, struct tt_peer_place *place)
{
    const struct tt_shm_peer *p = &of(head)->peers[peer];
    *place = (struct tt_peer_place){ .process = p->pid };
    uint32_t left = atomic_load_explicit(&p->control->left, memory_order_acquire);
    if (left != TT_SHM_STAYS)
        return left == TT_SHM_ABORTED ? TT_PEER_ABORTED : TT_PEER_LEFT;
    if (tt_arena_alive(p->arena))
        return TT_PEER_ALIVE;
    return tt_arena_exited(p->arena) ? TT_PEER_EXITED : TT_PEER_DEAD;
}

/* Threads of one rank may come here together (a user's abort, and a wait that found a dead peer), and the
 * rank has one record: hence the mutex. Between ranks the abort word decides. */
static bool shm_abort(struct tt_endpoint *head, const struct tt_cause *cause)
{
    struct tt_shm_endpoint *e = of(head);
    if (!e->connected)
        return false;
    uint32_t nobody = 0;
    pthread_mutex_lock(&e->aborting);
    bool won = !tt_endpoint_is_over(head);
    if (won) {
        e->control->cause = *cause;
        won = atomic_compare_exchange_strong(e->aborted, &nobody, (uint32_t)head->me + 1);
    }
    pthread_mutex_unlock(&e->aborting);
    ring_all(e);
    return won;
}

static bool shm_abort_local(struct tt_endpoint *head, const struct tt_cause *cause)
{
    struct tt_shm_endpoint *e = of(head);
    if (!e->connected)
        return false;
    pthread_mutex_lock(&e->aborting);
    bool first = !tt_endpoint_is_over(head);
    if (first) {
        e->alone.cause = *cause;
        atomic_store(&head->gone, true);
        atomic_store_explicit(&e->control->left, TT_SHM_ABORTED, memory_order_release);
        atomic_fetch_add(e->alone.count, 1);
    }
    pthread_mutex_unlock(&e->aborting);
    ring_all(e);
    return first;
}

static bool shm_cause(struct tt_endpoint *head, struct tt_cause *cause)
{
    struct tt_shm_endpoint *e = of(head);
    if (atomic_load_explicit(&head->gone, memory_order_acquire)) {
        *cause = e->alone.cause;
        return true;
    }
    uint32_t winner = atomic_load_explicit(e->aborted, memory_order_acquire);
    if (winner == 0)
        return false;
    const struct tt_shm_control *of_winner = e->peers[(winner - 1) % (uint32_t)head->n].control;
    *cause = of_winner != NULL ? of_winner->cause : e->control->cause;
    cause->operation[sizeof cause->operation - 1] = '\0';
    cause->text[sizeof cause->text - 1] = '\0';
    return true;
}

static void shm_ring(struct tt_endpoint *head, int peer)
{
    const struct tt_shm_endpoint *e = of(head);
    if (e->peers[peer].bell != NULL)
        tt_doorbell_ring_light(e->peers[peer].bell, head->light);
}

const struct tt_control_ops tt_shm_control_ops = {
    .publish = shm_publish,
    .call_of = shm_call_of,
    .completed_by = shm_completed_by,
    .refuse = shm_refuse,
    .refused = shm_refused,
    .note = shm_note,
    .note_of = shm_note_of,
    .peer_state = shm_peer_state,
    .abort = shm_abort,
    .abort_local = shm_abort_local,
    .cause = shm_cause,
    .quiet = shm_quiet,
    .ring = shm_ring,
};
