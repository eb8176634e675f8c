/* SPDX-License-Identifier: BSD-3-Clause */
/* device_submit.c: calls on a device's stream, enqueued.
 *
 * The calls of one communicator take their place in its worker's queue, and then the stream is given its
 * part, wave by wave. A collective is a wave. Of the messages of a group those that are the k-th of a peer
 * and direction are one, for the peers' k-th ones are in one wave, too, wherever they stand in their groups.
 * In a wave slice after slice goes in, and the one before comes back; so the stream waits for nothing that
 * needs what stands behind it, here or at a peer.
 *
 * Several communicators take turns, step by step, and none begins a wave before all have ended the last one:
 * ranks may have another number of slices of one call. So a wait for slice z of wave w needs what all ranks
 * have in before their waits for slice z of wave w, whatever the communicator.
 *
 * While the streams are being captured the same becomes a part of a graph, and the worker gets the calls when
 * that is replayed (device_capture.c). */
#include <stdlib.h>

#include "base/status.h"
#include "device.h"
#include "lay.h"
#include "stream.h"

/* Of collectives: after all messages, of whatever communicator, at all ranks. */
enum { WAVES_OF_MESSAGES = 1 << 30, NO_WAVE = INT32_MAX };

struct leg { /* a call */
    struct tt_call call; /* as the worker runs it */
    struct tt_staging staging;
    struct tt_laid laid;
    struct tt_part chunks[2];
    void *stream; /* the caller's */
    struct tt_meeting meeting;
    uint32_t wave;
};

struct route { /* the calls of one communicator, on their way */
    struct tt_comm *comm;
    struct tt_device *device;
    struct tt_item *item; /* for the worker */
    struct tt_captured *captured; /* or for a graph; NULL: it is not one */
    struct leg *legs;
    int count;
    uint32_t wave, slice; /* what comes next; NO_WAVE: nothing */
    uint64_t pieces; /* of the device, before; a capture is none */
};

static bool is_p2p(const struct tt_call *call)
{
    return tt_collectives[call->collective].p2p;
}

/* --- Where each call has its cells and its gate */

/* How it is cut. The arrays of a v-form stand in the device's tables until the next call is laid. */
static tutti_status lay(struct route *r, struct leg *leg)
{
    struct tt_plan *plan;
    struct tt_key key;
    tutti_status status = tt_call_key(&leg->call, &key);
    if (status == TUTTI_OK)
        status = tt_plan_find(&r->device->plans, &key, &plan);
    if (status != TUTTI_OK)
        return status;
    tt_call_lay(&leg->call, &plan->schedule, &r->device->tables, &leg->laid);
    for (unsigned side = 0; side < 2; side++)
        leg->chunks[side] = tt_call_chunks(&leg->call, &plan->schedule, side);
    return TUTTI_OK;
}

/* Operands have one half, results the other. Messages of a group have a share for each peer and direction. */
static tutti_status set_cells(struct route *r, struct leg *leg, unsigned side)
{
    const struct tt_device *d = r->device;
    bool p2p = is_p2p(&leg->call);
    uint64_t share = p2p ? d->cells_bytes / (d->ngates - 1) : d->cells_bytes / 2;
    uint64_t index = p2p ? 2 * (uint64_t)leg->call.root + side : side;
    uint64_t bytes = TT_WINDOW * leg->chunks[side].count * leg->laid.stride;
    if (!leg->call.staged[side] || bytes == 0)
        return TUTTI_OK;
    if (bytes > share)
        return tt_fail(TUTTI_UNSUPPORTED, "%s: %llu bytes of cells are needed, and device %d has %llu",
            tt_collectives[leg->call.collective].name, (unsigned long long)bytes, d->number,
            (unsigned long long)share);
    leg->staging.cells[side] = d->cells + index * share;
    return TUTTI_OK;
}

static uint32_t gate_of(const struct leg *leg)
{
    const struct tt_meeting *m = &leg->meeting;
    return m->peer != TT_NONE ? tt_device_gate(m->peer, m->receives) : 0;
}

