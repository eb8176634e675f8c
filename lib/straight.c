/* SPDX-License-Identifier: BSD-3-Clause */
/* straight.c: a small call runs its schedule in program order, as its lane has it (lane.h).
 *
 * The fused path of small operations: the same schedule, messages, numbers, folds and header as the
 * executor's, without plan, binding or ready list, so its peers cannot tell, and any rank may take either.
 * That a schedule may run in program order, each send without waiting for its reader, is the third thing
 * that the verifier proves of it. A unit is done when all its messages are there, or not at all. If they are
 * long in coming, or look strange, the executor takes over at that unit: looking around, blaming and giving
 * up are written once.
 *
 * Most small calls of two ranks need even less: nothing is lent, and each message comes within the first few
 * looks. They hurry, and take time for the rest only from where that does not hold.
 *
 * By two shots, the sum of a part is stored in the same pass wherever its readers have it:
 *
 *     they have granted (their memory is shared):   in their OUT; then a line says "placed"
 *     their operand came by a shuttle:              where it lies, and the shuttle goes back with it
 *     neither, and OUT is shared:                   nowhere else; it is lent
 *
 * so that nothing is copied after it was computed. */
#include "base/few.h"
#include "base/wait.h"
#include "group.h"
#include "lane.h"
#include "recorder.h"

enum { LOOKS_APART = 16 }; /* pauses */

struct trip { /* a call on its way */
    struct tt_comm *comm;
    struct tt_lane *lane;
    uint8_t *base[TT_BUFFERS];
    struct tt_entry *entry; /* NULL: not noted yet */
    struct tt_wait wait;
    bool waiting;
    bool hasty; /* it does not wait */
    bool shared[TT_BUFFERS]; /* memory that peers can map */
    bool awaits; /* who reads what it has lent */
    uint32_t step; /* of the schedule, where it stands when it cannot go on */
    int64_t slow_ns; /* when it last came to do more than spin; 0: it has not */
    uint8_t *spread[TT_FOLD_MAX]; /* where else a result was stored; NULL: it was not */
    bool placed[TT_FOLD_MAX]; /* and that is where a peer wants it */
};

static uint64_t number(const struct tt_hop *hop)
{
    return *hop->next + hop->ordinal;
}

static uint32_t mark(const struct tt_lane *lane, const struct tt_move *m)
{
    return lane->own_counts ? tt_exec_mark(lane->signature, m->elements) : lane->signature;
}

/* Nothing has come: wait a little. False if it is time to look around. */
static bool linger(struct trip *t)
{
    if (t->hasty)
        return false;
    if (!t->waiting) {
        tt_wait_begin(&t->wait, t->comm->wait_policy, &t->comm->endpoint->doorbell, 1);
        t->waiting = true;
    }
    const struct tt_endpoint *e = t->comm->endpoint;
    bool serves =
        t->comm->on_wait != NULL && tt_wait_is_asleep(&t->wait); /* which the executor's wait does */
    if (!serves && !tt_wait_idle(&t->wait) && atomic_load_explicit(e->ended, memory_order_acquire) == 0)
        return true;
    if (e->doorbell != NULL)
        tt_doorbell_ring_always(e->doorbell); /* the wait ends for another reason than a ring */
    return false;
}

/* What a peer is about to write has not come; `looks` is how often this rank has looked before. False if it
 * is time to look around. */
static bool look_later(struct trip *t, uint32_t looks)
{
    if (looks >= t->comm->wait_policy.keen_polls)
        return linger(t);
    tt_look_again();
    return true;
}

/* There is no room. Who looks for it all the time takes the acknowledgements out of the cache of the peer,
 * which writes them. */
static bool hold_back(struct trip *t)
{
    for (int i = 0; i < LOOKS_APART; i++) {
        if (!linger(t))
            return false;
        if (tt_wait_is_long(&t->wait))
            break;
    }
    return true;
}

