/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_bfloat16.cu: the kernels of several devices for bfloat16. */
#include "kernels/cuda/cuda_list.cuh"

const void *const tt_direct_bfloat16 = DIRECT(bfloat16, OPERATIONS(float, f32, f32));
const void *const tt_list_bfloat16 = LIST(bfloat16, f32);
