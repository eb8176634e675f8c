/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_float8_e4m3.cu: the kernels of float8_e4m3. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_float8_e4m3 = FLOAT_ROW(float8_e4m3, f32);
