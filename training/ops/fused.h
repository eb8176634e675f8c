/* SPDX-License-Identifier: BSD-3-Clause */
/* fused.h: operations that follow one another, and that some sets of kernels do in one kernel, with the bits
 * of each.
 *
 * A chain is a row: each operation takes the first result of the one before. Who runs a list finds the chains
 * in it, and knows whether memory allows that all is written when the first one runs. */
#ifndef TRAINING_OPS_FUSED_H
#define TRAINING_OPS_FUSED_H

#include "training/ops/site.h"

enum { TR_CHAIN = 3 };

struct tr_fused {
    int length, op[TR_CHAIN];
    bool keeps[TR_CHAIN]; /* its first result is written; else nobody but the next one may read it */
    bool (*served)(const struct tr_kernels *k); /* whether this set has such a kernel */
    void (*run)(const struct tr_call *c); /* one call for each operation */
};

/* The longest chains come first. */
extern const struct tr_fused tr_fused[];
extern const int tr_fused_rows;

#endif
