/* SPDX-License-Identifier: BSD-3-Clause */
/* device_places.c: where a rank has the bytes of a call that a leader's kernel does, or of a message.
 *
 * The best place is the buffer itself: in the leader's process, and where the leader has mapped it. Else the
 * stream copies, on the device to a pad, or to pinned cells; and of ordinary memory of the host the worker
 * copies, to the cells, for a stream would wait there. Each rank chooses for itself, call by call. */
#include "device/device_led.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "select/led.h"

enum { SIDES = 2, HAND_OVER_MS = 10000 };

/* --- A call */

/* The bytes of the collective's vector that a rank has in this buffer. */
static void find_part(const struct tt_call *call, enum tt_reach reach, struct tt_led_side *side)
{
    uint64_t all = call->total * tutti_type_bytes(call->type), block = all / (uint64_t)call->comm->n;
    bool own = reach == TT_REACH_OWN;
    bool has = own || reach == TT_REACH_ALL || (reach == TT_REACH_ROOT && call->comm->rank == call->root);
    side->start = own ? block * (uint64_t)call->comm->rank : 0;
    side->bytes = !has ? 0 : own ? block : all;
}

/* In place its rectangles would depend on each other, so that operands lie elsewhere. */
static bool must_move(const struct tt_staged *op, unsigned side)
{
    bool exchange = tt_collectives[op->call.collective].result == TT_RESULT_EXCHANGED;
    return exchange && op->local.in_place && side == TT_IN;
}

/* The buffer itself. False: the leader does not reach it. */
static bool place_buffer(const struct tt_led *led, const struct tt_staged *op, struct tt_led_side *s,
    unsigned side, uint8_t *buffer)
{
    struct tt_exporter *exporter = led->exporter;
    struct tt_dev_pointer what;
    if (!op->local.staged[side] || must_move(op, side))
        return false;
    s->holds = TT_HOLDS_ALL;
    if (led->same_process[led->me]) {
        s->kind = TT_PLACE_DIRECT;
        s->offset = (uintptr_t)buffer;
        return true;
    }
    if (exporter == NULL || led->comm->device->dev->memory.classify(buffer, &what) != TT_DEV_OK)
        return false;
    uint64_t call = led->meeting.pair ? 0 : led->calls.made;
    if (tt_exporter_find(exporter, buffer, s->bytes, &what, call, &s->key, &s->offset)) {
        s->kind = TT_PLACE_SEGMENT;
        return true;
    }
    bool all = led->comm->settings.device_import == TT_IMPORT_ALL;
    if (all && op->staging.gate.led.call != 0) /* a capture may not stand the export of any memory */
        tt_exporter_ask(exporter, &what, TT_EXPORT_USED);
    else if (tt_device_memory_has((void *)what.base))
        tt_exporter_ask(exporter, &what, TT_EXPORT_GIVEN);
    return false;
}

static void place_side(
    const struct tt_device *d, const struct tt_led *led, struct tt_staged *op, unsigned side)
{
    const struct tt_call *call = &op->call;
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    struct tt_led_side *s = &op->staging.gate.led.sides[side];
    uint8_t *buffer = side == TT_IN ? (uint8_t *)(uintptr_t)call->send : call->recv;
    uint8_t *cell = led->cells + side * led->cell_bytes;
    bool staged = op->local.staged[side];
    find_part(call, side == TT_IN ? row->in : row->out, s);
    if (s->bytes == 0 || place_buffer(led, op, s, side, buffer))
        return;
    if (staged && led->pad.key != 0 && tt_led_prefers_pad(&call->comm->settings.costs, led->n, s->bytes)) {
        s->kind = TT_PLACE_SEGMENT;
        s->key = led->pad.key;
        s->offset = led->pad.offset + side * led->pad_bytes;
        s->holds = TT_HOLDS_GROUP;
        s->staged = led->pad.at + side * led->pad_bytes;
        return;
    }
    s->kind = TT_PLACE_CELL;
    s->offset = (uint64_t)(cell - d->pinned);
    s->holds = TT_HOLDS_SLICE;
    s->staged = staged ? tt_device_seen(d, cell) : NULL;
    s->cell = cell;
    s->host = staged ? NULL : buffer;
}

