/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_direct.c: kernels of several devices, emulated: their results are those of the processor's
 * kernels, in whatever order ranks come, with whatever grids; over the ends of 32 bits of epochs; and they
 * leave when the host says so. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/dev_kernel.h"
#include "tests/cuda/direct_rig.h"

enum { CALLS = 150 };
static const uint64_t two_to_31 = UINT64_C(1) << 31, two_to_32 = UINT64_C(1) << 32;

static void run_drawn(int n, uint64_t epochs, uint64_t seed, int count)
{
    static struct direct_case cases[4 * CALLS];
    struct direct_rig *rig = direct_rig_create(n, epochs);
    for (int i = 0; i < count; i++)
        cases[i] = direct_rig_draw(n, seed + (uint64_t)i, 6000);
    cr_expect(direct_rig_run(rig, cases, count));
    direct_rig_free(rig);
}

Test(cuda_direct, calls_of_2_ranks, .timeout = 60)
{
    run_drawn(2, 0, 1000, 4 * CALLS);
}

Test(cuda_direct, calls_of_3_ranks, .timeout = 60)
{
    run_drawn(3, 0, 2000, 3 * CALLS);
}

Test(cuda_direct, calls_of_4_ranks, .timeout = 60)
{
    run_drawn(4, 0, 3000, 2 * CALLS);
}

Test(cuda_direct, calls_of_5_to_8_ranks, .timeout = 60)
{
    for (int n = 5; n <= 8; n++)
        run_drawn(n, 0, 1000 * (uint64_t)n, CALLS / 2);
}

/* Every type has each of its operations in both shapes, as an average and with factors, by both ways. */
static void run_operations(enum tt_collective collective)
{
    static struct direct_case cases[2000];
    int count = 0;
    struct direct_rig *rig = direct_rig_create(3, 0);
    for (int type = 0; type < TT_FOLD_TYPES; type++)
        for (tutti_op op = 0; op < 64; op++)
            for (int how = 0; how < 8; how++) {
                struct direct_case c = { .call = { .collective = collective,
                                             .n = 3,
                                             .type = (tutti_type)type,
                                             .op = op,
                                             .exact = how & 1,
                                             .scaled = how & 2 && op == TUTTI_SUM,
                                             .total = 99 },
                    .ll = how & 4,
                    .grid = 2,
                    .block = 4,
                    .segment = 192,
                    .seed = (uint64_t)count };
                if (tt_kernel_number(TT_KERNEL_DIRECT, c.call.type, op) != 0)
                    cases[count++] = c;
            }
    cr_assert_gt(count, 12 * 5 * 8);
    rig->late_us = 0;
    cr_expect(direct_rig_run(rig, cases, count));
    direct_rig_free(rig);
}

Test(cuda_direct, operations, .timeout = 60)
{
    run_operations(TT_ALL_REDUCE);
    run_operations(TT_REDUCE_SCATTER);
}

/* --- Epochs. */

/* Blocks that calls before had not come after 2^31, 2^32 and 2^33 epochs, and calls go on over the end. */
Test(cuda_direct, epochs_do_not_wrap, .timeout = 60)
{
    for (int n = 2; n <= 4; n += 2)
        for (uint64_t end = two_to_31; end <= 2 * two_to_32; end *= 2) {
            run_drawn(n, end - 40, end + 1, 20);
            run_drawn(n, end + 16, end + 100, 10);
        }
}

struct late_rank {
    struct direct_rig *rig;
    const struct direct_case *c;
    uint64_t after_polls;
    bool right;
};

static _Atomic uint64_t polls; /* of all blocks */

static void count_poll(void)
{
    polls++;
}

static void *same_address(const void *address)
{
    return (void *)address;
}

static void *run_late(void *of)
{
    struct late_rank *late = of;
    usleep(30000);
    while (polls < late->after_polls)
        usleep(1000);
    late->right = direct_rig_run_rank(late->rig, 1, late->c, 1);
    return NULL;
}

/* Rank 1 comes late, so rank 0 takes whatever it takes for a sign of it. */
static void run_with_late_rank(struct direct_rig *rig, const struct direct_case *c, uint64_t after_polls)
{
    pthread_t thread;
    struct late_rank late = { rig, c, after_polls, false };
    polls = 0;
    cr_assert_eq(pthread_create(&thread, NULL, run_late, &late), 0);
    bool right = direct_rig_run_rank(rig, 0, c, 1);
    pthread_join(thread, NULL);
    cr_expect(right && late.right, "seed %u", (unsigned)c->seed);
}

