/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm.cuh: the product of matrices on a device, with the bits of training/kernels/gemm.h.
 *
 * A block computes M x N elements of c; a thread has 8 x 8 of these in registers, as 2 x 2 squares of four by
 * four. What the threads multiply lies in shared memory, DEPTH of k at a time and twice: while one part is
 * multiplied, the next one is on its way from memory by registers.
 *
 * At the end of a chunk the 64 sums of a thread go into a binary counter in local memory, which is the tree
 * over the chunks: one store for each sum and chunk, where the chunk took that many multiply-adds. Tiles, and
 * how the tree is split between blocks, change no bit, so that both are free to fill the machine.
 *
 * Where k ends before its last part of DEPTH does, a is filled up with -0 and b with +0: that product is -0,
 * which changes no sum, not even one that is -0. */
#ifndef TRAINING_KERNELS_CUDA_GEMM_CUH
#define TRAINING_KERNELS_CUDA_GEMM_CUH
#include "training/kernels/cuda/launch.cuh"

enum {
    DEPTH = 16,
    SIDE = 8, /* of the square that a thread computes */
    SQUARES = SIDE * 2, /* quads of it */
    SUBTREE_LEVELS = 6 /* of the counter: a block adds up 64 chunks, and more of them are split */
};

/* What is not wanted or not there, in products of attention; see attention.h. Row t of the queries sees the
 * keys up to t + shift. */
enum mask {
    NO_MASK,
    SEEN_TILES, /* rows are queries, columns keys: tiles that no query of theirs sees are left out */
    KEY_CHUNKS, /* rows are queries: chunks of keys behind those of their block are empty */
    QUERY_CHUNKS /* rows are keys: chunks of queries before these are empty */
};

/* Of a batch, the products number (i, j) begin so many elements further on. */
struct batch_step {
    int64_t a, b, c;
};

/* What comes behind a product, element by element of c. */
struct gemm_then : tr_then {
    MEMBER bool any() const
    {
        return bias != nullptr || gelu != nullptr || slope != nullptr;
    }

    MEMBER void one(float *c, int64_t at, int64_t column) const
    {
        float x = c[at];
        if (bias != nullptr)
            x = x + bias[column];
        if (gelu != nullptr)
            gelu[at] = gelu_of(x);
        c[at] = slope != nullptr ? x * gelu_slope(slope[at]) : x;
    }

    MEMBER void four(float *c, int64_t at, int64_t column) const
    {
        quad x = load_quad(c + at);
        if (bias != nullptr)
            x = quad{ x.x + bias[column], x.y + bias[column + 1], x.z + bias[column + 2],
                x.w + bias[column + 3] };
        if (gelu != nullptr)
            store_quad(gelu + at, quad{ gelu_of(x.x), gelu_of(x.y), gelu_of(x.z), gelu_of(x.w) });
        if (slope != nullptr) {
            const quad s = load_quad(slope + at);
            x = quad{ x.x * gelu_slope(s.x), x.y * gelu_slope(s.y), x.z * gelu_slope(s.z),
                x.w * gelu_slope(s.w) };
        }
        store_quad(c + at, x);
    }
};

struct gemm_params {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    bool a_along, b_along; /* their k is contiguous: rows of a, columns of b */
    int64_t a_row, b_row, c_row; /* between these, or else between columns of a, rows of b */
    int64_t chunks, chunk;
    int64_t subtree, splits, split_step; /* chunks that a block adds up, blocks for each tile */
    int64_t batch[2];
    struct batch_step step[2];
    int64_t mask, shift, block;
    bool add;
    bool a_quads, b_quads, c_quads; /* 16 bytes can be loaded at once */
    gemm_then then; /* where k of a is contiguous, of no batch */
};

/* Starts it, in any tiles. Who calls fills in what a product is, and of a batch: all up to a, b, c and their
 * steps; how it is split, and quads, are found here. Sides and strides are below 2^31. */
void tr_cuda_multiply(struct tr_context *x, const gemm_params &p);

/* What a block works on. It lies in shared memory, since all registers of its threads are taken. */
struct gemm_place {
    bool wanted;
    int64_t a, b, c; /* where the product begins in each */
    int32_t m0, n0;
    int32_t first, end, begin, stop; /* chunks of this block, and those of them that are not empty */
};

