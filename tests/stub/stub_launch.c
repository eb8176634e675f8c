/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_launch.c: kernels. A block has a thread of its own and a place on a multiprocessor, of which there
 * are sms times blocks_per_sm; it keeps its place until it has ended, so a kernel that waits for one that
 * finds no place waits for ever. Its thread then waits for another block, because a new one for each was
 * most of what a small kernel took. What blocks compute is not the stub's: tests, or the emulated kernels,
 * say it.
 *
 * Addresses of device memory among a kernel's parameters are replaced by the stub's own (stub_memory.c):
 * any aligned word of them that is such an address. What a kernel reads from memory it gives to
 * tt_stub_reach. The first launch of a kernel that was not preloaded
 * loads it, which waits for all streams of the device as an allocation does. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "stub_internal.h"

static const struct tt_stub_kernels *kernels;
static _Thread_local struct stub_device *runs_on; /* of a thread that runs a block */

void tt_stub_set_kernels(const struct tt_stub_kernels *set)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    kernels = set;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
}

void tt_stub_pause(void)
{
    sched_yield();
    if (runs_on == NULL)
        return;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    tt_stub_context_pause(runs_on);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
}

void *tt_stub_reach(const void *ptr)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    const struct stub_memory *m = tt_stub_memory_find(ptr);
    void *at = m != NULL && m->twin == NULL ? tt_stub_memory_look(ptr, 1) : NULL;
    if (at == NULL && runs_on != NULL)
        runs_on->broken = true;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return at;
}

/* How many of a kernel's blocks run on one multiprocessor; 0: none, or there is no such kernel. */
static int blocks_per_sm(uint32_t kernel, uint32_t block, uint32_t shared_bytes)
{
    int most = tt_stub_runtime.config.blocks_per_sm;
    int n = kernels == NULL || block == 0 || block > 1024
                ? 0
                : kernels->blocks_per_sm(kernel, block, shared_bytes);
    return n < most ? n : most;
}

/* --- Running. */

struct block {
    struct stub_device *device;
    const struct tt_dev_launch *launch;
    uint32_t index;
    int places;
    int *running; /* blocks of this launch, with the lock held */
};

/* A thread that runs blocks, one after the other. */
struct hand {
    struct block block;
    bool works;
    pthread_cond_t wake;
    struct hand *next; /* of those that are idle */
};
static struct hand *idle; /* with the lock held: the last one first, whose memory the caches have */

/* With the lock held; it is open while the block runs. */
static void run(const struct block *block)
{
    struct stub_device *device = block->device;
    runs_on = device;
    tt_stub_context_enter(device);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    kernels->run(block->launch, block->index);
    pthread_mutex_lock(&tt_stub_runtime.lock);
    tt_stub_context_leave(device);
    device->places_taken -= block->places;
    --*block->running;
    pthread_cond_broadcast(&tt_stub_runtime.changed);
}

static void *hand_run(void *argument)
{
    struct hand *hand = argument;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    for (;;) {
        run(&hand->block);
        hand->works = false;
        hand->next = idle;
        idle = hand;
        while (!hand->works)
            pthread_cond_wait(&hand->wake, &tt_stub_runtime.lock);
    }
    return NULL;
}

/* With the lock held. */
static void begin(const struct block *block)
{
    struct hand *hand = idle;
    if (hand == NULL) {
        hand = tt_stub_new(sizeof *hand);
        *hand = (struct hand){ .block = *block, .works = true };
        pthread_cond_init(&hand->wake, NULL);
        tt_stub_thread_start(hand_run, hand);
        return;
    }
    idle = hand->next;
    hand->block = *block;
    hand->works = true;
    pthread_cond_signal(&hand->wake);
}

/* False: a parameter is an address of pinned memory by which devices do not know it. */
static bool translate(void *params, size_t bytes)
{
    bool right = true;
    for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, (char *)params + at, sizeof word);
        const struct stub_memory *m = tt_stub_memory_find((void *)word);
        right = right && (m == NULL || m->twin == NULL);
        word = tt_stub_memory_alias(word);
        memcpy((char *)params + at, &word, sizeof word);
    }
    return right;
}

