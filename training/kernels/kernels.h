/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.h: what the trainer computes on arrays of float32, one function a computation.
 *
 * The golden program (training/reference/gpt.c) defines every bit: chains of fused multiply-adds in ascending
 * order, cut into chunks, trees over the chunks. A kernel may run these on any vectors and in any tiles, as
 * long as an element of the result stays the same expression. There is one set for each instruction set, and
 * all sets give the same bits; tests compare each with a plain reference.
 *
 * Kernels know nothing of ranks. What a rank holds of a larger sum, it says by `block`, `chunk` and `first`.
 * No kernel allocates: who calls gives `scratch`, aligned to 64 bytes, where tr_scratch_* asks for it. Arrays
 * are contiguous, rows outermost; results may not overlap inputs, unless a kernel says so. */
#ifndef TRAINING_KERNELS_KERNELS_H
#define TRAINING_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* c[m][n] = a[m][k] b[k][n], or += with add: one addition of the finished sum. Element (i, j) of a is
 * a[i * a_row + j * a_column], one of which is 1; so for b. c has rows of c_row elements. k is cut into
 * `chunks` parts of `chunk` elements, of which the last may be short or empty; an empty one counts as +0. */
struct tr_gemm {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t a_row, a_column, b_row, b_column, c_row;
    int64_t chunks, chunk;
    bool add;
};

/* The shape of causal attention over one sequence, of which some keys and some queries are here: blocks of
 * them, `tokens` keys from token `begin` on, `queries` from token `first` on. With `separate_kv` there are
 * q[queries][heads][size] and kv[tokens][heads][2][size]; else all are here, in qkv[tokens][heads][3][size]:
 * q is that, and kv is qkv + size. With `striped` these are places, and the token in each is that of
 * stripes.h. */
struct tr_attention {
    int64_t tokens, heads, size, block; /* tokens of a block: an eighth of the sequence */
    int64_t first, queries;
    bool separate_kv;
    int64_t begin;
    float *scores; /* NULL, or for parts: [heads][queries][tokens], see attention_part */
    bool striped;
};

/* Cells whose taps are wanted: `rows` rows of `side` cells. With a halo, x has a row more on either side. */
struct tr_grid {
    int64_t rows, side;
    bool halo;
};

/* Of each column of group norm's gradient: one over the deviation of its group, and the means over the group
 * of the gradients, and of these times what was normed. */
struct tr_group_norm {
    const float *scale, *sum, *dot;
};

struct tr_adamw {
    float rate, decay, scale; /* scale: of the gradient, for clipping */
    float correct1, correct2; /* 1 / (1 - 0.9^t), 1 / (1 - 0.95^t), from float64 */
};

struct tr_kernels {
    const char *name; /* generic, avx2, avx512 */
    bool free; /* the product's sums are in an order of its own: chunks are ignored */

    void (*gemm)(const struct tr_gemm *g, float *scratch);

    /* Rows of c elements. mean and scale (1 / deviation) are kept for the backward pass. */
    void (*layer_norm)(float *y, float *mean, float *scale, const float *x, const float *w, const float *b,
        int64_t rows, int64_t c);
    void (*layer_norm_dx)(float *dx, const float *dy, const float *x, const float *w, const float *mean,
        const float *scale, int64_t rows, int64_t c);
    /* The leaf of one sequence, or of the blocks of it that are here: tokens is a multiple of block, and a
     * tree runs over the blocks. */
    void (*layer_norm_dw)(float *dw, float *db, const float *dy, const float *x, const float *mean,
        const float *scale, int64_t tokens, int64_t c, int64_t block);
    /* out[columns] = the sum of the rows of x: by blocks, then the tree. */
    void (*sum_tokens)(float *out, const float *x, int64_t tokens, int64_t columns, int64_t block);

    /* The same of products: a chain of fma(x, y scale, ..), scale one for each column, or NULL. */
    void (*sum_products)(float *out, const float *x, const float *y, const float *scale, int64_t tokens,
        int64_t columns, int64_t block);
    /* Rows of c elements, from each of which its group's mean was taken; scale is one for each column. */
    void (*group_norm)(float *y, const float *x, const float *scale, const float *w, const float *b,
        int64_t rows, int64_t c);
    void (*group_norm_dx)(float *dx, const float *dy, const float *x, const struct tr_group_norm *n,
        const float *w, int64_t rows, int64_t c); /* dx may be dy */

    /* bfloat16, in two bytes each, to float32 and back: to the nearest, ties to even; or by chance, up with
     * the probability that makes the mean x, by a hash of key and of the element's place in its tensor, of
     * which from[0] has place `first`. A NaN stays one. `to` of narrow may begin where `from` does. */
    void (*to_float)(float *to, const uint16_t *from, int64_t count);
    void (*to_bfloat16)(uint16_t *to, const float *from, int64_t count);
    void (*to_bfloat16_by_chance)(
        uint16_t *to, const float *from, int64_t first, int64_t count, uint64_t key);

