/* SPDX-License-Identifier: BSD-3-Clause */
/* mlp.c: the golden deep MLP, the other model that the parallel trainer must equal. Like gpt.c it stands
 * alone.
 *
 *   cc -O2 -ffp-contract=off mlp.c -lm -o mlp        ./mlp steps=50
 *   cc -O2 -ffp-contract=off -DFP64 mlp.c -lm -o mlp64        ./mlp64 check=64
 *
 * L hidden layers of a matrix, a bias and GELU; a head that gives a score for each class; softmax and cross
 * entropy. A batch has B slots of 8 rows. The canonical order is that of gpt.c, where its words are defined:
 * a slot stands for a sequence, and a row for a block of it.
 *
 *   even layers     weight [out][in]    out = whole chain over in       dX = 8 chunks of out, then the tree
 *   odd layers      weight [in][out]    out = 8 chunks of in, tree      dX = whole chain over out
 *   the head        as an even layer without bias; classes are cut as gpt.c cuts the vocabulary
 *
 * So tensor parallelism cuts the outermost dimension of each weight: the columns of even layers, the rows of
 * odd ones, and one sum over ranks is due after each pair, as in a transformer's feed-forward part. */
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
#else
typedef float real;
#define FMA fmaf
#define ROOT sqrtf
#endif

enum { T = 8, CHUNKS = 8, LANES = 16, SQUARE_LANES = 256 };

static long L = 4, C = 64, I = 32, V = 10, B = 8; /* layers, width, inputs, classes, slots of T rows */
static long steps = 10, sgd = 0, seed = 1, check = 0, delay = 0;
static long bf16, stochastic;
static double lr = 1e-3, clip = 1, decay = 0.1;
static char grads_path[4096], params_path[4096];

/* ---- numbers and sums, as in gpt.c ---- */

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
#endif

/* ---- bf16=1: mixed precision, as in gpt.c ---- */

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

/* The tree over n rows of `width` elements; the sum is then in the first row. */
static void tree(real *x, long n, long width)
{
    for (long step = 1; step < n; step *= 2)
        for (long i = 0; i + step < n; i += 2 * step)
            for (long j = 0; j < width; j++)
                x[i * width + j] = x[i * width + j] + x[(i + step) * width + j];
}

typedef struct {
    real *at;
    long row, column; /* how far apart two rows are, and two columns */
} matrix;

static matrix turned(matrix m)
{
    return (matrix){ m.at, m.column, m.row };
}

/* out[M][N] = A[M][K] B[K][N]: a chain in each chunk of K, the tree over the chunks. */
static void multiply(matrix out, matrix a, matrix b, long M, long N, long K, long chunks, long chunk)
{
    for (long i = 0; i < M; i++)
        for (long j = 0; j < N; j++) {
            real sum[CHUNKS] = { 0 };
            for (long k = 0; k < K; k++) {
                real *acc = &sum[k / chunk];
                *acc = FMA(a.at[i * a.row + k * a.column], b.at[k * b.row + j * b.column], *acc);
            }
            tree(sum, chunks, 1);
            out.at[i * out.row + j * out.column] = sum[0];
        }
}

/* How many of n channels or classes are in a chunk: as if there were a multiple of 64 of them. */
static long chunk_of(long n)
{
    return (n + 63) / 64 * 64 / CHUNKS;
}

/* ---- the model: layer l has tensor 2 l, its weight, and 2 l + 1, its bias; layer L is the head ---- */

typedef struct {
    long rows, columns, offset; /* columns is 1 for biases */
} tensor;

static tensor *tensors;
static long n_tensors, n_elements;
static real *parameter, *momentum, *variance, *rounded;
static real *grads, *grad; /* of each slot; of the slot at hand, and in the end, the first, of the batch */
static real **in, **sum; /* of a layer: what goes in, and its product with bias */
static real *dx, *dy;
static long target[T];

