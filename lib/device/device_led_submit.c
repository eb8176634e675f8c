/* SPDX-License-Identifier: BSD-3-Clause */
/* device_led_submit.c: what a rank enqueues of a call that a leader's kernel does; and which calls those are.
 *
 *     all:       copy in (1) | ready
 *     leader:    wait done | copy what its worker says | kernel | copy out (1)
 *     others:    wait done | copy out (1)
 *
 * Of a message the sender has operands, and the receiver, which leads, has its `ready` before its wait.
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

/* --- Which calls */

static uint64_t bytes_of(const struct tt_call *call)
{
    return call->total * tutti_type_bytes(call->type);
}

bool tt_led_has(enum tt_collective collective)
{
    const struct tt_collective_row *row = &tt_collectives[collective];
    return row->p2p || (row->counts == TT_COUNTS_EVEN && row->result != TT_RESULT_NONE);
}

/* The leader has tried whether its kernels can serve. */
static bool is_led(const struct tt_led *led)
{
    const struct tt_led_row *row =
        led->meeting.pair ? led->comm->device->led->rows[led->ranks[led->leader]] : led->rows[led->leader];
    return atomic_load_explicit(&row->serves, memory_order_relaxed);
}

struct tt_led *tt_led_of(const struct tt_call *call)
{
    struct tt_led *led = call->comm->device->led;
    if (led != NULL && tt_collectives[call->collective].p2p)
        led = tt_led_pair(led, call->root, call->collective == TT_P2P_RECV);
    return led != NULL && is_led(led) ? led : NULL;
}

const struct tt_offer *tt_led_offer(const struct tt_call *call)
{
    const struct tt_led *led = call->collective == TT_P2P_RECV ? tt_led_of(call) : NULL;
    return led != NULL ? &led->rows[!led->leader]->offer : NULL;
}

bool tt_led_serves(const struct tt_call *call)
{
    const struct tt_led *led = tt_led_of(call);
    struct tt_fused_params params;
    struct tt_rect_plan plan;
    bool own = call->created != NULL && !tt_call_scales(call); /* a user's operator */
    if (led == NULL || !tt_led_has(call->collective) || own || bytes_of(call) == 0 ||
        !tt_led_pays(&call->comm->settings, led->n, bytes_of(call), led->pad_bytes))
        return false;
    if (led->meeting.pair)
        return true;
    if (!tt_choose_allows(&call->comm->settings, call->collective, "direct"))
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
        .n = tt_collectives[call->collective].p2p ? 2 : call->comm->n,
        .root = call->root,
        .type = call->type,
        .op = scaled ? TUTTI_SUM : call->op,
        .exact = call->comm->exact,
        .scaled = scaled,
        .element_bytes = (uint32_t)tutti_type_bytes(call->type),
        .total = call->total };
}

/* --- The stream's part */

static tutti_status told(const struct tt_comm_batch *b, enum tt_dev_error error)
{
    if (error == TT_DEV_OK)
        return TUTTI_OK;
    return tt_fail(TUTTI_DEVICE_ERROR, "%s: rank %d, device %d: cannot enqueue: %s", b->comm->identity.name,
        b->comm->rank, b->device->number, b->device->dev->why());
}

static bool leads(const struct tt_staged *op)
{
    const struct tt_led *led = tt_led_of_gate(&op->staging.gate);
    return led->leader == led->me;
}

static bool is_message(const struct tt_staged *op)
{
    return op->staging.gate.led.meeting->pair;
}

/* The part of a side that is copied with this slice. */
static uint64_t part_to_copy(const struct tt_gate *gate, unsigned side, uint32_t slice, uint64_t *from)
{
    const struct tt_led_gate *g = &gate->led;
    const struct tt_led_side *s = &g->sides[side];
    if (s->staged == NULL)
        return 0;
    if (s->holds == TT_HOLDS_SLICE)
        return tt_led_part(g, s, slice, 1, from);
    bool now = side == TT_IN ? tt_led_is_first(g, slice) : tt_led_is_last(gate, slice);
    return now ? tt_led_part(g, s, slice - slice % g->group, g->group, from) : 0;
}

