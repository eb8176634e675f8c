/* SPDX-License-Identifier: BSD-3-Clause */
/* train_softmax.cu: the softmax over a vocabulary and the loss, as training/kernels/softmax.h defines them.
 *
 * A block has one row; half a warp has a chunk of it, as the law gives a chunk 16 lanes. So many chunks are
 * summed at once, one thread joins them, and further chunks come after that. */
#include "training/kernels/cuda/launch.cuh"

enum { HALF_WARPS = BLOCK_THREADS / LANES };

struct row_shared {
    float part[HALF_WARPS];
};

struct row_max_params {
    float *max;
    const float *x;
    int64_t columns, stride;
};

/* PTX of row_max_kernel: shfl.sync bar.sync */
KERNEL void AT_MOST_THREADS(BLOCK_THREADS) row_max_kernel(const PARAMS row_max_params p)
{
    SHARED(row_shared, shared);
    const float *row = p.x + block_index() * p.stride;
    float most = -INFINITY;
    for (int64_t i = thread_index(); i < p.columns; i += BLOCK_THREADS)
        most = greater(most, row[i]);
    most = greatest_lane(most);
    if (thread_index() % LANES == 0)
        shared.part[thread_index() / LANES] = most;
    sync_block();
    if (thread_index() != 0)
        return;
    for (int i = 1; i < HALF_WARPS; i++)
        most = greater(most, shared.part[i]);
    p.max[block_index()] = most;
}

struct softmax_params {
    float *x, *sum, *wanted;
    const float *max;
    const uint16_t *target;
    int64_t columns, stride, first, chunk, chunks;
};

/* One chunk by half a warp; all of its lanes return the sum. An empty one is +0. */
INLINE float exponential_chunk(const softmax_params &p, float *row, float max, int64_t chunk)
{
    const int64_t begin = chunk * p.chunk;
    int64_t end = begin + p.chunk;
    if (end > p.columns)
        end = p.columns;
    float sum = 0;
    for (int64_t i = begin + thread_index() % LANES; chunk < p.chunks && i < end; i += LANES) {
        const float e = exponential(row[i] - max);
        row[i] = e;
        sum = sum + e;
    }
    return fold_lanes(sum);
}

/* The first barrier is for `wanted`, which is read before any thread writes to the row.
 * PTX of softmax_kernel: shfl.sync bar.sync
 * STACK of softmax_kernel: 64, the binary counter */
KERNEL void AT_MOST_THREADS(BLOCK_THREADS) softmax_kernel(const PARAMS softmax_params p)
{
    SHARED(row_shared, shared);
    const int64_t t = block_index(), at = p.target[t] - p.first;
    float *row = p.x + t * p.stride;
    const float max = p.max[t];
    if (thread_index() == 0)
        p.wanted[t] = at >= 0 && at < p.columns ? row[at] + 0.0f : 0.0f;
    sync_block();
    counter<float> tree;
    float total = 0;
    for (int64_t first = 0; first < p.chunks; first += HALF_WARPS) {
        const int64_t own = thread_index() / LANES;
        const float sum = exponential_chunk(p, row, max, first + own);
        if (thread_index() % LANES == 0)
            shared.part[own] = sum;
        sync_block();
        for (int64_t i = 0; thread_index() == 0 && i < HALF_WARPS && first + i < p.chunks; i++)
            total = tree.after(shared.part[i], first + i, p.chunks);
        sync_block();
    }
    if (thread_index() == 0)
        p.sum[t] = total;
}

struct softmax_dx_each {
    int64_t count;
    float *x;
    const float *sum;
    const uint16_t *target;
    int64_t columns, stride, first;
    float scale;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t t = i / stride, j = i % stride;
        float p = 0;
        if (j < columns) {
            p = x[i] / sum[t];
            if (j == target[t] - first)
                p = p - 1.0f;
            p = p * scale;
        }
        x[i] = p;
    }
};

struct loss_leaves {
    int64_t count;
    double *leaf;
    const float *sum, *max, *wanted;
    int64_t leaves, tokens, block;

    MEMBER void operator()(int64_t g) const
    {
        const int64_t first = g / leaves * tokens, begin = g % leaves * block, end = begin + block;
        double part = 0;
        for (int64_t t = first + begin; t < first + (end < tokens ? end : tokens); t++)
            part = part + static_cast<double>(logarithm(sum[t]) + max[t] - wanted[t]);
        leaf[g] = part;
    }
};

void tr_cuda_row_max(
    struct tr_context *x, float *max, const float *in, int64_t rows, int64_t columns, int64_t stride)
{
    start(x, KERNEL_FUNCTION(row_max_params, row_max_kernel), row_max_params{ max, in, columns, stride },
        rows, BLOCK_THREADS);
}

void tr_cuda_softmax(struct tr_context *x, float *in, float *sum, float *wanted, const float *max,
    const uint16_t *target, int64_t rows, int64_t columns, int64_t stride, int64_t first, int64_t chunk,
    int64_t chunks)
{
    start(x, KERNEL_FUNCTION(softmax_params, softmax_kernel),
        softmax_params{ in, sum, wanted, max, target, columns, stride, first, chunk, chunks }, rows,
        BLOCK_THREADS);
}

void tr_cuda_softmax_dx(struct tr_context *x, float *in, const float *sum, const uint16_t *target,
    int64_t rows, int64_t columns, int64_t stride, int64_t first, float scale)
{
    start_each(x, softmax_dx_each{ rows * stride, in, sum, target, columns, stride, first, scale });
}

void tr_cuda_loss(struct tr_context *x, double *leaf, int64_t leaves, const float *sum, const float *max,
    const float *wanted, const struct tr_tokens *t)
{
    start_each(x, loss_leaves{ t->sequences * leaves, leaf, sum, max, wanted, leaves, t->tokens, t->block });
}
