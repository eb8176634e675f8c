/* SPDX-License-Identifier: BSD-3-Clause */
/* prepared.h: prepared calls: a schedule and an operation that runs it; the last 64 are kept.
 *
 * The key holds only values that all ranks share, but for in_place; the schedule knows no size and no
 * type, so one prepared call serves all of a collective with this root and algorithm. Lookup is O(1): 16 sets
 * of 4, least recently used out. Messages with one peer run at once, so they take what is idle from a list,
 * and give it back. Programs and captured calls own theirs. */
#ifndef TT_PREPARED_H
#define TT_PREPARED_H
#include <stdbool.h>
#include <stdint.h>

#include "algorithms/algorithms.h"
#include "base/schedule.h"
#include "exec/exec.h"

enum { TT_PREPARED_SETS = 16, TT_PREPARED_WAYS = 4 };

struct tt_tables { /* what v-forms derive from their arrays; n entries each */
    uint64_t *starts[2]; /* packed starts of the blocks, in send and in recv */
    size_t *own_counts; /* elements of those blocks, where a user's operator counts its own, or where this
                         * rank knows only its own */
};

struct tt_prepared {
    struct tt_op op; /* first; of the schedule */
    struct tt_schedule schedule;
    uint64_t bound_to; /* the id of the call that the operation is bound to; 0: to one without */
    struct tt_tables tables; /* of its layouts */
    uintptr_t origin[2]; /* where its IN and OUT begin, from the pointers of the call */
    struct tt_call_record record; /* of the call */
    struct tt_prepared **home; /* of messages: the idle ones of their peer and direction; else NULL */
    struct tt_prepared *next; /* there */
    bool used;
    uint64_t last_use;
};

struct tt_prepared_cache {
    struct tt_prepared *calls; /* TT_PREPARED_SETS * TT_PREPARED_WAYS */
    uint64_t clock;
};

tutti_status tt_prepared_cache_create(struct tt_prepared_cache *cache);
void tt_prepared_cache_destroy(struct tt_prepared_cache *cache);

/* A prepared call by itself. */
tutti_status tt_prepared_create(const struct tt_key *key, struct tt_prepared **prepared);
void tt_prepared_destroy(struct tt_prepared *prepared); /* NULL: nothing */

/* The prepared call of this key, made if need be. It lives until later ones push it out: of one communicator,
 * one collective runs at a time, so none is pushed out while it runs. */
tutti_status tt_prepared_find(
    struct tt_prepared_cache *cache, const struct tt_key *key, struct tt_prepared **prepared);

#endif
