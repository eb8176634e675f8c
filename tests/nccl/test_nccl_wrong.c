/* SPDX-License-Identifier: BSD-3-Clause */
/* test_nccl_wrong.c: wrong calls give what NCCL's documentation says, with words that name the argument,
 * and the communicator goes on. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nccl_rig.h"

/* --- Every call with each of its arguments wrong */

struct arguments {
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int root; /* or peer */
    ncclComm_t comm;
    cudaStream_t stream;
};
enum { HAS_SEND = 1, HAS_RECV = 2, HAS_OP = 4, HAS_ROOT = 8, IS_MESSAGE = 16 };

#define ONE(name, ...)                                                                                       \
    static ncclResult_t call_##name(const struct arguments *a)                                               \
    {                                                                                                        \
        return nccl##name(__VA_ARGS__, a->comm, a->stream);                                                  \
    }
ONE(AllReduce, a->send, a->recv, a->count, a->type, a->op)
ONE(Reduce, a->send, a->recv, a->count, a->type, a->op, a->root)
ONE(ReduceScatter, a->send, a->recv, a->count, a->type, a->op)
ONE(Broadcast, a->send, a->recv, a->count, a->type, a->root)
ONE(Bcast, a->recv, a->count, a->type, a->root)
ONE(AllGather, a->send, a->recv, a->count, a->type)
ONE(AlltoAll, a->send, a->recv, a->count, a->type)
ONE(Gather, a->send, a->recv, a->count, a->type, a->root)
ONE(Scatter, a->send, a->recv, a->count, a->type, a->root)
ONE(Send, a->send, a->count, a->type, a->root)
ONE(Recv, a->recv, a->count, a->type, a->root)

static const struct {
    const char *name;
    ncclResult_t (*call)(const struct arguments *a);
    int has;
} calls[] = {
    { "ncclAllReduce", call_AllReduce, HAS_SEND | HAS_RECV | HAS_OP },
    { "ncclReduce", call_Reduce, HAS_SEND | HAS_RECV | HAS_OP | HAS_ROOT },
    { "ncclReduceScatter", call_ReduceScatter, HAS_SEND | HAS_RECV | HAS_OP },
    { "ncclBroadcast", call_Broadcast, HAS_SEND | HAS_RECV | HAS_ROOT },
    { "ncclBcast", call_Bcast, HAS_RECV | HAS_ROOT },
    { "ncclAllGather", call_AllGather, HAS_SEND | HAS_RECV },
    { "ncclAlltoAll", call_AlltoAll, HAS_SEND | HAS_RECV },
    { "ncclGather", call_Gather, HAS_SEND | HAS_RECV | HAS_ROOT },
    { "ncclScatter", call_Scatter, HAS_SEND | HAS_RECV | HAS_ROOT },
    { "ncclSend", call_Send, HAS_SEND | HAS_ROOT | IS_MESSAGE },
    { "ncclRecv", call_Recv, HAS_RECV | HAS_ROOT | IS_MESSAGE },
};

static void wrong(
    struct nccl_desk *d, size_t which, const struct arguments *a, const char *what, const char *names)
{
    ranks_at(d->me, "%s, %s", calls[which].name, what);
    nccl_refused(d, calls[which].call(a), ncclInvalidArgument, calls[which].name, names);
}

static void each_argument(struct nccl_desk *d)
{
    float *send = nccl_memory(d, 4096), *recv = nccl_memory(d, 4096);
    static const int types[] = { -1, 12, 99, INT32_MAX }, ops[] = { -1, 5, 15, 16, 18, 300, INT32_MAX };
    static const int roots[] = { -1, -2, 1, 100 };
    ncclComm_t dead = nccl_join(d, NULL);
    OK(ncclCommDestroy(dead));
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++) {
        struct arguments good = { send, recv, 8, ncclFloat, ncclSum, 0, d->comm, d->stream }, a = good;
        a.comm = NULL;
        wrong(d, c, &a, "comm NULL", "comm is NULL");
        a.comm = dead;
        wrong(d, c, &a, "a dead comm", "destroyed or aborted");
        a = good;
        for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
            a.type = (ncclDataType_t)types[i];
            wrong(d, c, &a, "a type that there is not", "");
        }
        a = good;
        for (size_t i = 0; i < sizeof ops / sizeof ops[0] && (calls[c].has & HAS_OP); i++) {
            a.op = (ncclRedOp_t)ops[i];
            wrong(d, c, &a, "an operator that there is not", "");
        }
        a = good;
        for (size_t i = 0; i < sizeof roots / sizeof roots[0] && (calls[c].has & HAS_ROOT); i++) {
            a.root = roots[i];
            wrong(d, c, &a, "a root or peer that there is not", "");
        }
        if (calls[c].has & IS_MESSAGE)
            continue; /* this rank is its only peer */
        a = good;
        a.send = NULL;
        if (calls[c].has & HAS_SEND)
            wrong(d, c, &a, "no sendbuff", "");
        a = good;
        a.recv = NULL;
        if (calls[c].has & HAS_RECV)
            wrong(d, c, &a, "no recvbuff", "");
        a = good;
        a.count = SIZE_MAX;
        wrong(d, c, &a, "too many elements", "");
        a = good;
        a.stream = (cudaStream_t)(void *)recv;
        if (d->dev == NULL)
            wrong(d, c, &a, "a stream without a device", "stream|has no device");
        a = good;
        a.recv = (char *)send + 4;
        if ((calls[c].has & HAS_SEND) && (calls[c].has & HAS_RECV))
            wrong(d, c, &a, "buffers that overlap", "");
    }
    nccl_works(d, d->comm, 1);
}

