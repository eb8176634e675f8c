/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_uint64.cu: the kernel of several devices for uint64. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_uint64 = DIRECT(uint64, OPERATIONS(integer, u64, u64));
