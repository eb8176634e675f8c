/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_emulate.c: kernels run on the processor as they would on a device: barriers, shuffles, shared
 * memory, blocks that wait for each other; with fibers in several orders and with threads. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cuda/cuda_emulate.h"
#include "kernels/cuda/cuda_probe.h"

static const struct way {
    enum tt_emulation emulation;
    uint32_t order;
} ways[] = { { TT_EMULATE_FIBERS, TT_EMULATE_ASCENDING }, { TT_EMULATE_FIBERS, TT_EMULATE_DESCENDING },
    { TT_EMULATE_FIBERS, TT_EMULATE_DRAWN }, { TT_EMULATE_FIBERS, TT_EMULATE_DRAWN + 1 },
    { TT_EMULATE_THREADS, 0 } };
enum { WAYS = sizeof ways / sizeof ways[0], ORDERS = WAYS - 1 };

enum { MOST = 2048 };
static uint32_t flag, data[MOST], result[MOST];

static struct tt_emulated_launch probe(const void *function, uint32_t grid, uint32_t block, int way)
{
    static struct tt_probe_params params;
    flag = 0;
    memset(data, 0, sizeof data);
    memset(result, 0, sizeof result);
    params = (struct tt_probe_params){ &flag, data, result, 3, 1 % block };
    return (
        struct tt_emulated_launch){ function, &params, grid, 1, block, ways[way].emulation, ways[way].order };
}

/* Numbers of threads that fill no warp, one, and several and a part. */
Test(cuda_emulate, threads_of_a_block_exchange)
{
    static const uint32_t blocks[] = { 1, 31, 32, 33, 64, 200, 1024 };
    for (int way = 0; way < WAYS; way++)
        for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
            uint32_t block = blocks[b];
            struct tt_emulated_launch launch = probe(tt_probe_exchange, 2, block, way);
            tt_emulate_grid(&launch);
            for (uint32_t i = 0; i < 2 * block; i++) {
                uint32_t me = i % block, next_lane = me / 32 * 32 + (me + 1) % 32;
                uint32_t shuffled = block - me / 32 * 32 >= 32 ? next_lane : 0;
                cr_assert_eq(result[i], 3 * ((me + 1) % block + shuffled),
                    "way %d, %u threads: thread %u has %u", way, block, i, result[i]);
            }
        }
}

Test(cuda_emulate, threads_of_a_block_ask_each_other)
{
    static const uint32_t blocks[] = { 1, 2, 33, 1024 };
    for (int way = 0; way < WAYS; way++)
        for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
            struct tt_emulated_launch launch = probe(tt_probe_any, 2, blocks[b], way);
            tt_emulate_grid(&launch);
            for (uint32_t i = 0; i < 2 * blocks[b]; i++)
                cr_assert_eq(result[i], 5, "way %d, thread %u of %u has %u", way, i, blocks[b], result[i]);
        }
}

/* A thread that runs one block after the other keeps what it has, and needs no more for the next; of what a
 * sanitizer keeps this says nothing. */
Test(cuda_emulate, blocks_use_the_memory_of_those_before)
{
    enum { BLOCKS = 1000, MOST_KIB = 32 << 10 };
    struct tt_emulated_launch launch = probe(tt_probe_exchange, 1, 64, 0);
    struct rusage before, after;
    tt_emulate_block(&launch, 0);
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < BLOCKS; i++)
        tt_emulate_block(&launch, 0);
    getrusage(RUSAGE_SELF, &after);
#ifndef __SANITIZE_ADDRESS__
    cr_expect_lt(after.ru_maxrss - before.ru_maxrss, MOST_KIB);
#endif
}

/* A kernel that lacks a barrier has wrong results in some order, whichever thread each one reads from. In one
 * order alone it may be right: where each reads what the one before it wrote, in ascending order. */
Test(cuda_emulate, a_missing_barrier_is_found)
{
    enum { THREADS = 64 };
    static const uint32_t distances[] = { 1, 5, 31, 32, 33, THREADS - 1 };
    const void *const kernels[] = { tt_probe_exchange, tt_probe_exchange_unwritten,
        tt_probe_exchange_overwritten };
    for (int k = 0; k < 3; k++)
        for (size_t d = 0; d < sizeof distances / sizeof distances[0]; d++) {
            int wrong = 0;
            for (int way = 0; way < ORDERS; way++) {
                struct tt_emulated_launch launch = probe(kernels[k], 1, THREADS, way);
                struct tt_probe_params params = { &flag, data, result, 3, distances[d] };
                launch.params = &params;
                tt_emulate_grid(&launch);
                for (uint32_t i = 0; i < THREADS; i++) {
                    uint32_t other = (i + distances[d]) % THREADS, lane = i / 32 * 32 + (i + 1) % 32;
                    wrong += result[i] != 3 * (other + lane);
                }
            }
            cr_expect_eq(
                wrong > 0, k > 0, "kernel %d, distance %u: %d results are wrong", k, distances[d], wrong);
        }
}

