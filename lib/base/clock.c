/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.c: the monotonic clock, and the processor's counter.
 *
 * Deadlines are absolute moments on the monotonic clock, so that a wait that is cut into many sleeps does not
 * stretch; a timeout too long for 64 bits means never, as a negative one does.
 *
 * The counter is the processor's time stamp where that runs at one speed in all its states, and the monotonic
 * clock elsewhere. Its speed is not measured ahead: who reads notes has two moments by then, far apart. */
#include "base/clock.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

int64_t tt_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t tt_deadline_ns(int64_t timeout_ms)
{
    int64_t now = tt_now_ns();
    if (timeout_ms < 0 || timeout_ms > (INT64_MAX - now) / 1000000)
        return INT64_MAX;
    return now + timeout_ms * 1000000;
}

int64_t tt_left_ms(int64_t deadline_ns)
{
    if (deadline_ns == INT64_MAX)
        return -1;
    int64_t left_ns = deadline_ns - tt_now_ns();
    return left_ns > 0 ? (left_ns + 999999) / 1000000 : 0;
}

#if defined(__x86_64__)
enum { UNKNOWN, STEADY, UNSTEADY };

static int look_at_processor(void)
{
    enum { POWER = 0x80000007, INVARIANT = 1 << 8 };
    unsigned a, b, c, d;
    return __get_cpuid(POWER, &a, &b, &c, &d) && (d & INVARIANT) ? STEADY : UNSTEADY;
}

uint64_t tt_ticks(void)
{
    static _Atomic int known = UNKNOWN;
    int kind = atomic_load_explicit(&known, memory_order_relaxed);
    if (kind == UNKNOWN) {
        kind = look_at_processor();
        atomic_store_explicit(&known, kind, memory_order_relaxed);
    }
    return kind == STEADY ? __builtin_ia32_rdtsc() : (uint64_t)tt_now_ns();
}
#else
uint64_t tt_ticks(void)
{
    return (uint64_t)tt_now_ns();
}
#endif

struct tt_moment tt_moment_now(void)
{
    uint64_t ticks = tt_ticks();
    return (struct tt_moment){ ticks, tt_now_ns() };
}

int64_t tt_ticks_to_ns(struct tt_moment early, struct tt_moment late, uint64_t ticks)
{
    double ns = (double)late.ns - (double)early.ns, speed = 0;
    if (late.ticks > early.ticks && ns > 0)
        speed = ns / (double)(late.ticks - early.ticks);
    double far = speed * (double)(int64_t)(ticks - late.ticks);
    return far > -4e18 && far < 4e18 ? late.ns + (int64_t)far : late.ns;
}
