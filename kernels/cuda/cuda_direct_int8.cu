/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_int8.cu: the kernel of several devices for int8. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_int8 = DIRECT(int8, OPERATIONS(integer, u8, i8));
