/* SPDX-License-Identifier: BSD-3-Clause */
/* device_pairs.c: messages between two ranks of one process, device and context, without the host's memory.
 *
 *     stream 0:  ... | event 0 |                 | wait done | ready
 *     stream 1:  ... | wait 0 | copy | done | ready
 *
 * The ends of a message meet on the host. The second one to call decides: if both have called the same, and
 * the device reaches the bytes at both ends, it enqueues one copy on its own stream, behind an event of the
 * first one's, which then waits for the copy's end. The copy is the runtime's, not a kernel of rectangles:
 * that would need a counter in the device's memory for each stream that may run one at the same time, and has
 * nothing to fold. Else the message goes by the host (device.h), at both ends.
 *
 * `turn` of message k between the two, one way: 4k, no end has come; 4k + 1, one has; 4k + 2, the other one
 * decides. It is claimed: who leaves with an error marks 4k + 1 as cancelled, and so nothing is copied from
 * or to buffers that are their caller's again (a model: tests/proof). An end comes with its next message
 * when this one is decided; until then its event is not recorded anew, nor is that at the copy's end before
 * the first one waits for it.
 *
 * The worker of each end finds in `decisions` what became of its message, and, if it is copied, waits until
 * its stream has made the gate's word `ready` as if all slices were in; then it tells the gate that all are
 * done. So gates and messages count on alike, however a message went. */
#include "base/status.h"
#include "base/wait.h"
#include "device/device_local.h"

#define CANCELLED (UINT64_C(1) << 63) /* beside the turn at which it was */
enum { OPEN, ONE_HAS_COME, DECIDING, TURNS = 4, DESCRIPTION = 128 };
_Static_assert(2 * (int)TT_PAIR_RANKS <= (int)TT_DEVICE_MARKS &&
                   (int)TT_DEVICE_MARKS + 2 * (int)TT_PAIR_RANKS <= (int)TT_LOCAL_DECISIONS,
    "each copied message has a mark until its worker has looked at the decision");

static struct tt_pair *pair_of(const struct tt_comm *comm, const struct tt_call *call)
{
    const struct tt_pairs *p = tt_local_peers_pairs(comm);
    return p == NULL ? NULL
                     : atomic_load(&p->pairs[tt_device_gate(call->root, call->collective == TT_P2P_RECV)]);
}

bool tt_pair_decides(const struct tt_comm *comm, const struct tt_call *call)
{
    return pair_of(comm, call) != NULL;
}

void tt_pair_begin(struct tt_comm *comm, struct tt_local_call *message, struct tt_gate *gate)
{
    struct tt_pairs *p = tt_local_peers_pairs(comm);
    message->number = ++p->messages;
    gate->local = (struct tt_local_gate){ .decision = &p->decisions[message->number % TT_LOCAL_DECISIONS],
        .over = gate->ready,
        .call = message->number };
}

void tt_pair_return(struct tt_comm *comm)
{
    tt_local_peers_pairs(comm)->messages--;
}

/* True if the device can copy this message. Bytes that overlap are the host's, which has them in between. */
static bool can_copy(const struct tt_local_call *send, const struct tt_local_call *recv)
{
    const struct tt_call *from = send->call, *to = recv->call;
    uint64_t bytes = (uint64_t)from->count * tutti_type_bytes(from->type);
    if (from->count != to->count || from->type != to->type)
        return false;
    bool apart = (uintptr_t)from->send + bytes <= (uintptr_t)to->recv ||
                 (uintptr_t)to->recv + bytes <= (uintptr_t)from->send;
    return bytes == 0 || (apart && send->staged[TT_IN] && recv->staged[TT_OUT]);
}

