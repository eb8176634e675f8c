/* SPDX-License-Identifier: BSD-3-Clause */
/* test_iterations.c: how many calls collperf and its peers make; the times of calls are invented. */
#include <criterion/criterion.h>

#include "perf/collperf/iterations.h"

/* The loops of a point whose calls take `early` seconds during the first 50 ms, and then `late`. */
struct run {
    double untimed;
    double estimate; /* of the loop that is timed */
};

static struct run iterate_through(double early, double late, long warmups, long iterations, bool settle)
{
    struct perf_iterations it;
    struct run run = { 0 };
    perf_iterations_begin(&it, warmups, iterations, settle);
    while (it.warming) {
        double seconds = 0;
        for (long i = 0; i < it.calls; i++)
            seconds += run.untimed + seconds < 0.05 ? early : late;
        run.untimed += seconds;
        perf_iterations_next(&it, seconds);
    }
    run.estimate = (double)it.calls * late;
    return run;
}

Test(iterations, timed_loops_take_a_tenth_of_a_second)
{
    for (double seconds = 1e-6; seconds < 0.02; seconds *= 3)
        for (int settle = 0; settle < 2; settle++) {
            struct run run = iterate_through(seconds, seconds, 5, 0, settle == 1);
            cr_expect(run.estimate > 0.09 && run.estimate < 0.11, "%g s: %g s", seconds, run.estimate);
        }
}

Test(iterations, first_point_is_timed_when_ranks_have_settled)
{
    struct run run = iterate_through(24e-6, 0.15e-6, 5, 0, true);
    cr_expect_gt(run.untimed, 0.05, "the timed loop begins after %g s", run.untimed);
    run = iterate_through(24e-6, 0.15e-6, 5, 0, false);
    cr_expect_lt(run.untimed, 0.05, "later points lose no time, here %g s", run.untimed);
}

/* A point that takes long has settled, and its user does not wait for it twice. */
Test(iterations, long_calls_are_made_once)
{
    struct run run = iterate_through(2, 2, 0, 0, true);
    cr_expect_eq(run.untimed, 2);
    cr_expect_eq(run.estimate, 2);
}

Test(iterations, fixed_iterations_are_what_was_asked_for)
{
    struct run run = iterate_through(1, 1, 3, 20, true);
    cr_expect_eq(run.untimed, 3);
    cr_expect_eq(run.estimate, 20);
    run = iterate_through(1, 1, 0, 20, true);
    cr_expect_eq(run.untimed, 0);
}
