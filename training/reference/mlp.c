/* SPDX-License-Identifier: BSD-3-Clause */
/* mlp.c: the golden deep MLP, the other model that the parallel trainer must equal. It needs the C
 * library, and golden.h beside it.
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
#define NAME "mlp"
#include "golden.h"

enum { T = 8 };

static long L = 4, C = 64, I = 32, V = 10, B = 8; /* layers, width, inputs, classes, slots of T rows */
static long steps = 10, sgd = 0, seed = 1, check = 0, delay = 0;
static double lr = 1e-3, clip = 1, decay = 0.1;

/* ---- the model: layer l has tensor 2 l, its weight, and 2 l + 1, its bias; layer L is the head ---- */

static real **in, **sum; /* of a layer: what goes in, and its product with bias */
static real *dx, *dy;
static long target[T];

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
    tensors[n_tensors++] = (tensor){ .rows = rows, .columns = columns, .offset = n_elements };
    n_own = n_tensors;
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

/* The weight of layer l as [in][out], however it lies; or as [out][in]. */
static matrix weight(long l, int out_first)
{
    const real *at = values() + tensors[2 * l].offset;
    return is_odd(l) != out_first ? plain(at, tensors[2 * l].columns) : turned(at, tensors[2 * l].columns);
}
static real *bias(real *of, long l)
{
    return of + tensors[2 * l + 1].offset;
}

static void product(long l)
{
    long chunk = is_odd(l) ? inputs(l) / CHUNKS : inputs(l);
    multiply(sum[l], T, outputs(l), inputs(l), plain(in[l], inputs(l)), weight(l, 0), chunk);
    narrow(sum[l], T * outputs(l));
}

/* From the gradient d of the product: that of the weight, and dx, that of what went in. */
static void product_backward(long l, real *d)
{
    long from = inputs(l), to = outputs(l);
    real *dw = grad + tensors[2 * l].offset;
    if (is_odd(l))
        multiply(dw, from, to, T, turned(in[l], from), plain(d, to), T / CHUNKS);
    else
        multiply(dw, to, from, T, turned(d, to), plain(in[l], from), T / CHUNKS);
    multiply(dx, T, from, to, plain(d, to), weight(l, 1), is_odd(l) ? to : padded_chunk(to));
    narrow(dx, T * from);
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
            long c = i / padded_chunk(V), n = i % padded_chunk(V);
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

static double whole_loss(void)
{
    return loss_and_gradient(0, 0);
}

/* ---- main ---- */

static int parse(const char *word)
{
    const option options[] = { { "layers=%ld", &L }, { "width=%ld", &C }, { "inputs=%ld", &I },
        { "classes=%ld", &V }, { "batch=%ld", &B }, { "steps=%ld", &steps }, { "sgd=%ld", &sgd },
        { "seed=%ld", &seed }, { "check=%ld", &check }, { "delay=%ld", &delay }, { "bf16=%ld", &bf16 },
        { "stochastic=%ld", &stochastic }, { "lr=%lf", &lr }, { "clip=%lf", &clip }, { "decay=%lf", &decay },
        { "grads=%4095[^\n]", grads_path }, { "params=%4095[^\n]", params_path } };
    return take(word, options, sizeof options / sizeof *options);
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
    return learn();
}
