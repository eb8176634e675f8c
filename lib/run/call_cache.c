/* SPDX-License-Identifier: BSD-3-Clause */
/* call_cache.c: which calls are cached, and how an entry is compiled to moves. */
#include "run/call_cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/few.h"
#include "base/handle.h"

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
 * outnumber cores it costs a context switch; such ranks copy longer messages instead. With messages of 8 KiB,
 * a sendrecv of two ranks takes 0.27 us by copies and 0.38 lent; on two cores, a gather of eight ranks 1.9
 * and 8.8, their all_gather 12 and 17, and their broadcast of 32 KiB 6 and 9.4. */
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
 * whatever memory it lies: for a sum of 8 KiB that goes where the operand was, a loan takes ten times as
 * long.
 *
 * What is not too long is copied all the same if it is rewritten. A peer that has read a source in place has
 * its cache lines, and each must come back before the program can write there again. To rewrite 8 KiB and
 * all_reduce them between two ranks takes 0.8 us lent and 0.39 copied; for an all_gather of 16 KiB it is 0.88
 * and 0.7. */
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

/* Looks at all of them, so that the next call has their fingerprints. */
bool tt_cached_is_rewritten(const struct tt_cached *cached, const struct tt_call_args *args)
{
    bool all = true;
    for (struct tt_move *m = cached->moves; m < cached->moves + cached->nmoves; m++) {
        const uint8_t *base = m->buffer[1] == TT_IN ? args->send : args->recv;
        if (m->verb == TT_VERB_SEND && m->bytes >= TT_LOAN_BYTES && m->buffer[1] != TT_TMP &&
            !tt_move_is_rewritten(m, base + m->at[1]))
            all = false;
    }
    return all;
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

/* Notes the extents of both buffers at this rank, as the check allows them. */
static void note_extents(const struct tt_call *call, struct tt_cached *cached)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    for (int side = 0; side < 2; side++)
        cached->bytes[side] = tt_call_bytes(call, side);
    cached->alignment = row->result == TT_RESULT_REDUCED ? (uint32_t)tutti_type_bytes(call->type) : 1;
    cached->in_place_offset = (int64_t)((uintptr_t)call->recv - (uintptr_t)call->send);
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

/* Compiles a call to moves. It gets none if there is no memory, or if some cells are not contiguous. */
static void compile(const struct tt_call *call, const struct tt_op *op, struct tt_cached *cached)
{
    const struct tt_schedule *s = op->schedule;
    uint64_t msgs = (uint64_t)s->nsteps * OPERANDS_MAX, n = (uint64_t)s->key.n, longest;
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

/* The count that the key's hash takes: of a v-form the caller's arrays say it. */
static uint64_t signature_count(const struct tt_call *call)
{
    return call->count_in_blocks ? 0 : call->count;
}

/* True if both have the same arrays, as far as this rank reads them. */
static bool same_blocks(const struct tt_cached *cached, const struct tt_blocks *blocks)
{
    size_t bytes = (size_t)cached->call.comm->n * sizeof(size_t);
    for (int side = 0; side < 2; side++) {
        const struct tt_blocks *kept = &cached->call.blocks[side], *given = &blocks[side];
        if (kept->counts == NULL)
            continue; /* this rank does not read them */
        if (given->counts == NULL || memcmp(kept->counts, given->counts, bytes) != 0 ||
            (kept->displs == NULL) != (given->displs == NULL) ||
            (kept->displs != NULL && memcmp(kept->displs, given->displs, bytes) != 0))
            return false;
    }
    return true;
}

/* True if the entry already holds this call, which was found but could not be used this time. */
static bool is_cached(const struct tt_cached *cached, uint64_t key, const struct tt_call *call)
{
    return cached->key == key && cached->count == signature_count(call) &&
           cached->call.in_place == call->in_place && same_blocks(cached, call->blocks);
}

/* A call in which no rank has an element is not cached, since it would gain nothing. Where a rank knows only
 * its own counts, one without elements is cached like the others'. */
void tt_cache_store(const struct tt_call *call, const struct tt_op *op)
{
    if (call->created != NULL || call->met || (call->total == 0 && !tt_call_is_one_sided(call)))
        return;
    if (call->comm->device != NULL) /* each pointer is looked at, each time */
        return;
    uint64_t key = tt_cached_key(&(struct tt_call_args){ .collective = call->collective,
        .type = call->type,
        .op = call->op,
        .root = call->root,
        .send = call->send,
        .recv = call->recv });
    struct tt_cached *cached = tt_cached_at(call->comm, key, signature_count(call));
    if (key == 0 || is_cached(cached, key, call))
        return;
    struct tt_cached fresh = { .key = key,
        .count = signature_count(call),
        .class = (uint8_t)op->messages.class,
        .own_counts = op->one_sided,
        .seen = { (uintptr_t)call->send, (uintptr_t)call->recv },
        .call = *call,
        .arrays = cached->arrays };
    fresh.call.id = ++call->comm->calls.last_id;
    fresh.call.entry = NULL;
    fresh.call.cached = cached;
    if (is_small(call, op))
        compile(call, op, &fresh);
    if (fresh.moves == NULL && cached->moves != NULL) /* a compiled call gains more by the entry */
        return;
    if (!tt_call_keep_arrays(&fresh.call, &fresh.arrays)) {
        free(fresh.moves);
        return;
    }
    note_extents(call, &fresh);
    tt_call_record(call, op, &fresh.record);
    fresh.hash = op->messages.hash;
    fresh.cost = op->observed.cost;
    fresh.signature = op->messages.signature;
    tt_traffic_add(&call->comm->traffic, &cached->cost, cached->fast_calls); /* of what it was before */
    free(cached->moves);
    *cached = fresh;
}

void tt_cached_call_with(
    const struct tt_call_args *args, const struct tt_cached *cached, struct tt_call *call)
{
    *call = cached->call;
    call->send = args->send;
    call->recv = args->recv;
}

void tt_cache_free(struct tt_comm *comm)
{
    for (int i = 0; comm->calls.cached != NULL && i < TT_CACHED_CALLS; i++) {
        free(comm->calls.cached[i].moves);
        free(comm->calls.cached[i].arrays.words);
    }
    free(comm->calls.cached);
}

static bool overlap(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* True if the slow path would find nothing wrong with these pointers. */
static bool are_legal(const struct tt_cached *cached, const uint8_t *send, const uint8_t *recv)
{
    bool in_place = cached->call.in_place, both = cached->bytes[TT_IN] > 0 && cached->bytes[TT_OUT] > 0;
    if ((cached->bytes[TT_IN] > 0 && send == NULL) || (cached->bytes[TT_OUT] > 0 && recv == NULL))
        return false;
    if ((((uintptr_t)send | (uintptr_t)recv) & (cached->alignment - 1)) != 0)
        return false;
    return in_place ? (int64_t)((uintptr_t)recv - (uintptr_t)send) == cached->in_place_offset
                    : !both || !overlap(send, cached->bytes[TT_IN], recv, cached->bytes[TT_OUT]);
}

/* True if the call may run with these pointers. They are checked only if they differ from the last call's. */
static bool may_run(const struct tt_comm *comm, struct tt_cached *cached, const void *send, void *recv)
{
    if (cached->seen[TT_IN] != (uintptr_t)send || cached->seen[TT_OUT] != (uintptr_t)recv) {
        if (!are_legal(cached, send, recv))
            return false;
        cached->seen[TT_IN] = (uintptr_t)send;
        cached->seen[TT_OUT] = (uintptr_t)recv;
    }
    return tt_cached_may_start(comm);
}

/* True if this is the last call again, with the same pointers, as in a loop. */
static bool is_last(const struct tt_cached *cached, const struct tt_call_args *args)
{
    return cached->seen[TT_IN] == (uintptr_t)args->send && cached->seen[TT_OUT] == (uintptr_t)args->recv &&
           cached->count == args->count && cached->call.collective == args->collective &&
           cached->call.type == args->type && cached->call.op == args->op &&
           cached->call.root == args->root && cached->key != 0;
}

/* The entry of another call than the last one. */
static __attribute__((noinline)) struct tt_cached *find(struct tt_comm *comm, const struct tt_call_args *args)
{
    uint64_t key = tt_cached_key(args);
    struct tt_cached *cached = tt_cached_at(comm, key, args->count);
    if (key == 0 || cached->key != key || cached->count != args->count ||
        !may_run(comm, cached, args->send, args->recv)) /* an empty entry's key is 0, too */
        return NULL;
    comm->calls.last = cached;
    return args->blocks == NULL || same_blocks(cached, args->blocks) ? cached : NULL;
}

struct tt_cached *tt_cache_find(const struct tt_call_args *args)
{
    struct tt_comm *comm = tt_comm_peek(args->comm);
    if (comm == NULL)
        return NULL;
    struct tt_cached *cached = comm->calls.last;
    if (!is_last(cached, args))
        return find(comm, args);
    bool same = args->blocks == NULL || same_blocks(cached, args->blocks);
    return same && tt_cached_may_start(comm) ? cached : NULL;
}
