/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan_main.c: the cases that ThreadSanitizer watches, in a runner of their own because Criterion aborts
 * under it. Each case starts threads and returns whether what they did is right; a race ends the program. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "tests/transport/transport_threads.h"
#include "tests/tsan/tsan_emulated.h"
#include "tests/tsan/tsan_device.h"
#include "tests/tsan/tsan_segments.h"
#include "tests/tsan/tsan_stub.h"
#include "transports/tcp.h"

enum { THREADS = 4 };

/* A case that stands still ends the program; what was printed last tells which came before it. On a loaded
 * machine the slowest takes minutes. */
enum { LIMIT_SECONDS = 1800 };

static bool run_threads(void *(*run)(void *))
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    bool right = true;
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, run, &numbers[i]) != 0)
            abort();
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        right &= wrong == NULL;
    }
    return right;
}

/* The first use of the log, of the settings and of the last error, by all threads at once. */
static void *first_use(void *number)
{
    char text[64];
    struct tt_settings settings;
    snprintf(text, sizeof text, "of thread %d", *(int *)number);
    tt_log(TT_LOG_TRACE, "%s", text);
    bool right = tt_settings_read(&settings, "slice=64K") == TUTTI_OK && settings.slice_bytes == 65536;
    tt_set_last_error(text);
    right &= strcmp(tt_last_error(), text) == 0;
    return right ? NULL : number;
}

static bool once_only_state(void)
{
    return run_threads(first_use);
}

/* --- The shm transport between threads: the same cases as in the suite. */

static bool said_nothing(const char *wrong)
{
    if (wrong[0] != '\0')
        printf("tsan: %s\n", wrong);
    return wrong[0] == '\0';
}

static bool exchange(void)
{
    return said_nothing(threads_exchange(&tt_shm, THREADS, 20, true)) &&
           said_nothing(threads_exchange(&tt_shm, THREADS, 20, false));
}

/* A rank has a thread that reads and writes while it does so itself. */
static bool exchange_by_tcp(void)
{
    return said_nothing(threads_exchange(&tt_tcp, THREADS, 20, false));
}

static bool aborts(void)
{
    return said_nothing(threads_abort(THREADS, 50));
}

static bool closes(void)
{
    return said_nothing(threads_close(THREADS, 50));
}

static bool calls(void)
{
    return said_nothing(threads_calls(THREADS, 200));
}

/* --- The public API, a rank a thread. */

static tutti_comm *comms[THREADS];

/* A sum (in the line, copied, in slices: as the count is), then a ring of messages; then all meet. */
static bool round_of_calls(tutti_comm *comm, int rank, float *mine, float *sum, size_t count)
{
    int next = (rank + 1) % THREADS, last = (rank + THREADS - 1) % THREADS;
    tutti_stream none = tutti_no_stream();
    for (size_t i = 0; i < count; i++)
        mine[i] = (float)(rank + 1);
    bool right = tutti_all_reduce(mine, sum, count, TUTTI_FLOAT32, TUTTI_SUM, comm, none) == TUTTI_OK;
    for (size_t i = 0; i < count; i++)
        right &= sum[i] == THREADS * (THREADS + 1) / 2;
    right &= tutti_group_start() == TUTTI_OK;
    right &= tutti_send(mine, count, TUTTI_FLOAT32, next, comm, none) == TUTTI_OK;
    right &= tutti_recv(sum, count, TUTTI_FLOAT32, last, comm, none) == TUTTI_OK;
    right &= tutti_group_end() == TUTTI_OK;
    right &= sum[0] == (float)(last + 1) && sum[count - 1] == (float)(last + 1);
    return right && tutti_barrier(comm, none) == TUTTI_OK;
}

