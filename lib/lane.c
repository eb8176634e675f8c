/* SPDX-License-Identifier: BSD-3-Clause */
/* lane.c: which calls have a lane, and the working out of their moves. */
#include "lane.h"

#include <stdlib.h>
#include <string.h>

#include "base/few.h"

/* Measured: from LOAN_BYTES on, the wait for who reads costs less than two copies that stay in caches. Where
 * nobody waits for that, a message is lent from where on the transport takes grants. */
enum { MOVES_MAX = 64, OPERANDS_MAX = TT_FOLD_MAX + 1, LOAN_BYTES = 4 << 10, PUSH_BYTES = 1 << 10 };
/* How many times as much is copied: where a rank only sends to a peer, or only receives, and where ranks take
 * turns on cores; and of what the program rewrites. */
enum { ONE_WAY = 2, CROWDED = 3, ONE_WAY_CROWDED = 8, REWRITTEN = 4 };

/* Where the offsets of a buffer count from. */
static uintptr_t origin(const struct tt_call *call, unsigned buffer)
{
    const void *pointers[TT_BUFFERS] = {
        [TT_IN] = call->send, [TT_OUT] = call->recv, [TT_TMP] = call->comm->tmp
    };
    return (uintptr_t)pointers[buffer];
}

/* A cell range as bytes from its origin; false if it is not one run. */
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

static void add_hop(struct tt_lane *lane, struct tt_move *m, const struct tt_step *step, uint32_t *nhops)
{
    struct tt_comm *comm = lane->call.comm;
    uint64_t *next = (m->verb == TT_VERB_SEND ? comm->next_send : comm->next_recv)[lane->class];
    struct tt_hop *hop = &lane->hops[(*nhops)++];
    struct tt_link *link = comm->transport->link(comm->endpoint, step->peer, (enum tt_class)lane->class);
    *hop = (struct tt_hop){ link, &next[step->peer], step->ordinal, step->peer };
    if (m->operands++ == 0)
        m->hops = hop;
}

/* The messages of a unit in the order of the expression; see gather() of exec_fold.c. */
static void add_hops(struct tt_lane *lane, struct tt_move *m, const struct tt_step *step, uint32_t *nhops)
{
    int lefts = 0;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < step->fold_count; i++)
            if (((step[i].flags & TT_LEFT) != 0) == (side == 0)) {
                add_hop(lane, m, &step[i], nhops);
                lefts += side == 0;
            }
    m->own = m->operands;
    m->alone = m->operands == 1;
    if (step->verb == TT_VERB_RECV_REDUCE) {
        m->own = (uint8_t)lefts;
        m->operands++;
    }
}

/* Does each rank only send to a peer, or only receive? */
static bool is_one_way(const struct tt_schedule *s)
{
    bool one_way = true;
    for (int peer = 0; peer < s->key.n; peer++)
        one_way = one_way && (s->sends[peer] == 0 || s->recvs[peer] == 0);
    return one_way;
}

/* Up to here messages are copied, whatever memory they lie in. What is lent is waited for until it was read:
 * the longest by who is not answered, for he waits for nothing else, and by who must let his reader have the
 * core. Measured with messages of 8 KiB: between two ranks a sendrecv takes 0.27 us and not 0.38; of eight on
 * two cores a gather 1.9 and not 8.8, an all_gather 12 and not 17; with 32 KiB a broadcast 6 and not 9.4. */
static uint64_t copied_up_to(const struct tt_call *call, bool one_way)
{
    bool crowded = call->comm->wait_policy.spins == 0;
    unsigned times = one_way ? (crowded ? ONE_WAY_CROWDED : ONE_WAY) : crowded ? CROWDED : 1;
    return call->comm->endpoint->copy_bytes * times;
}

