/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_float8_e5m2.cu: the kernel of several devices for float8_e5m2. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_float8_e5m2 = DIRECT(float8_e5m2, OPERATIONS(float, f32, f32));
