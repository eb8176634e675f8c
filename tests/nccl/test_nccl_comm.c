/* SPDX-License-Identifier: BSD-3-Clause */
/* test_nccl_comm.c: making communicators, of ids and of others, and their settings, by the bytes of every
 * version of the struct. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_rig.h"
#include "tests/rig/patience.h"

static void questions(struct nccl_desk *d)
{
    int number = -7;
    ncclResult_t state = ncclInternalError;
    ncclCommProperties_t p = { .size = sizeof p, .magic = 0xcafebeef, .version = NCCL_VERSION_CODE };
    OK(ncclGetVersion(&number));
    EXPECT(number == 22809);
    OK(ncclCommCount(d->comm, &number));
    EXPECT(number == d->me->n);
    OK(ncclCommUserRank(d->comm, &number));
    EXPECT(number == d->me->rank);
    OK(ncclCommCuDevice(d->comm, &number));
    EXPECT(number == (d->dev != NULL ? 0 : -1));
    OK(ncclCommGetAsyncError(d->comm, &state));
    EXPECT(state == ncclSuccess);
    OK(ncclCommQueryProperties(d->comm, &p));
    EXPECT(p.rank == d->me->rank && p.nRanks == d->me->n && !p.deviceApiSupport && !p.multimemSupport);
    EXPECT(p.size == sizeof p && p.magic == 0xcafebeef);
    for (int i = -1; i <= ncclNumResults; i++)
        EXPECT(ncclGetErrorString((ncclResult_t)i) != NULL);
}

Test(nccl_comm, questions)
{
    nccl_run(&(struct nccl_plan){ "questions", NCCL_EVERYWHERE, 2, questions, 0, false });
}

static void splits(struct nccl_desk *d)
{
    int n = d->me->n, me = d->me->rank, number = -1;
    ncclComm_t pair = NULL, first = (ncclComm_t)1, all = NULL;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "pairs";
    config.splitShare = 1;
    OK(ncclCommSplit(d->comm, me / 2, -me, &pair, &config));
    OK(ncclCommCount(pair, &number));
    EXPECT(number == (n == 1 ? 1 : 2));
    OK(ncclCommUserRank(pair, &number));
    EXPECT(n == 1 || number == 1 - me % 2);
    nccl_works(d, pair, n == 1 ? 1 : 2);
    OK(ncclCommSplit(d->comm, me == 0 ? 3 : NCCL_SPLIT_NOCOLOR, 0, &first, NULL));
    EXPECT((first != NULL) == (me == 0));
    if (first != NULL) {
        nccl_works(d, first, 1);
        OK(ncclCommDestroy(first));
    }
    OK(ncclCommSplit(d->comm, 0, 0, &all, NULL));
    nccl_works(d, all, n);
    OK(ncclCommFinalize(all));
    OK(ncclCommDestroy(all));
    OK(ncclCommDestroy(pair));
    nccl_works(d, d->comm, n);
}

Test(nccl_comm, splits)
{
    nccl_run(&(struct nccl_plan){ "splits", NCCL_EVERYWHERE, 0, splits, 0, false });
}

static void shrinks(struct nccl_desk *d)
{
    int n = d->me->n, gone[] = { 1, 0 }, number = -1;
    ncclComm_t rest = NULL;
    if (d->me->rank != 1) {
        OK(ncclCommShrink(d->comm, gone, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
        OK(ncclCommCount(rest, &number));
        EXPECT(number == n - 1);
        OK(ncclCommUserRank(rest, &number));
        EXPECT(number == d->me->rank - (d->me->rank > 1));
        nccl_works(d, rest, n - 1);
        OK(ncclCommDestroy(rest));
        rest = NULL;
    }
    if (d->me->rank > 1) { /* in a group */
        OK(ncclGroupStart());
        OK(ncclCommShrink(d->comm, gone, 2, &rest, NULL, NCCL_SHRINK_DEFAULT));
        OK(ncclGroupEnd());
        nccl_works(d, rest, n - 2);
        OK(ncclCommDestroy(rest));
    }
    nccl_works(d, d->comm, n);
}

