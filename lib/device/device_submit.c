/* SPDX-License-Identifier: BSD-3-Clause */
/* device_submit.c: calls on a device's stream, enqueued.
 *
 * A submission is a batch of calls. The calls of one communicator first take their place in its worker's
 * queue. Then the host enqueues the stream's part, round by round. A collective is a round of its own. The
 * k-th messages of all peers and directions of a group are one round, since the peers' k-th ones are, too,
 * wherever they stand in their groups. In a round the operands of slice z are enqueued before the results of
 * slice z - 1; so the stream waits for nothing that needs what stands behind it, here or at a peer.
 *
 * Several communicators take turns, step by step, and none begins a round before all have ended the last one,
 * since ranks may cut a call into different numbers of slices. So a wait for slice z of round w needs only
 * what all ranks have enqueued before their waits for slice z of round w, on any communicator.
 *
 * Small collectives of a submission share gates, and so rounds, if it is of one communicator (device_fuse.c).
 * Ranks may fuse differently: each wait then needs operands of that communicator only, and of earlier calls.
 * Of several communicators, ranks that differ could wait for each other in a circle.
 *
 * While the streams are being captured, the same work becomes a part of a graph, and the worker gets the
 * calls when that is replayed (device_capture.c). */
#include <stdlib.h>

#include "base/status.h"
#include "device/device.h"
#include "run/call_layout.h"
#include "stream/stream.h"

/* Collectives come after all messages, on every communicator and at all ranks. */
enum { ROUNDS_OF_MESSAGES = 1 << 30, NO_ROUND = INT32_MAX };

struct op { /* one call */
    struct tt_call call; /* as the worker runs it */
    struct tt_staging staging;
    struct tt_call_layout laid;
    struct tt_part chunks[2];
    uint64_t offsets[2]; /* of its cells */
    bool packed; /* it is staged in one piece */
    bool joins, followed; /* it shares the gate of the call before; the next one shares its */
    void *stream; /* the caller's */
    struct tt_rendezvous rendezvous;
    uint32_t round;
};

struct comm_batch { /* the calls of one communicator */
    struct tt_comm *comm;
    struct tt_device *device;
    struct tt_work_item *item; /* for the worker */
    struct tt_captured *captured; /* or for a graph; NULL: it is not one */
    struct op *ops;
    int count;
    uint32_t round, slice; /* what comes next; NO_WAVE: nothing */
    uint64_t enqueued; /* of the device, before; a capture is none */
};

static bool is_p2p(const struct tt_call *call)
{
    return tt_collectives[call->collective].p2p;
}

/* --- The cells and the gate of each call */

/* Finds the layout of a call. The arrays of a v-form stand in its prepared call until another one is laid on
 * that. */
static tutti_status lay(struct comm_batch *b, struct op *op)
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

static struct tt_device_move move_of(const struct op *op, unsigned side)
{
    return (struct tt_device_move){ .layout = side == TT_IN ? &op->laid.in : &op->laid.out,
        .space = op->laid.spaces[side],
        .stride = op->packed ? 0 : op->laid.stride,
        .chunks = op->chunks[side],
        .back = side == TT_OUT };
}

/* What a call has staged of a buffer. */
static struct tt_span span_of(const struct op *op, unsigned side)
{
    struct tt_device_move m = move_of(op, side);
    return op->call.staged[side] ? tt_device_span(&m) : (struct tt_span){ 0 };
}

/* Finds which calls share gates. A factor that the device has comes by a gate of its own. */
static void fuse(struct comm_batch *b, int count)
{
    struct tt_fuse fuse;
    tt_fuse_begin(&fuse);
    for (int i = 0; i < count; i++) {
        struct op *op = &b->ops[i];
        struct tt_span spans[2] = { span_of(op, TT_IN), span_of(op, TT_OUT) };
        bool scaled = op->call.created != NULL && op->call.created->scalar != NULL;
        if (op->packed && !scaled)
            op->joins = tt_fuse_joins(&fuse, spans, b->device->cells_bytes / 2, op->offsets);
        else
            tt_fuse_begin(&fuse);
        if (op->joins)
            b->ops[i - 1].followed = true;
    }
}

/* Gives a call its cells: operands have one half of them, results the other. Messages of a group have a share
 * for each peer and direction. */
