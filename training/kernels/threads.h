/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.h: the optimizer's update by several threads, each with the set's kernels. */
#ifndef TRAINING_KERNELS_THREADS_H
#define TRAINING_KERNELS_THREADS_H

#include "training/error.h"
#include "training/kernels/kernels.h"

/* The caller and n - 1 threads, which sleep until there is an update; NULL if one cannot be started. */
struct tr_threads *tr_threads_start(int n, struct tr_error *e);
/* NULL: there are none. */
void tr_threads_stop(struct tr_threads *t);
/* By those threads; NULL: by the caller alone. Elements are independent, so bits are the same. */
void tr_update(struct tr_context *x, const struct tr_update *u, struct tr_threads *t);

#endif
