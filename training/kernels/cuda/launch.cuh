/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.cuh: how the set starts a kernel, and the two forms that most kernels have.
 *
 * Most of them do the same for each element, or for each row by half a warp. Such a kernel is a struct: its
 * members are what the kernel is given, and its operator() is what a thread does. */
#ifndef TRAINING_KERNELS_CUDA_LAUNCH_CUH
#define TRAINING_KERNELS_CUDA_LAUNCH_CUH
#include "training/kernels/cuda/cuda_set.h"
#include "training/kernels/cuda/numbers.cuh"

enum { BLOCK_THREADS = 256, BLOCK_ROWS = BLOCK_THREADS / LANES };

static inline int64_t quotient_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static inline int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static inline struct tr_cuda *cuda_of(const struct tr_context *x)
{
    return static_cast<struct tr_cuda *>(x->self);
}

/* Whether each quad of rows of x, which are so many floats apart, begins at a multiple of 16 bytes. */
static inline bool has_quads(const float *x, int64_t row, int64_t step0, int64_t step1)
{
    return reinterpret_cast<uintptr_t>(x) % sizeof(quad) == 0 && row % 4 == 0 && step0 % 4 == 0 &&
           step1 % 4 == 0;
}

/* The first failure stays. */
static inline void fail(struct tr_context *x, int status)
{
    if (x->status == 0)
        x->status = status;
}

/* After a failure nothing is started any more: its number stays, and what would follow has no operands. */
template <class Params>
static void start(
    struct tr_context *x, const void *function, const Params &params, int64_t blocks, uint32_t threads)
{
    if (blocks <= 0 || x->status != 0)
        return;
    const struct tr_cuda_launch l = { function, &params, sizeof params, static_cast<uint32_t>(blocks),
        threads };
    x->status = cuda_of(x)->launch(cuda_of(x), &l);
}

/* PTX of for_each: nothing */
template <class Work> KERNEL void AT_MOST_THREADS(BLOCK_THREADS) for_each(const PARAMS Work work)
{
    const int64_t i = static_cast<int64_t>(grid_index());
    if (i < work.count)
        work(i);
}
template <class Work> static void start_each(struct tr_context *x, const Work &work)
{
    start(x, KERNEL_FUNCTION(Work, for_each<Work>), work, quotient_up(work.count, BLOCK_THREADS),
        BLOCK_THREADS);
}

/* Threads behind the last row compute that of row 0 and must store nothing: all lanes of a warp take part in
 * its shuffles.
 * PTX of for_rows: shfl.sync */
template <class Work> KERNEL void AT_MOST_THREADS(BLOCK_THREADS) for_rows(const PARAMS Work work)
{
    const int64_t row = static_cast<int64_t>(grid_index()) / LANES;
    const bool here = row < work.rows;
    work(here ? row : 0, static_cast<int64_t>(thread_index() % LANES), here);
}
template <class Work> static void start_rows(struct tr_context *x, const Work &work)
{
    start(x, KERNEL_FUNCTION(Work, for_rows<Work>), work, quotient_up(work.rows, BLOCK_ROWS), BLOCK_THREADS);
}

#endif
