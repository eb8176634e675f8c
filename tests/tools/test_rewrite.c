/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rewrite.c: what collperf --dirty writes, and how it puts times together; times here are invented. */
#include <criterion/criterion.h>
#include <string.h>

#include "perf/collperf/rewrite.h"

TestSuite(rewrite);

static uint8_t page[PERF_REWRITE_PAGE + PERF_REWRITE_SHIFT];

static void fill_page(void)
{
    for (size_t i = 0; i < sizeof page; i++)
        page[i] = (uint8_t)(i * 7 % 200);
}

static void check_rewrite(uint64_t bytes, int call)
{
    const uint8_t *from = page + call % 2 * PERF_REWRITE_SHIFT;
    static uint8_t input[3 * PERF_REWRITE_PAGE];
    memset(input, 0xee, sizeof input);
    cr_assert_eq(perf_rewrite_input(input, bytes, page, call), bytes);
    for (uint64_t i = 0; i < sizeof input; i++)
        cr_assert_eq(
            input[i], i < bytes ? from[i % PERF_REWRITE_PAGE] : 0xee, "byte %d of %d", (int)i, (int)bytes);
}

Test(rewrite, all_of_the_input_is_rewritten_and_nothing_else)
{
    static const uint64_t sizes[] = { 0, 1, 8, 4095, 4096, 4097, 8192, 10000 };
    fill_page();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int call = 0; call < 3; call++)
            check_rewrite(sizes[i], call);
}

Test(rewrite, other_values_are_written_than_were_there)
{
    uint8_t before[PERF_REWRITE_SHIFT], input[PERF_REWRITE_SHIFT];
    fill_page();
    perf_rewrite_input(before, sizeof before, page, 0);
    for (int call = 1; call < 4; call++) {
        perf_rewrite_input(input, sizeof input, page, call);
        for (size_t i = 0; i < sizeof input; i++)
            cr_assert_neq(input[i], before[i], "byte %zu of call %d", i, call);
        memcpy(before, input, sizeof input);
    }
}

/* Rank 0 is early at call 0 and waits in it; rank 1 is early at call 1. */
Test(rewrite, a_call_takes_from_the_last_that_began_to_the_last_that_ended)
{
    struct perf_times a = { .began = { 1, 20 }, .ended = { 7, 23 } };
    struct perf_times b = { .began = { 5, 12 }, .ended = { 6, 26 } };
    perf_times_latest(&a, &b, 2);
    cr_assert_float_eq(perf_times_seconds(&a, 0), 2, 1e-3);
    cr_assert_float_eq(perf_times_seconds(&a, 1), 6, 1e-3);
}

Test(rewrite, the_clock_is_taken_off_but_no_time_is_negative)
{
    struct perf_times m = { .began = { 1, 1 }, .ended = { 1, 2 } };
    cr_assert_eq(perf_times_seconds(&m, 0), 0);
    cr_assert_lt(perf_times_seconds(&m, 1), 1, "reading the clock costs something");
}
