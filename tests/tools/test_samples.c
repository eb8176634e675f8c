/* SPDX-License-Identifier: BSD-3-Clause */
/* test_samples.c: how collperf samples the times of calls; beside the real thing, times here are invented. */
#include <criterion/criterion.h>

#include "perf/collperf/samples.h"

static struct perf_samples samples;

Test(samples, percentiles_are_samples_that_were_taken)
{
    perf_samples_begin(&samples, 100, 20e-6);
    for (int i = 100; i > 0; i--)
        perf_samples_add(&samples, 1, i);
    cr_assert_eq(perf_samples_percentile(&samples, 50), 50);
    cr_assert_eq(perf_samples_percentile(&samples, 99), 99);
    perf_samples_begin(&samples, 3, 20e-6);
    for (int i = 0; i < 3; i++)
        perf_samples_add(&samples, 1, 7 - i);
    cr_assert_eq(perf_samples_percentile(&samples, 50), 6);
    cr_assert_eq(perf_samples_percentile(&samples, 99), 7, "of few samples the longest");
    perf_samples_begin(&samples, 1, 20e-6);
    cr_assert_eq(perf_samples_percentile(&samples, 99), 0, "of none");
}

Test(samples, batches_double_until_they_take_long_enough)
{
    perf_samples_begin(&samples, 4096, 20e-6);
    long batch[3];
    for (int i = 0; i < 3; i++) {
        batch[i] = samples.batch;
        perf_samples_add(&samples, samples.batch, i < 1 ? 10e-6 : 21e-6);
    }
    cr_assert_eq(batch[0], 1);
    cr_assert_eq(batch[1], 2);
    cr_assert_eq(batch[2], 2);
    cr_assert_float_eq(samples.seconds[1], 10.5e-6, 1e-12, "the mean of a batch is the sample");
}

/* However long the loop: the room suffices, even if no batch ever doubles. */
Test(samples, a_loop_of_any_length_fits)
{
    const long loops[] = { 1, 4095, 4096, 4097, 1000000, 1000000000 };
    for (int i = 0; i < 6; i++) {
        perf_samples_begin(&samples, loops[i], 20e-6);
        for (long left = loops[i], batch; left > 0; left -= batch) {
            batch = samples.batch < left ? samples.batch : left;
            cr_assert_lt(samples.count, PERF_SAMPLES_MAX);
            perf_samples_add(&samples, batch, 1);
        }
    }
}
