/* SPDX-License-Identifier: BSD-3-Clause */
/* device_submit.c: calls on a device's stream, enqueued.
 *
 * A submission is a batch of calls. The calls of one communicator first take their place in its worker's
 * queue. Then the host enqueues the stream's part, round by round. A collective is a round of its own. The
 * k-th messages of all peers and directions of a group are one round, since the peers' k-th ones are, too,
 * wherever they stand in their groups. In a round the operands of slice z are enqueued before the results of
 * slice z - 1; so the stream waits for nothing that needs what stands behind it, here or at a peer.
 *
 * Who sends a message that the receiver's kernel fetches (device_led.h) waits for what stands behind a wait
 * there. So in each step come the operands of all communicators, then what is fetched, then those waits.
 *
 * Several communicators take turns, step by step, and none begins a round before all have ended the last one,
 * since ranks may cut a call into different numbers of slices. So a wait for slice z of round w needs only
 * what all ranks have enqueued before their waits for slice z of round w, on any communicator.
 *
 * Small collectives of a submission share gates, and so rounds (device_fuse.c). Ranks may fuse differently:
 * of one communicator, each wait then needs operands of that only, and of earlier calls. Of several, ranks
 * that differ could wait for each other in a circle; so there all calls of each communicator share one gate,
 * or none do: then a rank's operands of the whole submission come before its first wait, and nobody waits for
 * it in vain.
 *
 * While the streams are being captured, the same work becomes a part of a graph, and the worker gets the
 * calls when that is replayed (device_capture.c). */
#include <stdlib.h>

#include "base/status.h"
#include "device/device_led.h"

static bool is_p2p(const struct tt_staged *op)
{
    return tt_collectives[op->call.collective].p2p;
}

static tutti_status told(const struct tt_comm_batch *b, enum tt_dev_error error)
{
    if (error == TT_DEV_OK)
        return TUTTI_OK;
    return tt_fail(TUTTI_DEVICE_ERROR, "%s: rank %d, device %d: cannot enqueue: %s", b->comm->identity.name,
        b->comm->rank, b->device->number, b->device->dev->why());
}

/* The ranks of this process decide how they serve a collective, which is a round of its own: all arrive, and
 * then each awaits what is decided. */
static tutti_status decide(struct tt_comm_batch *b, struct tt_staged *op)
{
    struct tt_device *d = b->device;
    bool by_kernel = false;
    if (op->way == TT_UNDECIDED) {
        op->way = TT_ARRIVED;
        op->local.stream = b->ops[0].stream;
        return tt_local_arrive(b->comm, &op->local);
    }
    tutti_status status = tt_local_await(b->comm, &op->local, &by_kernel);
    op->way = by_kernel ? TT_BY_KERNEL : TT_BY_HOST;
    if (by_kernel && b->captured == NULL) {
        d->marks.enqueued++;
        tt_device_mark(d, op->staging.gate.local.looked, (uint32_t)op->local.number);
    }
    return status;
}

/* A slice that is led takes two steps: the operands of all communicators come before what waits. */
static tutti_status enqueue_led_step(struct tt_comm_batch *b, struct tt_staged *op)
{
    uint32_t step = b->slice++;
    if (b->slice == op->staging.gate.slices) {
        b->slice = 0;
        tt_stage_next_round(b);
    }
    return step % 2 == 0 ? tt_led_enqueue_operands(b, op, step / 2) : tt_led_enqueue_results(b, op, step / 2);
}

/* --- Messages of a round between ranks of this process and device */

/* How many the round has that are not decided on. */
static uint32_t count_undecided(const struct tt_comm_batch *b)
{
    uint32_t count = 0;
    for (int i = b->begin; i < b->end; i++)
        count += b->turns[i]->way == TT_UNDECIDED && is_p2p(b->turns[i]);
    return count;
}

/* Enqueues the operands of the slices up to this one, of a call that the host serves. */
static tutti_status put_in(struct tt_comm_batch *b, struct tt_staged *op, uint32_t end)
{
    tutti_status status = op->in == 0 ? tt_stage_lay(b, op) : TUTTI_OK;
    enum tt_dev_error error = TT_DEV_OK;
    while (op->in < end && op->in < op->laid.out.slices && status == TUTTI_OK && error == TT_DEV_OK)
        error = tt_slice_operands(b, op, op->in++);
    return status == TUTTI_OK ? told(b, error) : status;
}

