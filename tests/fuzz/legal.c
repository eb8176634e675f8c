/* SPDX-License-Identifier: BSD-3-Clause */
/* legal.c: calls that must succeed, and what must come of them.
 *
 * What is called follows from the step's number, so that all ranks agree without a word; where buffers lie,
 * in place or not, in which memory, with what gaps, is each rank's own choice. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

enum { TYPES = 12, BLOCK_SHIFT = 32, GAP_ELEMENTS = 4 };

/* --- What is called */

static bool is_float(tutti_type type)
{
    return type >= TUTTI_FLOAT16;
}

static void draw_op(const struct fuzz_end *end, uint64_t *r, struct fuzz_call *call)
{
    static const tutti_op ops[] = { TUTTI_SUM, TUTTI_PROD, TUTTI_MAX, TUTTI_MIN, TUTTI_AVG, TUTTI_BIT_AND,
        TUTTI_BIT_OR, TUTTI_BIT_XOR };
    uint32_t which = ranks_below(r, 5), op = ranks_below(r, is_float(call->type) ? 5 : 8);
    call->op = ops[op];
    if ((int)which >= end->op_count)
        return;
    const struct fuzz_op *created = &end->ops[which];
    if (created->kind == FUZZ_FACTOR)
        call->type = created->type;
    if (created->element_bytes % tutti_type_bytes(call->type) != 0)
        return;
    call->created = created;
    call->op = created->id;
}

static size_t unit_of(const struct fuzz_call *call)
{
    return call->created != NULL ? call->created->element_bytes / tutti_type_bytes(call->type) : 1;
}

static size_t draw_count(uint64_t *r, size_t most, size_t unit)
{
    static const uint32_t bounds[] = { 1, 2, 9, 65, 65, 1025, UINT32_MAX, UINT32_MAX };
    size_t bound = bounds[ranks_below(r, 8)], count = (size_t)ranks_below(r, UINT32_MAX);
    if (bound > most + 1)
        bound = most + 1;
    count = count % bound;
    return count == 0 ? 0 : (count + unit - 1) / unit * unit;
}

static void draw_counts(uint64_t *r, size_t limit, struct fuzz_call *call)
{
    size_t n = (size_t)call->end->n, unit = unit_of(call);
    size_t most = limit / (2 * n * tutti_type_bytes(call->type)), rows = 1;
    most = most > unit ? most - unit : 0;
    if (call->what == FUZZ_ALL_TO_ALL_V)
        rows = n;
    call->count = draw_count(r, most, unit);
    for (size_t s = 0; s < rows; s++)
        for (size_t d = 0; d < n; d++)
            call->counts[s][d] = draw_count(r, most, unit);
    if (fuzz_rows[call->what].blocks && call->what != FUZZ_ALL_TO_ALL_V)
        call->count = call->counts[0][call->end->rank];
}

/* --- Where it lies */

static size_t count_of(const struct fuzz_call *call, bool out, int r)
{
    if (!fuzz_rows[call->what].blocks)
        return call->count;
    if (call->what != FUZZ_ALL_TO_ALL_V)
        return call->counts[0][r];
    return out ? call->counts[r][call->end->rank] : call->counts[call->end->rank][r];
}

/* Elements before block r. */
static size_t place_of(const struct fuzz_call *call, bool out, int r)
{
    const size_t *displs = out ? call->recv_displs : call->send_displs;
    size_t before = 0;
    if (displs != NULL && count_of(call, out, r) > 0)
        return displs[r];
    for (int q = 0; q < r; q++)
        before += count_of(call, out, q);
    return before;
}

/* Places for the blocks of one side, rising, falling or turned; returns the elements from first to last. */
static size_t draw_displs(struct fuzz_rank *me, const struct fuzz_call *call, bool out, size_t *displs)
{
    int n = call->end->n, turn = (int)ranks_below(&me->random, (uint32_t)n);
    bool falling = ranks_below(&me->random, 2) == 1;
    size_t end = 0;
    for (int i = 0; i < n; i++) {
        int r = ((falling ? n - 1 - i : i) + turn) % n;
        size_t count = count_of(call, out, r);
        end += ranks_below(&me->random, GAP_ELEMENTS);
        displs[r] = count > 0 || ranks_below(&me->random, 2) == 0 ? end : SIZE_MAX;
        end += count;
    }
    return end;
}

