/* SPDX-License-Identifier: BSD-3-Clause */
/* program.c: groups that are kept, to be started many times.
 *
 * Each call owns a prepared call, made when the group is kept: the algorithm chosen, the schedule and the
 * operation built and bound, TMP reserved. A start only sets addresses and numbers: TMP may have moved since,
 * and numbers are new each time. Items to queue it are reserved as well, as many as one start needs. */
#include <stdlib.h>

#include "base/status.h"
#include "device/device.h"
#include "api/group.h"
#include "base/handle.h"
#include "comm/lifecycle.h"
#include "observe/recorder.h"
#include "run/traffic.h"

struct owner { /* of a call's communicator, which may be destroyed before the program */
    tutti_comm *handle;
    uint64_t serial;
};

struct tt_program {
    struct tt_batch batch;
    struct owner *owners; /* one per call */
    int queued; /* calls with a stream */
    struct tt_work_item *idle; /* to queue it */
    struct tt_position *last; /* one per call: of the last start, on its stream */
};

static void free_program(struct tt_program *p)
{
    for (int i = 0; i < p->batch.count; i++)
        tt_call_release(&p->batch.calls[i].call);
    tt_batch_free(&p->batch);
    tt_work_item_free_all(&p->idle);
    free(p->owners);
    free(p->last);
    free(p);
}

/* Counts the streams that the calls have. */
static int count_streams(const struct tt_batch *batch)
{
    int streams = 0;
    for (int i = 0; i < batch->count; i++) {
        const void *handle = batch->calls[i].call.stream.handle;
        bool known = batch->calls[i].call.stream.kind == TUTTI_STREAM_NONE;
        for (int k = 0; k < i && !known; k++)
            known = batch->calls[k].call.stream.handle == handle;
        streams += !known;
    }
    return streams;
}

/* Takes the calls of the item and binds them. Calls that are queued on their communicators may use TMP, so
 * these must be over. */
