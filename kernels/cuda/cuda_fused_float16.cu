/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_float16.cu: the kernels of float16. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_float16 = FLOAT_ROW(float16, f32);
