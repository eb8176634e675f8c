/* SPDX-License-Identifier: BSD-3-Clause */
/* call_layout.c: how a call is cut: its slices, the bytes of its chunks, the cells that it needs. */
#include "run/call_layout.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transports/arena.h"

/* Returns a count in the operation's own elements, of `unit` elements of the type each. */
static uint64_t own_elements(const struct tt_call *call, uint64_t elements)
{
    return call->unit == 1 ? elements : elements / call->unit;
}

/* Returns the counts of all ranks in the operation's own elements. */
static const size_t *own_counts(
    const struct tt_call *call, const struct tt_tables *tables, const size_t *counts)
{
    if (call->unit == 1)
        return counts;
    for (int r = 0; r < call->comm->n; r++)
        tables->own_counts[r] = counts[r] / call->unit;
    return tables->own_counts;
}

/* Returns the length of the longest of the blocks that this rank knows. */
static uint64_t longest_block(const struct tt_call *call, uint32_t chunks)
{
    const struct tt_blocks *b = call->blocks;
    uint64_t total = own_elements(call, call->total), longest = 0;
    if (tt_collectives[call->collective].counts == TT_COUNTS_EVEN)
        return total / chunks + (total % chunks > 0);
    if (b[TT_IN].counts == NULL && b[TT_OUT].counts == NULL)
        longest = call->count;
    for (int side = 0; side < 2; side++)
        for (int r = 0; b[side].counts != NULL && r < call->comm->n; r++)
            longest = b[side].counts[r] > longest ? b[side].counts[r] : longest;
    return own_elements(call, longest);
}

struct tt_slicing tt_call_slicing(const struct tt_call *call, const struct tt_schedule *schedule)
{
    uint64_t chunk = longest_block(call, schedule->chunks), slot = call->comm->endpoint->slot_bytes;
    uint64_t share = tt_slice_of_all(slot, call->comm->n) / schedule->chunks * schedule->max_chunks;
    struct tt_slicing slicing =
        tt_layout_slicing(chunk, share < slot ? share : slot, call->element_bytes, schedule->max_chunks);
    if (tt_call_is_one_sided(call)) /* slices are as long as a message may be, but for the last */
        slicing.longest = chunk < slicing.most ? chunk : slicing.most;
    return slicing;
}

static uint64_t slices_in_flight(struct tt_slicing slicing)
{
    return slicing.slices < TT_WINDOW ? slicing.slices : TT_WINDOW;
}

static struct tt_space space_of(const struct tt_call *call, const struct tt_layout *layout,
    enum tt_reach reach, const void *pointer, const size_t *displs)
{
    struct tt_space space = { .base = (uintptr_t)pointer, .displs = displs };
    if (reach == TT_REACH_OWN &&
        pointer != NULL) { /* the buffer is the own block: the space begins before it */
        space.base -=
            (uintptr_t)(tt_layout_chunk(layout, (uint32_t)call->comm->rank).first * layout->element_bytes);
        space.displs = NULL;
    }
    return space;
}

/* Lays out what this rank knows of the blocks of send or recv: all, or at least its own. */
static void lay_side(const struct tt_call *call, int side, struct tt_slicing slicing,
    const struct tt_tables *tables, struct tt_layout *layout)
{
    size_t n = (size_t)call->comm->n;
    const size_t *counts = call->blocks[side].counts;
    if (counts == NULL)
        counts = call->blocks[1 - side].counts;
    if (counts == NULL) {
        memset(tables->own_counts, 0, n * sizeof *tables->own_counts);
        tables->own_counts[call->comm->rank] = call->count;
        counts = tables->own_counts;
    }
    tt_layout_v(layout, counts, tables->starts[side], (uint32_t)n, slicing.slices, call->element_bytes);
    layout->slice_elements = slicing.most;
}

void tt_call_set_buffers(const struct tt_call *call, const struct tt_layout *in, const struct tt_layout *out,
    struct tt_space *spaces)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    spaces[TT_IN] = space_of(call, in, row->in, call->send, call->blocks[TT_IN].displs);
    spaces[TT_OUT] = space_of(call, out, row->out, call->recv, call->blocks[TT_OUT].displs);
}

