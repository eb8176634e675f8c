/* SPDX-License-Identifier: BSD-3-Clause */
/* openblas.h: kernels whose products are OpenBLAS's, for who lets go of the canonical order
 * (--order free). */
#ifndef TRAINING_KERNELS_OPENBLAS_H
#define TRAINING_KERNELS_OPENBLAS_H

#include "training/kernels/kernels.h"

/* The set `base` with OpenBLAS's product; `base` itself where this machine has no OpenBLAS. Not for threads:
 * the first call makes it. The bits of a product hang on OpenBLAS, its version and this processor. */
const struct tr_kernels *tr_kernels_free(const struct tr_kernels *base);
/* "OpenBLAS 0.3.21 ..", or NULL where there is none. */
const char *tr_openblas(void);

#endif
