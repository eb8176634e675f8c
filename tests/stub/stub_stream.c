/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_stream.c: streams, and what is enqueued on them.
 *
 * The legacy default stream (NULL) begins after all that was enqueued before on the streams of its context
 * that block, and they go on after it; streams made by the table do neither. Every enqueue takes `api`, and
 * keeps it while the queue is full: then nobody enqueues anything. The handle of a stream that was destroyed
 * is the next one's, also while its work goes on, as CUDA may give it. */
#include <stdlib.h>

#include "stub_internal.h"

/* TT_DEV_STREAM_PER_THREAD */
static _Thread_local struct stub_stream *own_stream[STUB_DEVICES][STUB_CONTEXTS];
static struct stub_stream *spare; /* the last that was destroyed; NULL: it is in use again */

static struct stub_stream *stream_new(struct stub_device *device, int context, bool blocking)
{
    struct stub_stream *stream = spare != NULL ? spare : tt_stub_new(sizeof *stream);
    spare = NULL;
    *stream = (struct stub_stream){ .device = device, .context = context };
    stream->queue = &device->queues[device->streams++ % tt_stub_runtime.config.queues];
    stream->blocking = blocking;
    stream->next = tt_stub_runtime.streams;
    tt_stub_runtime.streams = stream;
    return stream;
}

static void stream_forget(struct stub_stream **at)
{
    struct stub_stream *stream = *at;
    *at = stream->next;
    tt_stub_work_drop(stream->last);
    tt_stub_front_clear(&stream->front);
    free(spare);
    spare = stream;
}

/* The end of a thread is that of its streams. */
static void forget_own(void *array)
{
    struct stub_stream **own = array;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    for (int i = 0; i < STUB_DEVICES * STUB_CONTEXTS; i++) {
        struct stub_stream **at = &tt_stub_runtime.streams;
        while (*at != NULL && *at != own[i])
            at = &(*at)->next;
        if (*at != NULL)
            stream_forget(at);
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
}

void tt_stub_streams_open(void)
{
    if (pthread_key_create(&tt_stub_runtime.own_streams, forget_own) != 0)
        abort();
}

void tt_stub_legacy_open(struct stub_device *device, int context)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    if (device->legacy[context] == NULL)
        device->legacy[context] = stream_new(device, context, false);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
}

bool tt_stub_stream_is_legacy(const struct stub_stream *stream)
{
    return stream == stream->device->legacy[stream->context];
}

bool tt_stub_stream_blocks(const struct stub_stream *stream, const struct stub_stream *legacy)
{
    return stream->blocking && stream->device == legacy->device && stream->context == legacy->context;
}

static struct stub_stream *find(void *handle)
{
    struct stub_device *device = tt_stub_current();
    if (handle == NULL)
        return device->legacy[tt_stub_context()];
    if (handle == TT_DEV_STREAM_PER_THREAD) {
        struct stub_stream **own = &own_stream[device->number][tt_stub_context()];
        if (*own == NULL) {
            *own = stream_new(device, tt_stub_context(), true);
            pthread_setspecific(tt_stub_runtime.own_streams, own_stream);
        }
        return *own;
    }
    struct stub_stream *stream = tt_stub_runtime.streams;
    while (stream != NULL && stream != handle)
        stream = stream->next;
    return stream;
}

struct stub_stream *tt_stub_stream_enter(void *handle, enum stub_function function, enum tt_dev_error *error)
{
    *error = tt_stub_enter(function);
    if (*error != TT_DEV_OK)
        return NULL;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    struct stub_stream *stream = find(handle);
    bool broken = stream != NULL && stream->device->broken && function != STUB_stream_capture;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    if (stream == NULL)
        *error = tt_stub_fail(TT_DEV_INVALID, function, "stream is %p, which is none, or is gone", handle);
    if (broken)
        *error = tt_stub_fail(TT_DEV_BROKEN, function, "device %d is broken", stream->device->number);
    return broken ? NULL : stream;
}

/* --- Making, ending and asking. */

static enum tt_dev_error create(void **stream, bool blocking)
{
    enum tt_dev_error error = tt_stub_enter(STUB_stream_create);
    if (error != TT_DEV_OK)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    *stream = stream_new(tt_stub_current(), tt_stub_context(), blocking);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return TT_DEV_OK;
}

enum tt_dev_error tt_stub_stream_create(void **stream)
{
    return create(stream, false);
}

enum tt_dev_error tt_stub_stream_create_blocking(void **stream)
{
    return create(stream, true);
}

/* What was enqueued is done all the same. */
enum tt_dev_error tt_stub_stream_destroy(void *handle)
{
    enum tt_dev_error error = tt_stub_enter(STUB_stream_destroy);
    if (error != TT_DEV_OK)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    struct stub_stream **at = &tt_stub_runtime.streams;
    while (*at != NULL && *at != handle)
        at = &(*at)->next;
    struct stub_stream *stream = *at;
    bool right = stream != NULL && !tt_stub_stream_is_legacy(stream) && stream->capture == NULL;
    if (right)
        stream_forget(at);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return right ? TT_DEV_OK
                 : tt_stub_fail(
                       TT_DEV_INVALID, STUB_stream_destroy, "stream is %p: not made, or captured", handle);
}

