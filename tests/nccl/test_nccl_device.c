/* SPDX-License-Identifier: BSD-3-Clause */
/* test_nccl_device.c: what needs a device: streams, graphs, memory of the device and registration. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/handle.h"
#include "nccl/shim.h"
#include "nccl_rig.h"
#include "run/comm.h"

enum { COUNT = 5000, BYTES = COUNT * 4 };

static bool fine(struct nccl_desk *d, enum tt_dev_error error)
{
    return ranks_expect(d->me, error == TT_DEV_OK, "device: %s", error == TT_DEV_OK ? "" : d->dev->why());
}

/* All ranks reach each other's memory through the pointers of a window, by copies as by kernels. */
static void reach_peers(struct nccl_desk *d, ncclWindow_t window, int *mine, int *host)
{
    void *there = NULL;
    int me = d->me->rank, n = d->me->n, last = COUNT - 1;
    for (int i = 0; i < COUNT; i++)
        host[i] = 1000 * me + i;
    fine(d, d->dev->copy(mine, host, BYTES, d->stream));
    fine(d, d->dev->stream.sync(d->stream));
    ranks_meet(d->me);
    for (int r = 0; r < n; r++) {
        OK(ncclGetPeerDevicePointer(window, (size_t)last * sizeof(int), r, &there));
        if (!EXPECT(there != NULL))
            continue;
        fine(d, d->dev->copy(host, there, sizeof(int), d->stream));
        fine(d, d->dev->stream.sync(d->stream));
        ranks_expect(d->me, host[0] == 1000 * r + last, "at the pointer of rank %d is %d", r, host[0]);
    }
    ranks_meet(d->me);
    /* What one stores into the next one's memory that one has. */
    OK(ncclGetPeerDevicePointer(window, 0, (me + 1) % n, &there));
    host[0] = 77 + me;
    if (there != NULL)
        fine(d, d->dev->copy(there, host, sizeof(int), d->stream));
    fine(d, d->dev->stream.sync(d->stream));
    ranks_meet(d->me);
    fine(d, d->dev->copy(host, mine, sizeof(int), d->stream));
    fine(d, d->dev->stream.sync(d->stream));
    EXPECT(host[0] == 77 + (me + n - 1) % n);
    ranks_meet(d->me);
    REFUSED(ncclGetPeerDevicePointer(window, 0, n, &there), ncclInvalidArgument, "peer");
    REFUSED(ncclGetPeerDevicePointer(window, 0, -1, &there), ncclInvalidArgument, "peer");
    OK(ncclGetLsaDevicePointer(window, 4, 0, &there));
    EXPECT(there == mine + 1);
    REFUSED(ncclGetLsaDevicePointer(window, 0, 1, &there), ncclInvalidArgument,
        "lsaRank is 1|ncclGetPeerDevicePointer");
}

/* Memory of ncclMemAlloc, registered or not, on two streams. The window is a part of its allocation. */
static void device_memory(struct nccl_desk *d)
{
    enum { BEFORE = 4096 };
    void *memory[2] = { NULL, NULL }, *handle = NULL, *found = NULL, *other = NULL;
    ncclWindow_t window = NULL;
    int *host = nccl_memory(d, BYTES);
    for (int i = 0; i < 2; i++)
        OK(ncclMemAlloc(&memory[i], BEFORE + BYTES));
    if (memory[1] == NULL)
        return;
    void *part = (char *)memory[1] + BEFORE;
    OK(ncclCommRegister(d->comm, memory[0], BYTES, &handle));
    OK(ncclCommWindowRegister(d->comm, part, BYTES, &window, NCCL_WIN_COLL_SYMMETRIC));
    EXPECT(handle != NULL && window != NULL);
    OK(ncclWinGetUserPtr(d->comm, window, &found));
    EXPECT(found == part);
    reach_peers(d, window, part, host);
    fine(d, d->dev->stream.create(&other));
    for (int round = 0; round < 3; round++) {
        void *stream = round % 2 == 0 ? d->stream : other;
        for (int i = 0; i < COUNT; i++)
            host[i] = i + round;
        fine(d, d->dev->copy(memory[0], host, BYTES, stream));
        OK(ncclAllReduce(memory[0], part, COUNT, ncclInt, ncclSum, d->comm, stream));
        fine(d, d->dev->copy(host, part, BYTES, stream));
        fine(d, d->dev->stream.sync(stream));
        EXPECT(host[COUNT - 1] == d->me->n * (COUNT - 1 + round) && host[0] == d->me->n * round);
    }
    OK(ncclCommDeregister(d->comm, handle));
    REFUSED(ncclCommDeregister(d->comm, handle), ncclInvalidArgument, "");
    OK(ncclCommWindowDeregister(d->comm, window));
    OK(ncclCommDeregister(d->comm, NULL));
    for (int i = 0; i < 2; i++)
        OK(ncclMemFree(memory[i]));
    fine(d, d->dev->stream.destroy(other));
}

