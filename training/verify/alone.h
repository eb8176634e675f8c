/* SPDX-License-Identifier: BSD-3-Clause */
/* alone.h: one rank's run, which stands for the golden program where that computes something else: all meshes
 * of a bfloat16 run must have its bits. */
#ifndef TRAINING_VERIFY_ALONE_H
#define TRAINING_VERIFY_ALONE_H

#include "training/verify/golden.h"

/* What one rank computes by: model, data, numbers. All that is said of ranks is left out. */
void tr_alone_options(struct tr_options *to, const struct tr_options *from);
/* Whether they are compared with one rank instead of the golden program. Attention that is local to the ranks
 * of cp is computed by no rank alone. */
bool tr_compares_alone(const struct tr_options *o);
/* Runs it; the result looks like the golden program's. */
bool tr_alone_make(
    struct tr_golden *g, const struct tr_options *o, const struct tr_graph *graph, struct tr_error *e);

#endif
