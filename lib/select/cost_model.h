/* SPDX-License-Identifier: BSD-3-Clause */
/* cost_model.h: predicts how long an algorithm takes, and chooses the one that takes least.
 *
 * The predicted time of a schedule is the time after which the last rank ends when all begin at once, if
 * everything takes what the costs say (base/costs.h). It is a pure function of values that all ranks share,
 * so that all come to the same choice without a word.
 *
 * The cost model simulates all ranks' schedules in virtual time, by the rules of the executor: a fold is one
 * unit, slices go in a window, messages of a pair keep the order of slots (base/ready.h). So a prediction
 * equals what the real executor takes over the simulator, to the femtosecond. Of many slices the first few
 * are simulated, and the others are taken to need as long each. Among many ranks, one of each class is
 * simulated (classes.h). Where all do as much, as in a ring, and where even the schedules would be too long,
 * the busiest is the representative of all: it alone is simulated, among peers that do at each moment what it
 * does, or one after the other where they share cores. */
#ifndef TT_COST_MODEL_H
#define TT_COST_MODEL_H
#include "algorithms/algorithms.h"
#include "base/costs.h"
#include "base/layout.h"

enum {
    TT_COST_SIMULATED = 2048, /* steps of all ranks, of one slice: of more, not all ranks are simulated */
    TT_COST_SORTED = 1 << 22, /* chunks in those: of more, ranks are not sorted into classes either */
    TT_COST_STEPS = 8192, /* of all slices, or fewer of these are simulated, two at least */
    TT_COST_SLICES = 32, /* that are simulated */
};

enum tt_cost_part {
    TT_COST_MESSAGES,
    TT_COST_BYTES,
    TT_COST_FOLDS,
    TT_COST_COPIES,
    TT_COST_SWITCHES,
    TT_COST_PARTS
};

/* Work of a simulated rank, in femtoseconds from the beginning. */
struct tt_work {
    int32_t rank;
    uint32_t step, slice;
    enum tt_cost_part part;
    uint64_t from, to;
    int64_t cause; /* the work that had to be done before: index in the log; -1: none */
};
struct tt_simulation_log { /* begins as zeros; `work` is to be freed */
    struct tt_work *work;
    size_t count, capacity;
};

/* Which ranks are simulated. */
enum tt_cost_subjects {
    TT_COST_AS_FITS, /* what the bounds above allow */
    TT_COST_ALL,
    TT_COST_CLASSES, /* the first of each class */
    TT_COST_ONE, /* the busiest of some */
};

/* A call without its buffers, and what it runs on. */
struct tt_cost_query {
    enum tt_collective collective;
    struct tt_requirements requirements;
    uint64_t bytes; /* of the whole vector */
    /* of a v-form: how long the block of each rank is; of an all_to_all_v, each that it sends. Then all ranks
     * must be simulated. NULL: all are equally long, as a choice takes them to be. */
    const struct tt_layout *blocks;
    uint32_t element_bytes;
    uint64_t slot_bytes; /* the longest message */
    const struct tt_costs *costs;
    enum tt_cost_subjects subjects;
    struct tt_simulation_log *log; /* where all work is written; NULL: nowhere */
    uint64_t sorted; /* in place of TT_COST_SORTED; 0: that */
    uint64_t limit; /* femtoseconds: what takes longer need not be predicted; 0: there is none */
};

struct tt_prediction {
    /* Femtoseconds. UINT64_MAX: slots are too short for its messages, and there are no slices; or it takes
     * longer than the limit, or than five hours, which is all that the number holds. */
    uint64_t total;
    uint64_t parts[TT_COST_PARTS]; /* work of the rank that ends last; the rest of the total it waits */
    int32_t rank; /* that ends last, of the simulated ones */
    uint32_t slices, simulated;
    bool representative; /* ranks were simulated for others */
};

/* Predicts the time of a call by this algorithm. Fails with OUT_OF_MEMORY, or with what the generator fails
 * with. */
tutti_status tt_cost_predict(
    const struct tt_cost_query *query, int algorithm, struct tt_prediction *prediction);
/* Chooses the eligible algorithm of the lowest predicted time; of those that differ by less than costs can be
 * known, one part in 256, the first in the registry. */
tutti_status tt_cost_choose(const struct tt_cost_query *query, int *algorithm);

#endif
