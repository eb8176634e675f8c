/* SPDX-License-Identifier: BSD-3-Clause */
/* calls.c: what an all_reduce on a device's stream takes, and whether it is right, however it is called.
 *
 * usage: calls DEVICE processes|threads|mps RANKS [brief]
 *        mps: processes, whom the caller has put under MPS, for who reads the lines
 *
 *   eager   calls back to back, and one wait for all
 *   sync    a wait for each
 *   group   16 calls in a group
 *   graph   10 calls that are captured and replayed; not of threads on one device, which have to capture in
 *           one group
 *   chain   the operand is made on the stream just before each call, always in the same place, ranks are late
 *           by turns, and every result is compared: what the program does between calls costs a device of
 *           several processes a change from one to another
 *
 * The setting executor (TUTTI_EXECUTOR) says by which way. Each mode and length is a line of JSON of rank 0,
 * its time a median. The exit code is 1 if a result was wrong or a call failed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perf/collperf/clock.h"
#include "perf/collperf/device.h"

enum { RANKS_MAX = 8, ROUNDS = 5, GROUP = 16, GRAPH = 10, LENGTHS = 3, MOST = 1 << 20 };
static const size_t lengths[LENGTHS] = { 8, 64 << 10, MOST };

enum mode { EAGER, SYNC, GROUPED, GRAPHED, CHAINED, MODES };
static const char *const names[MODES] = { "eager", "sync", "group", "graph", "chain" };

struct shared {
    pthread_barrier_t barrier;
    tutti_id id;
    int n, device;
    const char *kind;
    bool threads, brief;
};
static struct shared *shared;

struct rank {
    int rank, failed;
    struct perf_device device;
    tutti_comm *comm;
    tutti_stream stream;
    uint32_t *given, *got, *host; /* of the device, GROUP results; pinned */
};

static void check(struct rank *r, tutti_status status, const char *what)
{
    if (status == TUTTI_OK || r->failed++ > 0)
        return;
    fprintf(stderr, "calls: rank %d: %s: %s: %s\n", r->rank, what, tutti_status_string(status),
        tutti_get_last_error(NULL));
}

static void meet(void)
{
    pthread_barrier_wait(&shared->barrier);
}

static void reduce(struct rank *r, size_t bytes, int place)
{
    check(r,
        tutti_all_reduce(r->given, (uint8_t *)r->got + (size_t)place * bytes, bytes / 4, TUTTI_UINT32,
            TUTTI_SUM, r->comm, r->stream),
        "all_reduce");
}

/* What rank `rank` gives at place i of call `call`. */
static uint32_t value(int rank, int call, size_t i)
{
    return (uint32_t)(rank + 1) * 1000003U + (uint32_t)call * 31U + (uint32_t)i;
}

static void give(struct rank *r, size_t bytes, int call)
{
    uint32_t *from = r->host + call % 2 * (MOST / 4);
    for (size_t i = 0; i < bytes / 4; i++)
        from[i] = value(r->rank, call, i);
    check(r, perf_device_copy(&r->device, r->given, from, bytes), "copy");
}

static void compare(struct rank *r, size_t bytes, int place, int call, const char *mode)
{
    uint32_t *back = r->host + 2 * (MOST / 4);
    check(r, perf_device_copy(&r->device, back, (uint8_t *)r->got + (size_t)place * bytes, bytes), "copy");
    check(r, perf_device_sync(&r->device), "sync");
    for (size_t i = 0; i < bytes / 4 && r->failed == 0; i++) {
        uint32_t expected = 0;
        for (int k = 0; k < shared->n; k++)
            expected += value(k, call, i);
        if (back[i] == expected)
            continue;
        fprintf(stderr, "calls: rank %d: %s of %zu bytes: element %zu is %u, and should be %u\n", r->rank,
            mode, bytes, i, back[i], expected);
        r->failed++;
    }
}

/* Makes the calls of one round, and returns how many those are. */
static int make(struct rank *r, enum mode mode, size_t bytes)
{
    int calls = mode == GROUPED   ? GROUP
                : mode == GRAPHED ? GRAPH
                : shared->brief   ? 3
                : bytes < MOST    ? 50
                                  : 10;
    if (mode == GROUPED)
        check(r, tutti_group_start(), "group_start");
    for (int i = 0; i < calls && mode != GRAPHED; i++) {
        if (mode == CHAINED && i % shared->n == r->rank)
            usleep(100);
        if (mode == CHAINED)
            give(r, bytes, i);
        reduce(r, bytes, mode == GROUPED ? i : 0);
        if (mode == SYNC)
            check(r, perf_device_sync(&r->device), "sync");
        if (mode == CHAINED)
            compare(r, bytes, 0, i, names[mode]);
    }
    if (mode == GROUPED)
        check(r, tutti_group_end(), "group_end");
    if (mode == GRAPHED)
        check(r, perf_device_replay(&r->device), "replay");
    check(r, perf_device_sync(&r->device), "sync");
    check(r, tutti_comm_state(r->comm), "state");
    return calls;
}

