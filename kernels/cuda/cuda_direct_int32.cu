/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_int32.cu: the kernel of several devices for int32. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_int32 = DIRECT(int32, OPERATIONS(integer, u32, i32));
