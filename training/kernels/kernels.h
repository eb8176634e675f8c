/* SPDX-License-Identifier: BSD-3-Clause */
/* kernels.h: what the trainer computes on arrays of float32, one function a computation.
 *
 * The golden program (training/reference/gpt.c) defines every bit: chains of fused multiply-adds in ascending
 * order, cut into chunks, trees over the chunks. A kernel may run these on any vectors and in any tiles, as
 * long as an element of the result stays the same expression. There is one set for each instruction set, and
 * all sets give the same bits; tests compare each with a plain reference.
 *
 * Kernels know nothing of ranks. What a rank holds of a larger sum, it says by `block`, `chunk` and `first`.
 * No kernel allocates: who calls gives `scratch`, aligned to 64 bytes, as much as the set asks for. Arrays
 * are contiguous, rows outermost; results may not overlap inputs, unless a kernel says so.
 *
 * A kernel has its place in a context. On the processor it is over when it returns. A set for a device may
 * only have begun it: then what follows in the same context waits for it, and a failure may show later. So
 * kernels return nothing, and the first failure stays in the context, for who runs the list to look at. */
#ifndef TRAINING_KERNELS_KERNELS_H
#define TRAINING_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* What comes behind a product in the same kernel, of a set that says so (gelu.behind_products), with the bits
 * of operations of their own. NULL: it does not. */
struct tr_then {
    const float *bias; /* [n]: it is added to each row of c */
    float *gelu; /* shaped as c: GELU of that */
    const float *slope; /* shaped as c: c is multiplied by the slope of GELU at it */
};

/* c[m][n] = a[m][k] b[k][n], or += with add: one addition of the finished sum. Element (i, j) of a is
 * a[i * a_row + j * a_column], one of which is 1; so for b. c has rows of c_row elements. k is cut into
 * `chunks` parts of `chunk` elements, of which the last may be short or empty; an empty one counts as +0.
 *
 * With `sequences`, k is of one of them: in a and b each begins where the one before ends. c becomes the tree
 * over their products, for which its rows lie side by side; or, if c_next is not 0, each product goes to a
 * place of its own, so many elements behind the one before. (A tree over n trees over a power of two of
 * chunks is one over all their chunks.)
 *
 * `then` is for one product of rows that are contiguous (a_column is 1), without add. */
struct tr_gemm {
    int64_t m, n, k;
    const float *a, *b;
    float *c;
    int64_t a_row, a_column, b_row, b_column, c_row;
    int64_t chunks, chunk;
    bool add;
    int64_t sequences, c_next; /* 0: there is one, which is no sum of any */
    struct tr_then then;
};

/* By what a sequence draws the elements that dropout leaves out: a key, its number, and the least word that
 * is kept; if that is 0, all are, and nothing is multiplied. */
enum { TR_DRAW_KEY, TR_DRAW_KEY_2, TR_DRAW_SEQUENCE, TR_DRAW_LEAST, TR_DRAW_WORDS };

/* Which of attention's probabilities are dropped on their way to the values. Those that are kept are
 * multiplied by `scale`; the sums that they are divided by are those of all. */
struct tr_unattended {
    const uint32_t *draws; /* [sequences][TR_DRAW_WORDS]; NULL: all are kept */
    int64_t layer, head; /* of the model; the first head that is here */
    float scale;
};

/* The shape of causal attention over some sequences, each for itself. Of each, some keys and some queries are
 * here: blocks of them, `tokens` keys from token `begin` on, `queries` from token `first` on. With
 * `separate_kv` there are q[queries][heads][size] and kv[tokens][heads][2][size]; else all are here, in
 * qkv[tokens][heads][3][size]: q is that, and kv is qkv + size. With `striped` these are places, and the
 * token in each is that of stripes.h.
 *
 * A call has the same part of each sequence, and a rank may have several: from an array of one sequence to
 * that of the next there are `by_queries` arrays in q, out, dout and lse, `by_keys` in kv, and `by_pairs` in
 * what is of these queries and these keys: dq, dkv, part and scores. */
