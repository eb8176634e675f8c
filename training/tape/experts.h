/* SPDX-License-Identifier: BSD-3-Clause */
/* experts.h: operations of router and experts. */
#ifndef TRAINING_TAPE_EXPERTS_H
#define TRAINING_TAPE_EXPERTS_H

#include "training/tape/call.h"

/* False: the operation is none of these. */
bool tr_experts(const struct tr_call *c);
bool tr_router(const struct tr_call *c);

/* Scratch in floats: 0 of other operations. `sequences` are those of a rank's micro-batch, `leaves` those of
 * all ranks whose tokens an expert gets. */
int64_t tr_experts_scratch(const struct tr_graph *g, int op, int64_t sequences, int64_t leaves);
/* The part of it that the leaf of a gradient needs, of a sequence of so many tokens. */
int64_t tr_experts_leaf(const struct tr_graph *g, int64_t tokens);

#endif
