/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_uint8.cu: the kernels of uint8. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_uint8 = UNSIGNED_ROW(uint8, u8);
