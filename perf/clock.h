/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h: the only place in perf/ that reads a clock.
 *
 * One source for collperf, the flag's round trip and the MPI program beside it: their figures are divided by
 * each other. */
#ifndef PERF_CLOCK_H
#define PERF_CLOCK_H

double perf_clock_seconds(void); /* monotonic; only differences mean something */

#endif
