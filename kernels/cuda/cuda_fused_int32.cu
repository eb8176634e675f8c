/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_int32.cu: the kernels of int32. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_int32 = SIGNED_ROW(int32, sum_u32, i32);