static struct direct_case sum_of_floats(bool ll, uint32_t grid, uint64_t seed)
{
    return (struct direct_case){
        .call = { .collective = TT_ALL_REDUCE, .n = 2, .type = TUTTI_FLOAT32, .total = 200 },
        .ll = ll,
        .grid = grid,
        .block = 8,
        .segment = 256,
        .seed = seed
    };
}

Test(cuda_direct, blocks_that_were_not_used_for_long, .timeout = 60)
{
    for (uint64_t epochs = two_to_31; epochs <= 4 * two_to_31; epochs += two_to_31) {
        struct direct_rig *rig = direct_rig_create(2, epochs + 16);
        struct direct_case c = sum_of_floats(false, 4, 1);
        run_with_late_rank(rig, &c, 0);
        direct_rig_free(rig);
    }
}

/* The slots of a call lie untouched until one of whose tags is the same again. */
Test(cuda_direct, packets_that_were_not_used_for_long, .timeout = 60)
{
    const uint64_t steps[] = { two_to_32, two_to_32 - 1, two_to_32 + 1, 2 * two_to_32, 2 * two_to_32 - 2,
        two_to_31 };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct direct_rig *rig = direct_rig_create(2, 6);
        struct direct_case before = sum_of_floats(true, 2, 1), after = sum_of_floats(true, 2, 2);
        cr_expect(direct_rig_run(rig, &before, 1));
        for (int k = 0; k < 2; k++)
            rig->pads[k]->epoch = 6 + steps[i];
        run_with_late_rank(rig, &after, 0);
        direct_rig_free(rig);
    }
}

/* A kernel that has looked at the other ranks' calls finds no fault with one who is still in the last. */
Test(cuda_direct, late_ranks_are_waited_for, .timeout = 60)
{
    static const struct tt_emulated_runtime runtime = { same_address, count_poll };
    tt_emulate_for(&runtime);
    for (int ll = 0; ll < 2; ll++) {
        struct direct_rig *rig = direct_rig_create(2, 9);
        struct direct_case c[2] = { sum_of_floats(ll, 1, 1), sum_of_floats(!ll, 1, 2) };
        cr_expect(direct_rig_run(rig, c, 2));
        run_with_late_rank(rig, &c[0], 2500);
        direct_rig_free(rig);
    }
}

/* What the host is told, and where the pad counts on. */
Test(cuda_direct, epochs_are_told, .timeout = 60)
{
    struct direct_rig *rig = direct_rig_create(2, two_to_32);
    struct direct_case cases[] = { sum_of_floats(true, 3, 1), sum_of_floats(false, 1, 2),
        sum_of_floats(false, 3, 3) };
    const uint64_t epochs[] = { 1, 2 * 4, 2 * 2 }; /* 800 bytes, or a third of them, in segments of 256 */
    uint64_t epoch = two_to_32;
    for (int i = 0; i < 3; i++) {
        cr_expect(direct_rig_run(rig, &cases[i], 1));
        for (int k = 0; k < 2; k++) {
            const struct tt_direct_words *words = &rig->words[k];
            cr_expect_eq(words->begun, epoch + 1);
            cr_expect_eq(words->done, epoch + epochs[i], "call %d is told by %u", i, (unsigned)words->done);
            cr_expect(words->left == 0 && rig->pads[k]->blocks_over == 0 && rig->pads[k]->is_left == 0);
            cr_expect_eq(rig->pads[k]->epoch, words->done);
        }
        epoch += epochs[i];
    }
    direct_rig_free(rig);
}

/* --- The end. */

