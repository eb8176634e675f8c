/* SPDX-License-Identifier: BSD-3-Clause */
/* price_walk.h: between the files of the price. */
#ifndef TT_PRICE_WALK_H
#define TT_PRICE_WALK_H
#include "select/price.h"
#include "base/layout.h"

/* The schedules of `ranks` ranks, of which rank 0 alone stands for all where that is one of several. The
 * layout has all slices; the first `slices` of them are walked. */
struct tt_walk_of {
    const struct tt_question *question;
    const struct tt_schedule *schedules;
    int ranks;
    const struct tt_layout *layout;
    uint32_t slices;
    uint64_t limit; /* who takes longer is not walked to the end */
};

struct tt_walk_result {
    uint64_t total;
    uint64_t parts[TT_PRICE_PARTS]; /* of the rank that ends last */
};

tutti_status tt_price_walk(const struct tt_walk_of *of, struct tt_walk_result *result);

#endif
