/* SPDX-License-Identifier: BSD-3-Clause */
/* spin_submit.c: which calls kernels of several devices do, and what a rank enqueues of one.
 *
 * A call is cut as long as a rank's cells are for each of its buffers, whether it has anything there or
 * not: for no rank knows where another one has its buffers, and all must meet alike. A rank that uses its
 * cells has a kernel for each part, with its copies, and one that does not has one for all. A part is a
 * part of each block, so its bits are those of the whole. */
#include "spin/spin.h"

#include <stdlib.h>
#include <string.h>

#include "base/collective.h"
#include "exec/rectangles.h"
#include "select/choose.h"
#include "select/spin.h"

enum { VECTOR = 16, WARP = 32 };

/* --- Which calls */

bool tt_spin_has(enum tt_collective collective)
{
    const struct tt_collective_row *row = &tt_collectives[collective];
    return !row->p2p && row->counts != TT_COUNTS_OWN;
}

static uint64_t bytes_of(const struct tt_call *call)
{
    return call->collective == TT_BARRIER ? 0 : call->total * tutti_type_bytes(call->type);
}

struct plan {
    struct tt_fused_params rects;
    struct tt_rect_plan plan;
    uint32_t unit; /* bytes that a rectangle counts */
    bool folds;
    uint64_t part; /* bytes of a block that are done at a time */
};

/* Kernels of several devices may do in place whatever may be called so, unlike those of one. */
static bool make_plan(const struct tt_spin *spin, const struct tt_call *call, struct plan *p)
{
    bool scaled = tt_call_scales(call);
    const struct tt_blocks *blocks = &call->blocks[call->blocks[TT_IN].counts != NULL ? TT_IN : TT_OUT];
    bool has_all = !tt_collectives[call->collective].rooted || call->root == spin->me; /* the larger buffer */
    struct tt_rect_call rects = { .collective = call->collective,
        .n = spin->n,
        .root = call->root,
        .type = call->type,
        .op = scaled ? TUTTI_SUM : call->op,
        .exact = call->comm->exact,
        .scaled = scaled,
        .element_bytes = (uint32_t)tutti_type_bytes(call->type),
        .total = call->collective == TT_BARRIER ? 0 : call->total,
        .counts = blocks->counts,
        .displs = has_all ? blocks->displs : NULL };
    if (!tt_rectangles(&rects, &p->rects, &p->plan))
        return false;
    p->folds = tt_collectives[call->collective].result == TT_RESULT_REDUCED;
    p->unit = p->folds ? rects.element_bytes : 1;
    uint64_t blocks_at_most = p->rects.rects > 1 ? (uint64_t)spin->n : 1;
    p->part = spin->its.cell_bytes / blocks_at_most / VECTOR * VECTOR;
    return true;
}

bool tt_spin_serves(const struct tt_spin *spin, const struct tt_call *call)
{
    struct plan p;
    if (spin == NULL || !spin->serves || !tt_spin_has(call->collective))
        return false;
    bool own = call->created != NULL && !tt_call_scales(call); /* a user's operator */
    bool idle = call->collective != TT_BARRIER && call->total == 0;
    return !own && !idle && tt_spin_pays(&call->comm->settings, spin->n, bytes_of(call)) &&
           tt_choose_allows(&call->comm->settings, call->collective, "direct") && make_plan(spin, call, &p);
}

void tt_spin_begin(struct tt_spin *spin, uint32_t kernels, struct tt_gate *gate)
{
    const struct tt_direct_words *words = &spin->its.row->words;
    gate->led.meeting = &spin->meeting;
    gate->spin = (struct tt_spin_gate){
        .entered = &words->entered, .first = spin->made + 1, .last = spin->made + kernels
    };
    spin->made += kernels;
}

void tt_spin_take_back(struct tt_spin *spin, uint32_t kernels)
{
    spin->made -= kernels;
}

const _Atomic uint32_t *tt_spin_over(const struct tt_spin *spin)
{
    return (const _Atomic uint32_t *)(const void *)&spin->its.row->words.over;
}