static bool work_out(const struct tt_call *call, const struct tt_op *op, struct tt_lane *lane)
{
    const struct tt_schedule *s = op->schedule;
    bool one_way = is_one_way(s);
    uint64_t most = call->comm->endpoint->post_bytes, copied = copied_up_to(call, one_way);
    uint32_t nhops = 0;
    bool runs = true;
    if (!one_way && most >= call->comm->shelf_from) /* of one way n - 1 pairs use slots */
        most = call->comm->shelf_from - 1;
    for (uint32_t i = 0; i < s->nsteps && runs; i++) {
        const struct tt_step *step = &s->steps[i];
        struct tt_move *m = &lane->moves[lane->nmoves];
        if (step->fold_index != 0)
            continue;
        *m = (struct tt_move){ .verb = step->verb, .step = i };
        m->fold = op->folds[step->flags & TT_FOLD_TREE ? TT_TREE : TT_CHAIN];
        m->spread = step->flags & TT_FOLD_TREE ? NULL : op->spread;
        m->divisor = step->flags & TT_FINAL ? op->divisor : 1;
        m->few = NULL;
        if (step->verb != TT_VERB_RECV)
            runs = place(call, op, step->src_buffer, step->src_chunk, step->nchunks, m, 1);
        if (step->verb == TT_VERB_REDUCE)
            runs = runs && place(call, op, step->right_buffer, step->right_chunk, step->nchunks, m, 2);
        if (step->verb != TT_VERB_SEND)
            runs = runs && place(call, op, step->dst_buffer, step->dst_chunk, step->nchunks, m, 0);
        if (step->peer != TT_NONE)
            add_hops(lane, m, step, &nhops);
        if (m->divisor <= 1 && m->operands == 2 && m->bytes <= TT_FEW_BYTES)
            m->few = op->few;
        if (step->peer != TT_NONE && m->bytes > copied)
            lane->long_messages = true;
        lane->beyond = lane->beyond || (step->peer != TT_NONE && m->bytes > most);
        lane->nmoves += m->bytes > 0; /* what is empty is neither sent nor awaited */
    }
    return runs;
}

/* In place: is this written at this rank by a move that receives, or by one that does not? */
static bool is_written(
    const struct tt_call *call, const struct tt_lane *lane, const struct tt_move *sent, bool receives)
{
    uintptr_t from = origin(call, sent->buffer[1]) + (uintptr_t)sent->at[1];
    for (const struct tt_move *m = lane->moves; m < lane->moves + lane->nmoves; m++) {
        uintptr_t to = origin(call, m->buffer[0]) + (uintptr_t)m->at[0];
        if (m->verb != TT_VERB_SEND && (m->operands > 0) == receives && to < from + sent->bytes &&
            from < to + m->bytes)
            return true;
    }
    return false;
}

/* Where two ranks send to each other they wait for each other anyway, and if each reads the other's source
 * in place, both save the copy. Nobody may write that source, and no later message may wait for its slot, so
 * that the executor can take over with the loan outstanding. Ranks that share a core would take one turn
 * more. A source that its rank writes as soon as it was read is best copied, in whatever memory it lies:
 * measured on a sum of 8 KiB that goes where the operand was, a loan takes ten times as long. */
static void find_loans(const struct tt_call *call, const struct tt_schedule *s, struct tt_lane *lane)
{
    const struct tt_comm *comm = call->comm;
    bool may = comm->transport->lend != NULL && comm->wait_policy.spins > 0;
    bool copies = false;
    may = may && lane->class == TT_CLASS_COLLECTIVE;
    for (uint32_t i = 0; i < lane->nmoves && may; i++) {
        struct tt_move *m = &lane->moves[i];
        if (m->verb != TT_VERB_SEND || m->bytes < LOAN_BYTES)
            continue;
        int peer = m->hops->peer;
        copies = is_written(call, lane, m, false);
        may = m->buffer[1] == TT_IN && s->sends[peer] == 1 && s->recvs[peer] == 1 && !copies &&
              !is_written(call, lane, m, true);
        m->lends = lane->lends = true;
    }
    lane->lends = lane->lends && may;
    lane->long_messages = lane->long_messages && !copies;
    for (uint32_t i = 0; i < lane->nmoves; i++)
        lane->moves[i].lends = lane->moves[i].chooses = lane->moves[i].lends && may;
    lane->visits = lane->lends;
}

/* A peer that has read a source in place has its lines, and each must come back before the program can write
 * there again. Measured with 8 KiB that are rewritten before each call: that and an all_reduce of two ranks
 * take 0.8 us together if it lends, 0.39 if it copies; an all_gather of 16 KiB 0.88 and 0.7. */
static void find_watched(const struct tt_call *call, struct tt_lane *lane)
{
    uint64_t most = call->comm->endpoint->copy_bytes * REWRITTEN;
    bool only_sends = true;
    for (struct tt_move *m = lane->moves; m < lane->moves + lane->nmoves; m++) {
        bool sends = m->verb == TT_VERB_SEND && m->bytes <= most;
        m->watched = sends && m->bytes >= LOAN_BYTES && m->buffer[1] != TT_TMP;
        only_sends = only_sends && (sends || m->verb == TT_VERB_COPY);
    }
    lane->watches = lane->long_messages && only_sends;
}

