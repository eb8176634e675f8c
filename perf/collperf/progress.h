/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.h: one line on a terminal for who waits longer than two seconds.
 *
 * Rank 0 writes what it is at into shared memory and the parent of the ranks shows it, so that the line goes
 * on while rank 0 is inside a call. A process without a parent of that kind shows it itself, between points.
 */
#ifndef PERF_PROGRESS_H
#define PERF_PROGRESS_H
#include <stdatomic.h>
#include <stdint.h>

enum { PERF_DOING_BYTES = 120 };

struct perf_progress {
    _Atomic int64_t quiet_since; /* seconds: when something was last seen to happen */
    int64_t began;
    char doing[PERF_DOING_BYTES]; /* empty: nothing yet */
};

void perf_progress_begin(struct perf_progress *p);
/* Show the line, if stderr is a terminal and two seconds were quiet. */
void perf_progress_show(const struct perf_progress *p);
/* The user is about to see something else: take the line away, and be quiet for two seconds. */
void perf_progress_hide(struct perf_progress *p);

#endif