/* A message is decided on: what of it can be enqueued now, is. If the host serves it, that are the operands
 * of all slices that may be under way: some other rank may need them before it calls what this one waits
 * for. */
static tutti_status settle(struct tt_comm_batch *b, struct tt_staged *op)
{
    bool copied;
    const struct tt_gate *gate = &op->staging.gate;
    tutti_status status = tt_pair_settle(b->comm, &op->local, gate, &copied);
    if (status != TUTTI_OK)
        return status;
    b->arrived--;
    op->way = copied ? TT_BY_KERNEL : TT_BY_HOST;
    if (!copied)
        return put_in(b, op, TT_WINDOW);
    if (b->captured == NULL)
        tt_local_peers_tell(b->comm, &op->rendezvous, gate->slices);
    return TUTTI_OK;
}

/* This rank has called all messages of the round. Those whose other end has, too, are decided on. */
static tutti_status arrive(struct tt_comm_batch *b)
{
    tutti_status status = TUTTI_OK;
    for (int i = b->begin; i < b->end && status == TUTTI_OK; i++) {
        struct tt_staged *op = b->turns[i];
        if (op->way != TT_UNDECIDED || !is_p2p(op))
            continue;
        op->way = TT_ARRIVED;
        op->local.stream = b->ops[0].stream;
        b->arrived++;
        status = tt_pair_arrive(b->comm, &op->local);
        if (status == TUTTI_OK && tt_pair_is_decided(b->comm, &op->local))
            status = settle(b, op);
    }
    return status;
}

/* Settles what other ranks have decided on meanwhile. */
static tutti_status settle_decided(struct tt_comm_batch *b)
{
    tutti_status status = TUTTI_OK;
    for (int i = b->begin; i < b->end && status == TUTTI_OK && b->arrived > 0; i++) {
        struct tt_staged *op = b->turns[i];
        if (op->way == TT_ARRIVED && tt_pair_is_decided(b->comm, &op->local))
            status = settle(b, op);
    }
    return status;
}

/* Enqueues the operands of the round's next slice and the results of the one before. */
static tutti_status enqueue_step(struct tt_comm_batch *b)
{
    bool more = false;
    uint32_t ahead = b->slice == 0 && count_undecided(b) > 0 ? TT_WINDOW : 1;
    tutti_status status = TUTTI_OK;
    struct tt_staged *first = b->turns[b->begin];
    b->fetched.begin = b->begin;
    b->fetched.end = b->end;
    b->fetched.slice = b->slice;
    if (first->way == TT_LED && !is_p2p(first))
        return enqueue_led_step(b, first);
    if (first->way == TT_SPIN)
        return tt_stage_spin(b);
    if (first->way != TT_BY_HOST && !is_p2p(first)) {
        status = decide(b, first);
        if (first->way == TT_BY_KERNEL)
            tt_stage_next_round(b);
        if (status != TUTTI_OK || first->way != TT_BY_HOST)
            return status;
    }
    for (int i = b->begin; i < b->end && status == TUTTI_OK; i++)
        if (b->turns[i]->way == TT_BY_HOST)
            status = put_in(b, b->turns[i], b->slice + ahead);
    if (status == TUTTI_OK)
        status = tt_led_enqueue_offers(b, &more);
    if (status == TUTTI_OK && b->slice == 0)
        status = arrive(b);
    for (int i = b->begin; i < b->end && status == TUTTI_OK; i++) {
        struct tt_staged *op = b->turns[i];
        if (op->way == TT_BY_KERNEL || op->way == TT_LED)
            continue;
        if (b->slice > 0 && b->slice <= op->laid.out.slices) {
            if (b->captured == NULL && !op->joins)
                status = tt_local_peers_await(b->comm, &tt_stage_last(op)->rendezvous, b->slice);
            if (status == TUTTI_OK)
                status = told(b, tt_slice_results(b, op, b->slice - 1));
        }
        more = more || b->slice < op->laid.out.slices || op->way == TT_ARRIVED;
    }
    if (status != TUTTI_OK)
        return status;
    b->slice = more ? b->slice + 1 : 0;
    if (!more)
        tt_stage_next_round(b);
    return TUTTI_OK;
}