static uint64_t hash(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static double normal(long which, long element)
{
    uint64_t key = hash(hash((uint64_t)seed) + (uint64_t)which) + 2 * (uint64_t)element;
    int64_t total = 0;
    for (long i = 0; i < 8; i++)
        total += (int64_t)(hash(key + i / 4) >> 16 * (i % 4) & 0xFFFF);
    return (double)(2 * total - 8 * 65535) / (2 * 65536.0 * 0.816496580927726);
}

static real *room(long count)
{
    real *p = calloc((size_t)count, sizeof(real));
    if (!p) {
        fprintf(stderr, "mlp: there is no memory for %ld numbers\n", count);
        exit(1);
    }
    return p;
}

static long inputs(long l)
{
    return l ? C : I;
}
static long outputs(long l)
{
    return l < L ? C : V;
}
static int is_odd(long l)
{
    return l < L && l % 2;
}

static void add_tensor(long rows, long columns)
{
    tensors[n_tensors++] = (tensor){ rows, columns, n_elements };
    n_elements += rows * columns;
}

/* Weights have the deviation that keeps the size of what passes through: the root of 2 / in. */
static void make_model(void)
{
    tensors = calloc((size_t)(2 * L + 1), sizeof *tensors);
    in = calloc((size_t)(L + 1), sizeof *in), sum = calloc((size_t)(L + 1), sizeof *sum);
    for (long l = 0; l <= L; l++) {
        in[l] = room(T * inputs(l)), sum[l] = room(T * outputs(l));
        add_tensor(is_odd(l) ? inputs(l) : outputs(l), is_odd(l) ? outputs(l) : inputs(l));
        if (l < L)
            add_tensor(C, 1);
    }
    rounded = bf16 ? room(n_elements) : NULL;
    parameter = room(n_elements), momentum = room(n_elements), variance = room(n_elements);
    grads = room(B * n_elements), dx = room(T * (C > I ? C : I)), dy = room(T * C);
    for (long l = 0; l <= L; l++) {
        double deviation = sqrt((l < L ? 2.0 : 1.0) / (double)inputs(l));
        for (long i = 0; i < inputs(l) * outputs(l); i++)
            parameter[tensors[2 * l].offset + i] = (real)(deviation * normal(2 * l, i));
    }
}

static uint32_t mix_bits(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = (x ^ x >> 15) * 0x846CA68Bu;
    return x ^ x >> 16;
}

/* bf16=1: what operations read of the parameters. */
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

static real *values(void)
{
    return bf16 ? rounded : parameter;
}

/* The weight of layer l, or its gradient, as [in][out], however it lies. */
static matrix weight(real *of, long l)
{
    matrix stored = { of + tensors[2 * l].offset, tensors[2 * l].columns, 1 };
    return is_odd(l) ? stored : turned(stored);
}
static real *bias(real *of, long l)
{
    return of + tensors[2 * l + 1].offset;
}

static void product(long l)
{
    matrix x = { in[l], inputs(l), 1 }, y = { sum[l], outputs(l), 1 };
    long chunks = is_odd(l) ? CHUNKS : 1;
    multiply(y, x, weight(values(), l), T, outputs(l), inputs(l), chunks, inputs(l) / chunks);
    narrow(sum[l], T * outputs(l));
}

/* From the gradient d of the product: that of the weight, and dx, that of what went in. */
static void product_backward(long l, real *d)
{
    matrix x = { in[l], inputs(l), 1 }, y = { d, outputs(l), 1 }, to = { dx, inputs(l), 1 };
    long chunks = is_odd(l) ? 1 : CHUNKS, chunk = is_odd(l) ? C : chunk_of(outputs(l));
    multiply(weight(grad, l), turned(x), y, inputs(l), outputs(l), T, CHUNKS, T / CHUNKS);
    multiply(to, y, turned(weight(values(), l)), T, inputs(l), outputs(l), chunks, chunk);
    narrow(dx, T * inputs(l));
}

static const real root_2_pi = (real)0.7978845608028654, cubic = (real)0.044715, cubic3 = (real)(3 * 0.044715);

static real gelu_tanh(real x)
{
    return 1 - 2 / (exponential(2 * (root_2_pi * FMA(cubic * (x * x), x, x))) + 1);
}
static real gelu(real x)
{
    return (real)0.5 * x * (1 + gelu_tanh(x));
}
static real gelu_slope(real x)
{
    real th = gelu_tanh(x), du = root_2_pi * FMA(cubic3, x * x, (real)1);
    return (real)0.5 * (1 + th) + (real)0.5 * x * (1 - th * th) * du;
}

static void layer_forward(long l)
{
    product(l);
    for (long i = 0; i < T * C; i++) {
        sum[l][i] = nearest(sum[l][i] + bias(values(), l)[i % C]);
        in[l + 1][i] = nearest(gelu(sum[l][i]));
    }
}

/* dx is the gradient of the layer's result at first, and of its input in the end. */
static void layer_backward(long l)
{
    for (long i = 0; i < T * C; i++)
        dy[i] = nearest(dx[i] * gelu_slope(sum[l][i]));
    memcpy(dx, dy, sizeof(real) * (size_t)(T * C));
    tree(dx, T, C);
    for (long i = 0; i < C; i++)
        bias(grad, l)[i] = dx[i] + 0;
    product_backward(l, dy);
}

/* The loss of each row is added to the sum; the scores become the gradient of the batch's mean. */
static void cross_entropy(double *loss)
{
    for (long t = 0; t < T; t++) {
        real *x = sum[L] + t * V, max = x[0], wanted = x[target[t]] + 0, lane[CHUNKS * LANES] = { 0 };
        for (long i = 1; i < V; i++)
            max = x[i] > max ? x[i] : max;
        for (long i = 0; i < V; i++) {
            long c = i / chunk_of(V), n = i % chunk_of(V);
            x[i] = exponential(x[i] - max);
            lane[c * LANES + n % LANES] += x[i];
        }
        tree(lane, CHUNKS * LANES, 1); /* of the lanes of each chunk, then of the chunks */
        *loss += (double)((real)log((double)lane[0]) + max - wanted);
        for (long i = 0; i < V; i++)
            x[i] = nearest((x[i] / lane[0] - (i == target[t] ? 1 : 0)) * ((real)1 / (real)(B * T)));
    }
}

/* ---- a step ---- */

/* A row is a function of (step, slot, row): the pattern of its class, whole numbers of -128 to 127, and noise
 * twice as large, as exact fractions. */
static void make_rows(long step, long slot)
{
    for (long t = 0; t < T; t++) {
        uint64_t key = hash(hash(hash(hash((uint64_t)seed) + (uint64_t)step) + (uint64_t)slot) + (uint64_t)t);
        target[t] = (long)(key % (uint64_t)V);
        uint64_t class_key = hash(~hash((uint64_t)seed) + (uint64_t)target[t]);
        for (long i = 0; i < I; i++) {
            long pattern = (long)(hash(class_key + (uint64_t)i) % 256) - 128;
            long noise = (long)(hash(key + 1 + (uint64_t)i) % 512) - 256;
            in[0][t * I + i] = (real)(pattern + noise) / 128;
        }
    }
}

static double loss_and_gradient(long step, int backward)
{
    double loss = 0;
    for (long slot = 0; slot < B; slot++) {
        grad = grads + slot * n_elements;
        make_rows(step, slot);
        for (long l = 0; l < L; l++)
            layer_forward(l);
        product(L);
        cross_entropy(&loss);
        if (backward)
            product_backward(L, sum[L]);
        for (long l = L - 1; backward && l >= 0; l--)
            layer_backward(l);
    }
    grad = grads;
    if (backward)
        tree(grads, B, n_elements);
    narrow(grads, n_elements);
    return loss / (double)(B * T);
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

/* 64 leaves of each tensor, by rows, as in gpt.c. */
static double gradient_norm(void)
{
    double total = 0;
    for (long t = 0; t < n_tensors; t++) {
        long count = tensors[t].rows * tensors[t].columns;
        long width = (tensors[t].rows + 63) / 64 * tensors[t].columns;
        for (long from = 0; from < count; from += width)
            total +=
                sum_squares(grad + tensors[t].offset + from, count - from < width ? count - from : width);
    }
    return sqrt(total);
}

static void update(long step, double norm)
{
    real s = norm > clip ? (real)(clip / norm) : 1, b1 = (real)0.9, b2 = (real)0.95, rate = (real)lr;
    real i1 = (real)(1 / (1 - pow(0.9, (double)step + 1)));
    real i2 = (real)(1 / (1 - pow(0.95, (double)step + 1)));
    for (long t = 0; t < n_tensors; t++) {
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
    for (long t = 0; t < n_tensors; t++) {
        double largest = 0, error = 0;
        long count = tensors[t].rows * tensors[t].columns;
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
        printf("tensor %-3ld %ld elements: largest gradient %.3e, worst error %.1e of it\n", t, check,
            largest, error);
        worst = fmax(worst, error);
    }
    printf("worst error: %.1e\n", worst);
    return !(worst <= 1e-6);
}

/* ---- main ---- */

static void save(const char *path, const real *x)
{
    if (!*path)
        return;
    FILE *f = fopen(path, "wb");
    size_t done = f ? fwrite(x, sizeof(real), (size_t)n_elements, f) : 0;
    if (!f || fclose(f) || done != (size_t)n_elements) {
        fprintf(stderr, "mlp: %s cannot be written\n", path);
        exit(1);
    }
}

static int parse(const char *word)
{
    const struct {
        const char *form;
        void *to;
    } options[] = { { "layers=%ld", &L }, { "width=%ld", &C }, { "inputs=%ld", &I }, { "classes=%ld", &V },
        { "batch=%ld", &B }, { "steps=%ld", &steps }, { "sgd=%ld", &sgd }, { "seed=%ld", &seed },
        { "check=%ld", &check }, { "delay=%ld", &delay }, { "bf16=%ld", &bf16 },
        { "stochastic=%ld", &stochastic }, { "lr=%lf", &lr }, { "clip=%lf", &clip }, { "decay=%lf", &decay },
        { "grads=%4095[^\n]", grads_path }, { "params=%4095[^\n]", params_path } };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (sscanf(word, options[i].form, options[i].to) == 1)
            return 1;
    fprintf(stderr,
        "mlp: %s is not known; KEY=VALUE with one of: layers width inputs classes batch steps sgd "
        "seed check delay bf16 stochastic lr clip decay grads params\n",
        word);
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!parse(argv[i]))
            return 2;
    if (L < 1 || L > 4096 || C < 64 || C % 64 || I < 1 || I > 65536 || V < 2 || V > 65536 || B < 1 ||
        B > 1 << 20) {
        fprintf(stderr,
            "mlp: width must be a multiple of 64, inputs 1 to 65536, classes 2 to 65536, layers 1 "
            "to 4096, batch 1 to 1048576\n");
        return 2;
    }
    make_model();
    round_masters(0);
    if (check)
        return check_gradients();
    for (long step = 0; step < steps; step++) {
        double loss = loss_and_gradient(step, 1), norm = gradient_norm();
        if (step == 0)
            save(grads_path, grad);
        (delay ? delayed_update : update)(step, norm);
        printf("step %ld loss %.6f %a norm %.6f %a\n", step, loss, loss, norm, norm);
        fflush(stdout);
    }
    save(params_path, parameter);
    return 0;
}
