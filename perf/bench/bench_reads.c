/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_reads.c: long messages between private buffers, beside the method of libraries that have each message
 * read at once by process_vm_readv (UCC over UCX, Open MPI over CMA): no more than the reads, without any
 * library.
 *
 * usage: bench_reads [-m huge|small] [-b MIB] [n ...]        (default: both, 1 4 8 16 64, 2 8)
 *
 * Each rank is a process, on a core of its own as far as there are cores. The same buffers are used by turns:
 * all receivers read what is for them, and then Tutti does the same by its call. Of broadcast, every other
 * rank reads the root's buffer; of all_gather and all_to_all each rank copies its own block and reads the
 * others', beginning with the next rank's. A time is from when the last rank begins until the last is done;
 * where ranks share cores, from when the first begins, for others may be through before the last comes.
 * Printed are the medians and reads / Tutti: above 1, Tutti is faster. Fails only if a call does, or if no
 * process may read another's memory. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/collperf/clock.h"
#include "tutti.h"

enum { RANKS = 16, TURNS = 21, WARM = 3, HUGEPAGE = 2 << 20 };
enum call { SENDRECV, BROADCAST, ALL_GATHER, ALL_TO_ALL, CALLS };
enum memory { HUGE_PAGES, SMALL_PAGES, MEMORIES };
static const char *const call_names[CALLS] = { "sendrecv", "broadcast", "all_gather", "all_to_all" };
static const char *const memory_names[MEMORIES] = { "huge", "small" };
static const uint64_t sizes[] = { 1 << 20, 4 << 20, 8 << 20, 16 << 20, 64 << 20 };
enum { SIZES = sizeof sizes / sizeof sizes[0] };

struct choice { /* what is asked for */
    int memory; /* MEMORIES: all */
    uint64_t bytes; /* 0: all sizes */
};

struct page { /* shared by all processes */
    tutti_id id;
    pid_t pids[RANKS];
    void *send[RANKS];
    _Atomic int failed;
    pthread_barrier_t meeting;
    _Alignas(64) _Atomic uint32_t come;
    double began[RANKS], ended[RANKS];
};

struct rank {
    struct page *page;
    int n, me, cores;
    uint32_t round;
    tutti_comm *comm;
    uint8_t *send, *recv;
    uint64_t bytes; /* of the call, as collperf has it */
};

/* Waits for all: awake, unless ranks share cores. */
static void meet(struct rank *r)
{
    uint32_t all = ++r->round * (uint32_t)r->n;
    if (r->n > r->cores) {
        pthread_barrier_wait(&r->page->meeting);
        return;
    }
    atomic_fetch_add(&r->page->come, 1);
    while ((int32_t)(atomic_load(&r->page->come) - all) < 0)
        continue;
}