static bool is_done(const struct stub_work *work)
{
    return work == NULL || work->done;
}

/* Of the legacy stream: all that it would wait for. */
static bool stream_done(const struct stub_stream *stream)
{
    bool done = is_done(stream->last);
    if (tt_stub_stream_is_legacy(stream))
        for (const struct stub_stream *s = tt_stub_runtime.streams; s != NULL; s = s->next)
            done = done && (!tt_stub_stream_blocks(s, stream) || is_done(s->last));
    return done;
}

void tt_stub_stream_wait(const struct stub_stream *stream)
{
    while (!stream_done(stream) && !stream->device->broken)
        pthread_cond_wait(&tt_stub_runtime.changed, &tt_stub_runtime.lock);
}

enum tt_dev_error tt_stub_stream_query(void *handle)
{
    enum tt_dev_error error;
    const struct stub_stream *stream = tt_stub_stream_enter(handle, STUB_stream_query, &error);
    if (stream == NULL)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    bool done = stream_done(stream);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return done ? TT_DEV_OK : TT_DEV_NOT_READY;
}

enum tt_dev_error tt_stub_stream_sync(void *handle)
{
    enum tt_dev_error error;
    const struct stub_stream *stream = tt_stub_stream_enter(handle, STUB_stream_sync, &error);
    if (stream == NULL)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    tt_stub_stream_wait(stream);
    bool broken = stream->device->broken;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return broken ? tt_stub_fail(TT_DEV_BROKEN, STUB_stream_sync, "the device broke meanwhile") : TT_DEV_OK;
}

enum tt_dev_error tt_stub_stream_device(void *handle, int *device, void **context)
{
    enum tt_dev_error error;
    if (tt_stub_used() < 0 && (handle == NULL || handle == TT_DEV_STREAM_PER_THREAD)) {
        error = tt_stub_enter(STUB_stream_device);
        if (error == TT_DEV_OK) {
            *device = -1;
            *context = NULL;
        }
        return error;
    }
    const struct stub_stream *stream = tt_stub_stream_enter(handle, STUB_stream_device, &error);
    if (stream == NULL)
        return error;
    *device = stream->device->number;
    *context = stream->device->legacy[stream->context];
    return TT_DEV_OK;
}

/* --- Enqueueing. */

void tt_stub_stream_room(const struct stub_stream *stream)
{
    while (stream->queue->length >= tt_stub_runtime.config.depth)
        pthread_cond_wait(&tt_stub_runtime.changed, &tt_stub_runtime.lock);
}

void tt_stub_stream_order(const struct stub_stream *stream, struct stub_work *work)
{
    tt_stub_work_after(work, stream->last);
    if (stream->blocking)
        tt_stub_work_after(work, stream->device->legacy[stream->context]->last);
    for (const struct stub_stream *s = tt_stub_runtime.streams; s != NULL; s = s->next)
        if (tt_stub_stream_is_legacy(stream) && tt_stub_stream_blocks(s, stream))
            tt_stub_work_after(work, s->last);
}

/* A wait is for the last record before now. */
void tt_stub_event_wait_order(struct stub_work *work)
{
    if (work->task.kind == STUB_MARK && work->task.event.wait != NULL)
        tt_stub_work_after(work, work->task.event.wait->work);
}

/* A record counts from now on. */
void tt_stub_event_record_order(struct stub_work *work)
{
    struct stub_event *record = work->task.kind == STUB_MARK ? work->task.event.record : NULL;
    if (record != NULL) {
        tt_stub_work_drop(record->work);
        record->work = tt_stub_work_hold(work);
        record->capture_id = 0;
    }
}

void tt_stub_stream_push(struct stub_stream *stream, struct stub_work *work)
{
    tt_stub_work_push(stream->queue, work);
    tt_stub_work_drop(stream->last);
    stream->last = work;
}

enum tt_dev_error tt_stub_stream_add(
    struct stub_stream *stream, const struct stub_task *task, enum stub_function function)
{
    enum tt_dev_error error;
    tt_stub_api_lock(stream->device);
    pthread_mutex_lock(&tt_stub_runtime.lock);
    if (!tt_stub_capture_takes(stream, task, function, &error)) {
        tt_stub_stream_room(stream);
        struct stub_work *work = tt_stub_work_new(task);
        tt_stub_stream_order(stream, work);
        tt_stub_event_wait_order(work);
        tt_stub_event_record_order(work);
        tt_stub_stream_push(stream, work);
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    tt_stub_api_unlock(stream->device);
    return error;
}

/* True if streams can reach these bytes; pageable memory they cannot. */
static bool reachable(const void *ptr, size_t bytes)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    bool right = tt_stub_memory_look(ptr, bytes) != NULL;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return right;
}

