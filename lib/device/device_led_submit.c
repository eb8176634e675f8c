/* SPDX-License-Identifier: BSD-3-Clause */
/* device_led_submit.c: what a rank enqueues of a call that a leader's kernel does; and which calls those are.
 *
 *     all:       copy in (1) | ready
 *     leader:    wait done | copy what its worker says | kernel | copy out (1)
 *     others:    wait done | copy out (1)
 *
 * (1) where the bytes are staged. A slice is a part of the collective's vector, of which each rank's operands
 * and results are one run; so it is one copy each way. The streams of ranks of one process may share a queue:
 * so all of them have their operands enqueued before any waits, and the leader has its kernel enqueued before
 * the other ranks of its process wait for what follows from it (device_local_peers.c). */
#include "device/device_led.h"

#include "base/status.h"
#include "exec/rectangles.h"
#include "select/choose.h"
#include "select/led.h"

/* Pieces of work: a copy, words, the bases, two kernels, a copy. */
enum { SIDES = 2 };

/* --- Which calls, and where */

static uint64_t bytes_of(const struct tt_call *call)
{
    return call->total * tutti_type_bytes(call->type);
}

static bool has_rows(enum tt_collective collective)
{
    const struct tt_collective_row *row = &tt_collectives[collective];
    return !row->p2p && row->counts == TT_COUNTS_EVEN && row->result != TT_RESULT_NONE;
}

bool tt_led_serves(const struct tt_call *call)
{
    const struct tt_led *led = call->comm->device->led;
    struct tt_fused_params params;
    struct tt_rect_plan plan;
    bool own = call->created != NULL && !tt_call_scales(call); /* a user's operator */
    if (led == NULL || !atomic_load_explicit(&led->rows[led->leader]->serves, memory_order_relaxed) ||
        call->comm->settings.executor != TT_EXECUTOR_LED || !has_rows(call->collective) || own ||
        bytes_of(call) == 0 || !tt_choose_allows(&call->comm->settings, call->collective, "direct"))
        return false;
    bool exchange = tt_collectives[call->collective].result == TT_RESULT_EXCHANGED;
    if (exchange && bytes_of(call) > led->cell_bytes) /* a part of its vector is no run of results */
        return false;
    struct tt_rect_call rects = tt_led_rects(call);
    return tt_rectangles(&rects, &params, &plan);
}

struct tt_rect_call tt_led_rects(const struct tt_call *call)
{
    bool scaled = tt_call_scales(call);
    return (struct tt_rect_call){ .collective = call->collective,
        .n = call->comm->n,
        .root = call->root,
        .type = call->type,
        .op = scaled ? TUTTI_SUM : call->op,
        .exact = call->comm->exact,
        .scaled = scaled,
        .element_bytes = (uint32_t)tutti_type_bytes(call->type),
        .total = call->total };
}

/* The bytes of the collective's vector that a rank has in this buffer. */
static void find_part(const struct tt_call *call, enum tt_reach reach, struct tt_led_side *side)
{
    uint64_t all = bytes_of(call), block = all / (uint64_t)call->comm->n;
    bool own = reach == TT_REACH_OWN;
    bool has = own || reach == TT_REACH_ALL || (reach == TT_REACH_ROOT && call->comm->rank == call->root);
    side->start = own ? block * (uint64_t)call->comm->rank : 0;
    side->bytes = !has ? 0 : own ? block : all;
}

