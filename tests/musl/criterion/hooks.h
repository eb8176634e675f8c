/* SPDX-License-Identifier: BSD-3-Clause */
/* hooks.h: Criterion's hooks, which compile and never run: runner.c itself limits tests and tells of skipped
 * ones, as tests/rig/suite_limit.c and suite_skips.c do there. */
#ifndef CRITERION_HOOKS_H
#define CRITERION_HOOKS_H
#include "criterion/criterion.h"

enum criterion_test_status { CR_STATUS_PASSED, CR_STATUS_FAILED, CR_STATUS_SKIPPED };

struct criterion_test {
    const char *category, *name;
    struct criterion_test_extra_data *data;
};
struct criterion_suite_set {
    struct {
        struct criterion_test_extra_data *data;
    } suite;
    struct criterion_test *tests;
};
struct criterion_test_set {
    struct criterion_suite_set *suites;
};
struct criterion_test_stats {
    struct criterion_test *test;
    enum criterion_test_status test_status;
    const char *message;
    struct criterion_test_stats *next;
};
struct criterion_suite_stats {
    struct criterion_test_stats *tests;
    struct criterion_suite_stats *next;
};
struct criterion_global_stats {
    struct criterion_suite_stats *suites;
};

#define ReportHook(when) __attribute__((unused)) static void cr_hook_##when
#define FOREACH_SET(one, set) for (one = (set); false;)

#endif
