/* SPDX-License-Identifier: BSD-3-Clause */
/* handles.c: the handles that programs hold, those that are live and those that are dead.
 *
 * A dead handle stays memory, so that its use is told and harms nobody; it is used again after a thousand
 * others have died. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nccl/shim.h"

enum { STAY_DEAD = 1024, LEAVE_MS = 10000 };
/* What a communicator of NVIDIA's library begins with. */
#define OF_NVIDIA UINT64_C(0x0280028002800280)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    ncclComm_t live, dead, last_dead;
    int dead_count;
} handles;

static pthread_mutex_t leaving = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t somebody_left = PTHREAD_COND_INITIALIZER;

ncclComm_t tt_nccl_new(int n, int rank, const struct tt_nccl_setting *setting, uint64_t family)
{
    ncclComm_t comm = NULL;
    pthread_mutex_lock(&lock);
    if (handles.dead_count > STAY_DEAD) {
        comm = handles.dead;
        handles.dead = comm->next;
        handles.dead_count--;
    }
    pthread_mutex_unlock(&lock);
    if (comm == NULL)
        comm = malloc(sizeof *comm);
    if (comm == NULL)
        return NULL;
    memset(comm, 0, sizeof *comm);
    comm->n = n;
    comm->rank = rank;
    comm->device = TT_NCCL_DEVICE_UNKNOWN;
    comm->family = family;
    comm->blocking = setting->blocking;
    memcpy(comm->name, setting->name, sizeof comm->name);
    comm->magic = TT_NCCL_LIVE;
    return comm;
}

void tt_nccl_list(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    comm->next = handles.live;
    handles.live = comm;
    pthread_mutex_unlock(&lock);
}

bool tt_nccl_retire(ncclComm_t comm)
{
    pthread_mutex_lock(&lock);
    bool live = comm->magic == TT_NCCL_LIVE;
    for (ncclComm_t *at = &handles.live; live && *at != NULL; at = &(*at)->next) {
        if (*at != comm)
            continue;
        *at = comm->next;
        break;
    }
    if (live) {
        comm->magic = TT_NCCL_DEAD;
        comm->tutti = NULL;
        comm->next = NULL;
        if (handles.dead == NULL)
            handles.dead = comm;
        else
            handles.last_dead->next = comm;
        handles.last_dead = comm;
        handles.dead_count++;
    }
    pthread_mutex_unlock(&lock);
    return live;
}

int tt_nccl_siblings(uint64_t family)
{
    int count = 0;
    pthread_mutex_lock(&lock);
    for (ncclComm_t each = handles.live; each != NULL; each = each->next)
        count += each->family == family;
    pthread_mutex_unlock(&lock);
    return count;
}

ncclComm_t tt_nccl_sibling(uint64_t family, int rank)
{
    pthread_mutex_lock(&lock);
    ncclComm_t found = handles.live;
    while (found != NULL && (found->family != family || found->rank != rank))
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

/* FNV-1a. */
uint64_t tt_nccl_hash(uint64_t before, const void *bytes, size_t count)
{
    uint64_t hash = before ^ UINT64_C(14695981039346656037);
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return hash;
}

ncclResult_t tt_nccl_refuse(const char *call, ncclComm_t comm)
{
    uint64_t begin;
    if (comm == NULL)
        return tt_nccl_fail(ncclInvalidArgument, "%s: comm is NULL", call);
    if (comm->magic == TT_NCCL_DEAD)
        return tt_nccl_fail(ncclInvalidArgument, "%s: comm was destroyed or aborted before", call);
    memcpy(&begin, comm, sizeof begin);
    if (begin == OF_NVIDIA)
        return tt_nccl_fail(ncclInvalidUsage,
            "%s: comm was made by NVIDIA's libnccl, and this is Tutti's: both are loaded, and the program "
            "calls "
            "some functions of each; let one of them alone be there (tutti-nccl COMMAND puts Tutti's first)",
            call);
    if (comm->magic != TT_NCCL_LIVE)
        return tt_nccl_fail(
            ncclInvalidArgument, "%s: comm is no communicator of this library, Tutti's libnccl", call);
    if (tt_nccl_is_revoked(comm) && (comm->users & TT_NCCL_ENDING) == 0)
        return tt_nccl_fail(ncclInvalidUsage,
            "%s: comm was revoked; legal: ncclCommSplit, ncclCommShrink, ncclCommDestroy, ncclCommAbort, and "
            "questions",
            call);
    if (comm->making == TT_NCCL_NOT_MADE)
        return tt_nccl_fail(comm->failure,
            "%s: comm could not be made; legal: ncclCommAbort, ncclCommDestroy, ncclCommGetAsyncError", call);
    if (comm->making != TT_NCCL_MADE || (comm->users & TT_NCCL_BUSY) != 0)
        return tt_nccl_fail(ncclInvalidArgument,
            "%s: comm is %s; legal: ncclCommGetAsyncError, until that is no more ncclInProgress, and "
            "ncclCommAbort",
            call, comm->making != TT_NCCL_MADE ? "still being made" : "what a child is still made of");
    if (comm->tutti == NULL)
        return tt_nccl_fail(
            ncclInvalidArgument, "%s: comm is not ready: the group in which it is made has not ended", call);
    return tt_nccl_fail(ncclInvalidUsage, "%s: comm is being destroyed or aborted", call);
}

static struct timespec moment(int64_t from_now_ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t); /* as conditions count */
    t.tv_sec += from_now_ms / 1000;
    t.tv_nsec += from_now_ms % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static bool all_have_left(ncclComm_t comm)
{
    return (atomic_load(&comm->users) & ~(uint32_t)TT_NCCL_REVOKED) == TT_NCCL_ENDING;
}

bool tt_nccl_close(ncclComm_t comm)
{
    struct timespec until = moment(LEAVE_MS);
    int error = 0;
    atomic_fetch_or(&comm->users, TT_NCCL_ENDING);
    pthread_mutex_lock(&leaving);
    while (!all_have_left(comm) && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&somebody_left, &leaving, &until);
    pthread_mutex_unlock(&leaving);
    return all_have_left(comm);
}

void tt_nccl_last_left(void)
{
    pthread_mutex_lock(&leaving);
    pthread_cond_broadcast(&somebody_left);
    pthread_mutex_unlock(&leaving);
}
