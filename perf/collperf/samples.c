/* SPDX-License-Identifier: BSD-3-Clause */
/* samples.c: batches that grow, and percentiles by sorting.
 *
 * The first batches are short ones, a dozen among hundreds; percentiles do not feel them. */
#include "samples.h"

#include <stdlib.h>

void perf_samples_begin(struct perf_samples *s, long calls, double enough)
{
    s->count = 0;
    s->enough = enough;
    s->batch = (calls + PERF_SAMPLES_MAX - 1) / PERF_SAMPLES_MAX; /* batches only grow, so all fit */
}

void perf_samples_add(struct perf_samples *s, long calls, double seconds)
{
    s->seconds[s->count++] = seconds / (double)calls;
    if (seconds < s->enough)
        s->batch *= 2;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double perf_samples_percentile(struct perf_samples *s, int percent)
{
    if (s->count == 0)
        return 0;
    qsort(s->seconds, (size_t)s->count, sizeof s->seconds[0], compare);
    return s->seconds[(percent * s->count + 99) / 100 - 1];
}
