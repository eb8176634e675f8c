/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_ranks.c: what the first calls of many ranks on one host take, which share its cores: what each rank
 * does by itself counts as often as there are ranks, and what is done once for all does not.
 *
 * usage: bench_ranks [n ...]        (default: 64 128 256)
 *
 * Each stage begins when the last process has come to it and ends when the last is through. The processor
 * time is that of all processes together; on a busy machine it tells more than the time. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/collperf/clock.h"
#include "tutti.h"

enum stage { INIT, BARRIER, REDUCE, REDUCE_AGAIN, SPLIT, SPLIT_AGAIN, CHILD, DESTROY, STAGES };
static const char *const names[STAGES] = { "init", "barrier", "all_reduce", "all_reduce again", "split",
    "split again", "all_reduce of a child", "destroy" };

struct clocks { /* of one stage, shared by all processes */
    pthread_barrier_t meeting;
    _Atomic int64_t began_us, ended_us, user_us, system_us;
};

struct rank {
    int n, rank;
    tutti_id id;
    struct clocks *clocks;
    tutti_comm *comm, *children[2];
};

static int64_t to_us(struct timeval t)
{
    return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

/* Raises a moment to now, if no other process has been here later. */
static void raise_to_now(_Atomic int64_t *moment)
{
    int64_t now = (int64_t)(1e6 * perf_clock_seconds()), seen = atomic_load(moment);
    while (seen < now && !atomic_compare_exchange_weak(moment, &seen, now))
        continue;
}

static tutti_status run_stage(struct rank *r, enum stage stage)
{
    float one = 1, sum = 0;
    tutti_status status = TUTTI_OK;
    switch (stage) {
    case INIT:
        return tutti_comm_init_rank(r->n, r->rank, &r->id, NULL, &r->comm);
    case BARRIER:
        return tutti_barrier(r->comm, tutti_no_stream());
    case REDUCE:
    case REDUCE_AGAIN:
    case CHILD:
        return tutti_all_reduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM,
            stage == CHILD ? r->children[0] : r->comm, tutti_no_stream());
    case SPLIT:
    case SPLIT_AGAIN:
        return tutti_comm_split(r->comm, r->rank % 2, 0, NULL, &r->children[stage == SPLIT_AGAIN]);
    default:
        for (int i = 0; i < 2 && status == TUTTI_OK; i++)
            status = tutti_comm_destroy(r->children[i]);
        return status == TUTTI_OK ? tutti_comm_destroy(r->comm) : status;
    }
}

static int be_rank(struct rank *r)
{
    for (enum stage stage = INIT; stage < STAGES; stage++) {
        struct clocks *c = &r->clocks[stage];
        struct rusage before, after;
        raise_to_now(&c->began_us);
        pthread_barrier_wait(&c->meeting);
        getrusage(RUSAGE_SELF, &before);
        if (run_stage(r, stage) != TUTTI_OK) {
            fprintf(stderr, "bench_ranks: %s of rank %d: %s\n", names[stage], r->rank,
                tutti_get_last_error(NULL));
            return 1;
        }
        raise_to_now(&c->ended_us);
        getrusage(RUSAGE_SELF, &after);
        atomic_fetch_add(&c->user_us, to_us(after.ru_utime) - to_us(before.ru_utime));
        atomic_fetch_add(&c->system_us, to_us(after.ru_stime) - to_us(before.ru_stime));
    }
    return 0;
}

static bool run_ranks(int n, struct clocks *clocks)
{
    struct rank r = { .n = n, .clocks = clocks };
    int status, made = 0;
    if (tutti_get_id(&r.id) != TUTTI_OK) {
        fprintf(stderr, "bench_ranks: %s\n", tutti_get_last_error(NULL));
        return false;
    }
    fflush(stdout);
    for (; made < n; made++) {
        pid_t pid = fork();
        r.rank = made;
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(be_rank(&r));
        }
        if (pid < 0) { /* those that are there, who would wait for ever, end with this process */
            perror("bench_ranks: fork");
            exit(1);
        }
    }
    for (int i = 0; i < n; i++)
        if (wait(&status) < 0 || status != 0)
            exit(1); /* the others may wait for that one */
    return true;
}

static bool bench(int n)
{
    size_t bytes = STAGES * sizeof(struct clocks);
    struct clocks *clocks = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (clocks == MAP_FAILED) {
        perror("bench_ranks: mmap");
        return false;
    }
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    for (int i = 0; i < STAGES; i++)
        pthread_barrier_init(&clocks[i].meeting, &shared, (unsigned)n);
    bool well = run_ranks(n, clocks);
    for (int i = 0; i < STAGES && well; i++)
        printf("%5d  %-22s %10.1f %10.1f %10.1f\n", n, names[i],
            1e-3 * (double)(clocks[i].ended_us - clocks[i].began_us), 1e-3 * (double)clocks[i].user_us,
            1e-3 * (double)clocks[i].system_us);
    munmap(clocks, bytes);
    return well;
}

int main(int argc, char **argv)
{
    static const int sizes[] = { 64, 128, 256 };
    double load = -1;
    bool well = true;
    if (getloadavg(&load, 1) == 1)
        printf("# load %.1f on %ld cores\n", load, sysconf(_SC_NPROCESSORS_ONLN));
    printf("ranks  stage                          ms    user ms  system ms\n");
    for (int i = 1; i < argc && well; i++)
        well = atoi(argv[i]) > 0 && bench(atoi(argv[i]));
    for (size_t i = 0; argc < 2 && i < sizeof sizes / sizeof sizes[0] && well; i++)
        well = bench(sizes[i]);
    return well ? 0 : 1;
}
