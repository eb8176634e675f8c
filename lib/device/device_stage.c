/* SPDX-License-Identifier: BSD-3-Clause */
/* device_stage.c: the cells, the gate and the round of each call of a submission, before anything is
 * enqueued; and a call of which nothing is staged, for kernels of several devices do it. */
#include "device/device_led.h"

#include <stdlib.h>

#include "base/status.h"

/* Collectives come after all messages, on every communicator and at all ranks. */
enum { ROUNDS_OF_MESSAGES = 1 << 30 };

enum { SLICE_OF_ALL = 5 << 20 };

/* Slices are as long as the pinned memory has room for, since each is several pieces of work, and there is a
 * bound of those: so long that all slices of a call of 1 GiB can be enqueued. */
uint64_t tt_device_slice_bytes(int n)
{
    return SLICE_OF_ALL / (uint64_t)n;
}

tutti_status tt_device_settings(struct tt_settings *settings, int n)
{
    int number;
    tutti_status status = tt_device_resolve(settings, &number);
    if (status == TUTTI_OK && number >= 0 && settings->slice_bytes == 0)
        settings->slice_bytes = tt_device_slice_bytes(n);
    return status;
}

static bool is_p2p(const struct tt_call *call)
{
    return tt_collectives[call->collective].p2p;
}

/* Finds the layout of a call. The arrays of a v-form stand in its prepared call until another one is laid on
 * that. */
tutti_status tt_stage_lay(struct tt_comm_batch *b, struct tt_staged *op)
{
    struct tt_prepared *prepared;
    struct tt_key key;
    tutti_status status = tt_call_key(&op->call, &key);
    if (status == TUTTI_OK)
        status = tt_prepared_find(&b->device->prepared, &key, &prepared);
    if (status != TUTTI_OK)
        return status;
    tt_lay_out_call(&op->call, prepared, &op->laid);
    op->packed = tt_call_is_packed(&op->call, &op->laid.out);
    for (unsigned side = 0; side < 2; side++)
        op->chunks[side] = tt_call_chunks(&op->call, &prepared->schedule, side);
    return TUTTI_OK;
}

struct tt_device_move tt_stage_move(const struct tt_staged *op, unsigned side)
{
    return (struct tt_device_move){ .layout = side == TT_IN ? &op->laid.in : &op->laid.out,
        .space = op->laid.spaces[side],
        .stride = op->packed ? 0 : op->laid.stride,
        .chunks = op->chunks[side],
        .back = side == TT_OUT };
}

/* What a call has staged of a buffer. */
static struct tt_span span_of(const struct tt_staged *op, unsigned side)
{
    struct tt_device_move m = tt_stage_move(op, side);
    return op->call.staged[side] ? tt_device_span(&m) : (struct tt_span){ 0 };
}

/* It may share a gate. A factor that the device has comes by a gate of its own. */
static bool is_fusible(const struct tt_staged *op)
{
    bool scaled = op->call.created != NULL && op->call.created->scalar != NULL;
    return op->packed && !scaled && op->way == TT_BY_HOST;
}

void tt_stage_fuse(struct tt_comm_batch *b)
{
    struct tt_fuse fuse;
    tt_fuse_begin(&fuse);
    for (int i = 0; i < b->calls; i++) {
        struct tt_staged *op = &b->ops[i];
        struct tt_span spans[2] = { span_of(op, TT_IN), span_of(op, TT_OUT) };
        if (is_fusible(op))
            op->joins = tt_fuse_joins(&fuse, spans, b->device->cells_bytes / 2, op->offsets);
        else
            tt_fuse_begin(&fuse);
        if (op->joins)
            b->ops[i - 1].followed = true;
    }
}

bool tt_stage_is_one_gate(const struct tt_comm_batch *b)
{
    bool is = !tt_local_decides(b->comm) && is_fusible(&b->ops[0]);
    for (int i = 1; i < b->calls && is; i++)
        is = b->ops[i].joins;
    return is;
}

void tt_stage_unfuse(struct tt_comm_batch *b)
{
    for (int i = 0; i < b->calls; i++)
        b->ops[i].joins = b->ops[i].followed = false;
}

/* --- Results on a stream of their own */

static bool is_long(const struct tt_staged *op, unsigned side)
{
    return op->laid.out.slices > TT_WINDOW && op->call.staged[side] && op->chunks[side].count > 0;
}