static enum tt_dev_error copy(
    const struct tt_comm_batch *b, const struct tt_staged *op, unsigned side, uint32_t slice)
{
    struct tt_device *d = b->device;
    uint8_t *staged = op->staging.gate.led.sides[side].staged;
    uint64_t from, bytes = part_to_copy(&op->staging.gate, side, slice, &from);
    void *stream = b->ops[0].stream;
    if (bytes == 0)
        return TT_DEV_OK;
    d->marks.enqueued++;
    return side == TT_IN ? d->dev->copy(staged, (const uint8_t *)op->call.send + from, bytes, stream)
                         : d->dev->copy((uint8_t *)op->call.recv + from, staged, bytes, stream);
}

static uint32_t word(const struct tt_staged *op, uint32_t slice, uint32_t step)
{
    return op->staging.gate.base + 2 * slice + step;
}

static enum tt_dev_error await(
    const struct tt_comm_batch *b, const struct tt_staged *op, uint32_t slice, uint32_t step)
{
    struct tt_device *d = b->device;
    d->marks.enqueued++;
    return d->dev->wait_word(
        b->ops[0].stream, tt_device_seen(d, op->staging.gate.done), word(op, slice, step));
}

/* The ranks of this process go on, up to the next that waits. */
static void tell_peers(const struct tt_comm_batch *b, const struct tt_staged *op, uint32_t steps)
{
    if (b->captured == NULL && !is_message(op))
        tt_local_peers_tell(b->comm, &op->rendezvous, steps);
}

static enum tt_dev_error tell_ready(struct tt_comm_batch *b, const struct tt_staged *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    d->marks.enqueued++;
    return d->dev->write_word(
        b->ops[0].stream, tt_device_seen(d, op->staging.gate.ready), word(op, slice, 1));
}

tutti_status tt_led_enqueue_operands(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &op->staging.gate;
    const struct tt_operator *o = op->call.created;
    enum tt_dev_error error = TT_DEV_OK;
    if (is_message(op) && leads(op)) /* it has none */
        return TUTTI_OK;
    if (o != NULL && o->scalar != NULL && slice == 0)
        error = d->dev->copy(tt_device_seen(d, gate->factor), o->scalar, o->element_bytes, b->ops[0].stream);
    if (error == TT_DEV_OK)
        error = copy(b, op, TT_IN, slice);
    d->marks.enqueued++;
    op->in = slice + 1;
    if (error == TT_DEV_OK)
        error = tell_ready(b, op, slice);
    tell_peers(b, op, 2 * slice + 1);
    return told(b, error);
}

/* The rectangles of a slice; of its group, if the bases say that all of it is in reach. */
static enum tt_dev_error launch(
    const struct tt_comm_batch *b, const struct tt_staged *op, uint32_t slice, enum tt_led_kernel which)
{
    const struct tt_led *led = tt_led_of_gate(&op->staging.gate);
    const struct tt_led_reach *reach = led->reach;
    struct tt_fused_params params = { 0 }; /* what is told to a device is all known */
    struct tt_rect_plan plan;
    struct tt_rect_call rects = tt_led_rects(&op->call);
    uint32_t slices = which == TT_LED_WHOLE ? op->staging.gate.led.group : 1;
    if (op->staging.gate.slices > 2) {
        rects.begin = slice * op->staging.gate.led.slice_bytes;
        rects.end = rects.begin + slices * op->staging.gate.led.slice_bytes;
    }
    bool idle = !tt_rectangles(&rects, &params, &plan) || plan.kernel == 0;
    params.bases = &reach->bases_there[which];
    bool tells = which == TT_LED_SLICE;
    params.blocks_over = tells ? reach->blocks_over : NULL;
    params.over = tells ? tt_device_seen(b->device, op->staging.gate.led.over) : NULL;
    params.over_value = word(op, slice, 2);
    params.rects = idle ? 0 : params.rects;
    struct tt_dev_launch launch = { .kernel = idle ? tt_kernel_number(TT_KERNEL_MOVE, 0, 0) : plan.kernel,
        .grid = idle ? 1 : plan.grid,
        .grid_y = idle ? 1 : plan.grid_y,
        .block = TT_FUSED_BLOCK,
        .params = &params,
        .params_bytes = sizeof params };
    b->device->marks.enqueued++;
    return led->dev->launch(&launch, b->ops[0].stream);
}