static tutti_status set_gate(const struct route *r, struct leg *leg)
{
    const struct tt_call *call = &leg->call;
    struct tt_device *d = r->device;
    leg->meeting = (struct tt_meeting){ .gate = &leg->staging.gate,
        .peer = is_p2p(call) ? call->root : TT_NONE,
        .receives = call->collective == TT_P2P_RECV };
    if (r->captured != NULL)
        return tt_captured_gate(r->captured, leg->laid.out.slices, &leg->staging.gate);
    uint32_t gate = gate_of(leg);
    leg->staging.gate = (struct tt_gate){ .ready = &d->words[gate].ready,
        .done = &d->words[gate].done,
        .factor = d->words[gate].factor,
        .base = d->counts[gate],
        .slices = leg->laid.out.slices };
    d->counts[gate] += leg->laid.out.slices;
    leg->meeting.operation = gate == 0 ? ++d->operations : 0;
    return TUTTI_OK;
}

/* It will not be: both ends of a message count alike. */
static void give_gate_back(struct tt_device *d, const struct leg *leg)
{
    d->counts[gate_of(leg)] -= leg->staging.gate.slices;
    d->operations -= gate_of(leg) == 0;
}

static tutti_status stage(struct route *r, struct leg *leg)
{
    struct tt_call *call = &leg->call;
    bool meets = call->collective == TT_P2P_SEND && call->met; /* the receive has the bytes */
    for (unsigned side = 0; side < 2; side++)
        call->staged[side] = call->staged[side] && !meets;
    call->in_place = call->in_place && !call->staged[TT_IN] && !call->staged[TT_OUT];
    leg->stream = call->stream.handle;
    call->stream = r->device->worker;
    tutti_status status = lay(r, leg);
    for (unsigned side = 0; side < 2 && status == TUTTI_OK; side++)
        status = set_cells(r, leg, side);
    if (status == TUTTI_OK)
        status = set_gate(r, leg);
    if (status != TUTTI_OK)
        return status;
    call->staging = &leg->staging;
    if (r->captured != NULL)
        return tt_captured_add(r->captured, call);
    status = tt_item_add(r->item, call);
    if (status != TUTTI_OK)
        give_gate_back(r->device, leg);
    return status;
}

/* The first wave from this one on. */
static uint32_t find_wave(const struct route *r, uint32_t from)
{
    uint32_t first = NO_WAVE;
    for (int i = 0; i < r->count; i++)
        if (r->legs[i].wave >= from && r->legs[i].wave < first)
            first = r->legs[i].wave;
    return first;
}

/* Its number among the messages of its peer and direction, or among the collectives. */
static void set_waves(struct route *r)
{
    for (int i = 0; i < r->count; i++) {
        struct leg *leg = &r->legs[i];
        leg->wave = is_p2p(&leg->call) ? 0 : WAVES_OF_MESSAGES;
        for (int j = 0; j < i; j++)
            leg->wave += gate_of(&r->legs[j]) == gate_of(leg);
    }
    r->wave = find_wave(r, 0);
}

/* --- The stream's part */

/* What is in the pad, as the device sees it. */
static void *seen(const struct tt_device *d, const void *at)
{
    return d->pad_seen + ((const uint8_t *)at - d->pad);
}

static enum tt_dev_error move(struct route *r, struct leg *leg, unsigned side, uint32_t slice)
{
    struct tt_device *d = r->device;
    if (leg->staging.cells[side] == NULL)
        return TT_DEV_OK;
    struct tt_device_move m = { .layout = side == TT_IN ? &leg->laid.in : &leg->laid.out,
        .space = leg->laid.spaces[side],
        .cells = seen(d, leg->staging.cells[side]),
        .stride = leg->laid.stride,
        .chunks = leg->chunks[side],
        .back = side == TT_OUT };
    return tt_device_move(d, &m, slice, r->legs[0].stream);
}

/* The factor that this rank's operands are multiplied by, as it is when the stream comes here. */
static enum tt_dev_error bring_factor(const struct route *r, const struct leg *leg)
{
    struct tt_device *d = r->device;
    const struct tt_operator *o = leg->call.created;
    if (o == NULL || o->scalar == NULL)
        return TT_DEV_OK;
    d->pieces++;
    return d->dev->copy(seen(d, leg->staging.gate.factor), o->scalar, o->element_bytes, r->legs[0].stream);
}

static enum tt_dev_error go_in(struct route *r, struct leg *leg, uint32_t slice)
{
    struct tt_device *d = r->device;
    const struct tt_gate *gate = &leg->staging.gate;
    enum tt_dev_error error = slice == 0 ? bring_factor(r, leg) : TT_DEV_OK;
    if (error == TT_DEV_OK)
        error = move(r, leg, TT_IN, slice);
    d->pieces++;
    if (error == TT_DEV_OK)
        error = d->dev->write_word(r->legs[0].stream, seen(d, gate->ready), gate->base + slice + 1);
    if (r->captured == NULL)
        tt_company_tell(r->comm, &leg->meeting, slice + 1);
    return error;
}