static void place_side(const struct tt_device *d, struct tt_staged *op, unsigned side)
{
    const struct tt_call *call = &op->call;
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    const struct tt_led *led = d->led;
    struct tt_led_side *s = &op->staging.gate.led.sides[side];
    uint8_t *buffer = side == TT_IN ? (uint8_t *)(uintptr_t)call->send : call->recv;
    uint8_t *cell = d->cells + side * led->cell_bytes;
    bool exchange =
        row->result == TT_RESULT_EXCHANGED; /* in place its rectangles would depend on each other */
    find_part(call, side == TT_IN ? row->in : row->out, s);
    if (s->bytes == 0)
        return;
    if (led->same_process[led->me] && op->local.staged[side] &&
        !(exchange && op->local.in_place && side == TT_IN)) {
        s->kind = TT_PLACE_DIRECT;
        s->offset = (uintptr_t)buffer;
        s->whole = true;
        return;
    }
    s->kind = TT_PLACE_CELL;
    s->offset = (uint64_t)(cell - d->pinned);
    s->cell = cell;
    s->host = op->local.staged[side] ? NULL : buffer;
}

uint32_t tt_led_place(struct tt_comm_batch *b, struct tt_staged *op)
{
    const struct tt_call *call = &op->call;
    struct tt_led_gate *g = &op->staging.gate.led;
    const struct tt_device *d = b->device;
    *g = (struct tt_led_gate){ .meeting = &d->led->meeting, .slice_bytes = d->led->cell_bytes };
    for (unsigned side = 0; side < SIDES; side++)
        place_side(d, op, side);
    if (call->created != NULL && call->created->scalar == NULL)
        g->own_factor = call->created->factor;
    return (uint32_t)((bytes_of(call) + g->slice_bytes - 1) / g->slice_bytes);
}

/* --- The stream's part */

static tutti_status told(const struct tt_comm_batch *b, enum tt_dev_error error)
{
    if (error == TT_DEV_OK)
        return TUTTI_OK;
    return tt_fail(TUTTI_DEVICE_ERROR, "%s: rank %d, device %d: cannot enqueue: %s", b->comm->identity.name,
        b->comm->rank, b->device->number, b->device->dev->why());
}

static bool leads(const struct tt_comm_batch *b)
{
    return b->device->led->leader == b->comm->rank;
}

static enum tt_dev_error copy(
    const struct tt_comm_batch *b, const struct tt_staged *op, unsigned side, uint32_t slice)
{
    struct tt_device *d = b->device;
    const struct tt_led_gate *g = &op->staging.gate.led;
    const struct tt_led_side *s = &g->sides[side];
    uint64_t from, bytes = tt_led_part(g, s, slice, &from);
    if (s->cell == NULL || s->host != NULL || bytes == 0)
        return TT_DEV_OK;
    uint8_t *cell = tt_device_seen(d, s->cell);
    void *stream = b->ops[0].stream;
    d->enqueued++;
    return side == TT_IN ? d->dev->copy(cell, (const uint8_t *)op->call.send + from, bytes, stream)
                         : d->dev->copy((uint8_t *)op->call.recv + from, cell, bytes, stream);
}

static uint32_t word(const struct tt_staged *op, uint32_t slice, uint32_t step)
{
    return op->staging.gate.base + 2 * slice + step;
}

static enum tt_dev_error await(
    const struct tt_comm_batch *b, const struct tt_staged *op, uint32_t slice, uint32_t step)
{
    struct tt_device *d = b->device;
    d->enqueued++;
    return d->dev->wait_word(
        b->ops[0].stream, tt_device_seen(d, op->staging.gate.done), word(op, slice, step));
}

tutti_status tt_led_enqueue_operands(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &op->staging.gate;
    const struct tt_operator *o = op->call.created;
    enum tt_dev_error error = TT_DEV_OK;
    if (o != NULL && o->scalar != NULL && slice == 0)
        error = d->dev->copy(tt_device_seen(d, gate->factor), o->scalar, o->element_bytes, b->ops[0].stream);
    if (error == TT_DEV_OK)
        error = copy(b, op, TT_IN, slice);
    d->enqueued += 2;
    if (error == TT_DEV_OK)
        error = d->dev->write_word(b->ops[0].stream, tt_device_seen(d, gate->ready), word(op, slice, 1));
    if (b->captured == NULL)
        tt_local_peers_tell(b->comm, &op->rendezvous, 2 * slice + 1);
    return told(b, error);
}

