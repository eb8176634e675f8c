/* SPDX-License-Identifier: BSD-3-Clause */
/* compile.c: how a small call is compiled to moves, and how each sends its message. */
#include <stdlib.h>

#include "base/few.h"
#include "run/call_cache.h"

enum { MOVES_MAX = 64, OPERANDS_MAX = TT_FOLD_MAX + 1 };
/* Factors by which longer messages are copied and not lent: where a rank only sends to a peer or only
 * receives, where ranks outnumber cores, both, and where the program rewrites the source between calls. */
enum { ONE_WAY = 2, CROWDED = 3, ONE_WAY_CROWDED = 8, REWRITTEN = 4 };

/* The address that the offsets into a buffer count from. */
static uintptr_t origin(const struct tt_call *call, unsigned buffer)
{
    const void *pointers[TT_BUFFERS] = {
        [TT_IN] = call->send, [TT_OUT] = call->recv, [TT_TMP] = call->comm->memory.tmp
    };
    return (uintptr_t)pointers[buffer];
}

/* Puts a range of cells into a move, as bytes from its origin. False if the cells are not contiguous. */
static bool place(const struct tt_call *call, const struct tt_op *op, unsigned buffer, uint32_t chunk,
    uint32_t nchunks, struct tt_move *m, int i)
{
    const struct tt_layout *layout = op->one_sided && buffer == TT_IN ? &op->given : &op->layout;
    struct tt_view view = { layout, op->spaces[buffer], chunk, nchunks, 0 };
    uint64_t run, count = tt_view_count(&view);
    uintptr_t address = tt_view_run(&view, 0, &run);
    m->buffer[i] = (uint8_t)buffer;
    m->at[i] = (int64_t)(address - origin(call, buffer));
    m->elements = (uint32_t)count;
    m->bytes = (uint32_t)(count * op->layout.element_bytes);
    return run >= count;
}

static void add_msg(struct tt_cached *cached, struct tt_move *m, const struct tt_step *step, uint32_t *nmsgs)
{
    struct tt_comm *comm = cached->call.comm;
    uint64_t *next =
        (m->verb == TT_VERB_SEND ? comm->numbers.next_send : comm->numbers.next_recv)[cached->class];
    struct tt_fast_msg *msg = &cached->msgs[(*nmsgs)++];
    struct tt_link *link = tt_link_to(comm->endpoint, (enum tt_class)cached->class, step->peer);
    *msg = (struct tt_fast_msg){ link, &next[step->peer], step->ordinal, step->peer };
    if (m->operands++ == 0)
        m->msgs = msg;
}

/* Adds the messages of a unit in the order of the expression, as gather() of exec_fold.c does. */
static void add_msgs(struct tt_cached *cached, struct tt_move *m, const struct tt_step *step, uint32_t *nmsgs)
{
    int lefts = 0;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < step->fold_count; i++)
            if (((step[i].flags & TT_LEFT) != 0) == (side == 0)) {
                add_msg(cached, m, &step[i], nmsgs);
                lefts += side == 0;
            }
    m->own = m->operands;
    m->alone = m->operands == 1;
    if (step->verb == TT_VERB_RECV_REDUCE) {
        m->own = (uint8_t)lefts;
        m->operands++;
    }
}

/* True if this rank sends to a peer or receives from it, and never both. */
static bool is_one_way(const struct tt_schedule *s)
{
    bool one_way = true;
    for (int peer = 0; peer < s->key.n; peer++)
        one_way = one_way && (s->sends[peer] == 0 || s->recvs[peer] == 0);
    return one_way;
}

/* The longest message that is copied in whatever memory it lies. A rank that lends waits until the peer has
 * read the source. That wait is pure cost for a rank that gets no reply in this call, and where ranks
 * outnumber cores it costs a context switch; such ranks copy longer messages instead (perf/results/README.md,
 * "What is lent, and what that costs"). */
