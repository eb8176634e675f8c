/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_kernels.h: the kernels that run on a device: their numbers, their parameters, how they are launched.
 *
 * Plain C without a word of CUDA. Who launches knows a kernel by its number (tt_kernel_number) and hands over
 * one plain struct. Who runs it asks for its function (tt_dev_kernel_find in base/dev_kernel.h): in
 * libtutti_cuda.so that is one for a GPU; the same source compiled for the processor has one for the emulator
 * (cuda_emulate.h). They give the bits of kernels.h: same operands, same order, same roundings.
 *
 * Pointers are any that the device reaches, aligned to the element; nothing else is asked of them. It is
 * fastest where all of them are equally far from a multiple of 16. Overlap is legal as in kernels.h. Results
 * do not depend on grid and block. No kernel waits for anything, nor takes dynamic shared memory. */
#ifndef TT_KERNELS_CUDA_KERNELS_H
#define TT_KERNELS_CUDA_KERNELS_H
#include "kernels/fold_table.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tt_kernel {
    TT_KERNEL_COPY, /* struct tt_copy_params */
    TT_KERNEL_CHAIN, /* struct tt_fold_params, in the shape TT_CHAIN */
    TT_KERNEL_TREE, /* the same in the shape TT_TREE */
    TT_KERNEL_SCALE, /* struct tt_scale_params, as tt_scale */
};

struct tt_copy_params {
    void *dst;
    const void *src;
    uint64_t bytes;
};

/* 1 <= k <= TT_FOLD_OPERANDS. divisor: as of tt_fold_fn. */
struct tt_fold_params {
    void *dst;
    const void *sources[TT_FOLD_OPERANDS];
    uint64_t count;
    uint32_t k, divisor;
};

/* The factor lies where the device reads it, or, if that is NULL, in the first bytes of `value`. */
struct tt_scale_params {
    void *dst;
    const void *src;
    uint64_t count;
    const void *factor;
    uint64_t value;
};

/* A kernel's number, below TT_KERNEL_NUMBERS and the same in all builds of one version. 0: the type does not
 * support the operation. Kernels that compute the same may have several numbers. A copy looks at neither type
 * nor operation, a scale not at the operation. */
enum { TT_KERNEL_NUMBERS = 2 + TT_FOLD_TYPES * (1 + TT_ROWS * TT_SHAPES) };
static inline uint32_t tt_kernel_number(enum tt_kernel kernel, tutti_type type, tutti_op op)
{
    enum tt_fold_row row = tt_fold_row_of(op);
    int is_float = type >= TUTTI_FLOAT16, is_bits = row >= TT_ROW_AND;
    if (kernel == TT_KERNEL_COPY)
        return 1;
    if ((unsigned)type >= TT_FOLD_TYPES)
        return 0;
    uint32_t first = 2 + (uint32_t)type * (1 + TT_ROWS * TT_SHAPES);
    if (kernel == TT_KERNEL_SCALE)
        return first;
    if (row == TT_ROWS || (is_float && is_bits))
        return 0;
    return first + 1 + (uint32_t)row * TT_SHAPES + (kernel == TT_KERNEL_TREE);
}

/* A grid and a block for `bytes` of result on a device of so many multiprocessors: a thread takes 64 bytes at
 * a time, and two blocks keep a multiprocessor busy. */
enum { TT_KERNEL_BLOCK = 512 };
static inline uint32_t tt_kernel_grid(uint64_t bytes, uint32_t multiprocessors)
{
    uint64_t wanted = bytes / (TT_KERNEL_BLOCK * UINT64_C(64)) + 1, most = UINT64_C(2) * multiprocessors;
    return (uint32_t)(wanted < most ? wanted : most);
}

#ifdef __cplusplus
}
#endif
#endif