/* The other end in the group that is being captured: as many of its messages with this rank come before. */
static const struct tt_call *other_end(const struct tt_batch *batch, int index)
{
    const struct tt_call *call = &batch->calls[index].call;
    int before = 0;
    for (int i = 0; i < index; i++) {
        const struct tt_call *c = &batch->calls[i].call;
        before += c->comm == call->comm && c->collective == call->collective && c->root == call->root;
    }
    for (int i = 0; i < batch->count; i++) {
        const struct tt_call *c = &batch->calls[i].call;
        if (c->comm->identity.id == call->comm->identity.id && c->comm->rank == call->root &&
            tt_collectives[c->collective].p2p && c->collective != call->collective &&
            c->root == call->comm->rank && before-- == 0)
            return c;
    }
    return NULL;
}

bool tt_pair_captures(const struct tt_batch *batch, int index)
{
    const struct tt_call *call = &batch->calls[index].call;
    const struct tt_call *other = pair_of(call->comm, call) != NULL ? other_end(batch, index) : NULL;
    if (other == NULL)
        return false;
    struct tt_local_call ends[2] = { tt_local_call_of(call), tt_local_call_of(other) };
    bool sends = call->collective == TT_P2P_SEND;
    return can_copy(&ends[!sends], &ends[sends]);
}

static tutti_status fail(const struct tt_comm *comm)
{
    return tt_fail(TUTTI_DEVICE_ERROR, "%s: rank %d, device %d: cannot enqueue: %s", comm->identity.name,
        comm->rank, comm->device->number, comm->device->dev->why());
}

static uint64_t bytes_of(const struct tt_local_call *message)
{
    return (uint64_t)message->call->count * tutti_type_bytes(message->call->type);
}

/* Enqueues the copy, by its second end. */
static enum tt_dev_error enqueue(
    const struct tt_pair *pair, const struct tt_dev *dev, const struct tt_local_call *first, void *stream)
{
    const void *from = pair->ends[0]->call->send;
    uint64_t bytes = bytes_of(first);
    if (bytes == 0)
        return TT_DEV_OK;
    enum tt_dev_error error = dev->event.wait(first->ready, stream, false);
    if (error == TT_DEV_OK)
        error = dev->copy(pair->ends[1]->call->recv, from, bytes, stream);
    return error == TT_DEV_OK ? dev->event.record(pair->done, stream, false) : error;
}

/* The host, which else serves what is no copy, cannot. */
static tutti_status refuse(const struct tt_device *d, const struct tt_call *send, const struct tt_call *recv)
{
    char ours[DESCRIPTION], other[DESCRIPTION];
    if (send->count == recv->count && send->type == recv->type)
        return tt_device_need_words(d, "send", "it overlaps with where its receiver wants it");
    tt_call_describe(send, ours, sizeof ours);
    tt_call_describe(recv, other, sizeof other);
    return tt_fail(TUTTI_MISMATCH, "%s: rank %d called %s, rank %d called %s", send->comm->identity.name,
        recv->root, ours, send->root, other);
}

/* The other end has come already. */
static tutti_status decide(struct tt_comm *comm, struct tt_pair *pair, const struct tt_local_call *message)
{
    struct tt_device *d = comm->device;
    const struct tt_local_call *first = pair->ends[message->call->collective == TT_P2P_SEND];
    tutti_status status = TUTTI_OK;
    pair->copied = can_copy(pair->ends[0], pair->ends[1]);
    if (pair->copied && enqueue(pair, d->dev, first, message->stream) != TT_DEV_OK)
        status = fail(comm);
    else if (!pair->copied && d->lacks.words != NULL)
        status = refuse(d, pair->ends[0]->call, pair->ends[1]->call);
    d->marks.enqueued += 3 * (uint64_t)pair->copied;
    atomic_store(&pair->turn, TURNS * message->index + (status == TUTTI_OK ? TURNS : DECIDING | CANCELLED));
    tt_doorbell_ring(tt_local_peers_bell(comm));
    return status;
}

/* Comes first with this message, unless the other end was quicker. The event is recorded before that may wait
 * for it. */