/* Makes the first stream, which gets all the work, wait for the other streams and for the communicator's last
 * call. */
static enum tt_dev_error join_streams(const struct tt_comm_batch *b)
{
    struct tt_device *d = b->device;
    void *lead = b->ops[0].stream;
    enum tt_dev_error error = TT_DEV_OK;
    d->marks.enqueued += tt_stage_count_events(b);
    if (b->captured == NULL && d->ordered) /* on any stream: one that is gone may have had the same handle */
        error = d->dev->event.wait(d->order_event, lead, false);
    for (int i = 1; i < b->count && error == TT_DEV_OK; i++) {
        if (!tt_stage_has_new_stream(b, i))
            continue;
        error = d->dev->event.record(d->fork_event, b->ops[i].stream, false);
        if (error == TT_DEV_OK)
            error = d->dev->event.wait(d->fork_event, lead, false);
    }
    if (b->captured != NULL && error == TT_DEV_OK)
        error = tt_captured_enter(b->captured, d, lead);
    return error;
}

static enum tt_dev_error fork_streams(struct tt_comm_batch *b)
{
    struct tt_device *d = b->device;
    d->marks.enqueued += tt_stage_count_events(b);
    void *lead = b->ops[0].stream, *last = b->captured == NULL ? d->order_event : d->capture.last;
    enum tt_dev_error error = tt_slice_join(b);
    if (error == TT_DEV_OK)
        error = b->captured == NULL ? d->dev->event.record(d->order_event, lead, false)
                                    : tt_captured_leave(b->captured, d, lead);
    for (int i = 1; i < b->count && error == TT_DEV_OK; i++)
        if (tt_stage_has_new_stream(b, i))
            error = d->dev->event.wait(last, b->ops[i].stream, false);
    d->ordered = true;
    return error;
}

/* --- All communicators of a submission */

