/* SPDX-License-Identifier: BSD-3-Clause */
/* golden.h: what the golden programs of mlp.c, cnn.c and moe.c have in common: numbers, sums, products,
 * parameters, the optimizer, files, and how a program runs. All of it is in gpt.c, too, which stands alone
 * and explains it.
 *
 * Who includes this has defined NAME. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef FP64
typedef double real;
#define FMA fma
#define ROOT sqrt
#define exponential exp
#define logarithm log
#else
typedef float real;
#define FMA fmaf
#define ROOT sqrtf
#endif

/* The same bits, and faster. */
#if defined __x86_64__ && defined __GNUC__ && defined __linux__ && !defined __clang__ &&                     \
    !defined __SANITIZE_THREAD__
#define CLONES __attribute__((target_clones("fma", "default")))
#else
#define CLONES
#endif

enum { CHUNKS = 8, LANES = 16, SQUARE_LANES = 256 };

/* What the words of the command line say. */
static long steps, sgd, seed, check, delay, bf16, stochastic;
static double lr, clip, decay;
static long curve, warmup, until; /* of the rate, as in gpt.c */
static double least;
static long eval, batches = 4; /* every so many steps, the loss of so many batches that are not learned */
static char grads_path[4096], params_path[4096];

/* ---- numbers and sums ---- */

#ifndef FP64
static real exponential(real x)
{
    float z = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float k = FMA(z, 1.44269504f, 12582912.0f) - 12582912.0f;
    float f = FMA(k, -1.42860682e-6f, FMA(k, -0.693145751953125f, z)), p = 1.9875691500e-4f;
    p = FMA(FMA(FMA(p, f, 1.3981999507e-3f), f, 8.3334519073e-3f), f, 4.1665795894e-2f);
    p = FMA(FMA(FMA(p, f, 1.6666665459e-1f), f, 5.0000001201e-1f), f * f, f) + 1.0f;
    return x < -87.0f ? 0.0f : ldexpf(p, (int)k);
}
static inline real logarithm(real x)
{
    return (float)log((double)x);
}
#endif

/* bf16=1: mixed precision, as in gpt.c. */
static real upper_half(real x, uint32_t add)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    bits = (f != f ? bits | 0x400000 : bits + add) & 0xFFFF0000u;
    memcpy(&f, &bits, sizeof bits);
    return f;
}
static real nearest(real x)
{
    float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bf16 ? upper_half(x, 0x7FFF + (bits >> 16 & 1)) : x;
}
static void narrow(real *x, long count)
{
    for (long i = 0; bf16 && i < count; i++)
        x[i] = nearest(x[i]);
}

static real *room(long count)
{
    real *p = calloc((size_t)count + 1, sizeof(real));
    if (!p) {
        fprintf(stderr, NAME ": there is no memory for %ld numbers\n", count);
        exit(1);
    }
    return p;
}

/* The tree over n rows of `width` elements; the sum is then in the first row. */
CLONES static void tree(real *x, long n, long width)
{
    for (long step = 1; step < n; step *= 2)
        for (long i = 0; i + step < n; i += 2 * step)
            for (long j = 0; j < width; j++)
                x[i * width + j] = x[i * width + j] + x[(i + step) * width + j];
}

static inline real sum_row(const real *x, long n)
{
    real lane[LANES] = { 0 };
    for (long i = 0; i < n; i++)
        lane[i % LANES] += x[i];
    tree(lane, LANES, 1);
    return lane[0];
}

static inline real dot_row(const real *x, const real *y, long n)
{
    real lane[LANES] = { 0 };
    for (long i = 0; i < n; i++)
        lane[i % LANES] = FMA(x[i], y[i], lane[i % LANES]);
    tree(lane, LANES, 1);
    return lane[0];
}

typedef struct {
    const real *at;
    long row, column; /* how far apart two rows are, and two columns */
} matrix;

static inline matrix plain(const real *x, long columns)
{
    return (matrix){ x, columns, 1 };
}
static inline matrix turned(const real *x, long columns)
{
    return (matrix){ x, 1, columns };
}