static enum tt_dev_error try_first(
    struct tt_pair *pair, const struct tt_dev *dev, struct tt_local_call *message)
{
    uint64_t open = TURNS * message->index;
    if (atomic_load(&pair->turn) != open)
        return TT_DEV_OK;
    enum tt_dev_error error = dev->event.record(message->ready, message->stream, false);
    if (error == TT_DEV_OK)
        message->first = atomic_compare_exchange_strong(&pair->turn, &open, open + ONE_HAS_COME);
    return error;
}

tutti_status tt_pair_arrive(struct tt_comm *comm, struct tt_local_call *message)
{
    struct tt_pairs *p = tt_local_peers_pairs(comm);
    struct tt_pair *pair = pair_of(comm, message->call);
    message->ready = p->ready;
    message->index = (atomic_load(&pair->turn) & ~CANCELLED) / TURNS;
    pair->ends[message->call->collective == TT_P2P_RECV] = message;
    if (try_first(pair, p->dev, message) != TT_DEV_OK)
        return fail(comm);
    uint64_t turn = TURNS * message->index + ONE_HAS_COME;
    if (message->first || !atomic_compare_exchange_strong(&pair->turn, &turn, turn + 1))
        return TUTTI_OK; /* or the other one has left, and who waits learns why */
    return decide(comm, pair, message);
}

static bool is_decided(const struct tt_pair *pair, const struct tt_local_call *message)
{
    return (atomic_load(&pair->turn) & ~CANCELLED) / TURNS > message->index;
}

bool tt_pair_is_decided(const struct tt_comm *comm, const struct tt_local_call *message)
{
    return is_decided(pair_of(comm, message->call), message);
}

/* The first one's stream waits for the copy. */
static enum tt_dev_error follow(
    struct tt_device *d, const struct tt_pair *pair, const struct tt_local_call *message)
{
    if (!pair->copied || !message->first || bytes_of(message) == 0)
        return TT_DEV_OK;
    d->marks.enqueued++;
    return d->dev->event.wait(pair->done, message->stream, false);
}

tutti_status tt_pair_settle(
    struct tt_comm *comm, const struct tt_local_call *message, const struct tt_gate *gate, bool *copied)
{
    struct tt_device *d = comm->device;
    struct tt_pairs *p = tt_local_peers_pairs(comm);
    const struct tt_pair *pair = pair_of(comm, message->call);
    enum tt_dev_error error = follow(d, pair, message);
    *copied = pair->copied;
    if (message->captured || error != TT_DEV_OK)
        return error == TT_DEV_OK ? TUTTI_OK : fail(comm);
    struct tt_decision *decision = &p->decisions[message->number % TT_LOCAL_DECISIONS];
    decision->by_kernel = *copied;
    decision->over = gate->base + gate->slices;
    atomic_store_explicit(&decision->call, message->number, memory_order_release);
    if (!*copied)
        return TUTTI_OK;
    d->marks.enqueued++;
    error = tt_device_tell(d, message->stream, gate->ready, gate->base + gate->slices, p->blocks_over);
    tt_device_mark(d, gate->done, gate->base + gate->slices);
    return error == TT_DEV_OK ? TUTTI_OK : fail(comm);
}

/* True if nobody decides any more. */
static bool cancel(struct tt_pair *pair)
{
    uint64_t turn = atomic_load(&pair->turn);
    if ((turn & CANCELLED) != 0)
        return true;
    return turn % TURNS != DECIDING && atomic_compare_exchange_strong(&pair->turn, &turn, turn | CANCELLED);
}

void tt_pair_leave(struct tt_comm *comm, const struct tt_local_call *message)
{
    struct tt_pair *pair = pair_of(comm, message->call);
    struct tt_wait w;
    tt_wait_begin(&w, comm->waiting.policy, NULL, 0);
    while (!is_decided(pair, message) && !cancel(pair))
        tt_wait_idle(&w);
    tt_wait_awake(&w);
    if (is_decided(pair, message))
        follow(comm->device, pair, message);
}
