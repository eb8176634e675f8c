/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.h: the optimizer's update by several threads, each with the set's kernels. */
#ifndef TRAINING_OPS_THREADS_H
#define TRAINING_OPS_THREADS_H

#include "training/ops/kernels.h"

struct tr_update {
    float *p, *m, *v; /* m: NULL for SGD */
    const float *g;
    const uint16_t *narrow; /* g in bfloat16, if that is NULL */
    int64_t count;
    struct tr_adamw a;
};

/* Whether this build has them (OpenMP). */
bool tr_has_threads(void);
/* Elements are independent, so any number of threads gives the same bits. */
void tr_update(const struct tr_kernels *k, const struct tr_update *u, int threads);

#endif
