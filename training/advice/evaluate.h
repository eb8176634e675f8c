/* SPDX-License-Identifier: BSD-3-Clause */
/* evaluate.h: a configuration as its tapes have it: whether it is legal, what memory it needs, what it sends,
 * and what a step takes.
 *
 * Of up to TR_WALKED ranks all tapes are made and checked, as train does, so what fits here fits there. Of
 * more, a few tapes stand for all: of the first, the second and the last stage, each of the ranks that are
 * first on the other axes, whose pieces are the longest. */
#ifndef TRAINING_ADVICE_EVALUATE_H
#define TRAINING_ADVICE_EVALUATE_H

#include "training/account/ledger.h"
#include "training/advice/price.h"
#include "training/commands/prepare.h"

enum { TR_GROUPS_SAID = 8 };
struct tr_group_bytes {
    char group[32];
    int64_t sent; /* by the rank that sends most in all, in a step */
};

struct tr_estimate {
    bool legal;
    char why[256]; /* it is not */
    int64_t arena, host; /* bytes: the most that a rank needs */
    int64_t peak[TR_MEMORIES]; /* of the rank that needs most */
    struct tr_group_bytes groups[TR_GROUPS_SAID];
    int n_groups;
    struct tr_price price;
    double tokens; /* a second */
    int64_t instructions; /* of the tapes that were made */
};
void tr_evaluate(struct tr_estimate *x, const struct tr_options *o, const struct tr_machine *m);

#endif