/* The host serves it, whatever other ranks do. */
static bool is_by_host(const struct tt_comm_batch *b, const struct tt_staged *op)
{
    if (op->way != TT_BY_HOST)
        return false;
    return is_p2p(&op->call) ? !tt_pair_decides(b->comm, &op->call) && tt_led_of(&op->call) == NULL
                             : !tt_local_decides(b->comm);
}

/* Finds which calls have their results there: long ones, while others' operands, or their own, come in. That
 * takes more pieces of work, so all go by one stream where these have no room. */
void tt_stage_set_duplex(struct tt_comm_batch *b)
{
    enum { SLICE = 6, ENDS = 6, WORDS = 2 };
    uint32_t pieces = 0;
    bool sends = false;
    for (int i = 0; i < b->calls; i++)
        sends = sends || (is_p2p(&b->ops[i].call) && is_long(&b->ops[i], TT_IN));
    for (int i = 0; i < b->calls; i++) {
        struct tt_staged *op = &b->ops[i];
        op->duplex =
            is_long(op, TT_OUT) && is_by_host(b, op) && (is_p2p(&op->call) ? sends : is_long(op, TT_IN));
        pieces += op->laid.out.slices * SLICE + ENDS;
    }
    bool fits = tt_device_has_room(b->device, pieces);
    for (int i = 0; i < b->calls; i++)
        b->ops[i].duplex = b->ops[i].duplex && fits;
}

/* Gives a call its cells: operands have one half of them, results the other. Messages of a group have a share
 * for each peer and direction. */
static tutti_status set_cells(struct tt_comm_batch *b, struct tt_staged *op, unsigned side)
{
    const struct tt_device *d = b->device;
    bool p2p = is_p2p(&op->call);
    uint64_t share = p2p ? d->cells_bytes / (d->ngates - 1) / 64 * 64 : d->cells_bytes / 2;
    uint64_t index = p2p ? 2 * (uint64_t)op->call.root + side : side;
    struct tt_span packed = span_of(op, side);
    uint64_t bytes =
        op->packed ? packed.end - packed.begin : TT_WINDOW * op->chunks[side].count * op->laid.stride;
    if (!op->call.staged[side] || bytes == 0)
        return TUTTI_OK;
    if (bytes > share)
        return tt_fail(TUTTI_UNSUPPORTED, "%s: %llu bytes of cells are needed, and device %d has %llu",
            tt_collectives[op->call.collective].name, (unsigned long long)bytes, d->number,
            (unsigned long long)share);
    op->staging.cells[side] = d->cells + index * share + op->offsets[side];
    return TUTTI_OK;
}

uint32_t tt_stage_gate(const struct tt_staged *op)
{
    const struct tt_rendezvous *m = &op->rendezvous;
    return m->peer != TT_NONE ? tt_device_gate(m->peer, m->receives) : 0;
}

/* The ranks of this process decide later how this call is served. */
static void undecide(const struct tt_comm_batch *b, struct tt_staged *op)
{
    struct tt_gate *gate = &op->staging.gate;
    op->way = TT_UNDECIDED;
    if (is_p2p(&op->call)) {
        tt_pair_begin(b->comm, &op->local, gate);
        return;
    }
    op->local.number = ++b->device->local.calls;
    if (!op->local.captured)
        tt_local_gate(b->device, op->local.number, gate);
}

/* A slice that is led counts two (gate.h). */
static void set_led_gate(struct tt_comm_batch *b, struct tt_staged *op)
{
    struct tt_device *d = b->device;
    uint32_t slices = 2 * tt_led_place(b, op), gate = tt_stage_gate(op);
    struct tt_led_gate led = op->staging.gate.led;
    struct tt_device_words *words = &d->words[(b->captured != NULL ? d->ngates : 0) + gate];
    led.over = &words->over;
    if (b->captured != NULL) {
        op->staging.gate = tt_captured_gate(b->captured, gate, slices);
    } else {
        d->counts[gate] += slices;
        op->staging.gate = (struct tt_gate){ .ready = &words->ready,
            .done = &words->done,
            .factor = words->factor,
            .base = d->counts[gate] - slices,
            .slices = slices };
        op->rendezvous.operation = gate == 0 ? ++d->operations : 0;
    }
    op->staging.gate.led = led;
}

/* Kernels that meet have numbers of their own, and no slices: the words of the gate stay as they were. */
static void set_spin_gate(struct tt_comm_batch *b, struct tt_staged *op)
{
    struct tt_device *d = b->device;
    op->staging.gate =
        (struct tt_gate){ .ready = &d->words[0].ready, .factor = d->words[0].factor, .base = d->counts[0] };
    op->rendezvous.operation = ++d->operations;
    tt_spin_begin(d->spin, op->kernels, &op->staging.gate);
}

