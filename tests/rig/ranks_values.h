/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks_values.h: the numbers that tests send, and what must come of them.
 *
 * Every element follows from a seed, the rank and its index, so each rank computes the expected result
 * alone, without the library. Integers take all bits and the extremes of their type. Floats are chosen so
 * that any order of the operation is exact: small integers for sums, multiples of n for averages, powers
 * of two for products. */
#ifndef TT_TESTS_RANKS_VALUES_H
#define TT_TESTS_RANKS_VALUES_H
#include "ranks.h"

enum { RANKS_MOVE = 1000 }; /* in place of an op: any bytes, nothing is computed */

const char *ranks_type_name(tutti_type type);
const char *ranks_op_name(tutti_op op);

/* Elements [first, first + count) of rank `rank` of n. */
struct ranks_vector {
    tutti_type type;
    tutti_op op;
    uint64_t seed;
    int n;
};
void ranks_fill(const struct ranks_vector *v, int rank, uint64_t first, size_t count, void *dst);
/* The reduction over all n ranks. */
void ranks_reduced(const struct ranks_vector *v, uint64_t first, size_t count, void *dst);
/* Are `count` elements as expected? If not, the failure names the first that is wrong. */
bool ranks_same(struct ranks_me *me, tutti_type type, const void *found, const void *expected, size_t count,
    const char *name);

/* Any number to the type, to nearest even, and back. float64 is itself. */
void ranks_encode(tutti_type type, double value, void *dst);
double ranks_decode(tutti_type type, const void *src);

#endif
