/* SPDX-License-Identifier: BSD-3-Clause */
/* fast_path.c: a small call that was made before runs its moves in program order (call_cache.h).
 *
 * The messages, their numbers, the folds and the headers are the executor's, so peers cannot tell, and any
 * rank may take either path. There is no binding and no ready list. The verifier has proven that the
 * schedule may run in program order, each send without waiting for its reader. A move is done when all its
 * messages are there, or not at all. If a message is long in coming, or is not what it should be, the
 * executor takes over at that move: the code that looks for failed peers, names the cause and gives up exists
 * once.
 *
 * Most small calls of two ranks need even less: nothing is lent, and each message comes within the first few
 * polls. try_nowait() runs those, and run_waiting() runs the rest from the first move for which that fails.
 *
 * In an all_reduce by two shots, the pass that computes a sum also stores it where its readers want it:
 *
 *     they have granted (their memory is shared):   in their OUT; then a line says "placed"
 *     their operand came by a shuttle:              where it lies, and the shuttle goes back with it
 *     neither, and OUT is shared:                   nowhere else; it is lent
 *
 * so that nothing is copied after it was computed. */
#include "base/few.h"
#include "base/wait.h"
#include "run/call_cache.h"
#include "observe/recorder.h"

enum { LOOKS_APART = 16 }; /* pauses */

struct fast_run { /* the state of one call in run_waiting() */
    struct tt_comm *comm;
    struct tt_cached *cached;
    uint8_t *base[TT_BUFFERS];
    struct tt_entry *entry; /* NULL: not noted yet */
    struct tt_wait wait;
    bool waiting;
    bool nowait; /* a move that cannot be done now is not waited for */
    bool shared[TT_BUFFERS]; /* memory that peers can map */
    bool awaits; /* in the end it waits until all that it has lent is read */
    uint32_t step; /* the step of the schedule at which the executor takes over */
    int64_t slow_ns; /* when it last did more than spin; 0: it never did */
    bool stored[TT_FOLD_MAX]; /* the result is at the peer of this operand already */
};

static uint64_t number(const struct tt_fast_msg *msg)
{
    return *msg->next + msg->ordinal;
}

static uint32_t mark(const struct tt_cached *cached, const struct tt_move *m)
{
    return cached->own_counts ? tt_exec_mark(cached->signature, m->elements) : cached->signature;
}

/* Waits a little, since nothing has come. False if the executor should take over. */
static bool linger(struct fast_run *t)
{
    if (t->nowait)
        return false;
    if (!t->waiting) {
        tt_wait_begin(&t->wait, t->comm->waiting.policy, &t->comm->endpoint->doorbell, 1);
        t->waiting = true;
    }
    const struct tt_endpoint *e = t->comm->endpoint;
    bool serves =
        t->comm->waiting.on_wait != NULL && tt_wait_is_asleep(&t->wait); /* which the executor's wait does */
    if (!serves && !tt_wait_idle(&t->wait) && tt_endpoint_is_calm(e))
        return true;
    if (e->doorbell != NULL)
        tt_doorbell_ring_always(e->doorbell); /* the wait ends for another reason than a ring */
    return false;
}

/* Waits before the next poll of a message; `looks` counts the polls so far. False if the executor should take
 * over. */
static bool look_later(struct fast_run *t, uint32_t looks)
{
    if (looks >= t->comm->waiting.policy.keen_polls)
        return linger(t);
    tt_look_again();
    return true;
}

/* Waits for room at the receiver. Polls are LOOKS_APART pauses apart, since each takes the line of the
 * acknowledgement out of the cache of the peer, which writes it. False if the executor should take over. */
static bool hold_back(struct fast_run *t)
{
    for (int i = 0; i < LOOKS_APART; i++) {
        if (!linger(t))
            return false;
        if (tt_wait_is_long(&t->wait))
            break;
    }
    return true;
}

