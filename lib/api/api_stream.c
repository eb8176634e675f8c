/* SPDX-License-Identifier: BSD-3-Clause */
/* api_stream.c: the public functions on streams. */
#include "base/status.h"
#include "stream/stream.h"

tutti_status tutti_stream_create(tutti_stream *stream)
{
    if (stream == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "stream_create: stream is NULL");
    return tt_stream_make(NULL, stream);
}

tutti_status tutti_stream_destroy(tutti_stream stream)
{
    return tt_stream_unmake(stream);
}

tutti_status tutti_stream_record(tutti_stream stream, uint64_t *point)
{
    tutti_status status;
    struct tt_stream *s = tt_stream_find("stream_record", stream, &status);
    if (s == NULL)
        return status;
    if (point == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "stream_record: point is NULL");
    *point = tt_stream_last(s);
    return TUTTI_OK;
}

/* Turns a point that this stream has given into its position. */
static tutti_status position_of(
    const char *name, tutti_stream stream, uint64_t point, struct tt_position *position)
{
    tutti_status status;
    struct tt_stream *s = tt_stream_find(name, stream, &status);
    if (s == NULL)
        return status;
    if (point > tt_stream_last(s))
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: point is %llu; legal: one of tutti_stream_record, up to %llu", name,
            (unsigned long long)point, (unsigned long long)tt_stream_last(s));
    *position = (struct tt_position){ s, point };
    return TUTTI_OK;
}

tutti_status tutti_stream_query(tutti_stream stream, uint64_t point)
{
    struct tt_position position;
    tutti_status status = position_of("stream_query", stream, point, &position);
    if (status != TUTTI_OK)
        return status;
    return tt_position_passed(position) ? tt_stream_outcome(position.stream, point) : TUTTI_IN_PROGRESS;
}

tutti_status tutti_stream_wait(tutti_stream stream, uint64_t point, int64_t timeout_ms)
{
    struct tt_position position;
    tutti_status status = position_of("stream_wait", stream, point, &position);
    if (status == TUTTI_OK && timeout_ms < -1)
        status = tt_fail(TUTTI_INVALID_ARGUMENT,
            "stream_wait: timeout_ms is %lld; legal: -1 (until it is there), 0 (do not wait), or more",
            (long long)timeout_ms);
    if (status != TUTTI_OK)
        return status;
    return tt_position_wait(position, timeout_ms) ? tt_stream_outcome(position.stream, point)
                                                  : TUTTI_IN_PROGRESS;
}

tutti_status tutti_stream_after(tutti_stream later, tutti_stream earlier, uint64_t point)
{
    struct tt_position position;
    tutti_status status;
    if (tt_stream_find("stream_after: later", later, &status) == NULL)
        return status;
    status = position_of("stream_after: earlier", earlier, point, &position);
    if (status != TUTTI_OK || tt_position_passed(position))
        return status;
    struct tt_work_item *item = tt_work_item_take(NULL);
    if (item == NULL)
        return TUTTI_OUT_OF_MEMORY;
    status = tt_work_item_submit_after(item, later, position);
    if (status != TUTTI_OK)
        tt_work_item_drop(item);
    return status;
}
