/* SPDX-License-Identifier: BSD-3-Clause */
/* device_in_capture.c: whether the streams of a submission are being captured, all in one capture, and
 * whether its calls may be. */
#include "base/status.h"
#include "device/device.h"

static const struct tt_call *call_of(const struct tt_batch *batch, int i)
{
    return &batch->calls[i].call;
}

static bool has_rank(const struct tt_batch *batch, uint64_t id, int rank)
{
    for (int i = 0; i < batch->count; i++)
        if (call_of(batch, i)->comm->identity.id == id && call_of(batch, i)->comm->rank == rank)
            return true;
    return false;
}

/* Ranks of one process and device need each other's operands before they wait, and replays of two graphs do
 * not meet for that. */
static tutti_status check_local_peers(const struct tt_batch *batch, const struct tt_call *call)
{
    const struct tt_comm *comm = call->comm;
    for (int rank = 0; rank < comm->n; rank++) {
        if (rank == comm->rank || (tt_collectives[call->collective].p2p && call->root != rank) ||
            !tt_local_peers_share(comm, rank) || has_rank(batch, comm->identity.id, rank))
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
    if (d->dev->stream.capture(call->stream.handle, capture) != TT_DEV_OK)
        status = tt_fail(
            TUTTI_INVALID_ARGUMENT, "%s: stream: %s", tt_collectives[call->collective].name, d->dev->why());
    tt_device_leave(d, before);
    return status;
}

tutti_status tt_device_find_capture(const struct tt_batch *batch, struct tt_dev_capture *capture)
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
            status = check_local_peers(batch, call);
    }
    return status;
}
