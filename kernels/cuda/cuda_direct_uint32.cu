/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_uint32.cu: the kernel of several devices for uint32. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_uint32 = DIRECT(uint32, OPERATIONS(integer, u32, u32));
