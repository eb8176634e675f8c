/* SPDX-License-Identifier: BSD-3-Clause */
/* threaded.h: kernels of the processor that several threads of a rank share (--threads). */
#ifndef TRAINING_BACKEND_THREADED_H
#define TRAINING_BACKEND_THREADED_H

#include "training/kernels/kernels.h"

enum { TR_THREADS_MOST = 64 };

/* The set `base` by n threads, with its bits; `base` itself for one. Scratch is that of n. Not for threads:
 * the first call makes it. */
const struct tr_kernels *tr_kernels_threaded(const struct tr_kernels *base, int n);

#endif
