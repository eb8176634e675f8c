/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.h: find or build the schedule for a call, keep the last 64.
 *
 * The key holds only values that all ranks share, but for in_place; the schedule knows no size and no
 * type, so one plan serves all calls of a collective with this root and algorithm. Lookup is O(1): 16 sets
 * of 4, least recently used out. */
#ifndef TT_PLAN_H
#define TT_PLAN_H
#include <stdbool.h>
#include <stdint.h>

#include "algorithms/algorithms.h"
#include "base/schedule.h"
#include "exec/exec.h"

enum { TT_PLAN_SETS = 16, TT_PLAN_WAYS = 4 };

struct tt_plan {
    bool used;
    uint64_t last_use;
    struct tt_key key;
    struct tt_schedule schedule;
    struct tt_op op;
};

struct tt_plan_cache {
    struct tt_plan *plans; /* TT_PLAN_SETS * TT_PLAN_WAYS */
    uint64_t clock;
};

tutti_status tt_plan_cache_create(struct tt_plan_cache *cache);
void tt_plan_cache_destroy(struct tt_plan_cache *cache);

/* A plan by itself. It must stay where it is. */
tutti_status tt_plan_create(const struct tt_key *key, struct tt_plan *plan);
void tt_plan_destroy(struct tt_plan *plan);

/* The plan of this key, built if need be. It lives until later plans push it out: of one communicator, one
 * collective runs at a time, so none is pushed out while it runs. */
tutti_status tt_plan_find(struct tt_plan_cache *cache, const struct tt_key *key, struct tt_plan **plan);

#endif
