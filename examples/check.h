/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h: ends a program that was refused something, and says why. Section 1 of the tutorial. */
#include <stdio.h>
#include <stdlib.h>
#include <tutti.h>

static inline void check(tutti_status status)
{
    if (status < 0) {
        fprintf(stderr, "%s\n", tutti_get_last_error(NULL)); /* the last failure of this thread */
        exit(1);
    }
}