/* As it was, for the next replay. */
static enum tt_dev_error clear_gate(const struct route *r, const struct tt_gate *gate)
{
    const struct tt_device *d = r->device;
    void *stream = r->legs[0].stream;
    enum tt_dev_error error = d->dev->write_word(stream, seen(d, gate->ready), 0);
    return error == TT_DEV_OK ? d->dev->write_word(stream, seen(d, gate->done), 0) : error;
}

static enum tt_dev_error come_back(struct route *r, struct leg *leg, uint32_t slice)
{
    struct tt_device *d = r->device;
    const struct tt_gate *gate = &leg->staging.gate;
    d->pieces++;
    enum tt_dev_error error =
        d->dev->wait_word(r->legs[0].stream, seen(d, gate->done), gate->base + slice + 1);
    if (error == TT_DEV_OK)
        error = move(r, leg, TT_OUT, slice);
    if (r->captured == NULL)
        tt_device_mark(d, gate, slice + 1);
    else if (error == TT_DEV_OK && slice + 1 == gate->slices)
        error = clear_gate(r, gate);
    return error;
}

static tutti_status told(const struct route *r, enum tt_dev_error error)
{
    if (error == TT_DEV_OK)
        return TUTTI_OK;
    return tt_fail(TUTTI_DEVICE_ERROR, "%s: rank %d, device %d: cannot enqueue: %s", r->comm->name,
        r->comm->rank, r->device->number, r->device->dev->why());
}

/* The next slice of the wave goes in, the one before it comes back. */
static tutti_status take_step(struct route *r)
{
    bool more = false;
    enum tt_dev_error error = TT_DEV_OK;
    for (int i = 0; i < r->count; i++) {
        struct leg *leg = &r->legs[i];
        if (leg->wave != r->wave || error != TT_DEV_OK)
            continue;
        tutti_status status = r->slice == 0 ? lay(r, leg) : TUTTI_OK;
        if (status != TUTTI_OK)
            return status;
        if (r->slice < leg->laid.out.slices)
            error = go_in(r, leg, r->slice);
    }
    for (int i = 0; i < r->count; i++) {
        struct leg *leg = &r->legs[i];
        if (leg->wave != r->wave || error != TT_DEV_OK)
            continue;
        if (r->slice > 0 && r->slice <= leg->laid.out.slices) {
            tutti_status status =
                r->captured == NULL ? tt_company_meet(r->comm, &leg->meeting, r->slice) : TUTTI_OK;
            if (status != TUTTI_OK)
                return status;
            error = come_back(r, leg, r->slice - 1);
        }
        more = more || r->slice < leg->laid.out.slices;
    }
    r->slice = more ? r->slice + 1 : 0;
    r->wave = more ? r->wave : find_wave(r, r->wave + 1);
    return told(r, error);
}

/* The first stream has it all: it goes on from what the others have so far, and from the last call. */
static enum tt_dev_error gather_streams(const struct route *r)
{
    struct tt_device *d = r->device;
    void *lead = r->legs[0].stream;
    enum tt_dev_error error = TT_DEV_OK;
    if (r->captured == NULL && d->chained) /* on any stream: one that is gone may have had the same handle */
        error = d->dev->event_wait(d->chain, lead, false);
    for (int i = 1; i < r->count && error == TT_DEV_OK; i++) {
        if (r->legs[i].stream == lead)
            continue;
        error = d->dev->event_record(d->branch, r->legs[i].stream, false);
        if (error == TT_DEV_OK)
            error = d->dev->event_wait(d->branch, lead, false);
    }
    if (r->captured != NULL && error == TT_DEV_OK)
        error = tt_captured_enter(r->captured, d, lead);
    return error;
}

static enum tt_dev_error part_streams(const struct route *r)
{
    struct tt_device *d = r->device;
    void *lead = r->legs[0].stream, *last = r->captured == NULL ? d->chain : d->inside;
    enum tt_dev_error error = r->captured == NULL ? d->dev->event_record(d->chain, lead, false)
                                                  : tt_captured_leave(r->captured, d, lead);
    for (int i = 1; i < r->count && error == TT_DEV_OK; i++)
        if (r->legs[i].stream != lead)
            error = d->dev->event_wait(last, r->legs[i].stream, false);
    d->chained = true;
    return error;
}

/* --- All communicators of a batch */

