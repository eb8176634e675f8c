/* SPDX-License-Identifier: BSD-3-Clause */
/* ends.c: the public functions by which a rank comes to an end with a communicator: it waits for its calls,
 * finalizes, aborts, destroys. */
#include <stdio.h>

#include "api/group.h"
#include "base/handle.h"
#include "base/status.h"
#include "comm/async_init.h"
#include "comm/lifecycle.h"
#include "comm/release.h"
#include "device/device.h"

static tutti_status check_time(const char *function, const char *name, int64_t ms)
{
    return ms >= -1 ? TUTTI_OK
                    : tt_fail(TUTTI_INVALID_ARGUMENT,
                          "%s: %s is %lld; legal: -1 (no bound), 0 (not at all), or more", function, name,
                          (long long)ms);
}

tutti_status tutti_comm_flush(tutti_comm *comm, int64_t timeout_ms)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    tutti_status status = check_time("flush", "timeout_ms", timeout_ms);
    if (status == TUTTI_OK && tt_group_open())
        status = tt_group_refuse("flush");
    if (status != TUTTI_OK)
        return status;
    bool over = tt_comm_is_over(c, timeout_ms);
    status = tt_comm_check(c);
    return status == TUTTI_OK && !over ? TUTTI_IN_PROGRESS : status;
}

static tutti_status finalize_later(struct tt_later *later)
{
    return tutti_comm_finalize(later->comm);
}

static void set_finalized(struct tt_comm *c)
{
    c->finalized = true;
    c->known = false;
}

tutti_status tutti_comm_finalize(tutti_comm *comm)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_group_note(tt_handle_fault(comm));
    if (c->streams.finalizes.kind != TUTTI_STREAM_NONE)
        return tutti_comm_finalize_within(comm, -1);
    if (tt_group_open())
        return tt_group_add_later(
            &(struct tt_later){ .comm = comm, .run = finalize_later, .collective = true });
    tutti_status status = tutti_barrier(comm, tutti_no_stream());
    if (status == TUTTI_OK)
        set_finalized(c);
    return status;
}

/* The barrier that finalizes it is queued on a stream of its own, so that a caller need not wait for it. */
static tutti_status begin_to_finalize(struct tt_comm *c, tutti_comm *comm)
{
    tutti_stream stream;
    if (tt_group_open())
        return tt_comm_refuse(c, tt_group_refuse("finalize_within"));
    tutti_status status = tutti_stream_create(&stream);
    if (status != TUTTI_OK)
        return status;
    status = tutti_barrier(comm, stream);
    if (status != TUTTI_OK) {
        tutti_stream_destroy(stream);
        return status;
    }
    c->streams.finalizes = stream;
    c->streams.finalized = c->streams.last;
    set_finalized(c);
    return TUTTI_OK;
}

tutti_status tutti_comm_finalize_within(tutti_comm *comm, int64_t timeout_ms)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    tutti_status status = check_time("finalize_within", "timeout_ms", timeout_ms);
    if (status == TUTTI_OK && c->finalized && c->streams.finalizes.kind == TUTTI_STREAM_NONE)
        return tt_comm_check(c); /* by tutti_comm_finalize */
    if (status == TUTTI_OK && c->streams.finalizes.kind == TUTTI_STREAM_NONE)
        status = begin_to_finalize(c, comm);
    if (status != TUTTI_OK)
        return status;
    bool over = tt_position_await(c->streams.finalized, c, timeout_ms);
    status = tt_comm_check(c);
    return status == TUTTI_OK && !over ? TUTTI_IN_PROGRESS : status;
}

static struct tt_cause abortion(const struct tt_comm *c, const char *operation, const char *text)
{
    struct tt_cause cause = { .status = TUTTI_ABORTED, .rank = c->rank, .peer = TT_NONE };
    snprintf(cause.operation, sizeof cause.operation, "%s", operation);
    tt_cause_say(&cause, "%s: %s by rank %d", c->identity.name, text, c->rank);
    return cause;
}

tutti_status tutti_comm_abort(tutti_comm *comm)
{
    if (tt_async_init_abort(comm))
        return TUTTI_OK;
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    struct tt_cause cause = abortion(c, "abort", "aborted");
    tt_comm_fail(c, &cause);
    return TUTTI_OK;
}

tutti_status tutti_comm_abort_local(tutti_comm *comm)
{
    if (tt_async_init_abort(comm))
        return TUTTI_OK;
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    struct tt_cause cause = abortion(c, "abort_local", "aborted");
    if (!tt_device_goes_alone(c))
        tt_comm_fail(c, &cause);
    else
        tt_comm_fail_local(c, &cause);
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
    if (!flushed) {
        struct tt_cause cause = abortion(c, "destroy", "destroyed, with calls in streams,");
        tt_comm_fail(c, &cause);
    }
    tt_comm_let_go(c);
    return TUTTI_OK;
}

tutti_status tutti_comm_release(tutti_comm *comm, int64_t linger_ms)
{
    tutti_status status = check_time("release", "linger_ms", linger_ms);
    if (status == TUTTI_OK && tt_group_open())
        status = tt_group_refuse("release");
    if (status != TUTTI_OK || tt_async_init_destroy(comm))
        return status;
    struct tt_comm *c = tt_comm_find(comm);
    return c != NULL ? tt_release(c, linger_ms) : tt_handle_fault(comm);
}
