/* SPDX-License-Identifier: BSD-3-Clause */
/* sets.h: the sets of kernels, one for each instruction set; one that this build lacks has no name. */
#ifndef TRAINING_KERNELS_SETS_H
#define TRAINING_KERNELS_SETS_H
#include "training/kernels/kernels.h"

extern const struct tr_kernels tr_kernels_generic, tr_kernels_avx2, tr_kernels_avx512;

#endif