/* Is this message lent? If not, *src is from where it is posted. */
static bool is_lent(struct trip *t, struct tt_move *m, const uint8_t **src)
{
    if (m->result > 0 && t->spread[m->result - 1] != NULL) {
        *src = t->placed[m->result - 1] ? NULL : t->spread[m->result - 1];
        return false;
    }
    bool lent = m->lends && t->shared[m->buffer[1]] && !(m->watched && tt_lane_is_rewritten(m, *src));
    t->awaits = t->awaits || (lent && !m->answered);
    return lent;
}

TT_INLINE bool send(struct trip *t, struct tt_move *m)
{
    const struct tt_transport *transport = t->comm->transport;
    bool (*go)(struct tt_link *, uint64_t, uint32_t, const void *, uint32_t) = transport->post;
    const uint8_t *src = t->base[m->buffer[1]] + m->at[1];
    if (m->chooses && is_lent(t, m, &src))
        go = transport->lend;
    while (!go(m->hops->link, number(m->hops), mark(t->lane, m), src, m->bytes))
        if (!hold_back(t))
            return false;
    return true;
}

/* Nobody reads what was lent any more. False if it is time to look around. */
static bool await_readers(struct trip *t)
{
    tt_pause();
    for (uint32_t i = 0; i < t->lane->nmoves; i++) {
        const struct tt_move *m = &t->lane->moves[i];
        if (!m->lends || m->answered)
            continue;
        for (uint32_t polls = 0;
             !t->comm->transport->sent(t->comm->endpoint, m->hops->peer, t->lane->class, number(m->hops));
             polls++)
            if (!look_later(t, polls))
                return false;
    }
    return true;
}

/* The bytes of a message; NULL if they do not come, or are not what they should be. */
TT_INLINE const void *await(struct trip *t, const struct tt_hop *hop, const struct tt_move *m)
{
    enum tt_peek (*peek)(struct tt_link *, uint64_t, uint32_t, uint32_t, const void **) =
        t->comm->transport->peek;
    uint64_t n = number(hop);
    uint32_t signature = mark(t->lane, m);
    const void *payload = t->base[m->buffer[0]] + m->at[0]; /* where it is placed */
    for (uint32_t polls = 0;; polls++) {
        enum tt_peek found = peek(hop->link, n, signature, m->bytes, &payload);
        if (found != TT_PEEK_NOTHING)
            return payload;
        if (!look_later(t, polls))
            return NULL;
    }
}

static void copy(void *dst, const void *src, uint32_t bytes)
{
    if (bytes <= TT_FEW_BYTES)
        tt_copy_few(dst, src, bytes);
    else
        tt_copy_bytes(dst, src, bytes);
}

/* Where peers want the sum of what they sent, or, if they do not say, where that came to lie. */
static int find_targets(struct trip *t, const struct tt_move *fold, uint8_t **targets)
{
    const struct tt_transport *transport = t->comm->transport;
    int n = 0;
    for (const struct tt_move *m = fold + 1; m < fold + fold->operands; m++) {
        int i = m->result - 1;
        uint64_t read = number(&fold->hops[i]);
        uint8_t *to =
            transport->offered(m->hops->link, number(m->hops), mark(t->lane, m), m->bytes, read + 1);
        t->placed[i] = to != NULL;
        t->spread[i] = to != NULL ? to : transport->kept(m->hops->link, read);
        if (t->spread[i] != NULL)
            targets[n++] = t->spread[i];
    }
    return n;
}

/* Block by block, so that each is stored everywhere while it is in this core's cache. An operand may lie
 * where the result goes. */
static void fold_and_spread(struct trip *t, const struct tt_move *m, uint8_t *dst, const void *const *sources)
{
    uint8_t *targets[TT_FOLD_MAX];
    int n = find_targets(t, m, targets);
    if (n == 1 && m->spread != NULL && (dst - targets[0]) % 64 == 0) {
        m->spread(dst, targets[0], 0, sources, m->operands, m->elements, m->divisor);
        return;
    }
    uint32_t element = m->bytes / m->elements, block = TT_BLOCK_CACHED_BYTES / element;
    for (uint32_t at = 0; at < m->elements; at += block) {
        const void *operands[TT_FOLD_MAX + 1];
        uint32_t elements = block < m->elements - at ? block : m->elements - at;
        for (int i = 0; i < m->operands; i++)
            operands[i] = (const uint8_t *)sources[i] + (uint64_t)at * element;
        uint8_t *to = dst + (uint64_t)at * element;
        m->fold(to, operands, m->operands, elements, m->divisor);
        for (int i = 0; i < n; i++)
            tt_copy_bytes(targets[i] + (uint64_t)at * element, to, (uint64_t)elements * element);
    }
}

