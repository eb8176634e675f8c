/* SPDX-License-Identifier: BSD-3-Clause */
/* gpt.c: the golden GPT. One rank, one thread, nothing but the C library: what the parallel trainer must
 * equal.
 *
 *   cc -O2 -ffp-contract=off gpt.c -lm -o gpt        ./gpt steps=50
 *   cc -O2 -ffp-contract=off -DFP64 gpt.c -lm -o gpt64        ./gpt64 check=64
 *
 * The model is GPT-2 (Radford et al. 2019) in the manner of Karpathy's llm.c: embedding; L layers of layer
 * norm, causal attention, layer norm and a feed-forward part with GELU; layer norm; a head. Forward,
 * backward and AdamW are written by hand.
 *
 * This text is also the definition of the *canonical order*: in which order each sum is formed, so that any
 * number of ranks can form the same sum and get the same bits. Four rules:
 *
 *   chain   acc = fma(a[k], b[k], acc) from +0, k ascending; one rounding for each k
 *   tree    of k values: pairs (0,1)(2,3).., an odd one passes up, until one is left. A part of 2, 4 or 8
 *           neighbours is a subtree, so whoever holds these can fold them alone and hand on one value
 *   cut     a sum that ranks may share is cut into 8 chunks; a chain in each chunk, a tree over the 8. The
 *           channels (K) of attention's projection and of fc2, the rows that a gradient of qkv, fc1 and head
 *           sums over, the vocabulary of the softmax: 8 equal chunks, the vocabulary as if it were padded to
 *           a multiple of 64. Tokens: 8 blocks of T / 8 tokens of each sequence, then the tree over the
 *           sequences of the batch. With stripes=1 a block has no neighbours, but every eighth token
 *   lanes   sums along a row that no rank shares: lane i % 16 takes element i, ascending; then the tree of
 *           16 lanes. The norm of the gradient has 256, since it sums up more in one go
 *
 *      T = 8 blocks of a sequence      b0  b1  b2  b3  b4  b5  b6  b7      each: tokens in ascending order
 *                                        \ /     \ /     \ /     \ /
 *      context parallel, 4 ranks         r0      r1      r2      r3       each: a subtree
 *                                          \    /          \    /
 *      context parallel, 2 ranks             r0              r1
 *                                                \        /
 *      then the tree over the batch             sequence 0 .. B-1         data parallel ranks: subtrees again
 *
 * Where one summand is there and all others are +0, any order gives the same bits, but -0 becomes +0: so "+
 * 0" stands in such places. Every layout has the dimension that tensor parallelism cuts outermost: qkv has
 * rows [H][3][C / H], and what projects back (proj, fc2) lies as [K][C]. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FP64
typedef double real;
#define FMA fma
#define ROOT sqrt
#else
typedef float real;
#define FMA fmaf
#define ROOT sqrtf
#endif

/* The same code for machines with vectors of eight: faster, and the same bits, as each fma is written by
 * name. */
#if defined __x86_64__ && defined __GNUC__ && defined __linux__ && !defined __clang__ &&                     \
    !defined __SANITIZE_THREAD__
#define CLONES __attribute__((target_clones("fma", "default")))
#else
#define CLONES
#endif

enum { CHUNKS = 8, LANES = 16, SQUARE_LANES = 256 };

/* ---- what is run ---- */

static long L = 4, C = 64, H = 4, T = 64, V = 256,
            B = 8; /* layers, channels, heads, context, vocabulary, sequences */
static long steps = 10, tied = 1, sgd = 0, seed = 1, check = 0, delay = 0;
static long parts = 1; /* of a sequence: attention sees no other part than its own */
static long stripes; /* 1: a block has every eighth token, so that each rank's see as many keys */
static long bf16, stochastic; /* 1: mixed precision; and parameters are rounded by chance */
static double lr = 1e-3, clip = 1, decay = 0.1;
static double dropout; /* so much of what enters the residual stream, and of attention, is left out */
static long curve, warmup, until; /* of the rate */
static double least;
static long eval,
    batches = 4; /* every so many steps, the loss of so many batches of the last tenth of the text */
static const char *data_path, *grads_path, *params_path;
static long head_size, block; /* C / H; tokens of a block */
static real score_scale; /* 1 / the root of head_size */

/* ---- numbers: exp, tanh and log whose bits no C library decides ---- */

#ifdef FP64
#define exponential exp
#define logarithm log
#else
/* 2^k e^f with k = round(x / ln 2), f from a polynomial (Cephes' expf); 0 below -87, so that no subnormal
 * appears. */
static real exponential(real x)
{
    float z = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float k = FMA(z, 1.44269504f, 12582912.0f) - 12582912.0f;
    float f = FMA(k, -0.693145751953125f, z);
    f = FMA(k, -1.42860682e-6f, f);
    float p = 1.9875691500e-4f;
    p = FMA(p, f, 1.3981999507e-3f);
    p = FMA(p, f, 8.3334519073e-3f);
    p = FMA(p, f, 4.1665795894e-2f);
    p = FMA(p, f, 1.6666665459e-1f);
    p = FMA(p, f, 5.0000001201e-1f);
    p = FMA(p, f * f, f) + 1.0f;
    union {
        uint32_t bits;
        float number;
    } power = { (uint32_t)((int)k + 127) << 23 };
    return x < -87.0f ? 0.0f : p * power.number;
}
/* By way of double: its last bits, where C libraries differ, are lost in the rounding. */
static real logarithm(real x)
{
    return (float)log((double)x);
}
#endif

static real hyperbolic_tangent(real x)
{
    return 1 - 2 / (exponential(2 * x) + 1);
}

/* ---- mixed precision: what bf16=1 changes ----
 *
 * Parameters, what a token has for each channel, and the gradients of both are numbers of bfloat16, the upper
 * half of a float. Each operation computes in float32, and its result is rounded, once. The masters that the
 * optimizer updates, its m and v, the means, scales and log-sum-exps of tokens, the softmax's numerators, and
 * sums of gradients before they are whole stay float32. */

/* The upper half of x + add, whose carry rounds up; a NaN stays one. */
static real upper_half(real x, uint32_t add)
{
    union {
        float number;
        uint32_t bits;
    } u = { (float)x };
    u.bits = (x != x ? u.bits | 0x400000 : u.bits + add) & 0xFFFF0000u;
    return u.number;
}
/* The nearest, of two that are as near the even one. */
static real nearest(real x)
{
    union {
        float number;
        uint32_t bits;
    } u = { (float)x };
    return bf16 ? upper_half(x, 0x7FFF + (u.bits >> 16 & 1)) : x;
}
static void narrow(real *x, long count)
{
    for (long i = 0; bf16 && i < count; i++)
        x[i] = nearest(x[i]);
}

