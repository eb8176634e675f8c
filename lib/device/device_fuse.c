/* SPDX-License-Identifier: BSD-3-Clause */
/* device_fuse.c: which calls of a group share a gate.
 *
 * A small call by itself is two words more than its copies: one that tells that its operands are in, and one
 * for which the stream waits. Calls that follow each other share them:
 *
 *     stream:  in 0 | in 1 | in 2 | ready | wait done | out 0 | out 1 | out 2
 *     worker:                       call 0, call 1, call 2 ... done
 *
 * For the peers nothing is different: the worker runs one call after the other, and they may fuse other ones,
 * or none. A call joins those before it if it is of one slice, if its cells are beside theirs, and if it
 * reads or writes nothing that they write, for now all operands are read first, and results come in any
 * order.
 *
 * Where many share a gate, kernels move their bytes, some dozens of calls each: a copy for each call takes
 * longer, and a stream has room for some hundreds of them (device.h). The kernels wait for nothing. */
#include "device/device_led.h"

static bool meets_results(const struct tt_fuse *f, const struct tt_span *span)
{
    if (span->begin >= f->high || span->end <= f->low)
        return false;
    for (int i = 0; i < f->count; i++)
        if (span->begin < f->results[i].end && f->results[i].begin < span->end)
            return true;
    return false;
}

/* The next call has cells of its own line. */
static uint64_t room_of(const struct tt_span *span)
{
    return (span->end - span->begin + 63) / 64 * 64;
}

bool tt_fuse_joins(struct tt_fuse *f, const struct tt_span spans[2], uint64_t room, uint64_t offsets[2])
{
    const struct tt_span *operands = &spans[0], *results = &spans[1];
    bool joins = f->count > 0 && f->count < TT_DEVICE_FUSED && f->used[0] + room_of(operands) <= room &&
                 f->used[1] + room_of(results) <= room && !meets_results(f, operands) &&
                 !meets_results(f, results);
    if (!joins)
        tt_fuse_begin(f);
    for (int side = 0; side < 2; side++) {
        offsets[side] = f->used[side];
        f->used[side] += room_of(&spans[side]);
    }
    f->results[f->count++] = *results;
    if (results->begin < results->end && results->begin < f->low)
        f->low = results->begin;
    if (results->end > f->high)
        f->high = results->end;
    return joins;
}

void tt_fuse_begin(struct tt_fuse *f)
{
    f->count = 0;
    f->used[0] = f->used[1] = 0;
    f->low = UINTPTR_MAX;
    f->high = 0;
}

/* --- How their bytes are moved */

enum {
    MANY = 16, /* calls from which on kernels move them */
    BLOCKS = 16 /* of a call, at most: enough to keep a bus busy */
};

bool tt_fuse_has_many(const struct tt_comm_batch *b)
{
    return b->device->launches && b->turns[b->begin]->followed && b->end - b->begin >= MANY;
}

uint32_t tt_fuse_launches(const struct tt_comm_batch *b)
{
    return (uint32_t)(b->end - b->begin + TT_FUSED_RECTS - 1) / TT_FUSED_RECTS;
}

static enum tt_dev_error launch(struct tt_device *d, const struct tt_fused_params *params, void *stream)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < params->rects; i++)
        longest = params->rect[i].count > longest ? params->rect[i].count : longest;
    uint32_t grid = tt_fused_grid(longest);
    struct tt_dev_launch launch = { .kernel = tt_kernel_number(TT_KERNEL_MOVE, 0, 0),
        .grid = grid < BLOCKS ? grid : BLOCKS,
        .grid_y = params->rects,
        .block = TT_FUSED_BLOCK,
        .params = params,
        .params_bytes = sizeof *params };
    if (params->rects == 0)
        return TT_DEV_OK;
    d->marks.enqueued++;
    return d->dev->launch(&launch, stream);
}

/* A rectangle of one rank whose buffers begin at address 0. */
static void add(
    struct tt_fused_params *params, struct tt_device *d, const struct tt_staged *op, unsigned side)
{
    struct tt_device_move m = tt_stage_move(op, side);
    struct tt_span span = tt_device_span(&m);
    if (op->staging.cells[side] == NULL || span.end == span.begin)
        return;
    uintptr_t cells = (uintptr_t)tt_device_seen(d, op->staging.cells[side]);
    params->rect[params->rects++] = (struct tt_rect){ .from = m.back ? cells : span.begin,
        .to = m.back ? span.begin : cells,
        .count = span.end - span.begin,
        .sources = 1,
        .dsts = 1 };
}

enum tt_dev_error tt_fuse_move(struct tt_comm_batch *b, unsigned side)
{
    struct tt_fused_params params = { 0 }; /* what is told to a device is all known */
    enum tt_dev_error error = TT_DEV_OK;
    for (int i = b->begin; i < b->end && error == TT_DEV_OK; i++) {
        add(&params, b->device, b->turns[i], side);
        if (params.rects < TT_FUSED_RECTS && i + 1 < b->end)
            continue;
        error = launch(b->device, &params, b->ops[0].stream);
        params.rects = 0;
    }
    return error;
}
