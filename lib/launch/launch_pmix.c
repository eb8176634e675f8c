/* SPDX-License-Identifier: BSD-3-Clause */
/* launch_pmix.c: rank, n and id by PMIx, the protocol between mpirun or srun and the processes they start.
 *
 * The library is loaded when such a launcher is found, so a program that is started by hand needs none. Rank
 * 0 makes the id and publishes it; PMIx keeps what is published inside the job, so the secret stays one.
 *
 * The launcher's library may be in use by others in this process (an MPI); it counts its users, and is left
 * only when the process ends, since joining it again is not supported everywhere. */
#ifdef HAVE_PMIX
#include "launch/launch.h"

#include <dlfcn.h>
#include <pmix.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/load.h"
#include "base/status.h"
#include "base/wait.h"
#include "bootstrap/init_progress.h"

/* The functions of PMIx that are used, with the types that the header declares. */
static struct {
    __typeof__(PMIx_Init) *init;
    __typeof__(PMIx_Finalize) *finalize;
    __typeof__(PMIx_Put) *put;
    __typeof__(PMIx_Commit) *commit;
    __typeof__(PMIx_Fence_nb) *fence;
    __typeof__(PMIx_Get) *get;
    __typeof__(PMIx_Error_string) *error_string;
} pmix;

static struct { /* behind tt_launch_lock, but for the fences: the launcher's thread ends these */
    pmix_proc_t self; /* rank within the job, once joined */
    pid_t joined; /* the process that did; a forked child has not */
    unsigned calls;
    _Atomic unsigned fences_ended;
    _Atomic int fence_status;
} process;

static tutti_status failed(const char *what, pmix_status_t status)
{
    return tt_fail(
        TUTTI_SYSTEM_ERROR, "the launcher's PMIx failed to %s: %s", what, pmix.error_string(status));
}

static tutti_status load(void)
{
    static const struct {
        const char *name;
        void *function;
    } wanted[] = { { "PMIx_Init", &pmix.init }, { "PMIx_Finalize", &pmix.finalize },
        { "PMIx_Put", &pmix.put }, { "PMIx_Commit", &pmix.commit }, { "PMIx_Fence_nb", &pmix.fence },
        { "PMIx_Get", &pmix.get }, { "PMIx_Error_string", &pmix.error_string } };
    const char *why;
    void *library = tt_load("libpmix.so.2", &why);
    if (!library)
        return tt_fail(TUTTI_SYSTEM_ERROR,
            "a launcher started this process with PMIx, whose library cannot be loaded (%s): mend that, or "
            "set TUTTI_ID, TUTTI_RANK and TUTTI_SIZE",
            why);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        void *symbol = dlsym(library, wanted[i].name);
        if (!symbol)
            return tt_fail(TUTTI_SYSTEM_ERROR, "libpmix.so.2 has no %s", wanted[i].name);
        memcpy(wanted[i].function, &symbol, sizeof symbol);
    }
    return TUTTI_OK;
}

static void leave(void)
{
    if (process.joined == getpid())
        pmix.finalize(NULL, 0);
}

static tutti_status join(void)
{
    if (process.joined == getpid())
        return TUTTI_OK;
    if (process.joined != 0)
        return tt_fail(TUTTI_INVALID_USAGE,
            "this process was forked by a rank of a job, and is not itself one that the "
            "launcher started");
    tutti_status status = load();
    if (status != TUTTI_OK)
        return status;
    pmix_status_t result = pmix.init(&process.self, NULL, 0);
    if (result != PMIX_SUCCESS)
        return failed("join the job", result);
    process.joined = getpid();
    atexit(leave);
    return TUTTI_OK;
}

/* Asks the launcher for a number that holds for the whole job. */
static tutti_status get_number(const char *key, int *number)
{
    pmix_proc_t job = process.self;
    pmix_value_t *value;
    job.rank = PMIX_RANK_WILDCARD;
    pmix_status_t result = pmix.get(&job, key, NULL, 0, &value);
    if (result != PMIX_SUCCESS)
        return failed(key, result);
    bool right = value->type == PMIX_UINT32;
    if (right)
        *number = (int)value->data.uint32;
    free(value);
    return right ? TUTTI_OK : failed(key, PMIX_ERR_TYPE_MISMATCH);
}