static uint64_t copied_up_to(const struct tt_call *call, bool one_way)
{
    bool crowded = call->comm->waiting.policy.spins == 0;
    unsigned times = one_way ? (crowded ? ONE_WAY_CROWDED : ONE_WAY) : crowded ? CROWDED : 1;
    return call->comm->endpoint->copy_bytes * times;
}

/* The longest message that is posted. */
static uint64_t posted_up_to(const struct tt_call *call, bool one_way)
{
    uint64_t most = call->comm->endpoint->post_bytes, bounce_from = call->comm->memory.bounce_from;
    return one_way || most < bounce_from ? most : bounce_from - 1; /* of one way n - 1 pairs use slots */
}

/* Writes the moves, and returns the bytes of the longest message in *longest. False if some cells are not
 * contiguous. */
static bool work_out(
    const struct tt_call *call, const struct tt_op *op, struct tt_cached *cached, uint64_t *longest)
{
    const struct tt_schedule *s = op->schedule;
    uint32_t nmsgs = 0;
    bool runs = true;
    *longest = 0;
    for (uint32_t i = 0; i < s->nsteps && runs; i++) {
        const struct tt_step *step = &s->steps[i];
        struct tt_move *m = &cached->moves[cached->nmoves];
        if (step->fold_index != 0)
            continue;
        *m = (struct tt_move){ .verb = step->verb, .step = i };
        m->one_run =
            (struct tt_layout){ .chunks = 1, .slices = 1, .element_bytes = op->layout.element_bytes };
        m->fold = op->arithmetic.folds[step->flags & TT_FOLD_TREE ? TT_TREE : TT_CHAIN];
        m->spread = step->flags & TT_FOLD_TREE ? NULL : op->arithmetic.spread;
        m->divisor = step->flags & TT_FINAL ? op->arithmetic.divisor : 1;
        m->few = NULL;
        if (step->verb != TT_VERB_RECV)
            runs = place(call, op, step->src_buffer, step->src_chunk, step->nchunks, m, 1);
        if (step->verb == TT_VERB_REDUCE)
            runs = runs && place(call, op, step->right_buffer, step->right_chunk, step->nchunks, m, 2);
        if (step->verb != TT_VERB_SEND)
            runs = runs && place(call, op, step->dst_buffer, step->dst_chunk, step->nchunks, m, 0);
        if (step->peer != TT_NONE)
            add_msgs(cached, m, step, &nmsgs);
        if (m->divisor <= 1 && m->operands == 2 && m->bytes <= TT_FEW_BYTES)
            m->few = op->arithmetic.few;
        if (step->peer != TT_NONE && m->bytes > *longest)
            *longest = m->bytes;
        m->one_run.count = m->one_run.quotient = m->one_run.part[0] = m->elements;
        cached->nmoves += m->bytes > 0; /* what is empty is neither sent nor awaited */
    }
    return runs;
}

/* True if a move of this rank writes the source of `sent`: one that receives, or one that does not. */
static bool is_written(
    const struct tt_call *call, const struct tt_cached *cached, const struct tt_move *sent, bool receives)
{
    uintptr_t from = origin(call, sent->buffer[1]) + (uintptr_t)sent->at[1];
    for (const struct tt_move *m = cached->moves; m < cached->moves + cached->nmoves; m++) {
        uintptr_t to = origin(call, m->buffer[0]) + (uintptr_t)m->at[0];
        if (m->verb != TT_VERB_SEND && (m->operands > 0) == receives && to < from + sent->bytes &&
            from < to + m->bytes)
            return true;
    }
    return false;
}

/* Finds the moves that lend. Two ranks that send to each other wait for each other anyway; if each reads the
 * other's source in place, both save the copy. No move may write such a source, and no later message may wait
 * for its slot, so that the executor can take over while it is lent. Ranks that share a core copy: a loan
 * would cost them one more context switch. A source that its rank writes as soon as it was read is copied in
 * whatever memory it lies: for a sum of 8 KiB that goes where the operand was, a loan takes far longer.
 *
 * What is not too long is copied all the same if it is rewritten. A peer that has read a source in place has
 * its cache lines, and each must come back before the program can write there again (the same section). */
