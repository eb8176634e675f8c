/* SPDX-License-Identifier: BSD-3-Clause */
/* train_move.cu: arrays that are copied, filled and folded, and what the taps of a convolution read, as
 * tree.h and patches.h of training/kernels/ define them. */
#include "training/kernels/cuda/launch.cuh"

/* Pieces of `units`, of 16 bytes or fewer: as many as begin of everything are multiples of. */
template <class Unit> struct copy_each {
    int64_t count;
    void *to;
    const void *from;
    struct tr_copy c;
    int64_t units; /* of a piece */

    MEMBER void operator()(int64_t i) const
    {
        const int64_t piece = i / units, n2 = piece % c.n[2], n1 = piece / c.n[2] % c.n[1],
                      n0 = piece / c.n[2] / c.n[1], at = i % units * static_cast<int64_t>(sizeof(Unit));
        const char *source =
            static_cast<const char *>(from) + n0 * c.from[0] + n1 * c.from[1] + n2 * c.from[2] + at;
        char *target = static_cast<char *>(to) + n0 * c.to[0] + n1 * c.to[1] + n2 * c.to[2] + at;
        *reinterpret_cast<Unit *>(target) = *reinterpret_cast<const Unit *>(source);
    }
};

template <class Unit>
static void copy_units(struct tr_context *x, void *to, const void *from, const struct tr_copy *c)
{
    const int64_t units = c->bytes / static_cast<int64_t>(sizeof(Unit));
    start_each(x, copy_each<Unit>{ c->n[0] * c->n[1] * c->n[2] * units, to, from, *c, units });
}

template <class Unit> struct fill_each {
    int64_t count;
    Unit *to;
    Unit with;

    MEMBER void operator()(int64_t i) const
    {
        to[i] = with;
    }
};

/* All of these are multiples of no more than this power of two, up to 16. */
static uint64_t common_unit(uint64_t these)
{
    uint64_t unit = 1;
    while (unit < 16 && (these & unit) == 0)
        unit *= 2;
    return unit;
}

/* ---- trees ---- */

/* Levels are the digits of a binary number. */
struct tree_in_each {
    int64_t count;
    float *sum, *level[TR_LEVELS];
    int64_t j, n;

    MEMBER void operator()(int64_t i) const
    {
        float s = sum[i];
        int l = 0;
        for (; j >> l & 1; l++)
            s = level[l][i] + s;
        if (j + 1 < n)
            level[l][i] = s;
        else
            for (l = first_digit() + 1; n >> l; l++)
                if (n >> l & 1)
                    s = level[l][i] + s;
        sum[i] = s;
    }
    MEMBER int first_digit() const
    {
        int l = 0;
        while (!(n >> l & 1))
            l++;
        return l;
    }
};

struct fold_each {
    int64_t count;
    float *to;
    const float *from;
    int64_t n, each;

    MEMBER void operator()(int64_t i) const
    {
        counter<float> tree;
        float sum = 0;
        for (int64_t g = 0; g < n; g++)
            sum = tree.after(from[(i / each * n + g) * each + i % each], g, n);
        to[i] = sum;
    }
};

struct fold_parts_each {
    int64_t count;
    struct tr_partial to, from[TR_MOST_PARTS];
    int64_t n, each;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t sequence = i / each, j = i % each;
        counter<float> tree;
        float sum = 0;
        for (int64_t g = 0; g < n; g++)
            sum = tree.after(from[g].p != nullptr ? from[g].p[sequence * from[g].next + j] : 0.0f, g, n);
        to.p[sequence * to.next + j] = sum;
    }
};

/* ---- convolutions ---- */

/* Element i of `to`, which is [t][tap][c], or [t][c][tap]. */
struct patches_each {
    int64_t count;
    float *to;
    const float *x;
    struct tr_grid g;
    int64_t channels;
    bool channels_outside;
    int64_t direction;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t t = i / (9 * channels), rest = i % (9 * channels);
        const int64_t tap = channels_outside ? rest % 9 : rest / channels;
        const int64_t c = channels_outside ? rest / 9 : rest % channels;
        const int64_t above = g.halo ? 1 : 0, rows = g.rows + 2 * above;
        const int64_t down = above + t / g.side + direction * (tap / 3 - 1);
        const int64_t right = t % g.side + direction * (tap % 3 - 1);
        const bool inside = down >= 0 && down < rows && right >= 0 && right < g.side;
        to[i] = inside ? x[(down * g.side + right) * channels + c] : 0;
    }
};

/* ---- the set's functions ---- */

void tr_cuda_copy(struct tr_context *x, void *to, const void *from, const struct tr_copy *c)
{
    uint64_t all =
        reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | static_cast<uint64_t>(c->bytes);
    for (int d = 0; d < 3; d++)
        if (c->n[d] > 1)
            all |= static_cast<uint64_t>(c->to[d]) | static_cast<uint64_t>(c->from[d]);
    const uint64_t unit = common_unit(all);
    if (unit == 16)
        copy_units<packet>(x, to, from, c);
    else if (unit >= 4)
        copy_units<uint32_t>(x, to, from, c);
    else if (unit == 2)
        copy_units<uint16_t>(x, to, from, c);
    else
        copy_units<uint8_t>(x, to, from, c);
}

void tr_cuda_fill(struct tr_context *x, void *to, int byte, int64_t bytes)
{
    const uint64_t unit = common_unit(reinterpret_cast<uintptr_t>(to) | static_cast<uint64_t>(bytes));
    const uint8_t with = static_cast<uint8_t>(byte);
    const uint32_t word = with * UINT32_C(0x01010101);
    if (unit == 16)
        start_each(x,
            fill_each<packet>{ bytes / 16, static_cast<packet *>(to), packet{ { word, word, word, word } } });
    else if (unit >= 4)
        start_each(x, fill_each<uint32_t>{ bytes / 4, static_cast<uint32_t *>(to), word });
    else
        start_each(x, fill_each<uint8_t>{ bytes, static_cast<uint8_t *>(to), with });
}

void tr_cuda_tree_in(
    struct tr_context *x, float *sum, float *const *level, int64_t count, int64_t j, int64_t n)
{
    tree_in_each work = { count, sum, {}, j, n };
    for (int64_t l = 0; l < tr_levels(n); l++)
        work.level[l] = level[l];
    start_each(x, work);
}

void tr_cuda_fold(
    struct tr_context *x, float *to, const float *from, int64_t n, int64_t count, int64_t sequences)
{
    start_each(x, fold_each{ count * sequences, to, from, n, count });
}

void tr_cuda_fold_parts(struct tr_context *x, const struct tr_partial *to, const struct tr_partial *from,
    int64_t n, int64_t count, int64_t sequences)
{
    fold_parts_each work = { count * sequences, *to, {}, n, count };
    for (int64_t i = 0; i < n && i < TR_MOST_PARTS; i++)
        work.from[i] = from[i];
    start_each(x, work);
}

void tr_cuda_patches(struct tr_context *x, float *to, const float *from, const struct tr_grid *g,
    int64_t channels, bool channels_outside, int64_t direction)
{
    start_each(x, patches_each{ g->rows * g->side * 9 * channels, to, from, *g, channels, channels_outside,
                      direction });
}
