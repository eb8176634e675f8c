/* SPDX-License-Identifier: BSD-3-Clause */
/* recompute.h: which activations the forward part does not keep for the backward part. */
#ifndef TRAINING_PASSES_RECOMPUTE_H
#define TRAINING_PASSES_RECOMPUTE_H

#include "training/place/place.h"

/* Whether the backward part computes again what this step gives; lower.c asks, and then writes the step into
 * the backward part. */
bool tr_recomputes(const struct tr_placed *p, const struct tr_step *s);

#endif
