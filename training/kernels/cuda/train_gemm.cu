/* SPDX-License-Identifier: BSD-3-Clause */
/* train_gemm.cu: products in the tiles that tune.h chooses, and trees that several blocks share. */
#include "training/kernels/cuda/gemm.cuh"
#include "training/kernels/cuda/tune.h"

static_assert(1 << SUBTREE_LEVELS == TR_CUDA_SUBTREE, "as many levels as that many chunks have");

static int64_t batch_of(const gemm_params &p)
{
    return p.batch[0] * p.batch[1];
}

template <int M, int N, bool a_along, bool b_along, bool inside>
static void start_tiles(struct tr_context *x, const gemm_params &p)
{
    start(x, KERNEL_FUNCTION(gemm_params, gemm_kernel<M, N, a_along, b_along, inside>), p,
        quotient_up(p.m, M) * quotient_up(p.n, N) * batch_of(p) * p.splits, M * N / (SIDE * SIDE));
}

/* Both operands with k across, or a alone along it, or both: these are the products of training. Others have
 * no kernel of their own for tiles that lie inside. */
template <int M, int N> static void start_as(struct tr_context *x, const gemm_params &p)
{
    const bool inside = p.a_quads && p.b_quads && p.m % M == 0 && p.n % N == 0 && p.chunk % DEPTH == 0 &&
                        p.k == p.chunk * p.chunks;
    if (p.a_along && p.b_along)
        (inside ? start_tiles<M, N, true, true, true> : start_tiles<M, N, true, true, false>)(x, p);
    else if (p.a_along)
        (inside ? start_tiles<M, N, true, false, true> : start_tiles<M, N, true, false, false>)(x, p);
    else if (p.b_along)
        start_tiles<M, N, false, true, false>(x, p);
    else
        (inside ? start_tiles<M, N, false, false, true> : start_tiles<M, N, false, false, false>)(x, p);
}

/* c = the trees over the roots that are there for each element, or += with add. */
struct fold_splits {
    int64_t count;
    float *c;
    const float *roots;
    int64_t n, c_row, splits;
    bool add;
    gemm_then then;

    MEMBER void operator()(int64_t i) const
    {
        counter<float> tree;
        float sum = 0;
        for (int64_t s = 0; s < splits; s++)
            sum = tree.after(roots[s * count + i], s, splits);
        const int64_t at = i / n * c_row + i % n;
        c[at] = add ? c[at] + sum : sum;
        if (then.any())
            then.one(c, at, i % n);
    }
};

/* What is behind the elements of c that are so much further on, and so many columns. */
static void go_on(gemm_then &then, int64_t elements, int64_t columns)
{
    then.bias = then.bias != nullptr ? then.bias + columns : nullptr;
    then.gelu = then.gelu != nullptr ? then.gelu + elements : nullptr;
    then.slope = then.slope != nullptr ? then.slope + elements : nullptr;
}

/* The same product in two halves of its longer side. */
static void multiply_halves(struct tr_context *x, const gemm_params &p)
{
    if (p.m == 1 && p.n == 1) {
        fail(x, TR_CUDA_INVALID);
        return;
    }
    gemm_params low = p, high = p;
    const int64_t side = p.m > p.n ? p.m : p.n;
    const int64_t cut = side > 128 ? quotient_up(side, 256) * 128 : quotient_up(side, 2);
    if (p.m > p.n) {
        low.m = cut;
        high.m -= cut;
        high.a += cut * (p.a_along ? p.a_row : 1);
        high.c += cut * p.c_row;
        go_on(high.then, cut * p.c_row, 0);
    } else {
        low.n = cut;
        high.n -= cut;
        high.b += cut * (p.b_along ? p.b_row : 1);
        high.c += cut;
        go_on(high.then, cut, cut);
    }
    tr_cuda_multiply(x, low);
    tr_cuda_multiply(x, high);
}

/* In these tiles. */
static void multiply_as(struct tr_context *x, const gemm_params &wanted, const struct tr_cuda_choice &as)
{
    const struct tr_cuda *c = cuda_of(x);
    gemm_params p = wanted;
    p.splits = as.splits;
    p.subtree = tr_cuda_subtree(p.chunks, p.splits);
    const struct batch_step *s = p.step;
    p.a_quads = has_quads(p.a, p.a_row, s[0].a, s[1].a) && (!p.a_along || p.chunk % 4 == 0);
    p.b_quads = has_quads(p.b, p.b_row, s[0].b, s[1].b) && (!p.b_along || p.chunk % 4 == 0);
    if (p.splits > 1) {
        p.c = c->workspace;
        p.c_row = p.n;
        p.split_step = p.m * p.n;
        p.add = false;
        p.then = {};
    }
    p.c_quads = has_quads(p.c, p.c_row, s[0].c, s[1].c) && p.split_step % 4 == 0 &&
                has_quads(p.then.gelu, p.c_row, 0, 0) && has_quads(p.then.slope, p.c_row, 0, 0);
    if (as.tile == 0)
        start_as<128, 128>(x, p);
    else if (as.tile == 1)
        start_as<128, 64>(x, p);
    else
        start_as<64, 64>(x, p);
    if (p.splits > 1)
        start_each(
            x, fold_splits{ p.m * p.n, wanted.c, p.c, p.n, wanted.c_row, p.splits, wanted.add, wanted.then });
}

