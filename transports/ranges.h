/* SPDX-License-Identifier: BSD-3-Clause */
/* ranges.h: which parts of a long stretch are taken: a sorted array of intervals, first fit. For the cold
 * path: the numbers stay small, and a search through all of them costs less than the system call that
 * follows. */
#ifndef TT_TRANSPORTS_RANGES_H
#define TT_TRANSPORTS_RANGES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tt_range {
    uint64_t at, bytes;
};

struct tt_ranges { /* zero but for `end`: nothing is taken */
    struct tt_range *taken;
    size_t count, room;
    uint64_t end;
};

enum tt_ranges_result { TT_RANGES_TAKEN, TT_RANGES_FULL, TT_RANGES_NO_MEMORY };

/* Take the first free stretch of `bytes` that starts at a multiple of `align`, a power of two. */
enum tt_ranges_result tt_ranges_take(struct tt_ranges *r, uint64_t bytes, uint64_t align, uint64_t *at);
/* Give back what was taken at `at`; false if nothing was. */
bool tt_ranges_give(struct tt_ranges *r, uint64_t at, uint64_t *bytes);

#endif