Test(nccl_device, device_memory)
{
    plugin_must_have_kernels();
    nccl_run(&(struct nccl_plan){ "memory of a device", NCCL_ON_STUB, 2, device_memory, 0, false });
}

/* Small calls of a group are enqueued together, also where it has two communicators and two streams, whose
 * calls take turns: fewer pieces of work than one by one. */
static uint64_t pieces(void)
{
    static const char *const work[] = { "copy", "copy_rows", "write_word", "wait_word", "event_wait",
        "event_record", "launch" };
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof work / sizeof work[0]; i++)
        sum += plugin_stub()->calls(work[i]);
    return sum;
}

enum { SMALL = 200, APART = 16 };
struct small_calls {
    ncclComm_t comms[2];
    void *streams[2];
    int *host, *memory; /* of the device */
};

static uint64_t sum_small(struct nccl_desk *d, const struct small_calls *s, bool group)
{
    for (int i = 0; i < SMALL; i++)
        s->host[APART * i] = 1;
    /* Of a communicator, a group waits for what each of its streams has before, and they wait for it. */
    bool ordered = group && s->comms[0] == s->comms[1];
    fine(d, d->dev->copy(s->memory, s->host, SMALL * APART * sizeof(int), s->streams[1]));
    if (!ordered)
        fine(d, d->dev->stream.sync(s->streams[1]));
    ranks_meet(d->me);
    uint64_t before = pieces();
    if (group)
        OK(ncclGroupStart());
    for (int i = 0; i < SMALL; i++)
        OK(ncclAllReduce(s->memory + APART * i, s->memory + APART * i, 4, ncclInt, ncclSum,
            s->comms[i / 3 % 2], s->streams[i / 3 % 2]));
    if (group)
        OK(ncclGroupEnd());
    uint64_t took = pieces() - before;
    for (int k = 0; k < 2 && !ordered; k++)
        fine(d, d->dev->stream.sync(s->streams[k]));
    fine(d, d->dev->copy(s->host, s->memory, SMALL * APART * sizeof(int), s->streams[1]));
    fine(d, d->dev->stream.sync(s->streams[1]));
    for (int i = 0; i < SMALL; i++)
        EXPECT(s->host[APART * i] == d->me->n);
    return took;
}

static void expect_fewer(struct nccl_desk *d, const struct small_calls *s, const char *what, uint64_t part)
{
    uint64_t alone = sum_small(d, s, false), together = sum_small(d, s, true);
    ranks_expect(d->me, part * together < alone, "%s: %d calls are %llu pieces one by one, %llu in a group",
        what, SMALL, (unsigned long long)alone, (unsigned long long)together);
}

static void small_calls(struct nccl_desk *d)
{
    struct small_calls s = { .comms = { d->comm, d->comm }, .streams = { d->stream, d->stream } };
    void *memory = NULL;
    ncclComm_t other = nccl_join(d, NULL);
    s.host = nccl_memory(d, SMALL * APART * sizeof(int));
    OK(ncclMemAlloc(&memory, SMALL * APART * sizeof(int)));
    if (other == NULL || (s.memory = memory) == NULL)
        return;
    expect_fewer(d, &s, "one of each", 20);
    if (fine(d, d->dev->stream.create(&s.streams[1])))
        expect_fewer(d, &s, "two streams", 20);
    s.comms[1] = other;
    expect_fewer(d, &s, "two communicators", 1);
    OK(ncclCommDestroy(other));
    OK(ncclMemFree(memory));
}

Test(nccl_device, small_calls_of_a_group_go_together)
{
    plugin_must_have_kernels();
    nccl_run(&(struct nccl_plan){ "small calls", NCCL_ON_STUB, 2, small_calls, 0, true });
}

/* Factors as PyTorch gives them: for bfloat16 a float32, as a number or on the device, where the stream may
 * write it before the call; for others one of the type. */
static void factors_of_torch(struct nccl_desk *d)
{
    uint16_t *v = nccl_memory(d, 64), half_of_four = 0x4400; /* float16 */
    float *factor = nccl_memory(d, 64), number = 0.3F;
    uint16_t *half = (uint16_t *)(void *)(factor + 8);
    ncclRedOp_t op;
    int n = d->me->n;
    for (int where = 0; where < 2; where++) {
        void *scalar = where == 0 ? &number : factor;
        ncclScalarResidence_t residence = where == 0 ? ncclScalarHostImmediate : ncclScalarDevice;
        *factor = 5; /* not yet what it will be */
        OK(tt_nccl_create_factor(&op, scalar, ncclBfloat16, residence, d->comm, true));
        *factor = 0.3F;
        v[0] = 0x3f80; /* 1 in bfloat16 */
        OK(ncclAllReduce(v, v, 1, ncclBfloat16, op, d->comm, d->stream));
        nccl_settle(d);
        uint32_t bits = (uint32_t)v[0] << 16;
        float sum;
        memcpy(&sum, &bits, sizeof sum);
        float off = sum - 0.3F * (float)n;
        ranks_expect(d->me, off < 0.005F * (float)n && off > -0.005F * (float)n, "%s: the sum is %g",
            where == 0 ? "a number" : "on the device", (double)sum);
        OK(ncclRedOpDestroy(op, d->comm));
    }
    for (int where = 0; where < 2; where++) { /* float16 is float16 */
        *half = half_of_four;
        v[0] = 0x3c00;
        OK(tt_nccl_create_factor(&op, where == 0 ? &half_of_four : half, ncclFloat16,
            where == 0 ? ncclScalarHostImmediate : ncclScalarDevice, d->comm, true));
        OK(ncclAllReduce(v, v, 1, ncclFloat16, op, d->comm, d->stream));
        nccl_settle(d);
        ranks_expect(d->me, v[0] == (n == 1 ? 0x4400 : 0x4800), "the sum is %#x", v[0]);
        OK(ncclRedOpDestroy(op, d->comm));
    }
}

