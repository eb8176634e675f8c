/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_work.c: the hardware queues of a device, and the work in them.
 *
 * A device has K queues; streams are spread over them in the order in which they are made. A queue does one
 * piece of work at a time, in the order of submission: what waits at its head (for a word, for an event)
 * holds up all behind it, also what belongs to other streams. With K = 1 that is one FIFO, in which a wait
 * can end only by what was submitted before it, by another process or by a CPU:
 *
 *     stream A   wait(x)                        queue   wait(x) | write(x)      never ends
 *     stream B            write(x)
 *
 * Each queue is a thread, begun with its first work. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "stub_internal.h"

struct stub_work *tt_stub_work_new(const struct stub_task *task)
{
    struct stub_work *work = tt_stub_new(sizeof *work);
    work->references = 1;
    tt_stub_task_copy(&work->task, task);
    return work;
}

struct stub_work *tt_stub_work_hold(struct stub_work *work)
{
    if (work != NULL)
        work->references++;
    return work;
}

static void forget_after(struct stub_work *work)
{
    for (int i = 0; i < work->nafter; i++)
        tt_stub_work_drop(work->after[i]);
    free(work->after);
    work->after = NULL;
    work->nafter = 0;
}

void tt_stub_work_drop(struct stub_work *work)
{
    if (work == NULL || --work->references > 0)
        return;
    forget_after(work);
    tt_stub_task_free(&work->task);
    free(work);
}

void tt_stub_work_after(struct stub_work *work, struct stub_work *before)
{
    if (before == NULL || before->done)
        return;
    work->after = tt_stub_grow(work->after, work->nafter, sizeof *work->after);
    work->after[work->nafter++] = tt_stub_work_hold(before);
}

/* --- The threads. */

static bool may_begin(const struct stub_work *work)
{
    for (int i = 0; i < work->nafter; i++)
        if (!work->after[i]->done)
            return false;
    return true;
}

/* By chance, from one seed: xorshift. With the lock held. */
static int64_t delay_us(enum stub_kind kind)
{
    static uint64_t state;
    int64_t most = tt_stub_runtime.config.delay_us[kind];
    if (state == 0)
        state = tt_stub_runtime.config.seed * 0x9e3779b97f4a7c15u | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return most == 0 ? 0 : (int64_t)(state >> 1) % (most + 1);
}

int64_t tt_stub_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void work_do(struct stub_queue *queue, struct stub_work *work)
{
    int64_t us = delay_us(work->task.kind);
    bool broken = queue->device->broken;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    if (us > 0)
        nanosleep(&(struct timespec){ .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000 }, NULL);
    if (!broken)
        tt_stub_task_run(&work->task, queue->device);
    pthread_mutex_lock(&tt_stub_runtime.lock);
    work->done = true;
    work->done_ns = tt_stub_now_ns();
    forget_after(work); /* else each piece of work would keep all before it */
    tt_stub_task_free(&work->task); /* an event that it recorded names this work */
    work->task = (struct stub_task){ .kind = STUB_MARK };
    tt_stub_graph_drop(work->graph);
    work->graph = NULL;
}

void tt_stub_queue_open(struct stub_queue *queue, struct stub_device *device)
{
    queue->device = device;
    pthread_cond_init(&queue->wake, NULL);
}

/* Queues have a bell each: one for all would wake every thread for each piece of work. */
void tt_stub_work_changed(void)
{
    pthread_cond_broadcast(&tt_stub_runtime.changed);
    for (int d = 0; d < tt_stub_runtime.config.devices; d++)
        for (int q = 0; q < tt_stub_runtime.config.queues; q++) {
            struct stub_queue *queue = &tt_stub_runtime.devices[d].queues[q];
            if (queue->held_up)
                pthread_cond_signal(&queue->wake);
            queue->held_up = false;
        }
}

static void *queue_run(void *argument)
{
    struct stub_queue *queue = argument;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    for (;;) {
        struct stub_work *work = queue->first;
        if (work == NULL || !(may_begin(work) || queue->device->broken)) {
            queue->held_up = work != NULL;
            pthread_cond_wait(&queue->wake, &tt_stub_runtime.lock);
            continue;
        }
        work_do(queue, work);
        queue->first = work->next;
        if (queue->first == NULL)
            queue->last = NULL;
        queue->length--;
        tt_stub_work_drop(work);
        tt_stub_work_changed();
    }
    return NULL;
}

void tt_stub_thread_start(void *(*run)(void *), void *argument)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, NULL, run, argument) != 0)
        abort();
    pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void tt_stub_work_push(struct stub_queue *queue, struct stub_work *work)
{
    if (!queue->started)
        tt_stub_thread_start(queue_run, queue);
    queue->started = true;
    work->next = NULL;
    if (queue->last != NULL)
        queue->last->next = tt_stub_work_hold(work);
    else
        queue->first = tt_stub_work_hold(work);
    queue->last = work;
    queue->length++;
    pthread_cond_signal(&queue->wake);
}

static bool is_idle(const struct stub_device *device)
{
    for (int i = 0; i < STUB_QUEUES; i++)
        if (device->queues[i].length > 0)
            return false;
    return true;
}

void tt_stub_device_idle(const struct stub_device *device)
{
    while (!is_idle(device))
        pthread_cond_wait(&tt_stub_runtime.changed, &tt_stub_runtime.lock);
}

static pthread_mutex_t *api_of(struct stub_device *device)
{
    return tt_stub_runtime.config.one_lock ? &tt_stub_runtime.api : &device->own_api;
}

void tt_stub_api_lock(struct stub_device *device)
{
    pthread_mutex_lock(api_of(device));
}

void tt_stub_api_unlock(struct stub_device *device)
{
    pthread_mutex_unlock(api_of(device));
}

void tt_stub_device_seize(struct stub_device *device)
{
    tt_stub_api_lock(device);
    pthread_mutex_lock(&tt_stub_runtime.lock);
    tt_stub_device_idle(device);
}

void tt_stub_device_release(struct stub_device *device)
{
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    tt_stub_api_unlock(device);
}
