/* SPDX-License-Identifier: BSD-3-Clause */
/* test_nccl_calls.c: collectives, messages and operators through NCCL's names, compared with what each rank
 * computes alone. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_rig.h"
#include "tests/rig/ranks_values.h"

enum { COUNT = 3001, RANKS = 4, TYPE_BYTES = 8 };

struct buffers {
    char *send, *recv, *expected;
};

static struct buffers get_buffers(struct nccl_desk *d)
{
    size_t bytes = (size_t)COUNT * TYPE_BYTES * RANKS;
    return (struct buffers){ nccl_memory(d, bytes), nccl_memory(d, bytes), calloc(1, bytes) };
}

static void same(struct nccl_desk *d, ncclDataType_t type, const void *found, const void *expected,
    size_t count, const char *name)
{
    nccl_settle(d);
    ranks_same(d->me, (tutti_type)type, found, expected, count, name);
}

/* Element i of rank r's block b. */
static void fill_blocks(int type, int rank, int blocks, void *to)
{
    for (int b = 0; b < blocks; b++)
        ranks_fill(&(struct ranks_vector){ (tutti_type)type, RANKS_MOVE, 77 + (uint64_t)b, 1 }, rank, 0,
            COUNT, (char *)to + (size_t)b * COUNT * tutti_type_bytes((tutti_type)type));
}

static void reduce_each(struct nccl_desk *d, const struct buffers *b, ncclDataType_t type, ncclRedOp_t op)
{
    int n = d->me->n, root = n - 1;
    size_t bytes = tutti_type_bytes((tutti_type)type), block = COUNT * bytes;
    struct ranks_vector v = { (tutti_type)type, (tutti_op)op, 5 + (uint64_t)type, n };
    ranks_at(d->me, "type %d, operator %d", (int)type, (int)op);
    ranks_reduced(&v, 0, (size_t)COUNT * n, b->expected);
    ranks_fill(&v, d->me->rank, 0, (size_t)COUNT * n, b->send);
    OK(ncclAllReduce(b->send, b->recv, COUNT, type, op, d->comm, d->stream));
    same(d, type, b->recv, b->expected, COUNT, "ncclAllReduce");
    memset(b->recv, 1, block);
    OK(ncclReduce(b->send, b->recv, COUNT, type, op, root, d->comm, d->stream));
    if (d->me->rank == root)
        same(d, type, b->recv, b->expected, COUNT, "ncclReduce");
    memcpy(b->recv, b->send, block);
    OK(ncclReduce(b->recv, b->recv, COUNT, type, op, root, d->comm, d->stream));
    if (d->me->rank == root)
        same(d, type, b->recv, b->expected, COUNT, "ncclReduce in place");
    nccl_settle(d);
    OK(ncclReduceScatter(b->send, b->recv, COUNT, type, op, d->comm, d->stream));
    same(d, type, b->recv, b->expected + block * d->me->rank, COUNT, "ncclReduceScatter");
    char *mine = b->send + block * d->me->rank;
    OK(ncclReduceScatter(b->send, mine, COUNT, type, op, d->comm, d->stream));
    same(d, type, mine, b->expected + block * d->me->rank, COUNT, "ncclReduceScatter in place");
    ranks_fill(&v, d->me->rank, 0, COUNT, b->send);
    nccl_settle(d);
    OK(ncclAllReduce(b->send, b->send, COUNT, type, op, d->comm, d->stream));
    same(d, type, b->send, b->expected, COUNT, "ncclAllReduce in place");
}

static void reductions(struct nccl_desk *d)
{
    struct buffers b = get_buffers(d);
    for (int type = 0; type < ncclNumTypes; type++)
        for (int op = 0; op < ncclNumOps; op++)
            reduce_each(d, &b, (ncclDataType_t)type, (ncclRedOp_t)op);
}

Test(nccl_calls, reductions)
{
    nccl_run(&(struct nccl_plan){ "reductions", NCCL_EVERYWHERE, 0, reductions, 0, false });
}

