/* SPDX-License-Identifier: BSD-3-Clause */
/* dirty.h: time calls as programs make them: each rank rewrites its input before each.
 *
 * Only the call counts: it takes from the moment when the last rank makes it until the last rank is done. So
 * each rank notes when it began and when it ended, by the one clock of the machine, and the moments are put
 * together afterwards. It is used by collperf and by the MPI program it is compared with, and sees neither
 * library. */
#ifndef PERF_DIRTY_H
#define PERF_DIRTY_H
#include <stdint.h>

enum { PERF_DIRTY_CALLS = 512, PERF_DIRTY_PAGE = 4096, PERF_DIRTY_SHIFT = 64 };

/* When the calls of a round began and ended; in an array of doubles, so that MPI can combine it, too. */
struct perf_moments {
    double began[PERF_DIRTY_CALLS], ended[PERF_DIRTY_CALLS];
};

/* Write all of `input`, with the contents of a page that stays in the cache; returns how many bytes. Every
 * second call begins a little further on in the page, so that other values are written than were there. */
uint64_t perf_dirty_rewrite(
    void *input, uint64_t bytes, const uint8_t page[PERF_DIRTY_PAGE + PERF_DIRTY_SHIFT], int call);

/* The later of both, call by call: over all ranks, *m says when the last one began and ended. */
void perf_moments_latest(struct perf_moments *m, const struct perf_moments *other, int calls);

/* Seconds that call i of combined moments took, without what reading the clock costs. */
double perf_moments_seconds(const struct perf_moments *m, int i);

#endif
