/* SPDX-License-Identifier: BSD-3-Clause */
/* train_gemm.cu: which tiles a product is made of, and how many blocks share the tree of each.
 *
 * Nothing here changes a bit, so the choice may be as rough as it likes: large tiles where there are enough
 * of them to fill the multiprocessors, and splits where there are not. */
#include "training/kernels/cuda/gemm.cuh"

enum { TILES = 3 };

/* The tiles of one size: their side lengths, and how many find room on a multiprocessor. */
struct tile_size {
    int64_t m, n, resident;
};
static const struct tile_size sizes[TILES] = { { 128, 128, 2 }, { 128, 64, 3 }, { 64, 64, 6 } };

static int64_t batch_of(const gemm_params &p)
{
    return p.batch[0] * p.batch[1];
}

static int64_t tiles_of(const gemm_params &p, const struct tile_size &size)
{
    return quotient_up(p.m, size.m) * quotient_up(p.n, size.n) * batch_of(p);
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

static int tile_for(const gemm_params &p, int64_t multiprocessors)
{
    if (p.n <= 64)
        return p.m <= 64 ? 2 : 1;
    const int64_t splits = p.mask != NO_MASK || p.chunks < 8 ? 1 : 8;
    if (tiles_of(p, sizes[0]) * splits >= multiprocessors)
        return 0;
    return tiles_of(p, sizes[1]) < multiprocessors ? 2 : 1;
}

/* Chunks of a block: a power of two, so that it computes a whole subtree. What fills the machine best, where
 * the larger subtree wins unless it is a tenth behind. */
static int64_t subtree_for(const gemm_params &p, const struct tr_cuda *c, const struct tile_size &size)
{
    int64_t most = 1;
    while (most < p.chunks && most < MOST_SUBTREE)
        most *= 2;
    const int64_t tiles = tiles_of(p, size), room = size.resident * c->multiprocessors;
    int64_t best = most;
    double best_filled = 0;
    for (int64_t subtree = most; subtree * 16 >= most && subtree >= 1; subtree /= 2) {
        const int64_t splits = quotient_up(p.chunks, subtree), blocks = tiles * splits;
        const double filled =
            static_cast<double>(blocks) / static_cast<double>(quotient_up(blocks, room) * room);
        if (splits > 1 && (batch_of(p) > 1 || p.mask != NO_MASK || splits * p.m * p.n > c->workspace_floats))
            break;
        if (filled > best_filled * 1.1) {
            best = subtree;
            best_filled = filled;
        }
    }
    return best;
}

/* c = the trees over the roots that are there for each element, or += with add. */
struct fold_splits {
    int64_t count;
    float *c;
    const float *roots;
    int64_t n, c_row, splits;
    bool add;

    MEMBER void operator()(int64_t i) const
    {
        counter<float> tree;
        float sum = 0;
        for (int64_t s = 0; s < splits; s++)
            sum = tree.after(roots[s * count + i], s, splits);
        float *to = c + i / n * c_row + i % n;
        *to = add ? *to + sum : sum;
    }
};

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
    } else {
        low.n = cut;
        high.n -= cut;
        high.b += cut * (p.b_along ? p.b_row : 1);
        high.c += cut;
    }
    tr_cuda_multiply(x, low);
    tr_cuda_multiply(x, high);
}

void tr_cuda_multiply(struct tr_context *x, const gemm_params &wanted)
{
    const struct tr_cuda *c = cuda_of(x);
    gemm_params p = wanted;
    const int tile = tile_for(p, c->multiprocessors);
    p.subtree = subtree_for(p, c, sizes[tile]);
    p.splits = quotient_up(p.chunks, p.subtree);
    /* More chunks than a block adds up: the roots of one product have their room in the workspace. */
    if (p.splits > 1 && p.batch[0] > 1) {
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
    if (p.splits > 1 && p.splits * p.m * p.n > c->workspace_floats) {
        multiply_halves(x, p);
        return;
    }
    const struct batch_step *s = p.step;
    p.a_quads = has_quads(p.a, p.a_row, s[0].a, s[1].a) && (!p.a_along || p.chunk % 4 == 0);
    p.b_quads = has_quads(p.b, p.b_row, s[0].b, s[1].b) && (!p.b_along || p.chunk % 4 == 0);
    if (p.splits > 1) {
        p.c = c->workspace;
        p.c_row = p.n;
        p.split_step = p.m * p.n;
        p.add = false;
    }
    p.c_quads = has_quads(p.c, p.c_row, s[0].c, s[1].c) && p.split_step % 4 == 0;
    if (tile == 0)
        start_as<128, 128>(x, p);
    else if (tile == 1)
        start_as<128, 64>(x, p);
    else
        start_as<64, 64>(x, p);
    if (p.splits > 1)
        start_each(x, fold_splits{ p.m * p.n, wanted.c, p.c, p.n, wanted.c_row, p.splits, wanted.add });
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
        start_each(x, fold_splits{ g->m * g->n, g->c, scratch, g->n, g->c_row, g->sequences, g->add });
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