    void (*gelu)(float *y, const float *x, int64_t count);
    void (*gelu_dx)(float *dx, const float *dy, const float *x, int64_t count); /* dx may be dy */
    void (*add)(float *out, const float *a, const float *b, int64_t count); /* out may be a or b */
    void (*add_bias)(float *out, const float *x, const float *b, int64_t rows, int64_t columns); /* or x */

    /* One sequence. lse[heads][queries] is kept. dq is the sum over the keys that are here, dkv over the
     * queries; +0 where there is none. scratch: tr_scratch_attention. */
    void (*attention)(float *out, float *lse, const float *q, const float *kv, const struct tr_attention *s,
        float *scratch);
    /* What the keys that are here give, when others are elsewhere: part[heads][queries * (size + 2)], for
     * each head the largest scores, the sums, and the values that no sum has divided yet; 0 for queries that
     * see none, or of stripes, whose partials are all joined, a score far below all others. With s->scores
     * the products of queries and keys are written there, +0 behind the mask, and attention_dx reads them and
     * makes none. merge joins n of them, in the order of their keys, into the first, and gives the result.
     * scratch: tr_scratch_attention; 2 * queries for merge. */
    void (*attention_part)(
        float *part, const float *q, const float *kv, const struct tr_attention *s, float *scratch);
    void (*attention_merge)(
        float *out, float *lse, float *const *part, int64_t n, const struct tr_attention *s, float *scratch);
    void (*attention_dx)(float *dq, float *dkv, const float *dout, const float *out, const float *lse,
        const float *q, const float *kv, const struct tr_attention *s, float *scratch);

    /* to[t][tap][c], or [t][c][tap] with the channels outside: what the nine taps of each cell of a grid read
     * of x[t][c], +0 beyond the border; with direction -1 the cells whose taps read it. */
    void (*patches)(float *to, const float *x, const struct tr_grid *g, int64_t channels,
        bool channels_outside, int64_t direction);

    /* out[tokens][c] = row (token - first) of w[rows][c], plus +0; +0 where that row is not here. */
    void (*embed)(float *out, const float *w, const uint16_t *token, int64_t tokens, int64_t c, int64_t first,
        int64_t rows);
    /* dw[rows][c]: the leaf of the sequence: each row's tokens ascending in each block, then the tree over
     * blocks. */
    void (*embed_dw)(float *dw, const float *dy, const uint16_t *token, int64_t tokens, int64_t c,
        int64_t first, int64_t rows, int64_t block);

    /* The softmax over a vocabulary of which `columns` are here, from `first` on, in chunks of `chunk`. Rows
     * are `stride` apart; what lies behind `columns` in a row is not looked at, and becomes +0 in
     * softmax_dx. */
    void (*row_max)(float *max, const float *x, int64_t rows, int64_t columns, int64_t stride);
    /* wanted = x[target] + 0 where that is here, else +0. Then x = exp(x - max), and sum is that of the
     * row, by chunks and their tree over `chunks` (empty ones are +0). */
    void (*softmax)(float *x, float *sum, float *wanted, const float *max, const uint16_t *target,
        int64_t rows, int64_t columns, int64_t stride, int64_t first, int64_t chunk, int64_t chunks);
    /* x = (x / sum, less 1 at the target) * scale */
    void (*softmax_dx)(float *x, const float *sum, const uint16_t *target, int64_t rows, int64_t columns,
        int64_t stride, int64_t first, float scale);
    /* leaf[i] = the loss log(sum) + max - wanted of the tokens of block i, in float64, ascending. */
    void (*loss)(
        double *leaf, const float *sum, const float *max, const float *wanted, int64_t tokens, int64_t block);

    /* out[i] = the sum of squares of leaf i in float64, by 256 lanes and their tree: count elements in leaves
     * of `leaf` elements. */
    void (*square_leaves)(double *out, const float *x, int64_t count, int64_t leaf);
    void (*square_leaves_of_bfloat16)(double *out, const uint16_t *x, int64_t count, int64_t leaf);
    void (*adamw)(float *p, float *m, float *v, const float *g, int64_t count, const struct tr_adamw *a);
    void (*sgd)(float *p, const float *g, int64_t count, float rate, float scale);
};

/* The best set for this machine, or the named one; NULL where this machine or this build has none of that
 * name. */
const struct tr_kernels *tr_kernels_best(void);
const struct tr_kernels *tr_kernels_named(const char *name);

/* Floats of scratch, for any set. */
int64_t tr_scratch_gemm(int64_t m, int64_t n, int64_t k);
int64_t tr_scratch_attention(const struct tr_attention *s);

#endif