struct tr_attention {
    int64_t tokens, heads, size, block; /* tokens of a block: an eighth of the sequence */
    int64_t first, queries;
    bool separate_kv;
    int64_t begin;
    float *scores; /* NULL, or for parts: [heads][queries][tokens], see `part` */
    bool striped;
    int64_t sequences, by_queries, by_keys, by_pairs;
    struct tr_unattended dropped;
};

/* A part of the first sequence, and how far it is to that of the next. */
enum { TR_MOST_PARTS = 16 };
struct tr_partial {
    float *p;
    int64_t next;
};

/* Rows of a sum, whose norm follows in the same kernel: sum = (a + bias) + b, which may be a or b. */
struct tr_summed {
    float *sum;
    const float *a, *bias, *b; /* bias: NULL for none */
};

/* Cells whose taps are wanted: `rows` rows of `side` cells. With a halo, x has a row more on either side. */
struct tr_grid {
    int64_t rows, side;
    bool halo;
};

/* Rows of `columns`, one for each token of each sequence, over which sums go: of each sequence by blocks, and
 * then a tree over the blocks. */
struct tr_tokens {
    int64_t sequences, tokens, columns, block;
};

/* Of a norm by groups of `size` neighbouring columns: a mean is over the `cells` of a whole picture, of which
 * `tokens` are here. */
struct tr_grouped {
    struct tr_tokens here;
    int64_t size, cells;
};

/* The embedding's gradient: of a table of which `rows` are here, from `first` on; summed over the sequences,
 * or with the sum of each, a leaf, for itself. */
struct tr_embedded {
    struct tr_tokens here;
    int64_t first, rows;
    bool leaves;
};

/* Where tokens stand: of each sequence there are `runs` of `tokens` neighbours, which begin with those of
 * `first`; or, with `striped`, the places of those tokens in stripes.h. The table may have more rows than
 * there are tokens, as it is cut into equal parts. */
struct tr_positions {
    int64_t sequences, runs, tokens, columns;
    int64_t context, first[2];
    bool striped;
    int64_t rows;
};

/* Queries, keys and values of some groups of heads, of tokens that stand where `at` says, whose columns and
 * rows nobody asks for. Of each group there are the queries of `share` heads, then its keys, then its values,
 * each of `size` channels. */
struct tr_rope {
    struct tr_positions at;
    int64_t groups, share, size;
};

/* Elements of the residual stream, of tokens that stand where `at` says, whose rows nobody asks for: those
 * that are kept are multiplied by `scale`, the others become +0. Which they are follows from the site in the
 * model, the token's place, the channel, and what each sequence draws by. */
struct tr_dropped {
    struct tr_positions at;
    int64_t site;
    float scale;
};

struct tr_adamw {
    float rate, decay, scale; /* scale: of the gradient, for clipping */
    float correct1, correct2; /* 1 / (1 - 0.9^t), 1 / (1 - 0.95^t), from float64 */
};

/* An update of `count` elements. */
struct tr_update {
    float *p, *m, *v; /* m: NULL for SGD */
    const float *g;
    const uint16_t *narrow; /* g in bfloat16, if that is NULL */
    int64_t count;
    struct tr_adamw a;
    const struct tr_adamw *at; /* NULL; of a device: where `a` lies in its memory when the update runs */
};

/* Rounding by chance: up with the probability that makes the mean what was rounded, by a hash of key and of
 * the element's place in its tensor, of which the first one here has place `first`. */
struct tr_chance {
    int64_t first;
    uint64_t key;
};

/* Pieces of `bytes` each, that lie apart: n[0] times n[1] times n[2] of them, so many bytes from each to the
 * next one in `to` and in `from`. */
struct tr_copy {
    int64_t n[3], to[3], from[3], bytes;
};

