/* SPDX-License-Identifier: BSD-3-Clause */
/* lower.h: how a rank's list is written: the parts of its schedule, then the end of the step. */
#ifndef TRAINING_PASSES_LOWER_H
#define TRAINING_PASSES_LOWER_H

#include "training/tape/tape.h"

bool tr_lower(
    struct tr_tape *t, const struct tr_placed *p, const struct tr_schedule *s, int rank, struct tr_error *e);

#endif
