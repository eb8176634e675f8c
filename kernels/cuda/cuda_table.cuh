/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_table.cuh: what the files of kernels offer, for tt_dev_kernel_find to choose from. */
#ifndef TT_KERNELS_CUDA_TABLE_CUH
#define TT_KERNELS_CUDA_TABLE_CUH
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_primitives.cuh"

/* The kernels of one type. NULL where another type's kernel computes the same. */
struct tt_kernel_row {
    const void *fold[TT_ROWS + 1][TT_SHAPES]; /* the last row: scaled sums */
};

extern const void *const tt_kernel_move;
extern const struct tt_kernel_row tt_kernels_int8, tt_kernels_uint8, tt_kernels_int32, tt_kernels_uint32,
    tt_kernels_int64, tt_kernels_uint64, tt_kernels_float16, tt_kernels_float32, tt_kernels_float64,
    tt_kernels_bfloat16, tt_kernels_float8_e4m3, tt_kernels_float8_e5m2;

/* Kernels of several devices, of bytes and of each type. */
extern const void *const tt_direct_move,
    *const tt_direct_int8, *const tt_direct_uint8,
                               *const tt_direct_int32,
                                   *const tt_direct_uint32,
                                       *const tt_direct_int64,
                                           *const tt_direct_uint64,
                                               *const tt_direct_float16,
                                                   *const tt_direct_float32,
                                                       *const tt_direct_float64,
                                                           *const tt_direct_bfloat16,
                                                               *const tt_direct_float8_e4m3,
                                                                   *const tt_direct_float8_e5m2;
/* And that of lists. */
extern const void *const tt_list;

#endif
