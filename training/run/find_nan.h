/* SPDX-License-Identifier: BSD-3-Clause */
/* find_nan.h: where a number that is none was first seen. */
#ifndef TRAINING_RUN_FIND_NAN_H
#define TRAINING_RUN_FIND_NAN_H

#include "training/run/run.h"

/* The loss or the norm of this step is not finite, and nothing was updated. By all ranks: runs the step again
 * up to the norm, looks at what each instruction writes, and names the first tensor that is not finite, with
 * instruction, step and rank. Returns false. */
bool tr_not_finite(struct tr_runner *r, struct tr_error *e);

#endif
