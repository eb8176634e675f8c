/* SPDX-License-Identifier: BSD-3-Clause */
/* lower.h: how a rank's list is written: the parts of its schedule, then the end of the step. */
#ifndef TRAINING_PASSES_LOWER_H
#define TRAINING_PASSES_LOWER_H

#include "training/tape/tape.h"

bool tr_lower(
    struct tr_tape *t, const struct tr_placed *p, const struct tr_schedule *s, int rank, struct tr_error *e);
void tr_hold_parameters(struct tr_tape *t);
/* The vector of leaves of the norm, which an asynchronous pipeline fills update by update. */
void tr_lower_leaves(struct tr_tape *t);
/* The end of the step: reductions, tied gradients, norm, loss, optimizer. */
void tr_lower_end(struct tr_tape *t, const int *loss_values);
void tr_lower_update(struct tr_tape *t, struct tr_param_state *h);

#endif