static enum tt_dev_error add_copy(enum stub_function function, const struct stub_task *task, void *handle)
{
    enum tt_dev_error error;
    struct stub_stream *stream = tt_stub_stream_enter(handle, function, &error);
    if (stream == NULL)
        return error;
    size_t row = task->copy.row_bytes, rows = task->copy.rows;
    if (row == 0 || rows == 0)
        return TT_DEV_OK;
    if (rows > 1 && (task->copy.dst_pitch < row || task->copy.src_pitch < row))
        return tt_stub_fail(TT_DEV_INVALID, function, "a pitch is less than row_bytes, which is %zu", row);
    if (!reachable(task->copy.dst, (rows - 1) * task->copy.dst_pitch + row))
        return tt_stub_fail(TT_DEV_INVALID, function, "dst is %p: pageable, or runs over", task->copy.dst);
    if (!reachable(task->copy.src, (rows - 1) * task->copy.src_pitch + row))
        return tt_stub_fail(TT_DEV_INVALID, function, "src is %p: pageable, or runs over", task->copy.src);
    return tt_stub_stream_add(stream, task, function);
}

enum tt_dev_error tt_stub_copy(void *dst, const void *src, size_t bytes, void *stream)
{
    struct stub_task task = { .kind = STUB_COPY, .copy = { dst, src, bytes, bytes, bytes, 1 } };
    return add_copy(STUB_copy, &task, stream);
}

enum tt_dev_error tt_stub_copy_rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
    size_t row_bytes, size_t rows, void *stream)
{
    struct stub_task task = { .kind = STUB_COPY,
        .copy = { dst, src, dst_pitch, src_pitch, row_bytes, rows } };
    return add_copy(STUB_copy_rows, &task, stream);
}

enum tt_dev_error tt_stub_fill(void *dst, int byte, size_t bytes, void *handle)
{
    enum tt_dev_error error;
    struct stub_stream *stream = tt_stub_stream_enter(handle, STUB_fill, &error);
    if (stream == NULL || bytes == 0)
        return error;
    if (!reachable(dst, bytes))
        return tt_stub_fail(TT_DEV_INVALID, STUB_fill, "dst is %p: pageable, or runs over", dst);
    return tt_stub_stream_add(
        stream, &(struct stub_task){ .kind = STUB_FILL, .fill = { dst, bytes, byte } }, STUB_fill);
}

/* Words are in pinned or device memory, and a stream's are enqueued by threads that use its device. */
static enum tt_dev_error add_word(
    enum stub_function function, enum stub_kind kind, void *handle, uint32_t *word, uint32_t value)
{
    enum tt_dev_error error;
    struct stub_stream *stream = tt_stub_stream_enter(handle, function, &error);
    if (stream == NULL)
        return error;
    if (!tt_stub_runtime.config.words || tt_stub_runtime.config.words_fault == STUB_WORDS_REFUSED)
        return tt_stub_fail(TT_DEV_UNSUPPORTED, function, "the devices have no words");
    if (stream->device != tt_stub_current())
        return tt_stub_fail(
            TT_DEV_INVALID, function, "stream is of device %d, which is not current", stream->device->number);
    pthread_mutex_lock(&tt_stub_runtime.lock);
    const struct stub_memory *m = tt_stub_memory_find(word);
    bool right = m != NULL && m->kind != TT_DEV_MANAGED && m->twin == NULL &&
                 (uintptr_t)word % sizeof *word == 0 && tt_stub_memory_look(word, sizeof *word) != NULL;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    if (!right)
        return tt_stub_fail(TT_DEV_INVALID, function,
            "word is %p; 4 bytes of pinned or device memory are legal", (void *)word);
    return tt_stub_stream_add(stream, &(struct stub_task){ .kind = kind, .word = { word, value } }, function);
}

enum tt_dev_error tt_stub_write_word(void *stream, uint32_t *word, uint32_t value)
{
    return add_word(STUB_write_word, STUB_WRITE, stream, word, value);
}

enum tt_dev_error tt_stub_wait_word(void *stream, uint32_t *word, uint32_t value)
{
    return add_word(STUB_wait_word, STUB_WAIT, stream, word, value);
}

enum tt_dev_error tt_stub_host_call(void *handle, void (*call)(void *), void *argument)
{
    enum tt_dev_error error;
    struct stub_stream *stream = tt_stub_stream_enter(handle, STUB_host_call, &error);
    if (stream == NULL)
        return error;
    return tt_stub_stream_add(
        stream, &(struct stub_task){ .kind = STUB_HOST, .host = { call, argument } }, STUB_host_call);
}

/* --- Ranges, which are only counted: no device has to do with them. */

void tt_stub_range_begin(const char *name)
{
    (void)name;
    tt_stub_count_call(STUB_range_begin);
}

void tt_stub_range_end(void)
{
    tt_stub_count_call(STUB_range_end);
}
