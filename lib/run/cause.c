/* SPDX-License-Identifier: BSD-3-Clause */
/* cause.c: how a communicator ends while calls run: the first cause on any rank is every rank's. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "run/comm.h"
#include "observe/recorder.h"

void tt_cause_say(struct tt_cause *cause, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cause->text, sizeof cause->text, format, arguments);
    va_end(arguments);
}

tutti_status tt_comm_check(struct tt_comm *comm)
{
    struct tt_cause cause;
    if (!comm->endpoint->control->cause(comm->endpoint, &cause))
        return TUTTI_OK;
    if (atomic_exchange(&comm->status, cause.status) == TUTTI_OK)
        tt_recorder_fail(comm->recorder, &cause);
    tt_set_last_error(cause.text);
    return (tutti_status)cause.status;
}

/* "; rank 0 is rank 2 of the world, rank 1 is 3": of who found it, and whom it concerns. */
static void name_in_world(const struct tt_comm *comm, struct tt_cause *cause)
{
    size_t length = strlen(cause->text), room = sizeof cause->text - length;
    bool found = cause->rank >= 0 && cause->rank < comm->n;
    bool concerned = cause->peer >= 0 && cause->peer < comm->n && cause->peer != cause->rank;
    if (comm->identity.world == NULL || !found)
        return;
    if (concerned)
        snprintf(cause->text + length, room, "; rank %d is rank %d of the world, rank %d is %d", cause->rank,
            comm->identity.world[cause->rank], cause->peer, comm->identity.world[cause->peer]);
    else
        snprintf(cause->text + length, room, "; rank %d is rank %d of the world", cause->rank,
            comm->identity.world[cause->rank]);
}

tutti_status tt_comm_fail(struct tt_comm *comm, const struct tt_cause *found)
{
    struct tt_cause named = *found, *cause = &named;
    name_in_world(comm, cause);
    if (comm->endpoint->control->abort(comm->endpoint, cause))
        tt_log(TT_LOG_ERROR, "%s", cause->text);
    tutti_status status = tt_comm_check(comm);
    return status != TUTTI_OK ? status : (tutti_status)cause->status;
}

void tt_comm_fail_local(struct tt_comm *comm, const struct tt_cause *found)
{
    struct tt_cause cause = *found;
    name_in_world(comm, &cause);
    if (comm->endpoint->control->abort_local == NULL)
        tt_comm_fail(comm, found);
    else if (comm->endpoint->control->abort_local(comm->endpoint, &cause))
        tt_log(TT_LOG_ERROR, "%s", cause.text);
}

tutti_status tt_comm_serve(struct tt_comm *comm)
{
    int answer = comm->waiting.on_wait(comm->waiting.on_wait_context);
    if (answer == 0)
        return TUTTI_OK;
    struct tt_cause cause = { .status = TUTTI_ABORTED, .rank = comm->rank, .peer = TT_NONE };
    cause.sequence = comm->numbers.sequence;
    snprintf(cause.operation, sizeof cause.operation, "on_wait");
    tt_cause_say(&cause, "%s, rank %d: a call waited, and the on_wait of this communicator answered %d",
        comm->identity.name, comm->rank, answer);
    return tt_comm_fail(comm, &cause);
}