/* --- What lies where the device does not reach it */

/* The stream has the host copy these. */
struct copies {
    bool once; /* and then they are freed */
    int count;
    struct {
        void *to;
        const void *from;
        size_t bytes;
    } copy[TT_SPIN_RANKS];
};

static void run_copies(void *argument)
{
    struct copies *c = argument;
    for (int i = 0; i < c->count; i++)
        memcpy(c->copy[i].to, c->copy[i].from, c->copy[i].bytes);
    if (c->once)
        free(c);
}

/* Those of a graph live as long as that. */
static enum tt_dev_error keep(const struct tt_spin *spin, struct copies *c, void *stream)
{
    struct tt_dev_capture capture;
    enum tt_dev_error error = spin->dev->stream.capture(stream, &capture);
    c->once = error == TT_DEV_OK && !capture.active;
    return error == TT_DEV_OK && capture.active ? spin->dev->graph.retain(capture.graph, free, c) : error;
}

/* Of blocks of one side, that lie in the user's memory where they say, what this kernel does: copies it to or
 * from the cells, one after the other. All ranks' blocks of a fold are one. */
static enum tt_dev_error copy_blocks(const struct tt_spin *spin, unsigned side, uint8_t *user,
    const struct tt_direct_block *blocks, int count, const struct tt_direct_params *p, void *stream)
{
    struct copies *c = calloc(1, sizeof *c);
    uint8_t *cell = spin->its.cells[side];
    if (c == NULL)
        return TT_DEV_NO_MEMORY;
    for (int i = 0; i < count; i++) {
        uint64_t left = blocks[i].bytes > p->begin ? blocks[i].bytes - p->begin : 0;
        uint8_t *there = user + blocks[i].at + p->begin;
        if (left > 0) {
            c->copy[c->count].to = side == TT_IN ? cell : there;
            c->copy[c->count].from = side == TT_IN ? there : cell;
            c->copy[c->count++].bytes = left < p->part ? left : p->part;
        }
        cell += blocks[i].bytes > 0 ? p->part : 0;
    }
    if (c->count == 0) {
        free(c);
        return TT_DEV_OK;
    }
    enum tt_dev_error error = keep(spin, c, stream);
    bool kept = error == TT_DEV_OK && !c->once;
    if (error == TT_DEV_OK)
        error = spin->dev->host_call(stream, run_copies, c);
    if (error != TT_DEV_OK && !kept)
        free(c);
    return error;
}

/* Where blocks are in cells: `one`, all at the same place. */
static void move_blocks(struct tt_direct_block *blocks, int count, bool one, uint64_t part)
{
    uint64_t at = 0;
    for (int i = 0; i < count; i++) {
        blocks[i].at = at;
        at += one || blocks[i].bytes == 0 ? 0 : part;
    }
}

/* --- A kernel */

static struct tt_direct_params params_of(
    const struct tt_spin *spin, const struct tt_spin_call *of, const struct plan *plan, uint32_t index)
{
    const struct tt_call *call = of->call;
    const uint64_t few = spin->n > 4 ? TT_LL_BYTES / 2 : TT_LL_BYTES;
    struct tt_direct_params p = { .in = call->send,
        .out = call->recv,
        .words = spin->its.row_seen,
        .call = of->first > 0 ? of->first + index : 0,
        .segment = tt_direct_segment((uint32_t)spin->n),
        /* captured ones are another call, for no worker compares them */
        .signature = (uint32_t)tt_hash_mix(tt_call_hash(call, 0, 0), of->first == 0),
        .ranks = (uint32_t)spin->n,
        .rank = (uint32_t)spin->me,
        .row = tt_fold_row_of(tt_call_scales(call) ? TUTTI_SUM : call->op),
        .shape = call->comm->exact ? TT_TREE : TT_CHAIN,
        .scales = plan->folds && tt_call_scales(call),
        .divisor = plan->rects.divisor };
    memcpy(p.pads, spin->pads, sizeof p.pads);
    bool ll = tt_direct_set(&p, plan->rects.rect, plan->rects.rects, plan->unit);
    p.way = ll && p.longest <= few && p.longest <= plan->part ? TT_DIRECT_LL : TT_DIRECT_PADS;
    p.part = plan->part;
    p.maps = spin->maps && p.way == TT_DIRECT_PADS && index == 0 && p.longest > 0 &&
             tt_direct_maps(plan->folds, p.scales != 0, call->type);
    return p;
}