/* ROWS x DEPTH elements of an operand: `along` says that its k is contiguous, and so a quad lies along k. */
template <int ROWS, int THREADS, bool along> struct operand {
    enum { QUADS = ROWS * DEPTH / 4 / THREADS };
    quad held[QUADS];

    static MEMBER int32_t row_of(int32_t i)
    {
        return along ? i / 2 % ROWS : i % (ROWS / 4) * 4;
    }
    static MEMBER int32_t k_of(int32_t i)
    {
        return along ? (i % 2 + 2 * (i / (2 * ROWS))) * 4 : i / (ROWS / 4);
    }

    /* Four elements, of which `left` are there. */
    static MEMBER quad some(const float *from, int32_t left, float fill)
    {
        quad q = { fill, fill, fill, fill };
        if (left > 0)
            q.x = from[0];
        if (left > 1)
            q.y = from[1];
        if (left > 2)
            q.z = from[2];
        if (left > 3)
            q.w = from[3];
        return q;
    }

    /* From row0 and k on; there are `rows`, and k goes to k_end. What lies inside needs no such look. */
    template <bool inside>
    MEMBER void fetch(const float *base, int64_t stride, int32_t rows, int32_t row0, int32_t k, int32_t k_end,
        float fill, bool quads)
    {
        const int32_t thread = anew(static_cast<int32_t>(thread_index()));
        UNROLL
        for (int32_t n = 0; n < QUADS; n++) {
            const int32_t i = thread + n * THREADS;
            const int32_t row = row0 + row_of(i), at = k + k_of(i);
            const int64_t before = static_cast<int64_t>(along ? row : at) * static_cast<int32_t>(stride);
            const float *from = base + before + (along ? at : row);
            int32_t left = along ? k_end - at : rows - row;
            if (row >= rows || at >= k_end)
                left = 0;
            if (inside || (quads && left > 3))
                held[n] = load_quad(from);
            else
                held[n] = some(from, left, fill);
        }
    }

    MEMBER void put(float (*to)[ROWS + 4]) const
    {
        UNROLL
        for (int32_t n = 0; n < QUADS; n++) {
            const int32_t i = static_cast<int32_t>(thread_index()) + n * THREADS, row = row_of(i),
                          k = k_of(i);
            if (along) {
                to[k][row] = held[n].x;
                to[k + 1][row] = held[n].y;
                to[k + 2][row] = held[n].z;
                to[k + 3][row] = held[n].w;
            } else {
                store_quad(&to[k][row], held[n]);
            }
        }
    }
};

template <int M, int N> struct gemm_shared {
    alignas(16) float a[2][DEPTH][M + 4], b[2][DEPTH][N + 4];
    gemm_place at;
};

/* Which part of which product this block computes; false if none that is wanted. */
template <int M, int N> INLINE bool find_place(const gemm_params &p, gemm_place &at)
{
    const uint32_t across = static_cast<uint32_t>((p.n + N - 1) / N);
    const uint32_t tiles = across * static_cast<uint32_t>((p.m + M - 1) / M), tile = block_index() % tiles;
    int64_t number = block_index() / tiles;
    const int64_t split = number % p.splits;
    number /= p.splits;
    const int64_t z1 = number % p.batch[1], z0 = number / p.batch[1];
    at.m0 = static_cast<int32_t>(tile / across * M);
    at.n0 = static_cast<int32_t>(tile % across * N);
    if (p.mask == SEEN_TILES && at.n0 > at.m0 + M - 1 + p.shift)
        return false;
    at.a = z0 * p.step[0].a + z1 * p.step[1].a;
    at.b = z0 * p.step[0].b + z1 * p.step[1].b;
    at.c = z0 * p.step[0].c + z1 * p.step[1].c + split * p.split_step;

    int64_t first = split * p.subtree, end = first + p.subtree < p.chunks ? first + p.subtree : p.chunks;
    int64_t begin = first, stop = (p.k + p.chunk - 1) / p.chunk;
    if (p.mask == KEY_CHUNKS) {
        const int64_t seen = at.m0 + M + p.shift;
        const int64_t blocks = seen > 0 ? (seen + p.block - 1) / p.block : 0;
        stop = stop < blocks ? stop : blocks;
    }
    if (p.mask == QUERY_CHUNKS && at.m0 > p.shift && begin < (at.m0 - p.shift) / p.block)
        begin = (at.m0 - p.shift) / p.block;
    at.first = static_cast<int32_t>(first);
    at.end = static_cast<int32_t>(end);
    at.begin = static_cast<int32_t>(begin < end ? begin : end);
    at.stop = static_cast<int32_t>(stop < end ? stop : end);
    return true;
}

/* What one thread has of a tile: sums. A warp has 64 rows and 32 columns of the tile; a lane four rows in
 * each half of these rows, and four columns in each half of these columns. */