/* In order of their numbers, each as soon as it has a place. */
void tt_stub_launch_run(const struct tt_dev_launch *launch, struct stub_device *device)
{
    const struct stub_config *config = &tt_stub_runtime.config;
    int all = config->sms * config->blocks_per_sm, running = 0;
    int places = config->blocks_per_sm / blocks_per_sm(launch->kernel, launch->block, launch->shared_bytes);
    struct tt_dev_launch own = *launch;
    own.params = tt_stub_new(launch->params_bytes + 1);
    memcpy((void *)own.params, launch->params, launch->params_bytes);
    pthread_mutex_lock(&tt_stub_runtime.lock);
    device->broken |= !translate((void *)own.params, launch->params_bytes);
    for (uint32_t i = 0; i < launch->grid * launch->grid_y && !device->broken; i++) {
        while (device->places_taken + places > all)
            pthread_cond_wait(&tt_stub_runtime.changed, &tt_stub_runtime.lock);
        device->places_taken += places;
        running++;
        begin(&(struct block){ device, &own, i, places, &running });
    }
    while (running > 0)
        pthread_cond_wait(&tt_stub_runtime.changed, &tt_stub_runtime.lock);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    free((void *)own.params);
}

/* --- Loading and launching. */

enum tt_dev_error tt_stub_preload(void)
{
    enum tt_dev_error error = tt_stub_enter(STUB_preload);
    if (error != TT_DEV_OK)
        return error;
    struct stub_device *device = tt_stub_current();
    tt_stub_device_seize(device);
    device->preloaded = true;
    tt_stub_device_release(device);
    return TT_DEV_OK;
}

enum tt_dev_error tt_stub_occupancy(uint32_t kernel, uint32_t block, uint32_t shared_bytes, int *n)
{
    enum tt_dev_error error = tt_stub_enter(STUB_occupancy);
    if (error != TT_DEV_OK)
        return error;
    int found = blocks_per_sm(kernel, block, shared_bytes);
    if (found == 0)
        return tt_stub_fail(TT_DEV_INVALID, STUB_occupancy,
            "kernel is %u with blocks of %u threads; there is none, or they do not fit", kernel, block);
    *n = found;
    return TT_DEV_OK;
}

static bool is_loaded(const struct stub_device *device, uint32_t kernel)
{
    for (int i = 0; i < device->nloaded; i++)
        if (device->loaded[i] == kernel)
            return true;
    return device->preloaded;
}

/* False if that cannot be done, because something is being captured. */
static bool load(struct stub_device *device, uint32_t kernel)
{
    tt_stub_api_lock(device);
    pthread_mutex_lock(&tt_stub_runtime.lock);
    bool loaded = is_loaded(device, kernel), captured = !loaded && tt_stub_captures_break();
    if (!loaded && !captured) {
        tt_stub_device_idle(device);
        device->loaded = tt_stub_grow(device->loaded, device->nloaded, sizeof *device->loaded);
        device->loaded[device->nloaded++] = kernel;
    }
    tt_stub_device_release(device);
    return !captured;
}

enum tt_dev_error tt_stub_launch(const struct tt_dev_launch *launch, void *handle)
{
    enum tt_dev_error error;
    struct stub_stream *stream = tt_stub_stream_enter(handle, STUB_launch, &error);
    if (stream == NULL)
        return error;
    if (kernels == NULL)
        return tt_stub_fail(TT_DEV_UNSUPPORTED, STUB_launch, "the stub was given no kernels");
    if (stream->device != tt_stub_current())
        return tt_stub_fail(TT_DEV_INVALID, STUB_launch, "stream is of device %d, which is not current",
            stream->device->number);
    if (launch->grid == 0 || launch->grid_y == 0 ||
        blocks_per_sm(launch->kernel, launch->block, launch->shared_bytes) == 0)
        return tt_stub_fail(TT_DEV_INVALID, STUB_launch,
            "kernel is %u in %u x %u blocks of %u threads; there is none, or they do not fit", launch->kernel,
            launch->grid, launch->grid_y, launch->block);
    if (!load(stream->device, launch->kernel))
        return tt_stub_fail(
            TT_DEV_CAPTURE, STUB_launch, "kernel %u is not loaded, and a stream is captured", launch->kernel);
    error = tt_stub_stream_add(
        stream, &(struct stub_task){ .kind = STUB_LAUNCH, .launch = *launch }, STUB_launch);
    pthread_mutex_lock(&tt_stub_runtime.lock);
    if (error == TT_DEV_OK && tt_stub_runtime.config.launch_blocking)
        tt_stub_stream_wait(stream);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return error;
}