/* So many bytes of this side are a rank's. */
static uint64_t bytes_of_side(const struct tt_direct_params *p, unsigned side)
{
    const struct tt_direct_block *blocks = side == TT_IN ? p->send : p->receive;
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < (side == TT_IN ? p->blocks : p->ranks); k++)
        bytes += blocks[k].bytes;
    return bytes;
}

static bool needs_cells(const struct tt_direct_params *p, const bool reached[2])
{
    return (!reached[TT_IN] && bytes_of_side(p, TT_IN) > 0) ||
           (!reached[TT_OUT] && bytes_of_side(p, TT_OUT) > 0);
}

static uint32_t count_kernels(const struct tt_direct_params *p, const bool reached[2])
{
    bool several = p->longest > p->part && needs_cells(p, reached);
    return several ? (uint32_t)((p->longest + p->part - 1) / p->part) : 1;
}

uint32_t tt_spin_kernels(const struct tt_spin *spin, const struct tt_call *call, const bool reached[2])
{
    struct plan plan;
    const struct tt_spin_call of = { .call = call };
    make_plan(spin, call, &plan);
    struct tt_direct_params p = params_of(spin, &of, &plan, 0);
    return count_kernels(&p, reached);
}

bool tt_spin_lists(const struct tt_spin *spin, const struct tt_call *call, const bool reached[2])
{
    struct plan plan;
    const struct tt_spin_call of = { .call = call };
    if (call->collective != TT_ALL_REDUCE || tt_call_scales(call) ||
        tt_kernel_number(TT_KERNEL_DIRECT_LIST, call->type, call->op) == 0 ||
        bytes_of(call) > TT_LISTED_BYTES)
        return false;
    make_plan(spin, call, &plan);
    struct tt_direct_params p = params_of(spin, &of, &plan, 0);
    return p.way == TT_DIRECT_LL && !needs_cells(&p, reached);
}

static enum tt_dev_error set_factor(const struct tt_spin *spin, const struct tt_operator *o,
    struct tt_direct_params *p, void *stream, uint64_t *pieces)
{
    if (p->scales == 0)
        return TT_DEV_OK;
    if (o->scalar == NULL) {
        memcpy(&p->factor, o->factor, sizeof p->factor);
        return TT_DEV_OK;
    }
    p->scalar = spin->scratch;
    ++*pieces;
    return spin->dev->copy(spin->scratch, o->scalar, o->element_bytes, stream);
}

/* Threads that have something to do, where one block has all. */
static uint32_t threads_of(const struct tt_direct_params *p, uint32_t grid)
{
    uint64_t vectors = (p->longest / VECTOR + grid) / grid, warps = (vectors + WARP - 1) / WARP;
    return warps < TT_DIRECT_BLOCK / WARP ? (uint32_t)(warps > 0 ? warps : 1) * WARP : TT_DIRECT_BLOCK;
}

static enum tt_dev_error launch(const struct tt_spin *spin, const struct plan *plan,
    const struct tt_call *call, const struct tt_direct_params *p, void *stream)
{
    uint32_t grid = tt_direct_grid(p->longest, spin->blocks);
    enum tt_kernel kernel = plan->folds ? TT_KERNEL_DIRECT : TT_KERNEL_DIRECT_MOVE;
    tutti_op op = tt_call_scales(call) ? TUTTI_SUM : call->op;
    struct tt_dev_launch what = { .kernel = tt_kernel_number(kernel, call->type, op),
        .grid = grid,
        .grid_y = 1,
        .block = threads_of(p, grid),
        .params = p,
        .params_bytes = sizeof *p };
    return spin->dev->launch(&what, stream);
}

