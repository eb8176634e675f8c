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
#else
typedef float real;
#define FMA fmaf
#define ROOT sqrtf
#endif

#if defined __x86_64__ && defined __GNUC__ && defined __linux__ && !defined __clang__ &&                     \
    !defined __SANITIZE_THREAD__
#define CLONES __attribute__((target_clones("arch=haswell", "default")))
#else
#define CLONES
#endif

enum { T = 8, CHUNKS = 8, LANES = 16, LEAVES = 64 };

static long L = 4, C = 64, I = 32, V = 10, B = 8; /* layers, width, inputs, classes, slots of T rows */
static long steps = 10, sgd = 0, seed = 1, check = 0;
static double lr = 1e-3, clip = 1, decay = 0.1;
static const char *grads_path, *params_path;

/* ---- numbers and sums, as in gpt.c ---- */

#ifdef FP64
#define exponential exp
#define logarithm log
#else
static real exponential(real x)
{
    float z = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float k = FMA(z, 1.44269504f, 12582912.0f) - 12582912.0f;
    float f = FMA(k, -1.42860682e-6f, FMA(k, -0.693145751953125f, z)), p = 1.9875691500e-4f;
    p = FMA(FMA(FMA(p, f, 1.3981999507e-3f), f, 8.3334519073e-3f), f, 4.1665795894e-2f);
    p = FMA(FMA(FMA(p, f, 1.6666665459e-1f), f, 5.0000001201e-1f), f * f, f) + 1.0f;
    union {
        uint32_t bits;
        float number;
    } power = { (uint32_t)((int)k + 127) << 23 };
    return x < -87.0f ? 0.0f : p * power.number;
}
static real logarithm(real x)
{
    return (float)log((double)x);
}
#endif

static real *room(long count)
{
    real *p = calloc((size_t)count, sizeof(real));
    if (!p) {
        fprintf(stderr, "mlp: there is no memory for %ld numbers\n", count);
        exit(1);
    }
    return p;
}

static void add(real *x, const real *y, long count)
{
    for (long i = 0; i < count; i++)
        x[i] = x[i] + y[i];
}

/* The tree over n rows of `width` elements; the sum is then in the first row. */
static void tree(real *x, long n, long width)
{
    for (long step = 1; step < n; step *= 2)
        for (long i = 0; i + step < n; i += 2 * step)
            add(x + i * width, x + (i + step) * width, width);
}

/* out[M][N] = A[M][K] B[K][N]: a chain in each chunk of K, the tree over the chunks. */
typedef struct {
    const real *at;
    long row, column;
} matrix;

CLONES static void multiply(real *out, long M, long N, long K, matrix a, matrix b, long chunks, long chunk)
{
    real *sum = room(chunks * N);
    for (long i = 0; i < M; i++) {
        memset(sum, 0, sizeof(real) * (size_t)(chunks * N));
        for (long k = 0; k < K; k++) {
            real *acc = sum + k / chunk * N, x = a.at[i * a.row + k * a.column];
            for (long j = 0; j < N; j++)
                acc[j] = FMA(x, b.at[k * b.row + j * b.column], acc[j]);
        }
        tree(sum, chunks, N);
        memcpy(out + i * N, sum, sizeof(real) * (size_t)N);
    }
    free(sum);
}
static matrix plain(const real *x, long columns)
{
    return (matrix){ x, columns, 1 };
}
static matrix turned(const real *x, long columns)
{
    return (matrix){ x, 1, columns };
}

/* ---- parameters: a weight and a bias for each layer, and the head's weight ---- */

typedef struct {
    long rows, columns, offset; /* columns is 1 for biases */
} tensor;

