/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_event.c: events. An event stands for the moment at which a mark in a stream is passed; a wait for it
 * means its last record when the wait is enqueued, and no later one. Without a record it waits for nothing,
 * which hides many a mistake in the order of two calls. */
#include <stdlib.h>

#include "stub_internal.h"

void tt_stub_event_drop(struct stub_event *event)
{
    if (event == NULL || --event->references > 0)
        return;
    tt_stub_work_drop(event->work);
    tt_stub_front_clear(&event->front);
    free(event);
}

static struct stub_event *find(void *handle, enum stub_function function, enum tt_dev_error *error)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    struct stub_event *event = tt_stub_runtime.events;
    while (event != NULL && event != handle)
        event = event->next;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    if (event == NULL)
        *error = tt_stub_fail(TT_DEV_INVALID, function, "event is %p, which is none, or is gone", handle);
    return event;
}

static struct stub_event *enter(void *handle, enum stub_function function, enum tt_dev_error *error)
{
    *error = tt_stub_enter(function);
    return *error == TT_DEV_OK ? find(handle, function, error) : NULL;
}

enum tt_dev_error tt_stub_event_create(bool timed, void **handle)
{
    enum tt_dev_error error = tt_stub_enter(STUB_event_create);
    if (error != TT_DEV_OK)
        return error;
    struct stub_event *event = tt_stub_new(sizeof *event);
    event->references = 1;
    event->timed = timed;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    event->device = tt_stub_current();
    event->context = tt_stub_context();
    event->next = tt_stub_runtime.events;
    tt_stub_runtime.events = event;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    *handle = event;
    return TT_DEV_OK;
}

enum tt_dev_error tt_stub_event_destroy(void *handle)
{
    enum tt_dev_error error;
    struct stub_event *event = enter(handle, STUB_event_destroy, &error);
    if (event == NULL)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    struct stub_event **at = &tt_stub_runtime.events;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    tt_stub_event_drop(event);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return TT_DEV_OK;
}

enum tt_dev_error tt_stub_event_record(void *handle, void *stream_handle, bool external)
{
    enum tt_dev_error error;
    struct stub_stream *stream = tt_stub_stream_enter(stream_handle, STUB_event_record, &error);
    struct stub_event *event = stream != NULL ? find(handle, STUB_event_record, &error) : NULL;
    if (event == NULL)
        return error;
    if (stream->device != event->device)
        return tt_stub_fail(TT_DEV_INVALID, STUB_event_record, "event is of device %d, stream of device %d",
            event->device->number, stream->device->number);
    if (stream->context != event->context)
        return tt_stub_fail(TT_DEV_INVALID, STUB_event_record, "event and stream are of different contexts");
    struct stub_task task = { .kind = STUB_MARK, .event = { .record = event, .external = external } };
    return tt_stub_stream_add(stream, &task, STUB_event_record);
}

enum tt_dev_error tt_stub_event_wait(void *handle, void *stream_handle, bool external)
{
    enum tt_dev_error error;
    struct stub_stream *stream = tt_stub_stream_enter(stream_handle, STUB_event_wait, &error);
    struct stub_event *event = stream != NULL ? find(handle, STUB_event_wait, &error) : NULL;
    if (event == NULL)
        return error;
    struct stub_task task = { .kind = STUB_MARK, .event = { .wait = event, .external = external } };
    return tt_stub_stream_add(stream, &task, STUB_event_wait);
}

enum tt_dev_error tt_stub_event_query(void *handle)
{
    enum tt_dev_error error;
    const struct stub_event *event = enter(handle, STUB_event_query, &error);
    if (event == NULL)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    bool captured = event->capture_id != 0, done = event->work == NULL || event->work->done;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    if (captured)
        return tt_stub_fail(TT_DEV_CAPTURE, STUB_event_query, "the event was last recorded in a capture");
    return done ? TT_DEV_OK : TT_DEV_NOT_READY;
}

enum tt_dev_error tt_stub_event_elapsed(void *begin_handle, void *end_handle, float *ms)
{
    enum tt_dev_error error;
    const struct stub_event *begin = enter(begin_handle, STUB_event_elapsed, &error);
    const struct stub_event *end = begin != NULL ? find(end_handle, STUB_event_elapsed, &error) : NULL;
    if (end == NULL)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    bool right = begin->timed && end->timed && begin->work != NULL && end->work != NULL;
    bool done = right && begin->work->done && end->work->done;
    if (done)
        *ms = (float)(end->work->done_ns - begin->work->done_ns) / 1e6f;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    if (!right)
        return tt_stub_fail(TT_DEV_INVALID, STUB_event_elapsed, "an event is not timed, or was not recorded");
    return done ? TT_DEV_OK : TT_DEV_NOT_READY;
}
