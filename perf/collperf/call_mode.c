/* SPDX-License-Identifier: BSD-3-Clause */
/* call_mode.c: calls, programs and graphs, and the waits for the stream that they are on. */
#include "call_mode.h"

tutti_status perf_call_mode_open(struct perf_call_mode *mode, bool blocking)
{
    *mode = (struct perf_call_mode){ .streamed = !blocking, .stream = tutti_no_stream() };
    return blocking ? TUTTI_OK : tutti_stream_create(&mode->stream);
}

void perf_call_mode_open_device(struct perf_call_mode *mode, struct perf_device *device)
{
    *mode = (struct perf_call_mode){ .device = device, .stream = tutti_cuda_stream(device->stream) };
}

void perf_call_mode_close(struct perf_call_mode *mode)
{
    if (mode->streamed)
        tutti_stream_destroy(mode->stream);
}

static tutti_status call(const struct perf_call_mode *mode)
{
    return mode->point->collective->call(mode->point, mode->at->send, mode->at->recv, mode->comm);
}

static tutti_status capture(struct perf_call_mode *mode, long calls)
{
    tutti_status status = perf_device_record(mode->device);
    if (status != TUTTI_OK)
        return status;
    for (long i = 0; i < calls && status == TUTTI_OK; i++)
        status = call(mode);
    tutti_status kept = perf_device_keep(mode->device);
    return status != TUTTI_OK ? status : kept;
}

tutti_status perf_call_mode_bind(struct perf_call_mode *mode, long calls)
{
    if (calls == 0)
        return TUTTI_OK;
    if (mode->device != NULL)
        return capture(mode, calls);
    tutti_status status = tutti_group_start();
    for (long i = 0; i < calls && status == TUTTI_OK; i++)
        status = call(mode);
    tutti_status kept = tutti_group_keep(&mode->program);
    return status != TUTTI_OK ? status : kept;
}

void perf_call_mode_unbind(struct perf_call_mode *mode)
{
    if (mode->program != NULL)
        tutti_program_destroy(mode->program);
    mode->program = NULL;
    if (mode->device != NULL)
        perf_device_drop(mode->device);
}

static tutti_status issue_one(struct perf_call_mode *mode)
{
    if (mode->device != NULL && mode->device->runnable != NULL)
        return perf_device_replay(mode->device);
    return mode->program != NULL ? tutti_program_start(mode->program) : call(mode);
}

tutti_status perf_call_mode_issue(struct perf_call_mode *mode, long units, uint64_t *end)
{
    tutti_status status = TUTTI_OK;
    for (long i = 0; i < units && status == TUTTI_OK; i++)
        status = issue_one(mode);
    return status == TUTTI_OK && mode->streamed ? tutti_stream_record(mode->stream, end) : status;
}

tutti_status perf_call_mode_wait(struct perf_call_mode *mode, uint64_t end)
{
    if (mode->device == NULL)
        return mode->streamed ? tutti_stream_wait(mode->stream, end, -1) : TUTTI_OK;
    tutti_status status = perf_device_sync(mode->device);
    return status == TUTTI_OK ? tutti_comm_state(mode->comm) : status; /* the stream goes on after an error */
}
