/* SPDX-License-Identifier: BSD-3-Clause */
/* test_nccl_group.c: groups: what starts together, what does not start, and what they cost. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_rig.h"

enum { COUNT = 2000 };

static void exchanges(struct nccl_desk *d)
{
    int n = d->me->n, me = d->me->rank;
    float *f = nccl_memory(d, 4 * COUNT * n), *g = nccl_memory(d, 4 * COUNT * n),
          *h = nccl_memory(d, 4 * COUNT), *k = nccl_memory(d, 4 * COUNT);
    for (int i = 0; i < COUNT * n; i++)
        f[i] = (float)(me * 100 + i / COUNT);
    for (int i = 0; i < COUNT; i++) {
        h[i] = 1;
        k[i] = 2;
    }
    OK(ncclGroupStart());
    for (int r = 0; r < n; r++) { /* to itself, too */
        OK(ncclSend(f + r * COUNT, COUNT, ncclFloat, r, d->comm, d->stream));
        OK(ncclRecv(g + r * COUNT, COUNT, ncclFloat, r, d->comm, d->stream));
    }
    OK(ncclGroupEnd());
    nccl_settle(d);
    for (int r = 0; r < n; r++)
        EXPECT(g[r * COUNT] == (float)(r * 100 + me) && g[r * COUNT + COUNT - 1] == g[r * COUNT]);
    OK(ncclGroupStart());
    OK(ncclGroupStart());
    OK(ncclAllReduce(h, h, COUNT, ncclFloat, ncclSum, d->comm, d->stream));
    OK(ncclGroupEnd());
    OK(ncclAllReduce(k, k, COUNT, ncclFloat, ncclSum, d->comm, d->stream));
    OK(ncclSend(f, 10, ncclFloat, (me + 1) % n, d->comm, d->stream));
    OK(ncclRecv(g, 10, ncclFloat, (me + n - 1) % n, d->comm, d->stream));
    OK(ncclGroupEnd());
    nccl_settle(d);
    EXPECT(h[7] == (float)n && k[7] == (float)(2 * n) && g[0] == (float)((me + n - 1) % n * 100));
    OK(ncclGroupStart());
    OK(ncclGroupEnd());
    REFUSED(ncclGroupEnd(), ncclInvalidUsage, "no open group");
}

Test(nccl_group, exchanges)
{
    nccl_run(&(struct nccl_plan){ "exchanges", NCCL_EVERYWHERE, 0, exchanges, 0, false });
}

/* Blocks of different length, as PyTorch makes them: broadcasts in a group. */
static void broadcasts(struct nccl_desk *d)
{
    int n = d->me->n;
    int *f = nccl_memory(d, 4 * COUNT * n);
    for (int i = 0; i < COUNT * n; i++)
        f[i] = d->me->rank * 1000000 + i;
    OK(ncclGroupStart());
    for (int r = 0; r < n; r++)
        OK(ncclBroadcast(
            f + r * COUNT, f + r * COUNT, (size_t)(COUNT - 100 * r), ncclInt, r, d->comm, d->stream));
    OK(ncclGroupEnd());
    nccl_settle(d);
    for (int r = 0; r < n; r++)
        EXPECT(f[r * COUNT + 3] == r * 1000000 + r * COUNT + 3);
}

Test(nccl_group, broadcasts)
{
    nccl_run(&(struct nccl_plan){ "broadcasts", NCCL_EVERYWHERE, 0, broadcasts, 0, false });
}

/* A call that is wrong: the end tells, nothing started, and the communicator goes on. The last error is the
 * process's, so ranks that are threads look at each before there is another. */
static void wrong_calls(struct nccl_desk *d)
{
    float *f = nccl_memory(d, 64);
    *f = 1;
    REFUSED(ncclGroupEnd(), ncclInvalidUsage, "ncclGroupEnd|ncclGroupStart");
    ranks_meet(d->me);
    OK(ncclGroupStart());
    OK(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream));
    REFUSED(ncclAllReduce(f, f, 1, ncclFloat, (ncclRedOp_t)7, d->comm, d->stream), ncclInvalidArgument,
        "op is 7");
    ranks_meet(d->me);
    REFUSED(ncclGroupEnd(), ncclInvalidArgument, "");
    nccl_settle(d);
    EXPECT(*f == 1);
    ranks_meet(d->me);
    OK(ncclGroupStart()); /* that Tutti finds */
    OK(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream));
    REFUSED(ncclBroadcast(f, f, 1, ncclFloat, 99, d->comm, d->stream), ncclInvalidArgument, "99");
    OK(ncclGroupStart());
    ncclResult_t inner = ncclGroupEnd();
    EXPECT(inner == ncclInvalidArgument);
    REFUSED(ncclGroupEnd(), ncclInvalidArgument, "99");
    nccl_settle(d);
    EXPECT(*f == 1);
    nccl_works(d, d->comm, d->me->n);
}

