/* SPDX-License-Identifier: BSD-3-Clause */
/* compute.h: what stands between the tape and the kernels: shapes, and sums over the sequences of a micro-
 * batch. */
#ifndef TRAINING_RUN_COMPUTE_H
#define TRAINING_RUN_COMPUTE_H

#include "training/run/run.h"

void tr_compute(struct tr_runner *r, const struct tr_instr *i);

void *tr_at(const struct tr_runner *r, int value);

#endif
