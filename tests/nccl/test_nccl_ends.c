/* SPDX-License-Identifier: BSD-3-Clause */
/* test_nccl_ends.c: communicators that end: by destroy, by abort from another thread, by a rank that
 * dies; and handles that are dead, or another library's. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_rig.h"
#include "tests/rig/patience.h"

/* Destroy waits for this rank's calls, and for no peer. */
static void destroy_flushes(struct nccl_desk *d)
{
    float *f = nccl_memory(d, 64);
    ncclComm_t old = d->comm;
    *f = 1;
    if (d->me->rank == 0)
        ranks_sleep_us(100000);
    OK(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream));
    OK(ncclCommDestroy(d->comm));
    d->comm = NULL;
    EXPECT(*f == (float)d->me->n);
    nccl_settle(d);
    d->comm = nccl_join(d, NULL); /* it is not taken for the old one */
    REFUSED(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, old, d->stream), ncclInvalidArgument,
        "destroyed or aborted");
    REFUSED(ncclCommDestroy(old), ncclInvalidArgument, "destroyed or aborted");
    REFUSED(ncclCommAbort(old), ncclInvalidArgument, "destroyed or aborted");
    OK(ncclCommDestroy(NULL));
    OK(ncclCommAbort(NULL));
}

Test(nccl_ends, destroy_flushes)
{
    nccl_run(&(struct nccl_plan){ "destroy", NCCL_EVERYWHERE, 0, destroy_flushes, 0, false });
}

/* One destroys, others still have what they need of him: a message, and that all of them finalize. */
static void one_destroys_early(struct nccl_desk *d)
{
    float *f = nccl_memory(d, 64);
    if (d->me->rank == 0) {
        *f = 7;
        OK(ncclSend(f, 1, ncclFloat, 1, d->comm, d->stream));
    } else {
        ranks_sleep_us(200000);
        OK(ncclRecv(f, 1, ncclFloat, 0, d->comm, d->stream));
        nccl_settle(d);
        EXPECT(*f == 7);
        OK(ncclCommFinalize(d->comm));
        EXPECT(nccl_await(d, d->comm) == ncclSuccess);
    }
    OK(ncclCommDestroy(d->comm));
    d->comm = NULL;
}

Test(nccl_ends, one_destroys_early)
{
    nccl_run(&(struct nccl_plan){ "one destroys early", NCCL_ON_HOST, 2, one_destroys_early, 0, false });
}

static void finalized(struct nccl_desk *d)
{
    float f = 0;
    OK(ncclCommFinalize(d->comm));
    REFUSED(ncclCommFinalize(d->comm), ncclInvalidArgument, "finalized before");
    EXPECT(nccl_await(d, d->comm) == ncclSuccess);
    ncclResult_t late = ncclAllReduce(&f, &f, 1, ncclFloat, ncclSum, d->comm, NULL);
    EXPECT(late == ncclInvalidUsage);
}

Test(nccl_ends, finalized)
{
    nccl_run(&(struct nccl_plan){ "finalized", NCCL_ON_HOST, 0, finalized, 0, false });
}

/* A blocking communicator is finalized when all ranks have called, whatever others this process has. */
static void finalize_waits(struct nccl_desk *d)
{
    _Atomic int *called = d->me->shared;
    ncclComm_t comm = nccl_join(d, NULL);
    if (d->me->rank == 1) {
        ranks_sleep_us(100000);
        *called = 1;
    }
    OK(ncclCommFinalize(comm));
    EXPECT(*called == 1);
    OK(ncclCommDestroy(comm));
}

Test(nccl_ends, finalize_waits)
{
    nccl_run(&(struct nccl_plan){ "finalize", NCCL_EVERYWHERE, 2, finalize_waits, 0, true });
}

