/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_rig.c: making the rig. */
#include "nccl_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev.h"
#include "tests/rig/patience.h"

static bool device_is_fine(struct nccl_desk *d, enum tt_dev_error error)
{
    return ranks_expect(d->me, error == TT_DEV_OK, "device: %s", error == TT_DEV_OK ? "" : d->dev->why());
}

bool nccl_ok(struct nccl_desk *d, ncclResult_t result, const char *call)
{
    return ranks_expect(d->me, result == ncclSuccess, "%s: %d (%s): %s", call, (int)result,
        ncclGetErrorString(result), ncclGetLastError(NULL));
}

bool nccl_refused(
    struct nccl_desk *d, ncclResult_t result, ncclResult_t expected, const char *call, const char *names)
{
    char copy[256];
    const char *text = ncclGetLastError(NULL);
    if (!ranks_expect(
            d->me, result == expected, "%s: %d, expected %d: %s", call, (int)result, (int)expected, text))
        return false;
    if (d->me->kind != RANKS_PROCESSES && d->me->n > 1)
        return true; /* the text is the process's, in which another rank may have failed since */
    snprintf(copy, sizeof copy, "%s", names);
    for (char *rest = copy, *name; (name = strsep(&rest, "|")) != NULL;)
        if (!ranks_expect(d->me, strstr(text, name) != NULL, "%s: \"%s\" does not name %s", call, text, name))
            return false;
    return true;
}

ncclUniqueId nccl_id(struct nccl_desk *d)
{
    tutti_id made;
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    if (ranks_id(d->me, &made))
        memcpy(&id, &made, sizeof id);
    return id;
}

ncclComm_t nccl_join(struct nccl_desk *d, ncclConfig_t *config)
{
    ncclComm_t comm = NULL;
    ncclUniqueId id = nccl_id(d);
    OK(ncclCommInitRankConfig(&comm, d->me->n, id, d->me->rank, config));
    return comm;
}

struct kept { /* before memory of the host, which is freed at the end of its rank */
    _Alignas(64) struct kept *next;
};

static void *keep(struct nccl_desk *d, size_t bytes)
{
    struct kept *kept = aligned_alloc(sizeof *kept, (bytes / sizeof *kept + 2) * sizeof *kept);
    if (kept == NULL)
        return NULL;
    kept->next = d->kept;
    d->kept = kept;
    return kept + 1;
}

static void free_kept(struct kept *kept)
{
    while (kept != NULL) {
        struct kept *next = kept->next;
        free(kept);
        kept = next;
    }
}

void *nccl_memory(struct nccl_desk *d, size_t bytes)
{
    void *memory = NULL;
    if (d->dev == NULL)
        memory = keep(d, bytes);
    else
        device_is_fine(d, d->dev->memory.alloc_pinned(bytes, &memory));
    if (memory == NULL)
        abort();
    memset(memory, 0, bytes);
    return memory;
}

void nccl_settle(struct nccl_desk *d)
{
    if (d->dev != NULL)
        device_is_fine(d, d->dev->stream.sync(d->stream));
}

ncclResult_t nccl_await(struct nccl_desk *d, ncclComm_t comm)
{
    ncclResult_t state = ncclInProgress;
    struct patience patience = patience_of(30000);
    while (OK(ncclCommGetAsyncError(comm, &state)) && state == ncclInProgress && !patience_is_over(&patience))
        ranks_sleep_us(200);
    return state;
}

void nccl_works(struct nccl_desk *d, ncclComm_t comm, int n)
{
    float *one = nccl_memory(d, sizeof *one);
    *one = 1;
    OK(ncclAllReduce(one, one, 1, ncclFloat, ncclSum, comm, d->stream));
    nccl_settle(d);
    ranks_expect(d->me, *one == (float)n, "a sum of ones of %d ranks is %g", n, (double)*one);
}

static void rank(struct ranks_me *me)
{
    const struct nccl_plan *plan = me->context;
    struct nccl_desk desk = { .me = me }, *d = &desk;
    void *stream = NULL;
    ranks_at(me, "%s, %s", plan->name, getenv("TUTTI_DEVICE") == NULL ? "stub" : "host memory");
    if (getenv("TUTTI_DEVICE") == NULL) {
        if (!ranks_ok(me, tt_dev_find(plugin_path(), &d->dev), "tt_dev_find") ||
            !device_is_fine(d, d->dev->use(0)) || !device_is_fine(d, d->dev->stream.create(&stream)))
            return;
        d->stream = stream;
    }
    d->comm = nccl_join(d, NULL);
    if (d->comm == NULL)
        return;
    plan->run(d);
    if (d->comm != NULL)
        OK(ncclCommDestroy(d->comm));
    free_kept(d->kept);
}

static void run_all(const struct nccl_plan *plan, enum ranks_kind kind)
{
    for (int n = plan->n != 0 ? plan->n : 1; n <= (plan->n != 0 ? plan->n : 4); n *= 2)
        ranks_run(&(struct ranks_plan){ .n = n,
            .kind = kind,
            .run = rank,
            .context = plan,
            .seed = 3,
            .limit_s = 100,
            .may_die = plan->may_die });
}

void nccl_run(const struct nccl_plan *plan)
{
    setenv("STUB_GPU", "devices=1", 0);
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    for (int where = NCCL_ON_HOST; where <= NCCL_ON_STUB; where *= 2) {
        if ((plan->where & where) == 0)
            continue;
        if (where == NCCL_ON_HOST)
            setenv("TUTTI_DEVICE", "none", 1);
        else
            unsetenv("TUTTI_DEVICE");
        run_all(plan, RANKS_PROCESSES);
        if (!plan->processes_only)
            run_all(plan, RANKS_THREADS);
    }
}
