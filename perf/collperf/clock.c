/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.c: one clock for all of perf/, so that every figure means the same thing.
 *
 * CLOCK_MONOTONIC through the vDSO costs about 20 ns, and it is read only at the two ends of a loop of calls.
 */
#include "clock.h"

#include <time.h>

double perf_clock_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void perf_clock_date(char *text, size_t bytes)
{
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    if (strftime(text, bytes, "%Y-%m-%dT%H:%M:%SZ", &utc) == 0)
        text[0] = 0;
}