enum { TRIES = 3 };
/* The shortest of some times. */
static int64_t time_of(struct tr_context *x, const gemm_params &p, const struct tr_cuda_choice &as)
{
    struct tr_cuda *c = cuda_of(x);
    int64_t best = 0;
    multiply_as(x, p, as); /* not measured: the first start of a kernel takes longer */
    for (int i = 0; i < TRIES; i++) {
        const int64_t before = c->tuning->now(c);
        multiply_as(x, p, as);
        const int64_t took = c->tuning->now(c) - before;
        best = i == 0 || took < best ? took : best;
    }
    return best;
}

/* Each candidate writes the same into c, whose bits do not tell how often it was computed. */
static void tune(struct tr_context *x, const gemm_params &p, const struct tr_cuda_shape &shape,
    const struct tr_cuda_room &room)
{
    struct tr_cuda_tuning *t = cuda_of(x)->tuning;
    struct tr_cuda_choice as[TR_CUDA_CANDIDATES];
    const int n = tr_cuda_candidates(&shape, &room, as);
    struct tr_cuda_tuned best = { shape, as[0], time_of(x, p, as[0]) };
    for (int i = 1; i < n; i++) {
        const int64_t ns = time_of(x, p, as[i]);
        if (ns < best.ns) {
            best.choice = as[i];
            best.ns = ns;
        }
    }
    if (x->status == 0)
        t->tuned[t->count++] = best;
}

/* What is added to c is added once. */
static bool is_tuned_now(const struct tr_cuda *c, const gemm_params &p, const struct tr_cuda_shape &shape)
{
    const struct tr_cuda_tuning *t = c->tuning;
    return t != nullptr && t->now != nullptr && !p.add && t->count < TR_CUDA_MOST_TUNED &&
           tr_cuda_find(t, &shape) == nullptr;
}

void tr_cuda_multiply(struct tr_context *x, const gemm_params &wanted)
{
    const struct tr_cuda *c = cuda_of(x);
    gemm_params p = wanted;
    const struct tr_cuda_shape shape = { p.m, p.n, p.k, p.chunks, batch_of(p), static_cast<int32_t>(p.mask),
        p.a_along, p.b_along };
    const struct tr_cuda_room room = { c->multiprocessors, c->workspace_floats };
    const struct tr_cuda_choice as = tr_cuda_choose(&shape, &room, c->tuning);
    /* More chunks than a block adds up: the roots of one product have their room in the workspace. */
    if (as.splits > 1 && p.batch[0] > 1) {
        p.batch[0] = 1;
        for (int64_t i = 0; i < wanted.batch[0]; i++) {
            tr_cuda_multiply(x, p);
            p.a += p.step[0].a;
            p.b += p.step[0].b;
            p.c += p.step[0].c;
        }
        return;
    }
    /* More than it has room for. */
    if (as.splits > 1 && as.splits * p.m * p.n > c->workspace_floats) {
        multiply_halves(x, p);
        return;
    }
    if (p.m > 0 && p.n > 0 && is_tuned_now(c, p, shape))
        tune(x, p, shape, room);
    else
        multiply_as(x, p, as);
}

/* A tree over trees over a power of two of whole chunks is one over all chunks: then they are one product. */
static bool is_one_tree(const struct tr_gemm *g)
{
    return (g->chunks & (g->chunks - 1)) == 0 && g->k == g->chunks * g->chunk;
}

static void multiply_sequences(struct tr_context *x, gemm_params p, const struct tr_gemm *g, float *scratch)
{
    if (!g->c_next && is_one_tree(g)) {
        p.k *= g->sequences;
        p.chunks *= g->sequences;
        tr_cuda_multiply(x, p);
        return;
    }
    p.batch[0] = g->sequences;
    p.step[0] = { g->k * g->a_column, g->k * g->b_row, g->c_next };
    if (!g->c_next) {
        p.c = scratch;
        p.c_row = g->n;
        p.step[0].c = g->m * g->n;
        p.add = false;
    }
    tr_cuda_multiply(x, p);
    if (!g->c_next)
        start_each(x, fold_splits{ g->m * g->n, g->c, scratch, g->n, g->c_row, g->sequences, g->add, {} });
}

void tr_cuda_gemm(struct tr_context *x, const struct tr_gemm *g, float *scratch)
{
    gemm_params p = {};
    p.m = g->m;
    p.n = g->n;
    p.k = g->k;
    p.a = g->a;
    p.b = g->b;
    p.c = g->c;
    p.a_along = g->a_column == 1;
    p.b_along = g->b_column != 1;
    p.a_row = p.a_along ? g->a_row : g->a_column;
    p.b_row = p.b_along ? g->b_column : g->b_row;
    p.c_row = g->c_row;
    p.chunks = g->chunks;
    p.chunk = g->chunk;
    p.batch[0] = p.batch[1] = 1;
    p.block = 1;
    p.mask = NO_MASK;
    p.add = g->add;
    p.then = gemm_then{ g->then };
    if (g->sequences > 0)
        multiply_sequences(x, p, g, scratch);
    else
        tr_cuda_multiply(x, p);
}

/* Roots of split trees have their room in the workspace. */
int64_t tr_cuda_scratch_gemm(const struct tr_gemm *g)
{
    return g->sequences > 0 && !g->c_next && !is_one_tree(g) ? g->sequences * g->m * g->n : 0;
}