template <int M, int N> struct tile_sums {
    enum { THREADS = M * N / (SIDE * SIDE), WARPS_DOWN = M / 64 };
    float sum[SIDE][SIDE];
    int32_t row, column; /* the first of each, in the tile */

    MEMBER void find_own()
    {
        const int32_t thread = anew(static_cast<int32_t>(thread_index())), warp = thread / 32,
                      lane = thread % 32;
        row = warp % WARPS_DOWN * 64 + lane / 4 * 4;
        column = warp / WARPS_DOWN * 32 + lane % 4 * 4;
    }
    static MEMBER int32_t row_of(int i)
    {
        return i / 4 * 32 + i % 4;
    }
    static MEMBER int32_t column_of(int j)
    {
        return j / 4 * 16 + j % 4;
    }

    MEMBER void clear()
    {
        find_own();
        UNROLL
        for (int i = 0; i < SIDE; i++) {
            UNROLL
            for (int j = 0; j < SIDE; j++)
                sum[i][j] = 0;
        }
    }

    MEMBER void multiply(const float (*x)[M + 4], const float (*y)[N + 4])
    {
        UNROLL
        for (int d = 0; d < DEPTH; d++) {
            const quad rows[2] = { load_quad(&x[d][row]), load_quad(&x[d][row + 32]) };
            const quad columns[2] = { load_quad(&y[d][column]), load_quad(&y[d][column + 16]) };
            const float u[SIDE] = { rows[0].x, rows[0].y, rows[0].z, rows[0].w, rows[1].x, rows[1].y,
                rows[1].z, rows[1].w };
            const float v[SIDE] = { columns[0].x, columns[0].y, columns[0].z, columns[0].w, columns[1].x,
                columns[1].y, columns[1].z, columns[1].w };
            UNROLL
            for (int i = 0; i < SIDE; i++) {
                UNROLL
                for (int j = 0; j < SIDE; j++)
                    sum[i][j] = fused(u[i], v[j], sum[i][j]);
            }
        }
    }

    /* Of row i so many elements of k as it sees. */
    MEMBER void multiply_seen(const float (*x)[M + 4], const float (*y)[N + 4], const int32_t *sees)
    {
        ROLLED
        for (int d = 0; d < DEPTH; d++) {
            UNROLL
            for (int i = 0; i < SIDE; i++) {
                const float u = x[d][row + row_of(i)];
                UNROLL
                for (int j = 0; j < SIDE; j++)
                    if (d < sees[i])
                        sum[i][j] = fused(u, y[d][column + column_of(j)], sum[i][j]);
            }
        }
    }
};

