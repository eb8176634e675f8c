/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_uint32.cu: the kernels of uint32. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_uint32 = UNSIGNED_ROW(uint32, u32);