static void *collectives_of_rank(void *number)
{
    static const size_t counts[] = { 1, 12, 1000, 5000, 100000 };
    int rank = *(int *)number;
    bool right = true;
    float *mine = malloc(100000 * sizeof *mine), *sum = malloc(100000 * sizeof *sum);
    for (int i = 0; i < 10; i++)
        right &= round_of_calls(comms[rank], rank, mine, sum, counts[i % 5]);
    tutti_comm *child = NULL;
    right &= tutti_comm_split(comms[rank], rank % 2, 0, NULL, &child) == TUTTI_OK;
    right &= child != NULL && tutti_barrier(child, tutti_no_stream()) == TUTTI_OK;
    right &= tutti_comm_destroy(child) == TUTTI_OK && tutti_comm_destroy(comms[rank]) == TUTTI_OK;
    free(mine);
    free(sum);
    return right ? NULL : number;
}

static bool collectives(void)
{
    tutti_config config = { .size = sizeof config, .options = "slice=8K" };
    return tutti_comm_init_all(THREADS, NULL, &config, comms) == TUTTI_OK && run_threads(collectives_of_rank);
}

/* All but rank 0 wait in a barrier; rank 0 ends that from outside, and asks for the error meanwhile. */
static void *aborted_rank(void *number)
{
    int rank = *(int *)number;
    tutti_error error = { .size = sizeof error };
    tutti_status status =
        rank == 0 ? tutti_comm_abort(comms[1]) : tutti_barrier(comms[rank], tutti_no_stream());
    bool right = status == (rank == 0 ? TUTTI_OK : TUTTI_ABORTED);
    right &= tutti_comm_state(comms[rank]) == TUTTI_ABORTED;
    right &= tutti_comm_get_error(comms[rank], &error) == TUTTI_OK && error.rank == 1;
    return right ? NULL : number;
}

static bool abort_from_outside(void)
{
    bool right = true;
    for (int i = 0; i < 20; i++) {
        right &= tutti_comm_init_all(THREADS, NULL, NULL, comms) == TUTTI_OK && run_threads(aborted_rank);
        for (int r = 0; r < THREADS; r++)
            right &= tutti_comm_destroy(comms[r]) == TUTTI_OK;
    }
    return right;
}

/* Ranks exchange long messages in pairs, read in place where they lie. A thread of its own ends that for
 * rank 0 alone; its buffer goes when its call has returned, and ranks 2 and 3 go on until rank 1 has found
 * out. */
static void *abort_alone(void *unused)
{
    (void)unused;
    tt_sleep_ms(1);
    return tutti_comm_abort_local(comms[0]) == TUTTI_OK ? NULL : &comms[0];
}

static void *left_alone_rank(void *number)
{
    enum { BYTES = 1 << 20, ROUNDS = 40 };
    int rank = *(int *)number, peer = rank ^ 1;
    uint8_t *out = calloc(1, BYTES), *in = malloc(BYTES);
    tutti_status status = TUTTI_OK;
    pthread_t thread;
    if (rank == 0)
        pthread_create(&thread, NULL, abort_alone, NULL);
    for (int i = 0; status == TUTTI_OK && (rank < 2 || i < ROUNDS); i++) {
        tutti_group_start();
        tutti_send(out, BYTES, TUTTI_UINT8, peer, comms[rank], tutti_no_stream());
        tutti_recv(in, BYTES, TUTTI_UINT8, peer, comms[rank], tutti_no_stream());
        status = tutti_group_end();
    }
    memset(out, rank, BYTES);
    free(out);
    free(in);
    void *wrong = NULL;
    if (rank == 0)
        pthread_join(thread, &wrong);
    bool right = status == (rank == 0 ? TUTTI_ABORTED : TUTTI_PEER_LOST) || (rank > 1 && status == TUTTI_OK);
    return right && wrong == NULL ? NULL : number;
}

static bool abort_of_one(void)
{
    bool right = true;
    for (int i = 0; i < 10; i++) {
        right &= tutti_comm_init_all(THREADS, NULL, NULL, comms) == TUTTI_OK && run_threads(left_alone_rank);
        for (int r = 0; r < THREADS; r++)
            right &= tutti_comm_destroy(comms[r]) == TUTTI_OK;
    }
    return right;
}

