/* SPDX-License-Identifier: BSD-3-Clause */
/* attention.h: what all forms of attention have in common. */
#ifndef TRAINING_OPS_ATTENTION_H
#define TRAINING_OPS_ATTENTION_H

#include "training/ops/site.h"

/* Tokens that see each other: of a window, or of the sequence. */
int64_t tr_window(const struct tr_graph *g);
/* A score is a product of `size` pairs of numbers, and there are two products of the kind forward (scores,
 * and values weighted by them), and five backward, or four where scores are kept; `seen` pairs of a query and
 * a key in each sequence. */
double tr_attention_work(const struct tr_call *c, int products, double seen, int64_t channels);

/* Which probabilities are dropped, by an operand with what each sequence draws by. It may be missing: none
 * are. */
struct tr_unattended tr_unattended_of(const struct tr_call *c, const struct tr_operand *draws);

#endif
