/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_task.c: what a piece of work does, on the thread of its queue.
 *
 * Addresses are looked up once more, when the work is done: memory that was freed meanwhile (a graph that is
 * replayed afterwards) breaks the device, as an illegal address does, and everything fails from then on. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "stub_internal.h"

void tt_stub_task_copy(struct stub_task *to, const struct stub_task *from)
{
    *to = *from;
    if (to->kind == STUB_MARK && to->event.record != NULL)
        to->event.record->references++;
    if (to->kind == STUB_MARK && to->event.wait != NULL)
        to->event.wait->references++;
    if (to->kind == STUB_LAUNCH) {
        to->launch.params = tt_stub_new(from->launch.params_bytes + 1);
        memcpy((void *)to->launch.params, from->launch.params, from->launch.params_bytes);
    }
}

void tt_stub_task_free(struct stub_task *task)
{
    if (task->kind == STUB_MARK) {
        tt_stub_event_drop(task->event.record);
        tt_stub_event_drop(task->event.wait);
    }
    if (task->kind == STUB_LAUNCH)
        free((void *)task->launch.params);
}

static void *look(struct stub_device *device, const void *ptr, size_t bytes)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    void *at = tt_stub_memory_look(ptr, bytes);
    if (at == NULL)
        device->broken = true;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return at;
}

static void copy(const struct stub_task *task, struct stub_device *device)
{
    size_t row = task->copy.row_bytes, rows = task->copy.rows;
    size_t dst_pitch = task->copy.dst_pitch, src_pitch = task->copy.src_pitch;
    char *dst = look(device, task->copy.dst, (rows - 1) * dst_pitch + row);
    const char *src = look(device, task->copy.src, (rows - 1) * src_pitch + row);
    for (size_t i = 0; i < rows && dst != NULL && src != NULL; i++)
        memmove(dst + i * dst_pitch, src + i * src_pitch, row);
}

static bool is_broken(struct stub_device *device)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    bool broken = device->broken;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return broken;
}

static void count_as_running(struct stub_device *device, void (*change)(struct stub_device *))
{
    if (tt_stub_runtime.config.yield)
        return;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    change(device);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
}

/* Yields, then sleeps: many queues wait at once on few cores. */
static void wait_for(const uint32_t *word, uint32_t value, struct stub_device *device)
{
    int fault = tt_stub_runtime.config.words_fault;
    if (fault == STUB_WAITS_PASS)
        return;
    count_as_running(device, tt_stub_context_enter);
    for (int polls = 0;
         fault == STUB_WAITS_HANG || (int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0;
         polls++) {
        count_as_running(device, tt_stub_context_pause);
        if (polls < 50)
            sched_yield();
        else if (is_broken(device))
            break;
        else
            nanosleep(&(struct timespec){ .tv_nsec = polls < 500 ? 20000 : 200000 }, NULL);
    }
    count_as_running(device, tt_stub_context_leave);
}

static void call_host(const struct stub_task *task)
{
    pthread_mutex_lock(&tt_stub_runtime.host);
    tt_stub_calling_host(true);
    task->host.call(task->host.argument);
    tt_stub_calling_host(false);
    pthread_mutex_unlock(&tt_stub_runtime.host);
}

void tt_stub_task_run(const struct stub_task *task, struct stub_device *device)
{
    void *at;
    switch (task->kind) {
    case STUB_COPY:
        copy(task, device);
        break;
    case STUB_FILL:
        if ((at = look(device, task->fill.dst, task->fill.bytes)) != NULL)
            memset(at, task->fill.byte, task->fill.bytes);
        break;
    case STUB_WRITE:
        at = look(device, task->word.word, sizeof(uint32_t));
        if (at != NULL && tt_stub_runtime.config.words_fault != STUB_WRITES_LOST)
            __atomic_store_n((uint32_t *)at, task->word.value, __ATOMIC_RELEASE);
        break;
    case STUB_WAIT:
        if ((at = look(device, task->word.word, sizeof(uint32_t))) != NULL)
            wait_for(at, task->word.value, device);
        break;
    case STUB_HOST:
        call_host(task);
        break;
    case STUB_LAUNCH:
        tt_stub_launch_run(&task->launch, device);
        break;
    case STUB_MARK:
    case STUB_KINDS:
        break;
    }
}
