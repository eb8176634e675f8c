/* SPDX-License-Identifier: BSD-3-Clause */
/* flag.c: ping-pong on two cache lines until 2 ms of it were undisturbed.
 *
 * Both sides only spin: a rank that waits for a flag of a microsecond must not sleep. Batches of 64 round
 * trips are timed and the median is kept. A batch that took turns on one core, or was preempted, says nothing
 * about the way between two cores: it is set aside, and only if 50 ms brought nothing else (one core
 * granted) is it the answer. */
#include "flag.h"

#include <stdlib.h>

#include "clock.h"

#define ENOUGH_SECONDS 0.002
#define LONGEST_SECONDS 0.05
#define NEAR_BELOW 0.18e-6
#define ONE_CORE_ABOVE 5e-6

#define LOST_SECONDS 30.0

enum { BATCH = 64, BATCHES_MAX = 8192, STOP = UINT32_MAX, LOOKS = 1 << 20 /* between two at the clock */ };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Waits until the word has another value than `old`, and returns that; `old` itself if the other side is
 * gone. */
static uint32_t await(_Atomic uint32_t *word, uint32_t old)
{
    double began = 0;
    for (uint32_t looks = 1;; looks++) {
        uint32_t value = atomic_load_explicit(word, memory_order_acquire);
        if (value != old)
            return value;
        if (looks % LOOKS != 0)
            continue;
        double now = perf_clock_seconds();
        if (began > 0 && now - began > LOST_SECONDS)
            return old;
        began = began > 0 ? began : now;
    }
}

static bool play(struct perf_flag *flag, uint32_t *turn, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t before = (*turn)++;
        atomic_store_explicit(&flag->ping, *turn, memory_order_release);
        if (await(&flag->pong, before) == before)
            return false;
    }
    return true;
}

double perf_flag_lead(struct perf_flag *flag)
{
    static double batches[BATCHES_MAX];
    double began = perf_clock_seconds(), before = began, good = 0, slow = 0;
    int count = 0, batch = 1;
    uint32_t turn = 0;
    while (count < BATCHES_MAX && good < ENOUGH_SECONDS && before - began < LONGEST_SECONDS) {
        if (!play(flag, &turn, batch))
            return -1;
        double now = perf_clock_seconds(), round_trip = (now - before) / batch;
        if (round_trip > ONE_CORE_ABOVE) {
            slow = round_trip;
        } else if (batch > 1) {
            batches[count++] = round_trip;
            good += now - before;
        }
        batch = round_trip > ONE_CORE_ABOVE ? 1 : BATCH; /* in slow times look at the clock after each */
        before = now;
    }
    atomic_store_explicit(&flag->ping, STOP, memory_order_release);
    qsort(batches, (size_t)count, sizeof batches[0], compare);
    return count > 0 ? batches[count / 2] : slow;
}

void perf_flag_follow(struct perf_flag *flag)
{
    uint32_t seen = 0;
    while (seen != STOP) {
        uint32_t turn = await(&flag->ping, seen);
        if (turn == seen)
            return;
        seen = turn;
        atomic_store_explicit(&flag->pong, seen, memory_order_release);
    }
}

bool perf_flag_undisturbed(double round_trip)
{
    return round_trip >= 0 && round_trip <= ONE_CORE_ABOVE;
}

const char *perf_flag_class(double round_trip)
{
    if (round_trip > ONE_CORE_ABOVE)
        return "ONE CORE";
    return round_trip < NEAR_BELOW ? "NEAR" : "FAR";
}

const char *perf_flag_hint(double round_trip)
{
    return round_trip > ONE_CORE_ABOVE ? " (ranks take turns: one core, or a busy machine; times say little)"
                                       : "";
}
