/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_kernels.h: the kernels that run on a device: their numbers, and how those are launched that do a whole
 * collective alone; cuda_direct.h is about those of several devices that do one together.
 *
 * Plain C without a word of CUDA. Who launches knows a kernel by its number (tt_kernel_number) and hands over
 * one plain struct. Who runs it asks for its function (tt_dev_kernel_find in base/dev_kernel.h): in
 * libtutti_cuda.so that is one for a GPU; the same source compiled for the processor has one for the emulator
 * (cuda_emulate.h). They give the bits of kernels.h: same operands, same order, same roundings.
 *
 * A collective is rectangles of memory, one for each row of the grid. A rectangle folds `count` elements at
 * in[k] + from, of all ranks k in `sources`, in rank order, and stores them at out[j] + to, of all ranks j in
 * `dsts`. No byte that a rectangle stores is loaded by another one; an operand that lies where the result
 * goes does so element by element.
 *
 * Pointers are any that the device reaches, aligned to the element; nothing else is asked of them. It is
 * fastest where all of them are equally far from a multiple of 16. Results do not depend on the grid, nor on
 * the block. No such kernel waits for anything, and no kernel takes dynamic shared memory. */
#ifndef TT_KERNELS_CUDA_KERNELS_H
#define TT_KERNELS_CUDA_KERNELS_H
#include "kernels/fold_table.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tt_kernel { /* these take a struct tt_fused_params: */
    TT_KERNEL_MOVE, /* rectangles of one source each, counted in bytes; looks at neither type nor operation */
    TT_KERNEL_FUSED_CHAIN, /* folds in the shape TT_CHAIN */
    TT_KERNEL_FUSED_TREE, /* folds in the shape TT_TREE */
    TT_KERNEL_SCALED_CHAIN, /* a TUTTI_SUM of operands that tt_scale would have multiplied first, */
    TT_KERNEL_SCALED_TREE, /* each by its rank's factor */
    /* and these a struct tt_direct_params, which tells operation and shape: */
    TT_KERNEL_DIRECT_MOVE, /* of no type, as MOVE */
    TT_KERNEL_DIRECT,
    TT_KERNEL_DIRECT_LIST, /* and this a struct tt_direct_list_params, which tells the type: sums of FLOAT16,
                              FLOAT32 and BFLOAT16 */
};

enum { TT_FUSED_RANKS = 8, TT_FUSED_RECTS = 64, TT_FUSED_BLOCK = 256 /* threads, at most */ };

struct tt_rect { /* 32 bytes */
    uint64_t from, to; /* bytes from in[] and out[] */
    uint64_t count;
    uint8_t sources, dsts; /* masks of ranks */
    uint8_t reserved[6];
};

/* Where ranks have their operands and results; NULL: rectangles tell whole addresses. Of a scaled sum the
 * factor of rank k is one element: at scalar[k], where the device reads it, or, if that is NULL, in the first
 * bytes of factor[k]. */
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
 * and 0 to *blocks_over, which counts blocks: 4 bytes of device memory that begin as 0, and serve kernels
 * that run one after another. `over` may be NULL: nobody is told, and nothing is counted. */
struct tt_fused_params { /* 2360 bytes */
    const struct tt_bases *bases;
    struct tt_bases own;
    uint32_t rects; /* at most TT_FUSED_RECTS; 0 is legal, in a grid of one row */
    uint32_t divisor; /* as of tt_fold_fn */
    uint32_t *blocks_over, *over;
    uint32_t over_value, reserved;
    struct tt_rect rect[TT_FUSED_RECTS];
};

/* A kernel's number, below TT_KERNEL_NUMBERS and the same in all builds of one version. 0: the type does not
 * support the operation. Kernels that compute the same may have several numbers. */
enum {
    TT_KERNEL_FIRST_DIRECT = 2 + TT_FOLD_TYPES * (TT_ROWS + 1) * TT_SHAPES,
    TT_KERNEL_LIST = TT_KERNEL_FIRST_DIRECT + 1 + TT_FOLD_TYPES,
    TT_KERNEL_NUMBERS
};
static inline bool tt_kernel_lists(tutti_type type)
{
    return type == TUTTI_FLOAT16 || type == TUTTI_FLOAT32 || type == TUTTI_BFLOAT16;
}
static inline uint32_t tt_kernel_number(enum tt_kernel kernel, tutti_type type, tutti_op op)
{
    int tree = kernel == TT_KERNEL_FUSED_TREE || kernel == TT_KERNEL_SCALED_TREE;
    int scales = kernel == TT_KERNEL_SCALED_CHAIN || kernel == TT_KERNEL_SCALED_TREE;
    enum tt_fold_row row = tt_fold_row_of(op);
    if (kernel == TT_KERNEL_MOVE)
        return 1;
    if (kernel == TT_KERNEL_DIRECT_MOVE)
        return TT_KERNEL_FIRST_DIRECT;
    if ((unsigned)type >= TT_FOLD_TYPES || row == TT_ROWS || (type >= TUTTI_FLOAT16 && row >= TT_ROW_AND))
        return 0;
    if (scales && op != TUTTI_SUM)
        return 0;
    if (kernel == TT_KERNEL_DIRECT_LIST)
        return row == TT_ROW_SUM && tt_kernel_lists(type) ? TT_KERNEL_LIST : 0;
    if (kernel == TT_KERNEL_DIRECT)
        return TT_KERNEL_FIRST_DIRECT + 1 + (uint32_t)type;
    uint32_t index = (uint32_t)type * (TT_ROWS + 1) + (uint32_t)(scales ? TT_ROWS : row);
    return 2 + index * TT_SHAPES + (uint32_t)tree;
}

/* Blocks in x for rectangles of at most so many bytes, a thread for each 16: on an H200 that is as fast as a
 * copy. Any other grid is right, too, as long as its blocks, of all rows, are less than 2^32. */
static inline uint32_t tt_fused_grid(uint64_t bytes)
{
    const uint64_t wanted = bytes / (16 * TT_FUSED_BLOCK) + 1, most = 1 << 25;
    return (uint32_t)(wanted < most ? wanted : most);
}

#ifdef __cplusplus
}
#endif
#endif