static void move_each(struct nccl_desk *d, const struct buffers *b, ncclDataType_t type)
{
    int n = d->me->n, me = d->me->rank, root = n - 1;
    size_t bytes = tutti_type_bytes((tutti_type)type), block = COUNT * bytes;
    fill_blocks(type, me, n, b->send);
    for (int r = 0; r < n; r++)
        fill_blocks(type, r, 1, b->expected + block * r);
    OK(ncclAllGather(b->send, b->recv, COUNT, type, d->comm, d->stream));
    same(d, type, b->recv, b->expected, (size_t)COUNT * n, "ncclAllGather");
    memset(b->recv, 1, block * n);
    memcpy(b->recv + block * me, b->send, block);
    OK(ncclAllGather(b->recv + block * me, b->recv, COUNT, type, d->comm, d->stream));
    same(d, type, b->recv, b->expected, (size_t)COUNT * n, "ncclAllGather in place");
    memset(b->recv, 1, block * n);
    OK(ncclGather(b->send, b->recv, COUNT, type, root, d->comm, d->stream));
    if (me == root)
        same(d, type, b->recv, b->expected, (size_t)COUNT * n, "ncclGather");
    memset(b->recv, 1, block * n);
    memcpy(b->recv + block * me, b->send, block);
    OK(ncclGather(b->recv + block * me, b->recv, COUNT, type, root, d->comm, d->stream));
    if (me == root)
        same(d, type, b->recv, b->expected, (size_t)COUNT * n, "ncclGather in place");
    nccl_settle(d);
    memset(b->recv, 1, block);
    OK(ncclBroadcast(b->send, b->recv, COUNT, type, root, d->comm, d->stream));
    same(d, type, b->recv, b->expected + block * root, COUNT, "ncclBroadcast");
    memcpy(b->recv, b->send, block);
    OK(ncclBcast(b->recv, COUNT, type, 0, d->comm, d->stream));
    same(d, type, b->recv, b->expected, COUNT, "ncclBcast");
    OK(ncclAlltoAll(b->send, b->recv, COUNT, type, d->comm, d->stream));
    for (int r = 0; r < n; r++) {
        fill_blocks(type, r, n, b->expected);
        same(d, type, b->recv + block * r, b->expected + block * me, COUNT, "ncclAlltoAll");
    }
    OK(ncclScatter(b->send, b->recv, COUNT, type, root, d->comm, d->stream));
    fill_blocks(type, root, n, b->expected);
    same(d, type, b->recv, b->expected + block * me, COUNT, "ncclScatter");
    char *mine = me == root ? b->send + block * me : b->recv;
    OK(ncclScatter(b->send, mine, COUNT, type, root, d->comm, d->stream));
    same(d, type, mine, b->expected + block * me, COUNT, "ncclScatter in place");
}

/* Nothing of each: no buffers are needed. */
static void nothing(struct nccl_desk *d)
{
    int n = d->me->n, me = d->me->rank;
    ncclComm_t c = d->comm;
    OK(ncclAllReduce(NULL, NULL, 0, ncclFloat, ncclSum, c, d->stream));
    OK(ncclReduce(NULL, NULL, 0, ncclFloat, ncclSum, n - 1, c, d->stream));
    OK(ncclReduceScatter(NULL, NULL, 0, ncclFloat, ncclAvg, c, d->stream));
    OK(ncclBroadcast(NULL, NULL, 0, ncclFloat, 0, c, d->stream));
    OK(ncclBcast(NULL, 0, ncclFloat, 0, c, d->stream));
    OK(ncclAllGather(NULL, NULL, 0, ncclFloat, c, d->stream));
    OK(ncclAlltoAll(NULL, NULL, 0, ncclFloat, c, d->stream));
    OK(ncclGather(NULL, NULL, 0, ncclFloat, n - 1, c, d->stream));
    OK(ncclScatter(NULL, NULL, 0, ncclFloat, n - 1, c, d->stream));
    OK(ncclGroupStart());
    OK(ncclSend(NULL, 0, ncclFloat, (me + 1) % n, c, d->stream));
    OK(ncclRecv(NULL, 0, ncclFloat, (me + n - 1) % n, c, d->stream));
    OK(ncclGroupEnd());
    nccl_settle(d);
    nccl_works(d, c, n);
}

