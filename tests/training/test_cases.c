/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cases.c: the lists of verify, of which CI runs the short one: every line of every list is legal, and
 * none is so long that its end is lost, or needs more ranks than verify starts. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "training/verify/verify.h"

static int legal_cases(enum tr_verify_extent extent)
{
    int n;
    struct tr_verify_case *list = tr_verify_cases(extent, &n);
    for (int i = 0; i < n; i++) {
        struct tr_options o;
        struct tr_run run;
        struct tr_error e;
        cr_expect_lt(strlen(list[i].options), sizeof list[i].options - 1);
        bool ok = tr_verify_options(&o, &list[i], &e) && tr_run_make(&run, &o, &e);
        cr_expect(ok, "%s: %s", list[i].options, e.text);
        if (ok) {
            cr_expect_leq(run.plan.mesh.n, TR_VERIFY_RANKS, "%s: %d ranks", list[i].options, run.plan.mesh.n);
            tr_run_free(&run);
        }
    }
    free(list);
    return n;
}

Test(cases, all_are_legal)
{
    int quick = legal_cases(TR_VERIFY_QUICK), some = legal_cases(TR_VERIFY), all = legal_cases(TR_VERIFY_ALL);
    cr_expect(quick < some && some < all && all <= TR_VERIFY_MOST, "%d, %d, %d", quick, some, all);
    cr_expect_geq(some, 120);
}
