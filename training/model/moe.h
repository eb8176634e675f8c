/* SPDX-License-Identifier: BSD-3-Clause */
/* moe.h: experts in the place of a feed-forward part. */
#ifndef TRAINING_MODEL_MOE_H
#define TRAINING_MODEL_MOE_H

#include "training/model/build.h"

enum { TR_MOE_ROUTER, TR_MOE_UP, TR_MOE_UP_BIAS, TR_MOE_DOWN, TR_MOE_DOWN_BIAS, TR_MOE_PARAMETERS };

/* Hidden channels of an expert. */
int64_t tr_moe_hidden(const struct tr_graph *g);
bool tr_moe_legal(const struct tr_model_options *o, struct tr_error *e);
/* deviation: of the initial values of the matrices that lead back. */
void tr_moe_parameters(struct tr_builder *b, int w[TR_MOE_PARAMETERS], double deviation);
/* x -> what its tokens' experts make of it */
int tr_moe_forward(struct tr_builder *b, int x, const int w[TR_MOE_PARAMETERS]);

#endif