static tensor *tensors;
static long n_tensors, n_elements;
static real *parameter, *momentum, *variance;
static real *grads, *grad; /* of each slot; of the slot at hand, and in the end, the first, of the batch */

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
    int64_t sum = 0;
    for (int half = 0; half < 2; half++)
        for (uint64_t bits = hash(key + (uint64_t)half), i = 0; i < 4; i++, bits >>= 16)
            sum += (int64_t)(bits & 0xFFFF);
    return (double)(2 * sum - 8 * 65535) / (2 * 65536.0 * 0.816496580927726);
}

/* Weights have the deviation that keeps the size of what passes through: the root of 2 / in. */
static void add_tensor(long rows, long columns, double deviation)
{
    tensors[n_tensors++] = (tensor){ rows, columns, n_elements };
    n_elements += rows * columns;
    parameter = realloc(parameter, sizeof(real) * (size_t)n_elements);
    for (long i = 0; parameter && i < rows * columns; i++)
        parameter[n_elements - rows * columns + i] =
            deviation > 0 ? (real)(deviation * normal(n_tensors - 1, i)) : 0;
}

/* ---- the model ---- */

static real *input, **before, **after; /* of a layer: its sum with bias, and GELU of that */
static real *logits, *dx, *dy;
static long target[T];

static long inputs_of(long l)
{
    return l ? C : I;
}
static const real *input_of(long l)
{
    return l ? after[l - 1] : input;
}

static void allocate(void)
{
    tensors = calloc((size_t)(2 * L + 1), sizeof *tensors);
    before = calloc((size_t)L, sizeof *before), after = calloc((size_t)L, sizeof *after);
    for (long l = 0; l < L; l++) {
        double deviation = sqrt(2.0 / (double)inputs_of(l));
        if (l % 2)
            add_tensor(C, C, deviation);
        else
            add_tensor(C, inputs_of(l), deviation);
        add_tensor(C, 1, 0);
        before[l] = room(T * C), after[l] = room(T * C);
    }
    add_tensor(V, C, sqrt(1.0 / (double)C));
    momentum = room(n_elements), variance = room(n_elements), grads = room(B * n_elements);
    input = room(T * I), logits = room(T * V), dx = room(T * C), dy = room(T * C);
}

static real *weight(long t)
{
    return parameter + tensors[t].offset;
}
static real *gradient(long t)
{
    return grad + tensors[t].offset;
}

/* y = GELU(x) and, if d, d *= its derivative. */
static void gelu(real *y, real *d, const real *x)
{
    const real root_2_pi = (real)0.7978845608028654, cubic = (real)0.044715, cubic3 = (real)(3 * 0.044715);
    for (long i = 0; i < T * C; i++) {
        real xx = x[i] * x[i], u = root_2_pi * FMA(cubic * xx, x[i], x[i]);
        real th = 1 - 2 / (exponential(2 * u) + 1), du = root_2_pi * FMA(cubic3, xx, (real)1);
        if (d)
            d[i] = d[i] * ((real)0.5 * (1 + th) + (real)0.5 * x[i] * (1 - th * th) * du);
        else
            y[i] = (real)0.5 * x[i] * (1 + th);
    }
}

static void layer_forward(long l)
{
    long K = inputs_of(l);
    if (l % 2)
        multiply(before[l], T, C, K, plain(input_of(l), K), plain(weight(2 * l), C), CHUNKS, K / CHUNKS);
    else
        multiply(before[l], T, C, K, plain(input_of(l), K), turned(weight(2 * l), K), 1, K);
    for (long i = 0; i < T * C; i++)
        before[l][i] = before[l][i] + weight(2 * l + 1)[i % C];
    gelu(after[l], NULL, before[l]);
}