/* One without blocking is being finalized until all ranks have called, and says so as long. */
static void finalize_goes_on(struct nccl_desk *d)
{
    _Atomic int *asked = d->me->shared;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclResult_t state = ncclSuccess;
    ncclUniqueId id = nccl_id(d);
    ncclComm_t comm = NULL;
    config.blocking = 0;
    ncclCommInitRankConfig(&comm, 2, id, d->me->rank, &config);
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    while (d->me->rank == 1 && *asked == 0)
        ranks_sleep_us(1000);
    ncclResult_t begun = ncclCommFinalize(comm);
    if (d->me->rank == 0) {
        EXPECT(begun == ncclInProgress);
        for (int again = 0; again < 3; again++) {
            OK(ncclCommGetAsyncError(comm, &state));
            EXPECT(state == ncclInProgress);
        }
        *asked = 1;
    }
    EXPECT(nccl_await(d, comm) == ncclSuccess);
    OK(ncclCommDestroy(comm));
}

Test(nccl_ends, finalize_goes_on)
{
    nccl_run(&(struct nccl_plan){ "finalize goes on", NCCL_EVERYWHERE, 2, finalize_goes_on, 0, true });
}

struct watchdog {
    struct nccl_desk *d;
    ncclComm_t comm;
};
static void *abort_soon(void *argument)
{
    struct watchdog *w = argument;
    struct nccl_desk *d = w->d;
    ranks_sleep_us(100000);
    OK(ncclCommAbort(w->comm));
    return NULL;
}

/* A peer that needs the rank that has aborted is told who that was, by a call, for it goes on until then. */
static void hear_of_abort(struct nccl_desk *d, ncclComm_t comm, float *f)
{
    ncclResult_t state = ncclSuccess;
    OK(ncclCommGetAsyncError(comm, &state));
    EXPECT(state == ncclSuccess);
    ncclResult_t result = ncclSuccess;
    for (int again = 0; again < 3 && result == ncclSuccess; again++) { /* what it had sent is taken */
        result = ncclAllReduce(f, f, 1024, ncclFloat, ncclSum, comm, d->stream);
        nccl_settle(d);
    }
    EXPECT(result == ncclRemoteError);
    EXPECT(strstr(ncclGetLastError(comm), "rank 0 aborted") != NULL);
    OK(ncclCommGetAsyncError(comm, &state));
    EXPECT(state == ncclRemoteError);
}

/* The watchdog's way: a call hangs, another thread aborts, and a new communicator works. */
static void abort_from_a_thread(struct nccl_desk *d)
{
    struct watchdog w = { d, d->comm };
    pthread_t thread;
    float *f = nccl_memory(d, 4096);
    _Atomic int *done = d->me->shared;
    if (d->me->rank == 0) {
        pthread_create(&thread, NULL, abort_soon, &w);
        ncclResult_t result = ncclAllReduce(f, f, 1024, ncclFloat, ncclSum, d->comm, d->stream);
        EXPECT(result == ncclRemoteError || (d->dev != NULL && result == ncclSuccess));
        nccl_settle(d);
        pthread_join(thread, NULL);
        *done = 1;
    } else {
        struct patience patience = patience_of(30000);
        while (*done == 0 && !patience_is_over(&patience))
            ranks_sleep_us(1000);
        hear_of_abort(d, d->comm, f);
        OK(ncclCommAbort(d->comm));
    }
    d->comm = nccl_join(d, NULL);
    nccl_works(d, d->comm, d->me->n);
}

Test(nccl_ends, abort_from_a_thread)
{
    nccl_run(&(struct nccl_plan){ "abort", NCCL_EVERYWHERE, 2, abort_from_a_thread, 0, false });
}

/* Abort waits for no peer, in a group and on another thread, with a call in the stream that the peer never
 * makes; other communicators go on. */
static void *abort_in_a_group(void *argument)
{
    struct watchdog *w = argument;
    struct nccl_desk *d = w->d;
    OK(ncclGroupStart());
    OK(ncclCommAbort(w->comm));
    OK(ncclGroupEnd());
    return NULL;
}