static tutti_status publish(const char *key, tutti_id *id)
{
    pmix_value_t value = { .type = PMIX_BYTE_OBJECT };
    value.data.bo.bytes = (char *)id->bytes;
    value.data.bo.size = sizeof id->bytes;
    pmix_status_t result = pmix.put(PMIX_GLOBAL, key, &value);
    if (result == PMIX_SUCCESS)
        result = pmix.commit();
    return result == PMIX_SUCCESS ? TUTTI_OK : failed("publish the id", result);
}

static tutti_status look_up(const char *key, tutti_id *id)
{
    pmix_proc_t first = process.self;
    pmix_value_t *value;
    first.rank = 0;
    pmix_status_t result = pmix.get(&first, key, NULL, 0, &value);
    if (result != PMIX_SUCCESS)
        return failed("tell the id that rank 0 made", result);
    bool right = value->type == PMIX_BYTE_OBJECT && value->data.bo.size == sizeof id->bytes;
    if (right)
        memcpy(id->bytes, value->data.bo.bytes, sizeof id->bytes);
    if (value->type == PMIX_BYTE_OBJECT)
        free(value->data.bo.bytes);
    free(value);
    return right ? TUTTI_OK : failed("tell the id that rank 0 made", PMIX_ERR_TYPE_MISMATCH);
}

static void end_fence(pmix_status_t status, void *call)
{
    atomic_store(&process.fence_status, status);
    atomic_store(&process.fences_ended, (unsigned)(uintptr_t)call);
}

/* Waits until all ranks have called it. It has a deadline of its own, as not every launcher honours
 * PMIX_TIMEOUT. */
static tutti_status fence(int64_t timeout_ms)
{
    pmix_info_t collect = { .key = PMIX_COLLECT_DATA, .value = { .type = PMIX_BOOL, .data.flag = true } };
    int64_t deadline_ns = tt_deadline_ns(timeout_ms);
    tt_init_progress_wait("not all ranks have asked the launcher (PMIx) for the id");
    pmix_status_t result = pmix.fence(NULL, 0, &collect, 1, end_fence, (void *)(uintptr_t)process.calls);
    if (result == PMIX_OPERATION_SUCCEEDED)
        return TUTTI_OK;
    while (result == PMIX_SUCCESS && atomic_load(&process.fences_ended) != process.calls) {
        if (tt_now_ns() >= deadline_ns)
            return tt_fail(TUTTI_TIMEOUT,
                "not all ranks that the launcher started came to ask for the id within %lld ms",
                (long long)timeout_ms);
        tt_init_progress_look();
        tt_sleep_ms(1);
    }
    if (result == PMIX_SUCCESS)
        result = atomic_load(&process.fence_status);
    return result == PMIX_SUCCESS ? TUTTI_OK : failed("wait for all ranks", result);
}

/* Publishes the id as rank 0, and gets it as every rank. The number of the call is in the key, so a second
 * communicator gets a second id. */
static tutti_status agree_on_id(bool one_host, int64_t timeout_ms, tutti_id *id)
{
    char key[32];
    tutti_status status = TUTTI_OK;
    snprintf(key, sizeof key, "tutti.id.%u", ++process.calls);
    memset(id, 0, sizeof *id);
    if (process.self.rank == 0) {
        /* Without an id the others are still to hear of it: zeros are none. */
        status =
            one_host ? tt_bootstrap_create(id, timeout_ms) : tt_bootstrap_create_for_hosts(id, timeout_ms);
        tutti_status published = publish(key, id);
        status = status == TUTTI_OK ? published : status;
    }
    tutti_status fenced = fence(timeout_ms);
    if (status == TUTTI_OK)
        status = fenced;
    if (status != TUTTI_OK || process.self.rank == 0)
        return status;
    return look_up(key, id);
}

static tutti_status ask(int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    int size, local;
    tutti_id made;
    tutti_status status = join();
    if (status == TUTTI_OK)
        status = get_number(PMIX_JOB_SIZE, &size);
    if (status == TUTTI_OK)
        status = get_number(PMIX_LOCAL_SIZE, &local);
    if (status == TUTTI_OK)
        status = agree_on_id(local == size, timeout_ms, &made);
    if (status != TUTTI_OK)
        return status;
    *n = size;
    *rank = (int)process.self.rank;
    *id = made;
    return TUTTI_OK;
}

tutti_status tt_launch_pmix(int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    pthread_mutex_lock(&tt_launch_lock);
    tutti_status status = ask(timeout_ms, n, rank, id);
    pthread_mutex_unlock(&tt_launch_lock);
    return status;
}
#endif