/* In each order each thread has one turn, and one more behind a barrier. No two drawn orders are alike, nor
 * the turns before and behind the barrier there. */
Test(cuda_emulate, orders_are_what_they_say)
{
    enum { THREADS = 100, TURNS = 2 * ORDERS };
    static uint32_t turns[TURNS][THREADS];
    for (int way = 0; way < ORDERS; way++) {
        struct tt_emulated_launch launch = probe(tt_probe_turn, 1, THREADS, way);
        tt_emulate_grid(&launch);
        for (uint32_t i = 0; i < THREADS; i++) {
            turns[2 * way][i] = result[i] - 1;
            turns[2 * way + 1][i] = data[i] - 1 - THREADS;
        }
    }
    for (uint32_t i = 0; i < THREADS; i++) {
        cr_assert(turns[0][i] == i && turns[1][i] == i, "ascending: thread %u", i);
        cr_assert(
            turns[2][i] == THREADS - 1 - i && turns[3][i] == THREADS - 1 - i, "descending: thread %u", i);
    }
    for (int a = 0; a < TURNS; a++) {
        uint32_t seen[THREADS] = { 0 };
        for (uint32_t i = 0; i < THREADS; i++)
            cr_assert(turns[a][i] < THREADS && seen[turns[a][i]]++ == 0, "order %d: turn %u", a, turns[a][i]);
        for (int b = 0; b < a && a > 3; b++)
            cr_expect_neq(memcmp(turns[a], turns[b], sizeof turns[a]), 0, "orders %d and %d are one", a, b);
    }
}

static void *run_block(void *of)
{
    tt_emulate_block(*(struct tt_emulated_launch **)of, *(uint32_t *)((void **)of)[1]);
    return NULL;
}

/* Both blocks at once: this thread runs block 1, which waits. */
static void run_two_blocks(struct tt_emulated_launch *launch)
{
    uint32_t first = 0;
    void *of[] = { launch, &first };
    pthread_t other;
    cr_assert_eq(pthread_create(&other, NULL, run_block, of), 0);
    tt_emulate_block(launch, 1);
    pthread_join(other, NULL);
}

Test(cuda_emulate, a_block_hands_over_to_another)
{
    for (int way = 0; way < WAYS; way++)
        for (uint32_t block = 1; block <= 48; block += 47) {
            struct tt_emulated_launch launch = probe(tt_probe_hand_over, 2, block, way);
            run_two_blocks(&launch);
            for (uint32_t i = 0; i < 2 * block; i++)
                cr_assert_eq(result[i], i < block ? 0 : 10, "way %d, thread %u has %u", way, i, result[i]);
        }
}

Test(cuda_emulate, blocks_count_themselves)
{
    for (int way = 0; way < WAYS; way++) {
        struct tt_emulated_launch launch = probe(tt_probe_count, 2, 40, way);
        run_two_blocks(&launch);
        for (uint32_t i = 0; i < 40; i++)
            cr_assert_eq(result[i], 160, "way %d, thread %u has %u", way, i, result[i]);
    }
}

/* A mistake that hangs a device ends the program, in its own words. */
static void expect_stuck(int way)
{
    char words[1000] = "";
    size_t length = 0;
    ssize_t got;
    int ends[2], status;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
        struct tt_emulated_launch launch = probe(tt_probe_stuck, 1, 64, way);
        tt_emulate_grid(&launch);
        _exit(0);
    }
    close(ends[1]);
    /* All of it: AddressSanitizer has words of its own before. */
    while ((got = read(ends[0], words + length, sizeof words - 1 - length)) > 0)
        length += (size_t)got;
    cr_expect(strstr(words, "wait at barriers that the others do not come to") != NULL, "it said: %s", words);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "it ended with %#x", (unsigned)status);
    close(ends[0]);
}

Test(cuda_emulate, barriers_that_nobody_comes_to)
{
    for (int way = 0; way < ORDERS; way++)
        expect_stuck(way);
}