/* The elements of a move as one run at this address. */
static struct tt_view run_at(const struct tt_move *m, const void *address)
{
    return (struct tt_view){ .layout = &m->one_run, .space.base = (uintptr_t)address, .nchunks = 1 };
}

/* The message that a move sends from this address. */
static struct tt_message message_of(const struct fast_run *t, const struct tt_move *m, const void *src)
{
    return (struct tt_message){ .signature = mark(t->cached, m),
        .number = number(m->msgs),
        .bytes = m->bytes,
        .source = run_at(m, src) };
}

/* True if this message is lent. If not, *src becomes the address that it is posted from. */
static bool is_lent(struct fast_run *t, struct tt_move *m, const uint8_t **src)
{
    if (m->sending == TT_SEND_RESULT && t->stored[m->reply_to]) {
        *src = NULL;
        return false;
    }
    bool lent = t->shared[m->buffer[1]] && (m->sending != TT_SEND_RESULT || m->bytes > TT_PUSH_BYTES) &&
                !(m->sending == TT_LEND_OR_POST && tt_move_is_rewritten(m, *src));
    t->awaits = t->awaits || (lent && m->sending != TT_LEND_OPERAND);
    return lent;
}

/* Lends the source of a move. Not inlined, so that send() stays short. */
static __attribute__((noinline)) bool lend(const struct fast_run *t, const struct tt_move *m, const void *src)
{
    struct tt_link *link = m->msgs->link;
    struct tt_message message = message_of(t, m, src);
    return link->ops->send(link, &message);
}

TT_INLINE bool send(struct fast_run *t, struct tt_move *m)
{
    struct tt_link *link = m->msgs->link;
    const uint8_t *src = t->base[m->buffer[1]] + m->at[1];
    bool lent = m->sending != TT_POST && is_lent(t, m, &src);
    while (
        !(lent ? lend(t, m, src) : link->ops->post(link, number(m->msgs), mark(t->cached, m), src, m->bytes)))
        if (!hold_back(t))
            return false;
    return true;
}

/* Waits until nothing that was lent is read any more. False if the executor should take over. */
static bool await_readers(struct fast_run *t)
{
    tt_pause();
    for (uint32_t i = 0; i < t->cached->nmoves; i++) {
        const struct tt_move *m = &t->cached->moves[i];
        if (m->sending == TT_POST || m->sending == TT_LEND_OPERAND)
            continue;
        for (uint32_t polls = 0; !m->msgs->link->ops->sent(m->msgs->link, number(m->msgs)); polls++)
            if (!look_later(t, polls))
                return false;
    }
    return true;
}