/* Messages between processes of one device go one by one, for any may be led. */
static void set_order(struct tt_staged *op)
{
    op->staging.gate.alone = is_p2p(&op->call) && tt_led_of(&op->call) != NULL;
    op->staging.gate.offer = op->way == TT_LED ? NULL : tt_led_offer(&op->call);
}

static void set_gate(struct tt_comm_batch *b, struct tt_staged *op)
{
    const struct tt_call *call = &op->call;
    struct tt_device *d = b->device;
    if (op->way == TT_SPIN) {
        set_spin_gate(b, op);
        return;
    }
    if (op->way == TT_LED) {
        set_led_gate(b, op);
        return;
    }
    uint32_t gate = tt_stage_gate(op);
    if (b->captured != NULL) {
        op->staging.gate = tt_captured_gate(b->captured, gate, op->laid.out.slices);
        return;
    }
    d->counts[gate] += op->joins ? 0 : op->laid.out.slices;
    op->staging.gate = (struct tt_gate){ .ready = &d->words[gate].ready,
        .done = op->followed ? NULL : &d->words[gate].done,
        .drained = op->duplex ? &d->words[gate].drained : NULL,
        .factor = d->words[gate].factor,
        .base = d->counts[gate] - op->laid.out.slices,
        .slices = op->laid.out.slices };
    op->rendezvous.operation = gate == 0 ? ++d->operations : 0;
    if (gate != 0 ? tt_pair_decides(b->comm, call) : tt_local_decides(b->comm))
        undecide(b, op);
}

/* Takes the slices of a call that will not run out of its gate's count, since both ends of a message count
 * alike. */
void tt_stage_return(const struct tt_comm_batch *b, const struct tt_staged *op)
{
    struct tt_device *d = b->device;
    if (op->way == TT_UNDECIDED && is_p2p(&op->call))
        tt_pair_return(b->comm);
    else
        d->local.calls -= op->way == TT_UNDECIDED;
    if (b->captured != NULL)
        return;
    if (op->way == TT_SPIN)
        tt_spin_take_back(d->spin, op->kernels);
    if (op->way == TT_LED && op->staging.gate.led.meeting->pair)
        tt_led_release(&op->staging.gate);
    d->counts[tt_stage_gate(op)] -= op->joins ? 0 : op->staging.gate.slices;
    d->operations -= tt_stage_gate(op) == 0;
}

/* A kernel leaves the words of the gate as they were. */
void tt_stage_count_on(const struct tt_comm_batch *b)
{
    uint32_t *count = &b->device->counts[0];
    if (b->captured != NULL)
        return;
    for (int i = b->count; i-- > 0;)
        if (tt_stage_gate(&b->ops[i]) == 0)
            *count = b->ops[i].staging.gate.base;
    for (int i = 0; i < b->count; i++)
        if (tt_stage_gate(&b->ops[i]) == 0 && b->ops[i].way != TT_BY_KERNEL)
            *count = b->ops[i].staging.gate.base + b->ops[i].staging.gate.slices;
}

/* What the graph's own kernel or copy does needs neither gate nor cells. */
tutti_status tt_stage_begin(struct tt_comm_batch *b, struct tt_staged *op, bool by_kernel)
{
    struct tt_call *call = &op->call;
    bool meets = call->collective == TT_P2P_SEND && call->met; /* the receive has the bytes */
    op->local = tt_local_call_of(call);
    op->local.captured = by_kernel;
    op->rendezvous = (struct tt_rendezvous){ .gate = &op->staging.gate,
        .peer = is_p2p(call) ? call->root : TT_NONE,
        .receives = call->collective == TT_P2P_RECV };
    op->stream = call->stream.handle;
    if (by_kernel)
        return TUTTI_OK;
    if (tt_spin_serves(b->device->spin, call)) {
        op->way = TT_SPIN;
        op->kernels = tt_spin_kernels(b->device->spin, call, op->local.staged);
        op->lists = tt_spin_lists(b->device->spin, call, op->local.staged);
    } else if (tt_led_serves(call)) {
        op->way = TT_LED;
    }
    for (unsigned side = 0; side < 2; side++)
        call->staged[side] = call->staged[side] && !meets;
    call->in_place = call->in_place && !call->staged[TT_IN] && !call->staged[TT_OUT];
    call->stream = b->device->worker;
    return tt_stage_lay(b, op);
}

