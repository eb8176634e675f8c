/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate.h: all ranks' schedules in virtual time, for the cost model. */
#ifndef TT_SIMULATE_H
#define TT_SIMULATE_H
#include "select/classes.h"
#include "select/cost_model.h"
#include "base/layout.h"

/* The schedules of `ranks` ranks: of all; or of the first of each class (classes.h); or of one rank alone,
 * as the representative of all. The layout has all slices; the first `slices` of them are simulated. */
struct tt_simulation_params {
    const struct tt_cost_query *query;
    const struct tt_schedule *schedules;
    int ranks;
    const struct tt_classes *classes; /* NULL: of all, or of one */
    uint64_t sharers; /* of one rank alone: how many of its host send as it does */
    const struct tt_layout *layout;
    uint32_t slices;
    uint64_t limit; /* what takes longer is not simulated to the end */
    bool logs; /* if the query has a log */
};

struct tt_simulation_result {
    uint64_t total;
    uint64_t parts[TT_COST_PARTS]; /* of the rank that ends last ... */
    int32_t rank; /* ... which is this one */
};

tutti_status tt_cost_simulate(const struct tt_simulation_params *params, struct tt_simulation_result *result);

#endif