/* Floats, in whole lines of the cache: where parts of scratch begin. */
static inline int64_t tr_lines(int64_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* How many sums of a tree over n may wait at once: as many as n - 1 has bits. */
enum { TR_LEVELS = 32 };
static inline int64_t tr_levels(int64_t n)
{
    int64_t levels = 0;
    while ((n - 1) >> levels)
        levels++;
    return levels;
}

struct tr_backend; /* backend/backend.h */

/* Where kernels run. */
struct tr_context {
    const struct tr_kernels *k;
    void *self; /* of the set: NULL on the processor; of a device its stream and workspace */
    int status; /* 0, or what the set's first failure was */
};

struct tr_kernels {
    const char *name; /* generic, avx2, avx512 */
    bool free; /* the product's sums are in an order of its own: chunks are ignored */
    const char *(*words)(int status); /* for people; NULL: this set cannot fail */
    const struct tr_backend *backend; /* whose memory they work in: backend/; NULL: the host's */

    void (*gemm)(struct tr_context *, const struct tr_gemm *g, float *scratch);
    int64_t (*scratch_gemm)(const struct tr_gemm *g); /* floats, of the shape alone: pointers may be NULL */
    void (*copy)(struct tr_context *, void *to, const void *from, const struct tr_copy *c);
    void (*fill)(struct tr_context *, void *to, int byte, int64_t bytes); /* with this byte */

    /* Value j of n enters a tree that is summed as values come: `sum` becomes the sum of all that it
     * completes, and is kept in a level if there is more to come. With the last one, it is the sum of all n.
     * Levels are tr_levels(n) arrays of count elements. */
    void (*tree_in)(
        struct tr_context *, float *sum, float *const *level, int64_t count, int64_t j, int64_t n);
    /* to[sequences][count] = the tree over from[sequences][n][count]. */
    void (*fold)(
        struct tr_context *, float *to, const float *from, int64_t n, int64_t count, int64_t sequences);
    /* The same over at most TR_MOST_PARTS of them, each with a place of its own; those that have none are
     * +0. */
    void (*fold_parts)(struct tr_context *, const struct tr_partial *to, const struct tr_partial *from,
        int64_t n, int64_t count, int64_t sequences);

    struct {
        /* Rows of c elements. mean and scale (1 / deviation) are kept for the backward pass. */
        void (*forward)(struct tr_context *, float *y, float *mean, float *scale, const float *x,
            const float *w, const float *b, int64_t rows, int64_t c);
        void (*dx)(struct tr_context *, float *dx, const float *dy, const float *x, const float *w,
            const float *mean, const float *scale, int64_t rows, int64_t c);
        /* dw[sequences][columns], and so db. */
        void (*dw)(struct tr_context *, float *dw, float *db, const float *dy, const float *x,
            const float *mean, const float *scale, const struct tr_tokens *t);
        /* forward of s->sum, which it makes; NULL: this set does so by operations of their own. */
        void (*of_sum)(struct tr_context *, float *y, float *mean, float *scale, const struct tr_summed *s,
            const float *w, const float *b, int64_t rows, int64_t c);
    } layer_norm;

    /* The same without a mean and without b: scale is 1 / the root of the mean square. */
    struct {
        void (*forward)(struct tr_context *, float *y, float *scale, const float *x, const float *w,
            int64_t rows, int64_t c);
        void (*dx)(struct tr_context *, float *dx, const float *dy, const float *x, const float *w,
            const float *scale, int64_t rows, int64_t c);
        void (*dw)(struct tr_context *, float *dw, const float *dy, const float *x, const float *scale,
            const struct tr_tokens *t);
        void (*of_sum)(struct tr_context *, float *y, float *scale, const struct tr_summed *s, const float *w,
            int64_t rows, int64_t c);
    } rms_norm;

    /* sums[sequences][columns] of x, or of x times itself, a chain of fused multiply-adds. */
    void (*sum_tokens)(struct tr_context *, float *sums, const float *x, const struct tr_tokens *t);
    void (*sum_squares)(struct tr_context *, float *sums, const float *x, const struct tr_tokens *t);
    /* y of each token = the sum of its sequence / cells. `y` may be `sums` where a sequence has one token. */
    void (*mean)(struct tr_context *, float *y, const float *sums, float cells, const struct tr_tokens *t);

    /* Group norm: `sums` of x over all cells of a picture, and `squares` those of what was centred. */
    struct {
        void (*centre)(struct tr_context *, float *y, const float *x, const float *sums,
            const struct tr_grouped *g, float *scratch);
        void (*forward)(struct tr_context *, float *y, const float *x, const float *squares, const float *w,
            const float *b, const struct tr_grouped *g, float *scratch);
        void (*dw)(struct tr_context *, float *dw, float *db, const float *dy, const float *x,
            const float *squares, const struct tr_grouped *g, float *scratch);
        /* dw and db: of each picture, from all its cells. dx may be dy. */
        void (*dx)(struct tr_context *, float *dx, const float *dy, const float *x, const float *squares,
            const float *w, const float *dw, const float *db, const struct tr_grouped *g, float *scratch);
        int64_t (*scratch)(const struct tr_grouped *g);
    } group_norm;

    struct {
        /* bfloat16, in two bytes each, to float32 and back: to the nearest, ties to even, or by chance. A NaN
         * stays one. `to` of from_float may begin where `from` does. by: NULL for the nearest. */
        void (*to_float)(struct tr_context *, float *to, const uint16_t *from, int64_t count);
        void (*from_float)(
            struct tr_context *, uint16_t *to, const float *from, int64_t count, const struct tr_chance *by);
        /* The sum in float32, rounded to the nearest; sum may be a or b. */
        void (*add)(struct tr_context *, uint16_t *sum, const uint16_t *a, const uint16_t *b, int64_t count);
    } bfloat16;

    struct {
        void (*forward)(struct tr_context *, float *y, const float *x, int64_t count);
        void (*dx)(struct tr_context *, float *dx, const float *dy, const float *x,
            int64_t count); /* dx may be dy */
        bool behind_products; /* gemm does what `then` says */
    } gelu;
    /* y of each pair of `chunk` gates and as many numbers beside them; dx has both gradients. */
    struct {
        void (*forward)(struct tr_context *, float *y, const float *x, int64_t pairs, int64_t chunk);
        void (*dx)(
            struct tr_context *, float *dx, const float *dy, const float *x, int64_t pairs, int64_t chunk);
    } swiglu;
    void (*add)(struct tr_context *, float *out, const float *a, const float *b,
        int64_t count); /* out may be a or b */
    void (*add_bias)(struct tr_context *, float *out, const float *x, const float *b, int64_t rows,
        int64_t columns); /* out may be x */

    /* Queries and keys are turned by the places of their tokens, and qkv[head][3][size] has for each head
     * the keys and values of its group. dx is the way back: the tree over the heads of a group. */
    struct {
        void (*forward)(
            struct tr_context *, float *qkv, const float *grouped, const struct tr_rope *r, float *scratch);
        void (*dx)(
            struct tr_context *, float *grouped, const float *qkv, const struct tr_rope *r, float *scratch);
        int64_t (*scratch)(const struct tr_rope *r);
    } rope;

    struct {
        /* Of each sequence lse[heads][queries] is kept. dq is the sum over the keys that are here, dkv over
         * the queries; +0 where there is none. */
        void (*whole)(struct tr_context *, float *out, float *lse, const float *q, const float *kv,
            const struct tr_attention *s, float *scratch);
        /* What the keys that are here give, when others are elsewhere: part[heads][queries * (size + 2)], for
         * each head the largest scores, the sums, and the values that no sum has divided yet; 0 for queries
         * that see none, or of stripes, whose partials are all joined, a score far below all others. With
         * s->scores the products of queries and keys are written there, +0 behind the mask, and dx reads them
         * and makes none. merge joins n of them, in the order of their keys, into the first, and gives the
         * result; its scratch is 2 * queries. */
        void (*part)(struct tr_context *, float *part, const float *q, const float *kv,
            const struct tr_attention *s, float *scratch);
        void (*merge)(struct tr_context *, float *out, float *lse, const struct tr_partial *part, int64_t n,
            const struct tr_attention *s, float *scratch);
        void (*dx)(struct tr_context *, float *dq, float *dkv, const float *dout, const float *out,
            const float *lse, const float *q, const float *kv, const struct tr_attention *s, float *scratch);
        int64_t (*scratch)(const struct tr_attention *s); /* floats: of whole, part and dx */
    } attention;

    /* to[t][tap][c], or [t][c][tap] with the channels outside: what the nine taps of each cell of a grid read
     * of x[t][c], +0 beyond the border; with direction -1 the cells whose taps read it. */
    void (*patches)(struct tr_context *, float *to, const float *x, const struct tr_grid *g, int64_t channels,
        bool channels_outside, int64_t direction);

    struct {
        /* out[tokens][c] = row (token - first) of w[rows][c], plus +0; +0 where that row is not here. */
        void (*forward)(struct tr_context *, float *out, const float *w, const uint16_t *token,
            int64_t tokens, int64_t c, int64_t first, int64_t rows);
        /* dw[rows][columns], or with leaves [sequences][rows][columns]: of a sequence each row's tokens
         * ascending in each block, then the tree over blocks. */
        void (*dw)(struct tr_context *, float *dw, const float *dy, const uint16_t *token,
            const struct tr_embedded *e, float *scratch);
        int64_t (*scratch)(const struct tr_embedded *e);
        /* y = x + the row of w[rows][columns] of each token's position; y may be x. Backward each sequence
         * has a leaf dw[rows][columns], which is dy + 0, and +0 where no token is, or it is elsewhere. */
        void (*position)(
            struct tr_context *, float *y, const float *x, const float *w, const struct tr_positions *p);
        void (*position_dw)(struct tr_context *, float *dw, const float *dy, const struct tr_positions *p);
        /* What stands in a place may be dropped: draws[sequences][TR_DRAW_WORDS]; y may be x. The way back is
         * the same. */
        void (*dropout)(
            struct tr_context *, float *y, const float *x, const uint32_t *draws, const struct tr_dropped *d);
    } embed;

    /* The softmax over a vocabulary of which `columns` are here, from `first` on, in chunks of `chunk`. Rows
     * are `stride` apart; what lies behind `columns` in a row is not looked at, and becomes +0 in dx. */
    struct {
        void (*max)(
            struct tr_context *, float *max, const float *x, int64_t rows, int64_t columns, int64_t stride);
        /* wanted = x[target] + 0 where that is here, else +0. Then x = exp(x - max), and sum is that of the
         * row, by chunks and their tree over `chunks` (empty ones are +0). */
        void (*forward)(struct tr_context *, float *x, float *sum, float *wanted, const float *max,
            const uint16_t *target, int64_t rows, int64_t columns, int64_t stride, int64_t first,
            int64_t chunk, int64_t chunks);
        /* x = (x / sum, less 1 at the target) * scale */
        void (*dx)(struct tr_context *, float *x, const float *sum, const uint16_t *target, int64_t rows,
            int64_t columns, int64_t stride, int64_t first, float scale);
        /* leaf[sequences][leaves]: for each block the loss log(sum) + max - wanted of its tokens, in float64,
         * ascending; 0 where a sequence has fewer blocks. */
        void (*loss)(struct tr_context *, double *leaf, int64_t leaves, const float *sum, const float *max,
            const float *wanted, const struct tr_tokens *t);
    } softmax;

    /* out[i] = the sum of squares of leaf i in float64, by 256 lanes and their tree: count elements, float32
     * or bfloat16, in leaves of `leaf` elements. */
    void (*square_leaves)(
        struct tr_context *, double *out, const void *x, bool bfloat16, int64_t count, int64_t leaf);
    void (*update)(struct tr_context *, const struct tr_update *u);
};

/* All of an array. */
static inline void tr_copy_bytes(struct tr_context *x, void *to, const void *from, int64_t bytes)
{
    const struct tr_copy all = { { 1, 1, 1 }, { 0 }, { 0 }, bytes };
    x->k->copy(x, to, from, &all);
}

/* The best set for this machine, or the named one; NULL where this machine or this build has none of that
 * name. */
const struct tr_kernels *tr_kernels_best(void);
const struct tr_kernels *tr_kernels_named(const char *name);

/* The set that a plan is made for: the best or the named one, or, where this machine has none of that name,
 * one that asks for the same scratch. */
const struct tr_kernels *tr_kernels_planned(const char *name);

#endif