/* out[m][n] = a[m][k] b[k][n]: one chain if a chunk is k, else a chain in each of 8 chunks and their tree. */
CLONES static inline void multiply(real *out, long m, long n, long k, matrix a, matrix b, long chunk)
{
    long chunks = chunk == k ? 1 : CHUNKS;
    real *sum = room(chunks * n), *rows = room(k * n);
    for (long x = 0; x < k * n; x++)
        rows[x] = b.at[x / n * b.row + x % n * b.column];
    for (long i = 0; i < m; i++) {
        memset(sum, 0, sizeof(real) * (size_t)(chunks * n));
        for (long x = 0; x < k; x++) {
            real *acc = sum + x / chunk * n, factor = a.at[i * a.row + x * a.column];
            for (long j = 0; j < n; j++)
                acc[j] = FMA(factor, rows[x * n + j], acc[j]);
        }
        tree(sum, chunks, n);
        memcpy(out + i * n, sum, sizeof(real) * (size_t)n);
    }
    free(sum), free(rows);
}

/* How many of n channels, classes or experts are in a chunk: as if there were a multiple of 64 of them. */
static long padded_chunk(long n)
{
    return (n + 63) / 64 * 64 / CHUNKS;
}

static const real root_2_pi = (real)0.7978845608028654, cubic = (real)0.044715, cubic3 = (real)(3 * 0.044715);

static inline real gelu_tanh(real x)
{
    return 1 - 2 / (exponential(2 * (root_2_pi * FMA(cubic * (x * x), x, x))) + 1);
}
static inline real gelu(real x)
{
    return (real)0.5 * x * (1 + gelu_tanh(x));
}
static inline real gelu_slope(real x)
{
    real th = gelu_tanh(x), du = root_2_pi * FMA(cubic3, x * x, (real)1);
    return (real)0.5 * (1 + th) + (real)0.5 * x * (1 - th * th) * du;
}