/* All are looked at, so that the next call knows them. */
bool tt_lane_copies(const struct tt_lane *lane, const struct tt_quick *q)
{
    bool all = true;
    for (struct tt_move *m = lane->moves; m < lane->moves + lane->nmoves; m++) {
        const uint8_t *base = m->buffer[1] == TT_IN ? q->send : q->recv;
        if (m->watched && !tt_lane_is_rewritten(m, base + m->at[1]))
            all = false;
    }
    return all;
}

/* All send each other a part of IN, combine one, and tell all the others. */
static bool is_two_shot(const struct tt_call *call, const struct tt_schedule *s, const struct tt_lane *lane)
{
    uint32_t others = (uint32_t)s->key.n - 1;
    if (call->collective != TT_ALL_REDUCE || others == 0 || strcmp(s->algorithm, "direct") != 0 ||
        lane->nmoves != 3 * others + 1)
        return false;
    const struct tt_move *m = lane->moves, *fold = &m[others];
    for (uint32_t i = 0; i < others; i++) {
        const struct tt_move *result = &fold[1 + i], *back = &fold[1 + others + i];
        if (m[i].verb != TT_VERB_SEND || result->verb != TT_VERB_SEND || back->verb != TT_VERB_RECV ||
            back->hops->peer != m[i].hops->peer)
            return false;
    }
    return fold->operands == s->key.n;
}

/* By two shots, a rank that has the sum of its part can store it where all want it, in the same pass: where
 * they have offered to take it, or where their operands came to lie. Nobody waits for who reads his operands,
 * since the sum that comes back says that they were read; and nothing but that sum is written where they
 * lie, so that here, too, the executor can take over. */
static void find_pushes(const struct tt_schedule *s, struct tt_lane *lane)
{
    uint32_t others = (uint32_t)s->key.n - 1;
    struct tt_move *m = lane->moves, *fold = &m[others];
    fold->spreads = lane->visits = true;
    for (uint32_t i = 0; i < others; i++) {
        struct tt_move *result = &fold[1 + i], *back = &fold[1 + others + i];
        m[i].lends = m[i].bytes > PUSH_BYTES;
        m[i].answered = m[i].chooses = result->chooses = true;
        result->lends = result->bytes > PUSH_BYTES;
        back->offers = back->bytes > PUSH_BYTES;
        for (uint32_t hop = 0; hop < others; hop++)
            if (fold->hops[hop].peer == result->hops->peer)
                result->result = (uint8_t)(1 + hop);
    }
}

/* The messages that are not empty, or, where all know all counts, those of the schedule. */
static void count_tolls(const struct tt_op *op, struct tt_lane *lane)
{
    const struct tt_schedule *s = op->schedule;
    const struct tt_comm *comm = lane->call.comm;
    for (int peer = 0; peer < s->key.n; peer++) {
        struct tt_toll toll = { &comm->next_send[lane->class][peer], &comm->next_recv[lane->class][peer],
            s->sends[peer], s->recvs[peer], peer };
        if (op->one_sided) {
            toll.sends = toll.recvs = 0;
            for (uint32_t i = 0; i < lane->nmoves; i++) {
                const struct tt_move *m = &lane->moves[i];
                bool hers = m->operands > 0 && m->hops->peer == peer;
                toll.sends += hers && m->verb == TT_VERB_SEND;
                toll.recvs += hers && m->verb == TT_VERB_RECV;
            }
        }
        if (toll.sends + toll.recvs > 0)
            lane->tolls[lane->ntolls++] = toll;
    }
}

/* The extents of both buffers at this rank, as the check allows them. */
static void measure(const struct tt_call *call, struct tt_lane *lane)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    for (int side = 0; side < 2; side++)
        lane->bytes[side] = tt_call_bytes(call, side);
    lane->grain = row->result == TT_RESULT_REDUCED ? (uint32_t)tutti_type_bytes(call->type) : 1;
    lane->apart = (int64_t)((uintptr_t)call->recv - (uintptr_t)call->send);
}

static bool is_small(const struct tt_call *call, const struct tt_op *op)
{
    const struct tt_comm *comm = call->comm;
    return comm->settings.fused && comm->trace == NULL && comm->transport->post != NULL &&
           op->layout.slices == 1 && op->schedule->nsteps <= MOVES_MAX && op->schedule->key.n <= MOVES_MAX;
}

