/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_direct_move.cu: the kernel of several devices that folds nothing: bytes. */
#include "kernels/cuda/cuda_direct.cuh"

const void *const tt_direct_move = DIRECT(uint8, no_operations);