Test(nccl_wrong, each_argument)
{
    nccl_run(&(struct nccl_plan){ "each argument", NCCL_EVERYWHERE, 1, each_argument, 0, true });
}

/* --- The other functions. What is expected stands beside the call. */

static void of_libraries(struct nccl_desk *d)
{
    ncclUniqueId id = nccl_id(d), zero = { { 0 } }, theirs = { { 0x41, 4, 0x19 } };
    ncclComm_t c = NULL, all[2];
    REFUSED(ncclGetVersion(NULL), ncclInvalidArgument, "version");
    REFUSED(ncclGetUniqueId(NULL), ncclInvalidArgument, "uniqueId");
    REFUSED(ncclCommInitRank(NULL, 1, id, 0), ncclInvalidArgument, "ncclCommInitRank|comm is NULL");
    REFUSED(ncclCommInitRank(&c, 0, id, 0), ncclInvalidArgument, "nranks 0");
    REFUSED(ncclCommInitRank(&c, -1, id, 0), ncclInvalidArgument, "nranks -1");
    REFUSED(ncclCommInitRank(&c, 1, id, 1), ncclInvalidArgument, "rank is 1");
    REFUSED(ncclCommInitRank(&c, 2, id, -1), ncclInvalidArgument, "rank is -1");
    REFUSED(ncclCommInitRank(&c, 1, zero, 0), ncclInvalidArgument, "this id is all zeros");
    theirs.internal[8] = AF_INET;
    REFUSED(ncclCommInitRank(&c, 1, theirs, 0), ncclInvalidUsage, "NVIDIA's libnccl|tutti-nccl");
    EXPECT(c == NULL);
    REFUSED(ncclCommInitRankScalable(&c, 1, 0, 1, NULL, NULL), ncclInvalidArgument, "commId is NULL");
    REFUSED(ncclCommInitRankScalable(&c, 1, 0, 2, &id, NULL), ncclInvalidArgument, "nId is 2");
    REFUSED(ncclCommInitAll(NULL, 1, NULL), ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclCommInitAll(all, 0, NULL), ncclInvalidArgument, "ndev");
    REFUSED(ncclCommInitAll(all, -3, NULL), ncclInvalidArgument, "ndev");
    REFUSED(ncclGroupEnd(), ncclInvalidUsage, "ncclGroupStart");
    REFUSED(ncclGroupSimulateEnd(NULL), ncclInvalidUsage, "ncclGroupStart");
    REFUSED(ncclMemAlloc(NULL, 8), ncclInvalidArgument, "ptr is NULL");
    REFUSED(ncclMemAlloc((void **)&c, 0), ncclInvalidArgument, "size is 0");
    REFUSED(ncclMemFree(&c), ncclInvalidArgument, "");
    OK(ncclMemFree(NULL));
}