/* The rectangles of a slice; of all slices together, if the bases say that all is in reach. */
static enum tt_dev_error launch(
    const struct tt_comm_batch *b, const struct tt_staged *op, uint32_t slice, enum tt_led_kernel which)
{
    const struct tt_led *led = b->device->led;
    struct tt_fused_params params;
    struct tt_rect_plan plan;
    struct tt_rect_call rects = tt_led_rects(&op->call);
    if (which == TT_LED_SLICE) {
        rects.begin = slice * op->staging.gate.led.slice_bytes;
        rects.end = rects.begin + op->staging.gate.led.slice_bytes;
    }
    bool idle = !tt_rectangles(&rects, &params, &plan) || plan.kernel == 0;
    params.bases = &led->bases_there[which];
    bool tells = which == TT_LED_SLICE;
    params.blocks_over = tells ? led->blocks_over : NULL;
    params.over = tells ? tt_device_seen(b->device, op->staging.gate.led.over) : NULL;
    params.over_value = word(op, slice, 2);
    params.rects = idle ? 0 : params.rects;
    struct tt_dev_launch launch = { .kernel = idle ? tt_kernel_number(TT_KERNEL_MOVE, 0, 0) : plan.kernel,
        .grid = idle ? 1 : plan.grid,
        .grid_y = idle ? 1 : plan.grid_y,
        .block = TT_FUSED_BLOCK,
        .params = &params,
        .params_bytes = sizeof params };
    b->device->enqueued++;
    return led->dev->launch(&launch, b->ops[0].stream);
}

static enum tt_dev_error enqueue_kernels(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    struct tt_led *led = d->led;
    bool several = op->staging.gate.slices > 2;
    enum tt_dev_error error = await(b, op, slice, 1);
    d->enqueued++;
    if (error == TT_DEV_OK)
        error = d->dev->copy(led->bases_there, tt_device_seen(d, led->bases),
            TT_LED_KERNELS * sizeof *led->bases, b->ops[0].stream);
    if (error == TT_DEV_OK && several && slice == 0)
        error = launch(b, op, slice, TT_LED_WHOLE);
    if (error == TT_DEV_OK)
        error = launch(b, op, slice, TT_LED_SLICE);
    if (b->captured == NULL)
        tt_local_peers_tell(b->comm, &op->rendezvous, 2 * slice + 2);
    bool copies = op->staging.gate.led.sides[TT_OUT].host != NULL; /* its worker does */
    return error == TT_DEV_OK && copies ? await(b, op, slice, 2) : error;
}

/* What stands behind a wait needs nothing that ranks of this process enqueue later. */
static tutti_status meet_peers(struct tt_comm_batch *b, const struct tt_staged *op, uint32_t slice)
{
    const struct tt_led *led = b->device->led;
    if (b->captured != NULL)
        return TUTTI_OK;
    tutti_status status = tt_local_peers_await(b->comm, &op->rendezvous, 2 * slice + 1);
    if (status == TUTTI_OK && !leads(b) && led->same_process[led->me])
        status = tt_local_peers_await_one(b->comm, &op->rendezvous, led->leader, 2 * slice + 2);
    return status;
}

tutti_status tt_led_enqueue_results(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &op->staging.gate;
    tutti_status status = meet_peers(b, op, slice);
    if (status != TUTTI_OK)
        return status;
    enum tt_dev_error error = leads(b) ? enqueue_kernels(b, op, slice) : await(b, op, slice, 2);
    if (error == TT_DEV_OK)
        error = copy(b, op, TT_OUT, slice);
    if (b->captured == NULL)
        tt_device_mark(d, leads(b) ? gate->led.over : gate->done, word(op, slice, 2));
    else if (error == TT_DEV_OK && tt_captured_ends(b->captured, 0, word(op, slice, 2)))
        error = d->dev->write_word(b->ops[0].stream, tt_device_seen(d, gate->done), 0);
    return told(b, error);
}
