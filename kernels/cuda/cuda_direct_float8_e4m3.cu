/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_float8_e4m3.cu: the kernel of several devices for float8_e4m3. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_float8_e4m3 = DIRECT(float8_e4m3, OPERATIONS(float, f32, f32));
