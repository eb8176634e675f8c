/* SPDX-License-Identifier: BSD-3-Clause */
/* zero.h: what ZeRO puts into a tape, and its policies, which are passes over the tape. */
#ifndef TRAINING_PASSES_ZERO_H
#define TRAINING_PASSES_ZERO_H

#include "training/tape/tape.h"

/* Where each micro-batch's gradient is reduced: to this rank's part of it, or without ZeRO to all of it;
 * returns the value. */
int tr_zero_reduce(
    struct tr_tape *t, const struct tr_param_state *h, int gradient, const struct tr_slot *slot, int unit);

#endif
