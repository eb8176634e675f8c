/* SPDX-License-Identifier: BSD-3-Clause */
/* algorithms.h: the generators. Each writes one rank's schedule and is a pure function of team, root and
 * builder. */
#ifndef TT_ALGORITHMS_ALGORITHMS_H
#define TT_ALGORITHMS_ALGORITHMS_H
#include <stdbool.h>
#include <stdint.h>

#include "base/schedule.h"

/* How the operands of a reduction are associated, at every rank and for every chunk. */
enum tt_association {
    TT_ASSOCIATION_NONE, /* nothing is reduced */
    TT_ASSOCIATION_ORDERED, /* some tree over the operands in rank order */
    TT_ASSOCIATION_ORDERED_BY_CHUNK, /* the same, but another tree for another chunk */
    TT_ASSOCIATION_ROTATED, /* the first operand depends on the chunk or the root */
    TT_ASSOCIATION_BY_DOMAIN, /* some tree over those of each cache domain, then over the domains */
    TT_ASSOCIATION_UNORDERED, /* some tree for each chunk, equal on all ranks */
};

/* The numbers of ranks for which the algorithm yields the canonical pass-up tree, and so may serve a
 * communicator that asks for `exact`. */
enum tt_canonical {
    TT_CANONICAL_NEVER,
    TT_CANONICAL_POWER_OF_TWO,
    TT_CANONICAL_IF_NESTED, /* its cache domains nest (topology.h) */
    TT_CANONICAL_IF_POWERS_NEST, /* both: they nest, and there are 2^k of them */
    TT_CANONICAL_ALWAYS
};

/* Which cache domains it needs. */
enum tt_domains {
    TT_ANY_DOMAINS,
    TT_SEVERAL, /* that divide the ranks */
    TT_EVEN, /* and are of one size */
    TT_EVEN_NEIGHBOURS /* and of neighbouring ranks, so that their blocks are one range */
};

struct tt_algorithm {
    const char *name;
    uint8_t collective; /* enum tt_collective */
    uint8_t association; /* enum tt_association when `exact` is not asked */
    uint8_t canonical; /* enum tt_canonical: for which n it may serve `exact`; if nothing is reduced: all */
    uint8_t domains; /* enum tt_domains */
    tt_generator generate;
    const char *source; /* paper or standard */
};

extern const struct tt_algorithm tt_algorithms[];
extern const int tt_algorithm_count;

enum { TT_ELEMENT_BYTES = 16 };

/* The demands of a call on the algorithm that serves it. */
struct tt_requirements {
    int n;
    bool exact; /* the canonical tree */
    bool ordered; /* operands in rank order: the operation does not commute */
    bool long_elements; /* beyond TT_ELEMENT_BYTES: of a user's operator */
    const struct tt_topology *topology; /* of the communicator; NULL: one domain */
};

/* Index in the registry of `name` for a collective, or -1. */
int tt_algorithm_find(enum tt_collective collective, const char *name);
/* NULL if the algorithm may be used; else why not, for messages. */
const char *tt_algorithm_refuse(const struct tt_algorithm *a, struct tt_requirements requirements);

/* Build one rank's schedule. key->algorithm is the registry index. */
tutti_status tt_schedule_build(struct tt_schedule *schedule, const struct tt_key *key);
/* The same, as tt_schedule_begin_lent. */
tutti_status tt_schedule_build_lent(struct tt_schedule *schedule, const struct tt_key *key, uint32_t *counts);

#endif