static void capture(struct rank *r, size_t bytes)
{
    check(r, perf_device_record(&r->device), "capture");
    for (int i = 0; i < GRAPH; i++)
        reduce(r, bytes, 0);
    check(r, perf_device_keep(&r->device), "capture");
}

static int ascends(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct rank *r, enum mode mode, size_t bytes)
{
    double times[ROUNDS];
    char way[32] = "";
    give(r, bytes, 0);
    if (mode == GRAPHED)
        capture(r, bytes);
    for (int round = -1; round < ROUNDS; round++) { /* the first one warms up */
        check(r, perf_device_sync(&r->device), "sync");
        meet();
        double before = perf_clock_seconds();
        int calls = make(r, mode, bytes);
        times[round < 0 ? 0 : round] = 1e6 * (perf_clock_seconds() - before) / calls;
        meet();
    }
    if (mode != CHAINED)
        compare(r, bytes, mode == GROUPED ? GROUP - 1 : 0, 0, names[mode]);
    if (mode == GRAPHED)
        perf_device_drop(&r->device);
    qsort(times, ROUNDS, sizeof times[0], ascends);
    tutti_query(r->comm, "executor", way, sizeof way);
    if (r->rank == 0)
        printf("{\"program\": \"calls\", \"way\": \"%s\", \"kind\": \"%s\", \"ranks\": %d, \"mode\": \"%s\", "
               "\"bytes\": %zu, \"us\": %.2f, \"right\": %s}\n",
            way, shared->kind, shared->n, names[mode], bytes, times[ROUNDS / 2],
            r->failed == 0 ? "true" : "false");
    fflush(stdout);
}

static void set_up(struct rank *r)
{
    void *given = NULL, *got = NULL, *host = NULL;
    char options[32];
    snprintf(options, sizeof options, "device=%d", shared->device);
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = 60000 };
    check(r, perf_device_open(&r->device, r->rank, shared->device), "device");
    if (r->rank == 0)
        check(r, tutti_get_id(&shared->id), "get_id");
    meet();
    if (r->failed == 0)
        check(r, tutti_comm_init_rank(shared->n, r->rank, &shared->id, &config, &r->comm), "init_rank");
    if (r->failed == 0)
        check(r, perf_device_alloc(&r->device, PERF_DEVICE, MOST, &given), "alloc");
    if (r->failed == 0)
        check(r, perf_device_alloc(&r->device, PERF_DEVICE, (uint64_t)GROUP * MOST, &got), "alloc");
    if (r->failed == 0)
        check(r, perf_device_alloc(&r->device, PERF_PINNED, (uint64_t)3 * MOST, &host), "alloc");
    check(r, perf_device_sync(&r->device), "sync");
    r->stream = tutti_cuda_stream(r->device.stream);
    r->given = given;
    r->got = got;
    r->host = host;
}

static void *run(void *argument)
{
    struct rank *r = argument;
    set_up(r);
    if (r->failed > 0) /* the others cannot go on without this one */
        _exit(1);
    for (int mode = 0; mode < MODES; mode++)
        for (int i = 0; i < (shared->brief ? 1 : LENGTHS) && (mode != GRAPHED || !shared->threads); i++)
            measure(r, (enum mode)mode, lengths[i]);
    check(r, tutti_comm_finalize(r->comm), "finalize");
    tutti_comm_destroy(r->comm);
    perf_device_free(&r->device, PERF_DEVICE, r->given);
    perf_device_free(&r->device, PERF_DEVICE, r->got);
    perf_device_free(&r->device, PERF_PINNED, r->host);
    perf_device_close(&r->device);
    return r->failed > 0 ? r : NULL;
}

static int run_threads(void)
{
    static struct rank ranks[RANKS_MAX];
    pthread_t threads[RANKS_MAX];
    int code = 0;
    for (int i = 0; i < shared->n; i++) {
        ranks[i].rank = i;
        pthread_create(&threads[i], NULL, run, &ranks[i]);
    }
    for (int i = 0; i < shared->n; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        code |= failed != NULL;
    }
    return code;
}

static int run_processes(void)
{
    int code = 0, status;
    for (int i = 0; i < shared->n; i++)
        if (fork() == 0) {
            struct rank r = { .rank = i };
            alarm(140); /* of a rank that another one has left alone */
            exit(run(&r) != NULL);
        }
    while (wait(&status) > 0)
        code |= status != 0;
    return code;
}

int main(int argc, char **argv)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_barrierattr_t attributes;
    if (argc < 4 || shared == MAP_FAILED)
        return 2;
    shared->device = atoi(argv[1]);
    shared->kind = argv[2];
    shared->threads = strcmp(argv[2], "threads") == 0;
    shared->n = atoi(argv[3]);
    shared->brief = argc > 4;
    if (shared->n < 2 || shared->n > RANKS_MAX)
        return 2;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&shared->barrier, &attributes, (unsigned)shared->n);
    return shared->threads ? run_threads() : run_processes();
}
