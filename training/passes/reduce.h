/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce.h: gradients of data-parallel ranks become whole. */
#ifndef TRAINING_PASSES_REDUCE_H
#define TRAINING_PASSES_REDUCE_H

#include "training/tape/tape.h"

/* Which gradients are reduced together; after the parameters are held. */
void tr_make_buckets(struct tr_tape *t);
/* The gradient of the last micro-batch, into which the others are added, lies in its bucket. */
void tr_put_in_bucket(struct tr_tape *t, const struct tr_param_state *h, int gradient);
/* At the end of the step: bucket after bucket, in the form that the plan says. */
struct tr_lowering;
void tr_reduce_gradients(struct tr_lowering *l);

#endif