static tutti_status bind_calls(struct tt_program *p, struct tt_work_item *item)
{
    tutti_status status = TUTTI_OK;
    int count = item->own.count;
    p->owners = malloc(((size_t)count + 1) * sizeof *p->owners);
    p->last = calloc((size_t)count + 1, sizeof *p->last);
    if (p->owners == NULL || p->last == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a program of %d calls", count);
    for (int i = 0; i < count && status == TUTTI_OK; i++)
        status = tt_comm_turn(item->own.calls[i].call.comm);
    if (status != TUTTI_OK)
        return status;
    for (int i = 0; i < count; i++) /* none of them runs now; on devices' streams they have none yet */
        if (item->own.calls[i].call.entry != NULL)
            tt_entry_drop(item->own.calls[i].call.entry);
    p->batch = item->own;
    item->own = (struct tt_batch){ 0 };
    for (int i = 0; i < count && status == TUTTI_OK; i++) {
        struct tt_call *call = &p->batch.calls[i].call;
        p->owners[i] = (struct owner){ call->comm->handle, call->comm->identity.serial };
        p->queued += call->stream.kind != TUTTI_STREAM_NONE;
        status = tt_call_own(call);
        if (status == TUTTI_OK)
            status = tt_call_prepare(call);
    }
    return status == TUTTI_OK ? tt_work_item_reserve(&p->idle, count_streams(&p->batch), count) : status;
}

tutti_status tutti_group_keep(tutti_program **program)
{
    struct tt_work_item *item;
    void *handle;
    tutti_status status = tt_group_take(&item);
    if (status != TUTTI_OK)
        return status;
    struct tt_program *p = calloc(1, sizeof *p);
    if (p == NULL)
        status = tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a program");
    else if (program == NULL)
        status = tt_fail(TUTTI_INVALID_ARGUMENT, "group_keep: program is NULL");
    if (status == TUTTI_OK)
        status = bind_calls(p, item);
    if (status == TUTTI_OK)
        status = tt_handle_create(TT_HANDLE_PROGRAM, p, &handle);
    tt_work_item_drop(item);
    if (status == TUTTI_OK)
        *program = handle;
    else if (p != NULL)
        free_program(p);
    return status;
}

static tutti_status check_owner(const struct tt_program *p, int i, const char *function)
{
    const struct tt_comm *comm = tt_comm_find(p->owners[i].handle);
    if (comm != NULL && comm->identity.serial == p->owners[i].serial)
        return TUTTI_OK;
    return tt_fail(TUTTI_INVALID_USAGE, "%s: the communicator of call %d, %s, was destroyed", function, i,
        tt_collectives[p->batch.calls[i].call.collective].name);
}

tutti_status tutti_program_traffic(tutti_program *program, tutti_traffic *traffic)
{
    tutti_status status = tt_traffic_check(traffic, "program_traffic");
    if (status != TUTTI_OK)
        return status;
    struct tt_program *p = tt_handle_find(TT_HANDLE_PROGRAM, program);
    if (p == NULL)
        return tt_handle_fault(program);
    tutti_traffic sum = { .calls = (uint64_t)p->batch.count };
    for (int i = 0; i < p->batch.count; i++) {
        const struct tt_call *call = &p->batch.calls[i].call;
        status = check_owner(p, i, "program_traffic");
        if (status != TUTTI_OK)
            return status;
        tt_comm_turn(call->comm);
        struct tt_call_traffic cost = call->prepared->op.observed.cost;
        sum.called_bytes += cost.called, sum.sent_bytes += cost.sent, sum.received_bytes += cost.received;
    }
    tt_traffic_give(traffic, &sum);
    return TUTTI_OK;
}

static tutti_status check_call(const struct tt_program *p, int i)
{
    const struct tt_call *call = &p->batch.calls[i].call;
    const char *name = tt_collectives[call->collective].name;
    tutti_status status = check_owner(p, i, "program_start");
    if (status != TUTTI_OK)
        return status;
    const struct tt_comm *comm = call->comm;
    status = tt_comm_check(call->comm);
    if (status == TUTTI_OK && comm->finalized)
        status = tt_fail(
            TUTTI_INVALID_USAGE, "program_start: the communicator of call %d, %s, is finalized", i, name);
    if (status == TUTTI_OK && comm->device != NULL)
        status = tt_device_check_kept(call);
    return status;
}

/* Starts a program whose calls have no streams, on this thread. */
static tutti_status start_here(struct tt_program *p)
{
    for (int i = 0; i < p->batch.count; i++) {
        tutti_status status = tt_comm_turn(p->batch.calls[i].call.comm);
        if (status != TUTTI_OK)
            return status;
    }
    for (int i = 0; i < p->batch.count; i++) {
        struct tt_pending *pending = &p->batch.calls[i];
        pending->call.entry = tt_recorder_queue(pending->call.comm->recorder, &pending->call);
        tt_pending_renew(pending);
    }
    tutti_status status = tt_run(p->batch.calls, p->batch.count);
    for (int i = 0; i < p->batch.count && status != TUTTI_OK; i++)
        if (p->batch.calls[i].op == NULL)
            tt_entry_drop(p->batch.calls[i].call.entry);
    return status;
}

static tutti_status start_queued(struct tt_program *p)
{
    struct tt_position position = { 0 };
    struct tt_work_item *item = tt_work_item_take(&p->idle);
    if (item == NULL)
        return TUTTI_OUT_OF_MEMORY;
    item->batch = &p->batch;
    tutti_status status = tt_group_run(item, &position);
    for (int i = 0; i < p->batch.count; i++) { /* over where each is beyond it */
        tutti_stream stream = p->batch.calls[i].call.stream;
        if (stream.kind == TUTTI_STREAM_CUDA)
            p->last[i] = p->batch.calls[i].call.comm->streams.last;
        if (position.stream == NULL || stream.kind == TUTTI_STREAM_CUDA)
            continue;
        struct tt_stream *s =
            stream.kind != TUTTI_STREAM_NONE ? tt_handle_find(TT_HANDLE_STREAM, stream.handle) : NULL;
        if (s != NULL)
            p->last[i] = (struct tt_position){ s, tt_stream_last(s) };
    }
    return status;
}

/* Refuses the calls of those communicators that still exist. */
static tutti_status refuse_calls(const struct tt_program *p, tutti_status status)
{
    for (int i = 0; i < p->batch.count; i++) {
        const struct tt_comm *comm = tt_comm_peek(p->owners[i].handle);
        if (comm != NULL && comm->identity.serial == p->owners[i].serial)
            tt_call_refuse(&p->batch.calls[i].call, status);
    }
    return status;
}

tutti_status tutti_program_start(tutti_program *program)
{
    struct tt_program *p = tt_handle_find(TT_HANDLE_PROGRAM, program);
    if (p == NULL)
        return tt_handle_fault(program);
    if (tt_group_open())
        return tt_group_refuse("program_start");
    for (int i = 0; i < p->batch.count; i++) {
        tutti_status status = check_call(p, i);
        if (status != TUTTI_OK)
            return refuse_calls(p, status);
    }
    return p->queued > 0 ? start_queued(p) : start_here(p);
}

tutti_status tutti_program_destroy(tutti_program *program)
{
    struct tt_program *p = tt_handle_take(TT_HANDLE_PROGRAM, program);
    if (p == NULL)
        return tt_handle_fault(program);
    for (int i = 0; i < p->batch.count; i++)
        tt_position_wait(p->last[i], -1);
    free_program(p);
    return TUTTI_OK;
}