struct submission {
    struct tt_comm_batch *batches;
    struct tt_staged *ops, **turns;
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

/* Streams are named by what is current, and events are of it. */
static tutti_status use(struct submission *t, const struct tt_comm_batch *b)
{
    if (t->now == b->device->number)
        return TUTTI_OK;
    t->now = b->device->number;
    return told(b, b->device->dev->use(b->device->number));
}

static tutti_status begin_batch(struct submission *t, struct tt_comm_batch *b, struct tt_comm *comm,
    const struct tt_batch *batch, int from)
{
    struct tt_staged *ops = t->ops + from;
    *b = (struct tt_comm_batch){ .comm = comm,
        .device = comm->device,
        .ops = ops,
        .turns = t->turns + from,
        .enqueued = comm->device->marks.enqueued };
    tutti_status status = use(t, b);
    if (status != TUTTI_OK)
        return status;
    if (t->capture.active)
        status = tt_captured_create(comm, t->capture.id, &b->captured);
    else if ((b->item = tt_work_item_take(NULL)) == NULL)
        status = TUTTI_OUT_OF_MEMORY;
    for (int i = 0; i < batch->count && status == TUTTI_OK; i++) {
        if (call_of(batch, i)->comm != comm)
            continue;
        ops[b->calls] = (struct tt_staged){ .call = *call_of(batch, i) };
        bool captures = t->capture.active && (tt_local_captures(batch, i) || tt_pair_captures(batch, i));
        if (t->capture.active && !captures && comm->device->lacks.words != NULL)
            status = tt_device_need_words(comm->device, tt_collectives[call_of(batch, i)->collective].name,
                "it is captured, and its group does not have the same call of all its ranks");
        else
            status = tt_stage_begin(b, &ops[b->calls++], captures);
    }
    return status;
}

/* Finds which calls share gates, or kernels. */
static void fuse(struct submission *t)
{
    bool all = true;
    if (t->count == 1)
        tt_stage_list(&t->batches[0]);
    for (int i = 0; i < t->count; i++) {
        struct tt_comm_batch *b = &t->batches[i];
        if (b->captured == NULL && !tt_local_decides(b->comm))
            tt_stage_fuse(b);
        all = all && tt_stage_is_one_gate(b);
    }
    for (int i = 0; i < t->count && t->count > 1 && !all; i++)
        tt_stage_unfuse(&t->batches[i]);
}

static tutti_status stage_batch(struct tt_comm_batch *b)
{
    tutti_status status = TUTTI_OK;
    if (b->captured == NULL)
        tt_stage_set_duplex(b);
    for (; b->count < b->calls && status == TUTTI_OK; b->count += status == TUTTI_OK)
        status = tt_stage(b, &b->ops[b->count]);
    tt_stage_set_rounds(b);
    return status;
}

static tutti_status begin(struct submission *t)
{
    tutti_status status = TUTTI_OK;
    while (t->begun < t->count && status == TUTTI_OK) {
        struct tt_comm_batch *b = &t->batches[t->begun];
        status = b->captured != NULL ? told(b, tt_captured_retain(b->captured, t->capture.graph))
                                     : tt_work_item_submit(b->item, &b->position);
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
    uint32_t first = TT_NO_ROUND;
    for (int i = 0; i < t->count; i++)
        first = t->batches[i].round < first ? t->batches[i].round : first;
    return first;
}

/* How many pieces of work the next step takes, roughly. */
static uint32_t count_pieces(const struct tt_comm_batch *b)
{
    enum { WORD = 1, PACKED = 1, CUT = 8 /* a slice each way: some rectangles, and a word */, DUPLEX = 4 };
    uint32_t pieces = WORD;
    if (tt_fuse_has_many(b))
        return pieces + tt_fuse_launches(b);
    if (b->turns[b->begin]->way == TT_SPIN && b->end - b->begin > 1)
        return pieces + 1;
    for (int i = b->begin; i < b->end; i++)
        pieces += (b->turns[i]->packed && b->turns[i]->way != TT_LED ? PACKED : CUT) +
                  (b->turns[i]->duplex ? DUPLEX : 0);
    return pieces;
}

static int count_arrived(const struct submission *t)
{
    int arrived = 0;
    for (int i = 0; i < t->count; i++)
        arrived += t->batches[i].arrived;
    return arrived;
}

/* Settles what is decided, of all communicators; fails if one of them has. */
static tutti_status settle_all(struct submission *t)
{
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < t->count && status == TUTTI_OK; i++) {
        struct tt_comm_batch *b = &t->batches[i];
        if (b->arrived == 0)
            continue;
        status = use(t, b);
        if (status == TUTTI_OK)
            status = settle_decided(b);
        if (status == TUTTI_OK && b->arrived > 0)
            status = tt_comm_check(b->comm);
    }
    return status;
}

/* Waits until the messages of this round are decided on, by the ranks at their other ends. */
static tutti_status await_messages(struct submission *t)
{
    struct tt_doorbell *bells[TT_WAIT_BELLS];
    int n = 0;
    struct tt_wait w;
    tutti_status status = settle_all(t);
    if (status != TUTTI_OK || count_arrived(t) == 0)
        return status;
    for (int i = 0; i < t->count && n < TT_WAIT_BELLS; i++)
        if (t->batches[i].arrived > 0)
            bells[n++] = tt_local_peers_bell(t->batches[i].comm);
    tt_wait_begin(&w, t->batches[0].comm->waiting.policy, bells, n);
    tt_wait_look(&w, t->count > TT_WAIT_BELLS);
    while (status == TUTTI_OK && count_arrived(t) > 0) {
        tt_wait_idle(&w);
        status = settle_all(t);
    }
    for (int i = 0; i < n && status != TUTTI_OK; i++)
        tt_doorbell_ring_always(bells[i]); /* this wait ends for another reason than a ring */
    tt_wait_awake(&w);
    return status;
}

/* What comes after the operands of a step, of messages that kernels fetch: on all communicators. */
static tutti_status fetch_all(struct submission *t)
{
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 2 * t->count && status == TUTTI_OK; i++) {
        struct tt_comm_batch *b = &t->batches[i % t->count];
        status = use(t, b);
        if (status == TUTTI_OK)
            status = tt_led_enqueue_fetches(b, i < t->count);
    }
    return status;
}