Test(nccl_comm, shrinks)
{
    nccl_run(&(struct nccl_plan){ "shrinks", NCCL_EVERYWHERE, 4, shrinks, 0, false });
}

/* Two ranks become four; the new ones have no communicator yet. */
static void grows(struct nccl_desk *d)
{
    ncclComm_t two = NULL, four = NULL;
    int me = d->me->rank, number = -1;
    ncclUniqueId *id = (ncclUniqueId *)d->me->shared;
    OK(ncclCommSplit(d->comm, me < 2 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &two, NULL));
    if (me == 1)
        OK(ncclCommGetUniqueId(two, id));
    ranks_meet(d->me);
    OK(ncclCommGrow(two, 4, me != 0 ? id : NULL, me < 2 ? -1 : me, &four, NULL));
    if (four == NULL)
        return;
    OK(ncclCommUserRank(four, &number));
    EXPECT(number == me);
    nccl_works(d, four, 4);
    OK(ncclCommDestroy(four));
    if (two != NULL)
        OK(ncclCommDestroy(two));
}

Test(nccl_comm, grows)
{
    nccl_run(&(struct nccl_plan){ "grows", NCCL_ON_HOST, 4, grows, 0, false });
}

static void without_blocking(struct nccl_desk *d)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclUniqueId id = nccl_id(d);
    ncclResult_t result;
    config.blocking = 0;
    result = ncclCommInitRankConfig(&comm, d->me->n, id, d->me->rank, &config);
    EXPECT(result == ncclSuccess || result == ncclInProgress);
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    nccl_works(d, comm, d->me->n);
    result = ncclCommFinalize(comm);
    EXPECT(result == ncclSuccess || result == ncclInProgress);
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    OK(ncclCommDestroy(comm));
    /* In a group its end says that it goes on. */
    id = nccl_id(d);
    OK(ncclGroupStart());
    OK(ncclCommInitRankConfig(&comm, d->me->n, id, d->me->rank, &config));
    result = ncclGroupEnd();
    EXPECT(result == ncclSuccess || result == ncclInProgress);
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    nccl_works(d, comm, d->me->n);
    ranks_meet(d->me);
    OK(ncclCommAbort(comm));
}

Test(nccl_comm, without_blocking)
{
    nccl_run(&(struct nccl_plan){ "without blocking", NCCL_EVERYWHERE, 0, without_blocking, 0, false });
}

/* A split of one without blocking: both are in progress until all ranks have called it. */
static void splits_without_blocking(struct nccl_desk *d)
{
    _Atomic int *asked = d->me->shared;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL, child = NULL, none = comm;
    ncclUniqueId id = nccl_id(d);
    ncclResult_t state = ncclSuccess;
    float f = 0;
    int number = 0;
    config.blocking = 0;
    ncclCommInitRankConfig(&comm, 2, id, d->me->rank, &config);
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    while (d->me->rank == 1 && *asked == 0)
        ranks_sleep_us(1000);
    ncclResult_t begun = ncclCommSplit(comm, 0, -d->me->rank, &child, NULL);
    EXPECT(begun == ncclInProgress && child != NULL);
    if (d->me->rank == 0) {
        OK(ncclCommGetAsyncError(comm, &state));
        EXPECT(state == ncclInProgress);
        OK(ncclCommGetAsyncError(child, &state));
        EXPECT(state == ncclInProgress);
        REFUSED(ncclAllReduce(&f, &f, 1, ncclFloat, ncclSum, comm, d->stream), ncclInvalidArgument,
            "what a child is still made of|ncclCommGetAsyncError");
        REFUSED(ncclAllReduce(&f, &f, 1, ncclFloat, ncclSum, child, d->stream), ncclInvalidArgument,
            "still being made");
        *asked = 1;
    }
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    EXPECT(nccl_await(d, child) == ncclSuccess);
    OK(ncclCommUserRank(child, &number));
    EXPECT(number == 1 - d->me->rank);
    nccl_works(d, child, 2);
    begun = ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL);
    EXPECT(begun == ncclInProgress && none == NULL);
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    nccl_works(d, comm, 2);
    OK(ncclCommDestroy(child));
    /* Given up before it is there, and of a parent that is aborted meanwhile. */
    ranks_meet(d->me);
    if (d->me->rank == 0) {
        begun = ncclCommSplit(comm, 0, 0, &child, NULL);
        EXPECT(begun == ncclInProgress);
        OK(ncclCommAbort(child));
        REFUSED(ncclCommSplit(comm, 0, 0, &none, NULL), ncclInvalidArgument, "still made of");
    }
    ranks_meet(d->me);
    OK(ncclCommAbort(comm));
}

