/* SPDX-License-Identifier: BSD-3-Clause */
/* flaw.h: the damage that --self-test does to a finished call, to see whether the check counts it.
 *
 * A check that is never seen to fail proves nothing. So each kind of byte that it watches is damaged once: an
 * element, every element, the input, the bytes around both buffers, the buffer of a rank without a result. */
#ifndef PERF_FLAW_H
#define PERF_FLAW_H
#include "check.h"

enum { PERF_FLAWS = 14 };

struct perf_flaw {
    const char *name;
    bool in_place;
    uint8_t where; /* within flaw.c */
};
extern const struct perf_flaw perf_flaws[PERF_FLAWS];

/* How many wrong values the check must count if this rank does the damage; 0: it has nothing to damage. */
uint64_t perf_flaw_count(const struct perf_flaw *flaw, const struct perf_point *p);

/* Do it, after the call and before the check. */
void perf_flaw_make(const struct perf_flaw *flaw, const struct perf_buffers *b, const struct perf_point *p,
    const struct perf_pointers *at);

#endif