static tutti_status set_cells(struct comm_batch *b, struct op *op, unsigned side)
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

static uint32_t gate_of(const struct op *op)
{
    const struct tt_rendezvous *m = &op->rendezvous;
    return m->peer != TT_NONE ? tt_device_gate(m->peer, m->receives) : 0;
}

static void set_gate(const struct comm_batch *b, struct op *op)
{
    const struct tt_call *call = &op->call;
    struct tt_device *d = b->device;
    op->rendezvous = (struct tt_rendezvous){ .gate = &op->staging.gate,
        .peer = is_p2p(call) ? call->root : TT_NONE,
        .receives = call->collective == TT_P2P_RECV };
    uint32_t gate = gate_of(op);
    if (b->captured != NULL) {
        op->staging.gate = tt_captured_gate(b->captured, gate, op->laid.out.slices);
        return;
    }
    d->counts[gate] += op->joins ? 0 : op->laid.out.slices;
    op->staging.gate = (struct tt_gate){ .ready = &d->words[gate].ready,
        .done = op->followed ? NULL : &d->words[gate].done,
        .factor = d->words[gate].factor,
        .base = d->counts[gate] - op->laid.out.slices,
        .slices = op->laid.out.slices };
    op->rendezvous.operation = gate == 0 ? ++d->operations : 0;
}

/* Takes the slices of a call that will not run out of its gate's count, since both ends of a message count
 * alike. */
static void return_gate(struct tt_device *d, const struct op *op)
{
    d->counts[gate_of(op)] -= op->joins ? 0 : op->staging.gate.slices;
    d->operations -= gate_of(op) == 0;
}

static tutti_status begin_call(struct comm_batch *b, struct op *op)
{
    struct tt_call *call = &op->call;
    bool meets = call->collective == TT_P2P_SEND && call->met; /* the receive has the bytes */
    for (unsigned side = 0; side < 2; side++)
        call->staged[side] = call->staged[side] && !meets;
    call->in_place = call->in_place && !call->staged[TT_IN] && !call->staged[TT_OUT];
    op->stream = call->stream.handle;
    call->stream = b->device->worker;
    return lay(b, op);
}

static tutti_status stage(struct comm_batch *b, struct op *op)
{
    struct tt_call *call = &op->call;
    tutti_status status = TUTTI_OK;
    for (unsigned side = 0; side < 2 && status == TUTTI_OK; side++)
        status = set_cells(b, op, side);
    if (status != TUTTI_OK)
        return status;
    set_gate(b, op);
    call->staging = &op->staging;
    if (b->captured != NULL)
        return tt_captured_add(b->captured, call);
    status = tt_work_item_add(b->item, call);
    if (status != TUTTI_OK)
        return_gate(b->device, op);
    return status;
}

/* The first round that has a call, from this one on. */
static uint32_t find_round(const struct comm_batch *b, uint32_t from)
{
    uint32_t first = NO_ROUND;
    for (int i = 0; i < b->count; i++)
        if (b->ops[i].round >= from && b->ops[i].round < first)
            first = b->ops[i].round;
    return first;
}

/* The round of a call is its index among the messages of its peer and direction, or among the collectives.
 * Calls that share a gate are one. */
static void set_rounds(struct comm_batch *b)
{
    for (int i = 0; i < b->count; i++) {
        struct op *op = &b->ops[i];
        op->round = is_p2p(&op->call) ? 0 : ROUNDS_OF_MESSAGES;
        if (op->joins)
            op->round = b->ops[i - 1].round;
        for (int j = 0; j < i && !op->joins; j++)
            op->round += gate_of(&b->ops[j]) == gate_of(op) && !b->ops[j].followed;
    }
    b->round = find_round(b, 0);
}

/* --- The stream's part */

static enum tt_dev_error move(struct comm_batch *b, struct op *op, unsigned side, uint32_t slice)
{
    struct tt_device *d = b->device;
    if (op->staging.cells[side] == NULL)
        return TT_DEV_OK;
    struct tt_device_move m = move_of(op, side);
    m.cells = tt_device_seen(d, op->staging.cells[side]);
    return tt_device_move(d, &m, slice, b->ops[0].stream);
}