static bool read_from(struct rank *r, int peer, uint64_t at, void *to, uint64_t bytes)
{
    struct iovec local = { to, bytes }, remote = { (uint8_t *)r->page->send[peer] + at, bytes };
    return process_vm_readv(r->page->pids[peer], &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

static bool read_all(struct rank *r, enum call call)
{
    uint64_t block = r->bytes / (uint64_t)r->n;
    bool well = true;
    if (call == SENDRECV)
        return read_from(r, (r->me + r->n - 1) % r->n, 0, r->recv, r->bytes);
    if (call == BROADCAST)
        return r->me == 0 || read_from(r, 0, 0, r->send, r->bytes);
    for (int i = 1; i < r->n && well; i++) {
        int peer = (r->me + i) % r->n;
        uint64_t at = call == ALL_TO_ALL ? (uint64_t)r->me * block : 0;
        well = read_from(r, peer, at, r->recv + (uint64_t)peer * block, block);
    }
    uint64_t own = (uint64_t)r->me * block;
    memcpy(r->recv + own, r->send + (call == ALL_TO_ALL ? own : 0), block);
    return well;
}

static bool call_all(struct rank *r, enum call call)
{
    tutti_stream none = tutti_no_stream();
    size_t bytes = (size_t)r->bytes, block = bytes / (size_t)r->n;
    if (call == BROADCAST)
        return tutti_broadcast(r->send, r->send, bytes, TUTTI_UINT8, 0, r->comm, none) == TUTTI_OK;
    if (call == ALL_GATHER)
        return tutti_all_gather(r->send, r->recv, block, TUTTI_UINT8, r->comm, none) == TUTTI_OK;
    if (call == ALL_TO_ALL)
        return tutti_all_to_all(r->send, r->recv, block, TUTTI_UINT8, r->comm, none) == TUTTI_OK;
    tutti_group_start();
    tutti_send(r->send, bytes, TUTTI_UINT8, (r->me + 1) % r->n, r->comm, none);
    tutti_recv(r->recv, bytes, TUTTI_UINT8, (r->me + r->n - 1) % r->n, r->comm, none);
    return tutti_group_end() == TUTTI_OK;
}

/* Microseconds, at rank 0; a failure is noted. */
static double time_one(struct rank *r, enum call call, bool reads)
{
    struct page *p = r->page;
    meet(r);
    p->began[r->me] = perf_clock_seconds();
    bool well = reads ? read_all(r, call) : call_all(r, call);
    p->ended[r->me] = perf_clock_seconds();
    if (!well)
        atomic_store(&p->failed, 1);
    meet(r);
    double began = p->began[0], ended = 0;
    for (int i = 0; i < r->n; i++) {
        bool later = p->began[i] > began, awake = r->n <= r->cores;
        began = later == awake ? p->began[i] : began;
        ended = p->ended[i] > ended ? p->ended[i] : ended;
    }
    meet(r);
    return 1e6 * (ended - began);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench(struct rank *r, enum call call, const char *memory)
{
    double us[2][TURNS];
    for (int i = -WARM; i < TURNS; i++)
        for (int reads = 0; reads < 2; reads++) {
            double took = time_one(r, call, reads == 1);
            if (i >= 0)
                us[reads][i] = took;
        }
    for (int reads = 0; reads < 2; reads++)
        qsort(us[reads], TURNS, sizeof us[0][0], compare);
    double tutti = us[0][TURNS / 2], read = us[1][TURNS / 2];
    if (r->me == 0)
        printf("%5d  %-10s  %-5s  %9llu  %9.1f  %9.1f  %5.2f\n", r->n, call_names[call], memory,
            (unsigned long long)r->bytes, read, tutti, read / tutti);
    fflush(stdout);
}

static uint8_t *map_area(uint64_t bytes, enum memory memory)
{
    uint8_t *at = mmap(
        NULL, bytes + HUGEPAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    at += (HUGEPAGE - (uintptr_t)at % HUGEPAGE) % HUGEPAGE;
    (void)madvise(at, bytes, memory == HUGE_PAGES ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(at, 1, bytes);
    return at;
}

/* Returns how many cores there are. */
static int bind_to_core(int me)
{
    cpu_set_t all, own;
    int cores = sched_getaffinity(0, sizeof all, &all) == 0 ? CPU_COUNT(&all) : 0;
    for (int cpu = 0, nth = 0; cpu < CPU_SETSIZE && cores > 0; cpu++)
        if (CPU_ISSET(cpu, &all) && nth++ == me % cores) {
            CPU_ZERO(&own);
            CPU_SET(cpu, &own);
            sched_setaffinity(0, sizeof own, &own);
        }
    return cores;
}

static int be_rank(struct page *page, int n, int me, const struct choice *only)
{
    struct rank r = { .page = page, .n = n, .me = me };
    r.cores = bind_to_core(me);
    page->pids[me] = getpid();
    if (me == 0 && tutti_get_id(&page->id) != TUTTI_OK)
        exit(1);
    meet(&r);
    if (tutti_comm_init_rank(n, me, &page->id, NULL, &r.comm) != TUTTI_OK)
        return 1;
    for (int memory = 0; memory < MEMORIES; memory++)
        for (int size = 0; size < SIZES; size++) {
            if ((only->memory != MEMORIES && only->memory != memory) ||
                (only->bytes != 0 && only->bytes != sizes[size]))
                continue;
            r.bytes = sizes[size];
            r.send = page->send[me] = map_area(r.bytes, (enum memory)memory);
            r.recv = map_area(r.bytes, (enum memory)memory);
            for (int call = 0; call < CALLS; call++)
                bench(&r, (enum call)call, memory_names[memory]);
            munmap(r.send, r.bytes);
            munmap(r.recv, r.bytes);
        }
    return tutti_comm_destroy(r.comm) != TUTTI_OK || atomic_load(&page->failed);
}

static bool run(int n, const struct choice *only)
{
    int failed = 0, status;
    struct page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return false;
    fflush(stdout);
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&page->meeting, &shared, (unsigned)n);
    for (int r = 0; r < n; r++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            exit(be_rank(page, n, r, only));
        }
        if (pid < 0)
            exit(1); /* those that are there end with this process */
    }
    while (wait(&status) > 0)
        failed += status != 0;
    munmap(page, sizeof *page);
    return failed == 0;
}

static bool read_options(int argc, char **argv, struct choice *only)
{
    int option;
    while ((option = getopt(argc, argv, "m:b:")) != -1) {
        if (option == 'm')
            only->memory = strcmp(optarg, "huge") == 0 ? HUGE_PAGES : SMALL_PAGES;
        else if (option == 'b')
            only->bytes = strtoull(optarg, NULL, 10) << 20;
        if (option == '?' || (option == 'm' && strcmp(optarg, memory_names[only->memory]) != 0))
            return false;
    }
    bool known = only->bytes == 0;
    for (int i = 0; i < SIZES; i++)
        known |= only->bytes == sizes[i];
    return known;
}

int main(int argc, char **argv)
{
    static const int defaults[] = { 2, 8 };
    struct choice only = { .memory = MEMORIES };
    if (!read_options(argc, argv, &only)) {
        fprintf(stderr, "usage: bench_reads [-m huge|small] [-b 1|4|8|16|64 (MiB)] [n ...]\n");
        return 1;
    }
    int given = argc - optind, runs = given > 0 ? given : 2;
    setenv("TUTTI_DEVICE", "none", 0); /* host memory, whatever the machine has */
    printf("ranks  call        pages      bytes   reads us   Tutti us  ratio\n");
    for (int i = 0; i < runs; i++) {
        int n = given > 0 ? atoi(argv[optind + i]) : defaults[i];
        if (n < 2 || n > RANKS) {
            fprintf(stderr, "bench_reads: %d ranks; legal: 2 to %d\n", n, RANKS);
            return 1;
        }
        if (!run(n, &only)) {
            fprintf(stderr, "bench_reads: a rank failed, or may not read another's memory\n");
            return 1;
        }
    }
    return 0;
}
