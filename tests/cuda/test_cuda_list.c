/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_list.c: kernels of several devices that do several calls, emulated: whatever a rank has in one
 * kernel and another rank has not, the results are those of the processor's kernels; the host sees how far
 * they are; and they leave as others do. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "kernels/cuda/cuda_probe.h"
#include "tests/cuda/direct_rig.h"
#include "tests/cuda/list_rig.h"

TestSuite(cuda_list, .timeout = 60);

enum { CALLS = 200 };

static void run_drawn(int n, uint64_t epochs, uint64_t seed, int count)
{
    static struct direct_case cases[CALLS];
    struct direct_rig *rig = direct_rig_create(n, epochs);
    for (int i = 0; i < count; i++)
        cases[i] = direct_rig_draw_listed(n, seed + (uint64_t)i, 2000);
    cr_expect(direct_rig_run(rig, cases, count));
    direct_rig_free(rig);
}

Test(cuda_list, ranks_list_what_they_like)
{
    for (int n = 2; n <= 4; n++)
        run_drawn(n, 0, 8000 * (uint64_t)n, CALLS);
    for (int n = 5; n <= TT_FUSED_RANKS; n++)
        run_drawn(n, 0, 8000 * (uint64_t)n, CALLS / 5);
}

/* A list goes on over the ends of 32 bits of epochs. */
Test(cuda_list, epochs_do_not_wrap)
{
    for (uint64_t end = UINT64_C(1) << 31; end <= UINT64_C(1) << 33; end *= 2)
        run_drawn(3, end - 20, end, 40);
}

Test(cuda_list, a_call_takes_what_the_one_before_has_left)
{
    for (uint32_t order = 0; order < 5; order++)
        for (uint32_t threads = 3; threads <= 32; threads++)
            cr_expect(list_rig_chain(NULL, threads, TT_EMULATE_FIBERS, order), "%u threads in order %u",
                threads, order);
}

/* Without the barrier between calls threads read what others have still to store, in some order. */
Test(cuda_list, a_missing_barrier_is_found)
{
    int wrong = 0;
    for (uint32_t order = 0; order < 5; order++)
        wrong += !list_rig_chain(tt_probe_list_apart, 8, TT_EMULATE_FIBERS, order);
    cr_expect_gt(wrong, 0);
}

/* --- What the host sees, and the end */

/* Sums of floats by n ranks, of which those of `lists` have all in one kernel. */
static struct direct_case sum_of_floats(int n, uint32_t lists, uint64_t seed)
{
    return (struct direct_case){
        .call = { .collective = TT_ALL_REDUCE, .n = n, .type = TUTTI_FLOAT32, .total = 50 },
        .ll = true,
        .grid = 1,
        .block = 8,
        .segment = 256,
        .listed = lists,
        .seed = seed
    };
}

enum { LISTED = 4 };
static struct tt_direct_words *told_by;