struct tour {
    struct route *routes;
    struct leg *legs;
    int count;
    int begun; /* have their place in the workers' queues */
    int now; /* the current device */
    struct tt_dev_capture capture; /* that all streams are in, or none */
};

static const struct tt_call *call_of(const struct tt_batch *batch, int i)
{
    return &batch->calls[i].call;
}

/* The communicator that comes after `last` in the shared order; NULL: none. */
static struct tt_comm *next_comm(const struct tt_batch *batch, const struct tt_comm *last)
{
    struct tt_comm *next = NULL;
    for (int i = 0; i < batch->count; i++) {
        struct tt_comm *comm = call_of(batch, i)->comm;
        bool after = last == NULL || comm->id > last->id || (comm->id == last->id && comm->rank > last->rank);
        if (after &&
            (next == NULL || comm->id < next->id || (comm->id == next->id && comm->rank < next->rank)))
            next = comm;
    }
    return next;
}

static tutti_status set_route(const struct tour *t, struct route *r, struct tt_comm *comm,
    const struct tt_batch *batch, struct leg *legs)
{
    tutti_status status = TUTTI_OK;
    *r = (struct route){ .comm = comm, .device = comm->device, .legs = legs, .pieces = comm->device->pieces };
    if (t->capture.active)
        status = tt_captured_create(comm, t->capture.id, &r->captured);
    else if ((r->item = tt_item_take(NULL)) == NULL)
        status = TUTTI_OUT_OF_MEMORY;
    for (int i = 0; i < batch->count && status == TUTTI_OK; i++) {
        if (call_of(batch, i)->comm != comm)
            continue;
        legs[r->count] = (struct leg){ .call = *call_of(batch, i) };
        status = stage(r, &legs[r->count]);
        r->count += status == TUTTI_OK;
    }
    set_waves(r);
    return status;
}

/* Streams are named by what is current, and events are of it. */
static tutti_status use(struct tour *t, const struct route *r)
{
    if (t->now == r->device->number)
        return TUTTI_OK;
    t->now = r->device->number;
    return told(r, r->device->dev->use(r->device->number));
}

static tutti_status set_out(struct tour *t)
{
    struct tt_ticket ticket;
    tutti_status status = TUTTI_OK;
    while (t->begun < t->count && status == TUTTI_OK) {
        struct route *r = &t->routes[t->begun];
        status = r->captured != NULL ? told(r, tt_captured_retain(r->captured, t->capture.graph))
                                     : tt_item_submit(r->item, &ticket);
        t->begun += status == TUTTI_OK;
    }
    for (int i = 0; i < t->count && status == TUTTI_OK; i++) {
        status = use(t, &t->routes[i]);
        if (status == TUTTI_OK)
            status = told(&t->routes[i], gather_streams(&t->routes[i]));
    }
    return status;
}

/* That some communicator has not ended. */
static uint32_t current_wave(const struct tour *t)
{
    uint32_t first = NO_WAVE;
    for (int i = 0; i < t->count; i++)
        first = t->routes[i].wave < first ? t->routes[i].wave : first;
    return first;
}

static tutti_status travel(struct tour *t)
{
    tutti_status status = set_out(t);
    for (uint32_t wave; status == TUTTI_OK && (wave = current_wave(t)) != NO_WAVE;)
        for (int i = 0; i < t->count && status == TUTTI_OK; i++) {
            struct route *r = &t->routes[i];
            if (r->wave != wave)
                continue;
            if (r->captured == NULL)
                tt_device_pace(r->device);
            status = use(t, r);
            if (status == TUTTI_OK)
                status = take_step(r);
        }
    for (int i = 0; i < t->count && status == TUTTI_OK; i++) {
        status = use(t, &t->routes[i]);
        if (status == TUTTI_OK)
            status = told(&t->routes[i], part_streams(&t->routes[i]));
    }
    return status;
}

static void take_back(struct route *r)
{
    for (int i = 0; i < r->count && r->captured == NULL; i++)
        give_gate_back(r->device, &r->legs[i]);
    if (r->captured != NULL)
        tt_captured_drop(r->captured);
    if (r->item != NULL)
        tt_item_drop(r->item);
}