Test(nccl_calls, nothing)
{
    plugin_must_have_kernels();
    nccl_run(&(struct nccl_plan){ "nothing", NCCL_EVERYWHERE, 0, nothing, 0, false });
    nccl_run(&(struct nccl_plan){ "nothing of three", NCCL_EVERYWHERE, 3, nothing, 0, true });
}

static void moves(struct nccl_desk *d)
{
    struct buffers b = get_buffers(d);
    for (int type = 0; type < ncclNumTypes; type++)
        move_each(d, &b, (ncclDataType_t)type);
}

Test(nccl_calls, moves)
{
    nccl_run(&(struct nccl_plan){ "moves", NCCL_EVERYWHERE, 0, moves, 0, false });
}

/* With the names that have a config. */
static void with_configs(struct nccl_desk *d)
{
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER, wrong = config, event = config;
    float *f = nccl_memory(d, 64), *g = nccl_memory(d, 64);
    int n = d->me->n;
    f[0] = f[1] = f[2] = f[3] = 1;
    OK(ncclAllReduceConfig(f, g, 1, ncclFloat, ncclSum, d->comm, d->stream, &config));
    nccl_settle(d);
    EXPECT(g[0] == (float)n);
    OK(ncclReduceConfig(f, g, 1, ncclFloat, ncclSum, 0, d->comm, d->stream, NULL));
    OK(ncclReduceScatterConfig(f, g, 1, ncclFloat, ncclSum, d->comm, d->stream, &config));
    nccl_settle(d);
    EXPECT(g[0] == (float)n);
    OK(ncclAllGatherConfig(f, g, 1, ncclFloat, d->comm, d->stream, &config));
    OK(ncclAlltoAllConfig(f, g, 1, ncclFloat, d->comm, d->stream, &config));
    OK(ncclBroadcastConfig(f, g, 1, ncclFloat, 0, d->comm, d->stream, &config));
    OK(ncclGatherConfig(f, g, 1, ncclFloat, 0, d->comm, d->stream, &config));
    OK(ncclScatterConfig(f, g, 1, ncclFloat, 0, d->comm, d->stream, &config));
    nccl_settle(d);
    EXPECT(g[0] == 1);
    wrong.magic = 1;
    event.launchCompletionEvent = (cudaEvent_t)(void *)f;
    REFUSED(ncclAllReduceConfig(f, g, 1, ncclFloat, ncclSum, d->comm, d->stream, &wrong), ncclInvalidArgument,
        "ncclAllReduceConfig|INITIALIZER");
    REFUSED(ncclGatherConfig(f, g, 1, ncclFloat, 0, d->comm, d->stream, &event), ncclInvalidUsage,
        "launchCompletionEvent|cudaEventRecord");
}

Test(nccl_calls, with_configs)
{
    nccl_run(&(struct nccl_plan){ "configs of calls", NCCL_EVERYWHERE, 2, with_configs, 0, false });
}

/* Of what NCCL promises for averages: no overflow, and two units in the last place. */
static void averages(struct nccl_desk *d)
{
    static const struct {
        ncclDataType_t type;
        double value; /* whose sum of four leaves the range */
    } cases[] = { { ncclFloat16, 40000 }, { ncclFloat8e4m3, 320 }, { ncclFloat8e5m2, 40960 },
        { ncclBfloat16, 3 }, { ncclFloat32, 7.5 }, { ncclFloat64, 0.1 } };
    char *send = nccl_memory(d, 64), *recv = nccl_memory(d, 64);
    setenv("TUTTI_ALGO", "all_reduce:ring", 1); /* which stores partial sums: they must not overflow either */
    ncclComm_t comm = nccl_join(d, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tutti_type type = (tutti_type)cases[i].type;
        for (int k = 0; k < 4; k++)
            ranks_encode(type, cases[i].value, send + (size_t)k * tutti_type_bytes(type));
        OK(ncclAllReduce(send, recv, 4, cases[i].type, ncclAvg, comm, d->stream));
        nccl_settle(d);
        double given = ranks_decode(type, send), got = ranks_decode(type, recv);
        double ulp = type == TUTTI_FLOAT8_E4M3 ? 1.0 / 8 : type == TUTTI_FLOAT8_E5M2 ? 1.0 / 4 : 1.0 / 128;
        ranks_expect(d->me, got <= given * (1 + 2 * ulp) && got >= given * (1 - 2 * ulp),
            "the average of type %d of equal numbers %g is %g", (int)type, given, got);
    }
    OK(ncclCommDestroy(comm));
}