/* Waits for a message and returns its bytes; NULL if it does not come, or is not what it should be. */
TT_INLINE const void *await(struct fast_run *t, const struct tt_fast_msg *msg, const struct tt_move *m)
{
    enum tt_peek (*peek)(struct tt_link *, uint64_t, uint32_t, uint32_t, const void **) =
        msg->link->ops->peek;
    uint64_t n = number(msg);
    uint32_t signature = mark(t->cached, m);
    const void *payload = t->base[m->buffer[0]] + m->at[0]; /* where it is placed */
    for (uint32_t polls = 0;; polls++) {
        enum tt_peek found = peek(msg->link, n, signature, m->bytes, &payload);
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

/* Collects where the sum is stored: in the buffer that a peer has granted, else where its operand lies. */
static int find_targets(struct fast_run *t, const struct tt_move *fold, const void *sum, uint8_t **targets)
{
    int n = 0;
    for (const struct tt_move *m = fold + 1; m < fold + fold->operands; m++) {
        int i = m->reply_to;
        struct tt_link *link = m->msgs->link;
        struct tt_message message = message_of(t, m, sum);
        struct tt_view place;
        uint64_t count;
        message.reads = number(&fold->msgs[i]) + 1;
        t->stored[i] = link->ops->target(link, &message, TT_ALLOW_REPLY, &place) != TT_TARGET_NONE;
        if (t->stored[i])
            targets[n++] = (uint8_t *)tt_view_run(&place, 0, &count);
    }
    return n;
}

/* Folds block by block, so that each is stored everywhere while it is in this core's cache. An operand may
 * lie where the result goes. */
static void fold_and_spread(
    struct fast_run *t, const struct tt_move *m, uint8_t *dst, const void *const *sources)
{
    uint8_t *targets[TT_FOLD_MAX];
    int n = find_targets(t, m, dst, targets);
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

static inline void fold(struct fast_run *t, const struct tt_move *m, uint8_t *dst, const void *const *sources)
{
    if (t->cached->way == TT_FAST_PUSHES)
        fold_and_spread(t, m, dst, sources);
    else
        m->fold(dst, sources, m->operands, m->elements, m->divisor);
}

/* Receives the one message of a move, as between two ranks. */
TT_INLINE bool receive_one(struct fast_run *t, const struct tt_move *m)
{
    const struct tt_fast_msg *msg = m->msgs;
    uint8_t *dst = t->base[m->buffer[0]] + m->at[0];
    const void *payload = await(t, msg, m);
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
    msg->link->ops->release(msg->link, number(msg));
    return true;
}

static bool receive(struct fast_run *t, const struct tt_move *m)
{
    const void *sources[TT_FOLD_MAX + 1];
    int messages = 0;
    for (int i = 0; i < m->operands; i++) {
        sources[i] = i == m->own ? t->base[m->buffer[1]] + m->at[1] : await(t, &m->msgs[messages++], m);
        if (sources[i] == NULL)
            return false;
    }
    fold(t, m, t->base[m->buffer[0]] + m->at[0], sources);
    for (int i = 0; i < messages; i++)
        m->msgs[i].link->ops->release(m->msgs[i].link, number(&m->msgs[i]));
    return true;
}

static void combine(const struct fast_run *t, const struct tt_move *m)
{
    const void *sources[2] = { t->base[m->buffer[1]] + m->at[1], t->base[m->buffer[2]] + m->at[2] };
    uint8_t *dst = t->base[m->buffer[0]] + m->at[0];
    if (m->verb == TT_VERB_REDUCE)
        m->fold(dst, sources, 2, m->elements, m->divisor);
    else
        copy(dst, sources[0], m->bytes);
}

static struct tt_entry *note(const struct tt_cached *cached)
{
    const struct tt_comm *comm = cached->call.comm;
    uint64_t sequence = cached->class == TT_CLASS_P2P ? number(cached->msgs) : comm->numbers.sequence;
    return tt_recorder_start(comm->recorder, &cached->call, cached->record.algorithm, sequence);
}

TT_INLINE bool move(struct fast_run *t, struct tt_move *m)
{
    if (m->verb == TT_VERB_SEND)
        return send(t, m);
    if (t->entry == NULL) /* while the first messages are on their way */
        t->entry = note(t->cached);
    if (m->verb == TT_VERB_RECV || m->verb == TT_VERB_RECV_REDUCE)
        return m->alone ? receive_one(t, m) : receive(t, m);
    combine(t, m);
    return true;
}

/* Lets the executor go on at the step where this path stands. */
static tutti_status hand_over(const struct fast_run *t)
{
    struct tt_pending pending = { .call = t->cached->call, .skip = t->step };
    pending.call.send = t->base[TT_IN];
    pending.call.recv = t->base[TT_OUT];
    pending.call.entry = t->entry;
    tutti_status status = tt_run(&pending, 1);
    if (pending.op == NULL && t->entry != NULL) /* it could not go on, since the communicator has ended */
        tt_entry_end(t->entry, false);
    return status;
}

/* Counts the messages of a call that is done, and tells peers that it is. */
TT_INLINE void count(struct tt_cached *cached)
{
    struct tt_comm *comm = cached->call.comm;
    cached->fast_calls++;
    for (uint32_t i = 0; i < cached->nmsg_counts; i++) {
        *cached->msg_counts[i].next_send += cached->msg_counts[i].sends;
        *cached->msg_counts[i].next_recv += cached->msg_counts[i].recvs;
    }
    if (cached->class == TT_CLASS_COLLECTIVE) {
        comm->numbers.history = cached->history;
        comm->endpoint->control->publish(comm->endpoint, NULL, comm->numbers.sequence++);
    } else if (cached->msg_counts[0].sends > 0) {
        comm->numbers.next_post[cached->msg_counts[0].peer]++;
    }
}

static void finish(struct fast_run *t)
{
    if (t->entry == NULL)
        t->entry = note(t->cached);
    count(t->cached);
    if (t->slow_ns == 0) {
        tt_entry_pass(t->entry);
        return;
    }
    tt_entry_end(t->entry, true);
    tt_comm_tidy(t->comm, t->slow_ns);
}

static void end_wait(struct fast_run *t)
{
    if (!t->waiting)
        return;
    if (tt_wait_is_long(&t->wait))
        t->slow_ns = tt_wait_long_since(&t->wait);
    tt_wait_awake(&t->wait);
    t->waiting = false;
}

/* Grants this rank's OUT to the peers, before anything is sent, so that the one that replies finds the grant.
 * In place a grant holds from when the peer has read what is sent from there. */
static void grant(const struct fast_run *t)
{
    const struct tt_cached *cached = t->cached;
    uint32_t others = cached->nmoves / 3;
    for (uint32_t i = 0; i < others; i++) {
        const struct tt_move *out = &cached->moves[i], *back = &cached->moves[2 * others + 1 + i];
        uint64_t after = cached->call.in_place ? number(out->msgs) + 1 : 0;
        struct tt_link *link = back->msgs->link;
        struct tt_view place = run_at(back, t->base[back->buffer[0]] + back->at[0]);
        if (back->bytes > TT_PUSH_BYTES)
            link->ops->grant(link, number(back->msgs), mark(t->cached, back), &place, after);
    }
}

/* Runs the moves from this one on. False if only those before t->step are done. */
static bool run(struct fast_run *t, uint32_t from)
{
    struct tt_cached *cached = t->cached;
    for (uint32_t i = from; i < cached->nmoves; i++) {
        bool done = move(t, &cached->moves[i]);
        if (t->waiting)
            end_wait(t);
        if (!done) {
            t->step = cached->moves[i].step;
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

/* Receives the one message of a move within a few polls. False if it has not come, or is not what it should
 * be; then nothing is done. */
TT_INLINE bool receive_nowait(
    const struct tt_cached *cached, const struct tt_move *m, const void *own, uint8_t *dst)
{
    const struct tt_comm *comm = cached->call.comm;
    const struct tt_fast_msg *msg = m->msgs;
    const struct tt_link_ops *ops = msg->link->ops;
    const void *payload = NULL;
    uint64_t n = number(msg);
    uint32_t signature = mark(cached, m);
    enum tt_peek found = ops->peek(msg->link, n, signature, m->bytes, &payload);
    for (uint32_t polls = 0; found == TT_PEEK_NOTHING && polls < comm->waiting.policy.keen_polls; polls++) {
        tt_look_again();
        found = ops->peek(msg->link, n, signature, m->bytes, &payload);
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
    ops->release(msg->link, n);
    return true;
}

/* Runs moves that neither lend nor wait, as of most small calls of two ranks: run() without all that it is
 * prepared for. Returns how many moves are done. */
static uint32_t try_nowait(
    const struct tt_call_args *args, const struct tt_cached *cached, struct tt_entry **entry)
{
    const struct tt_comm *comm = cached->call.comm;
    uint8_t *const base[TT_BUFFERS] = {
        [TT_IN] = (uint8_t *)(uintptr_t)args->send, [TT_OUT] = args->recv, [TT_TMP] = comm->memory.tmp
    };
    bool done = true;
    uint32_t i = 0;
    for (; i < cached->nmoves; i++) {
        const struct tt_move *m = &cached->moves[i];
        const uint8_t *src = base[m->buffer[1]] + m->at[1];
        uint8_t *dst = base[m->buffer[0]] + m->at[0];
        if (m->verb != TT_VERB_SEND && *entry == NULL) /* while the first messages are on their way */
            *entry = note(cached);
        if (m->verb == TT_VERB_SEND)
            done = m->msgs->link->ops->post(m->msgs->link, number(m->msgs), mark(cached, m), src, m->bytes);
        else if (m->verb == TT_VERB_COPY)
            copy(dst, src, m->bytes);
        else
            done = receive_nowait(cached, m, src, dst);
        if (!done)
            break;
    }
    return i;
}

/* Enters, so that no rank leaves while others use its memory. False if the communicator has ended. */
static bool enter(const struct fast_run *t)
{
    if (!tt_endpoint_enter(t->comm->endpoint))
        return false;
    if (t->cached->way == TT_FAST_PUSHES && t->shared[TT_OUT])
        grant(t);
    return true;
}

static void begin(const struct tt_call_args *args, struct tt_cached *cached, struct fast_run *t)
{
    t->cached = cached;
    t->comm = t->cached->call.comm;
    t->base[TT_IN] = (uint8_t *)(uintptr_t)args->send;
    t->base[TT_OUT] = args->recv;
    t->base[TT_TMP] = t->comm->memory.tmp;
    t->entry = NULL;
    t->waiting = false;
    t->slow_ns = 0;
    t->nowait = false;
    t->awaits = false;
    if (cached->way < TT_FAST_LENDS)
        return;
    t->step = 0;
    t->shared[TT_IN] = tt_cached_is_shared(cached, args->send);
    t->shared[TT_OUT] = tt_cached_is_shared(cached, args->recv);
    t->shared[TT_TMP] = false;
}

/* Runs the moves from this one on, with waits, loans and offers. Not inlined, so that the frame of
 * try_nowait() stays small. */
static __attribute__((noinline)) tutti_status run_waiting(
    const struct tt_call_args *args, struct tt_cached *cached, uint32_t from, struct tt_entry *entry)
{
    struct fast_run t;
    begin(args, cached, &t);
    t.entry = entry;
    bool enters = cached->way >= TT_FAST_LENDS, done = (!enters || enter(&t)) && run(&t, from);
    if (enters) /* before the executor takes over: who gives up waits until the others are outside */
        tt_endpoint_leave(t.comm->endpoint);
    if (!done)
        return hand_over(&t);
    finish(&t);
    return TUTTI_OK;
}

tutti_status tt_fast_run(const struct tt_call_args *args, struct tt_cached *cached)
{
    const struct tt_comm *comm = cached->call.comm;
    struct tt_entry *entry = NULL;
    if (cached->class == TT_CLASS_COLLECTIVE) {
        tt_cached_renew(cached);
        comm->endpoint->control->publish(comm->endpoint, &cached->record, comm->numbers.sequence);
    }
    uint32_t done = cached->way == TT_FAST_NOWAIT ? try_nowait(args, cached, &entry) : 0;
    if (done < cached->nmoves)
        return run_waiting(args, cached, done, entry);
    if (entry == NULL)
        entry = note(cached);
    count(cached);
    tt_entry_pass(entry);
    return TUTTI_OK;
}

bool tt_fast_message(const struct tt_call_args *args, struct tt_cached *cached)
{
    struct fast_run t;
    if (!tt_cached_may_start(cached->call.comm) || !tt_cached_is_fast(cached, args))
        return false;
    begin(args, cached, &t);
    t.nowait = args->collective == TT_P2P_SEND;
    bool done = t.nowait ? send(&t, t.cached->moves) : receive_one(&t, t.cached->moves);
    end_wait(&t);
    if (done)
        finish(&t);
    return done;
}
