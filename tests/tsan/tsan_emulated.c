/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan_emulated.c: emulated kernels, a thread of the system for each of theirs.
 *
 * On this machine a store that forgets to release still gives the right values; ThreadSanitizer tells all the
 * same. That it does is shown by kernels with that mistake, in processes of their own. */
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
#include "tests/cuda/direct_rig.h"
#include "tests/cuda/list_rig.h"

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

/* The host's side: the word tells that the results may be read, and nothing else does. */
struct waiter {
    const uint32_t *over;
    const uint8_t *got, *want;
    size_t bytes;
    bool right;
};

static void *read_when_over(void *of)
{
    struct waiter *w = of;
    while (__atomic_load_n(w->over, __ATOMIC_ACQUIRE) == 0)
        usleep(100);
    w->right = memcmp(w->got, w->want, w->bytes) == 0;
    return NULL;
}

/* Two blocks, and a thread that reads the results as soon as the kernel is over. */
static bool run_fused(const void *function, struct tt_fused_params *p, const void *want, size_t bytes)
{
    static uint32_t blocks_over, over;
    pthread_t host;
    struct waiter waiter = { &over, p->own.out[0], want, bytes, false };
    over = 0;
    p->rects = 1;
    p->blocks_over = &blocks_over;
    p->over = &over;
    p->over_value = 1;
    if (pthread_create(&host, NULL, read_when_over, &waiter) != 0)
        return false;
    bool ran = run(function, p);
    return pthread_join(host, NULL) == 0 && ran && waiter.right && blocks_over == 0;
}

static bool move(const void *function)
{
    static uint8_t from[BYTES], to[BYTES], also[BYTES];
    struct tt_fused_params p = { .own = { .in = { from + 5 }, .out = { to + 1, also + 4 } },
        .rect = { { .count = BYTES - 9, .sources = 1, .dsts = 3 } } };
    for (int i = 0; i < BYTES; i++)
        from[i] = (uint8_t)i;
    return run_fused(function, &p, from + 5, BYTES - 9) && memcmp(also + 4, from + 5, BYTES - 9) == 0;
}

/* In place, at offsets that differ, so that neighbours share packets; bases in memory. */
static bool fold(const void *function)
{
    enum { COUNT = 500 };
    static uint16_t a[COUNT + 1], b[COUNT + 3], want[COUNT];
    struct tt_bases bases = { .in = { a + 1, b + 3 }, .out = { a + 1, b + 3 } };
    struct tt_fused_params p = {
        .bases = &bases, .own = bases, .rect = { { .count = COUNT, .sources = 3, .dsts = 3 } }
    };
    for (int i = 0; i < COUNT; i++) {
        a[1 + i] = b[3 + i] = 0x3c00; /* 1 as a half; 0x4000 is 2 */
        want[i] = 0x4000;
    }
    return run_fused(function, &p, want, sizeof want) && memcmp(b + 3, want, sizeof want) == 0;
}

static const void *find(enum tt_kernel kernel)
{
    struct tt_dev_kernel found = { 0 };
    tt_dev_kernel_find(tt_kernel_number(kernel, TUTTI_FLOAT16, TUTTI_SUM), &found);
    return found.function;
}

bool tsan_emulated_kernels(void)
{
    bool right = probe(tt_probe_exchange) && result[THREADS] == 3 * (1 + 1);
    right &= probe(tt_probe_hand_over) && result[THREADS] == 10;
    right &= probe(tt_probe_count) && result[0] == 4 * THREADS;
    return right && move(find(TT_KERNEL_MOVE)) && fold(find(TT_KERNEL_FUSED_TREE)) && move(tt_probe_over);
}

/* Kernels of several devices: what orders the ranks' accesses to a pad are flags and packets alone. */
static bool direct(int n, const void *function, uint64_t epochs, int count)
{
    struct direct_case cases[40];
    struct direct_rig *rig = direct_rig_create(n, epochs);
    for (int i = 0; i < count; i++) {
        cases[i] = direct_rig_draw(n, 50000 * (uint64_t)n + (uint64_t)i, 600);
        cases[i].way = TT_EMULATE_THREADS;
        cases[i].block = 3 + (uint32_t)i % 3;
        cases[i].grid = 1 + (uint32_t)i % 2;
        if (function != NULL) {
            cases[i].call.collective = TT_ALL_GATHER;
            cases[i].call.total = 200 * (uint64_t)n;
            cases[i].ll = false;
            cases[i].function = function;
        }
    }
    bool right = direct_rig_run(rig, cases, count);
    direct_rig_free(rig);
    return right;
}

bool tsan_direct_kernels(void)
{
    const uint64_t end = UINT64_C(1) << 32;
    return direct(2, NULL, end / 2 - 20, 40) && direct(3, NULL, end - 20, 40) &&
           direct(4, NULL, 2 * end - 20, 30) && direct(8, NULL, 0, 8);
}

/* Ranks that list what they like, and a list of calls that take what the one before has left. */
static bool lists(int n, uint64_t epochs, int count)
{
    struct direct_case cases[40];
    struct direct_rig *rig = direct_rig_create(n, epochs);
    for (int i = 0; i < count; i++) {
        cases[i] = direct_rig_draw_listed(n, 80000 * (uint64_t)n + (uint64_t)i, 600);
        cases[i].way = TT_EMULATE_THREADS;
    }
    bool right = direct_rig_run(rig, cases, count);
    direct_rig_free(rig);
    return right;
}

bool tsan_lists(void)
{
    const uint64_t end = UINT64_C(1) << 32;
    return lists(2, end - 20, 40) && lists(3, 0, 24) && lists(8, 0, 8) &&
           list_rig_chain(NULL, 7, TT_EMULATE_THREADS, 0);
}

int tsan_lose_list_end(void)
{
    return list_rig_chain(tt_probe_list_relaxed, 16, TT_EMULATE_THREADS, 0) ? 0 : 1;
}

int tsan_lose_barrier(void)
{
    return list_rig_chain(tt_probe_list_apart, 7, TT_EMULATE_THREADS, 0) ? 0 : 1;
}

int tsan_lose_meeting(void)
{
    return direct(2, tt_probe_direct_relaxed, 0, 8) ? 0 : 1;
}

int tsan_lose_release(void)
{
    return probe(tt_probe_hand_over_relaxed) && result[THREADS] == 10 ? 0 : 1;
}

int tsan_lose_end(void)
{
    return move(tt_probe_over_relaxed) ? 0 : 1;
}

bool tsan_lost_release_is_reported(const char *word, const char *reader)
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
    return right && status != 0 && strstr(said, "data race") != NULL && strstr(said, reader) != NULL;
}