static void *abort_soon(void *rig)
{
    usleep(20000);
    for (int k = 0; k < 3; k++)
        __atomic_store_n(&((struct direct_rig *)rig)->words[k].abort, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* Rank 2 never comes. The others leave, tell so, and have stored no result that is made up; so does the call
 * that comes behind. */
Test(cuda_direct, kernels_leave, .timeout = 60)
{
    for (int how = 0; how < 3; how++) { /* folds and moves by LL, folds by PADS */
        struct direct_rig *rig = direct_rig_create(3, 4);
        struct direct_case c[2] = { sum_of_floats(how < 2, 2, 5), sum_of_floats(how < 2, 2, 6) };
        pthread_t thread;
        for (int i = 0; i < 2; i++) {
            c[i].call.n = 3;
            c[i].call.total = 60;
            c[i].call.collective = how == 1 ? TT_ALL_GATHER : TT_ALL_REDUCE;
        }
        rig->absent = 1U << 2;
        rig->leaves = true;
        cr_assert_eq(pthread_create(&thread, NULL, abort_soon, rig), 0);
        cr_expect(direct_rig_run(rig, c, 2));
        pthread_join(thread, NULL);
        for (int k = 0; k < 2; k++) {
            cr_expect_eq(rig->words[k].done, 0, "a call that rank %d left is done", k);
            cr_expect_geq(rig->words[k].left, rig->words[k].begun);
            cr_expect_gt(rig->words[k].begun, 5, "the second one ran, too");
            cr_expect_eq(rig->pads[k]->is_left, 1);
        }
        direct_rig_free(rig);
    }
}

/* Rank 2 waits for packets while the others meet, or the reverse: they name it, and it names one of them. */
Test(cuda_direct, calls_that_differ, .timeout = 60)
{
    for (int ll = 0; ll < 2; ll++) {
        struct direct_rig *rig = direct_rig_create(3, two_to_32 - 1);
        struct direct_case c[2] = { sum_of_floats(ll, 2, 5), sum_of_floats(ll, 2, 6) };
        c[0].call.n = c[1].call.n = 3;
        cr_expect(direct_rig_run(rig, c, 1));
        rig->leaves = true;
        c[1].odd_rank = 1 + 2;
        cr_expect(direct_rig_run(rig, c + 1, 1));
        cr_expect(rig->words[0].differs == 3 && rig->words[1].differs == 3);
        cr_expect(rig->words[2].differs == 1 || rig->words[2].differs == 2);
        direct_rig_free(rig);
    }
}

enum { MOVED = 2 * TT_DIRECT_BLOCK * 16 };
static _Alignas(64) uint8_t given[MOVED], got[MOVED];

/* What rank 1 of two launches to have what rank 0 gives, where it is, by two blocks; else by four parts. */
static struct tt_direct_params move_in_place(struct direct_rig *rig)
{
    const struct tt_rect rect = { .count = MOVED, .sources = 1, .dsts = 3 };
    struct tt_direct_params p = { .out = got,
        .words = &rig->words[1],
        .segment = MOVED / 4,
        .part = MOVED / 4,
        .way = TT_DIRECT_PADS,
        .ranks = 2,
        .rank = 1,
        .maps = 1 };
    memcpy(p.pads, rig->pads, sizeof p.pads);
    cr_assert_not(tt_direct_set(&p, &rect, 1, 1));
    return p;
}

static void run_block(const struct tt_direct_params *p, uint32_t block, uint32_t order)
{
    struct tt_dev_kernel found = { 0 };
    cr_assert(tt_dev_kernel_find(tt_kernel_number(TT_KERNEL_DIRECT_MOVE, 0, 0), &found));
    struct tt_emulated_launch launch = { found.function, p, 2, 1, TT_DIRECT_BLOCK, TT_EMULATE_FIBERS, order };
    tt_emulate_block(&launch, block);
}

/* Both ranks have come to this epoch, and told where their buffers are. */
static void come(struct tt_pad *pad, uint64_t epoch)
{
    for (int k = 0; k < 2; k++) {
        pad->place[k][0] = tt_direct_place((uintptr_t)given);
        pad->place[k][1] = tt_direct_place(0);
        __atomic_store_n(&pad->placed[k], epoch, __ATOMIC_RELEASE);
    }
}

static _Atomic bool has_begun, is_enough;

static void *leave_and_stay(void *pad)
{
    atomic_store(&has_begun, true);
    while (!atomic_load(&is_enough))
        __atomic_xor_fetch(&((struct tt_pad *)pad)->is_left, 1, __ATOMIC_RELAXED);
    return NULL;
}

/* The last of two blocks runs while the other one tells that it has left, and, for the sake of this test,
 * takes that back: at any moment between the beginnings of its threads. All of them do the call, or none. */
Test(cuda_direct, a_block_leaves_as_a_whole, .timeout = 60)
{
    enum { ROUNDS = 4000 };
    struct direct_rig *rig = direct_rig_create(2, 0);
    struct tt_direct_params p = move_in_place(rig);
    struct tt_pad *pad = rig->pads[1];
    pthread_t thread;
    memset(given, 1, sizeof given);
    come(pad, UINT64_MAX);
    pad->flag[1][0] = UINT64_MAX;
    cr_assert_eq(pthread_create(&thread, NULL, leave_and_stay, pad), 0);
    while (!atomic_load(&has_begun))
        ;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        pad->blocks_over = 0;
        memset(got, 0, sizeof got);
        run_block(&p, 1, i % 2);
        for (int at = MOVED / 2; at < MOVED; at += 16)
            cr_assert_eq(got[at], got[MOVED / 2], "a part of it is done");
    }
    atomic_store(&is_enough, true);
    pthread_join(thread, NULL);
    direct_rig_free(rig);
}

static _Thread_local bool is_held;

/* Where the second block polls, it is held up. */
static void hold(void)
{
    if (is_held)
        atomic_store(&has_begun, true);
    while (is_held && !atomic_load(&is_enough))
        usleep(100);
}

static void *run_second(void *params)
{
    is_held = true;
    run_block(params, 1, 0);
    return NULL;
}

/* The first block has left when the second one hears of all ranks and goes on where their buffers are, with
 * other epochs than parts have: the host sees the kernel leave, which then waits until it is released. */
Test(cuda_direct, blocks_that_part, .timeout = 60)
{
    static const struct tt_emulated_runtime runtime = { same_address, hold };
    struct direct_rig *rig = direct_rig_create(2, 4);
    struct tt_direct_params p = move_in_place(rig);
    struct tt_direct_words *words = &rig->words[1];
    pthread_t thread;
    tt_emulate_for(&runtime);
    cr_assert_eq(pthread_create(&thread, NULL, run_second, &p), 0);
    while (!atomic_load(&has_begun))
        usleep(100);
    __atomic_store_n(&words->abort, TT_DIRECT_LEAVE, __ATOMIC_RELAXED);
    run_block(&p, 0, 0);
    cr_expect_eq(words->left, 0);
    come(rig->pads[1], 5);
    atomic_store(&is_enough, true);
    while (__atomic_load_n(&words->left, __ATOMIC_ACQUIRE) == 0)
        usleep(100);
    cr_expect_geq(words->left, words->begun, "begun %d", (int)words->begun);
    __atomic_store_n(&words->abort, TT_DIRECT_RELEASED, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    direct_rig_free(rig);
}

/* --- What is sent and received. */

static struct tt_direct_params set_of(int n, int rank, enum tt_collective collective, bool *ll)
{
    const size_t counts[] = { 3, 0, 5, 4 };
    struct tt_rect_call call = { .collective = collective,
        .n = n,
        .root = 1,
        .type = TUTTI_FLOAT32,
        .element_bytes = 4,
        .total = (uint64_t)n * 10 };
    struct tt_fused_params rects;
    struct tt_rect_plan plan;
    struct tt_direct_params p = { .ranks = (uint32_t)n, .rank = (uint32_t)rank };
    if (tt_collectives[collective].counts == TT_COUNTS_SHARED)
        call.counts = counts;
    cr_assert(tt_rectangles(&call, &rects, &plan));
    bool folds = tt_collectives[collective].result == TT_RESULT_REDUCED;
    *ll = tt_direct_set(&p, rects.rect, rects.rects, folds ? 4 : 1);
    return p;
}

/* LL has no other flow control than that each rank hears of each other one in each call. */
Test(cuda_direct, ll_serves_where_all_hear_of_all)
{
    static const enum tt_collective served[] = { TT_ALL_REDUCE, TT_REDUCE_SCATTER, TT_ALL_GATHER,
        TT_ALL_TO_ALL, TT_BARRIER };
    for (int n = 2; n <= 4; n++)
        for (int collective = 0; collective < TT_P2P_SEND; collective++)
            for (int rank = 0; rank < n && tt_collectives[collective].counts != TT_COUNTS_OWN; rank++) {
                bool ll, should = false;
                set_of(n, rank, (enum tt_collective)collective, &ll);
                for (size_t i = 0; i < sizeof served / sizeof served[0]; i++)
                    should = should || (int)served[i] == collective;
                cr_expect_eq(ll, should, "%s of %d ranks", tt_collectives[collective].name, n);
            }
}

Test(cuda_direct, ll_does_not_serve_an_empty_block)
{
    const struct tt_rect rects[] = { { .count = 5, .sources = 1, .dsts = 3 }, { .sources = 2, .dsts = 3 } };
    struct tt_direct_params p = { .ranks = 2 };
    cr_expect_not(tt_direct_set(&p, rects, 2, 1));
}

Test(cuda_direct, blocks_that_are_sent)
{
    bool ll;
    struct tt_direct_params p = set_of(4, 2, TT_ALL_REDUCE, &ll);
    cr_expect(p.blocks == 1 && p.shares == 1 && p.longest == 160);
    cr_expect(p.send[0].at == 0 && p.send[0].bytes == 160 && p.receive[2].bytes == 160);
    p = set_of(4, 2, TT_ALL_TO_ALL, &ll);
    cr_expect(p.blocks == 4 && p.shares == 0 && p.longest == 40);
    cr_expect(p.send[3].at == 120 && p.receive[3].at == 120 && p.receive[3].bytes == 40);
    p = set_of(4, 2, TT_ALL_GATHER_V, &ll);
    cr_expect(p.blocks == 1 && p.longest == 20 && p.send[0].at == 0 && p.send[0].bytes == 20);
    cr_expect(p.receive[1].bytes == 0 && p.receive[3].at == 32 && p.receive[3].bytes == 16);
    p = set_of(4, 2, TT_SCATTER, &ll);
    cr_expect(p.blocks == 4 && p.send[1].bytes == 0 && p.receive[1].bytes == 40 && p.receive[0].bytes == 0);
    p = set_of(4, 2, TT_GATHER, &ll);
    cr_expect(p.blocks == 1 && p.send[0].bytes == 40 && p.receive[0].bytes == 0 && p.receive[1].bytes == 0);
    p = set_of(4, 1, TT_REDUCE, &ll);
    cr_expect(p.shares == 0 && p.receive[1].bytes == 160 && p.longest == 160);
}

Test(cuda_direct, grids_and_segments)
{
    cr_expect_eq(tt_direct_grid(0, 33), 1);
    cr_expect_eq(tt_direct_grid(UINT64_MAX, 33), 33);
    cr_expect_eq(tt_direct_grid(UINT64_MAX, 1000), TT_PAD_BLOCKS);
    for (uint32_t n = 2; n <= TT_FUSED_RANKS; n++) {
        uint64_t segment = tt_direct_segment(n), part = (segment / 16 + n - 1) / n * 16;
        cr_expect(segment <= TT_PAD_OPERANDS && part <= TT_PAD_RESULTS, "%u ranks", n);
    }
}

/* --- More than 32 bits can count: the last block of a grid runs alone, since it meets its fellows only. */

static void *run_last_block(void *launch)
{
    tt_emulate_block(launch, ((struct tt_emulated_launch *)launch)->grid - 1);
    return NULL;
}

Test(cuda_direct, blocks_beyond_four_gib, .timeout = 60)
{
    const uint64_t bytes = (UINT64_C(5) << 30) + 4096 + 7, from = UINT64_C(3) << 30;
    const struct tt_rect rect = { .from = from, .to = from, .count = bytes, .sources = 1, .dsts = 3 };
    struct direct_rig *rig = direct_rig_create(2, 0);
    struct tt_direct_params params[2];
    struct tt_emulated_launch launches[2];
    struct tt_dev_kernel found = { 0 };
    pthread_t thread;
    cr_assert(tt_dev_kernel_find(tt_kernel_number(TT_KERNEL_DIRECT_MOVE, 0, 0), &found));
    uint8_t *memory[2];
    for (uint32_t k = 0; k < 2; k++) {
        memory[k] = mmap(
            NULL, from + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        cr_assert_neq(memory[k], MAP_FAILED);
        params[k] = (struct tt_direct_params){ .in = memory[k],
            .out = memory[k],
            .words = &rig->words[k],
            .segment = TT_PAD_OPERANDS,
            .way = TT_DIRECT_PADS,
            .ranks = 2,
            .rank = k };
        memcpy(params[k].pads, rig->pads, sizeof params[k].pads);
        cr_expect_not(tt_direct_set(&params[k], &rect, 1, 1));
        launches[k] = (struct tt_emulated_launch){ found.function, &params[k], TT_PAD_BLOCKS, 1, 32,
            TT_EMULATE_FIBERS, 0 };
    }
    for (uint64_t i = from + bytes - 100000; i < from + bytes; i++)
        memory[0][i] = (uint8_t)(i * 2654435761u >> 24);
    cr_assert_eq(pthread_create(&thread, NULL, run_last_block, &launches[0]), 0);
    run_last_block(&launches[1]);
    pthread_join(thread, NULL);
    cr_expect_eq(memcmp(memory[1] + from + bytes - 100000, memory[0] + from + bytes - 100000, 100000), 0);
    for (int k = 0; k < 2; k++)
        munmap(memory[k], from + bytes);
    direct_rig_free(rig);
}
