/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.h: work that several threads share: parts of an array, each with the set's kernels. */
#ifndef TRAINING_KERNELS_THREADS_H
#define TRAINING_KERNELS_THREADS_H

#include "training/error.h"
#include "training/kernels/kernels.h"

/* The caller and n - 1 threads, which sleep until there is work; NULL if one cannot be started, and the error
 * names the option that asked for them. */
struct tr_threads *tr_threads_start(int n, const char *option, struct tr_error *e);
/* NULL: there are none. */
void tr_threads_stop(struct tr_threads *t);
/* Parts 0 to parts - 1, at most as many as there are threads, by one each. It returns when all are over. */
void tr_threads_share(struct tr_threads *t, int parts, void (*work)(void *what, int part), void *what);
/* Of `lines` lines of an array, those of a part: the first, and how many. */
void tr_threads_part(int64_t lines, int part, int parts, int64_t *first, int64_t *count);
/* By those threads; NULL: by the caller alone. Elements are independent, so bits are the same. */
void tr_update(struct tr_context *x, const struct tr_update *u, struct tr_threads *t);

#endif