/* dy is the gradient of the layer's result at first, and of its input in the end. */
static void layer_backward(long l)
{
    long K = inputs_of(l);
    gelu(NULL, dy, before[l]);
    memcpy(dx, dy, sizeof(real) * (size_t)(T * C));
    tree(dx, T, C);
    for (long i = 0; i < C; i++)
        gradient(2 * l + 1)[i] = dx[i] + 0;
    if (l % 2)
        multiply(gradient(2 * l), K, C, T, turned(input_of(l), K), plain(dy, C), CHUNKS, T / CHUNKS);
    else
        multiply(gradient(2 * l), C, K, T, turned(dy, C), plain(input_of(l), K), CHUNKS, T / CHUNKS);
    if (l % 2)
        multiply(dx, T, K, C, plain(dy, C), turned(weight(2 * l), C), 1, C);
    else if (l)
        multiply(dx, T, K, C, plain(dy, C), plain(weight(2 * l), K), CHUNKS, C / CHUNKS);
    memcpy(dy, dx, sizeof(real) * (size_t)(T * C));
}

/* Classes in a chunk: as if there were a multiple of 64 of them. */
static long class_chunk(void)
{
    return (V + 63) / 64 * 64 / CHUNKS;
}

/* leaf[T] gets the loss of each row; logits become the gradient of the batch's mean. */
static void head_forward(double *leaf)
{
    multiply(logits, T, V, C, plain(after[L - 1], C), turned(weight(2 * L), C), 1, C);
    for (long t = 0; t < T; t++) {
        real *x = logits + t * V, max = x[0], wanted = x[target[t]] + 0, sum[CHUNKS] = { 0 };
        for (long i = 1; i < V; i++)
            max = x[i] > max ? x[i] : max;
        for (long c = 0; c < CHUNKS; c++) {
            real lane[LANES] = { 0 };
            for (long i = c * class_chunk(), n = 0; i < V && n < class_chunk(); i++, n++) {
                x[i] = exponential(x[i] - max);
                lane[n % LANES] += x[i];
            }
            tree(lane, LANES, 1);
            sum[c] = lane[0];
        }
        tree(sum, CHUNKS, 1);
        leaf[t] = (double)(logarithm(sum[0]) + max - wanted);
        for (long i = 0; i < V; i++)
            x[i] = (x[i] / sum[0] - (i == target[t] ? 1 : 0)) * ((real)1 / (real)(B * T));
    }
}

static void head_backward(void)
{
    multiply(gradient(2 * L), V, C, T, turned(logits, V), plain(after[L - 1], C), CHUNKS, T / CHUNKS);
    multiply(dy, T, C, V, plain(logits, V), plain(weight(2 * L), C), CHUNKS, class_chunk());
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
            input[t * I + i] = (real)(pattern + noise) / 128;
        }
    }
}

static double loss_and_gradient(long step, int backward)
{
    double *leaf = calloc((size_t)(B * T), sizeof *leaf), sum = 0;
    for (long slot = 0; slot < B; slot++) {
        grad = grads + slot * n_elements;
        make_rows(step, slot);
        for (long l = 0; l < L; l++)
            layer_forward(l);
        head_forward(leaf + slot * T);
        if (backward)
            head_backward();
        for (long l = L - 1; backward && l >= 0; l--)
            layer_backward(l);
    }
    grad = grads;
    if (backward)
        tree(grads, B, n_elements);
    for (long i = 0; i < B * T; i++)
        sum += leaf[i];
    free(leaf);
    return sum / (double)(B * T);
}

/* 64 leaves of each tensor, by rows, as in gpt.c. */
static double gradient_norm(void)
{
    double sum = 0;
    for (long t = 0; t < n_tensors; t++) {
        long count = tensors[t].rows * tensors[t].columns,
             leaf = (tensors[t].rows + 63) / 64 * tensors[t].columns;
        for (long i = 0; i < LEAVES; i++) {
            double part = 0;
            for (long x = i * leaf; x < (i + 1) * leaf && x < count; x++)
                part += (double)gradient(t)[x] * (double)gradient(t)[x];
            sum += part;
        }
    }
    return sqrt(sum);
}