static inline void fold(struct trip *t, const struct tt_move *m, uint8_t *dst, const void *const *sources)
{
    if (m->spreads)
        fold_and_spread(t, m, dst, sources);
    else
        m->fold(dst, sources, m->operands, m->elements, m->divisor);
}

/* Of two ranks each has one message from the other. */
TT_INLINE bool receive_one(struct trip *t, const struct tt_move *m)
{
    const struct tt_transport *transport = t->comm->transport;
    const struct tt_hop *hop = m->hops;
    uint8_t *dst = t->base[m->buffer[0]] + m->at[0];
    const void *payload = await(t, hop, m);
    if (payload == NULL)
        return false;
    if (m->operands == 1) {
        if (payload != dst)
            copy(dst, payload, m->bytes);
    } else {
        const void *own = t->base[m->buffer[1]] + m->at[1];
        const void *sources[2] = { m->own == 0 ? own : payload, m->own == 0 ? payload : own };
        fold(t, m, dst, sources);
    }
    transport->done(hop->link, number(hop));
    return true;
}

static bool receive(struct trip *t, const struct tt_move *m)
{
    const void *sources[TT_FOLD_MAX + 1];
    const struct tt_transport *transport = t->comm->transport;
    int messages = 0;
    for (int i = 0; i < m->operands; i++) {
        sources[i] = i == m->own ? t->base[m->buffer[1]] + m->at[1] : await(t, &m->hops[messages++], m);
        if (sources[i] == NULL)
            return false;
    }
    fold(t, m, t->base[m->buffer[0]] + m->at[0], sources);
    for (int i = 0; i < messages; i++)
        transport->done(m->hops[i].link, number(&m->hops[i]));
    return true;
}

static void combine(const struct trip *t, const struct tt_move *m)
{
    const void *sources[2] = { t->base[m->buffer[1]] + m->at[1], t->base[m->buffer[2]] + m->at[2] };
    uint8_t *dst = t->base[m->buffer[0]] + m->at[0];
    if (m->verb == TT_VERB_REDUCE)
        m->fold(dst, sources, 2, m->elements, m->divisor);
    else
        copy(dst, sources[0], m->bytes);
}

static struct tt_entry *note(const struct tt_lane *lane)
{
    const struct tt_comm *comm = lane->call.comm;
    uint64_t sequence = lane->class == TT_CLASS_P2P ? number(lane->hops) : comm->sequence;
    return tt_recorder_start(comm->recorder, &lane->call, lane->record.algorithm, sequence);
}

TT_INLINE bool move(struct trip *t, struct tt_move *m)
{
    if (m->verb == TT_VERB_SEND)
        return send(t, m);
    if (t->entry == NULL) /* while the first messages are on their way */
        t->entry = note(t->lane);
    if (m->verb == TT_VERB_RECV || m->verb == TT_VERB_RECV_REDUCE)
        return m->alone ? receive_one(t, m) : receive(t, m);
    combine(t, m);
    return true;
}

/* The executor goes on where this path stands. */
static tutti_status hand_over(const struct trip *t)
{
    struct tt_pending pending = { .call = t->lane->call, .skip = t->step };
    pending.call.send = t->base[TT_IN];
    pending.call.recv = t->base[TT_OUT];
    pending.call.entry = t->entry;
    tutti_status status = tt_run(&pending, 1);
    if (pending.op == NULL && t->entry != NULL) /* it could not go on, since the communicator has ended */
        tt_entry_end(t->entry, false);
    return status;
}

