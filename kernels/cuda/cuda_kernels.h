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
    /* These take a struct tt_fused_params, in blocks of TT_FUSED_BLOCK threads. */
    TT_KERNEL_MOVE, /* rectangles of one source each, counted in bytes; looks at neither type nor operation */
    TT_KERNEL_FUSED_CHAIN, /* folds in the shape TT_CHAIN */
    TT_KERNEL_FUSED_TREE, /* folds in the shape TT_TREE */
    TT_KERNEL_SCALED_CHAIN, /* a sum of operands that are first multiplied by their ranks' factors */
    TT_KERNEL_SCALED_TREE, /* the same in the shape TT_TREE */
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

/* A collective as one kernel runs it: rectangles of memory, one for each row of the grid. A rectangle folds
 * `count` elements at in[k] + from, of all ranks k in `sources`, in rank order, and stores them at
 * out[j] + to, of all ranks j in `dsts`. No byte that a rectangle stores is loaded by another one; an operand
 * that lies where the result goes is the same one element by element. */
enum { TT_FUSED_RANKS = 8, TT_FUSED_RECTS = 64, TT_FUSED_BLOCK = 256 };

struct tt_rect { /* 32 bytes */
    uint64_t from, to; /* bytes from in[] and out[] */
    uint64_t count;
    uint8_t sources, dsts; /* masks of ranks */
    uint8_t reserved[6];
};

/* Where ranks have their operands and results. Of a scaled sum the factor of rank k is one element: at
 * scalar[k], where the device reads it, or, if that is NULL, in the first bytes of factor[k]. */
struct tt_bases { /* 272 bytes */
    uint32_t skip; /* 1: the kernel stores nothing but that it is over */
    uint32_t reserved;
    uint64_t call; /* for who debugs: its number */
    const void *in[TT_FUSED_RANKS];
    void *out[TT_FUSED_RANKS];
    const void *scalar[TT_FUSED_RANKS];
    uint64_t factor[TT_FUSED_RANKS];
};

/* `bases` lie in device memory, written by what is enqueued before: each block reads them, which from pinned
 * memory takes a microsecond and more a block. NULL: `own` is meant.
 * The last block to end stores over_value to *over, which may be pinned, after all that the kernel stores;
 * and 0 to *blocks_over, which counts blocks: 4 bytes of device memory that begin as 0, and serve kernels that
 * run one after another. `over` may be NULL: nobody is told, and nothing is counted. */
struct tt_fused_params { /* 2360 bytes */
    const struct tt_bases *bases;
    struct tt_bases own;
    uint32_t rects; /* at most TT_FUSED_RECTS; 0 is legal, in a grid of one row */
    uint32_t divisor; /* as of tt_fold_fn */
    uint32_t *blocks_over, *over;
    uint32_t over_value, reserved;
    struct tt_rect rect[TT_FUSED_RECTS];
};

/* A grid for rectangles of at most so many bytes: a thread takes 16 bytes, which on an H200 is as fast as a
 * copy. grid_y is the number of rectangles, or 1. */
static inline uint32_t tt_fused_grid(uint64_t bytes)
{
    uint64_t blocks = (bytes / 16 + 2 + TT_FUSED_BLOCK - 1) / TT_FUSED_BLOCK;
    return blocks < INT32_MAX ? (uint32_t)blocks : INT32_MAX;
}

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
