/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_init.c: how long it takes until n processes have a communicator, and what it costs each of them.
 *
 * usage: bench_init [n ...]        (default: 2 8 64 256)
 *
 * The time of a round is from the moment when all processes are there to the one when the last has its
 * communicator: id, rendezvous, arenas, connections. Memory and descriptors are counted after a barrier and
 * one all_reduce. The median of the rounds is printed, and what became of the worst rank. */
#include <dirent.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wait.h"
#include "tutti.h"

enum { ROUNDS = 5, RANKS_MAX = 1024 };

struct shared_page { /* shared by the processes of a round */
    _Atomic int here, has_id, done;
    tutti_id id;
    _Atomic int64_t first_ns, last_ns;
    struct cost {
        long kib, files, sockets;
    } costs[RANKS_MAX];
};

/* What is this process's own: not the program's text, not what it shares with others. */
static long own_kib(void)
{
    char line[128];
    long kib = 0, part;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "Pss: %ld kB", &part) == 1)
            kib += part;
    if (f)
        fclose(f);
    return kib;
}

static void count_files(struct cost *cost)
{
    DIR *d = opendir("/proc/self/fd");
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        char path[300], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        if (readlink(path, target, sizeof target - 1) < 0)
            continue;
        cost->files++;
        cost->sockets += strncmp(target, "socket:", 7) == 0;
    }
    if (d)
        closedir(d);
}

static void raise_to(_Atomic int64_t *word, int64_t value)
{
    int64_t seen = atomic_load(word);
    while (seen < value && !atomic_compare_exchange_weak(word, &seen, value)) {
    }
}

static int be_rank(struct shared_page *b, int n, int rank)
{
    tutti_comm *comm;
    float one = 1, sum = 0;
    atomic_fetch_add(&b->here, 1);
    while (atomic_load(&b->here) < n || (rank != 0 && !atomic_load(&b->has_id)))
        tt_sleep_ms(1);
    if (rank == 0) {
        atomic_store(&b->first_ns, tt_now_ns());
        if (tutti_get_id(&b->id) != TUTTI_OK)
            return 1;
        atomic_store(&b->has_id, 1);
    }
    if (tutti_comm_init_rank(n, rank, &b->id, NULL, &comm) != TUTTI_OK)
        return 2;
    raise_to(&b->last_ns, tt_now_ns());
    tutti_status status = tutti_all_reduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
    if (status != TUTTI_OK || sum != (float)n)
        return 3;
    b->costs[rank].kib = own_kib();
    count_files(&b->costs[rank]);
    atomic_fetch_add(&b->done, 1);
    while (atomic_load(&b->done) < n) /* so that all are counted while all are there */
        tt_sleep_ms(1);
    return tutti_comm_destroy(comm) == TUTTI_OK ? 0 : 4;
}

static struct cost worst(const struct shared_page *b, int n)
{
    struct cost cost = b->costs[0];
    for (int r = 1; r < n; r++) {
        const struct cost *c = &b->costs[r];
        cost.kib = c->kib > cost.kib ? c->kib : cost.kib;
        cost.files = c->files > cost.files ? c->files : cost.files;
        cost.sockets = c->sockets > cost.sockets ? c->sockets : cost.sockets;
    }
    return cost;
}

/* Milliseconds; negative: a rank failed. */
static double run_round(struct shared_page *b, int n)
{
    int failed = 0, status;
    memset(b, 0, sizeof *b);
    for (int r = 0; r < n; r++) {
        pid_t child = fork();
        if (child == 0)
            _exit(be_rank(b, n, r));
        if (child < 0)
            exit(1);
    }
    while (wait(&status) > 0)
        failed += status != 0;
    return failed > 0 ? -1 : (double)(atomic_load(&b->last_ns) - atomic_load(&b->first_ns)) / 1e6;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static const char *const sizes[] = { "2", "8", "64", "256" };
    int count = argc > 1 ? argc - 1 : 4, failures = 0;
    struct shared_page *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED)
        return 1;
    printf("# processes   init ms (median of %d)   memory KiB   descriptors   sockets (of the worst rank)\n",
        ROUNDS);
    for (int i = 0; i < count; i++) {
        int n = atoi(argc > 1 ? argv[i + 1] : sizes[i]);
        double ms[ROUNDS];
        if (n < 1 || n > RANKS_MAX)
            return 2;
        for (int round = 0; round < ROUNDS; round++)
            ms[round] = run_round(b, n);
        qsort(ms, ROUNDS, sizeof ms[0], compare);
        struct cost cost = worst(b, n);
        printf("%11d %24.1f %12ld %13ld %9ld\n", n, ms[ROUNDS / 2], cost.kib, cost.files, cost.sockets);
        fflush(stdout);
        failures += ms[0] < 0;
    }
    return failures > 0;
}