/* The arrays of one side; returns the elements that the buffer spans. */
static size_t draw_arrays(struct fuzz_rank *me, struct fuzz_call *call, bool out)
{
    size_t *counts = call->arrays[out ? 2 : 0], *displs = call->arrays[out ? 3 : 1], span = 0;
    bool placed = call->what != FUZZ_REDUCE_SCATTER_V && ranks_below(&me->random, 3) > 0;
    for (int r = 0; r < call->end->n; r++)
        span += counts[r] = count_of(call, out, r);
    if (placed)
        span = draw_displs(me, call, out, displs);
    *(out ? &call->recv_counts : &call->send_counts) = counts;
    *(out ? &call->recv_displs : &call->send_displs) = placed ? displs : NULL;
    return span;
}

static size_t span_of(struct fuzz_rank *me, struct fuzz_call *call, bool out)
{
    const struct fuzz_row *row = &fuzz_rows[call->what];
    if ((out ? row->out : row->in) != FUZZ_ALL)
        return call->count;
    if (row->blocks)
        return draw_arrays(me, call, out);
    return call->count * (size_t)call->end->n;
}

static uint8_t *draw_buffer(struct fuzz_rank *me, const struct fuzz_call *call, size_t elements)
{
    struct fuzz_pool *pool = &me->pools[ranks_below(&me->random, FUZZ_POOLS)];
    size_t bytes = tutti_type_bytes(call->type);
    if (elements == 0 && ranks_below(&me->random, 2) == 0)
        return NULL;
    return fuzz_place(me, pool, elements * bytes, fuzz_rows[call->what].reduced ? bytes : 1);
}

/* What a rank gives that has no such buffer: the library must not look at it. */
static uint8_t *any_pointer(struct fuzz_rank *me)
{
    uint32_t which = ranks_below(&me->random, 3);
    return which == 0 ? NULL : which == 1 ? me->pools[0].data + 1 : (uint8_t *)(uintptr_t)24;
}

static void place_in_place(struct fuzz_call *call)
{
    const struct fuzz_row *row = &fuzz_rows[call->what];
    size_t bytes = tutti_type_bytes(call->type);
    if (row->in == FUZZ_OWN)
        call->send = call->recv + place_of(call, true, call->end->rank) * bytes;
    else if (row->out == FUZZ_OWN)
        call->recv = (uint8_t *)call->send + place_of(call, false, call->end->rank) * bytes;
    else
        call->recv = (uint8_t *)call->send;
}

static void place(struct fuzz_rank *me, struct fuzz_call *call)
{
    const struct fuzz_row *row = &fuzz_rows[call->what];
    bool in = fuzz_has(call, false), out = fuzz_has(call, true);
    bool both = in && out && row->in_place && ranks_below(&me->random, 3) == 0;
    size_t sent = in ? span_of(me, call, false) : 0, got = out ? span_of(me, call, true) : 0;
    call->send = in ? draw_buffer(me, call, sent) : any_pointer(me);
    if (both && call->send != NULL && row->in != FUZZ_OWN) {
        place_in_place(call);
        return;
    }
    call->recv = out ? draw_buffer(me, call, got) : any_pointer(me);
    if (both && call->recv != NULL && row->in == FUZZ_OWN)
        place_in_place(call);
}

void fuzz_draw(
    struct fuzz_rank *me, const struct fuzz_end *end, uint64_t common, size_t limit, struct fuzz_call *call)
{
    uint64_t r = common;
    *call = (struct fuzz_call){ .what = (enum fuzz_what)ranks_below(&r, FUZZ_COLLECTIVES),
        .end = end,
        .comm = end->comm,
        .type = (tutti_type)ranks_below(&r, TYPES),
        .stream = tutti_no_stream(),
        .data = ranks_random(&r) };
    const struct fuzz_row *row = &fuzz_rows[call->what];
    if (row->reduced)
        draw_op(end, &r, call);
    call->root = row->rooted ? (int)ranks_below(&r, (uint32_t)end->n) : 0;
    draw_counts(&r, limit, call);
    place(me, call);
}

void fuzz_draw_message(struct fuzz_rank *me, const struct fuzz_end *end, uint64_t common, size_t limit,
    bool out, int peer, struct fuzz_call *call)
{
    uint64_t r = common;
    *call = (struct fuzz_call){ .what = out ? FUZZ_RECV : FUZZ_SEND,
        .end = end,
        .comm = end->comm,
        .type = (tutti_type)ranks_below(&r, TYPES),
        .stream = tutti_no_stream(),
        .data = ranks_random(&r),
        .root = peer };
    call->count = draw_count(&r, limit / 8, 1);
    *(out ? (uint8_t **)&call->recv : (uint8_t **)&call->send) = draw_buffer(me, call, call->count);
}

/* --- What must come of it */

