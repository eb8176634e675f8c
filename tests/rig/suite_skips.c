/* SPDX-License-Identifier: BSD-3-Clause */
/* suite_skips.c: a test that skips says so, as the scripts do.
 *
 * Criterion tells of it only when it is asked to tell everything, and counts it nowhere: a test that never
 * runs would look like one that passes. */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdio.h>

ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
    for (struct criterion_suite_stats *suite = stats->suites; suite != NULL; suite = suite->next)
        for (struct criterion_test_stats *t = suite->tests; t != NULL; t = t->next)
            if (t->test_status == CR_STATUS_SKIPPED && !t->test->data->disabled)
                fprintf(stderr, "skipped: %s/%s (%s)\n", t->test->category, t->test->name,
                    t->message != NULL ? t->message : "no reason given");
}
