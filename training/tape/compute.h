/* SPDX-License-Identifier: BSD-3-Clause */
/* compute.h: what stands between the tape and the kernels: shapes, and sums over the sequences of a micro-
 * batch. */
#ifndef TRAINING_TAPE_COMPUTE_H
#define TRAINING_TAPE_COMPUTE_H

#include "training/tape/run.h"

void tr_compute(struct tr_runner *r, const struct tr_instr *i);

/* Value j of n enters a tree that is summed as values come: x becomes the sum of all that it completes, and
 * is kept in a level if there is more to come. With the last one, x is the sum of all n. Levels are arrays
 * of count elements; there are as many as n - 1 has bits. */
void tr_tree_in(const struct tr_kernels *k, float *x, float *const *level, int64_t count, int j, int n);

void *tr_at(const struct tr_runner *r, int value);

#endif