/* Every rank: sums on two streams and on none, groups over both, a v-form whose arrays are gone at once. */
static bool round_of_streams(tutti_comm *comm, int rank, const tutti_stream *streams, uint64_t *x)
{
    size_t counts[THREADS] = { 1, 1, 1, 1 };
    bool right = true;
    for (int i = 0; i < 6; i++)
        right &= tutti_all_reduce(&x[0], &x[0], 1, TUTTI_UINT64, TUTTI_SUM, comm, streams[i % 3]) == TUTTI_OK;
    right &= tutti_group_start() == TUTTI_OK;
    right &= tutti_send(&x[1], 1, TUTTI_UINT64, (rank + 1) % THREADS, comm, streams[0]) == TUTTI_OK;
    right &= tutti_recv(&x[2], 1, TUTTI_UINT64, (rank + THREADS - 1) % THREADS, comm, streams[1]) == TUTTI_OK;
    right &= tutti_group_end() == TUTTI_OK;
    right &= tutti_all_gather_v(&x[1], 1, &x[3], counts, NULL, TUTTI_UINT64, comm, streams[0]) == TUTTI_OK;
    memset(counts, 0, sizeof counts);
    return right && tutti_barrier(comm, streams[1]) == TUTTI_OK;
}

static pthread_barrier_t all_here;

static void *streams_of_rank(void *number)
{
    int rank = *(int *)number;
    tutti_stream streams[3] = { tutti_no_stream(), tutti_no_stream(), tutti_no_stream() };
    uint64_t x[3 + THREADS] = { 1, (uint64_t)rank }, point, power = 1;
    bool right = true;
    for (int i = 0; i < 2; i++)
        right &= tutti_stream_create(&streams[i]) == TUTTI_OK;
    for (int i = 0; i < 5; i++) {
        right &= round_of_streams(comms[rank], rank, streams, x);
        right &= tutti_stream_record(streams[1], &point) == TUTTI_OK;
        right &= tutti_stream_after(streams[0], streams[1], point) == TUTTI_OK;
        right &= tutti_stream_wait(streams[1], point, -1) == TUTTI_OK;
        right &= tutti_stream_query(streams[1], point) == TUTTI_OK;
        right &= x[2] == (uint64_t)(rank + THREADS - 1) % THREADS && x[3 + 2] == 2;
        for (int k = 0; k < 6; k++)
            power *= THREADS;
        right &= x[0] == power;
    }
    tutti_program *program = NULL; /* started again before it is over */
    right &= tutti_group_start() == TUTTI_OK;
    for (int i = 0; i < 2; i++)
        right &=
            tutti_all_reduce(&x[0], &x[0], 1, TUTTI_UINT64, TUTTI_SUM, comms[rank], streams[i]) == TUTTI_OK;
    right &= tutti_group_keep(&program) == TUTTI_OK;
    for (int i = 0; i < 5; i++)
        right &= tutti_program_start(program) == TUTTI_OK;
    right &= tutti_program_destroy(program) == TUTTI_OK;
    for (int k = 0; k < 10; k++)
        power *= THREADS;
    right &= x[0] == power;
    pthread_barrier_wait(&all_here);
    for (int i = 0; i < 6; i++) /* and some that the end of the communicator meets on their way */
        right &= tutti_all_reduce(&x[0], &x[0], 1, TUTTI_UINT64, TUTTI_SUM, comms[rank], streams[i % 2]) <=
                 TUTTI_OK;
    right &= tutti_comm_destroy(comms[rank]) == TUTTI_OK;
    for (int i = 0; i < 2; i++)
        right &= tutti_stream_destroy(streams[i]) == TUTTI_OK;
    return right ? NULL : number;
}

