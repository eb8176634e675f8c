/* SPDX-License-Identifier: BSD-3-Clause */
/* rewrite.h: time calls as programs make them: each rank rewrites its input before each.
 *
 * Only the call counts: it takes from the moment when the last rank makes it until the last rank is done. So
 * each rank notes when it began and when it ended, by the one clock of the machine, and these times are
 * put together afterwards. It is used by collperf and by the MPI program it is compared with, and sees
 * neither library. */
#ifndef PERF_REWRITE_H
#define PERF_REWRITE_H
#include <stdint.h>

enum { PERF_REWRITE_CALLS = 512, PERF_REWRITE_PAGE = 4096, PERF_REWRITE_SHIFT = 64 };

/* The times when the calls of a round began and ended; in an array of doubles, so that MPI can combine it,
 * too. */
struct perf_times {
    double began[PERF_REWRITE_CALLS], ended[PERF_REWRITE_CALLS];
};

/* Writes all of `input`, with the contents of a page that stays in the cache; returns how many bytes. Every
 * second call begins a little further on in the page, so that other values are written than were there. */
uint64_t perf_rewrite_input(
    void *input, uint64_t bytes, const uint8_t page[PERF_REWRITE_PAGE + PERF_REWRITE_SHIFT], int call);

/* Puts the later of both into *m, call by call: over all ranks, it says when the last one began and ended. */
void perf_times_latest(struct perf_times *m, const struct perf_times *other, int calls);

/* Returns the seconds that call i took by the combined times, without what reading the clock costs. */
double perf_times_seconds(const struct perf_times *m, int i);

#endif
