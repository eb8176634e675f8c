/* SPDX-License-Identifier: BSD-3-Clause */
/* pace.c: warm up, estimate, then a loop of about a tenth of a second.
 *
 * The first call alone says little (it may build a plan and touch memory), so batches grow until one takes
 * two milliseconds, which is far above the noise of meeting at its ends. A call of more than a third of a
 * second is timed once: no point takes much more than half a second unless the user fixed the iterations. */
#include "pace.h"

#define TARGET_SECONDS 0.1
#define ENOUGH_SECONDS 0.002
#define LONGEST_LOOP 200000

void perf_pace_begin(struct perf_pace *pace, long warmups, long iterations, bool settle)
{
    *pace = (struct perf_pace){
        .warmups = warmups, .iterations = iterations, .first = true, .warming = true, .settle = settle
    };
    pace->calls = 1;
    if (iterations > 0) {
        pace->calls = warmups > 0 ? warmups : iterations;
        pace->warming = warmups > 0;
    }
}

static void plan_long_loop(struct perf_pace *pace, double call_seconds)
{
    double calls = TARGET_SECONDS / call_seconds;
    if (calls < 5)
        calls = 0.3 / call_seconds < 5 ? 0.3 / call_seconds : 5;
    pace->calls = calls < 1 ? 1 : calls > LONGEST_LOOP ? LONGEST_LOOP : (long)calls;
}

void perf_pace_next(struct perf_pace *pace, double seconds)
{
    if (pace->iterations > 0) {
        pace->calls = pace->iterations;
        pace->warming = false;
        return;
    }
    double call_seconds = seconds / (double)pace->calls;
    if (call_seconds < 1e-9)
        call_seconds = 1e-9;
    bool cold = pace->first && pace->warmups > 0;
    pace->first = false;
    if (cold && seconds < TARGET_SECONDS)
        pace->calls = pace->warmups;
    else if (seconds >= ENOUGH_SECONDS || pace->calls >= LONGEST_LOOP) {
        plan_long_loop(pace, call_seconds);
        pace->warming = pace->settle && seconds < TARGET_SECONDS;
        pace->settle = false;
    } else
        pace->calls *= 8;
}
