/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_nccl.c: what NCCL's interface costs beside Tutti's own: a small call, and the first communicator.
 *
 * usage: bench_nccl
 *
 * A call of one rank waits for nobody, so that nothing but its own way is timed: batches of ncclAllReduce and
 * of tutti_all_reduce of 8 bytes by turns, each shorter than a time slice, and of each the fastest. The first
 * communicator is that of 8 processes, from the moment when the last of them is there until the last has it;
 * the median of some rounds. Prints a line with the bar for each, and fails only if a call does. */
#include <nccl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/collperf/clock.h"
#include "tutti.h"

enum { CALLS = 2000, BATCHES = 500, RANKS = 8, ROUNDS = 9, BAR_NS = 20, BAR_MS = 100 };

static void tell(const char *what, const char *unit, double value, double bar)
{
    printf("%-44s %8.1f %s, bar %3.0f: %s\n", what, value, unit, bar, value <= bar ? "met" : "missed");
}

/* Nanoseconds of a call in a batch; below 0: one failed. */
static double time_nccl(ncclComm_t comm, const float *send, float *recv)
{
    ncclResult_t result = ncclSuccess;
    double began = perf_clock_seconds();
    for (int i = 0; i < CALLS && result == ncclSuccess; i++)
        result = ncclAllReduce(send, recv, 2, ncclFloat, ncclSum, comm, NULL);
    return result == ncclSuccess ? 1e9 * (perf_clock_seconds() - began) / CALLS : -1;
}

static double time_tutti(tutti_comm *comm, const float *send, float *recv)
{
    tutti_status status = TUTTI_OK;
    double began = perf_clock_seconds();
    for (int i = 0; i < CALLS && status == TUTTI_OK; i++)
        status = tutti_all_reduce(send, recv, 2, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
    return status == TUTTI_OK ? 1e9 * (perf_clock_seconds() - began) / CALLS : -1;
}

/* What programs that wait for a stream ask in a loop. */
static double time_question(ncclComm_t comm)
{
    ncclResult_t state = ncclSuccess;
    double began = perf_clock_seconds();
    for (int i = 0; i < CALLS && state == ncclSuccess; i++)
        if (ncclCommGetAsyncError(comm, &state) != ncclSuccess)
            return -1;
    return state == ncclSuccess ? 1e9 * (perf_clock_seconds() - began) / CALLS : -1;
}

static bool bench_call(void)
{
    float send[2] = { 1, 2 }, recv[2];
    double nccl_ns = 0, tutti_ns = 0, question_ns = 0;
    ncclComm_t nccl;
    tutti_comm *tutti;
    ncclUniqueId unique;
    tutti_id id;
    bool well = ncclGetUniqueId(&unique) == ncclSuccess &&
                ncclCommInitRank(&nccl, 1, unique, 0) == ncclSuccess && tutti_get_id(&id) == TUTTI_OK &&
                tutti_comm_init_rank(1, 0, &id, NULL, &tutti) == TUTTI_OK;
    for (int batch = 0; batch < BATCHES && well; batch++) {
        double x = time_nccl(nccl, send, recv), y = time_tutti(tutti, send, recv), z = time_question(nccl);
        nccl_ns = batch == 0 || x < nccl_ns ? x : nccl_ns;
        tutti_ns = batch == 0 || y < tutti_ns ? y : tutti_ns;
        question_ns = batch == 0 || z < question_ns ? z : question_ns;
        well = x > 0 && y > 0 && z > 0;
    }
    if (!well)
        return false;
    printf("ncclAllReduce %.1f ns, tutti_all_reduce %.1f ns, of one rank\n", nccl_ns, tutti_ns);
    tell("ncclAllReduce beyond tutti_all_reduce", "ns", nccl_ns - tutti_ns, BAR_NS);
    tell("ncclCommGetAsyncError", "ns", question_ns, BAR_NS);
    ncclCommDestroy(nccl);
    return tutti_comm_destroy(tutti) == TUTTI_OK;
}

struct page { /* shared by the processes of a round */
    pthread_barrier_t meeting;
    ncclUniqueId id;
    double began, has_it[RANKS];
};

static int be_rank(struct page *page, int rank)
{
    ncclComm_t comm;
    pthread_barrier_wait(&page->meeting);
    if (rank == 0) {
        page->began = perf_clock_seconds();
        if (ncclGetUniqueId(&page->id) != ncclSuccess)
            return 1;
    }
    pthread_barrier_wait(&page->meeting);
    if (ncclCommInitRank(&comm, RANKS, page->id, rank) != ncclSuccess)
        return 1;
    page->has_it[rank] = perf_clock_seconds();
    return ncclCommDestroy(comm) != ncclSuccess;
}

/* Milliseconds; below 0: a rank failed. */
static double run_round(struct page *page)
{
    double last = 0;
    int failed = 0, status;
    for (int r = 0; r < RANKS; r++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            exit(be_rank(page, r));
        }
        if (pid < 0)
            exit(1); /* those that are there end with this process */
    }
    while (wait(&status) > 0)
        failed += status != 0;
    for (int r = 0; r < RANKS; r++)
        last = page->has_it[r] > last ? page->has_it[r] : last;
    return failed > 0 ? -1 : 1e3 * (last - page->began);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool bench_first(void)
{
    double ms[ROUNDS];
    struct page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&page->meeting, &shared, RANKS);
    for (int round = 0; round < ROUNDS; round++)
        ms[round] = run_round(page);
    munmap(page, sizeof *page);
    qsort(ms, ROUNDS, sizeof ms[0], compare);
    if (ms[0] < 0)
        return false;
    printf("first communicator of 8 processes: %.1f to %.1f ms\n", ms[0], ms[ROUNDS - 1]);
    tell("first communicator of 8 processes, median", "ms", ms[ROUNDS / 2], BAR_MS);
    return true;
}

int main(void)
{
    setenv("TUTTI_DEVICE", "none", 0); /* host memory, whatever the machine has */
    bool well = bench_first(); /* first: what was forked then has nothing of the library */
    fflush(stdout);
    if (well && bench_call())
        return 0;
    fprintf(stderr, "bench_nccl: %s\n", ncclGetLastError(NULL));
    return 1;
}