/* ---- sums ---- */

/* The tree over n rows of width elements that lie `stride` apart; the sum is then in the first row. */
CLONES static void tree(real *x, long n, long stride, long width)
{
    for (long step = 1; step < n; step *= 2)
        for (long i = 0; i + step < n; i += 2 * step)
            for (long j = 0; j < width; j++)
                x[i * stride + j] = x[i * stride + j] + x[(i + step) * stride + j];
}

static real sum_row(const real *x, long n)
{
    real lane[LANES] = { 0 };
    for (long i = 0; i < n; i++)
        lane[i % LANES] += x[i];
    tree(lane, LANES, 1, 1);
    return lane[0];
}

static real dot_row(const real *x, const real *y, long n)
{
    real lane[LANES] = { 0 };
    for (long i = 0; i < n; i++)
        lane[i % LANES] = FMA(x[i], y[i], lane[i % LANES]);
    tree(lane, LANES, 1, 1);
    return lane[0];
}

/* out[M][N] = A B, where element (i, k) of A is a[i * a_row + k * a_column], and so for B. The sum over K is
 * cut into chunks of `chunk` elements, the last ones short or empty: a chain in each, a tree over all. */
typedef struct {
    const real *at;
    long row, column;
} matrix;

CLONES static void multiply(real *out, long M, long N, long K, matrix a, matrix b, long chunks, long chunk)
{
    real *sum = malloc(sizeof(real) * (size_t)(chunks * N)), *rows = malloc(sizeof(real) * (size_t)(K * N));
    if (!sum || !rows)
        abort();
    for (long k = 0; k < K; k++) /* rows of b in one piece, however it lies */
        for (long j = 0; j < N; j++)
            rows[k * N + j] = b.at[k * b.row + j * b.column];
    for (long i = 0; i < M; i++) {
        memset(sum, 0, sizeof(real) * (size_t)(chunks * N));
        for (long k = 0; k < K; k++) {
            real *acc = sum + k / chunk * N, x = a.at[i * a.row + k * a.column];
            for (long j = 0; j < N; j++)
                acc[j] = FMA(x, rows[k * N + j], acc[j]);
        }
        tree(sum, chunks, N, N);
        memcpy(out + i * N, sum, sizeof(real) * (size_t)N);
    }
    free(sum), free(rows);
}

static matrix plain(const real *x, long columns)
{
    return (matrix){ x, columns, 1 };
}
static matrix transposed(const real *x, long columns)
{
    return (matrix){ x, 1, columns };
}

/* out[M][N] = A[M][K] B[K][N], the sum in one chain, and in 8 chunks of K. */
static void multiply_whole(real *out, long M, long N, long K, matrix a, matrix b)
{
    multiply(out, M, N, K, a, b, 1, K);
}
static void multiply_cut(real *out, long M, long N, long K, matrix a, matrix b)
{
    multiply(out, M, N, K, a, b, CHUNKS, K / CHUNKS);
}

/* out[m] = the sum of the rows of x[T][m]: by blocks of tokens, then the tree. */
CLONES static void sum_tokens(real *out, const real *x, long m)
{
    real *part = calloc((size_t)(CHUNKS * m), sizeof(real));
    if (!part)
        abort();
    for (long t = 0; t < T; t++)
        for (long j = 0; j < m; j++)
            part[t / block * m + j] += x[t * m + j];
    tree(part, CHUNKS, m, m);
    memcpy(out, part, sizeof(real) * (size_t)m);
    free(part);
}

/* Which token stands in place t. Stripes stand in the order 0 4 2 6 1 5 3 7: a half, or a quarter, of the
 * places has every second, or every fourth, token. */
static long token_at(long t)
{
    long b = t / block;
    return stripes ? t % block * CHUNKS + ((b & 1) << 2 | (b & 2) | b >> 2) : t;
}

/* How many rows of the vocabulary are in a chunk. */
static long vocabulary_chunk(void)
{
    return (V + 63) / 64 * 64 / CHUNKS;
}

/* ---- parameters ---- */

enum {
    LN1_WEIGHT,
    LN1_BIAS,
    QKV,
    QKV_BIAS,
    PROJ,
    PROJ_BIAS,
    LN2_WEIGHT,
    LN2_BIAS,
    FC1,
    FC1_BIAS,
    FC2,
    FC2_BIAS,
    OF_LAYER
};
enum { WTE, WPE, FIRST_LAYER };

typedef struct {
    char name[48];
    long rows, columns; /* columns is 1 for biases and layer norms */
    long offset; /* of its first element in the flat array */
    double deviation; /* of the initial values; 0: all are `first` */
    real first;
} tensor;

static tensor *tensors;
static long n_tensors, n_elements;
static real *parameter, *momentum, *variance;
static real *rounded; /* bf16=1: the parameters as operations read them */
static real *grad; /* of one sequence, later of the batch */
static real **counters; /* level i: the sum of 2^i sequences, which waits for its neighbour */

static void add_tensor(const char *name, long layer, long rows, long columns, double deviation, real first)
{
    tensor *t = &tensors[n_tensors++];
    if (layer < 0)
        snprintf(t->name, sizeof t->name, "%s", name);
    else
        snprintf(t->name, sizeof t->name, "layer%ld.%s", layer, name);
    t->rows = rows, t->columns = columns, t->offset = n_elements, t->deviation = deviation, t->first = first;
    n_elements += rows * columns;
}

static long of_layer(long layer, long which)
{
    return FIRST_LAYER + layer * OF_LAYER + which;
}
static long final_weight(void)
{
    return of_layer(L, 0);
}
/* With tied embeddings the head has no values of its own, but a gradient of its own. */
static long head(void)
{
    return final_weight() + 2;
}

