/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan_stub.c: the stub under ThreadSanitizer: threads with streams of their own on one device, whose work
 * hands data to and fro by words and events, and graphs that are replayed meanwhile. */
#include "tests/tsan/tsan_stub.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/stub/stub.h"

enum { THREADS = 3, ROUNDS = 20, BYTES = 4096 };

static const struct tt_dev *dev;
static uint32_t *words; /* one for each thread to write, one for its stream */
static uint32_t released;
static pthread_barrier_t all_here;

static int blocks_per_sm(uint32_t kernel, uint32_t block, uint32_t shared_bytes)
{
    return kernel == 0 && block == 32 && shared_bytes == 0;
}

static void run(const struct tt_dev_launch *launch, uint32_t block)
{
    uint32_t *const *const device = launch->params;
    (*device)[block]++;
}

static const struct tt_stub_kernels kernels = { blocks_per_sm, run };

static void count_up(void *counter)
{
    (*(uint32_t *)counter)++;
}

static void count_released(void *counter)
{
    __atomic_add_fetch((uint32_t *)counter, 1, __ATOMIC_RELAXED);
}

/* What a thread has, and what it enqueues: the host's bytes go to the device, a kernel adds to them on
 * another stream, and they come back. */
struct own {
    int number;
    void *in, *out, *copied, *added;
    uint32_t *host, *device, calls;
};

static bool enqueue(struct own *own)
{
    struct tt_dev_launch launch = {
        .grid = 2, .grid_y = 2, .block = 32, .params = &own->device, .params_bytes = sizeof own->device
    };
    bool right = dev->copy(own->device, own->host, BYTES, own->in) == TT_DEV_OK;
    right &= dev->event.record(own->copied, own->in, false) == TT_DEV_OK;
    right &= dev->event.wait(own->copied, own->out, false) == TT_DEV_OK;
    right &= dev->launch(&launch, own->out) == TT_DEV_OK;
    right &= dev->copy(own->host, own->device, BYTES, own->out) == TT_DEV_OK;
    right &= dev->host_call(own->out, count_up, &own->calls) == TT_DEV_OK;
    right &= dev->event.record(own->added, own->out, false) == TT_DEV_OK;
    return right && dev->event.wait(own->added, own->in, false) == TT_DEV_OK;
}

static bool rounds_by_hand(struct own *own)
{
    uint32_t *go = &words[2 * own->number], *done = go + 1;
    bool right = true;
    for (uint32_t i = 1; i <= ROUNDS && right; i++) {
        right &= dev->wait_word(own->in, go, i) == TT_DEV_OK && enqueue(own);
        right &= dev->write_word(own->in, done, i) == TT_DEV_OK;
        own->host[0] = i; /* before the stream may look */
        __atomic_store_n(go, i, __ATOMIC_RELEASE);
        while (__atomic_load_n(done, __ATOMIC_ACQUIRE) != i)
            dev->stream.query(own->in);
        right &= own->host[0] == i + 1 && own->host[1] == i && own->calls == i;
    }
    return right;
}

/* Nobody allocates or frees while streams wait: that waits for them, and holds off who would help. */
static bool own_make(struct own *own)
{
    bool right = dev->stream.create(&own->in) == TT_DEV_OK && dev->stream.create(&own->out) == TT_DEV_OK;
    right &= dev->event.create(false, &own->copied) == TT_DEV_OK;
    right &= dev->event.create(true, &own->added) == TT_DEV_OK;
    right &= dev->memory.alloc_pinned(BYTES, (void **)&own->host) == TT_DEV_OK;
    right &= dev->memory.alloc(BYTES, (void **)&own->device) == TT_DEV_OK && dev->preload() == TT_DEV_OK;
    if (right)
        memset(own->host, 0, BYTES);
    return right;
}

static bool own_end(struct own *own)
{
    bool right =
        dev->memory.free(own->device) == TT_DEV_OK && dev->memory.free_pinned(own->host) == TT_DEV_OK;
    right &= dev->event.destroy(own->copied) == TT_DEV_OK && dev->event.destroy(own->added) == TT_DEV_OK;
    return right && dev->stream.destroy(own->in) == TT_DEV_OK && dev->stream.destroy(own->out) == TT_DEV_OK;
}

static void *rounds(void *argument)
{
    struct own own = { .number = *(int *)argument };
    bool right = own_make(&own);
    pthread_barrier_wait(&all_here);
    right = right && rounds_by_hand(&own);
    pthread_barrier_wait(&all_here);
    right = own_end(&own) && right;
    return right ? NULL : argument;
}

static bool replays(void)
{
    struct own own = { .number = 0 };
    struct tt_dev_capture capture;
    void *graph, *runnable;
    bool right = own_make(&own);
    right &= dev->graph.capture_begin(own.in) == TT_DEV_OK && enqueue(&own);
    right &= dev->stream.capture(own.in, &capture) == TT_DEV_OK;
    right &= dev->graph.retain(capture.graph, count_released, &released) == TT_DEV_OK;
    right &= dev->graph.capture_end(own.in, &graph) == TT_DEV_OK;
    right = right && dev->graph.instantiate(graph, &runnable) == TT_DEV_OK;
    for (int i = 0; i < ROUNDS && right; i++)
        right &= dev->graph.launch(runnable, i % 2 == 0 ? own.in : own.out) == TT_DEV_OK;
    right &= dev->stream.sync(own.in) == TT_DEV_OK && dev->stream.sync(own.out) == TT_DEV_OK;
    right &= own.host[3] == ROUNDS && own.calls == ROUNDS;
    right &= dev->graph.runnable_destroy(runnable) == TT_DEV_OK && dev->graph.destroy(graph) == TT_DEV_OK;
    while (right && __atomic_load_n(&released, __ATOMIC_ACQUIRE) == 0)
        sched_yield();
    return own_end(&own) && right;
}

bool tsan_stub(void)
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    void *failed = NULL;
    dev = tutti_device_table(TT_DEV_VERSION);
    bool right = tt_stub()->configure("queues=8,delay=50");
    tt_stub()->kernels(&kernels);
    right &= dev->memory.alloc_pinned(BYTES, (void **)&words) == TT_DEV_OK;
    memset(words, 0, BYTES);
    pthread_barrier_init(&all_here, NULL, THREADS);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        pthread_create(&threads[i], NULL, rounds, &numbers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        right &= failed == NULL;
    }
    return right && replays();
}
