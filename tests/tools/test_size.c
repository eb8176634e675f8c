/* SPDX-License-Identifier: BSD-3-Clause */
/* test_size.c: how collperf cuts a size into elements and blocks: against the meaning of each, by hand. */
#include <criterion/criterion.h>

#include "perf/collperf/size.h"

Test(size, elements_of_bytes)
{
    cr_expect_eq(perf_size_elements(0, 8), 0);
    cr_expect_eq(perf_size_elements(1, 8), 1, "a size is at least an element");
    cr_expect_eq(perf_size_elements(8, 8), 1);
    cr_expect_eq(perf_size_elements(15, 8), 1);
    cr_expect_eq(perf_size_elements(16, 8), 2);
    cr_expect_eq(perf_size_elements(3, 1), 3);
}

Test(size, even_blocks)
{
    cr_expect_eq(perf_size_block(0, 4), 0);
    for (uint64_t few = 1; few <= 4; few++)
        cr_expect_eq(
            perf_size_block(few, 4), 1, "no block of %llu elements is empty", (unsigned long long)few);
    cr_expect_eq(perf_size_block(7, 4), 1);
    cr_expect_eq(perf_size_block(8, 4), 2);
    cr_expect_eq(perf_size_block(UINT64_MAX, 1), UINT64_MAX);
}

/* Block r is r + 1 parts of 1 + 2 + ... + n, to an element, and all together are the vector. */
Test(size, uneven_blocks)
{
    static const uint64_t sizes[] = { 0, 1, 5, 1000, 123456789, UINT64_C(1) << 50 };
    for (int n = 1; n <= 128; n += n < 9 ? 1 : 17)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            double part = 2.0 * (double)sizes[i] / (double)(n * (n + 1));
            cr_expect_eq(perf_size_first(sizes[i], 0, n), 0);
            cr_expect_eq(perf_size_first(sizes[i], n, n), sizes[i], "%d blocks of %llu", n,
                (unsigned long long)sizes[i]);
            for (int r = 0; r < n; r++) {
                uint64_t from = perf_size_first(sizes[i], r, n), to = perf_size_first(sizes[i], r + 1, n);
                double length = (double)(to - from), right = part * (r + 1);
                cr_expect(to >= from && length > right - 1.5 && length < right + 1.5,
                    "block %d of %d, %llu elements: %llu to %llu", r, n, (unsigned long long)sizes[i],
                    (unsigned long long)from, (unsigned long long)to);
            }
        }
}