/* Copies the factor of this rank's operands, as it is when the stream comes here. */
static enum tt_dev_error enqueue_factor(const struct comm_batch *b, const struct op *op)
{
    struct tt_device *d = b->device;
    const struct tt_operator *o = op->call.created;
    if (o == NULL || o->scalar == NULL)
        return TT_DEV_OK;
    d->enqueued++;
    return d->dev->copy(tt_device_seen(d, op->staging.gate.factor), o->scalar, o->element_bytes, b->ops[0].stream);
}

static enum tt_dev_error enqueue_operands(struct comm_batch *b, struct op *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &op->staging.gate;
    enum tt_dev_error error = slice == 0 ? enqueue_factor(b, op) : TT_DEV_OK;
    if (error == TT_DEV_OK)
        error = move(b, op, TT_IN, slice);
    if (op->followed)
        return error;
    d->enqueued++;
    if (error == TT_DEV_OK)
        error = d->dev->write_word(b->ops[0].stream, tt_device_seen(d, gate->ready), gate->base + slice + 1);
    if (b->captured == NULL)
        tt_local_peers_tell(b->comm, &op->rendezvous, slice + 1);
    return error;
}

/* Of the calls that share its gate the last: the one that the worker tells. */
static const struct op *last_of(const struct op *op)
{
    while (op->followed)
        op++;
    return op;
}

static enum tt_dev_error enqueue_wait(struct comm_batch *b, const struct op *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &last_of(op)->staging.gate;
    d->enqueued++;
    return d->dev->wait_word(b->ops[0].stream, tt_device_seen(d, gate->done), gate->base + slice + 1);
}

static enum tt_dev_error enqueue_results(struct comm_batch *b, struct op *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &op->staging.gate;
    enum tt_dev_error error = op->joins ? TT_DEV_OK : enqueue_wait(b, op, slice);
    if (error == TT_DEV_OK)
        error = move(b, op, TT_OUT, slice);
    if (op->followed)
        return error;
    if (b->captured == NULL)
        tt_device_mark(d, gate, slice + 1);
    else if (error == TT_DEV_OK && tt_captured_ends(b->captured, gate_of(op), gate->base + slice + 1))
        error = d->dev->write_word(b->ops[0].stream, tt_device_seen(d, gate->done), 0);
    return error;
}

static tutti_status told(const struct comm_batch *b, enum tt_dev_error error)
{
    if (error == TT_DEV_OK)
        return TUTTI_OK;
    return tt_fail(TUTTI_DEVICE_ERROR, "%s: rank %d, device %d: cannot enqueue: %s", b->comm->identity.name,
        b->comm->rank, b->device->number, b->device->dev->why());
}

/* Enqueues the operands of the round's next slice and the results of the one before. */
static tutti_status enqueue_step(struct comm_batch *b)
{
    bool more = false;
    enum tt_dev_error error = TT_DEV_OK;
    for (int i = 0; i < b->count; i++) {
        struct op *op = &b->ops[i];
        if (op->round != b->round || error != TT_DEV_OK)
            continue;
        tutti_status status = b->slice == 0 ? lay(b, op) : TUTTI_OK;
        if (status != TUTTI_OK)
            return status;
        if (b->slice < op->laid.out.slices)
            error = enqueue_operands(b, op, b->slice);
    }
    for (int i = 0; i < b->count; i++) {
        struct op *op = &b->ops[i];
        if (op->round != b->round || error != TT_DEV_OK)
            continue;
        if (b->slice > 0 && b->slice <= op->laid.out.slices) {
            tutti_status status = TUTTI_OK;
            if (b->captured == NULL && !op->joins)
                status = tt_local_peers_await(b->comm, &last_of(op)->rendezvous, b->slice);
            if (status != TUTTI_OK)
                return status;
            error = enqueue_results(b, op, b->slice - 1);
        }
        more = more || b->slice < op->laid.out.slices;
    }
    b->slice = more ? b->slice + 1 : 0;
    b->round = more ? b->round : find_round(b, b->round + 1);
    return told(b, error);
}

/* How many events joining or forking the streams takes at most. */
static uint32_t count_events(const struct comm_batch *b)
{
    uint32_t events = 1;
    for (int i = 1; i < b->count; i++)
        events += b->ops[i].stream != b->ops[0].stream;
    return events;
}

