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