static void of_communicators(struct nccl_desk *d)
{
    int number = 0, list[] = { 0, 5, -1 };
    ncclResult_t state;
    ncclComm_t c = d->comm, child = NULL;
    REFUSED(ncclCommCount(NULL, &number), ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclCommCount(c, NULL), ncclInvalidArgument, "count is NULL");
    REFUSED(ncclCommUserRank(c, NULL), ncclInvalidArgument, "rank is NULL");
    REFUSED(ncclCommUserRank(NULL, &number), ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclCommCuDevice(c, NULL), ncclInvalidArgument, "device is NULL");
    REFUSED(ncclCommCuDevice(NULL, &number), ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclCommGetAsyncError(NULL, &state), ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclCommGetAsyncError(c, NULL), ncclInvalidArgument, "asyncError is NULL");
    REFUSED(ncclCommFinalize(NULL), ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclCommRevoke(c, 1), ncclInvalidArgument, "revokeFlags is 1");
    REFUSED(ncclCommSplit(NULL, 0, 0, &child, NULL), ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclCommSplit(c, 0, 0, NULL, NULL), ncclInvalidArgument, "newcomm is NULL");
    REFUSED(ncclCommSplit(c, -2, 0, &child, NULL), ncclInvalidArgument, "color is -2");
    REFUSED(ncclCommShrink(NULL, list, 1, &child, NULL, 0), ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclCommShrink(c, list, 1, NULL, NULL, 0), ncclInvalidArgument, "newcomm is NULL");
    REFUSED(ncclCommShrink(c, NULL, 1, &child, NULL, 0), ncclInvalidArgument, "excludeRanksList is NULL");
    REFUSED(ncclCommShrink(c, list, 0, &child, NULL, 0), ncclInvalidArgument, "excludeRanksCount is 0");
    REFUSED(ncclCommShrink(c, list, 1, &child, NULL, 0), ncclInvalidArgument, "excludeRanksCount is 1");
    REFUSED(ncclCommGrow(c, 1, NULL, -1, &child, NULL), ncclInvalidArgument, "nRanks is 1");
    REFUSED(ncclCommGrow(c, 2, NULL, 0, &child, NULL), ncclInvalidArgument, "rank is 0");
    REFUSED(ncclCommGrow(c, 2, NULL, -1, &child, NULL), ncclInvalidArgument, "0 ranks of comm");
    REFUSED(ncclCommGrow(NULL, 2, NULL, 1, &child, NULL), ncclInvalidArgument, "uniqueId");
    REFUSED(ncclCommGrow(c, 2, NULL, -1, NULL, NULL), ncclInvalidArgument, "newcomm is NULL");
    REFUSED(ncclCommQueryProperties(c, NULL), ncclInvalidArgument, "props");
    EXPECT(child == NULL);
}

static void of_memory(struct nccl_desk *d)
{
    ncclComm_t c = d->comm;
    float *f = nccl_memory(d, 64);
    void *handle = NULL;
    uint64_t value = 7;
    ncclWindow_t window = NULL;
    REFUSED(ncclCommRegister(NULL, f, 64, &handle), ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclCommRegister(c, NULL, 64, &handle), ncclInvalidArgument, "buff is NULL");
    REFUSED(ncclCommRegister(c, f, 0, &handle), ncclInvalidArgument, "size is 0");
    REFUSED(ncclCommRegister(c, f, 64, NULL), ncclInvalidArgument, "handle is NULL");
    REFUSED(ncclCommDeregister(c, f), ncclInvalidArgument, "");
    REFUSED(ncclCommWindowRegister(c, f, 64, NULL, 0), ncclInvalidArgument, "win is NULL");
    REFUSED(ncclCommWindowRegister(c, NULL, 64, &window, 0), ncclInvalidArgument, "buff is NULL");
    REFUSED(ncclCommWindowRegister(c, f, 64, &window, 64), ncclInvalidArgument, "winFlags is 0x40");
    REFUSED(ncclWinGetUserPtr(c, NULL, &handle), ncclInvalidArgument, "window is NULL");
    REFUSED(ncclGetPeerDevicePointer(NULL, 0, 0, &handle), ncclInvalidArgument, "window is NULL");
    REFUSED(ncclGetLsaDevicePointer((ncclWindow_t)(void *)f, 0, 0, &handle), ncclInvalidArgument, "none");
    OK(ncclCommWindowRegister(c, f, 64, &window, 0));
    REFUSED(ncclGetPeerDevicePointer(window, 64, 0, &handle), ncclInvalidArgument, "offset");
    OK(ncclCommWindowDeregister(c, window));
    OK(ncclCommWindowDeregister(c, NULL));
    REFUSED(ncclCommSuspend(c, 7), ncclInvalidArgument, "flags is 7");
    REFUSED(ncclCommResume(c), ncclInvalidUsage, "not suspended");
    OK(ncclCommSuspend(c, NCCL_SUSPEND_MEM));
    OK(ncclCommMemStats(c, ncclStatGpuMemSuspended, &value));
    EXPECT(value == 1);
    REFUSED(ncclCommSuspend(c, NCCL_SUSPEND_MEM), ncclInvalidUsage, "is suspended");
    OK(ncclCommResume(c));
    OK(ncclCommMemStats(c, ncclStatGpuMemSuspend, &value));
    EXPECT(value == 0);
    OK(ncclCommMemStats(c, ncclStatGpuMemTotal, &value));
    REFUSED(ncclCommMemStats(c, (ncclCommMemStat_t)9, &value), ncclInvalidArgument, "stat");
    REFUSED(ncclCommMemStats(c, ncclStatGpuMemSuspend, NULL), ncclInvalidArgument, "value is NULL");
}

