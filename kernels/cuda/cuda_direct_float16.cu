/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_float16.cu: the kernels of several devices for float16. */
#include "kernels/cuda/cuda_list.cuh"

const void *const tt_direct_float16 = DIRECT(float16, OPERATIONS(float, f32, f32));
const void *const tt_list_float16 = LIST(float16, f32);