void tt_call_set_layouts(const struct tt_call *call, const struct tt_prepared *prepared,
    struct tt_slicing slicing, struct tt_layout *given, struct tt_layout *layout)
{
    const struct tt_tables *tables = &prepared->tables;
    const size_t *counts = tt_call_shared_counts(call);
    uint32_t chunks = prepared->schedule.chunks;
    if (tt_call_is_one_sided(call)) {
        lay_side(call, TT_IN, slicing, tables, given);
        lay_side(call, TT_OUT, slicing, tables, layout);
    } else if (counts != NULL) {
        tt_layout_v(layout, own_counts(call, tables, counts), tables->starts[TT_OUT], chunks, slicing.slices,
            call->element_bytes);
    } else {
        tt_layout_even(layout, own_elements(call, call->total), chunks, slicing.slices, call->element_bytes);
    }
}

bool tt_call_is_packed(const struct tt_call *call, const struct tt_layout *layout)
{
    return layout->slices == 1 && layout->counts == NULL && !tt_collectives[call->collective].p2p;
}

uint64_t tt_call_stride(const struct tt_call *call, struct tt_slicing slicing)
{
    uint64_t bytes = (slicing.longest * call->element_bytes + 63) / 64 * 64;
    return bytes > 0 ? bytes : 64;
}

/* Could some message be long enough for the bounce buffer? */
static bool has_bounce(const struct tt_call *call, const struct tt_op *op, struct tt_slicing slicing)
{
    return op->policy.shares && !tt_collectives[call->collective].p2p &&
           slicing.longest * call->element_bytes * op->schedule->max_chunks >= call->comm->memory.bounce_from;
}

uint64_t tt_call_bounce_bytes(const struct tt_call *call, const struct tt_op *op, struct tt_slicing slicing)
{
    return has_bounce(call, op, slicing)
               ? slices_in_flight(slicing) * op->bounce.cells * tt_call_stride(call, slicing)
               : 0;
}

uint64_t tt_call_cells(const struct tt_call *call, const struct tt_schedule *schedule)
{
    return schedule->tmp_cells + (tt_call_scales(call) ? schedule->chunks : 0);
}

tutti_status tt_comm_grow_tmp(struct tt_comm *comm, uint64_t bytes)
{
    if (bytes <= comm->memory.tmp_bytes)
        return TUTTI_OK;
    void *tmp;
    tutti_status status = tt_arena_alloc(bytes, &tmp);
    if (status != TUTTI_OK)
        return status;
    if (comm->memory.tmp != NULL)
        tt_arena_free(comm->memory.tmp);
    comm->memory.tmp = tmp;
    comm->memory.tmp_bytes = bytes;
    return TUTTI_OK;
}

tutti_status tt_call_reserve(const struct tt_call *call, const struct tt_op *op, struct tt_slicing slicing)
{
    uint64_t cells = slices_in_flight(slicing) * tt_call_cells(call, op->schedule);
    return tt_comm_grow_tmp(
        call->comm, tt_call_bounce_bytes(call, op, slicing) + cells * tt_call_stride(call, slicing));
}

struct tt_part tt_call_chunks(const struct tt_call *call, const struct tt_schedule *schedule, unsigned buffer)
{
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    uint64_t chunks = schedule->chunks, each = chunks / (uint64_t)call->comm->n;
    switch ((enum tt_reach)(buffer == TT_IN ? row->in : row->out)) {
    case TT_REACH_ALL:
        return (struct tt_part){ 0, chunks };
    case TT_REACH_OWN:
        return (struct tt_part){ (uint64_t)call->comm->rank * each, each };
    case TT_REACH_ROOT:
        return (struct tt_part){ 0, call->comm->rank == call->root ? chunks : 0 };
    default:
        return (struct tt_part){ 0 };
    }
}

void tt_lay_out_call(
    const struct tt_call *call, const struct tt_prepared *prepared, struct tt_call_layout *laid)
{
    struct tt_slicing slicing = tt_call_slicing(call, &prepared->schedule);
    tt_call_set_layouts(call, prepared, slicing, &laid->in, &laid->out);
    if (!tt_call_is_one_sided(call))
        laid->in = laid->out;
    tt_call_set_buffers(call, &laid->in, &laid->out, laid->spaces);
    laid->stride = tt_call_stride(call, slicing);
}