static void list_tensors(void)
{
    tensors = calloc((size_t)(FIRST_LAYER + L * OF_LAYER + 3), sizeof *tensors);
    double project = 0.02 / sqrt(2.0 * (double)L);
    add_tensor("wte", -1, V, C, 0.02, 0);
    add_tensor("wpe", -1, T, C, 0.02, 0);
    for (long l = 0; l < L; l++) {
        add_tensor("ln1.weight", l, C, 1, 0, 1);
        add_tensor("ln1.bias", l, C, 1, 0, 0);
        add_tensor("qkv.weight", l, 3 * C, C, 0.02, 0);
        add_tensor("qkv.bias", l, 3 * C, 1, 0, 0);
        add_tensor("proj.weight", l, C, C, project, 0);
        add_tensor("proj.bias", l, C, 1, 0, 0);
        add_tensor("ln2.weight", l, C, 1, 0, 1);
        add_tensor("ln2.bias", l, C, 1, 0, 0);
        add_tensor("fc1.weight", l, 4 * C, C, 0.02, 0);
        add_tensor("fc1.bias", l, 4 * C, 1, 0, 0);
        add_tensor("fc2.weight", l, 4 * C, C, project, 0);
        add_tensor("fc2.bias", l, C, 1, 0, 0);
    }
    add_tensor("lnf.weight", -1, C, 1, 0, 1);
    add_tensor("lnf.bias", -1, C, 1, 0, 0);
    add_tensor("head.weight", -1, V, C, 0.02, 0);
}