enum tt_dev_error tt_spin_enqueue(
    struct tt_spin *spin, const struct tt_spin_call *of, uint32_t index, void *stream, uint64_t *pieces)
{
    const struct tt_call *call = of->call;
    struct plan plan;
    enum tt_dev_error error = TT_DEV_OK;
    make_plan(spin, call, &plan);
    struct tt_direct_params p = params_of(spin, of, &plan, index);
    struct tt_direct_block results[TT_SPIN_RANKS];
    int sent = (int)p.blocks, received = plan.folds ? 1 : spin->n;
    uint32_t kernels = count_kernels(&p, of->reached);
    memcpy(results, &p.receive[plan.folds ? spin->me : 0], (size_t)received * sizeof results[0]);
    bool in = !of->reached[TT_IN] && bytes_of_side(&p, TT_IN) > 0;
    bool out = !of->reached[TT_OUT] && bytes_of_side(&p, TT_OUT) > 0;
    p.begin = kernels > 1 ? index * p.part : 0;
    p.end = kernels > 1 ? p.begin + p.part : 0;
    if (p.maps)
        error = tt_spin_place(spin, of, of->first > 0 ? of->first + kernels - 1 : 0, stream, &p);
    if (error == TT_DEV_OK && in) {
        error = copy_blocks(spin, TT_IN, (uint8_t *)(uintptr_t)call->send, p.send, sent, &p, stream);
        move_blocks(p.send, sent, false, p.part);
        p.in = spin->its.cells_seen[TT_IN];
        p.before[TT_IN] = p.begin;
        ++*pieces;
    }
    if (out) {
        move_blocks(p.receive, spin->n, plan.folds, p.part);
        p.out = spin->its.cells_seen[TT_OUT];
        p.before[TT_OUT] = p.begin;
    }
    if (error == TT_DEV_OK)
        error = set_factor(spin, call->created, &p, stream, pieces);
    if (error == TT_DEV_OK)
        error = launch(spin, &plan, call, &p, stream);
    ++*pieces;
    if (error == TT_DEV_OK && out) {
        error = copy_blocks(spin, TT_OUT, call->recv, results, received, &p, stream);
        ++*pieces;
    }
    return error;
}

/* --- A kernel for several calls */

enum tt_dev_error tt_spin_enqueue_list(
    struct tt_spin *spin, const struct tt_spin_call *calls, int count, void *stream, uint64_t *pieces)
{
    const struct tt_call *first = calls[0].call;
    struct tt_direct_list_params list = { .call = calls[0].first, .calls = (uint32_t)count };
    struct tt_direct_params p = { .longest = 0 };
    uint64_t longest = 0;
    for (int i = 0; i < count; i++) {
        struct plan plan;
        make_plan(spin, calls[i].call, &plan);
        p = params_of(spin, &calls[i], &plan, 0);
        longest = p.longest > longest ? p.longest : longest;
        list.listed[i] = (struct tt_direct_listed){
            .in = p.in, .out = p.out, .bytes = (uint32_t)p.longest, .signature = p.signature
        };
    }
    memcpy(list.pads, p.pads, sizeof list.pads);
    list.words = p.words;
    list.ranks = p.ranks;
    list.rank = p.rank;
    list.type = first->type;
    list.row = p.row;
    list.shape = p.shape;
    list.divisor = p.divisor;
    p.longest = longest;
    struct tt_dev_launch what = { .kernel = tt_kernel_number(TT_KERNEL_DIRECT_LIST, first->type, first->op),
        .grid = 1,
        .grid_y = 1,
        .block = threads_of(&p, 1),
        .params = &list,
        .params_bytes = sizeof list };
    ++*pieces;
    return spin->dev->launch(&what, stream);
}