static uint64_t told(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* The other rank calls the next one when the list has told that it is at that one. */
static void *call_one_by_one(void *of)
{
    struct direct_case c[LISTED];
    bool *right = of;
    struct direct_rig *rig = (struct direct_rig *)((char *)told_by - offsetof(struct direct_rig, words));
    for (uint64_t i = 0; i < LISTED; i++) {
        c[i] = sum_of_floats(2, 1, 4 * i);
        while (
            told(&told_by->entered) != i + 1 || told(&told_by->begun) != i + 1 || told(&told_by->over) != i)
            usleep(100);
        *right = *right && told(&told_by->done) == 0 && told(&told_by->left) == 0;
        *right = direct_rig_run_rank(rig, 1, &c[i], 1) && *right;
    }
    return NULL;
}

Test(cuda_list, each_call_of_it_is_told)
{
    bool right = true;
    pthread_t thread;
    struct direct_case c[LISTED];
    struct direct_rig *rig = direct_rig_create(2, 0);
    told_by = &rig->words[0];
    for (uint64_t i = 0; i < LISTED; i++)
        c[i] = sum_of_floats(2, 1, 4 * i);
    cr_assert_eq(pthread_create(&thread, NULL, call_one_by_one, &right), 0);
    cr_expect(direct_rig_run_rank(rig, 0, c, LISTED));
    pthread_join(thread, NULL);
    cr_expect(right, "it told more than it had done");
    for (int k = 0; k < 2; k++) {
        cr_expect(rig->words[k].done == LISTED && rig->words[k].over == LISTED && rig->words[k].left == 0);
        cr_expect(rig->pads[k]->epoch == LISTED && rig->pads[k]->is_left == 0);
    }
    direct_rig_free(rig);
}

enum { MANY = 100 };

/* No call of theirs is over, from the second on, before it is told that they have left. */
static bool leaves_first(const struct tt_direct_words *words)
{
    uint64_t over;
    bool left = true;
    do {
        over = told(&words->over);
        left = left && (over == 1 || told(&words->left) != 0);
    } while (over < MANY);
    return left;
}

static void *call_once_and_abort(void *of)
{
    struct direct_rig *rig = of;
    struct direct_case first = sum_of_floats(3, 0, 0);
    bool right = direct_rig_run_rank(rig, 2, &first, 1);
    for (int k = 0; k < 2; k++)
        while (told(&rig->words[k].over) != 1 || told(&rig->words[k].begun) != 4 + 2)
            usleep(100);
    for (int k = 0; k < 2; k++) {
        __atomic_store_n(&rig->words[k].abort, 1, __ATOMIC_RELAXED);
        right = leaves_first(&rig->words[k]) && right;
    }
    return right ? rig : NULL;
}

/* Rank 2 makes one call, and no more. The others' list leaves with the second one, tells so, and has stored
 * no result that is made up; and so does the kernel that comes behind. */
Test(cuda_list, lists_leave)
{
    static struct direct_case c[MANY + 1];
    struct direct_rig *rig = direct_rig_create(3, 4);
    pthread_t thread;
    void *right = NULL;
    for (int i = 0; i <= MANY; i++)
        c[i] = sum_of_floats(3, i < MANY ? 3 : 0, (uint64_t)i * 4);
    rig->leaves = true;
    rig->absent = 1U << 2;
    cr_assert_eq(pthread_create(&thread, NULL, call_once_and_abort, rig), 0);
    cr_expect(direct_rig_run(rig, c, MANY + 1));
    pthread_join(thread, &right);
    cr_expect_not_null(right);
    for (int k = 0; k < 2; k++) {
        cr_expect_eq(rig->words[k].done, 0);
        cr_expect_eq(rig->words[k].left, 4 + MANY + 1);
        cr_expect_eq(rig->words[k].begun, 4 + MANY + 1, "the kernel behind ran, too");
        cr_expect_eq(rig->words[k].over, MANY + 1);
        cr_expect_eq(rig->pads[k]->is_left, 1);
    }
    direct_rig_free(rig);
}

/* The last call of rank 2 goes another way, by a kernel of its own: all leave with that, and name who
 * differs; what they had before is right. */
static void run_odd(uint32_t lists)
{
    struct direct_rig *rig = direct_rig_create(3, (UINT64_C(1) << 32) - 2);
    struct direct_case c[LISTED];
    for (int i = 0; i < LISTED; i++)
        c[i] = sum_of_floats(3, lists, (uint64_t)i * 4);
    c[LISTED - 1].odd_rank = 1 + 2;
    rig->leaves = true;
    cr_expect(direct_rig_run(rig, c, LISTED));
    cr_expect(rig->words[0].differs == 3 && rig->words[1].differs == 3, "lists %x", lists);
    cr_expect(rig->words[2].differs == 1 || rig->words[2].differs == 2, "lists %x", lists);
    for (int k = 0; k < 3; k++)
        cr_expect_eq(rig->words[k].differs_in, LISTED, "lists %x", lists);
    for (int k = 0; k < 2; k++)
        cr_expect(rig->words[k].left != 0 && rig->pads[k]->epoch == (UINT64_C(1) << 32) + 2);
    direct_rig_free(rig);
}

Test(cuda_list, a_call_of_it_that_differs)
{
    for (uint32_t lists = 0; lists < 4; lists++)
        run_odd(lists);
}
