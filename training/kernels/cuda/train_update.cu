/* SPDX-License-Identifier: BSD-3-Clause */
/* train_update.cu: the norm of the gradient by leaves, the optimizers, and bfloat16, as update.h and
 * bfloat16.h of training/kernels/ define them. */
#include "training/kernels/cuda/launch.cuh"

/* ---- bfloat16 ---- */

INLINE float widened(uint16_t x)
{
    return number_of(static_cast<uint32_t>(x) << 16);
}

/* The upper half of what `add` is added to; a NaN gets no carry, and its quiet bit. */
INLINE uint16_t upper_half(float x, uint32_t add)
{
    const uint32_t bits = bits_of(x);
    return static_cast<uint16_t>((x != x ? bits | 0x400000 : bits + add) >> 16);
}

/* Nearest, ties to even: just less than half of the last place is added, and 1 where that place is odd. */
INLINE uint16_t nearest_half(float x)
{
    return upper_half(x, (bits_of(x) >> 16 & 1) + 0x7FFF);
}

INLINE uint32_t mixed_bits(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7FEB352D;
    x = (x ^ x >> 15) * 0x846CA68B;
    return x ^ x >> 16;
}

struct widen_each {
    int64_t count;
    float *to;
    const uint16_t *from;

    MEMBER void operator()(int64_t i) const
    {
        to[i] = widened(from[i]);
    }
};

/* Elements from `begin` on. */
struct narrow_each {
    int64_t count;
    uint16_t *to;
    const float *from;
    int64_t begin;
    bool by_chance;
    struct tr_chance chance;

    MEMBER uint16_t narrowed(int64_t i) const
    {
        const float x = from[i];
        if (!by_chance)
            return nearest_half(x);
        const uint32_t place = static_cast<uint32_t>(chance.first + i);
        const uint32_t mixed = mixed_bits(
            mixed_bits(place ^ static_cast<uint32_t>(chance.key)) + static_cast<uint32_t>(chance.key >> 32));
        return upper_half(x, mixed >> 16);
    }
    MEMBER void operator()(int64_t i) const
    {
        to[begin + i] = narrowed(begin + i);
    }
};

struct add_bfloat16_each {
    int64_t count;
    uint16_t *sum;
    const uint16_t *a, *b;

    MEMBER void operator()(int64_t i) const
    {
        sum[i] = nearest_half(widened(a[i]) + widened(b[i]));
    }
};

/* The first ones, by one block: all have read before any writes.
 * PTX of narrow_first: bar.sync */
KERNEL void AT_MOST_THREADS(BLOCK_THREADS) narrow_first(const PARAMS narrow_each work)
{
    const int64_t i = thread_index();
    const uint16_t narrowed = i < work.count ? work.narrowed(i) : 0;
    sync_block();
    if (i < work.count)
        work.to[i] = narrowed;
}

/* ---- the norm ---- */

/* Leaf number block_index(), by a thread for each lane, and their tree. */
struct square_params {
    double *out;
    const void *x;
    int64_t count, leaf;
    bool bfloat16;
};
struct square_shared {
    double lane[BLOCK_THREADS];
};

/* PTX of square_kernel: bar.sync */
KERNEL void AT_MOST_THREADS(BLOCK_THREADS) square_kernel(const PARAMS square_params p)
{
    SHARED(square_shared, shared);
    const int64_t begin = block_index() * p.leaf;
    const int64_t end = begin + p.leaf < p.count ? begin + p.leaf : p.count;
    const uint32_t me = thread_index();
    double sum = 0;
    for (int64_t i = begin + me; i < end; i += BLOCK_THREADS) {
        const float x =
            p.bfloat16 ? widened(static_cast<const uint16_t *>(p.x)[i]) : static_cast<const float *>(p.x)[i];
        sum = sum + static_cast<double>(x) * static_cast<double>(x);
    }
    shared.lane[me] = sum;
    for (uint32_t step = 1; step < BLOCK_THREADS; step *= 2) {
        sync_block();
        if (me % (2 * step) == 0)
            shared.lane[me] = shared.lane[me] + shared.lane[me + step];
    }
    if (me == 0)
        p.out[block_index()] = shared.lane[0];
}

/* ---- the optimizers ---- */

struct update_each {
    int64_t count;
    struct tr_update u;

    MEMBER void operator()(int64_t i) const
    {
        const float b1 = 0.9f, c1 = 1 - 0.9f, b2 = 0.95f, c2 = 1 - 0.95f;
        const struct tr_adamw a = u.at != nullptr ? *u.at : u.a;
        const float slope = (u.g != nullptr ? u.g[i] : widened(u.narrow[i])) * a.scale, old = u.p[i];
        if (u.m == nullptr) {
            u.p[i] = old - a.rate * slope;
            return;
        }
        const float first = b1 * u.m[i] + c1 * slope, second = b2 * u.v[i] + c2 * (slope * slope);
        const float deviation = root(second * a.correct2) + 1e-8f;
        const float change = first * a.correct1 / deviation + a.decay * old;
        u.m[i] = first;
        u.v[i] = second;
        u.p[i] = old - a.rate * change;
    }
};

/* ---- the set's functions ---- */

void tr_cuda_to_float(struct tr_context *x, float *to, const uint16_t *from, int64_t count)
{
    start_each(x, widen_each{ count, to, from });
}

/* Where the results replace the operands, what lies in [n, 2n) goes to the bytes of [n/2, n): these were read
 * before, by the kernel before. */
void tr_cuda_from_float(
    struct tr_context *x, uint16_t *to, const float *from, int64_t count, const struct tr_chance *by)
{
    narrow_each work = { count, to, from, 0, by != nullptr, by != nullptr ? *by : tr_chance{ 0, 0 } };
    if (static_cast<const void *>(to) != from) {
        start_each(x, work);
        return;
    }
    work.count = lesser(count, BLOCK_THREADS);
    start(x, KERNEL_FUNCTION(narrow_each, narrow_first), work, work.count > 0, BLOCK_THREADS);
    for (work.begin = BLOCK_THREADS; work.begin < count; work.begin *= 2) {
        work.count = lesser(work.begin, count - work.begin);
        start_each(x, work);
    }
}

void tr_cuda_add_bfloat16(
    struct tr_context *x, uint16_t *sum, const uint16_t *a, const uint16_t *b, int64_t count)
{
    start_each(x, add_bfloat16_each{ count, sum, a, b });
}

void tr_cuda_square_leaves(
    struct tr_context *x, double *out, const void *in, bool bfloat16, int64_t count, int64_t leaf)
{
    start(x, KERNEL_FUNCTION(square_params, square_kernel), square_params{ out, in, count, leaf, bfloat16 },
        quotient_up(count, leaf), BLOCK_THREADS);
}

void tr_cuda_update(struct tr_context *x, const struct tr_update *u)
{
    start_each(x, update_each{ u->count, *u });
}