static tutti_status run_rounds(struct submission *t)
{
    tutti_status status = begin(t);
    for (uint32_t round; status == TUTTI_OK && (round = current_round(t)) != TT_NO_ROUND;) {
        for (int i = 0; i < t->count && status == TUTTI_OK; i++) {
            struct tt_comm_batch *b = &t->batches[i];
            if (b->round != round)
                continue;
            if (b->captured == NULL)
                tt_device_throttle(b->device, count_pieces(b), count_undecided(b));
            status = use(t, b);
            if (status == TUTTI_OK)
                status = enqueue_step(b);
        }
        if (status == TUTTI_OK)
            status = fetch_all(t);
        if (status == TUTTI_OK)
            status = await_messages(t);
    }
    for (int i = 0; i < t->count && status == TUTTI_OK; i++) {
        tt_stage_count_on(&t->batches[i]);
        status = use(t, &t->batches[i]);
        if (status == TUTTI_OK)
            status = told(&t->batches[i], fork_streams(&t->batches[i]));
    }
    return status;
}

static void withdraw(struct tt_comm_batch *b)
{
    for (int i = 0; i < b->count; i++)
        tt_stage_return(b, &b->ops[i]);
    if (b->captured != NULL)
        tt_captured_drop(b->captured);
    if (b->item != NULL)
        tt_work_item_drop(b->item);
}

/* Others may still be about to decide on calls of this rank, which has failed, or wait for its kernels. */
static void leave(struct tt_comm_batch *b)
{
    bool by_kernel;
    for (int i = 0; i < b->count; i++) {
        if (b->ops[i].way == TT_LED && b->captured == NULL)
            tt_led_give_up(&b->ops[i]);
        if (b->ops[i].way != TT_ARRIVED)
            continue;
        if (is_p2p(&b->ops[i]))
            tt_pair_leave(b->comm, &b->ops[i].local);
        else
            tt_local_await(b->comm, &b->ops[i].local, &by_kernel);
    }
}

/* Submits all calls or none, until the first has its place in a queue: from then on a failure ends the
 * communicators. */
static tutti_status submit(struct submission *t, const struct tt_batch *batch)
{
    tutti_status status = TUTTI_OK;
    int ops = 0;
    struct tt_comm *comm = NULL;
    while (status == TUTTI_OK && (comm = next_comm(batch, comm)) != NULL) {
        struct tt_comm_batch *b = &t->batches[t->count++];
        status = begin_batch(t, b, comm, batch, ops);
        ops += b->calls;
    }
    if (status == TUTTI_OK)
        fuse(t);
    for (int i = 0; i < t->count && status == TUTTI_OK; i++)
        status = stage_batch(&t->batches[i]);
    if (status == TUTTI_OK)
        status = run_rounds(t);
    for (int i = 0; i < t->begun; i++)
        if (t->batches[i].captured != NULL)
            t->batches[i].device->marks.enqueued = t->batches[i].enqueued;
    for (int i = t->begun; i < t->count; i++)
        if (status != TUTTI_OK)
            withdraw(&t->batches[i]);
    for (int i = 0; i < t->begun && status != TUTTI_OK; i++) {
        tt_device_fail(t->batches[i].comm, status);
        use(t, &t->batches[i]);
        leave(&t->batches[i]);
        fork_streams(&t->batches[i]); /* so that it is known when the stream has passed what it got */
    }
    for (int i = 0; i < t->begun && status != TUTTI_OK; i++)
        tt_position_wait(t->batches[i].position, -1); /* what the stream does not wait for has ended, too */
    return status;
}

static tutti_status submit_here(const struct tt_batch *batch)
{
    struct tt_staged op, *turn;
    struct tt_comm_batch comm_batch;
    struct submission submission = { .batches = &comm_batch, .ops = &op, .turns = &turn };
    const struct tt_dev *dev = call_of(batch, 0)->comm->device->dev;
    tutti_status status = tt_device_find_capture(batch, &submission.capture);
    if (status != TUTTI_OK)
        return status;
    if (batch->count > 1) {
        submission.batches = malloc((size_t)batch->count * sizeof *submission.batches);
        submission.ops = malloc((size_t)batch->count * sizeof *submission.ops);
        submission.turns = malloc((size_t)batch->count * sizeof *submission.turns);
    }
    int before = -1;
    if (submission.batches == NULL || submission.ops == NULL || submission.turns == NULL)
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
        free(submission.turns);
    }
    return status;
}

tutti_status tt_device_submit(const struct tt_batch *batch)
{
    const struct tt_dev *dev = call_of(batch, 0)->comm->device->dev;
    dev->range.begin(batch->count > 1 ? "group" : tt_collectives[call_of(batch, 0)->collective].name);
    tutti_status status = submit_here(batch);
    dev->range.end();
    return status;
}
