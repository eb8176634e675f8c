/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_mpi.c: the same collectives with the same loop on MPI, for perf/bench/bench.sh to compare with.
 *
 * usage: mpirun -n N bench_mpi COLLECTIVE BYTES [dirty]
 *   dirty  each rank rewrites its input before each call, which alone is timed, as collperf --dirty does
 *
 * The iterations, the clock, the flag and the meaning of a size are collperf's own files, so that a ratio
 * compares libraries and not programs: ranks leave a barrier, call back to back, and the slowest rank counts.
 * Prints one JSON line with collperf's field names. Built with each MPI's mpicc by bench.sh; no part of the
 * build needs MPI. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/collperf/clock.h"
#include "perf/collperf/rewrite.h"
#include "perf/collperf/flag.h"
#include "perf/collperf/iterations.h"
#include "perf/collperf/size.h"

/* The places where the elements of a vector are. */
enum shape { NONE, SAME, BLOCK, BLOCKS, SHARE, SHARES };

struct point {
    int n, rank;
    int elements; /* of the whole vector */
    int count; /* of one block, or of the vector where it has none */
    int *counts, *firsts; /* of the v-forms: the share of each rank, and what lies before it */
    float *send, *recv;
    int dirty;
};

static void all_reduce(struct point *p)
{
    MPI_Allreduce(p->send, p->recv, p->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(struct point *p)
{
    MPI_Reduce_scatter_block(p->send, p->recv, p->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_gather(struct point *p)
{
    MPI_Allgather(p->send, p->count, MPI_FLOAT, p->recv, p->count, MPI_FLOAT, MPI_COMM_WORLD);
}

/* The root's vector stays where it is: MPI has no other form. */
static void broadcast(struct point *p)
{
    MPI_Bcast(p->rank == 0 ? p->send : p->recv, p->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void reduce(struct point *p)
{
    MPI_Reduce(p->send, p->recv, p->count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void barrier(struct point *p)
{
    (void)p;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void all_to_all(struct point *p)
{
    MPI_Alltoall(p->send, p->count, MPI_FLOAT, p->recv, p->count, MPI_FLOAT, MPI_COMM_WORLD);
}

static void gather(struct point *p)
{
    MPI_Gather(p->send, p->count, MPI_FLOAT, p->recv, p->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void scatter(struct point *p)
{
    MPI_Scatter(p->send, p->count, MPI_FLOAT, p->recv, p->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void all_gather_v(struct point *p)
{
    MPI_Allgatherv(
        p->send, p->counts[p->rank], MPI_FLOAT, p->recv, p->counts, p->firsts, MPI_FLOAT, MPI_COMM_WORLD);
}

static void reduce_scatter_v(struct point *p)
{
    MPI_Reduce_scatter(p->send, p->recv, p->counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void gather_v(struct point *p)
{
    MPI_Gatherv(
        p->send, p->counts[p->rank], MPI_FLOAT, p->recv, p->counts, p->firsts, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void scatter_v(struct point *p)
{
    MPI_Scatterv(
        p->send, p->counts, p->firsts, MPI_FLOAT, p->recv, p->counts[p->rank], MPI_FLOAT, 0, MPI_COMM_WORLD);
}

/* Calls the v-form with collperf's counts: rank i has for rank j as much as is counted for i + j, so the
 * counts begin at the own rank. */
static void all_to_all_v(struct point *p)
{
    const int *counts = p->counts + p->rank, *firsts = p->firsts + p->n;
    MPI_Alltoallv(p->send, counts, firsts, MPI_FLOAT, p->recv, counts, firsts, MPI_FLOAT, MPI_COMM_WORLD);
}

static void sendrecv(struct point *p)
{
    int right = (p->rank + 1) % p->n, left = (p->rank + p->n - 1) % p->n;
    MPI_Sendrecv(p->send, p->count, MPI_FLOAT, right, 0, p->recv, p->count, MPI_FLOAT, left, 0,
        MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static const struct row {
    const char *name;
    void (*call)(struct point *p);
    enum shape given, result; /* what a rank has before and afterwards */
    int blocks; /* the vector is one of n equal blocks */
    int from_root, at_root; /* only rank 0 has it */
    int reduces;
} rows[] = {
    { "all_reduce", all_reduce, SAME, SAME, 0, 0, 0, 1 },
    { "reduce_scatter", reduce_scatter, BLOCKS, BLOCK, 1, 0, 0, 1 },
    { "all_gather", all_gather, BLOCK, BLOCKS, 1, 0, 0, 0 },
    { "broadcast", broadcast, SAME, SAME, 0, 1, 0, 0 },
    { "reduce", reduce, SAME, SAME, 0, 0, 1, 1 },
    { "barrier", barrier, NONE, NONE, 0, 0, 0, 0 },
    { "all_gather_v", all_gather_v, SHARE, SHARES, 0, 0, 0, 0 },
    { "all_to_all", all_to_all, BLOCKS, BLOCKS, 1, 0, 0, 0 },
    { "gather", gather, BLOCK, BLOCKS, 1, 0, 1, 0 },
    { "scatter", scatter, BLOCKS, BLOCK, 1, 1, 0, 0 },
    { "reduce_scatter_v", reduce_scatter_v, SHARES, SHARE, 0, 0, 0, 1 },
    { "all_to_all_v", all_to_all_v, SHARES, SHARES, 0, 0, 0, 0 },
    { "gather_v", gather_v, SHARE, SHARES, 0, 0, 1, 0 },
    { "scatter_v", scatter_v, SHARES, SHARE, 0, 1, 0, 0 },
    { "sendrecv", sendrecv, SAME, SAME, 0, 0, 0, 0 },
};

/* Shared by all ranks. They meet here asleep while two of them measure the flag. */
struct shared_page {
    struct perf_flag flag;
    pthread_barrier_t barrier;
};

static int share_a_host(const struct point *p)
{
    MPI_Comm here;
    int ranks;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_size(here, &ranks);
    MPI_Comm_free(&here);
    return ranks == p->n;
}

/* 0 where ranks of several hosts share no flag. */
static double measure_flag(const struct point *p)
{
    if (!share_a_host(p))
        return 0;
    MPI_Win window;
    MPI_Aint bytes = p->rank == 0 ? 2 * sizeof(struct shared_page) : 0;
    int unit;
    char *own, *memory;
    double round_trip = 0;
    MPI_Win_allocate_shared(bytes, 1, MPI_INFO_NULL, MPI_COMM_WORLD, (void *)&own, &window);
    MPI_Win_shared_query(window, 0, &bytes, &unit, (void *)&memory);
    size_t step = _Alignof(struct shared_page);
    struct shared_page *page = (struct shared_page *)(memory + (step - (size_t)memory % step) % step);
    if (p->rank == 0) {
        memset(page, 0, sizeof *page);
        pthread_barrierattr_t shared;
        pthread_barrierattr_init(&shared);
        pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        pthread_barrier_init(&page->barrier, &shared, (unsigned)p->n);
        pthread_barrierattr_destroy(&shared);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    pthread_barrier_wait(&page->barrier);
    if (p->rank == 0)
        round_trip = perf_flag_lead(&page->flag);
    if (p->rank == 1)
        perf_flag_follow(&page->flag);
    pthread_barrier_wait(&page->barrier);
    MPI_Barrier(MPI_COMM_WORLD); /* nobody frees what somebody still leaves */
    MPI_Win_free(&window);
    return round_trip;
}

static int count_of(const struct point *p, enum shape shape, int only_root)
{
    if (only_root && p->rank != 0)
        return 0;
    switch (shape) {
    case NONE:
        return 0;
    case SHARE:
        return p->counts[p->rank];
    case SHARES:
        return p->elements;
    case BLOCKS:
        return p->count * p->n;
    default:
        return p->count;
    }
}

static double run_steady(const struct row *row, struct point *p, long calls)
{
    double began = perf_clock_seconds();
    for (long i = 0; i < calls; i++)
        row->call(p);
    double mine = perf_clock_seconds() - began, slowest;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

static double run_dirty(const struct row *row, struct point *p, long calls)
{
    static struct perf_times mine, latest;
    static float page[(PERF_REWRITE_PAGE + PERF_REWRITE_SHIFT) / sizeof(float)];
    uint64_t bytes = sizeof(float) * (uint64_t)count_of(p, row->given, row->from_root);
    double seconds = 0;
    int round;
    for (size_t i = 0; i < sizeof page / sizeof page[0]; i++)
        page[i] = (float)i;
    for (long left = calls; left > 0; left -= round) {
        round = left < PERF_REWRITE_CALLS ? (int)left : PERF_REWRITE_CALLS;
        for (int i = 0; i < round; i++) {
            perf_rewrite_input(p->send, bytes, (const uint8_t *)page, i);
            mine.began[i] = perf_clock_seconds();
            row->call(p);
            mine.ended[i] = perf_clock_seconds();
        }
        MPI_Allreduce(&mine, &latest, sizeof mine / sizeof(double), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        for (int i = 0; i < round; i++)
            seconds += perf_times_seconds(&latest, i);
    }
    return seconds;
}

static double run_loop(const struct row *row, struct point *p, long calls)
{
    MPI_Barrier(MPI_COMM_WORLD);
    return p->dirty ? run_dirty(row, p, calls) : run_steady(row, p, calls);
}

static void fill(struct point *p, size_t elements)
{
    for (size_t i = 0; i < elements; i++) {
        p->send[i] = 1;
        p->recv[i] = 0;
    }
}

/* One more call, where everybody gives ones and results begin as zeros: one that does nothing shows. */
static int count_wrong(const struct row *row, struct point *p, size_t elements)
{
    fill(p, elements);
    row->call(p);
    const float *result = row->call == broadcast && p->rank == 0 ? p->send : p->recv;
    float want = row->reduces ? (float)p->n : 1;
    int wrong = 0;
    for (int i = 0; i < count_of(p, row->result, row->at_root); i++)
        wrong += result[i] != want;
    return wrong;
}

static int measure(const struct row *row, struct point *p, size_t elements)
{
    double flag = measure_flag(p);
    struct perf_iterations it;
    perf_iterations_begin(&it, 5, 0, true);
    while (it.warming)
        perf_iterations_next(&it, run_loop(row, p, it.calls));
    double seconds = run_loop(row, p, it.calls) / (double)it.calls;
    int wrong = count_wrong(row, p, elements), all_wrong;
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    long long bytes = (long long)sizeof(float) * p->count * (row->blocks ? p->n : 1);
    double flag_after = measure_flag(p);
    if (p->rank == 0)
        printf("{\"collective\": \"%s\", \"type\": \"float\", \"op\": \"%s\", \"in_place\": %s, "
               "\"bytes\": %lld, \"count\": %d, \"ranks\": %d, \"time_us\": %.4f, \"wrong\": %d, "
               "\"iterations\": %ld, \"mode\": \"%s\", \"memory\": \"malloc\", \"flag_us\": %.3f, "
               "\"class\": \"%s\", \"flag_after_us\": %.3f, \"class_after\": \"%s\"}\n",
            row->name, row->reduces ? "sum" : "none", row->call == broadcast ? "true" : "false", bytes,
            p->count, p->n, 1e6 * seconds, all_wrong, it.calls, p->dirty ? "dirty" : "steady", 1e6 * flag,
            perf_flag_class(flag), 1e6 * flag_after, perf_flag_class(flag_after));
    return all_wrong;
}

static const struct row *find_row(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static void shape_point(struct point *p, const struct row *row, uint64_t bytes)
{
    uint64_t elements = perf_size_elements(bytes, sizeof(float));
    p->elements = (int)elements;
    p->count = (int)(row->blocks ? perf_size_block(elements, p->n) : row->result == NONE ? 0 : elements);
    for (int r = 0; r < p->n; r++) {
        uint64_t first = perf_size_first(elements, r, p->n);
        p->firsts[r] = (int)first;
        p->counts[r] = p->counts[p->n + r] = (int)(perf_size_first(elements, r + 1, p->n) - first);
    }
    int *own = p->firsts + p->n; /* where blocks lie if the first is as long as the own rank's */
    for (int r = 0; r < p->n; r++)
        own[r] = r == 0 ? 0 : own[r - 1] + p->counts[p->rank + r - 1];
}

static void *alloc(size_t bytes)
{
    void *memory;
    if (posix_memalign(&memory, 4096, bytes) != 0) {
        fprintf(stderr, "bench_mpi: no memory for %zu bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
        exit(3);
    }
    return memory;
}

int main(int argc, char **argv)
{
    struct point p = { 0 };
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &p.n);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    p.dirty = argc == 4 && strcmp(argv[3], "dirty") == 0;
    const struct row *row = argc == 3 + p.dirty ? find_row(argv[1]) : NULL;
    long long bytes = row != NULL ? strtoll(argv[2], NULL, 10) : -1;
    if (row == NULL || bytes < 0 || bytes > 1LL << 30 || p.n < 2) {
        fprintf(stderr, "usage: mpirun -n N bench_mpi COLLECTIVE BYTES [dirty], N at least 2\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    size_t room = (size_t)bytes / sizeof(float) + (size_t)p.n;
    p.counts = alloc(2 * (size_t)p.n * sizeof(int));
    p.firsts = alloc(2 * (size_t)p.n * sizeof(int));
    p.send = alloc(room * sizeof(float));
    p.recv = alloc(room * sizeof(float));
    shape_point(&p, row, (uint64_t)bytes);
    fill(&p, room);
    int wrong = measure(row, &p, room);
    free(p.counts);
    free(p.firsts);
    free(p.send);
    free(p.recv);
    MPI_Finalize();
    return wrong > 0;
}
