/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_emulate.c: kernels run on the processor as they would on a device: barriers, shuffles, shared
 * memory, blocks that wait for each other; with fibers and with threads. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/dev_kernel.h"
#include "kernels/cuda/cuda_emulate.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_probe.h"

static const enum tt_emulation ways[] = { TT_EMULATE_FIBERS, TT_EMULATE_THREADS };

enum { MOST = 2048 };
static uint32_t flag, data[MOST], result[MOST];

static struct tt_emulated_launch probe(const void *function, uint32_t grid, uint32_t block, int way)
{
    static struct tt_probe_params params;
    flag = 0;
    memset(data, 0, sizeof data);
    memset(result, 0, sizeof result);
    params = (struct tt_probe_params){ &flag, data, result, 3 };
    return (struct tt_emulated_launch){ function, &params, grid, block, ways[way] };
}

/* Numbers of threads that fill no warp, one, and several and a part. */
Test(cuda_emulate, threads_of_a_block_exchange)
{
    static const uint32_t blocks[] = { 1, 31, 32, 33, 64, 200, 1024 };
    for (int way = 0; way < 2; way++)
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
    for (int way = 0; way < 2; way++)
        for (uint32_t block = 1; block <= 48; block += 47) {
            struct tt_emulated_launch launch = probe(tt_probe_hand_over, 2, block, way);
            run_two_blocks(&launch);
            for (uint32_t i = 0; i < 2 * block; i++)
                cr_assert_eq(result[i], i < block ? 0 : 10, "way %d, thread %u has %u", way, i, result[i]);
        }
}

Test(cuda_emulate, blocks_count_themselves)
{
    for (int way = 0; way < 2; way++) {
        struct tt_emulated_launch launch = probe(tt_probe_count, 2, 40, way);
        run_two_blocks(&launch);
        for (uint32_t i = 0; i < 40; i++)
            cr_assert_eq(result[i], 160, "way %d, thread %u has %u", way, i, result[i]);
    }
}

/* A mistake that hangs a device ends the program, in its own words. */
Test(cuda_emulate, barriers_that_nobody_comes_to)
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
        struct tt_emulated_launch launch = probe(tt_probe_stuck, 1, 64, 0);
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

/* --- The copy: every distance of the two pointers, every length up to some packets, guards around. */

enum { GUARD = 32, LONGEST = 200 };

static void copy(void *dst, const void *src, uint64_t bytes, uint32_t grid, uint32_t block, int way)
{
    struct tt_dev_kernel found;
    struct tt_copy_params params = { dst, src, bytes };
    cr_assert(tt_dev_kernel_find(tt_kernel_number(TT_KERNEL_COPY, TUTTI_INT8, TUTTI_SUM), &found));
    cr_assert_eq(found.params_bytes, sizeof params);
    struct tt_emulated_launch launch = { found.function, &params, grid ? grid : tt_kernel_grid(bytes, 4),
        block ? block : TT_KERNEL_BLOCK, ways[way] };
    tt_emulate_grid(&launch);
}

Test(cuda_emulate, copy_of_any_alignment)
{
    static _Alignas(64) uint8_t from[LONGEST + 64], to[LONGEST + 64 + 2 * GUARD], want[sizeof to];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    for (size_t dst = 0; dst < 16; dst++)
        for (size_t src = 0; src < 16; src++)
            for (size_t bytes = 0; bytes <= LONGEST; bytes += bytes < 40 ? 1 : 13) {
                memset(to, 0xee, sizeof to);
                memset(want, 0xee, sizeof want);
                memcpy(want + GUARD + dst, from + src, bytes);
                copy(to + GUARD + dst, from + src, bytes, 1 + (uint32_t)(bytes % 3), 5, 0);
                cr_assert_arr_eq(to, want, sizeof to, "%zu bytes from %zu to %zu (mod 16)", bytes, src, dst);
            }
}

Test(cuda_emulate, copy_by_the_grid_that_is_proposed)
{
    enum { BYTES = 300000 };
    uint8_t *from = malloc(BYTES), *to = malloc(BYTES);
    for (int i = 0; i < BYTES; i++)
        from[i] = (uint8_t)(i * 2654435761u >> 24);
    copy(to, from, BYTES, 0, 0, 0);
    cr_assert_arr_eq(to, from, BYTES);
    copy(to + 2, from + 5, BYTES - 5, 0, 0, 0);
    cr_assert_arr_eq(to + 2, from + 5, BYTES - 5);
    free(from);
    free(to);
}

/* At least one block, and no more than a device holds at once. */
Test(cuda_emulate, grids_follow_the_bytes)
{
    cr_assert_eq(tt_kernel_grid(0, 132), 1);
    cr_assert_eq(tt_kernel_grid(1 << 20, 132), 33);
    cr_assert_geq(tt_kernel_grid(1ull << 40, 132), 132);
    cr_assert_leq(tt_kernel_grid(1ull << 40, 132), 4 * 132);
}