static void find_loans(
    const struct tt_call *call, const struct tt_schedule *s, struct tt_cached *cached, bool long_messages)
{
    const struct tt_comm *comm = call->comm;
    uint64_t rewritten = comm->endpoint->copy_bytes * REWRITTEN;
    bool may = comm->waiting.policy.spins > 0 && cached->class == TT_CLASS_COLLECTIVE;
    bool copies = false, lends = false, only_sends = true;
    for (struct tt_move *m = cached->moves; m < cached->moves + cached->nmoves; m++) {
        bool sends = m->verb == TT_VERB_SEND;
        only_sends = only_sends && (sends ? m->bytes <= rewritten : m->verb == TT_VERB_COPY);
        if (!may || !sends || m->bytes < TT_LOAN_BYTES)
            continue;
        int peer = m->msgs->peer;
        copies = is_written(call, cached, m, false);
        may = m->buffer[1] == TT_IN && s->sends[peer] == 1 && s->recvs[peer] == 1 && !copies &&
              !is_written(call, cached, m, true);
        m->sending = m->bytes <= rewritten ? TT_LEND_OR_POST : TT_LEND;
        lends = true;
    }
    for (uint32_t i = 0; i < cached->nmoves && !may; i++)
        cached->moves[i].sending = TT_POST;
    cached->way = lends && may ? TT_FAST_LENDS : TT_FAST_COPIES;
    if (!long_messages || copies)
        cached->memory = TT_FAST_ANYWHERE;
    else if (cached->way == TT_FAST_LENDS)
        cached->memory = TT_FAST_LENT;
    else
        cached->memory = only_sends ? TT_FAST_REWRITTEN : TT_FAST_PRIVATE;
}

/* True if the schedule is an all_reduce by two shots: all ranks send each other a part of IN, each combines
 * one, and sends the sum to all others. */
static bool is_two_shot(
    const struct tt_call *call, const struct tt_schedule *s, const struct tt_cached *cached)
{
    uint32_t others = (uint32_t)s->key.n - 1;
    if (call->collective != TT_ALL_REDUCE || others == 0 || strcmp(s->algorithm, "direct") != 0 ||
        cached->nmoves != 3 * others + 1)
        return false;
    const struct tt_move *m = cached->moves, *fold = &m[others];
    for (uint32_t i = 0; i < others; i++) {
        const struct tt_move *result = &fold[1 + i], *back = &fold[1 + others + i];
        if (m[i].verb != TT_VERB_SEND || result->verb != TT_VERB_SEND || back->verb != TT_VERB_RECV ||
            back->msgs->peer != m[i].msgs->peer)
            return false;
    }
    return fold->operands == s->key.n;
}

/* Says how an all_reduce by two shots sends. A rank stores the sum of its part at all peers in the pass
 * that computes it: in the memory that they have granted, or where their operands lie. Nobody waits for the
 * reader of an operand, since the sum that comes back says that it was read. Nothing but that sum is written
 * where operands lie, so that the executor can take over here, too. */
static void find_pushes(const struct tt_schedule *s, struct tt_cached *cached)
{
    uint32_t others = (uint32_t)s->key.n - 1;
    struct tt_move *m = cached->moves, *fold = &m[others];
    for (uint32_t i = 0; i < others; i++) {
        struct tt_move *result = &fold[1 + i];
        m[i].sending = m[i].bytes > TT_PUSH_BYTES ? TT_LEND_OPERAND : TT_POST;
        result->sending = TT_SEND_RESULT;
        for (uint32_t msg = 0; msg < others; msg++)
            if (fold->msgs[msg].peer == result->msgs->peer)
                result->reply_to = (uint8_t)msg;
    }
    cached->way = TT_FAST_PUSHES;
}