/* All or nothing, until the first has its place in a queue: from then on a failure ends the communicators. */
static tutti_status make_tour(struct tour *t, const struct tt_batch *batch)
{
    tutti_status status = TUTTI_OK;
    int legs = 0;
    struct tt_comm *comm = NULL;
    while (status == TUTTI_OK && (comm = next_comm(batch, comm)) != NULL) {
        struct route *r = &t->routes[t->count++];
        status = set_route(t, r, comm, batch, t->legs + legs);
        legs += r->count;
    }
    if (status == TUTTI_OK)
        status = travel(t);
    for (int i = 0; i < t->begun; i++)
        if (t->routes[i].captured != NULL)
            t->routes[i].device->pieces = t->routes[i].pieces;
    for (int i = t->begun; i < t->count; i++)
        if (status != TUTTI_OK)
            take_back(&t->routes[i]);
    for (int i = 0; i < t->begun && status != TUTTI_OK; i++) {
        tt_device_fail(t->routes[i].comm, status);
        part_streams(&t->routes[i]); /* so that it is known when the stream has passed what it got */
    }
    return status;
}

static bool has_rank(const struct tt_batch *batch, uint64_t id, int rank)
{
    for (int i = 0; i < batch->count; i++)
        if (call_of(batch, i)->comm->id == id && call_of(batch, i)->comm->rank == rank)
            return true;
    return false;
}

/* Ranks of one process and device need each other's operands before they wait, and replays of two graphs do
 * not meet for that. */
static tutti_status check_company(const struct tt_batch *batch, const struct tt_call *call)
{
    const struct tt_comm *comm = call->comm;
    for (int rank = 0; rank < comm->n; rank++) {
        if (rank == comm->rank || (is_p2p(call) && call->root != rank) || !tt_company_has(comm, rank) ||
            has_rank(batch, comm->id, rank))
            continue;
        return tt_fail(TUTTI_INVALID_USAGE,
            "%s: captured for rank %d alone; rank %d is in this process and on device %d, too: legal: both "
            "in one group, on streams of one capture",
            tt_collectives[call->collective].name, comm->rank, rank, comm->device->number);
    }
    return TUTTI_OK;
}

static tutti_status ask_capture(const struct tt_call *call, struct tt_dev_capture *capture)
{
    const struct tt_device *d = call->comm->device;
    int before;
    tutti_status status = tt_device_enter(d, &before);
    if (status != TUTTI_OK)
        return status;
    if (d->dev->stream_capture(call->stream.handle, capture) != TT_DEV_OK)
        status = tt_fail(
            TUTTI_INVALID_ARGUMENT, "%s: stream: %s", tt_collectives[call->collective].name, d->dev->why());
    tt_device_leave(d, before);
    return status;
}

/* All streams are in one capture, or none is in any. */
static tutti_status find_capture(const struct tt_batch *batch, struct tt_dev_capture *capture)
{
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < batch->count && status == TUTTI_OK; i++) {
        const struct tt_call *call = call_of(batch, i);
        const char *name = tt_collectives[call->collective].name;
        struct tt_dev_capture this;
        status = ask_capture(call, &this);
        if (status != TUTTI_OK)
            return status;
        if (this.broken)
            return tt_fail(TUTTI_INVALID_USAGE,
                "%s: the capture of its stream is broken: meanwhile something was done that cannot be "
                "captured",
                name);
        if (i == 0)
            *capture = this;
        if (this.active != capture->active || (this.active && this.id != capture->id))
            return tt_fail(TUTTI_INVALID_USAGE,
                "group: the streams of some calls are being captured; legal: all of them, in one capture, or "
                "none");
        if (this.active)
            status = check_company(batch, call);
    }
    return status;
}

tutti_status tt_device_submit(const struct tt_batch *batch)
{
    struct leg leg;
    struct route route;
    struct tour tour = { .routes = &route, .legs = &leg };
    const struct tt_dev *dev = call_of(batch, 0)->comm->device->dev;
    tutti_status status = find_capture(batch, &tour.capture);
    if (status != TUTTI_OK)
        return status;
    if (batch->count > 1) {
        tour.routes = malloc((size_t)batch->count * sizeof *tour.routes);
        tour.legs = malloc((size_t)batch->count * sizeof *tour.legs);
    }
    int before = -1;
    if (tour.routes == NULL || tour.legs == NULL)
        status = tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a group of %d calls", batch->count);
    else if (dev->current(&before) != TT_DEV_OK)
        status = tt_fail(TUTTI_DEVICE_ERROR, "%s", dev->why());
    tour.now = before;
    if (status == TUTTI_OK)
        status = make_tour(&tour, batch);
    if (tour.now != before)
        dev->use(before);
    if (batch->count > 1) {
        free(tour.routes);
        free(tour.legs);
    }
    return status;
}
