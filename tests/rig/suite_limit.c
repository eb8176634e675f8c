/* SPDX-License-Identifier: BSD-3-Clause */
/* suite_limit.c: no test of a suite runs without a limit.
 *
 * Most tests here are about ranks that wait for each other; where one goes wrong it stands still, and a suite
 * that stands still tells nobody which test it was. Criterion's own default only shortens limits that a test
 * names, so those that name none get theirs before the first runs.
 *
 * These limits are the last resort: ranks that wait for each other have one that looks at the load
 * (patience.h). Here the load is not known yet, so all are ten times what is enough on a quiet machine. */
#include <criterion/criterion.h>
#include <criterion/hooks.h>

enum { LIMIT_SECONDS = 300, WITH_LOAD = 10 };

ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
    FOREACH_SET(struct criterion_suite_set * set, tests->suites)
    {
        double of_suite = LIMIT_SECONDS;
        if (set->suite.data != NULL && set->suite.data->timeout > 0) {
            of_suite = set->suite.data->timeout;
            set->suite.data->timeout *= WITH_LOAD;
        }
        FOREACH_SET(struct criterion_test * test, set->tests)
        {
            double named = test->data->timeout;
            test->data->timeout = WITH_LOAD * (named > 0 ? named : of_suite);
        }
    }
}