static uint64_t hash(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* ---- parameters ---- */

typedef struct {
    char name[48]; /* "": it is told by its number */
    long rows, columns, offset; /* columns is 1 for biases and norms */
    double deviation; /* of the initial values; 0: all are `first` */
    real first;
} tensor;

static tensor *tensors;
static long n_tensors, n_elements, n_own; /* n_own: without a tied head, which is the embedding's */
static real *parameter, *momentum, *variance, *rounded; /* rounded: bf16=1 */
static real *grads, *grad; /* of each sequence; of the one at hand, and in the end, the first, of the batch */

static double normal(long which, long element)
{
    uint64_t key = hash(hash((uint64_t)seed) + (uint64_t)which) + 2 * (uint64_t)element;
    int64_t total = 0;
    for (long i = 0; i < 8; i++)
        total += (int64_t)(hash(key + i / 4) >> 16 * (i % 4) & 0xFFFF);
    return (double)(2 * total - 8 * 65535) / (2 * 65536.0 * 0.816496580927726);
}

/* What operations read of the parameters. */
static real *values(void)
{
    return bf16 ? rounded : parameter;
}

static uint32_t mix_bits(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return x ^ x >> 16;
}

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

/* ---- a step: the program says what its loss is ---- */

static double loss_and_gradient(long step, int backward);
/* Of step 0: all that the gradient is of. */
static double whole_loss(void);

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

/* 64 leaves of each tensor, by rows, as in gpt.c. */
static double gradient_norm(void)
{
    double total = 0;
    for (long t = 0; t < n_own; t++) {
        long count = tensors[t].rows * tensors[t].columns;
        long width = (tensors[t].rows + 63) / 64 * tensors[t].columns;
        for (long from = 0; from < count; from += width)
            total +=
                sum_squares(grad + tensors[t].offset + from, count - from < width ? count - from : width);
    }
    return sqrt(total);
}

/* As in gpt.c. */
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

static void update(long step, double length)
{
    real s = length > clip ? (real)(clip / length) : 1, b1 = (real)0.9, b2 = (real)0.95,
         rate = (real)rate_at(step);
    real i1 = (real)(1 / (1 - pow(0.9, (double)step + 1)));
    real i2 = (real)(1 / (1 - pow(0.95, (double)step + 1)));
    for (long t = 0; t < n_own; t++) {
        real wd = tensors[t].columns > 1 ? (real)decay : 0;
        for (long i = tensors[t].offset, n = tensors[t].rows * tensors[t].columns; n > 0; i++, n--) {
            real g = grad[i] * s, *p = &parameter[i], *m = &momentum[i], *v = &variance[i];
            *m = b1 * *m + (1 - b1) * g;
            *v = b2 * *v + (1 - b2) * (g * g);
            *p = sgd ? *p - rate * g : *p - rate * ((*m * i1) / (ROOT(*v * i2) + (real)1e-8) + wd * *p);
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

/* Central differences, as in gpt.c. */
static int check_gradients(void)
{
    double worst = 0, eps = sizeof(real) == 8 ? 1e-5 : 1e-2;
    loss_and_gradient(0, 1);
    for (long t = 0; t < n_own; t++) {
        double largest = 0, error = 0;
        long count = tensors[t].rows * tensors[t].columns;
        for (long i = 0; i < count; i++)
            largest = fmax(largest, fabs((double)grad[tensors[t].offset + i]));
        for (long n = 0; n < check; n++) {
            long i = tensors[t].offset + (long)(hash((uint64_t)(t * 1000 + n)) % (uint64_t)count);
            real *x = values() + i, was = *x;
            *x = was + (real)eps;
            double above = whole_loss();
            *x = was - (real)eps;
            double below = whole_loss();
            *x = was;
            error = fmax(error, fabs((above - below) / (2 * eps) - (double)grad[i]) / largest);
        }
        if (*tensors[t].name)
            printf("%-20s ", tensors[t].name);
        else
            printf("tensor %-3ld ", t);
        printf("%ld elements: largest gradient %.3e, worst error %.1e of it\n", check, largest, error);
        worst = fmax(worst, error);
    }
    printf("worst error: %.1e\n", worst);
    return !(worst <= 1e-6);
}

/* ---- words and files ---- */

typedef struct {
    const char *form;
    void *to;
} option;

static const option of_all[] = { { "curve=%ld", &curve }, { "warmup=%ld", &warmup }, { "until=%ld", &until },
    { "least=%lf", &least }, { "eval=%ld", &eval }, { "batches=%ld", &batches } };
enum { OF_ALL = sizeof of_all / sizeof *of_all };

/* What a word says goes where the option of its form says. */
static int take(const char *word, const option *options, size_t n)
{
    for (size_t i = 0; i < n + OF_ALL; i++) {
        const option *o = i < n ? &options[i] : &of_all[i - n];
        if (sscanf(word, o->form, o->to) == 1)
            return 1;
    }
    fprintf(stderr, NAME ": %s is not known; KEY=VALUE with one of:", word);
    for (size_t i = 0; i < n + OF_ALL; i++) {
        const char *form = i < n ? options[i].form : of_all[i - n].form;
        fprintf(stderr, " %.*s", (int)strcspn(form, "="), form);
    }
    fprintf(stderr, "\n");
    return 0;
}

static void save(const char *path, const real *x)
{
    if (!*path)
        return;
    FILE *f = fopen(path, "wb");
    size_t done = f ? fwrite(x, sizeof(real), (size_t)n_elements, f) : 0;
    if (!f || fclose(f) || done != (size_t)n_elements) {
        fprintf(stderr, NAME ": %s cannot be written\n", path);
        exit(1);
    }
}

/* All steps, or the check of the gradients; the program's exit status. */
static int learn(void)
{
    round_masters(0);
    if (check)
        return check_gradients();
    for (long step = 0; step < steps; step++) {
        double loss = loss_and_gradient(step, 1), length = gradient_norm();
        if (step == 0)
            save(grads_path, grad);
        (delay ? delayed_update : update)(step, length);
        printf("step %ld loss %.6f %a norm %.6f %a\n", step, loss, loss, length, length);
        double sum = 0;
        for (long b = 1; eval && (step + 1) % eval == 0 && b <= batches; b++)
            sum += loss_and_gradient(-b, 0);
        if (eval && (step + 1) % eval == 0)
            printf("eval %ld loss %.6f %a\n", step + 1, sum / (double)batches, sum / (double)batches);
        fflush(stdout);
    }
    save(params_path, parameter);
    return 0;
}
