/* SPDX-License-Identifier: BSD-3-Clause */
/* iterations.c: warm up, estimate, then a loop of about a tenth of a second.
 *
 * The first call alone says little (it may prepare a call and touch memory), so batches grow until one takes
 * two milliseconds, which is far above the noise of meeting at its ends. A call of more than a third of a
 * second is timed once: no point takes much more than half a second unless the user fixed the iterations. */
#include "iterations.h"

#define TARGET_SECONDS 0.1
#define ENOUGH_SECONDS 0.002
#define LONGEST_LOOP 200000

void perf_iterations_begin(struct perf_iterations *it, long warmups, long iterations, bool settle)
{
    *it = (struct perf_iterations){
        .warmups = warmups, .fixed = iterations, .first = true, .warming = true, .settle = settle
    };
    it->calls = 1;
    if (iterations > 0) {
        it->calls = warmups > 0 ? warmups : iterations;
        it->warming = warmups > 0;
    }
}

static void plan_long_loop(struct perf_iterations *it, double call_seconds)
{
    double calls = TARGET_SECONDS / call_seconds;
    if (calls < 5)
        calls = 0.3 / call_seconds < 5 ? 0.3 / call_seconds : 5;
    it->calls = calls < 1 ? 1 : calls > LONGEST_LOOP ? LONGEST_LOOP : (long)calls;
}

void perf_iterations_next(struct perf_iterations *it, double seconds)
{
    if (it->fixed > 0) {
        it->calls = it->fixed;
        it->warming = false;
        return;
    }
    double call_seconds = seconds / (double)it->calls;
    if (call_seconds < 1e-9)
        call_seconds = 1e-9;
    bool cold = it->first && it->warmups > 0;
    it->first = false;
    if (cold && seconds < TARGET_SECONDS)
        it->calls = it->warmups;
    else if (seconds >= ENOUGH_SECONDS || it->calls >= LONGEST_LOOP) {
        plan_long_loop(it, call_seconds);
        it->warming = it->settle && seconds < TARGET_SECONDS;
        it->settle = false;
    } else
        it->calls *= 8;
}