/* And what is on its way into shared memory. */
template <int M, int N, bool a_along, bool b_along, bool inside> struct gemm_tile : tile_sums<M, N> {
    using tile_sums<M, N>::sum;
    using tile_sums<M, N>::row;
    using tile_sums<M, N>::column;
    operand<M, tile_sums<M, N>::THREADS, a_along> a;
    operand<N, tile_sums<M, N>::THREADS, b_along> b;

    /* What lies `from` elements behind the begin of a chunk is on its way. */
    MEMBER void fetch(const gemm_params &p, const gemm_place &at, int32_t chunk, int32_t from)
    {
        const int32_t size = static_cast<int32_t>(p.chunk), all = static_cast<int32_t>(p.k);
        const int32_t k = chunk * size + from, k_end = (chunk + 1) * size < all ? (chunk + 1) * size : all;
        a.template fetch<inside>(
            p.a + at.a, p.a_row, static_cast<int32_t>(p.m), at.m0, k, k_end, -0.0f, p.a_quads);
        b.template fetch<inside>(
            p.b + at.b, p.b_row, static_cast<int32_t>(p.n), at.n0, k, k_end, 0.0f, p.b_quads);
    }

    MEMBER void put(gemm_shared<M, N> &shared, int now) const
    {
        a.put(shared.a[now]);
        b.put(shared.b[now]);
    }

    /* The counter: as that of numbers.cuh, of 64 sums at once. */
    MEMBER void count(quad (*waiting)[SQUARES], int32_t i, bool last)
    {
        int32_t level = 0;
        ROLLED
        for (; i >> level && (last || (i >> level & 1)); level++) {
            if (!(i >> level & 1))
                continue;
            UNROLL
            for (int q = 0; q < SQUARES; q++) {
                const quad left = waiting[level][q];
                float *s = &sum[q / 2][q % 2 * 4];
                s[0] = left.x + s[0];
                s[1] = left.y + s[1];
                s[2] = left.z + s[2];
                s[3] = left.w + s[3];
            }
        }
        if (last)
            return;
        UNROLL
        for (int q = 0; q < SQUARES; q++) {
            float *s = &sum[q / 2][q % 2 * 4];
            waiting[level][q] = quad{ s[0], s[1], s[2], s[3] };
            s[0] = s[1] = s[2] = s[3] = 0;
        }
    }

    MEMBER void store(const gemm_params &p, const gemm_place &at)
    {
        this->find_own();
        UNROLL
        for (int q = 0; q < SQUARES; q++) {
            const int i = q / 2, j = q % 2 * 4;
            const int32_t down = at.m0 + row + this->row_of(i), along = at.n0 + column + this->column_of(j);
            if (down >= p.m || along >= p.n)
                continue;
            float *to = p.c + at.c + static_cast<int64_t>(down) * p.c_row + along;
            if (p.c_quads && !p.add && along + 3 < p.n) {
                store_quad(to, quad{ sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3] });
                continue;
            }
            UNROLL
            for (int e = 0; e < 4; e++)
                if (along + e < p.n)
                    to[e] = p.add ? to[e] + sum[i][j + e] : sum[i][j + e];
        }
    }

    /* When all of the tile is stored, a loop over it needs no registers beside those that the sums had. */
    MEMBER void finish(const gemm_params &p, const gemm_place &at) const
    {
        sync_block();
        ROLLED
        for (int32_t i = static_cast<int32_t>(thread_index()); i < M * N / 4; i += this->THREADS) {
            const int32_t down = at.m0 + i / (N / 4), along = at.n0 + i % (N / 4) * 4;
            const int64_t first = at.c + static_cast<int64_t>(down) * p.c_row + along;
            if (down >= p.m)
                break;
            if (p.c_quads && along + 3 < p.n)
                p.then.four(p.c, first, along);
            else
                for (int32_t e = 0; e < 4 && along + e < p.n; e++)
                    p.then.one(p.c, first + e, along + e);
        }
    }
};

/* How many of k are there: the last chunk may be short. */
INLINE int32_t chunk_size(const gemm_params &p, const gemm_place &at, int32_t chunk)
{
    const int64_t left = p.k - chunk * p.chunk, size = left < p.chunk ? left : p.chunk;
    return chunk < at.begin || chunk >= at.stop ? 0 : static_cast<int32_t>(size);
}

/* inside: all tiles lie in the matrices, chunks are multiples of DEPTH and quads can be loaded everywhere.
 * PTX of gemm_kernel: fma.rn.f32 bar.sync ld.shared.v4 ld.global.v4
 * STACK of gemm_kernel: 1536, the binary counter */
template <int M, int N, bool a_along, bool b_along, bool inside>
KERNEL void RESIDENT(M *N / (SIDE * SIDE), M *N >= 128 * 128   ? 2
                                           : M * N >= 128 * 64 ? 3
                                                               : 6) gemm_kernel(const PARAMS gemm_params p)
{
    using shared_parts = gemm_shared<M, N>;
    SHARED(shared_parts, shared);
    const gemm_place &at = shared.at;
    if (thread_index() == 0)
        shared.at.wanted = find_place<M, N>(p, shared.at);
    sync_block();
    if (!at.wanted)
        return;
    quad waiting[SUBTREE_LEVELS][SQUARES];
    gemm_tile<M, N, a_along, b_along, inside> tile;
    tile.clear();
    int now = 0;
    if (at.begin < at.stop) {
        tile.fetch(p, at, at.begin, 0);
        tile.put(shared, 0);
    }
    sync_block();
    for (int32_t chunk = at.first; chunk < at.end; chunk++) {
        const int32_t size = chunk_size(p, at, chunk);
        for (int32_t from = 0; from < size; from += DEPTH) {
            const bool ends = from + DEPTH >= size, fetching = !ends || chunk + 1 < at.stop;
            if (fetching)
                tile.fetch(p, at, ends ? chunk + 1 : chunk, ends ? 0 : from + DEPTH);
            tile.multiply(shared.a[now], shared.b[now]);
            if (fetching) {
                now ^= 1;
                tile.put(shared, now);
                sync_block();
            }
        }
        if (at.end - at.first > 1)
            tile.count(waiting, chunk - at.first, chunk == at.end - 1);
    }
    tile.store(p, at);
    if (a_along && p.then.any())
        tile.finish(p, at);
}

#endif