static void update(long step, double norm)
{
    real s = norm > clip ? (real)(clip / norm) : 1, b1 = (real)0.9, b2 = (real)0.95, rate = (real)lr;
    real i1 = (real)(1 / (1 - pow(0.9, (double)step + 1))),
         i2 = (real)(1 / (1 - pow(0.95, (double)step + 1)));
    for (long t = 0; t < n_tensors; t++) {
        real wd = tensors[t].columns > 1 ? (real)decay : 0;
        for (long i = tensors[t].offset, n = tensors[t].rows * tensors[t].columns; n > 0; i++, n--) {
            real g = grad[i] * s, *p = &parameter[i], *m = &momentum[i], *v = &variance[i];
            *m = b1 * *m + (1 - b1) * g;
            *v = b2 * *v + (1 - b2) * (g * g);
            *p = sgd ? *p - rate * g : *p - rate * ((*m * i1) / (ROOT(*v * i2) + (real)1e-8) + wd * *p);
        }
    }
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
            largest = fmax(largest, fabs((double)gradient(t)[i]));
        for (long n = 0; n < check; n++) {
            long i = (long)(hash((uint64_t)(t * 1000 + n)) % (uint64_t)count);
            real was = weight(t)[i];
            weight(t)[i] = was + (real)eps;
            double above = loss_and_gradient(0, 0);
            weight(t)[i] = was - (real)eps;
            double below = loss_and_gradient(0, 0);
            weight(t)[i] = was;
            error = fmax(error, fabs((above - below) / (2 * eps) - (double)gradient(t)[i]) / largest);
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
    FILE *f = path ? fopen(path, "wb") : NULL;
    if (!path)
        return;
    int ok = f && fwrite(x, sizeof(real), (size_t)n_elements, f) == (size_t)n_elements;
    if (!f || fclose(f) || !ok) {
        fprintf(stderr, "mlp: %s cannot be written\n", path);
        exit(1);
    }
}

static int parse(const char *word)
{
    static const struct {
        const char *key;
        long *whole;
        double *real;
        const char **text;
    } keys[] = { { "layers=", &L, 0, 0 }, { "width=", &C, 0, 0 }, { "inputs=", &I, 0, 0 },
        { "classes=", &V, 0, 0 }, { "batch=", &B, 0, 0 }, { "steps=", &steps, 0, 0 }, { "sgd=", &sgd, 0, 0 },
        { "seed=", &seed, 0, 0 }, { "check=", &check, 0, 0 }, { "lr=", 0, &lr, 0 }, { "clip=", 0, &clip, 0 },
        { "decay=", 0, &decay, 0 }, { "grads=", 0, 0, &grads_path }, { "params=", 0, 0, &params_path } };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *value = word + strlen(keys[i].key);
        if (strncmp(word, keys[i].key, strlen(keys[i].key)))
            continue;
        if (keys[i].whole)
            *keys[i].whole = strtol(value, NULL, 10);
        else if (keys[i].real)
            *keys[i].real = strtod(value, NULL);
        else
            *keys[i].text = value;
        return 1;
    }
    fprintf(stderr, "mlp: %s is not known; KEY=VALUE with one of:", word);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        fprintf(stderr, " %s", keys[i].key);
    return fprintf(stderr, "\n") < 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!parse(argv[i]))
            return 2;
    if (L < 1 || L > 4096 || C < 64 || C % 64 || I < 1 || I > 65536 || V < 2 || V > 65536 || B < 1 ||
        B > 1 << 20) {
        fprintf(stderr,
            "mlp: width must be a multiple of 64, inputs 1 to 65536, classes 2 to 65536, layers 1 to "
            "4096, batch 1 to 1048576\n");
        return 2;
    }
    allocate();
    if (check)
        return check_gradients();
    for (long step = 0; step < steps; step++) {
        double loss = loss_and_gradient(step, 1), norm = gradient_norm();
        if (step == 0)
            save(grads_path, grad);
        update(step, norm);
        printf("step %ld loss %.6f %a norm %.6f %a\n", step, loss, loss, norm, norm);
        fflush(stdout);
    }
    save(params_path, parameter);
    return 0;
}
