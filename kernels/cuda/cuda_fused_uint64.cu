/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_uint64.cu: the kernels of uint64. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_uint64 = UNSIGNED_ROW(uint64, u64);