Test(nccl_comm, splits_without_blocking)
{
    nccl_run(&(struct nccl_plan){
        "splits without blocking", NCCL_EVERYWHERE, 2, splits_without_blocking, 0, false });
}

/* In a group it is begun at the end, which waits for no rank: two children of one communicator, after a call
 * on it. A group that fails makes none. */
static void groups_without_blocking(struct nccl_desk *d)
{
    _Atomic int *asked = d->me->shared;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL, turned = NULL, alone = NULL, none = NULL;
    ncclUniqueId id = nccl_id(d);
    ncclResult_t state = ncclSuccess;
    int number = 0, me = d->me->rank;
    config.blocking = 0;
    ncclCommInitRankConfig(&comm, 2, id, me, &config);
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    while (me == 1 && *asked == 0)
        ranks_sleep_us(1000);
    OK(ncclGroupStart());
    OK(ncclCommSplit(comm, 0, -me, &turned, NULL));
    OK(ncclCommSplit(comm, me, 0, &alone, NULL));
    OK(ncclCommSplit(comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
    ncclResult_t begun = ncclGroupEnd();
    EXPECT(begun == ncclInProgress && turned != NULL && alone != NULL && none == NULL);
    if (me == 0) {
        OK(ncclCommGetAsyncError(turned, &state));
        EXPECT(state == ncclInProgress);
        *asked = 1;
    }
    EXPECT(nccl_await(d, comm) == ncclSuccess && nccl_await(d, turned) == ncclSuccess);
    EXPECT(nccl_await(d, alone) == ncclSuccess);
    OK(ncclCommUserRank(turned, &number));
    EXPECT(number == 1 - me);
    OK(ncclCommCount(alone, &number));
    EXPECT(number == 1);
    nccl_works(d, turned, 2);
    OK(ncclCommDestroy(turned));
    OK(ncclCommDestroy(alone));
    float *f = nccl_memory(d, sizeof *f);
    *f = 1;
    OK(ncclGroupStart());
    OK(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, comm, d->stream));
    OK(ncclCommSplit(comm, 0, 0, &turned, NULL));
    EXPECT(ncclGroupEnd() == ncclInProgress);
    EXPECT(nccl_await(d, turned) == ncclSuccess);
    nccl_settle(d);
    EXPECT(*f == 2);
    nccl_works(d, turned, 2);
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    OK(ncclGroupStart());
    OK(ncclCommSplit(comm, 0, 0, &none, NULL));
    REFUSED(ncclCommSplit(comm, -7, 0, &none, NULL), ncclInvalidArgument, "color is -7");
    REFUSED(ncclGroupEnd(), ncclInvalidArgument, "color is -7");
    EXPECT(none == NULL);
    nccl_works(d, comm, 2);
    OK(ncclCommDestroy(turned));
    OK(ncclCommDestroy(comm));
}

Test(nccl_comm, groups_without_blocking)
{
    nccl_run(&(struct nccl_plan){
        "groups without blocking", NCCL_EVERYWHERE, 2, groups_without_blocking, 0, false });
}

/* What cannot be made is told by the child. */
static void fails_without_blocking(struct nccl_desk *d)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL, child = NULL;
    ncclUniqueId id = nccl_id(d);
    config.blocking = 0;
    ncclCommInitRankConfig(&comm, 2, id, d->me->rank, &config);
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    ranks_meet(d->me);
    if (d->me->rank == 0) {
        OK(ncclCommAbort(comm));
        return;
    }
    ncclResult_t begun = ncclCommSplit(comm, 0, 0, &child, NULL);
    EXPECT(begun == ncclInProgress && child != NULL);
    EXPECT(nccl_await(d, child) == ncclRemoteError);
    REFUSED(ncclCommCount(child, &(int){ 0 }), ncclRemoteError, "could not be made");
    OK(ncclCommDestroy(child));
    REFUSED(ncclCommDestroy(child), ncclInvalidArgument, "destroyed or aborted");
    OK(ncclCommAbort(comm));
}

