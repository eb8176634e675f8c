/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_float32.cu: the kernels of float32. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_float32 = FLOAT_ROW(float32, f32);
