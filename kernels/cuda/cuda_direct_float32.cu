/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_float32.cu: the kernel of several devices for float32. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_float32 = DIRECT(float32, OPERATIONS(float, f32, f32));
