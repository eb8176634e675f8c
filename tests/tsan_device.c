/* tsan_device.c: calls on a device's stream under ThreadSanitizer: three ranks, threads of one process on one
 * device of the stub's module, which meet, enqueue and go on, until one of them aborts while the others
 * wait. */
#include "tests/tsan_device.h"

#include <pthread.h>
#include <stdio.h>

#include "dev.h"
#include "tutti.h"

enum { RANKS = 3, ROUNDS = 20, COUNT = 10000, BYTES = COUNT * 4 };

static const char library[] = "tests/.libs/libtutti_stub.so";
static const struct tt_dev *dev;
static pthread_barrier_t all_here;

struct rank {
    int number;
    tutti_comm *comm;
    bool right;
    pthread_t thread;
};

static bool sum_and_shift(const struct rank *r, int32_t *host, void *device, tutti_stream stream, int round)
{
    int32_t *shifted = (int32_t *)device + COUNT;
    for (int i = 0; i < COUNT; i++)
        host[i] = r->number + round + i;
    bool right = dev->copy(device, host, BYTES, stream.handle) == TT_DEV_OK;
    right =
        right && tutti_all_reduce(device, device, COUNT, TUTTI_INT32, TUTTI_SUM, r->comm, stream) == TUTTI_OK;
    tutti_group_start();
    tutti_send(device, COUNT, TUTTI_INT32, (r->number + 1) % RANKS, r->comm, stream);
    tutti_recv(shifted, COUNT, TUTTI_INT32, (r->number + RANKS - 1) % RANKS, r->comm, stream);
    right = tutti_group_end() == TUTTI_OK && right;
    right = right && dev->copy(host, shifted, BYTES, stream.handle) == TT_DEV_OK &&
            dev->stream_sync(stream.handle) == TT_DEV_OK;
    for (int i = 0; i < COUNT; i++)
        right = right && host[i] == 3 + 3 * (round + i);
    return right;
}

static void *run(void *argument)
{
    struct rank *r = argument;
    void *stream = NULL, *device = NULL, *host = NULL;
    r->right = dev->use(0) == TT_DEV_OK && dev->stream_create(&stream) == TT_DEV_OK &&
               dev->alloc(2 * BYTES, &device) == TT_DEV_OK && dev->alloc_pinned(BYTES, &host) == TT_DEV_OK;
    tutti_stream on = tutti_cuda_stream(stream);
    for (int round = 0; round < ROUNDS && r->right; round++)
        r->right = sum_and_shift(r, host, device, on, round);
    pthread_barrier_wait(&all_here);
    tutti_status status = r->number == 0
                              ? tutti_comm_abort(r->comm)
                              : tutti_all_reduce(device, device, COUNT, TUTTI_INT32, TUTTI_SUM, r->comm, on);
    r->right =
        r->right && (status == TUTTI_OK || status == TUTTI_ABORTED) && dev->stream_sync(stream) == TT_DEV_OK;
    tutti_comm_destroy(r->comm);
    dev->free_pinned(host);
    dev->free(device);
    dev->stream_destroy(stream);
    return NULL;
}

bool tsan_device(void)
{
    const int devices[RANKS] = { 0 };
    struct rank ranks[RANKS];
    tutti_comm *comms[RANKS];
    char options[128];
    snprintf(options, sizeof options, "slice=8192;device_library=%s", library);
    tutti_config config = { .size = sizeof config, .options = options };
    if (tt_dev_find(library, &dev) != TUTTI_OK ||
        tutti_comm_init_all(RANKS, devices, &config, comms) != TUTTI_OK)
        return false;
    bool right = true;
    pthread_barrier_init(&all_here, NULL, RANKS);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){ .number = i, .comm = comms[i] };
        pthread_create(&ranks[i].thread, NULL, run, &ranks[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(ranks[i].thread, NULL);
        right = right && ranks[i].right;
    }
    return right;
}