static void of_operators(struct nccl_desk *d)
{
    ncclComm_t c = d->comm, other = nccl_join(d, NULL);
    ncclRedOp_t op = ncclSum;
    float *f = nccl_memory(d, 64), two = 2;
    double wide = 2;
    REFUSED(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, ncclScalarHostImmediate, NULL),
        ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclRedOpCreatePreMulSum(NULL, &two, ncclFloat, ncclScalarHostImmediate, c), ncclInvalidArgument,
        "op");
    REFUSED(ncclRedOpCreatePreMulSum(&op, NULL, ncclFloat, ncclScalarHostImmediate, c), ncclInvalidArgument,
        "scalar is NULL");
    REFUSED(ncclRedOpCreatePreMulSum(&op, &two, (ncclDataType_t)77, ncclScalarHostImmediate, c),
        ncclInvalidArgument, "");
    REFUSED(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat, (ncclScalarResidence_t)5, c), ncclInvalidArgument,
        "residence is 5");
    EXPECT(op == ncclSum);
    REFUSED(ncclRedOpDestroy(ncclAvg, c), ncclInvalidArgument, "built in");
    REFUSED(ncclRedOpDestroy((ncclRedOp_t)4711, c), ncclInvalidArgument, "");
    OK(ncclRedOpCreatePreMulSum(&op, &wide, ncclDouble, ncclScalarHostImmediate, c));
    REFUSED(ncclRedOpDestroy(op, NULL), ncclInvalidArgument, "comm is NULL");
    REFUSED(ncclRedOpDestroy(op, other), ncclInvalidArgument, "");
    REFUSED(ncclAllReduce(f, f, 1, ncclDouble, op, other, d->stream), ncclInvalidArgument, "");
    REFUSED(ncclAllReduce(f, f, 1, ncclFloat, op, c, d->stream), ncclInvalidArgument, "");
    OK(ncclRedOpDestroy(op, c));
    OK(ncclCommDestroy(other));
}

/* Names that are there and do nothing: they say so, and what works. */
static void of_absent_ones(struct nccl_desk *d)
{
    extern ncclResult_t ncclDevCommCreate(void), ncclPutSignal(void), ncclWaitSignal(void),
        ncclParamBind(void), ncclSetEncryption(void), pncclSignal(void);
    REFUSED(ncclDevCommCreate(), ncclInvalidUsage, "ncclDevCommCreate|not supported|what works: collectives");
    REFUSED(ncclPutSignal(), ncclInvalidUsage, "ncclPutSignal|not supported|ncclSend and ncclRecv");
    REFUSED(pncclSignal(), ncclInvalidUsage, "ncclSignal|not supported|ncclSend and ncclRecv");
    REFUSED(ncclWaitSignal(), ncclInvalidUsage, "ncclWaitSignal|not supported");
    REFUSED(ncclParamBind(), ncclInvalidUsage, "ncclParamBind|not supported|tutti-info config");
    REFUSED(ncclSetEncryption(), ncclInvalidUsage, "ncclSetEncryption|not supported|encrypted network");
}

static void others(struct nccl_desk *d)
{
    of_libraries(d);
    of_communicators(d);
    of_memory(d);
    of_operators(d);
    of_absent_ones(d);
    nccl_works(d, d->comm, 1);
}

Test(nccl_wrong, others)
{
    nccl_run(&(struct nccl_plan){ "the other functions", NCCL_EVERYWHERE, 1, others, 0, true });
}

/* One rank's call is wrong, and its peers wait in it: they are told why, and do not hang. */
static void peers_are_told(struct nccl_desk *d)
{
    float *f = nccl_memory(d, 64);
    ncclResult_t state = ncclSuccess;
    setenv("TUTTI_REFUSAL", "1", 1);
    ncclComm_t comm = nccl_join(d, NULL);
    if (d->me->rank == 0) {
        REFUSED(ncclAllReduce(f, f, 1, ncclFloat, (ncclRedOp_t)9, comm, d->stream), ncclInvalidArgument,
            "op is 9");
        ranks_meet(d->me);
        OK(ncclCommDestroy(comm));
        return;
    }
    ncclResult_t result = ncclAllReduce(f, f, 1, ncclFloat, ncclSum, comm, d->stream);
    nccl_settle(d);
    OK(ncclCommGetAsyncError(comm, &state));
    EXPECT(result == ncclInvalidUsage && state == ncclInvalidUsage);
    EXPECT(strstr(ncclGetLastError(comm), "operator") != NULL);
    ranks_meet(d->me);
    OK(ncclCommDestroy(comm));
}

Test(nccl_wrong, peers_are_told)
{
    nccl_run(&(struct nccl_plan){ "peers are told", NCCL_ON_HOST, 2, peers_are_told, 0, true });
}