/* What receives has one message, and nothing depends on the call but its pointers. */
static bool may_hurry(const struct tt_lane *lane)
{
    bool may = !lane->visits;
    for (uint32_t i = 0; i < lane->nmoves && may; i++) {
        const struct tt_move *m = &lane->moves[i];
        may = m->verb == TT_VERB_SEND ? !m->chooses : m->verb == TT_VERB_COPY || m->alone;
    }
    return may;
}

/* Moves, and memory for them; none if there is none, or if it is no list of runs. */
static void straighten(const struct tt_call *call, const struct tt_op *op, struct tt_lane *lane)
{
    const struct tt_schedule *s = op->schedule;
    uint64_t hops = (uint64_t)s->nsteps * OPERANDS_MAX, n = (uint64_t)s->key.n;
    lane->moves =
        malloc(s->nsteps * sizeof *lane->moves + hops * sizeof *lane->hops + n * sizeof *lane->tolls);
    if (lane->moves == NULL)
        return;
    lane->hops = (struct tt_hop *)(void *)(lane->moves + s->nsteps);
    lane->tolls = (struct tt_toll *)(void *)(lane->hops + hops);
    bool runs = work_out(call, op, lane);
    lane->pushes =
        runs && op->streams == 0 && call->comm->transport->offer != NULL && is_two_shot(call, s, lane);
    if (!runs || (lane->beyond && !lane->pushes)) {
        free(lane->moves);
        lane->moves = NULL;
        return;
    }
    if (lane->pushes) {
        find_pushes(s, lane);
    } else {
        find_loans(call, s, lane);
        find_watched(call, lane);
    }
    count_tolls(op, lane);
    lane->hurries = may_hurry(lane);
}

/* A v-form's arrays are its caller's, and the communicator's tables are the next call's: a lane has copies,
 * and tables of its own. They take the room of what was kept here before. */
static bool keep_arrays(const struct tt_lane *before, struct tt_lane *lane)
{
    size_t n = (size_t)lane->call.comm->n, entries = lane->own_counts ? 3 : 1;
    lane->arrays = before->arrays;
    if (tt_collectives[lane->call.collective].counts == TT_COUNTS_EVEN)
        return true;
    for (int i = 0; i < TT_CALL_ARRAYS; i++)
        entries += *tt_call_array(&lane->call, i) != NULL;
    uint64_t *to = realloc(before->arrays, entries * n * sizeof *to);
    if (to == NULL)
        return false;
    lane->arrays = lane->tables.starts[TT_OUT] = to;
    to += n;
    if (lane->own_counts) {
        lane->tables.starts[TT_IN] = to;
        lane->tables.own_counts = (size_t *)(void *)(to + n);
        to += 2 * n;
    }
    for (int i = 0; i < TT_CALL_ARRAYS; i++) {
        const size_t **array = tt_call_array(&lane->call, i);
        if (*array == NULL)
            continue;
        *array = memcpy(to, *array, n * sizeof **array);
        to += n;
    }
    return true;
}

/* The count of the signature. */
static uint64_t asked(const struct tt_call *call)
{
    return call->count_in_blocks ? 0 : call->count;
}

/* The same arrays, as far as this rank reads them. */
static bool same_blocks(const struct tt_lane *lane, const struct tt_blocks *blocks)
{
    size_t bytes = (size_t)lane->call.comm->n * sizeof(size_t);
    for (int side = 0; side < 2; side++) {
        const struct tt_blocks *kept = &lane->call.blocks[side], *given = &blocks[side];
        if (kept->counts == NULL)
            continue; /* this rank does not read them */
        if (given->counts == NULL || memcmp(kept->counts, given->counts, bytes) != 0 ||
            (kept->places == NULL) != (given->places == NULL) ||
            (kept->places != NULL && memcmp(kept->places, given->places, bytes) != 0))
            return false;
    }
    return true;
}

/* It is, though this call could not take it. */
static bool is_there(const struct tt_lane *lane, uint64_t what, const struct tt_call *call)
{
    return lane->what == what && lane->count == asked(call) && lane->call.in_place == call->in_place &&
           same_blocks(lane, call->blocks);
}

/* Where no rank has an element a lane would gain nothing. Of blocks each rank knows only its own, and who has
 * none takes the lane that the others take. */