static bool streams(void)
{
    bool right = pthread_barrier_init(&all_here, NULL, THREADS) == 0;
    for (int i = 0; i < 5; i++)
        right &= tutti_comm_init_all(THREADS, NULL, NULL, comms) == TUTTI_OK && run_threads(streams_of_rank);
    pthread_barrier_destroy(&all_here);
    return right;
}

/* One stream for all threads: each waits for its own calls. */
static tutti_stream common;

static void *share_a_stream(void *number)
{
    int rank = *(int *)number;
    uint64_t x = 1, point;
    bool right = true;
    tutti_comm *own;
    right &= tutti_comm_init_all(1, NULL, NULL, &own) == TUTTI_OK;
    for (int i = 0; i < 200; i++) {
        right &= tutti_all_reduce(&x, &x, 1, TUTTI_UINT64, TUTTI_SUM, own, common) == TUTTI_OK;
        right &= tutti_stream_record(common, &point) == TUTTI_OK;
        right &= tutti_stream_wait(common, point, i % 3 == rank % 3 ? 1 : -1) >= TUTTI_OK;
    }
    right &= tutti_stream_wait(common, point, -1) == TUTTI_OK && x == 1;
    right &= tutti_comm_destroy(own) == TUTTI_OK;
    return right ? NULL : number;
}

static bool shared_stream(void)
{
    return tutti_stream_create(&common) == TUTTI_OK && run_threads(share_a_stream) &&
           tutti_stream_destroy(common) == TUTTI_OK;
}

/* --- Small calls that were made before, which run straight through their schedule; some ranks are late, so
 * that the executor takes over, and settings differ, so that it has peers of the other kind. */

static bool small_calls(tutti_comm *comm, int rank, uint32_t i)
{
    int next = (rank + 1) % THREADS, last = (rank + THREADS - 1) % THREADS, root = (int)(i % THREADS);
    tutti_stream none = tutti_no_stream();
    uint32_t mine[3] = { i, i + 1, (uint32_t)rank }, sum[3], told[3] = { 0 }, got[2] = { 0 };
    bool right = tutti_all_reduce(mine, sum, 3, TUTTI_UINT32, TUTTI_SUM, comm, none) == TUTTI_OK;
    right &= sum[0] == THREADS * i && sum[1] == THREADS * (i + 1) && sum[2] == THREADS * (THREADS - 1) / 2;
    right &= tutti_broadcast(mine, told, 3, TUTTI_UINT32, root, comm, none) == TUTTI_OK;
    right &= told[0] == i && told[2] == (uint32_t)root;
    right &= tutti_group_start() == TUTTI_OK;
    right &= tutti_send(&mine[0], 1, TUTTI_UINT32, next, comm, none) == TUTTI_OK;
    right &= tutti_send(&mine[2], 1, TUTTI_UINT32, last, comm, none) == TUTTI_OK;
    right &= tutti_recv(&got[0], 1, TUTTI_UINT32, last, comm, none) == TUTTI_OK;
    right &= tutti_recv(&got[1], 1, TUTTI_UINT32, next, comm, none) == TUTTI_OK;
    right &= tutti_group_end() == TUTTI_OK;
    right &= got[0] == i && got[1] == (uint32_t)next;
    return right && tutti_barrier(comm, none) == TUTTI_OK;
}

static void *small_calls_of_rank(void *number)
{
    int rank = *(int *)number;
    bool right = true;
    for (uint32_t i = 0; i < 200 && right; i++) {
        if (i % 100 == 50 && rank == (int)(i / 100))
            nanosleep(&(struct timespec){ .tv_nsec = 150000000 }, NULL);
        right &= small_calls(comms[rank], rank, i);
    }
    right &= tutti_comm_destroy(comms[rank]) == TUTTI_OK;
    return right ? NULL : number;
}

