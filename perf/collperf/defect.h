/* SPDX-License-Identifier: BSD-3-Clause */
/* defect.h: the damage that --self-test does to a finished call, to see whether the check counts it.
 *
 * A check that is never seen to fail proves nothing. So each kind of byte that it watches is damaged once: an
 * element, every element, the input, the bytes around both buffers, the buffer of a rank without a result. */
#ifndef PERF_DEFECT_H
#define PERF_DEFECT_H
#include "check.h"

enum { PERF_DEFECTS = 14 };

struct perf_defect {
    const char *name;
    bool in_place;
    uint8_t where; /* within defect.c */
};
extern const struct perf_defect perf_defects[PERF_DEFECTS];

/* Returns how many wrong values the check must count if this rank does the damage; 0: it has nothing to
 * damage. */
uint64_t perf_defect_count(const struct perf_defect *defect, const struct perf_point *p);

/* Damages what the defect names, after the call and before the check. */
void perf_defect_make(const struct perf_defect *defect, const struct perf_buffers *b,
    const struct perf_point *p, const struct perf_pointers *at);

#endif
