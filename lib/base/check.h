/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h: rules between parts of the library, looked at in builds that are made to find mistakes.
 *
 * `configure --enable-checks`, and with it every build under a sanitizer, ends the process where a rule is
 * broken; other builds contain nothing of it. What a user or a peer may do wrong is no matter for this: that
 * is a status. */
#ifndef TT_BASE_CHECK_H
#define TT_BASE_CHECK_H
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static inline void tt_check(bool holds, const char *rule)
{
#ifdef TT_CHECKS
    if (!holds) {
        fprintf(stderr, "tutti: broken rule: %s\n", rule);
        abort();
    }
#else
    (void)holds;
    (void)rule;
#endif
}

#endif