static struct ranks_vector vector_of(const struct fuzz_call *call)
{
    bool reduced = fuzz_rows[call->what].reduced;
    tutti_op op = reduced && call->created == NULL ? call->op : RANKS_MOVE;
    if (reduced && call->created != NULL && call->created->kind == FUZZ_FACTOR)
        op = TUTTI_SUM;
    return (struct ranks_vector){ call->type, op, call->data, call->end->n };
}

static void put(
    struct fuzz_rank *me, const struct fuzz_call *call, const uint8_t *at, uint64_t first, size_t count)
{
    struct ranks_vector v = vector_of(call);
    if (count == 0)
        return;
    ranks_fill(&v, call->end->rank, first, count, (uint8_t *)at);
    memcpy(fuzz_shadow(me, at), at, count * tutti_type_bytes(call->type));
}

/* One element by a factor of each rank; each is so small that floats are exact in any order. */
static void sum_of_factors(const struct fuzz_call *call, uint64_t index, uint8_t *at)
{
    struct ranks_vector v = vector_of(call);
    uint64_t whole = 0;
    double sum = 0;
    for (int r = 0; r < call->end->n; r++) {
        uint64_t x = 0;
        ranks_fill(&v, r, index, 1, &x);
        whole += x * (uint64_t)call->created->factors[r];
        if (is_float(call->type))
            sum += ranks_decode(call->type, &x) * call->created->factors[r];
    }
    if (is_float(call->type))
        ranks_encode(call->type, sum, at);
    else
        memcpy(at, &whole, tutti_type_bytes(call->type));
}

/* Of an operator that is the sum of all bytes. */
static void sum_of_bytes(const struct fuzz_call *call, uint64_t index, uint8_t *at)
{
    struct ranks_vector v = vector_of(call);
    size_t bytes = tutti_type_bytes(call->type);
    memset(at, 0, bytes);
    for (int r = 0; r < call->end->n; r++) {
        uint8_t x[8];
        ranks_fill(&v, r, index, 1, x);
        for (size_t b = 0; b < bytes; b++)
            at[b] = (uint8_t)(at[b] + x[b]);
    }
}

static void want_reduced(const struct fuzz_call *call, uint64_t first, size_t count, uint8_t *at)
{
    struct ranks_vector v = vector_of(call);
    size_t bytes = tutti_type_bytes(call->type);
    enum fuzz_op_kind kind = call->created != NULL ? call->created->kind : FUZZ_BUILT_IN;
    if (kind == FUZZ_BUILT_IN)
        ranks_reduced(&v, first, count, at);
    else if (kind == FUZZ_LEFT || kind == FUZZ_RIGHT)
        ranks_fill(&v, kind == FUZZ_LEFT ? 0 : call->end->n - 1, first, count, at);
    for (size_t i = 0; i < count && kind == FUZZ_FACTOR; i++)
        sum_of_factors(call, first + i, at + i * bytes);
    for (size_t i = 0; i < count && kind == FUZZ_BYTES; i++)
        sum_of_bytes(call, first + i, at + i * bytes);
}

/* What arrives from one rank, or is reduced over all, where the shadow keeps it. */
static void want(struct fuzz_rank *me, const struct fuzz_call *call, const uint8_t *at, int from,
    uint64_t first, size_t count)
{
    struct ranks_vector v = vector_of(call);
    if (count == 0)
        return;
    if (fuzz_rows[call->what].reduced)
        want_reduced(call, first, count, fuzz_shadow(me, at));
    else
        ranks_fill(&v, from, first, count, fuzz_shadow(me, at));
}

void fuzz_fill(struct fuzz_rank *me, const struct fuzz_call *call)
{
    const struct fuzz_row *row = &fuzz_rows[call->what];
    size_t bytes = tutti_type_bytes(call->type);
    uint64_t own = (uint64_t)call->end->rank << BLOCK_SHIFT;
    int n = call->end->n;
    if (fuzz_has(call, false) && row->in != FUZZ_ALL)
        put(me, call, call->send, 0, call->count);
    for (int r = 0; fuzz_has(call, false) && row->in == FUZZ_ALL && r < n; r++)
        put(me, call, call->send + place_of(call, false, r) * bytes, (uint64_t)r << BLOCK_SHIFT,
            count_of(call, false, r));
    if (!fuzz_has(call, true))
        return;
    if (row->out != FUZZ_ALL)
        want(me, call, call->recv, call->root, row->out == FUZZ_OWN ? own : 0, call->count);
    for (int r = 0; row->out == FUZZ_ALL && r < n; r++)
        want(me, call, call->recv + place_of(call, true, r) * bytes, r, row->in == FUZZ_ALL ? own : 0,
            count_of(call, true, r));
}