static bool fused_calls(void)
{
    static const char *const options[] = { "", "fused=off", "algo=all_reduce:doubling,broadcast:tree" };
    bool right = true;
    for (int i = 0; i < 3; i++) {
        tutti_config config = { .size = sizeof config, .options = options[i] };
        right &= tutti_comm_init_all(THREADS, NULL, &config, comms) == TUTTI_OK &&
                 run_threads(small_calls_of_rank);
    }
    return right;
}

/* --- Placed messages: memory that peers write. */

enum { PLACED = 50000 };

static bool placed_round(tutti_comm *comm, int rank, float *mine, float *sum)
{
    int next = (rank + 1) % THREADS, last = (rank + THREADS - 1) % THREADS;
    tutti_stream none = tutti_no_stream();
    for (int i = 0; i < PLACED; i++)
        mine[i] = (float)(rank + i % 7);
    bool right = tutti_all_reduce(mine, sum, PLACED, TUTTI_FLOAT32, TUTTI_SUM, comm, none) == TUTTI_OK;
    for (int i = 0; i < PLACED; i++)
        right &= sum[i] == THREADS * (THREADS - 1) / 2 + THREADS * (i % 7);
    memset(sum, 0, PLACED * sizeof *sum);
    right &= tutti_broadcast(mine, sum, PLACED, TUTTI_FLOAT32, 1, comm, none) == TUTTI_OK;
    for (int i = 0; i < PLACED; i++)
        right &= sum[i] == 1 + i % 7;
    right &= tutti_group_start() == TUTTI_OK;
    right &= tutti_send(mine, PLACED, TUTTI_FLOAT32, next, comm, none) == TUTTI_OK;
    right &= tutti_recv(sum, PLACED, TUTTI_FLOAT32, last, comm, none) == TUTTI_OK;
    right &= tutti_group_end() == TUTTI_OK;
    for (int i = 0; i < PLACED; i++)
        right &= sum[i] == last + i % 7;
    return right;
}

static void *placed_of_rank(void *number)
{
    int rank = *(int *)number;
    void *mine = NULL, *sum = NULL;
    char text[256] = "";
    unsigned long long placed = 0;
    bool right = tutti_mem_alloc(PLACED * sizeof(float), TUTTI_MEM_HOST, &mine) == TUTTI_OK &&
                 tutti_mem_alloc(PLACED * sizeof(float), TUTTI_MEM_HOST, &sum) == TUTTI_OK;
    for (int i = 0; i < 10 && right; i++)
        right &= placed_round(comms[rank], rank, mine, sum);
    right &= tutti_query(comms[rank], "paths", text, sizeof text) > 0;
    const char *at = strstr(text, "placed=");
    right &= at != NULL && sscanf(at, "placed=%llu", &placed) == 1 && placed > 0;
    right &= tutti_comm_destroy(comms[rank]) == TUTTI_OK;
    right &= tutti_mem_free(mine) == TUTTI_OK && tutti_mem_free(sum) == TUTTI_OK;
    return right ? NULL : number;
}

static bool placed_messages(void)
{
    static const char *const options[] = { "slice=32K;algo=all_reduce:direct", "slice=8K", "" };
    bool right = true;
    for (int i = 0; i < 3; i++) {
        tutti_config config = { .size = sizeof config, .options = options[i] };
        right &=
            tutti_comm_init_all(THREADS, NULL, &config, comms) == TUTTI_OK && run_threads(placed_of_rank);
    }
    return right;
}

/* Rank 1 stores in the memory of ranks 0 and 3 when rank 2 ends it all: what a call has returned is not
 * stored to any more. */
static void *interrupted_rank(void *number)
{
    enum { BYTES = 4 << 20 };
    int rank = *(int *)number;
    void *data = NULL;
    bool right = tutti_mem_alloc(BYTES, TUTTI_MEM_HOST, &data) == TUTTI_OK;
    pthread_barrier_wait(&all_here);
    if (rank == 2)
        nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
    tutti_status status =
        rank == 2 ? tutti_comm_abort(comms[rank])
                  : tutti_broadcast(data, data, BYTES, TUTTI_INT8, 1, comms[rank], tutti_no_stream());
    right &= status == TUTTI_OK || status == TUTTI_ABORTED;
    memset(data, 1, BYTES);
    right &= tutti_comm_destroy(comms[rank]) == TUTTI_OK && tutti_mem_free(data) == TUTTI_OK;
    return right ? NULL : number;
}

