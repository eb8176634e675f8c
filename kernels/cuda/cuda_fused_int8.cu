/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_int8.cu: the kernels of int8. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_int8 = SIGNED_ROW(int8, sum_u8, i8);