/* True if sums may be stored at every peer. */
static bool may_push(const struct tt_comm *comm)
{
    bool may = true;
    for (int peer = 0; peer < comm->n; peer++)
        may = may && tt_link_to(comm->endpoint, TT_CLASS_COLLECTIVE, peer)->ops->target != NULL;
    return may;
}

/* Counts the messages of a call with each peer: those of the schedule, or, where a rank knows only its own
 * counts, those that are not empty. */
static void count_msgs(const struct tt_op *op, struct tt_cached *cached)
{
    const struct tt_schedule *s = op->schedule;
    const struct tt_comm *comm = cached->call.comm;
    for (int peer = 0; peer < s->key.n; peer++) {
        struct tt_msg_count msgs = { &comm->numbers.next_send[cached->class][peer],
            &comm->numbers.next_recv[cached->class][peer], s->sends[peer], s->recvs[peer], peer };
        if (op->one_sided) {
            msgs.sends = msgs.recvs = 0;
            for (uint32_t i = 0; i < cached->nmoves; i++) {
                const struct tt_move *m = &cached->moves[i];
                bool hers = m->operands > 0 && m->msgs->peer == peer;
                msgs.sends += hers && m->verb == TT_VERB_SEND;
                msgs.recvs += hers && m->verb == TT_VERB_RECV;
            }
        }
        if (msgs.sends + msgs.recvs > 0)
            cached->msg_counts[cached->nmsg_counts++] = msgs;
    }
}

static bool is_small(const struct tt_call *call, const struct tt_op *op)
{
    const struct tt_comm *comm = call->comm;
    bool short_forms = true;
    for (int peer = 0; peer < comm->n; peer++)
        short_forms = short_forms && tt_link_to(comm->endpoint, op->messages.class, peer)->ops->post != NULL;
    return comm->settings.fused && comm->trace == NULL && short_forms && op->layout.slices == 1 &&
           op->schedule->nsteps <= MOVES_MAX && op->schedule->key.n <= MOVES_MAX;
}

/* True if each move that receives has one message, and only the pointers differ from call to call. */
static bool may_run_nowait(const struct tt_cached *cached)
{
    bool may = cached->way == TT_FAST_COPIES;
    for (uint32_t i = 0; i < cached->nmoves && may; i++) {
        const struct tt_move *m = &cached->moves[i];
        may = m->verb == TT_VERB_SEND || m->verb == TT_VERB_COPY || m->alone;
    }
    return may;
}

void tt_cached_compile(const struct tt_call *call, const struct tt_op *op, struct tt_cached *cached)
{
    const struct tt_schedule *s = op->schedule;
    uint64_t msgs = (uint64_t)s->nsteps * OPERANDS_MAX, n = (uint64_t)s->key.n, longest;
    if (!is_small(call, op))
        return;
    cached->moves = malloc(
        s->nsteps * sizeof *cached->moves + msgs * sizeof *cached->msgs + n * sizeof *cached->msg_counts);
    if (cached->moves == NULL)
        return;
    cached->msgs = (struct tt_fast_msg *)(void *)(cached->moves + s->nsteps);
    cached->msg_counts = (struct tt_msg_count *)(void *)(cached->msgs + msgs);
    bool one_way = is_one_way(s), runs = work_out(call, op, cached, &longest);
    bool exceeds_post = longest > posted_up_to(call, one_way);
    bool pushes = runs && op->streams == 0 && may_push(call->comm) && is_two_shot(call, s, cached);
    if (!runs || (exceeds_post && !pushes)) {
        free(cached->moves);
        cached->moves = NULL;
        return;
    }
    if (pushes) {
        find_pushes(s, cached);
        cached->memory = exceeds_post ? TT_FAST_SHARED : TT_FAST_ANYWHERE;
    } else {
        find_loans(call, s, cached, longest > copied_up_to(call, one_way));
    }
    count_msgs(op, cached);
    if (may_run_nowait(cached))
        cached->way = TT_FAST_NOWAIT;
}