static void abort_is_local(struct nccl_desk *d)
{
    _Atomic int *done = d->me->shared;
    ncclComm_t comm = nccl_join(d, NULL);
    struct watchdog w = { d, comm };
    pthread_t thread;
    float *f = nccl_memory(d, 4096);
    if (comm == NULL)
        return;
    if (d->me->rank == 0) {
        if (d->dev != NULL) /* that the peer never makes */
            OK(ncclAllReduce(f, f, 1024, ncclFloat, ncclSum, comm, d->stream));
        int64_t begin = ranks_now_ms();
        EXPECT(pthread_create(&thread, NULL, abort_in_a_group, &w) == 0);
        pthread_join(thread, NULL);
        ranks_expect(d->me, ranks_now_ms() - begin < 8000, "abort took %d ms", (int)(ranks_now_ms() - begin));
        REFUSED(ncclCommCount(comm, &(int){ 0 }), ncclInvalidArgument, "destroyed or aborted");
        nccl_settle(d); /* the stream is free */
        *done = 1;
    } else { /* all of it is freed as ever */
        struct patience patience = patience_of(30000);
        while (*done == 0 && !patience_is_over(&patience))
            ranks_sleep_us(1000);
        hear_of_abort(d, comm, f);
        OK(d->me->n % 2 == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm));
    }
    nccl_works(d, d->comm, d->me->n);
}

Test(nccl_ends, abort_is_local)
{
    nccl_run(&(struct nccl_plan){ "abort is local", NCCL_EVERYWHERE, 2, abort_is_local, 0, true });
    nccl_run(&(struct nccl_plan){ "abort of three", NCCL_ON_HOST, 3, abort_is_local, 0, false });
}

/* A rank is killed: the others are told, and end clean. */
static void killed(struct nccl_desk *d)
{
    float *f = nccl_memory(d, 64);
    ncclComm_t comm = nccl_join(d, NULL);
    ncclResult_t result, state = ncclSuccess;
    if (d->me->rank == d->me->n - 1) {
        ranks_sleep_us(100000);
        kill(getpid(), SIGKILL);
    }
    result = ncclAllReduce(f, f, 1, ncclFloat, ncclSum, comm, d->stream);
    EXPECT(d->dev != NULL ? result == ncclSuccess : result == ncclRemoteError);
    nccl_settle(d);
    OK(ncclCommGetAsyncError(comm, &state));
    EXPECT(state == ncclRemoteError);
    EXPECT(strstr(ncclGetLastError(comm), "died") != NULL);
    OK(ncclCommDestroy(comm)); /* frees all of a communicator that has failed */
    OK(ncclCommAbort(d->comm));
    d->comm = NULL;
}

Test(nccl_ends, killed)
{
    nccl_run(&(struct nccl_plan){ "killed", NCCL_EVERYWHERE, 2, killed, 1 << 1, true });
    nccl_run(&(struct nccl_plan){ "killed of four", NCCL_ON_HOST, 4, killed, 1 << 3, true });
}

/* A rank is killed, and the others go on without it, by nothing but the communicator that has failed. */
static void survivors(struct nccl_desk *d)
{
    float *f = nccl_memory(d, 64);
    int dead[] = { 0 }, n = d->me->n;
    ncclComm_t rest = NULL;
    if (d->me->rank == 0) {
        ranks_sleep_us(100000);
        kill(getpid(), SIGKILL);
    }
    ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream);
    nccl_settle(d);
    REFUSED(ncclCommShrink(d->comm, dead, 1, &rest, NULL, NCCL_SHRINK_DEFAULT), ncclRemoteError, "died");
    OK(ncclCommShrink(d->comm, dead, 1, &rest, NULL, NCCL_SHRINK_ABORT));
    nccl_works(d, rest, n - 1);
    OK(ncclCommDestroy(rest));
    OK(ncclCommDestroy(d->comm));
    d->comm = NULL;
}

Test(nccl_ends, survivors)
{
    nccl_run(&(struct nccl_plan){ "survivors", NCCL_EVERYWHERE, 3, survivors, 1 << 0, true });
}

/* Calls that wait return, and none is taken any more; all ranks, or some, go on with what they make of it. */
static void *revoke_soon(void *argument)
{
    struct watchdog *w = argument;
    struct nccl_desk *d = w->d;
    ranks_sleep_us(100000);
    OK(ncclCommRevoke(w->comm, NCCL_REVOKE_DEFAULT));
    return NULL;
}