/* It is memory of the user's, which the leader may not unmap meanwhile. */
static bool is_held(const struct tt_led_side *side)
{
    return side->kind == TT_PLACE_SEGMENT && side->holds == TT_HOLDS_ALL;
}

uint32_t tt_led_place(struct tt_comm_batch *b, struct tt_staged *op)
{
    const struct tt_call *call = &op->call;
    struct tt_led_gate *g = &op->staging.gate.led;
    struct tt_led *led = tt_led_of(call);
    uint64_t bytes = call->total * tutti_type_bytes(call->type);
    uint32_t group = (uint32_t)(led->pad_bytes / led->cell_bytes);
    *g = (struct tt_led_gate){ .meeting = &led->meeting,
        .slice_bytes = led->cell_bytes,
        .group = group > 1 ? group : 1,
        .call = b->captured == NULL ? ++led->calls.made : 0 };
    for (unsigned side = 0; side < SIDES; side++)
        place_side(b->device, led, op, side);
    bool holds = b->captured != NULL || led->meeting.pair; /* several messages end in any order */
    for (unsigned side = 0; side < SIDES && holds; side++)
        if (is_held(&g->sides[side]))
            tt_exporter_hold(led->exporter, g->sides[side].key);
    g->has_factor = call->created != NULL && call->created->scalar == NULL;
    if (g->has_factor) /* the operator may go when the call is made */
        memcpy(g->factor, call->created->factor, sizeof g->factor);
    return (uint32_t)((bytes + g->slice_bytes - 1) / g->slice_bytes);
}

void tt_led_release(const struct tt_gate *gate)
{
    const struct tt_led *led = tt_led_of_gate(gate);
    for (unsigned side = 0; side < SIDES && led->exporter != NULL; side++)
        if (is_held(&gate->led.sides[side]))
            tt_exporter_release(led->exporter, gate->led.sides[side].key);
}

/* --- The pad */

/* Zeroed, for it has what others left there. */
static bool make_pad(struct tt_led *led, struct tt_dev_pointer *what)
{
    const struct tt_dev *dev = led->dev;
    struct tt_dev_segment *pad = &led->reach->pad;
    return dev->segment.alloc(SIDES * led->pad_bytes, pad) == TT_DEV_OK &&
           tt_device_memory_clear(dev, pad->base, SIDES * led->pad_bytes) == TT_DEV_OK &&
           dev->memory.classify(pad->base, what) == TT_DEV_OK;
}

/* This rank's memory is to be mapped by that one: which leads all, or gets messages of this rank. */
static bool gives(const struct tt_led *led, int rank)
{
    bool leads = rank == led->leader || tt_led_pair(led, rank, false) != NULL;
    return leads && !led->reach->here[rank] && atomic_load(&led->rows[rank]->serves);
}

/* Opens the way to that rank. */
static bool open_exporter(struct tt_led *led, int rank, char why[TT_EXPORT_WHY])
{
    const struct tt_led_shared *theirs = (const struct tt_led_shared *)(const void *)led->rows[rank];
    struct tt_exporter **exporter = &led->reach->exporters[rank];
    struct tt_led *pair = tt_led_pair(led, rank, false);
    bool opened = tt_exporter_open(led->dev, led->comm->device->number, &theirs->importer, led->me,
                      &led->calls.over, HAND_OVER_MS, exporter) == TUTTI_OK;
    if (!opened)
        snprintf(why, TT_EXPORT_WHY, "%s", tt_last_error());
    if (rank == led->leader)
        led->exporter = *exporter;
    if (pair != NULL)
        pair->exporter = *exporter;
    return opened;
}

/* Hands it the pad: the whole, for collectives that it leads, and of messages to it a part, in whole
 * slices. */