Test(nccl_comm, fails_without_blocking)
{
    nccl_run(
        &(struct nccl_plan){ "fails without blocking", NCCL_ON_HOST, 2, fails_without_blocking, 0, true });
}

/* Nobody comes, and the one that waits gives up. */
static void alone_and_aborted(struct nccl_desk *d)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclUniqueId id = nccl_id(d);
    ncclResult_t state = ncclSuccess;
    config.blocking = 0;
    if (d->me->rank != 0)
        return;
    ncclResult_t result = ncclCommInitRankConfig(&comm, d->me->n, id, 0, &config);
    EXPECT(result == ncclInProgress);
    OK(ncclCommGetAsyncError(comm, &state));
    EXPECT(state == ncclInProgress);
    float f = 0;
    REFUSED(ncclAllReduce(&f, &f, 1, ncclFloat, ncclSum, comm, NULL), ncclInvalidArgument, "");
    OK(ncclCommAbort(comm));
}

Test(nccl_comm, alone_and_aborted)
{
    nccl_run(&(struct nccl_plan){ "alone and aborted", NCCL_ON_HOST, 2, alone_and_aborted, 0, false });
}

static void scalable(struct nccl_desk *d)
{
    ncclUniqueId ids[2] = { nccl_id(d), nccl_id(d) };
    ncclComm_t comm = NULL;
    OK(ncclCommInitRankScalable(&comm, d->me->n, d->me->rank, 2, ids, NULL));
    nccl_works(d, comm, d->me->n);
    OK(ncclCommDestroy(comm));
    REFUSED(ncclCommInitRankScalable(&comm, d->me->n, d->me->rank, 0, ids, NULL), ncclInvalidArgument,
        "nId is 0");
}

Test(nccl_comm, scalable)
{
    nccl_run(&(struct nccl_plan){ "scalable", NCCL_ON_HOST, 2, scalable, 0, false });
}

/* Of three ranks the last is left out, and a new one comes in its place. */
enum { THREE = 3 };
static void regroup(struct nccl_desk *d, ncclComm_t *c)
{
    int last = THREE - 1, number = -1;
    ncclComm_t s[THREE] = { NULL };
    ncclUniqueId id;
    OK(ncclGroupStart());
    for (int i = 0; i < last; i++)
        OK(ncclCommShrink(c[i], &last, 1, &s[i], NULL, NCCL_SHRINK_DEFAULT));
    OK(ncclGroupEnd());
    OK(ncclCommCount(s[0], &number));
    EXPECT(number == last);
    ncclComm_t grown[THREE] = { NULL };
    OK(ncclGroupStart());
    for (int i = 0; i < last; i++)
        OK(ncclCommGrow(s[i], THREE, NULL, -1, &grown[i], NULL));
    REFUSED(ncclGroupEnd(), ncclInvalidArgument, "no rank has an id");
    EXPECT(grown[0] == NULL && grown[1] == NULL);
    OK(ncclCommGetUniqueId(s[0], &id));
    OK(ncclGroupStart());
    for (int i = 0; i < last; i++)
        OK(ncclCommGrow(s[i], THREE, i == 0 ? &id : NULL, -1, &grown[i], NULL));
    OK(ncclCommGrow(NULL, THREE, &id, last, &grown[last], NULL));
    OK(ncclGroupEnd());
    for (int i = 0; i < THREE; i++) {
        OK(ncclCommUserRank(grown[i], &number));
        EXPECT(number == i);
    }
    OK(ncclGroupStart());
    for (int i = 0; i < THREE; i++)
        OK(ncclCommFinalize(grown[i]));
    OK(ncclGroupEnd());
    REFUSED(ncclCommFinalize(grown[0]), ncclInvalidArgument, "finalized before");
    for (int i = 0; i < THREE; i++)
        OK(ncclCommDestroy(grown[i]));
    for (int i = 0; i < last; i++)
        OK(ncclCommDestroy(s[i]));
}

