/* SPDX-License-Identifier: BSD-3-Clause */
/* zero.h: what ZeRO puts into a tape, and its policies, which are passes over the tape. */
#ifndef TRAINING_PASSES_ZERO_H
#define TRAINING_PASSES_ZERO_H

#include "training/tape/tape.h"

/* ZeRO-3: the whole of a parameter, gathered for a part of the schedule; returns the value. */
int tr_zero_gather(
    struct tr_tape *t, const struct tr_param_state *h, int shard, const struct tr_slot *slot, int unit);
/* Where each micro-batch's gradient is reduced: to this rank's part of it, or without ZeRO to all of it;
 * returns the value. */
int tr_zero_reduce(
    struct tr_tape *t, const struct tr_param_state *h, int gradient, const struct tr_slot *slot, int unit);
/* After an update: each rank has renewed its part of a parameter that all have whole, so all share theirs. */
void tr_zero_share(struct tr_tape *t, const struct tr_param_state *h, int values);

/* Keep, and prefetch, as the plan says; before places are given. */
void tr_zero_policies(struct tr_tape *t);

#endif