static bool hand_over_pad(
    struct tt_led *led, int rank, const struct tt_dev_pointer *what, char why[TT_EXPORT_WHY])
{
    struct tt_exporter *exporter = led->reach->exporters[rank];
    struct tt_led_pad pad = { .at = (uint8_t *)what->base };
    struct tt_led *pair = tt_led_pair(led, rank, false);
    bool handed = tt_exporter_add(exporter, what, HAND_OVER_MS, why) &&
                  tt_exporter_find(exporter, pad.at, SIDES * led->pad_bytes, what, 0, &pad.key, &pad.offset);
    if (rank == led->leader)
        led->pad = pad;
    uint64_t before = pair != NULL ? pair->pad_bytes * (uint64_t)rank : 0;
    pad.at += before;
    pad.offset += before;
    if (pair != NULL)
        pair->pad = pad;
    return handed;
}

static void hand_over(struct tt_led *led)
{
    const struct tt_comm *comm = led->comm;
    struct tt_dev_pointer what;
    char why[TT_EXPORT_WHY];
    int before;
    bool tried = false, made = false;
    if (tt_device_enter(comm->device, &before) != TUTTI_OK)
        return;
    for (int r = 0; r < led->n; r++) {
        if (!gives(led, r))
            continue;
        bool opened = open_exporter(led, r, why);
        made = tried ? made : make_pad(led, &what);
        if (opened && !made)
            snprintf(why, sizeof why, "%s", led->dev->why());
        tried = true;
        if (!opened || !made || !hand_over_pad(led, r, &what, why))
            tt_log(TT_LOG_WARN,
                "%s, rank %d: rank %d, which leads, has no pad of it: %s; its calls go by pinned memory",
                comm->identity.name, led->me, r, why);
    }
    tt_device_leave(comm->device, before);
}

/* One that has destroyed its end since may have other things where its row was. */
static bool all_have(const struct tt_led *led)
{
    bool all = true;
    struct tt_endpoint *e = led->comm->endpoint;
    struct tt_peer_place place;
    for (int r = 0; r < led->n; r++)
        all = all && (atomic_load_explicit(&led->rows[r]->handed, memory_order_acquire) ||
                         (r != led->me && e->control->peer_state(e, r, &place) != TT_PEER_ALIVE));
    return all;
}

/* To map memory may wait for all that the leader's device does, and so for calls that others have not made:
 * no rank makes one before all have handed over. */
void tt_led_hand_over(struct tt_comm *comm)
{
    struct tt_led *led = comm->device != NULL ? comm->device->led : NULL;
    if (led == NULL)
        return;
    hand_over(led);
    atomic_store_explicit(&led->rows[led->me]->handed, true, memory_order_release);
    for (int r = 0; r < led->n; r++)
        if (r != led->me)
            comm->endpoint->control->ring(comm->endpoint, r);
    tt_led_await_handed(led);
}

void tt_led_await_handed(const struct tt_led *led)
{
    struct tt_comm *comm = led->comm;
    struct tt_wait w;
    int64_t until = tt_deadline_ns(2 * HAND_OVER_MS);
    tt_wait_begin(&w, comm->waiting.policy, &comm->endpoint->doorbell, 1);
    while (!all_have(led) && tt_comm_check(comm) == TUTTI_OK && tt_now_ns() < until)
        tt_wait_idle(&w);
    tt_doorbell_ring_always(comm->endpoint->doorbell); /* it may end for another reason than a ring */
    tt_wait_awake(&w);
}

void tt_led_take_back(struct tt_led *led)
{
    struct tt_led_reach *reach = led->reach;
    led->exporter = NULL;
    for (int r = 0; r < led->n; r++) {
        struct tt_led *pair = tt_led_pair(led, r, false);
        if (pair != NULL)
            pair->exporter = NULL;
        if (reach->exporters[r] != NULL)
            tt_exporter_close(reach->exporters[r]);
        reach->exporters[r] = NULL;
    }
    if (reach->importer != NULL)
        tt_importer_close(reach->importer);
    reach->importer = NULL;
}
