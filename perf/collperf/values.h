/* SPDX-License-Identifier: BSD-3-Clause */
/* values.h: what every rank puts into a collective and what must come out, from a seed alone.
 *
 * A contribution is a pure function of (seed, rank, index), so any rank can compute what any other one gave,
 * and the check needs neither the library nor a second copy of the data. It repeats after PERF_PERIOD
 * elements, a prime: filling and checking run at the speed of memory, so every element is checked, and no
 * chunk, slice or page boundary is a multiple of it, so data at the wrong place shows. Elements travel as
 * their bits in a uint64_t. */
#ifndef PERF_VALUES_H
#define PERF_VALUES_H
#include <stdbool.h>
#include <stdint.h>

#include "tutti.h"

enum perf_kind { PERF_SIGNED, PERF_UNSIGNED, PERF_FLOAT };

struct perf_type {
    const char *name; /* as nccl-tests prints it */
    const char *alias;
    tutti_type type;
    uint8_t kind; /* enum perf_kind */
    uint8_t bytes;
    uint8_t digits; /* of a float: bits of the significand with the hidden one */
};

/* The ways in which a program comes to an operation. */
enum perf_made { PERF_BUILT_IN, PERF_PRE_MUL, PERF_USER };

struct perf_op {
    const char *name;
    tutti_op op; /* of a made one: what it comes to */
    uint8_t made; /* enum perf_made */
};

enum { PERF_TYPES = 12, PERF_OPS = 10, PERF_RANKS_MAX = 1024, PERF_PERIOD = 65521 };
extern const struct perf_type perf_types[PERF_TYPES];
extern const struct perf_op perf_ops[PERF_OPS];

/* Find by a name, or one of elsewhere (suggest.h); NULL if there is none. */
const struct perf_type *perf_type_find(const char *name);
const struct perf_op *perf_op_find(const char *name);
bool perf_op_fits(const struct perf_op *op, const struct perf_type *type); /* bits are of integers only */

struct perf_values {
    const struct perf_type *type;
    const struct perf_op *op; /* NULL: data only moves, any bit pattern is good */
    uint64_t seed;
    int n; /* at most PERF_RANKS_MAX */
    bool exact; /* the canonical association was asked for: every bit is known for any value */
};

uint64_t perf_value_load(const struct perf_type *type, const void *from);
void perf_value_store(const struct perf_type *type, void *to, uint64_t bits);

/* left + right, rounded or wrapped as the type does. */
uint64_t perf_value_sum(const struct perf_type *type, uint64_t left, uint64_t right);
/* Returns by what `rank` multiplies under a pre-mul-sum: nccl-tests' factors, 1 at even ranks and 2 at odd
 * ones. */
uint64_t perf_value_factor(const struct perf_type *type, int rank);

/* Returns what `rank` gives at `index`. */
uint64_t perf_value_given(const struct perf_values *v, int rank, uint64_t index);
/* The reduction of what all ranks give at `index`; *tolerance is 0 where every bit is determined. */
uint64_t perf_value_reduced(const struct perf_values *v, uint64_t index, double *tolerance);
bool perf_value_matches(const struct perf_values *v, uint64_t got, uint64_t want, double tolerance);

#endif
