/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan_device.c: calls on a device's stream under ThreadSanitizer: three ranks, threads of one process on one
 * device of the stub's module, which meet, enqueue and go on, until one of them aborts while the others
 * wait; and two ranks with a device each, which replay graphs of calls, and call between. */
#include "tests/tsan/tsan_device.h"

#include <pthread.h>
#include <stdio.h>

#include "device/dev.h"
#include "tutti.h"

enum { RANKS = 3, GRAPH_RANKS = 2, ROUNDS = 20, COUNT = 10000, BYTES = COUNT * 4 };

static const char library[] = "tests/.libs/libtutti_stub.so";
static const struct tt_dev *dev;
static pthread_barrier_t all_here;

struct rank {
    int number;
    tutti_comm *comm;
    tutti_op scaled; /* its factor is on the device, and is another one each time */
    bool right;
    pthread_t thread;
};

static bool sum_and_shift(const struct rank *r, int32_t *host, void *device, tutti_stream stream, int round)
{
    int32_t *shifted = (int32_t *)device + COUNT, *factor = shifted + COUNT;
    for (int i = 0; i < COUNT; i++)
        host[i] = r->number + round + i;
    host[COUNT] = round;
    bool right = dev->copy(device, host, BYTES, stream.handle) == TT_DEV_OK &&
                 dev->copy(factor, host + COUNT, 4, stream.handle) == TT_DEV_OK;
    right =
        right && tutti_all_reduce(device, device, COUNT, TUTTI_INT32, r->scaled, r->comm, stream) == TUTTI_OK;
    tutti_group_start();
    tutti_send(device, COUNT, TUTTI_INT32, (r->number + 1) % RANKS, r->comm, stream);
    tutti_recv(shifted, COUNT, TUTTI_INT32, (r->number + RANKS - 1) % RANKS, r->comm, stream);
    right = tutti_group_end() == TUTTI_OK && right;
    right = right && dev->copy(host, shifted, BYTES, stream.handle) == TT_DEV_OK &&
            dev->stream.sync(stream.handle) == TT_DEV_OK;
    for (int i = 0; i < COUNT; i++)
        right = right && host[i] == round * (3 + 3 * (round + i));
    return right;
}

static void *run(void *argument)
{
    struct rank *r = argument;
    void *stream = NULL, *device = NULL, *host = NULL;
    r->right = dev->use(0) == TT_DEV_OK && dev->stream.create(&stream) == TT_DEV_OK &&
               tutti_mem_alloc(2 * BYTES + 4, TUTTI_MEM_CUDA, &device) == TUTTI_OK &&
               dev->memory.alloc_pinned(BYTES + 4, &host) == TT_DEV_OK &&
               tutti_op_create_pre_mul_sum(
                   r->comm, (int32_t *)device + 2 * COUNT, TUTTI_INT32, 1, &r->scaled) == TUTTI_OK;
    tutti_stream on = tutti_cuda_stream(stream);
    for (int round = 0; round < ROUNDS && r->right; round++)
        r->right = sum_and_shift(r, host, device, on, round);
    pthread_barrier_wait(&all_here);
    tutti_status status = r->number == 0
                              ? tutti_comm_abort(r->comm)
                              : tutti_all_reduce(device, device, COUNT, TUTTI_INT32, TUTTI_SUM, r->comm, on);
    r->right =
        r->right && (status == TUTTI_OK || status == TUTTI_ABORTED) && dev->stream.sync(stream) == TT_DEV_OK;
    tutti_comm_destroy(r->comm);
    dev->memory.free_pinned(host);
    tutti_mem_free(device);
    dev->stream.destroy(stream);
    return NULL;
}

static void *capture(const struct rank *r, void *device, tutti_stream stream)
{
    void *graph = NULL, *runnable = NULL;
    pthread_barrier_wait(&all_here); /* what is done before would break the other's capture */
    bool right = dev->graph.capture_begin(stream.handle) == TT_DEV_OK &&
                 tutti_all_reduce(device, device, COUNT, TUTTI_INT32, TUTTI_SUM, r->comm, stream) == TUTTI_OK;
    right = dev->graph.capture_end(stream.handle, &graph) == TT_DEV_OK && right;
    right = right && dev->graph.instantiate(graph, &runnable) == TT_DEV_OK &&
            dev->graph.destroy(graph) == TT_DEV_OK;
    pthread_barrier_wait(&all_here);
    return right ? runnable : NULL;
}

/* The second graph is captured when the first is gone, perhaps not yet altogether. */
static void *replay(void *argument)
{
    struct rank *r = argument;
    void *stream = NULL, *device = NULL, *memory = NULL, *runnable = NULL;
    r->right = dev->use(r->number) == TT_DEV_OK && dev->stream.create(&stream) == TT_DEV_OK &&
               dev->memory.alloc(BYTES, &device) == TT_DEV_OK &&
               dev->memory.alloc_pinned(BYTES, &memory) == TT_DEV_OK;
    tutti_stream on = tutti_cuda_stream(stream);
    int32_t *host = memory;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % (ROUNDS / 2) == 0) {
            r->right = (round == 0 || dev->graph.runnable_destroy(runnable) == TT_DEV_OK) && r->right;
            runnable = capture(r, device, on);
        }
        for (int i = 0; i < COUNT; i++)
            host[i] = r->number + round + i;
        bool right =
            dev->copy(device, host, BYTES, stream) == TT_DEV_OK &&
            dev->graph.launch(runnable, stream) == TT_DEV_OK &&
            tutti_all_reduce(device, device, COUNT, TUTTI_INT32, TUTTI_SUM, r->comm, on) == TUTTI_OK &&
            dev->copy(host, device, BYTES, stream) == TT_DEV_OK && dev->stream.sync(stream) == TT_DEV_OK;
        for (int i = 0; i < COUNT; i++)
            right = right && host[i] == 2 * (1 + 2 * (round + i));
        r->right = r->right && right;
    }
    pthread_barrier_wait(&all_here);
    tutti_comm_destroy(r->comm);
    r->right = r->right && dev->graph.launch(runnable, stream) == TT_DEV_OK &&
               dev->stream.sync(stream) == TT_DEV_OK && dev->graph.runnable_destroy(runnable) == TT_DEV_OK;
    dev->memory.free_pinned(host);
    dev->memory.free(device);
    dev->stream.destroy(stream);
    return NULL;
}

static bool run_ranks(int n, const int *devices, void *(*run_rank)(void *))
{
    struct rank ranks[RANKS];
    tutti_comm *comms[RANKS];
    char options[128];
    snprintf(options, sizeof options, "slice=8192;device_library=%s", library);
    tutti_config config = { .size = sizeof config, .options = options };
    if (tt_dev_find(library, &dev) != TUTTI_OK || tutti_comm_init_all(n, devices, &config, comms) != TUTTI_OK)
        return false;
    bool right = true;
    pthread_barrier_init(&all_here, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){ .number = i, .comm = comms[i] };
        pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(ranks[i].thread, NULL);
        right = right && ranks[i].right;
    }
    return right;
}

bool tsan_device(void)
{
    static const int one[RANKS] = { 0 }, each[GRAPH_RANKS] = { 0, 1 };
    return run_ranks(RANKS, one, run) && run_ranks(GRAPH_RANKS, each, replay);
}
