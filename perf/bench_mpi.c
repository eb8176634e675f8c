/* bench_mpi.c: the same collectives with the same loop on MPI, for perf/bench.sh to compare with.
 *
 * usage: mpirun -n N bench_mpi COLLECTIVE BYTES LABEL
 *
 * The pace, the clock and the meaning of a size are collperf's own files, so that a ratio compares libraries
 * and not programs: ranks leave a barrier, call back to back out of place, and the slowest rank counts.
 * Prints one JSON line with collperf's field names. Built with mpicc by bench.sh; no part of the build needs
 * MPI. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "pace.h"

struct point {
    int n, rank;
    int count; /* of floats, as the call takes it */
    float *send, *recv;
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

static void broadcast(struct point *p)
{
    MPI_Bcast(p->recv, p->count, MPI_FLOAT, 0, MPI_COMM_WORLD);
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

static void sendrecv(struct point *p)
{
    int right = (p->rank + 1) % p->n, left = (p->rank + p->n - 1) % p->n;
    MPI_Sendrecv(p->send, p->count, MPI_FLOAT, right, 0, p->recv, p->count, MPI_FLOAT, left, 0,
        MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static const struct row {
    const char *name;
    void (*call)(struct point *p);
    int blocks; /* a size is that of n blocks */
} rows[] = {
    { "all_reduce", all_reduce, 0 },
    { "reduce_scatter", reduce_scatter, 1 },
    { "all_gather", all_gather, 1 },
    { "broadcast", broadcast, 0 },
    { "reduce", reduce, 0 },
    { "barrier", barrier, 0 },
    { "sendrecv", sendrecv, 0 },
};

static double run_loop(const struct row *row, struct point *p, long calls)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double began = perf_clock_seconds();
    for (long i = 0; i < calls; i++)
        row->call(p);
    double mine = perf_clock_seconds() - began, slowest;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

/* Sums of ones tell a call that did nothing. */
static int is_wrong(const struct row *row, const struct point *p)
{
    if (row->call != all_reduce)
        return 0;
    int wrong = 0;
    for (int i = 0; i < p->count; i++)
        wrong += p->recv[i] != (float)p->n;
    return wrong;
}

static int measure(const struct row *row, struct point *p, long bytes, const char *label)
{
    struct perf_pace pace;
    perf_pace_begin(&pace, 5, 0);
    while (pace.warming)
        perf_pace_next(&pace, run_loop(row, p, pace.calls));
    double seconds = run_loop(row, p, pace.calls) / (double)pace.calls;
    int wrong = is_wrong(row, p), all_wrong;
    MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (p->rank == 0)
        printf(
            "{\"library\": \"%s\", \"collective\": \"%s\", \"type\": \"float\", \"op\": \"sum\", "
            "\"in_place\": "
            "false, \"bytes\": %ld, \"ranks\": %d, \"time_us\": %.4f, \"wrong\": %d, \"iterations\": %ld}\n",
            label, row->name, bytes, p->n, 1e6 * seconds, all_wrong, pace.calls);
    return all_wrong;
}

int main(int argc, char **argv)
{
    struct point p = { 0 };
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &p.n);
    MPI_Comm_rank(MPI_COMM_WORLD, &p.rank);
    const struct row *row = rows, *end = rows + sizeof rows / sizeof rows[0];
    while (argc == 4 && row < end && strcmp(row->name, argv[1]) != 0)
        row++;
    long bytes = argc == 4 ? strtol(argv[2], NULL, 10) : -1;
    if (argc != 4 || row == end || bytes < 0 || bytes > 1L << 30) {
        fprintf(stderr, "usage: mpirun -n N bench_mpi COLLECTIVE BYTES LABEL\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    size_t elements = (size_t)bytes / sizeof(float) + (size_t)p.n;
    p.count = (int)((size_t)bytes / sizeof(float) / (size_t)(row->blocks ? p.n : 1));
    p.send = malloc(elements * sizeof(float));
    p.recv = calloc(elements, sizeof(float));
    if (p.send == NULL || p.recv == NULL) {
        fprintf(stderr, "bench_mpi: no memory for %ld bytes\n", bytes);
        MPI_Abort(MPI_COMM_WORLD, 3);
        return 3;
    }
    for (size_t i = 0; i < elements; i++)
        p.send[i] = 1;
    int wrong = measure(row, &p, bytes, argv[3]);
    free(p.send);
    free(p.recv);
    MPI_Finalize();
    return wrong > 0;
}
