/* SPDX-License-Identifier: BSD-3-Clause */
/* tolerances.h: how near a run must be to the golden program, where it need not be equal. */
#ifndef TRAINING_VERIFY_TOLERANCES_H
#define TRAINING_VERIFY_TOLERANCES_H

#include "training/verify/trial.h"

/* As parts of the golden number; of gradients as parts of the largest one of a tensor. */
struct tr_tolerance {
    double losses, gradients;
};

/* With --order free no bits are promised: losses and the gradients of step 0 must be as near to the golden
 * program's as other orders of the same sums, and in bfloat16 as what these are rounded to. false: all must
 * be equal. */
bool tr_tolerance_of(struct tr_tolerance *f, const struct tr_options *o);
/* Near, or equal where that is due. */
bool tr_tolerance_kept(const struct tr_options *o, const struct tr_verdict *v);

#endif