/* Makes the first stream, which gets all the work, wait for the other streams and for the communicator's last
 * call. */
static enum tt_dev_error join_streams(const struct comm_batch *b)
{
    struct tt_device *d = b->device;
    void *lead = b->ops[0].stream;
    enum tt_dev_error error = TT_DEV_OK;
    d->enqueued += count_events(b);
    if (b->captured == NULL && d->ordered) /* on any stream: one that is gone may have had the same handle */
        error = d->dev->event.wait(d->order_event, lead, false);
    for (int i = 1; i < b->count && error == TT_DEV_OK; i++) {
        if (b->ops[i].stream == lead)
            continue;
        error = d->dev->event.record(d->fork_event, b->ops[i].stream, false);
        if (error == TT_DEV_OK)
            error = d->dev->event.wait(d->fork_event, lead, false);
    }
    if (b->captured != NULL && error == TT_DEV_OK)
        error = tt_captured_enter(b->captured, d, lead);
    return error;
}

static enum tt_dev_error fork_streams(const struct comm_batch *b)
{
    struct tt_device *d = b->device;
    d->enqueued += count_events(b);
    void *lead = b->ops[0].stream, *last = b->captured == NULL ? d->order_event : d->inside;
    enum tt_dev_error error = b->captured == NULL ? d->dev->event.record(d->order_event, lead, false)
                                                  : tt_captured_leave(b->captured, d, lead);
    for (int i = 1; i < b->count && error == TT_DEV_OK; i++)
        if (b->ops[i].stream != lead)
            error = d->dev->event.wait(last, b->ops[i].stream, false);
    d->ordered = true;
    return error;
}

/* --- All communicators of a submission */

struct submission {
    struct comm_batch *batches;
    struct op *ops;
    int count;
    int begun; /* how many have their place in the workers' queues */
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
        bool after = last == NULL || comm->identity.id > last->identity.id ||
                     (comm->identity.id == last->identity.id && comm->rank > last->rank);
        if (after && (next == NULL || comm->identity.id < next->identity.id ||
                         (comm->identity.id == next->identity.id && comm->rank < next->rank)))
            next = comm;
    }
    return next;
}

static tutti_status set_batch(const struct submission *t, struct comm_batch *b, struct tt_comm *comm,
    const struct tt_batch *batch, struct op *ops)
{
    tutti_status status = TUTTI_OK;
    *b = (struct comm_batch){
        .comm = comm, .device = comm->device, .ops = ops, .enqueued = comm->device->enqueued
    };
    if (t->capture.active)
        status = tt_captured_create(comm, t->capture.id, &b->captured);
    else if ((b->item = tt_work_item_take(NULL)) == NULL)
        status = TUTTI_OUT_OF_MEMORY;
    int count = 0;
    for (int i = 0; i < batch->count && status == TUTTI_OK; i++) {
        if (call_of(batch, i)->comm != comm)
            continue;
        ops[count] = (struct op){ .call = *call_of(batch, i) };
        status = begin_call(b, &ops[count++]);
    }
    if (status == TUTTI_OK && b->captured == NULL && count == batch->count)
        fuse(b, count);
    for (; b->count < count && status == TUTTI_OK; b->count += status == TUTTI_OK)
        status = stage(b, &ops[b->count]);
    set_rounds(b);
    return status;
}

/* Streams are named by what is current, and events are of it. */
static tutti_status use(struct submission *t, const struct comm_batch *b)
{
    if (t->now == b->device->number)
        return TUTTI_OK;
    t->now = b->device->number;
    return told(b, b->device->dev->use(b->device->number));
}

static tutti_status begin(struct submission *t)
{
    struct tt_position position;
    tutti_status status = TUTTI_OK;
    while (t->begun < t->count && status == TUTTI_OK) {
        struct comm_batch *b = &t->batches[t->begun];
        status = b->captured != NULL ? told(b, tt_captured_retain(b->captured, t->capture.graph))
                                     : tt_work_item_submit(b->item, &position);
        t->begun += status == TUTTI_OK;
    }
    for (int i = 0; i < t->count && status == TUTTI_OK; i++) {
        status = use(t, &t->batches[i]);
        if (status == TUTTI_OK)
            status = told(&t->batches[i], join_streams(&t->batches[i]));
    }
    return status;
}

