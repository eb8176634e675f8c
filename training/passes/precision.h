/* SPDX-License-Identifier: BSD-3-Clause */
/* precision.h: what mixed precision puts into a tape. */
#ifndef TRAINING_PASSES_PRECISION_H
#define TRAINING_PASSES_PRECISION_H

#include "training/tape/tape.h"

/* A gradient that is whole, over all sequences of the batch, is rounded if the plan says so; returns the
 * value that is read from then on. */
int tr_round_gradient(struct tr_tape *t, int gradient, int parameter, const struct tr_slot *slot, int unit);

#endif
