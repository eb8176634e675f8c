/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_float16.cu: the kernel of several devices for float16. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_float16 = DIRECT(float16, OPERATIONS(float, f32, f32));
