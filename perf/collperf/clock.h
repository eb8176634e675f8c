/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h: the only place in perf/ that reads a clock.
 *
 * One source for collperf, the flag's round trip and the MPI program beside it: their figures are divided by
 * each other. */
#ifndef PERF_CLOCK_H
#define PERF_CLOCK_H

#include <stddef.h>

double perf_clock_seconds(void); /* monotonic; only differences mean something */
void perf_clock_date(char *text, size_t bytes); /* now, in UTC: 2026-11-24T21:30:00Z */

#endif
