/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_int64.cu: the kernels of int64. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_int64 = SIGNED_ROW(int64, sum_u64, i64);