tutti_status tt_stage(struct tt_comm_batch *b, struct tt_staged *op)
{
    struct tt_call *call = &op->call;
    tutti_status status = TUTTI_OK;
    if (op->local.captured) {
        undecide(b, op);
        return TUTTI_OK;
    }
    if (op->way == TT_SPIN && b->captured != NULL) /* the kernels are the graph's, and need nothing else */
        return TUTTI_OK;
    bool placed = op->way == TT_LED || op->way == TT_SPIN; /* elsewhere */
    for (unsigned side = 0; side < 2 && status == TUTTI_OK && !placed; side++)
        status = set_cells(b, op, side);
    if (status != TUTTI_OK)
        return status;
    set_gate(b, op);
    set_order(op);
    call->staging = &op->staging;
    if (b->captured != NULL)
        return tt_captured_add(b->captured, call);
    status = tt_work_item_add(b->item, call);
    if (status != TUTTI_OK)
        tt_stage_return(b, op);
    return status;
}

void tt_stage_next_round(struct tt_comm_batch *b)
{
    b->begin = b->end;
    b->round = b->begin < b->count ? b->turns[b->begin]->round : TT_NO_ROUND;
    while (b->end < b->count && b->turns[b->end]->round == b->round)
        b->end++;
}

/* By rounds, and in a round as they were called. */
static int compare(const void *a, const void *b)
{
    const struct tt_staged *x = *(struct tt_staged *const *)a, *y = *(struct tt_staged *const *)b;
    return x->round != y->round ? (x->round > y->round) - (x->round < y->round) : (x > y) - (x < y);
}

/* The round of a call is its index among the messages of its peer and direction, or among the collectives.
 * Calls that share a gate are one. */
void tt_stage_set_rounds(struct tt_comm_batch *b)
{
    uint32_t *rounds = b->device->counts + b->device->ngates; /* that each gate has so far */
    for (int i = 0; i < b->count; i++) {
        struct tt_staged *op = &b->ops[i];
        op->round = is_p2p(&op->call) ? 0 : ROUNDS_OF_MESSAGES;
        if (op->joins)
            op->round = b->ops[i - 1].round;
        else
            op->round += rounds[tt_stage_gate(op)]++;
        b->turns[i] = op;
    }
    for (int i = 0; i < b->count; i++)
        rounds[tt_stage_gate(&b->ops[i])] = 0;
    if (b->count > 1)
        qsort(b->turns, (size_t)b->count, sizeof b->turns[0], compare);
    b->end = 0;
    tt_stage_next_round(b);
}

/* --- Kernels of several devices
 *
 * Kernels that meet: first this rank says to those of its process that it is here, and launches when all are:
 * who launches may wait for a lock of the process that another thread holds until a device is idle, and this
 * one's would not be, once its kernel waits.
 *
 * One kernel does what it lists call by call, as ones of their own would, so ranks may list other calls, or
 * none. But a rank that has a kernel for each may have enqueued something else between two of them. If that
 * waits for a rank whose kernel lists both, nobody goes on. So a rank lists only calls between which nothing
 * of the submission comes, and only where that is of one communicator. */

void tt_stage_list(struct tt_comm_batch *b)
{
    int count = 1;
    for (int i = 1; i < b->calls; i++) {
        struct tt_staged *op = &b->ops[i], *before = op - 1;
        op->joins = before->lists && op->lists && count < TT_LISTED_CALLS &&
                    before->call.type == op->call.type && before->call.op == op->call.op;
        count = op->joins ? count + 1 : 1;
    }
}

static tutti_status enqueued(const struct tt_comm_batch *b, enum tt_dev_error error)
{
    if (error == TT_DEV_OK)
        return TUTTI_OK;
    return tt_fail(TUTTI_DEVICE_ERROR, "%s: rank %d, device %d: cannot enqueue: %s", b->comm->identity.name,
        b->comm->rank, b->device->number, b->device->dev->why());
}

static struct tt_spin_call spin_call(const struct tt_comm_batch *b, const struct tt_staged *op)
{
    return (struct tt_spin_call){ .call = &op->call,
        .reached = { op->local.staged[TT_IN], op->local.staged[TT_OUT] },
        .first = b->captured == NULL ? op->staging.gate.spin.first : 0 };
}

/* Enqueues a kernel for the first calls of the round: those to which all ranks of this process have come. It
 * must not wait for the others, for a rank that calls one by one may wait for the first before it comes to
 * the second. */
