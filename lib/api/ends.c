/* SPDX-License-Identifier: BSD-3-Clause */
/* ends.c: the public functions that end a communicator. */
#include <stdio.h>

#include "api/group.h"
#include "base/handle.h"
#include "base/status.h"
#include "comm/async_init.h"
#include "comm/lifecycle.h"
#include "device/device.h"

tutti_status tutti_comm_finalize(tutti_comm *comm)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    if (tt_group_open())
        return tt_comm_refuse(c, tt_group_refuse("finalize"));
    tutti_status status = tutti_barrier(comm, tutti_no_stream());
    if (status == TUTTI_OK) {
        c->finalized = true;
        c->known = false;
    }
    return status;
}

static void end(struct tt_comm *c, const char *operation, const char *text)
{
    struct tt_cause cause = { .status = TUTTI_ABORTED, .rank = c->rank, .peer = TT_NONE };
    snprintf(cause.operation, sizeof cause.operation, "%s", operation);
    tt_cause_say(&cause, "%s: %s by rank %d", c->identity.name, text, c->rank);
    tt_comm_fail(c, &cause);
}

tutti_status tutti_comm_abort(tutti_comm *comm)
{
    if (tt_async_init_abort(comm))
        return TUTTI_OK;
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    end(c, "abort", "aborted");
    return TUTTI_OK;
}

tutti_status tutti_comm_destroy(tutti_comm *comm)
{
    if (tt_group_open())
        return tt_group_refuse("destroy");
    if (tt_async_init_destroy(comm))
        return TUTTI_OK;
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    bool busy = atomic_load(&c->streams.queued) > 0 || (c->device != NULL && tt_replays_run(c->device));
    bool flushed = !busy || (c->device != NULL && tt_device_flush(c)); /* others may abort it meanwhile */
    tt_comm_take(comm);
    if (!flushed)
        end(c, "destroy", "destroyed, with calls in streams,");
    tt_comm_let_go(c);
    return TUTTI_OK;
}
