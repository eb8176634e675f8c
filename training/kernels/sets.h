/* SPDX-License-Identifier: BSD-3-Clause */
/* sets.h: the sets of kernels, one for each instruction set; one that this build lacks has no name. */
#ifndef TRAINING_KERNELS_SETS_H
#define TRAINING_KERNELS_SETS_H
#include "training/kernels/kernels.h"

extern const struct tr_kernels tr_kernels_generic, tr_kernels_avx2, tr_kernels_avx512;

/* Floats of scratch, enough for any of them: a plan made on one machine holds on another. */
enum { TR_GEMM_ROWS = 4096 }; /* of a product that are packed at a time */
int64_t tr_scratch_gemm(const struct tr_gemm *g);
int64_t tr_scratch_attention(const struct tr_attention *s);

#endif
