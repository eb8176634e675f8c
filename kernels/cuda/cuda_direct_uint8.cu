/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_uint8.cu: the kernel of several devices for uint8. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_uint8 = DIRECT(uint8, OPERATIONS(integer, u8, u8));
