/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_int64.cu: the kernel of several devices for int64. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_int64 = DIRECT(int64, OPERATIONS(integer, u64, i64));