static tutti_status enqueue_list(struct tt_comm_batch *b)
{
    struct tt_spin_call calls[TT_LISTED_CALLS];
    struct tt_device *d = b->device;
    int count = 0;
    do {
        calls[count] = spin_call(b, b->turns[b->begin + count]);
        count++;
    } while (b->begin + count < b->end &&
             (b->captured != NULL ||
                 tt_local_peers_are_there(b->comm, &b->turns[b->begin + count]->rendezvous, 1)));
    enum tt_dev_error error =
        tt_spin_enqueue_list(d->spin, calls, count, b->ops[0].stream, &d->marks.enqueued);
    if (b->captured == NULL)
        tt_device_mark(d, tt_spin_over(d->spin), (uint32_t)calls[count - 1].first);
    b->begin += count;
    return enqueued(b, error);
}

static tutti_status enqueue_kernel(struct tt_comm_batch *b, uint32_t index)
{
    struct tt_device *d = b->device;
    const struct tt_spin_call call = spin_call(b, b->turns[b->begin]);
    enum tt_dev_error error = tt_spin_enqueue(d->spin, &call, index, b->ops[0].stream, &d->marks.enqueued);
    if (b->captured == NULL)
        tt_device_mark(d, tt_spin_over(d->spin), (uint32_t)(call.first + index));
    b->begin += index + 1 == b->turns[b->begin]->kernels;
    return enqueued(b, error);
}

tutti_status tt_stage_spin(struct tt_comm_batch *b)
{
    const struct tt_staged *first = b->turns[b->begin];
    uint32_t step = b->slice++;
    tutti_status status = TUTTI_OK;
    if (step == 0 && b->captured == NULL)
        tt_local_peers_tell(b->comm, &b->turns[b->end - 1]->rendezvous, 1);
    if (step == 0)
        return TUTTI_OK;
    bool lists = first->joins || b->end - b->begin > 1;
    if (b->captured == NULL && (lists || step == 1))
        status = tt_local_peers_await(b->comm, &first->rendezvous, 1);
    if (status == TUTTI_OK)
        status = lists ? enqueue_list(b) : enqueue_kernel(b, step - 1);
    if (status == TUTTI_OK && b->begin == b->end) {
        b->slice = 0;
        tt_stage_next_round(b);
    }
    return status;
}

/* --- How much is enqueued */

bool tt_stage_has_new_stream(const struct tt_comm_batch *b, int i)
{
    int before = i - 1;
    while (before >= 0 && b->ops[before].stream != b->ops[i].stream)
        before--;
    return before < 0;
}

uint32_t tt_stage_count_events(const struct tt_comm_batch *b)
{
    uint32_t events = 1;
    for (int i = 1; i < b->count; i++)
        events += tt_stage_has_new_stream(b, i);
    return events;
}

static void pass(struct tt_device *d)
{
    for (; d->marks.count > 0; d->marks.count--, d->marks.first = (d->marks.first + 1) % TT_DEVICE_MARKS) {
        const struct tt_device_mark *m = &d->marks.ring[d->marks.first];
        if ((int32_t)(atomic_load_explicit(m->done, memory_order_acquire) - m->value) < 0)
            return;
        d->marks.completed = m->enqueued;
    }
}

/* Makes a mark, unless there is no room for another one: a later one says the same. */
void tt_device_mark(struct tt_device *d, const _Atomic uint32_t *done, uint32_t value)
{
    if (d->marks.count == TT_DEVICE_MARKS)
        pass(d);
    if (d->marks.count == TT_DEVICE_MARKS)
        return;
    uint32_t next = (d->marks.first + d->marks.count++) % TT_DEVICE_MARKS;
    d->marks.ring[next] = (struct tt_device_mark){ d->marks.enqueued, done, value };
}

static bool has_room(const struct tt_device *d, uint32_t pieces, uint32_t marks)
{
    return d->marks.enqueued + pieces - d->marks.completed <= TT_DEVICE_ENQUEUED &&
           d->marks.count + marks <= TT_DEVICE_MARKS;
}

bool tt_device_has_room(struct tt_device *d, uint32_t pieces)
{
    pass(d);
    return has_room(d, pieces, 0);
}

/* This wait ends: a gate tells all its slices at the latest when its call fails. */
void tt_device_throttle(struct tt_device *d, uint32_t pieces, uint32_t marks)
{
    struct tt_wait w;
    if (has_room(d, pieces, marks))
        return;
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    tt_wait_look(&w, true);
    for (pass(d); d->marks.count > 0 && !has_room(d, pieces, marks); pass(d))
        tt_wait_idle(&w);
    tt_wait_awake(&w);
}