Test(nccl_group, wrong_calls)
{
    nccl_run(&(struct nccl_plan){ "wrong calls", NCCL_EVERYWHERE, 2, wrong_calls, 0, false });
}

static void simulated(struct nccl_desk *d)
{
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER, wrong = info;
    float *f = nccl_memory(d, 64);
    *f = 1;
    OK(ncclGroupStart());
    OK(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream));
    OK(ncclGroupSimulateEnd(&info));
    nccl_settle(d);
    EXPECT(*f == 1);
    float one = info.estimatedTime, *g = nccl_memory(d, 4 << 20);
    OK(ncclGroupStart());
    OK(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream));
    OK(ncclAllReduce(g, g, 1 << 20, ncclFloat, ncclSum, d->comm, d->stream));
    OK(ncclSend(g, 1 << 20, ncclFloat, 1 - d->me->rank, d->comm, d->stream));
    OK(ncclGroupSimulateEnd(&info));
    EXPECT(one > 0 && info.estimatedTime > one); /* on a device 4 MiB take little longer than a call does */
    wrong.magic = 5;
    OK(ncclGroupStart());
    REFUSED(ncclGroupSimulateEnd(&wrong), ncclInvalidArgument, "NCCL_SIM_INFO_INITIALIZER");
    REFUSED(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "ncclGroupStart");
    nccl_works(d, d->comm, d->me->n);
}

Test(nccl_group, simulated)
{
    nccl_run(&(struct nccl_plan){ "simulated", NCCL_EVERYWHERE, 2, simulated, 0, false });
}

/* Two communicators in a group, in another order at each rank. */
static void two_communicators(struct nccl_desk *d)
{
    ncclComm_t other = nccl_join(d, NULL);
    float *f = nccl_memory(d, 64), *g = nccl_memory(d, 64);
    *f = *g = 1;
    OK(ncclGroupStart());
    if (d->me->rank % 2 == 0)
        OK(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream));
    OK(ncclAllReduce(g, g, 1, ncclFloat, ncclProd, other, d->stream));
    if (d->me->rank % 2 == 1)
        OK(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream));
    OK(ncclGroupEnd());
    nccl_settle(d);
    EXPECT(*f == (float)d->me->n && *g == 1);
    OK(ncclCommDestroy(other));
}

Test(nccl_group, two_communicators)
{
    nccl_run(&(struct nccl_plan){ "two communicators", NCCL_ON_HOST, 0, two_communicators, 0, false });
}

/* What a group of many small calls costs is a matter of their number, not of its square: in groups of 400 and
 * of 1600 they take no more than a few times as long as one by one, in the same minute and by turns. */
enum { SMALL_CALLS = 1600 };
static double milliseconds(struct nccl_desk *d, float *f, int of_a_group)
{
    int64_t begin = ranks_now_ms();
    for (int i = 0; i < SMALL_CALLS; i++) {
        if (of_a_group > 0 && i % of_a_group == 0)
            OK(ncclGroupStart());
        OK(ncclAllReduce(f + 64 * i, f + 64 * i, 64, ncclFloat, ncclMax, d->comm, d->stream));
        if (of_a_group > 0 && i % of_a_group == of_a_group - 1)
            OK(ncclGroupEnd());
    }
    nccl_settle(d);
    return (double)(ranks_now_ms() - begin);
}

static void many_calls(struct nccl_desk *d)
{
    float *f = nccl_memory(d, 4 * 64 * SMALL_CALLS);
    double alone = 0, few = 0, many = 0;
    for (int turn = 0; turn < 3; turn++) {
        alone += milliseconds(d, f, 0);
        few += milliseconds(d, f, 400);
        many += milliseconds(d, f, SMALL_CALLS);
    }
    ranks_expect(d->me, few < 2 * alone + 100 && many < 2 * alone + 100,
        "1600 calls: %g ms one by one, %g ms in groups of 400, %g ms in one", alone, few, many);
}

Test(nccl_group, many_calls)
{
    nccl_run(&(struct nccl_plan){ "many calls", NCCL_ON_HOST, 2, many_calls, 0, true });
}