static void expect_size(struct nccl_desk *d, ncclComm_t comm, int expected)
{
    int n = -1;
    OK(ncclCommCount(comm, &n));
    EXPECT(n == expected);
    nccl_works(d, comm, expected);
    OK(ncclCommDestroy(comm));
}

static void revoked(struct nccl_desk *d)
{
    int n = d->me->n, me = d->me->rank, last[] = { n - 1 };
    float *f = nccl_memory(d, 64);
    ncclResult_t state = ncclInternalError;
    ncclComm_t all = NULL, half = NULL, none = NULL, rest = NULL;
    struct watchdog w = { d, d->comm };
    pthread_t thread;
    if (me == 0) { /* in a call that nobody else makes */
        pthread_create(&thread, NULL, revoke_soon, &w);
        ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream);
        nccl_settle(d);
        pthread_join(thread, NULL);
    }
    ranks_meet(d->me);
    OK(ncclCommRevoke(d->comm, NCCL_REVOKE_DEFAULT));
    OK(ncclCommRevoke(NULL, NCCL_REVOKE_DEFAULT));
    OK(ncclCommGetAsyncError(d->comm, &state));
    EXPECT(state == ncclSuccess);
    REFUSED(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream), ncclInvalidUsage, "was revoked");
    REFUSED(ncclCommFinalize(d->comm), ncclInvalidUsage, "was revoked");
    REFUSED(ncclCommGrow(d->comm, n + 1, NULL, -1, &none, NULL), ncclInvalidUsage, "was revoked|Split");
    ranks_meet(d->me);
    OK(ncclCommSplit(d->comm, 0, -me, &all, NULL));
    int rank = -1;
    OK(ncclCommUserRank(all, &rank));
    EXPECT(rank == n - 1 - me);
    expect_size(d, all, n);
    OK(ncclGroupStart());
    OK(ncclCommSplit(d->comm, me % 2, 0, &half, NULL));
    OK(ncclCommSplit(d->comm, NCCL_SPLIT_NOCOLOR, 0, &none, NULL));
    OK(ncclGroupEnd());
    EXPECT(none == NULL);
    expect_size(d, half, (n + 1 - me % 2) / 2);
    if (me < n - 1 && OK(ncclCommShrink(d->comm, last, 1, &rest, NULL, NCCL_SHRINK_DEFAULT)))
        expect_size(d, rest, n - 1);
}

Test(nccl_ends, revoked)
{
    nccl_run(&(struct nccl_plan){ "revoked", NCCL_EVERYWHERE, 2, revoked, 0, false });
    nccl_run(&(struct nccl_plan){ "revoked by three", NCCL_ON_HOST, 3, revoked, 0, false });
}

/* A rank is killed in the midst of a call; who is left revokes, which ends it, and goes on without it. */
static void revoked_after_a_death(struct nccl_desk *d)
{
    int dead[] = { 1 }, n = d->me->n;
    float *f = nccl_memory(d, 64);
    ncclComm_t rest = NULL;
    if (d->me->rank == 1) {
        ranks_sleep_us(50000);
        kill(getpid(), SIGKILL);
    }
    ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream);
    nccl_settle(d);
    OK(ncclCommRevoke(d->comm, NCCL_REVOKE_DEFAULT));
    OK(ncclCommShrink(d->comm, dead, 1, &rest, NULL, NCCL_SHRINK_DEFAULT));
    expect_size(d, rest, n - 1);
}

Test(nccl_ends, revoked_after_a_death)
{
    nccl_run(&(struct nccl_plan){
        "revoked after a death", NCCL_EVERYWHERE, 3, revoked_after_a_death, 1 << 1, true });
}