Test(nccl_calls, averages)
{
    nccl_run(&(struct nccl_plan){ "averages", NCCL_EVERYWHERE, 4, averages, 0, true });
    nccl_run(&(struct nccl_plan){ "averages of three", NCCL_ON_HOST, 3, averages, 0, true });
}

static void factors(struct nccl_desk *d)
{
    float *f = nccl_memory(d, 4 * COUNT), factor = (float)(d->me->rank + 1);
    int n = d->me->n;
    ncclRedOp_t op, other;
    for (int i = 0; i < COUNT; i++)
        f[i] = 1;
    OK(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat, ncclScalarHostImmediate, d->comm));
    EXPECT((unsigned int)op >= ncclNumOps);
    factor = 99; /* it was read */
    OK(ncclAllReduce(f, f, COUNT, ncclFloat, op, d->comm, d->stream));
    nccl_settle(d);
    EXPECT(f[0] == (float)(n * (n + 1) / 2) && f[COUNT - 1] == f[0]);
    OK(ncclRedOpDestroy(op, d->comm));
    REFUSED(ncclRedOpDestroy(op, d->comm), ncclInvalidArgument, "");
    /* Destroyed while its group is open, as PyTorch does. */
    f[0] = 1;
    factor = 2;
    OK(ncclGroupStart());
    OK(ncclRedOpCreatePreMulSum(&other, &factor, ncclFloat, ncclScalarHostImmediate, d->comm));
    OK(ncclAllReduce(f, f, 1, ncclFloat, other, d->comm, d->stream));
    OK(ncclRedOpDestroy(other, d->comm));
    OK(ncclGroupEnd());
    nccl_settle(d);
    EXPECT(f[0] == (float)(2 * n));
    if (d->dev == NULL)
        return;
    float *there = nccl_memory(d, sizeof *there);
    *there = 3;
    f[0] = 1;
    OK(ncclRedOpCreatePreMulSum(&op, there, ncclFloat, ncclScalarDevice, d->comm));
    OK(ncclAllReduce(f, f, 1, ncclFloat, op, d->comm, d->stream));
    OK(ncclRedOpDestroy(op, d->comm));
    nccl_settle(d);
    EXPECT(f[0] == (float)(3 * n));
}

Test(nccl_calls, factors)
{
    nccl_run(&(struct nccl_plan){ "factors", NCCL_EVERYWHERE, 0, factors, 0, false });
}

static void messages(struct nccl_desk *d)
{
    int n = d->me->n, me = d->me->rank, next = (me + 1) % n, before = (me + n - 1) % n;
    int *send = nccl_memory(d, 4 * COUNT), *recv = nccl_memory(d, 4 * COUNT);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++)
            send[i] = me * 1000000 + round * 10000 + i;
        OK(ncclGroupStart());
        OK(ncclSend(send, COUNT, ncclInt, next, d->comm, d->stream));
        OK(ncclRecv(recv, COUNT, ncclInt, before, d->comm, d->stream));
        OK(ncclGroupEnd());
        nccl_settle(d);
        EXPECT(recv[0] == before * 1000000 + round * 10000 && recv[COUNT - 1] == recv[0] + COUNT - 1);
    }
    if (n < 2 || me > 1)
        return;
    if (me == 0) /* without a group */
        OK(ncclSend(send, COUNT, ncclInt, 1, d->comm, d->stream));
    else
        OK(ncclRecv(recv, COUNT, ncclInt, 0, d->comm, d->stream));
    nccl_settle(d);
    EXPECT(me == 0 || recv[5] == 20005);
}

Test(nccl_calls, messages)
{
    nccl_run(&(struct nccl_plan){ "messages", NCCL_EVERYWHERE, 0, messages, 0, false });
}
