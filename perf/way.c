/* way.c: one place decides how a call is made, and waits for the stream if there is one. */
#include "way.h"

tutti_status perf_way_open(struct perf_way *way, bool blocking)
{
    *way = (struct perf_way){ .streamed = !blocking, .stream = tutti_no_stream() };
    return blocking ? TUTTI_OK : tutti_stream_create(&way->stream);
}

void perf_way_close(struct perf_way *way)
{
    if (way->streamed)
        tutti_stream_destroy(way->stream);
}

tutti_status perf_way_call(struct perf_way *way, long calls, uint64_t *end)
{
    const struct perf_point *p = way->point;
    tutti_status status = TUTTI_OK;
    for (long i = 0; i < calls && status == TUTTI_OK; i++)
        status = p->collective->call(p, way->at->send, way->at->recv, way->comm);
    return status == TUTTI_OK && way->streamed ? tutti_stream_record(way->stream, end) : status;
}

tutti_status perf_way_wait(struct perf_way *way, uint64_t end)
{
    return way->streamed ? tutti_stream_wait(way->stream, end, -1) : TUTTI_OK;
}
