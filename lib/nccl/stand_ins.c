/* SPDX-License-Identifier: BSD-3-Clause */
/* stand_ins.c: what libnccl does by hand because tutti.h has no function for it yet. Each is one function
 * with the name of what it stands for, so that it goes when that comes. */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "nccl/shim.h"

enum { EXIT_WAIT_MS = 2000 };

struct tt_nccl_finalizer {
    pthread_t thread;
    tutti_comm *comm;
    _Atomic bool over;
};

/* Ends that are on their way out, each on a thread; the exit of the process waits for them a little. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t one_is_over = PTHREAD_COND_INITIALIZER;
static struct {
    int count;
    pid_t process; /* a forked child has none of these threads */
} released;

struct timespec tt_nccl_moment(int64_t from_now_ms)
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

/* tutti_comm_traffic waits for what is queued; but without a bound. */
void tt_nccl_flush(tutti_comm *comm)
{
    tutti_traffic traffic = { .size = sizeof traffic };
    tutti_comm_traffic(comm, &traffic);
}

static void *finalize(void *argument)
{
    struct tt_nccl_finalizer *f = argument;
    tutti_comm_finalize(f->comm);
    f->over = true;
    return NULL;
}

struct tt_nccl_finalizer *tt_nccl_finalize_start(tutti_comm *comm)
{
    struct tt_nccl_finalizer *f = calloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    f->comm = comm;
    if (pthread_create(&f->thread, NULL, finalize, f) == 0)
        return f;
    free(f);
    return NULL;
}

bool tt_nccl_finalize_is_over(const struct tt_nccl_finalizer *finalizer)
{
    return finalizer->over;
}

void tt_nccl_free_failed(tutti_comm *comm, struct tt_nccl_finalizer *finalizer)
{
    if (finalizer != NULL)
        pthread_join(finalizer->thread, NULL);
    free(finalizer);
    tutti_comm_destroy(comm);
}

static void wait_at_exit(void)
{
    struct timespec until = tt_nccl_moment(EXIT_WAIT_MS);
    int error = 0;
    if (released.process != getpid())
        return;
    pthread_mutex_lock(&lock);
    while (released.count > 0 && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&one_is_over, &lock, &until);
    pthread_mutex_unlock(&lock);
}

static void count_released(int change)
{
    static bool hooked;
    pthread_mutex_lock(&lock);
    if (released.process != getpid())
        released.count = 0;
    released.process = getpid();
    released.count += change;
    if (!hooked)
        hooked = atexit(wait_at_exit) == 0;
    pthread_cond_broadcast(&one_is_over);
    pthread_mutex_unlock(&lock);
}

static void *see_out(void *argument)
{
    struct tt_nccl_finalizer *f = argument;
    if (f->thread != 0)
        pthread_join(f->thread, NULL);
    else
        tutti_comm_finalize(f->comm);
    tutti_comm_destroy(f->comm);
    free(f);
    count_released(-1);
    return NULL;
}

/* Finalize is over when all peers are through; a thread waits for that. */
tutti_status tt_nccl_release(tutti_comm *comm, struct tt_nccl_finalizer *finalizer)
{
    pthread_t thread;
    struct tt_nccl_finalizer *f = finalizer != NULL ? finalizer : calloc(1, sizeof *f);
    if (f == NULL)
        return tutti_comm_destroy(comm);
    f->comm = comm;
    count_released(1);
    if (pthread_create(&thread, NULL, see_out, f) == 0)
        pthread_detach(thread);
    else
        see_out(f);
    return TUTTI_OK;
}

/* A program that is never started. A group that has an initialisation refuses it, and is over as well. */
tutti_status tt_nccl_group_cancel(void)
{
    tutti_program *program = NULL;
    tutti_status status = tutti_group_keep(&program);
    if (status == TUTTI_OK)
        tutti_program_destroy(program);
    return status;
}

static void *make_child(void *argument)
{
    struct tt_nccl_later *later = argument;
    later->result = later->make(later);
    return NULL;
}

void tt_nccl_side_by_side(struct tt_nccl_later *all, int count)
{
    for (int i = 0; i < count; i++) {
        if (all[i].kind != TT_NCCL_CHILD)
            continue;
        all[i].thread = 0;
        if (pthread_create(&all[i].thread, NULL, make_child, &all[i]) != 0)
            all[i].result =
                tt_nccl_fail(ncclSystemError, "no thread to make a child of a communicator in a group");
    }
    for (int i = 0; i < count; i++)
        if (all[i].kind == TT_NCCL_CHILD && all[i].thread != 0)
            pthread_join(all[i].thread, NULL);
}

/* Over the parent, whose ranks all listen. After a failure there is no way between survivors. */
tutti_status tt_nccl_agree_on_id(ncclComm_t comm, const char *excluded, tutti_id *id)
{
    int lowest = 0;
    tutti_status status = TUTTI_OK;
    while (excluded[lowest])
        lowest++;
    if (comm->rank != lowest)
        return tutti_recv(id, sizeof *id, TUTTI_UINT8, lowest, comm->tutti, tutti_no_stream());
    status = tutti_get_id(id);
    for (int r = lowest + 1; r < comm->n && status == TUTTI_OK; r++)
        if (!excluded[r])
            status = tutti_send(id, sizeof *id, TUTTI_UINT8, r, comm->tutti, tutti_no_stream());
    return status;
}

float tt_nccl_price(void)
{
    return NCCL_UNDEF_FLOAT;
}
