/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h: the only place that reads a clock. */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H
#include <stdint.h>

int64_t tt_now_ns(void); /* monotonic */
/* The moment `timeout_ms` from now; INT64_MAX for a negative timeout (never). */
int64_t tt_deadline_ns(int64_t timeout_ms);
/* The time until that moment, rounded up; 0: it has passed; -1: never. */
int64_t tt_left_ms(int64_t deadline_ns);

/* A counter that runs evenly and costs a few nanoseconds, for what is noted on every call. All processes of a
 * machine read the same one. Two moments at which both clocks were read turn it into nanoseconds. */
uint64_t tt_ticks(void);
struct tt_moment {
    uint64_t ticks;
    int64_t ns;
};
struct tt_moment tt_moment_now(void);
/* The monotonic time at which the counter stood at `ticks`; `early` and `late` span the line through it. */
int64_t tt_ticks_to_ns(struct tt_moment early, struct tt_moment late, uint64_t ticks);

#endif