static bool end_of_placing(void)
{
    tutti_config config = { .size = sizeof config, .options = "slice=64K;algo=broadcast:direct" };
    bool right = pthread_barrier_init(&all_here, NULL, THREADS) == 0;
    for (int i = 0; i < 20; i++)
        right &=
            tutti_comm_init_all(THREADS, NULL, &config, comms) == TUTTI_OK && run_threads(interrupted_rank);
    pthread_barrier_destroy(&all_here);
    return right;
}

/* Emulated kernels. */

#define LOST_RELEASE "lost_release"
#define LOST_END "lost_end"
#define LOST_MEETING "lost_meeting"
#define LOST_LIST_END "lost_list_end"
#define LOST_BARRIER "lost_barrier"

static bool lost_release(void)
{
    return tsan_lost_release_is_reported(LOST_RELEASE, "probe_hand_over");
}

static bool lost_end(void)
{
    return tsan_lost_release_is_reported(LOST_END, "read_when_over");
}

static bool lost_meeting(void)
{
    return tsan_lost_release_is_reported(LOST_MEETING, "direct_kernel");
}

static bool lost_list_end(void)
{
    return tsan_lost_release_is_reported(LOST_LIST_END, "list_rig_chain");
}

static bool lost_barrier(void)
{
    return tsan_lost_release_is_reported(LOST_BARRIER, "list_kernel");
}

static const struct {
    const char *name;
    bool (*run)(void);
} cases[] = {
    { "segments", tsan_segments }, /* it forks, while there is but one thread */
    { "once_only_state", once_only_state },
    { "exchange", exchange },
    { "exchange_by_tcp", exchange_by_tcp },
    { "aborts", aborts },
    { "closes", closes },
    { "calls", calls },
    { "collectives", collectives },
    { "abort_from_outside", abort_from_outside },
    { "abort_of_one", abort_of_one },
    { "streams", streams },
    { "shared_stream", shared_stream },
    { "fused_calls", fused_calls },
    { "placed_messages", placed_messages },
    { "end_of_placing", end_of_placing },
    { "emulated_kernels", tsan_emulated_kernels },
    { "direct_kernels", tsan_direct_kernels },
    { "lists", tsan_lists },
    { "stub", tsan_stub },
    { "device", tsan_device },
    { LOST_RELEASE, lost_release },
    { LOST_END, lost_end },
    { LOST_MEETING, lost_meeting },
    { LOST_LIST_END, lost_list_end },
    { LOST_BARRIER, lost_barrier },
};

/* What it is called again for. */
static const struct {
    const char *word;
    int (*run)(void);
} mistakes[] = {
    { LOST_RELEASE, tsan_lose_release },
    { LOST_END, tsan_lose_end },
    { LOST_MEETING, tsan_lose_meeting },
    { LOST_LIST_END, tsan_lose_list_end },
    { LOST_BARRIER, tsan_lose_barrier },
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof mistakes / sizeof mistakes[0]; i++)
        if (strcmp(argv[1], mistakes[i].word) == 0)
            return mistakes[i].run();
    int failures = 0;
    int n = sizeof cases / sizeof cases[0];
    for (int i = 0; i < n; i++) {
        alarm(LIMIT_SECONDS);
        bool right = cases[i].run();
        failures += !right;
        printf("tsan: %s %s\n", cases[i].name, right ? "ok" : "FAILED");
        fflush(stdout);
    }
    printf("tsan: %d cases, %d failed\n", n, failures);
    return failures != 0;
}
