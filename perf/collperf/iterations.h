/* SPDX-License-Identifier: BSD-3-Clause */
/* iterations.h: how often a collective is called before and while it is timed.
 *
 * Both collperf and the MPI program it is compared with ask here, so that they run the same loop. The caller
 * runs `calls` calls back to back, gives the time of the slowest rank, and goes on while `warming`; then
 * `calls` is the length of the timed loop. Every decision depends only on times that all ranks share, so all
 * ranks agree. */
#ifndef PERF_ITERATIONS_H
#define PERF_ITERATIONS_H
#include <stdbool.h>

struct perf_iterations {
    long calls; /* of the next loop */
    bool warming; /* the next loop is not the timed one */
    long warmups;
    long fixed; /* how many calls the user wants timed; 0: adapt */
    bool first;
    bool settle;
};

/* `settle` is for a program's first point: the ranks may have begun on one core, and the system takes some
 * 50 ms to part them. If the iterations are not fixed, a loop of full length is then run and not timed. */
void perf_iterations_begin(struct perf_iterations *it, long warmups, long iterations, bool settle);
/* Sets the next loop, where the last one took `seconds` on the slowest rank. */
void perf_iterations_next(struct perf_iterations *it, double seconds);

#endif