/* Several ranks of one thread: all that NCCL allows in a group. */
static void of_one_thread(struct nccl_desk *d)
{
    enum { N = 3 };
    int devices[N] = { 0, 0, 0 }, number = -1;
    ncclComm_t c[N], s[N];
    float *f = nccl_memory(d, N * sizeof *f);
    OK(ncclCommInitAll(c, N, d->dev != NULL ? devices : NULL));
    for (int i = 0; i < N; i++)
        f[i] = (float)i;
    OK(ncclGroupStart());
    for (int i = 0; i < N; i++)
        OK(ncclAllReduce(&f[i], &f[i], 1, ncclFloat, ncclSum, c[i], d->stream));
    OK(ncclGroupEnd());
    nccl_settle(d);
    EXPECT(f[0] == 3 && f[1] == 3 && f[2] == 3);
    OK(ncclGroupStart());
    for (int i = 0; i < N; i++)
        OK(ncclCommSplit(c[i], i == 2, i, &s[i], NULL));
    EXPECT(s[0] == NULL);
    OK(ncclGroupEnd());
    OK(ncclCommCount(s[0], &number));
    EXPECT(number == 2);
    OK(ncclCommCount(s[2], &number));
    EXPECT(number == 1);
    for (int i = 0; i < N; i++)
        OK(ncclCommDestroy(s[i]));
    regroup(d, c);
    for (int i = 0; i < N; i++)
        OK(ncclCommFinalize(c[i]));
    for (int i = 0; i < N; i++)
        OK(ncclCommDestroy(c[i]));
    ncclUniqueId id;
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    for (int i = 0; i < N; i++)
        OK(ncclCommInitRank(&c[i], N, id, i));
    REFUSED(ncclCommCount(c[0], &number), ncclInvalidArgument, "group");
    ncclResult_t state = ncclSuccess;
    OK(ncclCommGetAsyncError(c[0], &state));
    EXPECT(state == ncclInProgress);
    ncclGroupEnd(); /* of which a call was wrong */
    EXPECT(c[0] == NULL && c[2] == NULL);
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    for (int i = 0; i < N; i++)
        OK(ncclCommInitRank(&c[i], N, id, i));
    OK(ncclGroupEnd());
    OK(ncclGroupStart());
    for (int i = 0; i < N; i++)
        OK(ncclCommDestroy(c[i]));
    OK(ncclGroupEnd());
}

Test(nccl_comm, of_one_thread)
{
    nccl_run(&(struct nccl_plan){ "of one thread", NCCL_EVERYWHERE, 1, of_one_thread, 0, true });
}

/* --- The struct of settings, as programs of all versions hand it over: bytes, because there is one header
 * here. An older one ends earlier, and has padding where newer ones have fields. */
struct bytes {
    unsigned char at[256];
};

static struct bytes old_config(size_t size, unsigned int version)
{
    struct bytes b;
    unsigned int magic = 0xcafebeef;
    memset(&b, 0x5a, sizeof b); /* what is beyond must not be looked at */
    memcpy(b.at, &size, sizeof size);
    memcpy(b.at + 8, &magic, 4);
    memcpy(b.at + 12, &version, 4);
    return b;
}

static void put(struct bytes *b, size_t offset, int value)
{
    memcpy(b->at + offset, &value, sizeof value);
}

