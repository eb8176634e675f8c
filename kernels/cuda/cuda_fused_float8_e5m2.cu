/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fused_float8_e5m2.cu: the kernels of float8_e5m2. */
#include "kernels/cuda/cuda_fused.cuh"

const struct tt_kernel_row tt_kernels_float8_e5m2 = FLOAT_ROW(float8_e5m2, f32);
