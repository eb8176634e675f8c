/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_float64.cu: the kernels of float64. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_float64 = FLOAT_ROW(float64, f64);
