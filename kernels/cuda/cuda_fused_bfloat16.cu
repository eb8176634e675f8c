/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_bfloat16.cu: the kernels of bfloat16. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_bfloat16 = FLOAT_ROW(bfloat16, f32);