Test(nccl_device, factors_of_torch)
{
    for (int n = 1; n <= 2; n++)
        nccl_run(&(struct nccl_plan){ "factors", NCCL_ON_STUB, n, factors_of_torch, 0, false });
}

/* As with NCCL no call has a deadline, of whatever communicator. */
static void no_deadline(struct nccl_desk *d)
{
    ncclComm_t child = NULL, alone = NULL;
    OK(ncclCommSplit(d->comm, 0, 0, &child, NULL));
    OK(ncclCommInitAll(&alone, 1, NULL));
    EXPECT(tt_comm_find(d->comm->tutti)->waiting.timeout_ms == -1);
    EXPECT(tt_comm_find(child->tutti)->waiting.timeout_ms == -1);
    EXPECT(tt_comm_find(alone->tutti)->waiting.timeout_ms == -1);
    OK(ncclCommDestroy(child));
    OK(ncclCommDestroy(alone));
}

Test(nccl_device, no_deadline)
{
    nccl_run(&(struct nccl_plan){ "no deadline", NCCL_EVERYWHERE, 2, no_deadline, 0, true });
}

/* The default stream of a device serves as any other. */
static void default_stream(struct nccl_desk *d)
{
    float *f = nccl_memory(d, 64);
    *f = 2;
    OK(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, NULL));
    fine(d, d->dev->stream.sync(NULL));
    EXPECT(*f == (float)(2 * d->me->n));
}

Test(nccl_device, default_stream)
{
    nccl_run(&(struct nccl_plan){ "the default stream", NCCL_ON_STUB, 2, default_stream, 0, false });
}

/* More calls than a model has layers, in several graphs; replays give what calls would. */
static void graphs(struct nccl_desk *d)
{
    enum { GRAPHS = 6, CALLS = 50 };
    float *f = nccl_memory(d, 4096);
    void *graph = NULL, *run[GRAPHS];
    for (int g = 0; g < GRAPHS; g++) {
        if (!fine(d, d->dev->graph.capture_begin(d->stream)))
            return;
        for (int k = 0; k < CALLS; k++)
            OK(ncclAllReduce(f, f, 1000, ncclFloat, k == 0 ? ncclSum : ncclMax, d->comm, d->stream));
        OK(ncclGroupStart());
        OK(ncclAllReduce(f, f, 1000, ncclFloat, ncclAvg, d->comm, d->stream));
        OK(ncclAllReduce(f, f, 1000, ncclFloat, ncclMin, d->comm, d->stream));
        OK(ncclGroupEnd());
        fine(d, d->dev->graph.capture_end(d->stream, &graph));
        fine(d, d->dev->graph.instantiate(graph, &run[g]));
        fine(d, d->dev->graph.destroy(graph));
    }
    for (int g = 0; g < GRAPHS; g++) {
        f[999] = (float)(g + 1);
        fine(d, d->dev->graph.launch(run[g], d->stream));
        nccl_settle(d);
        EXPECT(f[999] == (float)((g + 1) * d->me->n));
    }
    for (int g = 0; g < GRAPHS; g++)
        fine(d, d->dev->graph.runnable_destroy(run[g]));
}

Test(nccl_device, graphs)
{
    nccl_run(&(struct nccl_plan){ "graphs", NCCL_ON_STUB, 2, graphs, 0, true });
}

/* A communicator of a thread that has called nothing of CUDA yet has device 0, as NCCL's has. */
static void *call_first(void *argument)
{
    struct nccl_desk *d = argument;
    ncclUniqueId id;
    ncclComm_t comm = NULL;
    int device = -7;
    OK(ncclGetUniqueId(&id));
    OK(ncclCommInitRank(&comm, 1, id, 0));
    OK(ncclCommCuDevice(comm, &device));
    EXPECT(device == 0);
    OK(ncclCommDestroy(comm));
    return NULL;
}

static void first_thing(struct nccl_desk *d)
{
    pthread_t thread;
    if (EXPECT(pthread_create(&thread, NULL, call_first, d) == 0))
        pthread_join(thread, NULL);
}

Test(nccl_device, first_thing)
{
    nccl_run(&(struct nccl_plan){ "the first thing", NCCL_ON_STUB, 1, first_thing, 0, true });
}
