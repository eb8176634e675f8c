/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_float64.cu: the kernel of several devices for float64. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_float64 = DIRECT(float64, OPERATIONS(float, f64, f64));
