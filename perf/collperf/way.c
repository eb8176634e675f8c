/* SPDX-License-Identifier: BSD-3-Clause */
/* way.c: one place decides between a call and the start of a program, and waits for the stream. */
#include "way.h"

tutti_status perf_way_open(struct perf_way *way, bool blocking)
{
    *way = (struct perf_way){ .streamed = !blocking, .stream = tutti_no_stream() };
    return blocking ? TUTTI_OK : tutti_stream_create(&way->stream);
}

void perf_way_open_device(struct perf_way *way, struct perf_device *device)
{
    *way = (struct perf_way){ .device = device, .stream = tutti_cuda_stream(device->stream) };
}

void perf_way_close(struct perf_way *way)
{
    if (way->streamed)
        tutti_stream_destroy(way->stream);
}

static tutti_status call(const struct perf_way *way)
{
    return way->point->collective->call(way->point, way->at->send, way->at->recv, way->comm);
}

static tutti_status capture(struct perf_way *way, long calls)
{
    tutti_status status = perf_device_record(way->device);
    if (status != TUTTI_OK)
        return status;
    for (long i = 0; i < calls && status == TUTTI_OK; i++)
        status = call(way);
    tutti_status kept = perf_device_keep(way->device);
    return status != TUTTI_OK ? status : kept;
}

tutti_status perf_way_bind(struct perf_way *way, long calls)
{
    if (calls == 0)
        return TUTTI_OK;
    if (way->device != NULL)
        return capture(way, calls);
    tutti_status status = tutti_group_start();
    for (long i = 0; i < calls && status == TUTTI_OK; i++)
        status = call(way);
    tutti_status kept = tutti_group_keep(&way->program);
    return status != TUTTI_OK ? status : kept;
}

void perf_way_unbind(struct perf_way *way)
{
    if (way->program != NULL)
        tutti_program_destroy(way->program);
    way->program = NULL;
    if (way->device != NULL)
        perf_device_drop(way->device);
}

static tutti_status make_one(struct perf_way *way)
{
    if (way->device != NULL && way->device->runnable != NULL)
        return perf_device_replay(way->device);
    return way->program != NULL ? tutti_program_start(way->program) : call(way);
}

tutti_status perf_way_make(struct perf_way *way, long units, uint64_t *end)
{
    tutti_status status = TUTTI_OK;
    for (long i = 0; i < units && status == TUTTI_OK; i++)
        status = make_one(way);
    return status == TUTTI_OK && way->streamed ? tutti_stream_record(way->stream, end) : status;
}

tutti_status perf_way_wait(struct perf_way *way, uint64_t end)
{
    if (way->device == NULL)
        return way->streamed ? tutti_stream_wait(way->stream, end, -1) : TUTTI_OK;
    tutti_status status = perf_device_sync(way->device);
    return status == TUTTI_OK ? tutti_comm_state(way->comm) : status; /* the stream goes on after an error */
}