/* The first round that some communicator has not ended. */
static uint32_t current_round(const struct submission *t)
{
    uint32_t first = NO_ROUND;
    for (int i = 0; i < t->count; i++)
        first = t->batches[i].round < first ? t->batches[i].round : first;
    return first;
}

/* How many pieces of work the next step takes, roughly. */
static uint32_t count_pieces(const struct comm_batch *b)
{
    enum { WORD = 1, PACKED = 1, CUT = 8 /* a slice each way: some rectangles, and a word */ };
    uint32_t pieces = WORD;
    for (int i = 0; i < b->count; i++)
        if (b->ops[i].round == b->round)
            pieces += b->ops[i].packed ? PACKED : CUT;
    return pieces;
}

static tutti_status run_rounds(struct submission *t)
{
    tutti_status status = begin(t);
    for (uint32_t round; status == TUTTI_OK && (round = current_round(t)) != NO_ROUND;)
        for (int i = 0; i < t->count && status == TUTTI_OK; i++) {
            struct comm_batch *b = &t->batches[i];
            if (b->round != round)
                continue;
            if (b->captured == NULL)
                tt_device_throttle(b->device, count_pieces(b));
            status = use(t, b);
            if (status == TUTTI_OK)
                status = enqueue_step(b);
        }
    for (int i = 0; i < t->count && status == TUTTI_OK; i++) {
        status = use(t, &t->batches[i]);
        if (status == TUTTI_OK)
            status = told(&t->batches[i], fork_streams(&t->batches[i]));
    }
    return status;
}

static void withdraw(struct comm_batch *b)
{
    for (int i = 0; i < b->count && b->captured == NULL; i++)
        return_gate(b->device, &b->ops[i]);
    if (b->captured != NULL)
        tt_captured_drop(b->captured);
    if (b->item != NULL)
        tt_work_item_drop(b->item);
}

/* Submits all calls or none, until the first has its place in a queue: from then on a failure ends the
 * communicators. */
static tutti_status submit(struct submission *t, const struct tt_batch *batch)
{
    tutti_status status = TUTTI_OK;
    int ops = 0;
    struct tt_comm *comm = NULL;
    while (status == TUTTI_OK && (comm = next_comm(batch, comm)) != NULL) {
        struct comm_batch *b = &t->batches[t->count++];
        status = set_batch(t, b, comm, batch, t->ops + ops);
        ops += b->count;
    }
    if (status == TUTTI_OK)
        status = run_rounds(t);
    for (int i = 0; i < t->begun; i++)
        if (t->batches[i].captured != NULL)
            t->batches[i].device->enqueued = t->batches[i].enqueued;
    for (int i = t->begun; i < t->count; i++)
        if (status != TUTTI_OK)
            withdraw(&t->batches[i]);
    for (int i = 0; i < t->begun && status != TUTTI_OK; i++) {
        tt_device_fail(t->batches[i].comm, status);
        fork_streams(&t->batches[i]); /* so that it is known when the stream has passed what it got */
    }
    return status;
}

tutti_status tt_device_submit(const struct tt_batch *batch)
{
    struct op op;
    struct comm_batch comm_batch;
    struct submission submission = { .batches = &comm_batch, .ops = &op };
    const struct tt_dev *dev = call_of(batch, 0)->comm->device->dev;
    tutti_status status = tt_device_find_capture(batch, &submission.capture);
    if (status != TUTTI_OK)
        return status;
    if (batch->count > 1) {
        submission.batches = malloc((size_t)batch->count * sizeof *submission.batches);
        submission.ops = malloc((size_t)batch->count * sizeof *submission.ops);
    }
    int before = -1;
    if (submission.batches == NULL || submission.ops == NULL)
        status = tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a group of %d calls", batch->count);
    else if (dev->current(&before) != TT_DEV_OK)
        status = tt_fail(TUTTI_DEVICE_ERROR, "%s", dev->why());
    submission.now = before;
    if (status == TUTTI_OK)
        status = submit(&submission, batch);
    if (submission.now != before)
        dev->use(before);
    if (batch->count > 1) {
        free(submission.batches);
        free(submission.ops);
    }
    return status;
}