static ncclResult_t join_by(struct nccl_desk *d, struct bytes *b)
{
    ncclUniqueId id = nccl_id(d);
    ncclComm_t comm = NULL;
    ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, (ncclConfig_t *)(void *)b);
    if (result == ncclSuccess || result == ncclInProgress)
        OK(ncclCommAbort(comm));
    return result;
}

static void configs(struct nccl_desk *d)
{
    /* Version, bytes, and how many integers follow blocking until netName. */
    static const struct {
        unsigned int version;
        size_t size;
    } cases[] = { { 21403, 24 }, { 21701, 40 }, { 21805, 48 }, { 22505, 48 }, { 22703, 72 }, { 22809, 80 },
        { 23007, 96 }, { 23203, 120 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes b = old_config(cases[i].size, cases[i].version);
        for (size_t at = 16; at < cases[i].size && at < 240; at += 4)
            put(&b, at, NCCL_CONFIG_UNDEF_INT);
        if (cases[i].size > 32)
            memset(b.at + 32, 0, 8); /* netName */
        if (cases[i].size > 48)
            memset(b.at + 48, 0, 8); /* commName */
        struct bytes blocking = b, wrong = b, magic = b, quiet = b;
        ranks_at(d->me, "a config of %u", cases[i].version);
        put(&blocking, 16, 1);
        put(&wrong, 16, 2);
        put(&magic, 8, 1);
        put(&quiet, 16, 0);
        ranks_expect(d->me, join_by(d, &b) == ncclSuccess, "it is refused: %s", ncclGetLastError(NULL));
        EXPECT(join_by(d, &blocking) == ncclSuccess);
        ncclResult_t result = join_by(d, &quiet);
        EXPECT(result == ncclSuccess || result == ncclInProgress);
        REFUSED(join_by(d, &wrong), ncclInvalidArgument, "config.blocking is 2|0 to 1");
        REFUSED(join_by(d, &magic), ncclInvalidArgument, "NCCL_CONFIG_INITIALIZER");
        if (cases[i].version < 21700) {
            put(&b, 20, 12345); /* padding there, cgaClusterSize later */
            EXPECT(join_by(d, &b) == ncclSuccess);
        } else {
            put(&b, 20, 12345);
            REFUSED(join_by(d, &b), ncclInvalidArgument, "cgaClusterSize is 12345");
        }
    }
    struct bytes zero = old_config(0, 22809);
    REFUSED(join_by(d, &zero), ncclInvalidArgument, "config.size is 0|NCCL_CONFIG_INITIALIZER");
    ncclConfig_t more = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm;
    more.minCTAs = 8;
    more.maxCTAs = 4;
    REFUSED(
        ncclCommInitRankConfig(&comm, 1, nccl_id(d), 0, &more), ncclInvalidArgument, "minCTAs is 8|maxCTAs");
    more.maxCTAs = 0;
    REFUSED(ncclCommInitRankConfig(&comm, 1, nccl_id(d), 0, &more), ncclInvalidArgument, "maxCTAs is 0");
}

Test(nccl_comm, configs)
{
    nccl_run(&(struct nccl_plan){ "configs", NCCL_ON_HOST, 1, configs, 0, true });
}

/* NCCL_COMM_BLOCKING beats the config: rank 0's call returns before rank 1 comes. */
static void blocking_by_variable(struct nccl_desk *d)
{
    _Atomic bool *returned = d->me->shared;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    setenv("NCCL_COMM_BLOCKING", "0", 1);
    config.blocking = 1;
    ncclUniqueId id = nccl_id(d);
    while (d->me->rank == 1 && !*returned)
        ranks_sleep_us(1000);
    ncclResult_t result = ncclCommInitRankConfig(&comm, d->me->n, id, d->me->rank, &config);
    EXPECT(d->me->rank != 0 || result == ncclInProgress);
    *returned = true;
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    OK(ncclCommDestroy(comm));
}

Test(nccl_comm, blocking_by_variable)
{
    nccl_run(&(struct nccl_plan){ "blocking by variable", NCCL_ON_HOST, 2, blocking_by_variable, 0, true });
}
