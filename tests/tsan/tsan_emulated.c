/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan_emulated.c: emulated kernels, a thread of the system for each of theirs.
 *
 * On this machine a store that forgets to release still gives the right values; ThreadSanitizer tells all the
 * same. That it does is shown by a kernel with that mistake, in a process of its own. */
#include "tests/tsan/tsan_emulated.h"

#include <pthread.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/dev_kernel.h"
#include "kernels/cuda/cuda_emulate.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_probe.h"

enum { THREADS = 40, BYTES = 3000 };
static uint32_t flag, data[2 * THREADS], result[2 * THREADS];

static void *run_first_block(void *launch)
{
    tt_emulate_block(launch, 0);
    return NULL;
}

static bool run(const void *function, const void *params)
{
    struct tt_emulated_launch launch = { function, params, 2, 1, THREADS, TT_EMULATE_THREADS, 0 };
    pthread_t other;
    if (pthread_create(&other, NULL, run_first_block, &launch) != 0)
        return false;
    tt_emulate_block(&launch, 1);
    return pthread_join(other, NULL) == 0;
}

static bool probe(const void *function)
{
    struct tt_probe_params params = { &flag, data, result, 3, 1 };
    flag = 0;
    return run(function, &params);
}

static bool copy(void)
{
    static uint8_t from[BYTES], to[BYTES];
    struct tt_dev_kernel found;
    struct tt_copy_params params = { to + 1, from + 5, BYTES - 9 };
    for (int i = 0; i < BYTES; i++)
        from[i] = (uint8_t)i;
    return tt_dev_kernel_find(tt_kernel_number(TT_KERNEL_COPY, TUTTI_INT8, TUTTI_SUM), &found) &&
           run(found.function, &params) && memcmp(to + 1, from + 5, BYTES - 9) == 0;
}

/* In place, and at offsets that differ: neighbours share packets. */
static bool fold(void)
{
    enum { COUNT = 500 };
    static uint16_t a[COUNT + 1], b[COUNT + 3];
    struct tt_dev_kernel found;
    struct tt_fold_params params = { a + 1, { a + 1, b + 3 }, COUNT, 2, 0 };
    for (int i = 0; i < COUNT; i++)
        a[1 + i] = b[3 + i] = 0x3c00; /* 1 as a half; 0x4000 is 2 */
    bool right = tt_dev_kernel_find(tt_kernel_number(TT_KERNEL_TREE, TUTTI_FLOAT16, TUTTI_SUM), &found) &&
                 run(found.function, &params);
    for (int i = 0; i < COUNT; i++)
        right &= a[1 + i] == 0x4000 && b[3 + i] == 0x3c00;
    return right;
}

bool tsan_emulated_kernels(void)
{
    bool right = probe(tt_probe_exchange) && result[THREADS] == 3 * (1 + 1);
    right &= probe(tt_probe_hand_over) && result[THREADS] == 10;
    right &= probe(tt_probe_count) && result[0] == 4 * THREADS;
    return right && copy() && fold();
}

int tsan_lose_release(void)
{
    return probe(tt_probe_hand_over_relaxed) && result[THREADS] == 10 ? 0 : 1;
}

bool tsan_lost_release_is_reported(const char *word)
{
    char *arguments[] = { (char *)"tsan_suite", (char *)word, NULL };
    char said[16384] = "";
    int ends[2], status = 0;
    pid_t child;
    posix_spawn_file_actions_t actions;
    if (pipe(ends) != 0)
        return false;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    bool right = posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    for (size_t have = 0; right && have < sizeof said - 1;) {
        ssize_t got = read(ends[0], said + have, sizeof said - 1 - have);
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    close(ends[0]);
    right = right && waitpid(child, &status, 0) == child;
    return right && status != 0 && strstr(said, "data race") != NULL &&
           strstr(said, "probe_hand_over") != NULL;
}