void tt_lane_learn(const struct tt_call *call, const struct tt_op *op)
{
    if (call->created != NULL || call->met || (call->total == 0 && !tt_call_is_one_sided(call)))
        return;
    if (call->comm->device != NULL) /* each pointer is looked at, each time */
        return;
    uint64_t what = tt_lane_what(&(struct tt_quick){ .collective = call->collective,
        .type = call->type,
        .op = call->op,
        .root = call->root,
        .send = call->send,
        .recv = call->recv });
    struct tt_lane *lane = tt_lane_at(call->comm, what, asked(call));
    if (what == 0 || is_there(lane, what, call))
        return;
    struct tt_lane fresh = { .what = what,
        .count = asked(call),
        .class = (uint8_t)op->class,
        .own_counts = op->one_sided,
        .seen = { (uintptr_t)call->send, (uintptr_t)call->recv },
        .call = *call };
    fresh.call.entry = NULL;
    fresh.call.lane = lane;
    if (is_small(call, op))
        straighten(call, op, &fresh);
    if (fresh.moves == NULL && lane->moves != NULL) /* who has moves gains more by this lane */
        return;
    if (!keep_arrays(lane, &fresh)) {
        free(fresh.moves);
        return;
    }
    measure(call, &fresh);
    tt_call_record(call, op, &fresh.record);
    fresh.hash = op->hash;
    fresh.cost = op->cost;
    fresh.signature = op->signature;
    tt_traffic_add(&call->comm->traffic, &lane->cost, lane->passed); /* of what it was before */
    free(lane->moves);
    *lane = fresh;
}

void tt_lane_call(const struct tt_quick *q, const struct tt_lane *lane, struct tt_call *call)
{
    *call = lane->call;
    call->send = q->send;
    call->recv = q->recv;
}

void tt_lanes_free(struct tt_comm *comm)
{
    for (int i = 0; comm->lanes != NULL && i < TT_LANES; i++) {
        free(comm->lanes[i].moves);
        free(comm->lanes[i].arrays);
    }
    free(comm->lanes);
}

static bool overlap(const uint8_t *a, uint64_t a_bytes, const uint8_t *b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

/* Nothing is wrong with the pointers that the long way would have to say. */
static bool are_legal(const struct tt_lane *lane, const uint8_t *send, const uint8_t *recv)
{
    bool in_place = lane->call.in_place, both = lane->bytes[TT_IN] > 0 && lane->bytes[TT_OUT] > 0;
    if ((lane->bytes[TT_IN] > 0 && send == NULL) || (lane->bytes[TT_OUT] > 0 && recv == NULL))
        return false;
    if ((((uintptr_t)send | (uintptr_t)recv) & (lane->grain - 1)) != 0)
        return false;
    return in_place ? (int64_t)((uintptr_t)recv - (uintptr_t)send) == lane->apart
                    : !both || !overlap(send, lane->bytes[TT_IN], recv, lane->bytes[TT_OUT]);
}

/* A program calls with the same pointers again and again. */
static bool may_run(const struct tt_comm *comm, struct tt_lane *lane, const void *send, void *recv)
{
    if (lane->seen[TT_IN] != (uintptr_t)send || lane->seen[TT_OUT] != (uintptr_t)recv) {
        if (!are_legal(lane, send, recv))
            return false;
        lane->seen[TT_IN] = (uintptr_t)send;
        lane->seen[TT_OUT] = (uintptr_t)recv;
    }
    return tt_lane_is_open(comm);
}

/* A program in a loop makes the same call as the last time, with the same pointers. */
static bool is_last(const struct tt_lane *lane, const struct tt_quick *q)
{
    return lane->seen[TT_IN] == (uintptr_t)q->send && lane->seen[TT_OUT] == (uintptr_t)q->recv &&
           lane->count == q->count && lane->call.collective == q->collective && lane->call.type == q->type &&
           lane->call.op == q->op && lane->call.root == q->root && lane->what != 0;
}

/* Of another call than the last one. */
static __attribute__((noinline)) struct tt_lane *find(struct tt_comm *comm, const struct tt_quick *q)
{
    uint64_t what = tt_lane_what(q);
    struct tt_lane *lane = tt_lane_at(comm, what, q->count);
    if (what == 0 || lane->what != what || lane->count != q->count ||
        !may_run(comm, lane, q->send, q->recv)) /* an empty lane's is 0, too */
        return NULL;
    comm->lane_last = lane;
    return q->blocks == NULL || same_blocks(lane, q->blocks) ? lane : NULL;
}

struct tt_lane *tt_lane_find(const struct tt_quick *q)
{
    struct tt_comm *comm = tt_handle_peek(q->comm);
    if (comm == NULL)
        return NULL;
    struct tt_lane *lane = comm->lane_last;
    if (!is_last(lane, q))
        return find(comm, q);
    bool same = q->blocks == NULL || same_blocks(lane, q->blocks);
    return same && tt_lane_is_open(comm) ? lane : NULL;
}