static enum tt_dev_error enqueue_kernels(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    struct tt_led *led = tt_led_of_gate(&op->staging.gate);
    const struct tt_led_gate *g = &op->staging.gate.led;
    bool several = g->group > 1 && op->staging.gate.slices > 2 && tt_led_is_first(g, slice), out = false;
    enum tt_dev_error error = is_message(op) ? tell_ready(b, op, slice) : TT_DEV_OK;
    op->launched = slice + 1;
    if (error == TT_DEV_OK)
        error = await(b, op, slice, 1);
    d->marks.enqueued++;
    if (error == TT_DEV_OK)
        error = d->dev->copy(led->reach->bases_there, tt_device_seen(d, led->reach->bases),
            TT_LED_KERNELS * sizeof *led->reach->bases, b->ops[0].stream);
    if (error == TT_DEV_OK && several) {
        error = launch(b, op, slice, TT_LED_WHOLE);
        out = error == TT_DEV_OK;
    }
    if (error == TT_DEV_OK)
        error = launch(b, op, slice, TT_LED_SLICE);
    if (error != TT_DEV_OK && b->captured == NULL && !out)
        tt_led_lose(led, word(op, slice, 2));
    else if (error != TT_DEV_OK && b->captured == NULL) /* its end is told in place of the other one's */
        d->dev->write_word(b->ops[0].stream, tt_device_seen(d, g->over), word(op, slice, 2));
    tell_peers(b, op, 2 * slice + 2);
    bool copies = g->sides[TT_OUT].host != NULL; /* its worker does */
    return error == TT_DEV_OK && copies ? await(b, op, slice, 2) : error;
}

/* What stands behind a wait needs nothing that ranks of this process enqueue later. */
static tutti_status meet_peers(struct tt_comm_batch *b, const struct tt_staged *op, uint32_t slice)
{
    const struct tt_led *led = tt_led_of_gate(&op->staging.gate);
    if (b->captured != NULL || is_message(op))
        return TUTTI_OK;
    tutti_status status = tt_local_peers_await(b->comm, &op->rendezvous, 2 * slice + 1);
    if (status == TUTTI_OK && !leads(op) && led->same_process[led->me])
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
    enum tt_dev_error error = leads(op) ? enqueue_kernels(b, op, slice) : await(b, op, slice, 2);
    if (error == TT_DEV_OK)
        error = copy(b, op, TT_OUT, slice);
    if (b->captured == NULL)
        tt_device_mark(d, leads(op) ? gate->led.over : gate->done, word(op, slice, 2));
    else if (error == TT_DEV_OK && tt_captured_ends(b->captured, tt_stage_gate(op), word(op, slice, 2)))
        error = d->dev->write_word(b->ops[0].stream, tt_device_seen(d, gate->done), 0);
    return told(b, error);
}

/* This rank's stream says, or will soon, that it is at that slice; so its kernel may be let go. */
void tt_led_give_up(const struct tt_staged *op)
{
    if (!is_message(op) && leads(op) && op->in > op->launched)
        tt_led_lose(tt_led_of_gate(&op->staging.gate), word(op, op->launched, 2));
}

/* --- Messages of a round */

static bool is_fetched(const struct tt_staged *op, uint32_t slice)
{
    return op->way == TT_LED && is_message(op) && slice < tt_led_slices(&op->staging.gate);
}

tutti_status tt_led_enqueue_offers(struct tt_comm_batch *b, bool *more)
{
    tutti_status status = TUTTI_OK;
    for (int i = b->begin; i < b->end && status == TUTTI_OK; i++) {
        if (!is_fetched(b->turns[i], b->slice))
            continue;
        status = tt_led_enqueue_operands(b, b->turns[i], b->slice);
        *more = *more || is_fetched(b->turns[i], b->slice + 1);
    }
    return status;
}

tutti_status tt_led_enqueue_fetches(struct tt_comm_batch *b, bool receives)
{
    tutti_status status = TUTTI_OK;
    uint32_t slice = b->fetched.slice;
    for (int i = b->fetched.begin; i < b->fetched.end && status == TUTTI_OK; i++)
        if (is_fetched(b->turns[i], slice) && b->turns[i]->rendezvous.receives == receives)
            status = tt_led_enqueue_results(b, b->turns[i], slice);
    if (!receives) /* those who receive came first */
        b->fetched.end = b->fetched.begin;
    return status;
}
