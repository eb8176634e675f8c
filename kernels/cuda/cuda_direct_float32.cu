/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_float32.cu: the kernels of several devices for float32. */
#include "kernels/cuda/cuda_list.cuh"

const void *const tt_direct_float32 = DIRECT(float32, OPERATIONS(float, f32, f32));
const void *const tt_list_float32 = LIST(float32, f32);
