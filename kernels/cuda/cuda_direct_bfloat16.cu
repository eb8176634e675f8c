/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_bfloat16.cu: the kernel of several devices for bfloat16. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_bfloat16 = DIRECT(bfloat16, OPERATIONS(float, f32, f32));
