/* SPDX-License-Identifier: BSD-3-Clause */
/* suite_limit.c: no test of a suite runs without a limit.
 *
 * Most tests here are about ranks that wait for each other; where one goes wrong it stands still, and a suite
 * that stands still tells nobody which test it was. Criterion's own default only shortens limits that a test
 * names, so those that name none get theirs before the first runs. */
#include <criterion/criterion.h>
#include <criterion/hooks.h>

/* Far above what the slowest takes on two busy cores. */
#define LIMIT_SECONDS 300

ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
    FOREACH_SET(struct criterion_suite_set * set, tests->suites)
    {
        if (set->suite.data != NULL && set->suite.data->timeout > 0)
            continue;
        FOREACH_SET(struct criterion_test * test, set->tests)
        {
            if (test->data->timeout == 0)
                test->data->timeout = LIMIT_SECONDS;
        }
    }
}