/* All is done: what it used up, and what peers and the recorder are told. */
TT_INLINE void count(struct tt_lane *lane)
{
    struct tt_comm *comm = lane->call.comm;
    lane->passed++;
    for (uint32_t i = 0; i < lane->ntolls; i++) {
        *lane->tolls[i].next_send += lane->tolls[i].sends;
        *lane->tolls[i].next_recv += lane->tolls[i].recvs;
    }
    if (lane->class == TT_CLASS_COLLECTIVE) {
        comm->history = lane->history;
        comm->transport->complete(comm->endpoint, ++comm->sequence);
    } else if (lane->tolls[0].sends > 0) {
        comm->next_post[lane->tolls[0].peer]++;
    }
}

static void arrive(struct trip *t)
{
    if (t->entry == NULL)
        t->entry = note(t->lane);
    count(t->lane);
    if (t->slow_ns == 0) {
        tt_entry_pass(t->entry);
        return;
    }
    tt_entry_end(t->entry, true);
    tt_comm_tidy(t->comm, t->slow_ns);
}

static void end_wait(struct trip *t)
{
    if (!t->waiting)
        return;
    if (tt_wait_is_long(&t->wait))
        t->slow_ns = tt_wait_long_since(&t->wait);
    tt_wait_awake(&t->wait);
    t->waiting = false;
}

/* Before anything is sent, so that who answers finds it. In place it waits for the peer to read what is sent
 * from there. */
static void offer(const struct trip *t)
{
    const struct tt_lane *lane = t->lane;
    uint32_t others = lane->nmoves / 3;
    for (uint32_t i = 0; i < others; i++) {
        const struct tt_move *out = &lane->moves[i], *back = &lane->moves[2 * others + 1 + i];
        uint64_t after = lane->call.in_place ? number(out->hops) + 1 : 0;
        if (back->offers)
            t->comm->transport->offer(back->hops->link, number(back->hops), mark(t->lane, back),
                t->base[back->buffer[0]] + back->at[0], back->bytes, after);
    }
}

/* From this move on. False: not all of it is done, but what comes before t->step. */
static bool run(struct trip *t, uint32_t from)
{
    struct tt_lane *lane = t->lane;
    for (uint32_t i = from; i < lane->nmoves; i++) {
        bool done = move(t, &lane->moves[i]);
        if (t->waiting)
            end_wait(t);
        if (!done) {
            t->step = lane->moves[i].step;
            return false;
        }
    }
    if (!t->awaits)
        return true;
    t->step = UINT32_MAX;
    bool read = await_readers(t);
    end_wait(t);
    return read;
}

/* One move of a call in haste. False if it cannot be done at once, or is not what it should be; nothing is
 * done then. */
TT_INLINE bool receive_soon(
    const struct tt_lane *lane, const struct tt_move *m, const void *own, uint8_t *dst)
{
    const struct tt_comm *comm = lane->call.comm;
    const struct tt_transport *transport = comm->transport;
    const struct tt_hop *hop = m->hops;
    const void *payload = NULL;
    uint64_t n = number(hop);
    uint32_t signature = mark(lane, m);
    enum tt_peek found = transport->peek(hop->link, n, signature, m->bytes, &payload);
    for (uint32_t polls = 0; found == TT_PEEK_NOTHING && polls < comm->wait_policy.keen_polls; polls++) {
        tt_look_again();
        found = transport->peek(hop->link, n, signature, m->bytes, &payload);
    }
    if (found != TT_PEEK_THERE)
        return false;
    const void *sources[2] = { m->own == 0 ? own : payload, m->own == 0 ? payload : own };
    if (m->operands == 1)
        copy(dst, payload, m->bytes);
    else if (m->few != NULL)
        m->few(dst, sources[0], sources[1], m->bytes);
    else
        m->fold(dst, sources, 2, m->elements, m->divisor);
    transport->done(hop->link, n);
    return true;
}

/* What needs no choice, no loan and no wait worth the name, as most small calls of two ranks: the same as
 * run, without what that is prepared for. Returns how many moves are done. */
