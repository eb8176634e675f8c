/* SPDX-License-Identifier: BSD-3-Clause */
/* rewrite.c: rewrite, note, subtract.
 *
 * Two other ways say something else. A loop with rewriting minus a loop of rewriting alone is the difference
 * of two large figures, and blames the call for what its reads cost the next rewriting. The clock around each
 * call of one rank counts its wait for a rank that still rewrites, above all where ranks share a core or only
 * the root has input.
 *
 * A call's time holds one reading of the clock, half at each end, which is a tenth of the shortest calls: it
 * is taken off. */
#include "rewrite.h"

#include <string.h>

#include "clock.h"

/* Returns the shortest of many readings, for an interrupt only adds. */
static double clock_cost(void)
{
    static _Thread_local double cost = -1;
    if (cost >= 0)
        return cost;
    cost = 1;
    for (int i = 0; i < 256; i++) {
        double before = perf_clock_seconds(), passed = perf_clock_seconds() - before;
        cost = passed < cost ? passed : cost;
    }
    return cost;
}

uint64_t perf_rewrite_input(
    void *input, uint64_t bytes, const uint8_t page[PERF_REWRITE_PAGE + PERF_REWRITE_SHIFT], int call)
{
    const uint8_t *from = page + (call % 2) * PERF_REWRITE_SHIFT;
    for (uint64_t at = 0; at < bytes; at += PERF_REWRITE_PAGE)
        memcpy((uint8_t *)input + at, from, bytes - at < PERF_REWRITE_PAGE ? bytes - at : PERF_REWRITE_PAGE);
    return bytes;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

void perf_times_latest(struct perf_times *m, const struct perf_times *other, int calls)
{
    for (int i = 0; i < calls; i++) {
        m->began[i] = later(m->began[i], other->began[i]);
        m->ended[i] = later(m->ended[i], other->ended[i]);
    }
}

double perf_times_seconds(const struct perf_times *m, int i)
{
    return later(m->ended[i] - m->began[i] - clock_cost(), 0);
}