/* Several ranks of one thread, with blocking and without. */
static void revoked_by_one_thread(struct nccl_desk *d, int blocking)
{
    enum { N = 4 };
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t c[N], half[N] = { NULL };
    ncclUniqueId id;
    ncclResult_t state;
    int n = -1;
    config.blocking = blocking;
    OK(ncclGetUniqueId(&id));
    OK(ncclGroupStart());
    for (int i = 0; i < N; i++)
        OK(ncclCommInitRankConfig(&c[i], N, id, i, &config));
    ncclResult_t result = ncclGroupEnd();
    EXPECT(result == ncclSuccess || (result == ncclInProgress && !blocking));
    for (int i = 0; i < N; i++)
        EXPECT(nccl_await(d, c[i]) == ncclSuccess);
    OK(ncclGroupStart());
    for (int i = 0; i < N; i++)
        OK(ncclCommRevoke(c[i], NCCL_REVOKE_DEFAULT));
    OK(ncclGroupEnd());
    OK(ncclGroupStart());
    for (int i = 0; i < N; i++)
        OK(ncclCommSplit(c[i], i % 2, 0, &half[i], NULL));
    result = ncclGroupEnd();
    EXPECT(result == (blocking ? ncclSuccess : ncclInProgress));
    for (int i = 0; i < N; i++) {
        EXPECT(nccl_await(d, half[i]) == ncclSuccess);
        OK(ncclCommCount(half[i], &n));
        EXPECT(n == N / 2);
        OK(ncclCommGetAsyncError(c[i], &state));
        OK(ncclCommDestroy(half[i]));
        OK(ncclCommDestroy(c[i]));
    }
    OK(ncclCommInitAll(c, 1, NULL));
    OK(ncclCommFinalize(c[0]));
    REFUSED(ncclCommRevoke(c[0], NCCL_REVOKE_DEFAULT), ncclInvalidArgument, "finalized before");
    OK(ncclCommDestroy(c[0]));
}

static void revoked_in_groups(struct nccl_desk *d)
{
    revoked_by_one_thread(d, 1);
    revoked_by_one_thread(d, 0);
}

Test(nccl_ends, revoked_in_groups)
{
    nccl_run(&(struct nccl_plan){ "revoked in groups", NCCL_EVERYWHERE, 1, revoked_in_groups, 0, true });
}

/* In a group, calls of it first. */
static void aborted_in_a_group(struct nccl_desk *d)
{
    float *f = nccl_memory(d, 64);
    ncclComm_t one = nccl_join(d, NULL), two = nccl_join(d, NULL);
    OK(ncclGroupStart());
    OK(ncclAllReduce(f, f, 1, ncclFloat, ncclSum, d->comm, d->stream));
    OK(ncclCommAbort(one));
    OK(ncclCommDestroy(two));
    OK(ncclGroupEnd());
    nccl_settle(d);
    REFUSED(ncclCommCount(one, &(int){ 0 }), ncclInvalidArgument, "destroyed or aborted");
    REFUSED(ncclCommCount(two, &(int){ 0 }), ncclInvalidArgument, "destroyed or aborted");
}

Test(nccl_ends, aborted_in_a_group)
{
    nccl_run(&(struct nccl_plan){ "in a group", NCCL_EVERYWHERE, 2, aborted_in_a_group, 0, false });
}

/* Both libraries in one process: a communicator of the other one is told, and not followed. */
static void of_another_library(struct nccl_desk *d)
{
    uint64_t theirs[64] = { UINT64_C(0x0280028002800280) }, nothing[64] = { 1 };
    float f = 0;
    REFUSED(ncclAllReduce(&f, &f, 1, ncclFloat, ncclSum, (ncclComm_t)(void *)theirs, NULL), ncclInvalidUsage,
        "NVIDIA|both are loaded|tutti-nccl");
    REFUSED(ncclCommDestroy((ncclComm_t)(void *)theirs), ncclInvalidUsage, "NVIDIA");
    REFUSED(
        ncclCommAbort((ncclComm_t)(void *)nothing), ncclInvalidArgument, "no communicator of this library");
}

Test(nccl_ends, of_another_library)
{
    nccl_run(&(struct nccl_plan){ "of another library", NCCL_ON_HOST, 1, of_another_library, 0, true });
}