static uint32_t hurry(const struct tt_quick *q, const struct tt_lane *lane, struct tt_entry **entry)
{
    const struct tt_comm *comm = lane->call.comm;
    uint8_t *const base[TT_BUFFERS] = {
        [TT_IN] = (uint8_t *)(uintptr_t)q->send, [TT_OUT] = q->recv, [TT_TMP] = comm->tmp
    };
    bool done = true;
    uint32_t i = 0;
    for (; i < lane->nmoves; i++) {
        const struct tt_move *m = &lane->moves[i];
        const uint8_t *src = base[m->buffer[1]] + m->at[1];
        uint8_t *dst = base[m->buffer[0]] + m->at[0];
        if (m->verb != TT_VERB_SEND && *entry == NULL) /* while the first messages are on their way */
            *entry = note(lane);
        if (m->verb == TT_VERB_SEND)
            done = comm->transport->post(m->hops->link, number(m->hops), mark(lane, m), src, m->bytes);
        else if (m->verb == TT_VERB_COPY)
            copy(dst, src, m->bytes);
        else
            done = receive_soon(lane, m, src, dst);
        if (!done)
            break;
    }
    return i;
}

/* False: the communicator has ended. */
static bool visit(const struct trip *t)
{
    if (!t->comm->transport->enter(t->comm->endpoint))
        return false;
    if (t->lane->pushes && t->shared[TT_OUT])
        offer(t);
    return true;
}

static void set_out(const struct tt_quick *q, struct tt_lane *lane, struct trip *t)
{
    t->lane = lane;
    t->comm = t->lane->call.comm;
    t->base[TT_IN] = (uint8_t *)(uintptr_t)q->send;
    t->base[TT_OUT] = q->recv;
    t->base[TT_TMP] = t->comm->tmp;
    t->entry = NULL;
    t->waiting = false;
    t->slow_ns = 0;
    t->hasty = false;
    t->awaits = false;
    if (!lane->visits)
        return;
    t->step = 0;
    t->shared[TT_IN] = tt_lane_is_shared(lane, q->send);
    t->shared[TT_OUT] = tt_lane_is_shared(lane, q->recv);
    t->shared[TT_TMP] = false;
}

/* With all that may be necessary, from this move on. Not inlined, for the sake of who hurries. */
static __attribute__((noinline)) tutti_status take_time(
    const struct tt_quick *q, struct tt_lane *lane, uint32_t from, struct tt_entry *entry)
{
    struct trip t;
    set_out(q, lane, &t);
    t.entry = entry;
    bool done = (!lane->visits || visit(&t)) && run(&t, from);
    if (lane->visits) /* before the executor takes over: who gives up waits until the others are outside */
        t.comm->transport->leave(t.comm->endpoint);
    if (!done)
        return hand_over(&t);
    arrive(&t);
    return TUTTI_OK;
}

tutti_status tt_straight_run(const struct tt_quick *q, struct tt_lane *lane)
{
    const struct tt_comm *comm = lane->call.comm;
    struct tt_entry *entry = NULL;
    if (lane->class == TT_CLASS_COLLECTIVE) {
        tt_lane_renew(lane);
        comm->transport->publish(comm->endpoint, &lane->record, comm->sequence);
    }
    uint32_t done = lane->hurries ? hurry(q, lane, &entry) : 0;
    if (done < lane->nmoves)
        return take_time(q, lane, done, entry);
    if (entry == NULL)
        entry = note(lane);
    count(lane);
    tt_entry_pass(entry);
    return TUTTI_OK;
}

bool tt_straight_point(const struct tt_quick *q, struct tt_lane *lane)
{
    struct trip t;
    if (!tt_lane_is_open(lane->call.comm) || !tt_lane_is_straight(lane, q))
        return false;
    set_out(q, lane, &t);
    t.hasty = q->collective == TT_P2P_SEND;
    bool done = t.hasty ? send(&t, t.lane->moves) : receive_one(&t, t.lane->moves);
    end_wait(&t);
    if (done)
        arrive(&t);
    return done;
}
