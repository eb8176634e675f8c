/* SPDX-License-Identifier: BSD-3-Clause */
/* rectangles.c: from a collective's row in the table to its rectangles.
 *
 * Where the row has blocks there is a rectangle for each block, else one for the whole vector; an exchange
 * has one for each pair of ranks. What only moves is counted in bytes, so that one kernel serves all. */
#include "exec/rectangles.h"

#include <string.h>

struct plan { /* while it is made */
    const struct tt_rect_call *call;
    const struct tt_collective_row *row;
    struct tt_fused_params *params;
    uint64_t unit; /* bytes that a rectangle counts by */
    uint64_t longest; /* bytes of the longest rectangle */
};

static uint8_t all_ranks(const struct tt_rect_call *call)
{
    return (uint8_t)((1U << call->n) - 1);
}

static uint8_t rank_bit(int rank)
{
    return (uint8_t)(1U << rank);
}

static bool has(uint8_t mask, int rank)
{
    return mask >> rank & 1;
}

static uint64_t block_bytes(const struct tt_rect_call *call, int block)
{
    uint64_t elements = call->counts != NULL ? call->counts[block] : call->total / (uint64_t)call->n;
    return elements * call->element_bytes;
}

/* Where a block begins in the larger buffer. */
static uint64_t block_start(const struct tt_rect_call *call, int block)
{
    uint64_t bytes = 0;
    if (call->displs != NULL)
        return call->displs[block] * call->element_bytes;
    for (int b = 0; b < block; b++)
        bytes += block_bytes(call, b);
    return bytes;
}

static void add(struct plan *p, uint64_t from, uint64_t to, uint64_t bytes, uint8_t sources, uint8_t dsts)
{
    if (bytes == 0)
        return;
    p->params->rect[p->params->rects++] = (struct tt_rect){
        .from = from, .to = to, .count = bytes / p->unit, .sources = sources, .dsts = dsts
    };
    p->longest = bytes > p->longest ? bytes : p->longest;
}

/* One block, or the whole vector, as far as it is called for: a rank whose buffer is its own block has it at
 * the start. */
static void add_block(struct plan *p, int block, uint64_t start, uint64_t bytes)
{
    const struct tt_rect_call *call = p->call;
    uint64_t end = call->end > 0 && call->end < start + bytes ? call->end : start + bytes;
    uint64_t begin = call->begin > start ? call->begin : start, skipped = begin - start;
    if (begin >= end)
        return;
    uint8_t sources = p->row->result == TT_RESULT_REDUCED ? all_ranks(call)
                      : p->row->result == TT_RESULT_OWNER ? rank_bit(block)
                                                          : rank_bit(call->root);
    uint8_t dsts = p->row->out == TT_REACH_ALL   ? all_ranks(call)
                   : p->row->out == TT_REACH_OWN ? rank_bit(block)
                                                 : rank_bit(call->root);
    add(p, p->row->in == TT_REACH_OWN ? skipped : begin, p->row->out == TT_REACH_OWN ? skipped : begin,
        end - begin, sources, dsts);
}

static void add_all(struct plan *p)
{
    const struct tt_rect_call *call = p->call;
    if (p->row->p2p) {
        uint64_t bytes = call->total * call->element_bytes;
        uint64_t end = call->end > 0 && call->end < bytes ? call->end : bytes;
        if (call->begin < end)
            add(p, call->begin, call->begin, end - call->begin, rank_bit(0), rank_bit(1));
        return;
    }
    if (p->row->result == TT_RESULT_NONE)
        return;
    if (!p->row->blocks) {
        add_block(p, 0, 0, call->total * call->element_bytes);
        return;
    }
    for (int b = 0; b < call->n; b++)
        if (p->row->result != TT_RESULT_EXCHANGED)
            add_block(p, b, block_start(call, b), block_bytes(call, b));
        else
            for (int to = 0; to < call->n; to++)
                add(p, block_start(call, to), block_start(call, b), block_bytes(call, to), rank_bit(b),
                    rank_bit(to));
}

/* How far behind the start of a rank's results its operands start, if it works in place. */
static int64_t operands_behind_results(const struct plan *p, int rank)
{
    int64_t start = (int64_t)block_start(p->call, rank);
    if (p->row->in_place != TT_IN_PLACE_OWN_BLOCK)
        return 0;
    return p->row->in == TT_REACH_OWN ? start : -start;
}

/* True if nothing that `stores` stores at this rank is loaded there by `loads`; or both are the same
 * rectangle, which loads each element before it stores it. */
static bool is_independent(
    const struct plan *p, int rank, const struct tt_rect *stores, const struct tt_rect *loads)
{
    int64_t to = (int64_t)stores->to, from = (int64_t)loads->from + operands_behind_results(p, rank);
    if (!has(stores->dsts, rank) || !has(loads->sources, rank))
        return true;
    if (from + (int64_t)(loads->count * p->unit) <= to || to + (int64_t)(stores->count * p->unit) <= from)
        return true;
    return stores == loads && from == to;
}

static bool are_independent(const struct plan *p)
{
    const struct tt_fused_params *params = p->params;
    for (int rank = 0; rank < p->call->n; rank++) {
        if (!(p->call->in_place >> rank & 1))
            continue;
        for (uint32_t i = 0; i < params->rects; i++)
            for (uint32_t j = 0; j < params->rects; j++)
                if (!is_independent(p, rank, &params->rect[i], &params->rect[j]))
                    return false;
    }
    return true;
}

static void measure(const struct plan *p, struct tt_rect_extents *extents)
{
    memset(extents, 0, sizeof *extents);
    for (uint32_t i = 0; i < p->params->rects; i++) {
        const struct tt_rect *r = &p->params->rect[i];
        uint64_t in = r->from + r->count * p->unit, out = r->to + r->count * p->unit;
        for (int rank = 0; rank < p->call->n; rank++) {
            if (has(r->sources, rank) && in > extents->in[rank])
                extents->in[rank] = in;
            if (has(r->dsts, rank) && out > extents->out[rank])
                extents->out[rank] = out;
        }
    }
}

static enum tt_kernel kernel_of(const struct tt_rect_call *call, bool folds)
{
    if (!folds)
        return TT_KERNEL_MOVE;
    if (call->scaled)
        return call->exact ? TT_KERNEL_SCALED_TREE : TT_KERNEL_SCALED_CHAIN;
    return call->exact ? TT_KERNEL_FUSED_TREE : TT_KERNEL_FUSED_CHAIN;
}

bool tt_rectangles(const struct tt_rect_call *call, struct tt_fused_params *params, struct tt_rect_plan *plan)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    bool folds = row->result == TT_RESULT_REDUCED;
    uint32_t kernel = tt_kernel_number(kernel_of(call, folds), call->type, call->op);
    if (call->n < 1 || call->n > TT_FUSED_RANKS || (row->p2p && call->n != 2) ||
        row->counts == TT_COUNTS_OWN || kernel == 0)
        return false;
    struct plan p = { .call = call, .row = row, .params = params, .unit = folds ? call->element_bytes : 1 };
    params->rects = 0;
    params->divisor = call->op == TUTTI_AVG && folds ? (uint32_t)call->n : 1;
    add_all(&p);
    if (!are_independent(&p))
        return false;
    plan->kernel = params->rects > 0 ? kernel : 0;
    plan->grid = tt_fused_grid(p.longest);
    plan->grid_y = params->rects > 0 ? params->rects : 1;
    measure(&p, &plan->extents);
    return true;
}