/* SplitMix64: 64 bits that depend on all bits of x (Steele, Lea, Flood 2014). */
static uint64_t hash(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* Nearly normal with deviation 1, a function of (seed, tensor, element): the sum of eight numbers of 16
 * bits, less its mean. Integers until the last step, so that each machine and each rank gets the same. */
static double normal(long which, long element)
{
    uint64_t key = hash(hash((uint64_t)seed) + (uint64_t)which) + 2 * (uint64_t)element;
    int64_t sum = 0;
    for (int half = 0; half < 2; half++)
        for (uint64_t bits = hash(key + (uint64_t)half), i = 0; i < 4; i++, bits >>= 16)
            sum += (int64_t)(bits & 0xFFFF);
    return (double)(2 * sum - 8 * 65535) / (2 * 65536.0 * 0.816496580927726); /* the root of 8 / 12 */
}

static void initialise(void)
{
    for (long t = 0; t < n_tensors; t++)
        for (long i = 0; i < tensors[t].rows * tensors[t].columns; i++) {
            real *p = parameter + tensors[t].offset + i;
            *p = tensors[t].deviation > 0 ? (real)(tensors[t].deviation * normal(t, i)) : tensors[t].first;
        }
}

/* 32 bits that depend on all bits of x (Wellons' lowbias32). */
static uint32_t mix_bits(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return x ^ x >> 16;
}

/* The values that all operations read: the masters' rounding, to the nearest or, with stochastic=1, up with
 * the probability that the lower half of the bits says. Chance is a function of seed, update, tensor and
 * element. */
static void round_masters(long updates)
{
    for (long t = 0; bf16 && t < n_tensors; t++) {
        uint64_t key = hash(hash(hash((uint64_t)seed) + (uint64_t)updates) + (uint64_t)t);
        for (long i = 0; i < tensors[t].rows * tensors[t].columns; i++) {
            uint32_t chance = mix_bits(mix_bits((uint32_t)i ^ (uint32_t)key) + (uint32_t)(key >> 32));
            real x = parameter[tensors[t].offset + i];
            rounded[tensors[t].offset + i] = stochastic ? upper_half(x, chance >> 16) : nearest(x);
        }
    }
}

static real *weight(long t)
{
    return (bf16 ? rounded : parameter) + tensors[t == head() && tied ? WTE : t].offset;
}
static real *gradient(long t)
{
    return grad + tensors[t].offset;
}

/* ---- activations of one sequence, and what the backward pass needs as scratch ---- */

typedef struct {
    real *ln1, *mean1, *scale1, *qkv, *attention, *lse, *middle, *ln2, *mean2, *scale2, *fc1, *gelu, *out;
} activations;

static activations *layers;
static real *embedded, *lnf, *meanf, *scalef, *logits, *d_out, *s1, *s2, *s3, *s4;

static real *room(long count)
{
    real *p = calloc((size_t)count, sizeof(real));
    if (!p) {
        fprintf(stderr, "gpt: there is no memory for %ld numbers\n", count);
        exit(1);
    }
    return p;
}

static void allocate(void)
{
    parameter = room(n_elements), momentum = room(n_elements), variance = room(n_elements),
    grad = room(n_elements);
    rounded = bf16 ? room(n_elements) : NULL;
    counters = calloc(64, sizeof *counters);
    for (long i = 0; B >> i; i++)
        counters[i] = room(n_elements);
    layers = calloc((size_t)L, sizeof *layers);
    for (long l = 0; l < L; l++)
        layers[l] = (activations){ room(T * C), room(T), room(T), room(3 * T * C), room(T * C), room(H * T),
            room(T * C), room(T * C), room(T), room(T), room(4 * T * C), room(4 * T * C), room(T * C) };
    embedded = room(T * C), lnf = room(T * C), meanf = room(T), scalef = room(T), logits = room(T * V),
    d_out = room(T * C);
    s1 = room(4 * T * C), s2 = room(4 * T * C), s3 = room(4 * T * C), s4 = room(T * C);
}

/* ---- parts of the model: forward, and backward beside it ---- */

/* x[rows][m] + b[m] */
static void add_bias(real *x, const real *b, long rows, long m)
{
    for (long i = 0; i < rows * m; i++)
        x[i] = x[i] + b[i % m];
    narrow(x, rows * m);
}

static void layer_norm(real *y, real *mean, real *scale, const real *x, const real *w, const real *b)
{
    real *centred = room(C);
    for (long t = 0; t < T; t++) {
        mean[t] = sum_row(x + t * C, C) / (real)C;
        for (long i = 0; i < C; i++)
            centred[i] = x[t * C + i] - mean[t];
        scale[t] = 1 / ROOT(dot_row(centred, centred, C) / (real)C + (real)1e-5);
        for (long i = 0; i < C; i++)
            y[t * C + i] = FMA(centred[i] * scale[t], w[i], b[i]);
    }
    narrow(y, T * C);
    free(centred);
}

/* dx[T][C] += the gradient of x; dw[C] and db[C] are set. */
static void layer_norm_backward(real *dx, real *dw, real *db, const real *dy, const real *x, const real *w,
    const real *mean, const real *scale)
{
    real *normed = room(T * C), *g = room(C);
    for (long t = 0; t < T; t++) {
        real *n = normed + t * C;
        const real *d = dy + t * C;
        for (long i = 0; i < C; i++) {
            n[i] = (x[t * C + i] - mean[t]) * scale[t];
            g[i] = d[i] * w[i];
        }
        real a = sum_row(g, C) / (real)C, b = dot_row(g, n, C) / (real)C;
        for (long i = 0; i < C; i++) {
            dx[t * C + i] = nearest(dx[t * C + i] + nearest((g[i] - a - n[i] * b) * scale[t]));
            n[i] = n[i] * d[i];
        }
    }
    sum_tokens(dw, normed, C);
    sum_tokens(db, dy, C);
    free(normed), free(g);
}

static const real root_2_pi = (real)0.7978845608028654, cubic = (real)0.044715, cubic3 = (real)(3 * 0.044715);

static void gelu(real *y, const real *x, long count)
{
    for (long i = 0; i < count; i++) {
        real xx = x[i] * x[i], u = root_2_pi * FMA(cubic * xx, x[i], x[i]);
        y[i] = nearest((real)0.5 * x[i] * (1 + hyperbolic_tangent(u)));
    }
}

/* d becomes the gradient of x. */
static void gelu_backward(real *d, const real *x, long count)
{
    for (long i = 0; i < count; i++) {
        real xx = x[i] * x[i], u = root_2_pi * FMA(cubic * xx, x[i], x[i]);
        real th = hyperbolic_tangent(u), du = root_2_pi * FMA(cubic3, xx, (real)1);
        d[i] = nearest(d[i] * ((real)0.5 * (1 + th) + (real)0.5 * x[i] * (1 - th * th) * du));
    }
}

/* ---- dropout ----
 *
 * With dropout=P elements are left out, each with probability P, of what the embedding gives, of what
 * attention and the feed-forward part of each layer give before it is added, and of the probabilities by
 * which attention adds values (Srivastava et al. 2014). The others are multiplied by 1 / (1 - P), and so are
 * their gradients. Chance is a function of (seed, step, sequence, site, token, channel), or (.., layer, head,
 * query, key), by a generator that counts. What is held out is run without. */

static long drawn_step, drawn_sequence; /* of the sequence at hand */

/* Four words of a counter and a key: Philox4x32-10 (Salmon et al. 2011). */
static void philox(uint32_t c[4], uint64_t keys)
{
    uint32_t key = (uint32_t)keys, other = (uint32_t)(keys >> 32);
    for (int i = 0; i < 10; i++, key += 0x9E3779B9u, other += 0xBB67AE85u) {
        uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ key, c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ other, c[3] = (uint32_t)a;
    }
}

/* What an element is multiplied by that has this word of the counter; 0: it is dropped. */
static real kept(long word, long a, long b, long c, long d)
{
    uint32_t w[4] = { (uint32_t)a, (uint32_t)b, (uint32_t)c, (uint32_t)d };
    if (!(dropout > 0) || drawn_step < 0)
        return 1;
    philox(w, hash(hash((uint64_t)seed) + (uint64_t)drawn_step));
    return w[word] >= (uint32_t)(dropout * 4294967296.0) ? (real)(1 / (1 - dropout)) : 0;
}

/* Site 0 is behind the embedding, 2 l + 1 behind the attention of layer l, 2 l + 2 behind its feed-forward
 * part. `to`, which is returned, may be x. */
static const real *drop(real *to, const real *x, long site)
{
    for (long i = 0, n = C / 4; i < T * C; i++) {
        real by = dropout > 0 ? kept(i % C / n, i % n, token_at(i / C), drawn_sequence, site) : 1;
        to[i] = by > 0 ? nearest(x[i] * by) : 0;
    }
    return to;
}

/* The same of the probability that query t of head h gives key j. */
static real attended(long l, long h, long t, long j)
{
    long key = token_at(j), counter = key / 64 * 16 + key % 16, sequence = drawn_sequence | 1L << 31;
    return dropout > 0 ? kept(key / 16 % 4, counter, token_at(t), sequence, h << 12 | l) : 1;
}

/* Where query, key (1) or value (2) of a head begins in a row of qkv[T][H][3][head_size]. */
static const real *part_of(const real *qkv, long h, long which)
{
    return qkv + (3 * h + which) * head_size;
}

/* Each query sees its keys in blocks. A block gives its largest score m, the sum l of exp(score - m), and
 * the values weighted by these, o. Two such partials merge into one for both blocks (Milakov, Gimelshein
 * 2018), and the tree over the blocks is the canonical order: a rank that holds some of the keys can do its
 * part alone. */
typedef struct {
    real m, l, *o;
} partial;

static partial attend_block(const real *qkv, long l, long h, long t, long first, long seen, real *o)
{
    real *p = room(block);
    const real *q = part_of(qkv, h, 0) + t * 3 * C;
    partial part = { seen ? 0 : (real)-1e30, 0, o };
    for (long j = 0; j < seen; j++) {
        const real *k = part_of(qkv, h, 1) + (first + j) * 3 * C;
        real score = 0;
        for (long d = 0; d < head_size; d++)
            score = FMA(q[d], k[d], score);
        p[j] = score * score_scale;
        part.m = j == 0 || p[j] > part.m ? p[j] : part.m;
    }
    memset(o, 0, sizeof(real) * (size_t)head_size);
    for (long j = 0; j < seen; j++) {
        const real *v = part_of(qkv, h, 2) + (first + j) * 3 * C;
        p[j] = exponential(p[j] - part.m);
        real share = p[j] * attended(l, h, t, first + j);
        for (long d = 0; d < head_size; d++)
            o[d] = FMA(share, v[d], o[d]);
    }
    part.l = sum_row(p, seen);
    free(p);
    return part;
}

static void merge(partial *a, const partial *b)
{
    real m = a->m > b->m ? a->m : b->m, ea = exponential(a->m - m), eb = exponential(b->m - m);
    a->l = a->l * ea + b->l * eb;
    for (long d = 0; d < head_size; d++)
        a->o[d] = a->o[d] * ea + b->o[d] * eb;
    a->m = m;
}

/* The first token of the part that token t is in. */
static long part_begin(long t)
{
    return t - t % (T / parts);
}

static void attention(real *out, real *lse, const real *qkv, long l)
{
    real *o = room(CHUNKS * head_size);
    for (long h = 0; h < H; h++)
        for (long t = 0; t < T; t++) {
            partial part[CHUNKS];
            long from = part_begin(t) / block, blocks = stripes ? CHUNKS : t / block + 1 - from;
            for (long b = 0; b < blocks; b++) {
                long first = (from + b) * block, seen = 0;
                for (long j = first; j < first + block; j++)
                    seen += token_at(j) <= token_at(t);
                part[b] = attend_block(qkv, l, h, t, first, seen, o + b * head_size);
            }
            for (long step = 1; step < blocks; step *= 2)
                for (long b = 0; b + step < blocks; b += 2 * step)
                    merge(&part[b], &part[b + step]);
            for (long d = 0; d < head_size; d++)
                out[t * C + h * head_size + d] = part[0].o[d] / part[0].l;
            lse[h * T + t] = part[0].m + logarithm(part[0].l);
        }
    narrow(out, T * C);
    free(o);
}

/* dqkv[T][H][3][head_size] from d_att[T][C]: the probabilities again from the scores, then three products.
 * The sums of keys and values over queries go by blocks of queries; the sum of a query over keys by blocks
 * of keys. */
static void attention_backward(
    real *dqkv, const real *d_att, const real *att, const real *lse, const real *qkv, long l)
{
    real *p = room(T * T), *ds = room(T * T), *dq = room(T * head_size), *dk = room(T * head_size),
         *dv = room(T * head_size);
    for (long h = 0; h < H; h++) {
        matrix q = { part_of(qkv, h, 0), 3 * C, 1 }, k = { part_of(qkv, h, 1), 3 * C, 1 };
        matrix d = { d_att + h * head_size, C, 1 };
        matrix k_turned = { k.at, 1, 3 * C }, v_turned = { part_of(qkv, h, 2), 1, 3 * C };
        multiply_whole(p, T, T, head_size, q, k_turned);
        multiply_whole(ds, T, T, head_size, d, v_turned);
        for (long t = 0; t < T; t++) {
            real along = dot_row(d.at + t * C, att + t * C + h * head_size, head_size);
            for (long j = 0; j < T; j++) {
                real *pj = p + t * T + j, *dj = ds + t * T + j;
                int seen = token_at(j) <= token_at(t) && j >= part_begin(t);
                real e = seen ? exponential(*pj * score_scale - lse[h * T + t]) : 0,
                     by = seen ? attended(l, h, t, j) : 0;
                *dj = seen ? e * (*dj * by - along) * score_scale : 0;
                *pj = e * by;
            }
        }
        for (long from = 0, n = T / parts, cut = CHUNKS / parts; from < T; from += n) {
            long at = from * head_size, first = from * T + from;
            matrix d_here = { d.at + from * C, C, 1 }, q_here = { q.at + from * 3 * C, 3 * C, 1 };
            matrix k_here = { k.at + from * 3 * C, 3 * C, 1 };
            multiply(dv + at, n, head_size, n, transposed(p + first, T), d_here, cut, block);
            multiply(dk + at, n, head_size, n, transposed(ds + first, T), q_here, cut, block);
            multiply(dq + at, n, head_size, n, plain(ds + first, T), k_here, cut, block);
        }
        for (long t = 0; t < T; t++) {
            real *to = dqkv + (t * H + h) * 3 * head_size;
            memcpy(to, dq + t * head_size, sizeof(real) * (size_t)head_size);
            memcpy(to + head_size, dk + t * head_size, sizeof(real) * (size_t)head_size);
            memcpy(to + 2 * head_size, dv + t * head_size, sizeof(real) * (size_t)head_size);
        }
    }
    narrow(dqkv, 3 * T * C);
    free(p), free(ds), free(dq), free(dk), free(dv);
}

/* ---- the model ---- */

static void add(real *x, const real *y, long count)
{
    for (long i = 0; i < count; i++)
        x[i] = x[i] + y[i];
}

static void embed(const uint16_t *token)
{
    for (long t = 0; t < T; t++)
        for (long i = 0; i < C; i++)
            embedded[t * C + i] =
                nearest((weight(WTE)[token[token_at(t)] * C + i] + 0) + weight(WPE)[token_at(t) * C + i]);
    drop(embedded, embedded, 0);
}

static void layer_forward(const real *in, activations *a, long l)
{
    layer_norm(
        a->ln1, a->mean1, a->scale1, in, weight(of_layer(l, LN1_WEIGHT)), weight(of_layer(l, LN1_BIAS)));
    multiply_whole(a->qkv, T, 3 * C, C, plain(a->ln1, C), transposed(weight(of_layer(l, QKV)), C));
    narrow(a->qkv, 3 * T * C);
    add_bias(a->qkv, weight(of_layer(l, QKV_BIAS)), T, 3 * C);
    attention(a->attention, a->lse, a->qkv, l);
    multiply_cut(a->middle, T, C, C, plain(a->attention, C), plain(weight(of_layer(l, PROJ)), C));
    narrow(a->middle, T * C);
    add_bias(a->middle, weight(of_layer(l, PROJ_BIAS)), T, C);
    drop(a->middle, a->middle, 2 * l + 1);
    add(a->middle, in, T * C);
    narrow(a->middle, T * C);
    layer_norm(a->ln2, a->mean2, a->scale2, a->middle, weight(of_layer(l, LN2_WEIGHT)),
        weight(of_layer(l, LN2_BIAS)));
    multiply_whole(a->fc1, T, 4 * C, C, plain(a->ln2, C), transposed(weight(of_layer(l, FC1)), C));
    narrow(a->fc1, 4 * T * C);
    add_bias(a->fc1, weight(of_layer(l, FC1_BIAS)), T, 4 * C);
    gelu(a->gelu, a->fc1, 4 * T * C);
    multiply_cut(a->out, T, C, 4 * C, plain(a->gelu, 4 * C), plain(weight(of_layer(l, FC2)), C));
    narrow(a->out, T * C);
    add_bias(a->out, weight(of_layer(l, FC2_BIAS)), T, C);
    drop(a->out, a->out, 2 * l + 2);
    add(a->out, a->middle, T * C);
    narrow(a->out, T * C);
}

/* d_out is the gradient of the layer's result at first, and of its input in the end. */
static void layer_backward(const real *in, const activations *a, long l)
{
    const real *d = drop(s4, d_out, 2 * l + 2);
    sum_tokens(gradient(of_layer(l, FC2_BIAS)), d, C);
    multiply_cut(gradient(of_layer(l, FC2)), 4 * C, C, T, transposed(a->gelu, 4 * C), plain(d, C));
    multiply_whole(s1, T, 4 * C, C, plain(d, C), transposed(weight(of_layer(l, FC2)), C));
    narrow(s1, 4 * T * C);
    gelu_backward(s1, a->fc1, 4 * T * C);
    sum_tokens(gradient(of_layer(l, FC1_BIAS)), s1, 4 * C);
    multiply_cut(gradient(of_layer(l, FC1)), 4 * C, C, T, transposed(s1, 4 * C), plain(a->ln2, C));
    multiply_cut(s2, T, C, 4 * C, plain(s1, 4 * C), plain(weight(of_layer(l, FC1)), C));
    narrow(s2, T * C);
    layer_norm_backward(d_out, gradient(of_layer(l, LN2_WEIGHT)), gradient(of_layer(l, LN2_BIAS)), s2,
        a->middle, weight(of_layer(l, LN2_WEIGHT)), a->mean2, a->scale2);

    d = drop(s4, d_out, 2 * l + 1);
    sum_tokens(gradient(of_layer(l, PROJ_BIAS)), d, C);
    multiply_cut(gradient(of_layer(l, PROJ)), C, C, T, transposed(a->attention, C), plain(d, C));
    multiply_whole(s1, T, C, C, plain(d, C), transposed(weight(of_layer(l, PROJ)), C));
    narrow(s1, T * C);
    attention_backward(s3, s1, a->attention, a->lse, a->qkv, l);
    sum_tokens(gradient(of_layer(l, QKV_BIAS)), s3, 3 * C);
    multiply_cut(gradient(of_layer(l, QKV)), 3 * C, C, T, transposed(s3, 3 * C), plain(a->ln1, C));
    multiply_cut(s2, T, C, 3 * C, plain(s3, 3 * C), plain(weight(of_layer(l, QKV)), C));
    narrow(s2, T * C);
    layer_norm_backward(d_out, gradient(of_layer(l, LN1_WEIGHT)), gradient(of_layer(l, LN1_BIAS)), s2, in,
        weight(of_layer(l, LN1_WEIGHT)), a->mean1, a->scale1);
}

/* The softmax's sum over the vocabulary: lanes in each of its chunks, the tree over them. */
static real sum_vocabulary(const real *x)
{
    real part[CHUNKS] = { 0 };
    for (long c = 0, w = vocabulary_chunk(); c < CHUNKS && c * w < V; c++)
        part[c] = sum_row(x + c * w, V - c * w < w ? V - c * w : w);
    tree(part, CHUNKS, 1, 1);
    return part[0];
}

/* Cross entropy. leaf[8] gets the loss summed over each block of tokens; logits become the gradient of the
 * batch's mean. */
static void head_forward(double *leaf, const real *in, const uint16_t *target)
{
    layer_norm(lnf, meanf, scalef, in, weight(final_weight()), weight(final_weight() + 1));
    multiply_whole(logits, T, V, C, plain(lnf, C), transposed(weight(head()), C));
    narrow(logits, T * V);
    memset(leaf, 0, sizeof(double) * CHUNKS);
    for (long t = 0; t < T; t++) {
        long due = target[token_at(t)];
        real *x = logits + t * V, max = x[0], wanted = x[due] + 0;
        for (long i = 1; i < V; i++)
            max = x[i] > max ? x[i] : max;
        for (long i = 0; i < V; i++)
            x[i] = exponential(x[i] - max);
        real sum = sum_vocabulary(x);
        leaf[t / block] += (double)(logarithm(sum) + max - wanted);
        for (long i = 0; i < V; i++)
            x[i] = x[i] / sum;
        x[due] = x[due] - 1;
        for (long i = 0; i < V; i++)
            x[i] = nearest(x[i] * ((real)1 / (real)(B * T)));
    }
}

static void head_backward(const real *in)
{
    multiply_cut(gradient(head()), V, C, T, transposed(logits, V), plain(lnf, C));
    multiply(s1, T, C, V, plain(logits, V), plain(weight(head()), C), CHUNKS, vocabulary_chunk());
    narrow(s1, T * C);
    memset(d_out, 0, sizeof(real) * (size_t)(T * C));
    layer_norm_backward(d_out, gradient(final_weight()), gradient(final_weight() + 1), s1, in,
        weight(final_weight()), meanf, scalef);
}

static void embed_backward(const uint16_t *token)
{
    drop(d_out, d_out, 0);
    real *part = room(CHUNKS * V * C);
    for (long t = 0; t < T; t++)
        add(part + (t / block * V + token[token_at(t)]) * C, d_out + t * C, C);
    tree(part, CHUNKS, V * C, V * C);
    memcpy(gradient(WTE), part, sizeof(real) * (size_t)(V * C));
    for (long i = 0; i < T * C; i++)
        gradient(WPE)[token_at(i / C) * C + i % C] = d_out[i] + 0;
    free(part);
}

/* ---- data: the batch is a function of the step alone ---- */

static uint16_t *corpus;
static long n_tokens, n_learned, recall_stride; /* eval=N: the last tenth is not learned */

/* Without a file: text of a made-up grammar. A token follows from the one before by a rule, or at times by
 * chance. */
static void make_corpus(void)
{
    n_tokens = 1 << 16;
    corpus = calloc((size_t)n_tokens, sizeof *corpus);
    for (long i = 1; i < n_tokens; i++) {
        uint64_t chance = hash((uint64_t)i * 2 + 1);
        uint64_t next = chance % 8 ? hash(corpus[i - 1] * 4u + (chance >> 8) % 2) : chance >> 8;
        corpus[i] = (uint16_t)(next % (uint64_t)V);
    }
}

/* "recall": sequences of 16 tokens by chance, whose second half is the first again. */
static void make_recall(void)
{
    recall_stride = T + 1;
    n_tokens = 4096 * recall_stride;
    corpus = calloc((size_t)n_tokens, sizeof *corpus);
    for (long i = 0; i < n_tokens; i++) {
        uint64_t sequence = (uint64_t)(i / recall_stride), place = (uint64_t)(i % recall_stride % (T / 2));
        corpus[i] = (uint16_t)(hash(hash(0x5EC0 + sequence) + place) % 16);
    }
}

/* llm.c's file of tokens (256 int32: magic number, version, how many; then uint16), or any other file as
 * bytes. */
static void read_corpus(const char *path)
{
    FILE *f = fopen(path, "rb");
    int32_t header[256];
    if (!f) {
        fprintf(stderr, "gpt: %s cannot be opened\n", path);
        exit(1);
    }
    size_t got = fread(header, 1, sizeof header, f);
    int is_tokens = got == sizeof header && header[0] == 20240520;
    fseek(f, 0, SEEK_END);
    n_tokens = is_tokens ? header[2] : ftell(f);
    fseek(f, is_tokens ? (long)sizeof header : 0, SEEK_SET);
    corpus = calloc((size_t)n_tokens + 1, sizeof *corpus);
    for (long i = 0; i < n_tokens; i++) {
        uint16_t x = 0;
        if (fread(&x, is_tokens ? 2 : 1, 1, f) != 1 || x >= V) {
            fprintf(stderr, "gpt: %s: token %ld is missing or not below vocab=%ld\n", path, i, V);
            exit(1);
        }
        corpus[i] = x;
    }
    fclose(f);
    if (n_tokens < T + 1) {
        fprintf(stderr, "gpt: %s has %ld tokens; context=%ld needs at least %ld\n", path, n_tokens, T, T + 1);
        exit(1);
    }
}

static const uint16_t *sequence_of(long step, long i)
{
    drawn_step = step, drawn_sequence = i;
    uint64_t key = hash(hash(hash((uint64_t)seed) + (uint64_t)step) + (uint64_t)i);
    if (recall_stride)
        return corpus + (long)(key % (uint64_t)(n_tokens / recall_stride)) * recall_stride;
    if (step < 0)
        return corpus + n_learned + key % (uint64_t)(n_tokens - n_learned - T);
    return corpus + key % (uint64_t)(n_learned - T);
}

/* ---- a step ---- */

/* One sequence: the leaves of its loss, and its gradient in grad. */
static void run_sequence(double *leaf, long step, long i, int backward)
{
    const uint16_t *token = sequence_of(step, i);
    embed(token);
    for (long l = 0; l < L; l++)
        layer_forward(l ? layers[l - 1].out : embedded, &layers[l], l);
    head_forward(leaf, layers[L - 1].out, token + 1);
    if (!backward)
        return;
    head_backward(layers[L - 1].out);
    for (long l = L - 1; l >= 0; l--)
        layer_backward(l ? layers[l - 1].out : embedded, &layers[l], l);
    embed_backward(token);
}

/* The tree over sequences as a binary counter: a sum waits on its level for its right neighbour. */
static void count_in(long i)
{
    long level = 0;
    for (; i >> level & 1; level++) {
        add(counters[level], grad, n_elements);
        memcpy(grad, counters[level], sizeof(real) * (size_t)n_elements);
    }
    memcpy(counters[level], grad, sizeof(real) * (size_t)n_elements);
}

/* What still waits is added from the right: an odd one passes up. grad is then the gradient of the batch. */
static void count_out(void)
{
    long level = 0;
    while (!(B >> level & 1))
        level++;
    memcpy(grad, counters[level], sizeof(real) * (size_t)n_elements);
    for (level++; B >> level; level++)
        if (B >> level & 1) {
            add(counters[level], grad, n_elements);
            memcpy(grad, counters[level], sizeof(real) * (size_t)n_elements);
        }
    narrow(grad, n_elements);
    if (tied) {
        add(gradient(WTE), gradient(head()), V * C);
        narrow(gradient(WTE), V * C);
    }
}

static double loss_and_gradient(long step, int backward)
{
    double *leaf = calloc((size_t)(B * CHUNKS), sizeof *leaf), sum = 0;
    for (long i = 0; i < B; i++) {
        run_sequence(leaf + i * CHUNKS, step, i, backward);
        if (backward)
            count_in(i);
    }
    if (backward)
        count_out();
    for (long i = 0; i < B * CHUNKS; i++)
        sum += leaf[i];
    free(leaf);
    return sum / (double)(B * T);
}

static int is_parameter(long t)
{
    return t != head() || !tied;
}

/* A leaf of the norm: the sum of squares in double precision, in which a square is exact. Lane i % 256 takes
 * element i, ascending; then the tree over the lanes. */
static double sum_squares(const real *x, long n)
{
    double lane[SQUARE_LANES] = { 0 };
    for (long i = 0; i < n; i++)
        lane[i % SQUARE_LANES] += (double)x[i] * (double)x[i];
    for (long step = 1; step < SQUARE_LANES; step *= 2)
        for (long i = 0; i < SQUARE_LANES; i += 2 * step)
            lane[i] += lane[i + step];
    return lane[0];
}

/* Each tensor has 64 leaves: its rows, as if padded to a multiple of 64, in 8 chunks, and each chunk in 8.
 * The leaves of all tensors are added in order. */
static double gradient_norm(void)
{
    double sum = 0;
    for (long t = 0; t < n_tensors; t++) {
        if (!is_parameter(t))
            continue;
        long count = tensors[t].rows * tensors[t].columns,
             leaf = (tensors[t].rows + 63) / 64 * tensors[t].columns;
        for (long from = 0; from < count; from += leaf)
            sum += sum_squares(gradient(t) + from, count - from < leaf ? count - from : leaf);
    }
    return sqrt(sum);
}

/* The rate of update n, from 0: it rises over `warmup` updates, and then is lr, or goes down to `least` at
 * update `until` and behind it: curve=1 along a line, curve=2 along half a cosine. */
static double rate_at(long n)
{
    double far = until > warmup ? (double)(n - warmup) / (double)(until - warmup) : 1;
    if (n < warmup)
        return lr * (double)(n + 1) / (double)warmup;
    if (!curve)
        return lr;
    far = far < 1 ? far : 1;
    return least + (lr - least) * (curve == 1 ? 1 - far : 0.5 * (1 + cos(3.14159265358979323846 * far)));
}

/* AdamW (Loshchilov, Hutter 2019), or SGD; matrices decay, biases and layer norms do not. */
static void update(long step, double norm)
{
    real s = norm > clip ? (real)(clip / norm) : 1, b1 = (real)0.9, b2 = (real)0.95,
         rate = (real)rate_at(step), eps = (real)1e-8;
    real i1 = (real)(1 / (1 - pow(0.9, (double)step + 1))),
         i2 = (real)(1 / (1 - pow(0.95, (double)step + 1)));
    for (long t = 0; t < n_tensors; t++) {
        real wd = tensors[t].columns > 1 ? (real)decay : 0;
        for (long i = tensors[t].offset, n = 0; is_parameter(t) && n < tensors[t].rows * tensors[t].columns;
             i++, n++) {
            real g = grad[i] * s, *p = &parameter[i], *m = &momentum[i], *v = &variance[i];
            if (sgd) {
                *p = *p - rate * g;
                continue;
            }
            *m = b1 * *m + (1 - b1) * g;
            *v = b2 * *v + (1 - b2) * (g * g);
            *p = *p - rate * ((*m * i1) / (ROOT(*v * i2) + eps) + wd * *p);
        }
    }
    round_masters(step + 1);
}

/* delay=1: a step is made with the gradient of the step before, as if the optimizer ran beside the next
 * forward and backward pass (Ren et al. 2021). The first step has none. */
static void delayed_update(long step, double norm_now)
{
    static real *before;
    static double norm_before;
    real *now = grad;
    if (!before)
        before = room(n_elements);
    grad = before;
    if (step > 0)
        update(step - 1, norm_before);
    grad = now, norm_before = norm_now;
    memcpy(before, grad, sizeof(real) * (size_t)n_elements);
}

/* ---- is the backward pass right? ---- */

/* Central differences of the loss at `check` random elements of each tensor, relative to the tensor's
 * largest gradient. */
static int check_gradients(void)
{
    double worst = 0, eps = sizeof(real) == 8 ? 1e-5 : 1e-2;
    loss_and_gradient(0, 1);
    for (long t = 0; t < n_tensors; t++) {
        double largest = 0, error = 0;
        long count = tensors[t].rows * tensors[t].columns;
        if (!is_parameter(t))
            continue;
        for (long i = 0; i < count; i++)
            largest = fmax(largest, fabs((double)grad[tensors[t].offset + i]));
        for (long n = 0; n < check; n++) {
            long i = tensors[t].offset + (long)(hash((uint64_t)(t * 1000 + n)) % (uint64_t)count);
            real was = parameter[i];
            parameter[i] = was + (real)eps;
            double above = loss_and_gradient(0, 0);
            parameter[i] = was - (real)eps;
            double below = loss_and_gradient(0, 0);
            parameter[i] = was;
            error = fmax(error, fabs((above - below) / (2 * eps) - (double)grad[i]) / largest);
        }
        printf("%-20s %ld elements: largest gradient %.3e, worst error %.1e of it\n", tensors[t].name, check,
            largest, error);
        worst = fmax(worst, error);
    }
    printf("worst error: %.1e\n", worst);
    return worst > 1e-6;
}

/* ---- main ---- */

static void save(const char *path, const real *x)
{
    FILE *f = path ? fopen(path, "wb") : NULL;
    if (!path)
        return;
    int ok = f && fwrite(x, sizeof(real), (size_t)n_elements, f) == (size_t)n_elements;
    if (!f || fclose(f) || !ok) {
        fprintf(stderr, "gpt: %s cannot be written\n", path);
        exit(1);
    }
}

static void parse(const char *word)
{
    static const struct {
        const char *key;
        long *whole;
        double *real;
        const char **text;
    } keys[] = { { "layers", &L, 0, 0 }, { "channels", &C, 0, 0 }, { "heads", &H, 0, 0 },
        { "context", &T, 0, 0 }, { "vocab", &V, 0, 0 }, { "batch", &B, 0, 0 }, { "steps", &steps, 0, 0 },
        { "tied", &tied, 0, 0 }, { "sgd", &sgd, 0, 0 }, { "seed", &seed, 0, 0 }, { "check", &check, 0, 0 },
        { "parts", &parts, 0, 0 }, { "stripes", &stripes, 0, 0 }, { "delay", &delay, 0, 0 },
        { "bf16", &bf16, 0, 0 }, { "stochastic", &stochastic, 0, 0 }, { "curve", &curve, 0, 0 },
        { "warmup", &warmup, 0, 0 }, { "until", &until, 0, 0 }, { "eval", &eval, 0, 0 },
        { "batches", &batches, 0, 0 }, { "least", 0, &least, 0 }, { "lr", 0, &lr, 0 },
        { "clip", 0, &clip, 0 }, { "dropout", 0, &dropout, 0 }, { "decay", 0, &decay, 0 },
        { "data", 0, 0, &data_path }, { "grads", 0, 0, &grads_path }, { "params", 0, 0, &params_path } };
    const char *value = strchr(word, '=');
    for (size_t i = 0; value && i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i].key) == (size_t)(value - word) &&
            !strncmp(word, keys[i].key, (size_t)(value - word))) {
            if (keys[i].whole)
                *keys[i].whole = strtol(value + 1, NULL, 10);
            else if (keys[i].real)
                *keys[i].real = strtod(value + 1, NULL);
            else
                *keys[i].text = value + 1;
            return;
        }
    fprintf(stderr, "gpt: %s is not known; KEY=VALUE with one of:", word);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        fprintf(stderr, " %s", keys[i].key);
    fprintf(stderr, "\n");
    exit(2);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        parse(argv[i]);
    if (L < 1 || L > 4096 || H < 1 || V < 2 || V > 65536 || B < 1 || B > 1 << 20 || C < 64 || C % 64 ||
        C % H || T < CHUNKS || T % CHUNKS || parts < 1 || parts > CHUNKS || CHUNKS % parts || dropout < 0 ||
        dropout >= 1) {
        fprintf(stderr,
            "gpt: channels must be a multiple of 64 and of heads, context a multiple of 8, vocab 2 to 65536, "
            "layers 1 to 4096, batch 1 to 1048576, parts 1, 2, 4 or 8, dropout less than 1\n");
        return 2;
    }
    head_size = C / H, block = T / CHUNKS, score_scale = 1 / ROOT((real)head_size);
    list_tensors();
    allocate();
    initialise();
    round_masters(0);
    if (data_path && !strcmp(data_path, "recall"))
        make_recall();
    else if (data_path)
        read_corpus(data_path);
    else
        make_corpus();
    n_learned = eval ? n_tokens - n_tokens / 10 : n_tokens;
    if (check)
        return check_gradients();
    for (long step = 0; step < steps; step++) {
        double loss = loss_and_gradient(step, 1), norm = gradient_norm();
        if (step == 0)
            save(grads_path, grad);
        (delay ? delayed_update : update)(step, norm);
        printf("step %ld loss %.6f %a norm %.6f %a\n", step, loss, loss, norm, norm);
        loss = 0;
        for (long b = 1; eval && (step + 1) % eval == 0 && b <= batches; b++)
            loss += loss_and_gradient(-b, 0);
        if (eval && (step + 1) % eval == 0)
            printf("eval %ld loss %.6f %a\n", step + 1, loss / (double)batches, loss / (double)batches);
        fflush(stdout);
    }
    save(params_path, parameter);
    return 0;
}
