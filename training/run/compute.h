/* SPDX-License-Identifier: BSD-3-Clause */
/* compute.h: what stands between the tape and the kernels: shapes, and sums over the sequences of a micro-
 * batch. */
#ifndef TRAINING_RUN_COMPUTE_H
#define TRAINING_RUN_COMPUTE_H

#include "training/run/run.h"

void tr_compute(struct tr_runner *r, const struct tr_instr *i);

/* What an operation that works on elements itself takes of the host's memory, where values are not there. */
int64_t tr_operands_bytes(const struct tr_tape *t, const struct tr_instr *i, const struct tr_kernels *host);

void *tr_at(const struct tr_runner *r, int value);

#endif
