/* SPDX-License-Identifier: BSD-3-Clause */
/* cnn.c: the golden convolutional network, which tells digits on noisy pictures. It needs the C
 * library, and golden.h beside it.
 *
 *   cc -O2 -ffp-contract=off cnn.c -lm -o cnn        ./cnn steps=50
 *   cc -O2 -ffp-contract=off -DFP64 cnn.c -lm -o cnn64        ./cnn64 check=64
 *
 * A picture of 2 S x 2 S pixels is taken as a grid of S x S cells, each with its 2 x 2 pixels (of each of
 * three colours, planes=3) as channels.
 * L layers of a convolution of 3 x 3 cells, a bias, group norm (Wu, He 2018) if norm=1, and GELU; the mean
 * over the grid; a head that gives a score for each class; softmax and cross entropy. A batch has B pictures.
 *
 * The canonical order is that of gpt.c, where its words are defined: a picture stands for a sequence and a
 * cell for a token, row after row, so that a block is S / 8 rows of the grid. A tap is one of the nine cells
 * that a convolution reads, in the order of the grid; beyond the border it reads +0, which takes part. With
 * columns=1 cells and taps are numbered column after column, and a block is S / 8 columns.
 *
 *                  weight              out                                 dX
 *   even layers    [out][tap][in]      chain over (tap, in)                8 chunks of (out, tap), tree
 *   odd layers     [in][tap][out]      8 chunks of (in, tap), tree         chain over (tap, out)
 *   the head       [out][in]           chain over in                       8 chunks of out, tree
 *
 * With split=1 all layers are as the even ones, and with split=2 all but the first are as the odd ones.
 *
 * Gradients of weights and biases, the statistics of a norm and the mean over the grid sum over cells: 8
 * blocks, tree. So the work can be shared in these ways:
 *
 *   by filters     even layers' out: dX is a sum over ranks
 *   by channels    odd layers' in: out is a sum over ranks
 *   by pairs       both: a filter's rank keeps it as a channel, and one sum forward and one backward is due
 *                  for two layers. Of the norm, a rank has whole groups
 *   by space       each rank has blocks, and reads one row of its neighbours' (a halo): of a layer's input,
 *                  and backward of the gradient of its result. What sums over cells is a sum over ranks
 *   by pictures    as gpt.c's sequences
 *
 * A picture has but one loss; the leaves of gpt.c are (picture, block), and it stands in block 0. */
#define NAME "cnn"
#include "golden.h"

enum { TAPS = 9, PIXELS = 4 };

static long L = 4, C = 64, S = 8, V = 10, B = 8; /* layers, channels, size of the grid, classes, pictures */
static long steps = 10, norm = 0, groups = 8, split = 0, planes = 1, turn = 0, sgd = 0, seed = 1, check = 0,
            delay = 0;
static double lr = 1e-3, clip = 1, decay = 0.1;
static char data_path[4096], labels_path[4096];
static long T; /* cells: S x S */

/* ---- sums ---- */

/* out[c] = the sum of x[t][c] over the cells, or with y of fma(x, y, ..): by blocks, then the tree. */
static void sum_cells(real *out, const real *x, const real *y)
{
    real *part = room(CHUNKS * C);
    for (long t = 0; t < T; t++)
        for (long c = 0; c < C; c++) {
            real *acc = &part[t / (T / CHUNKS) * C + c];
            *acc = y ? FMA(x[t * C + c], y[t * C + c], *acc) : *acc + x[t * C + c];
        }
    tree(part, CHUNKS, C);
    memcpy(out, part, sizeof(real) * (size_t)C);
    free(part);
}

/* ---- parameters: of each layer weight, bias and with norm=1 the norm's scale and shift; the head ---- */

/* deviation 0: all elements are `first`. */
static void add_tensor(long rows, long columns, double deviation, real first)
{
    tensor t = { .rows = rows, .columns = columns, .offset = n_elements };
    n_elements += rows * columns;
    parameter = realloc(parameter, sizeof(real) * (size_t)n_elements);
    for (long i = 0; parameter && i < rows * columns; i++)
        parameter[t.offset + i] = deviation > 0 ? (real)(deviation * normal(n_tensors, i)) : first;
    tensors[n_tensors++] = t;
    n_own = n_tensors;
}

enum { WEIGHT, BIAS, NORM_SCALE, NORM_SHIFT };

static long of_layer(long l, long which)
{
    return l * (norm ? 4 : 2) + which;
}
static real *weight(long t)
{
    return values() + tensors[t].offset;
}
static real *gradient(long t)
{
    return grad + tensors[t].offset;
}

/* ---- the model ---- */

/* Whether a row of the weight is an input channel, or a filter: in pairs they take turns. */
static int by_channels(long l)
{
    return split == 0 ? l % 2 == 1 : split == 2 && l > 0;
}

typedef struct {
    long in; /* channels of what goes in */
    real *x, *sum, *before; /* what goes in; its convolution with bias; that, or its norm: what GELU takes */
    real *mean, *scale; /* of each group; scale: 1 / deviation */
} layer;

static layer *layers; /* x of one more is what the last layer gives */
static real *patches, *pooled, *scores, *dx, *dy;
static long target;

/* Weights have the deviation that keeps the size of what passes through: the root of 2 / (taps x in). */
static void make_model(void)
{
    T = S * S;
    tensors = calloc((size_t)(of_layer(L, 0) + 1), sizeof *tensors);
    layers = calloc((size_t)(L + 1), sizeof *layers);
    for (long l = 0; l < L; l++) {
        long in = l ? C : PIXELS * planes;
        layers[l] = (layer){ .in = in,
            .x = room(T * in),
            .sum = room(T * C),
            .before = room(T * C),
            .mean = room(groups),
            .scale = room(groups) };
        add_tensor(
            by_channels(l) ? in : C, TAPS * (by_channels(l) ? C : in), sqrt(2.0 / (double)(TAPS * in)), 0);
        add_tensor(C, 1, 0, 0);
        for (long which = NORM_SCALE; norm && which <= NORM_SHIFT; which++)
            add_tensor(C, 1, 0, which == NORM_SCALE);
    }
    layers[L].x = room(T * C);
    add_tensor(V, C, sqrt(1.0 / (double)C), 0);
    rounded = bf16 ? room(n_elements) : NULL;
    momentum = room(n_elements), variance = room(n_elements), grads = room(B * n_elements);
    patches = room(T * TAPS * C), pooled = room(C), scores = room(V), dx = room(T * C), dy = room(T * C);
}

/* patches[t][tap][c], or [t][c][tap] with the channels outside: what each cell's taps read of x[t][c]; with
 * direction -1 the cells whose taps read it. */
static void gather(const real *x, long channels, long channels_outside, long direction)
{
    for (long t = 0; t < T; t++)
        for (long tap = 0; tap < TAPS; tap++) {
            long i = t / S + direction * (tap / 3 - 1), j = t % S + direction * (tap % 3 - 1);
            int inside = i >= 0 && i < S && j >= 0 && j < S;
            for (long c = 0; c < channels; c++) {
                long place = channels_outside ? c * TAPS + tap : tap * channels + c;
                patches[t * TAPS * channels + place] = inside ? x[(i * S + j) * channels + c] : 0;
            }
        }
}

static void convolve(long l)
{
    layer *y = &layers[l];
    const real *w = weight(of_layer(l, WEIGHT));
    long K = TAPS * y->in;
    gather(y->x, y->in, by_channels(l), 1);
    if (by_channels(l))
        multiply(y->sum, T, C, K, plain(patches, K), plain(w, C), K / CHUNKS);
    else
        multiply(y->sum, T, C, K, plain(patches, K), turned(w, K), K);
    for (long i = 0; i < T * C; i++)
        y->sum[i] = nearest(nearest(y->sum[i]) + weight(of_layer(l, BIAS))[i % C]);
}

/* From dy, the gradient of the sum: those of weight and bias, and dx, that of what went in. */
static void convolve_backward(long l)
{
    const layer *y = &layers[l];
    real *dw = gradient(of_layer(l, WEIGHT));
    const real *w = weight(of_layer(l, WEIGHT));
    long K = TAPS * y->in, back = TAPS * C;
    sum_cells(gradient(of_layer(l, BIAS)), dy, NULL);
    gather(y->x, y->in, by_channels(l), 1);
    if (by_channels(l))
        multiply(dw, K, C, T, turned(patches, K), plain(dy, C), T / CHUNKS);
    else
        multiply(dw, C, K, T, turned(dy, C), plain(patches, K), T / CHUNKS);
    if (l == 0)
        return;
    gather(dy, C, !by_channels(l), -1);
    if (by_channels(l))
        multiply(dx, T, C, back, plain(patches, back), turned(w, back), back);
    else
        multiply(dx, T, C, back, plain(patches, back), plain(w, C), back / CHUNKS);
    narrow(dx, T * C);
}

/* The sums of a norm: over the cells for each channel, then along the channels of a group. */
static void group_norm(long l)
{
    layer *y = &layers[l];
    const real *w = weight(of_layer(l, NORM_SCALE)), *b = weight(of_layer(l, NORM_SHIFT));
    long size = C / groups;
    real *sums = room(C);
    sum_cells(sums, y->sum, NULL);
    for (long g = 0; g < groups; g++)
        y->mean[g] = sum_row(sums + g * size, size) / (real)(T * size);
    for (long i = 0; i < T * C; i++)
        y->before[i] = nearest(y->sum[i] - y->mean[i % C / size]);
    sum_cells(sums, y->before, y->before);
    for (long g = 0; g < groups; g++)
        y->scale[g] = 1 / ROOT(sum_row(sums + g * size, size) / (real)(T * size) + (real)1e-5);
    for (long i = 0; i < T * C; i++)
        y->before[i] = nearest(FMA(y->before[i] * y->scale[i % C / size], w[i % C], b[i % C]));
    free(sums);
}

/* dy is the gradient of the norm's result at first, and of its input in the end. The sums over a group follow
 * from the gradients of scale and shift. */
static void group_norm_backward(long l)
{
    const layer *y = &layers[l];
    const real *w = weight(of_layer(l, NORM_SCALE));
    real *dw = gradient(of_layer(l, NORM_SCALE)), *db = gradient(of_layer(l, NORM_SHIFT));
    long size = C / groups;
    real *a = room(groups), *b = room(groups), *normed = dx; /* whose gradient has been used */
    for (long i = 0; i < T * C; i++)
        normed[i] = nearest(y->sum[i] - y->mean[i % C / size]) * y->scale[i % C / size];
    sum_cells(dw, dy, normed);
    sum_cells(db, dy, NULL);
    for (long g = 0; g < groups; g++) {
        a[g] = dot_row(w + g * size, db + g * size, size) / (real)(T * size);
        b[g] = dot_row(w + g * size, dw + g * size, size) / (real)(T * size);
    }
    for (long i = 0; i < T * C; i++) {
        long g = i % C / size;
        dy[i] = nearest((dy[i] * w[i % C] - a[g] - normed[i] * b[g]) * y->scale[g]);
    }
    free(a), free(b);
}

static void layer_forward(long l)
{
    convolve(l);
    if (norm)
        group_norm(l);
    else
        memcpy(layers[l].before, layers[l].sum, sizeof(real) * (size_t)(T * C));
    for (long i = 0; i < T * C; i++)
        layers[l + 1].x[i] = nearest(gelu(layers[l].before[i]));
}

/* dx is the gradient of the layer's result at first, and of its input in the end. */
static void layer_backward(long l)
{
    for (long i = 0; i < T * C; i++)
        dy[i] = nearest(dx[i] * gelu_slope(layers[l].before[i]));
    if (norm)
        group_norm_backward(l);
    convolve_backward(l);
}

/* The loss of the picture; the scores become the gradient of the batch's mean. */
static double head_forward(void)
{
    real lane[CHUNKS * LANES] = { 0 };
    sum_cells(pooled, layers[L].x, NULL);
    for (long c = 0; c < C; c++)
        pooled[c] = nearest(nearest(pooled[c]) / (real)T);
    multiply(scores, 1, V, C, plain(pooled, C), turned(weight(of_layer(L, 0)), C), C);
    narrow(scores, V);
    real max = scores[0], wanted = scores[target] + 0;
    for (long i = 1; i < V; i++)
        max = scores[i] > max ? scores[i] : max;
    for (long i = 0; i < V; i++) {
        scores[i] = exponential(scores[i] - max);
        lane[i / padded_chunk(V) * LANES + i % padded_chunk(V) % LANES] += scores[i];
    }
    tree(lane, CHUNKS * LANES, 1); /* over the lanes of each chunk, then over the chunks */
    for (long i = 0; i < V; i++)
        scores[i] = nearest((scores[i] / lane[0] - (i == target ? 1 : 0)) * ((real)1 / (real)B));
    return (double)((real)log((double)lane[0]) + max - wanted);
}

static void head_backward(void)
{
    real *d = room(C);
    multiply(gradient(of_layer(L, 0)), V, C, 1, turned(scores, V), plain(pooled, C), 1);
    multiply(d, 1, C, V, plain(scores, V), plain(weight(of_layer(L, 0)), C), padded_chunk(V));
    for (long i = 0; i < T * C; i++)
        dx[i] = nearest(nearest(d[i % C]) / (real)T);
    free(d);
}

/* ---- data ---- */

/* The digits 0 to F as seven bars show them: in each row of bits the bars a to g, from the lowest bit. */
static const unsigned char digits[16] = { 0x3F, 0x06, 0x5B, 0x4F, 0x66, 0x6D, 0x7D, 0x07, 0x7F, 0x6F, 0x77,
    0x7C, 0x39, 0x5E, 0x79, 0x71 };

/* Whether a digit of 5 x 9 points has ink at row i, column j. Bars: a above, b and c on the right, d below, e
 * and f on the left, g in the middle. */
static int has_ink(long digit, long i, long j)
{
    int bar = -1;
    if (i < 0 || i > 8 || j < 0 || j > 4)
        return 0;
    if (i % 4 == 0 && j % 4)
        bar = i == 0 ? 0 : i == 4 ? 6 : 3;
    if (i % 4 && j % 4 == 0)
        bar = j ? (i < 4 ? 1 : 2) : (i < 4 ? 5 : 4);
    return bar >= 0 && digits[digit] >> bar & 1;
}

/* data=FILE: pictures that were given. A picture has `planes` of high x wide bytes, and there is one every
 * `stride` bytes. */
static unsigned char *pixels, *labels;
static long pictures, high, wide, stride;

static int wrong_file(const char *path)
{
    fprintf(stderr, "cnn: %s must be a file of MNIST, or of CIFAR-10 with planes=3, whose sizes fit\n", path);
    return 0;
}

static unsigned char *contents(const char *path, long *count)
{
    FILE *f = fopen(path, "rb");
    unsigned char *p = NULL;
    *count = f && !fseek(f, 0, SEEK_END) ? ftell(f) : -1;
    if (*count > 0 && !fseek(f, 0, SEEK_SET))
        p = malloc((size_t)*count);
    if (!p || fread(p, 1, (size_t)*count, f) != (size_t)*count)
        *count = -1;
    if (f)
        fclose(f);
    return p;
}

/* The n-th number of a head: four bytes, the highest first. */
static long head(const unsigned char *p, long n)
{
    p += 4 * n;
    return (long)p[0] << 24 | (long)p[1] << 16 | (long)p[2] << 8 | p[3];
}

/* The format of MNIST, with labels=FILE: what it is, how many there are, their height and width, and the
 * bytes; of labels what they are, how many, and the bytes. */
static int read_mnist(void)
{
    long count, there;
    unsigned char *p = contents(data_path, &count), *l = contents(labels_path, &there);
    if (count < 16 || head(p, 0) != 0x803 || head(p, 2) > 2 * S || head(p, 3) > 2 * S)
        return wrong_file(data_path);
    pictures = head(p, 1), high = head(p, 2), wide = head(p, 3), stride = high * wide;
    if (stride == 0 || pictures == 0 || count != 16 + pictures * stride)
        return wrong_file(data_path);
    if (there != 8 + pictures || head(l, 0) != 0x801 || head(l, 1) != pictures)
        return wrong_file(labels_path);
    pixels = p + 16, labels = l + 8;
    return 1;
}

/* The format of CIFAR-10: of each picture its class, and its planes of 32 x 32 bytes. */
static int read_cifar(void)
{
    long count;
    unsigned char *p = contents(data_path, &count);
    high = wide = 32, stride = 1 + planes * high * wide, pictures = count / stride;
    if (count <= 0 || count % stride || high > 2 * S)
        return wrong_file(data_path);
    labels = calloc((size_t)pictures, 1), pixels = p + 1;
    for (long i = 0; labels && i < pictures; i++)
        labels[i] = p[i * stride];
    return labels != NULL;
}

static int read_pictures(void)
{
    if (!(planes == 3 ? read_cifar() : read_mnist()))
        return 0;
    for (long i = 0; i < pictures; i++)
        if (labels[i] >= V)
            return wrong_file(planes == 3 ? data_path : labels_path);
    return 1;
}

/* In the middle of the picture that the model takes. */
static long pixel_at(long picture, long plane, long i, long j)
{
    i -= (2 * S - high) / 2, j -= (2 * S - wide) / 2;
    int inside = i >= 0 && i < high && j >= 0 && j < wide;
    return inside ? pixels[picture * stride + (plane * high + i) * wide + j] : 0;
}

/* A picture is a function of (step, number): one of those that were given, or a digit, somewhere, 128 for
 * ink, with noise of -64 to 63. Numbers are whole, over 128. A point of the digit is S / 8 pixels wide. */
static void draw(long step, long number)
{
    uint64_t key = hash(hash(hash((uint64_t)seed) + (uint64_t)step) + (uint64_t)number);
    long point = S / 8, place = (long)(key >> 32);
    long chosen = pictures ? (long)(key % (uint64_t)pictures) : 0;
    target = pictures ? labels[chosen] : (long)(key % (uint64_t)V);
    long top = place % (2 * S - 9 * point + 1), left = (place >> 16) % (2 * S - 5 * point + 1);
    for (long i = 0; i < 2 * S; i++)
        for (long j = 0; j < 2 * S; j++) {
            int inside = i >= top && j >= left;
            long ink =
                !pictures && inside && has_ink(target, (i - top) / point, (j - left) / point) ? 128 : 0;
            long noise = (long)(hash(key + 1 + (uint64_t)(i * 2 * S + j)) % 128) - 64;
            long cell = turn ? j / 2 * S + i / 2 : i / 2 * S + j / 2;
            for (long p = 0; p < planes; p++)
                layers[0].x[(cell * planes + p) * PIXELS + i % 2 * 2 + j % 2] =
                    (real)(pictures ? pixel_at(chosen, p, i, j) : ink + noise) / 128;
        }
}

/* ---- a step ---- */

static double loss_and_gradient(long step, int backward)
{
    double loss = 0;
    for (long number = 0; number < B; number++) {
        grad = grads + number * n_elements;
        draw(step, number);
        for (long l = 0; l < L; l++)
            layer_forward(l);
        loss += head_forward();
        if (backward)
            head_backward();
        for (long l = L - 1; backward && l >= 0; l--)
            layer_backward(l);
    }
    grad = grads;
    if (backward)
        tree(grads, B, n_elements);
    narrow(grads, n_elements);
    return loss / (double)B;
}

static double whole_loss(void)
{
    return loss_and_gradient(0, 0);
}

/* ---- main ---- */

static int parse(const char *word)
{
    const option options[] = { { "layers=%ld", &L }, { "channels=%ld", &C }, { "size=%ld", &S },
        { "classes=%ld", &V }, { "batch=%ld", &B }, { "steps=%ld", &steps }, { "norm=%ld", &norm },
        { "groups=%ld", &groups }, { "columns=%ld", &turn }, { "split=%ld", &split },
        { "planes=%ld", &planes }, { "sgd=%ld", &sgd }, { "seed=%ld", &seed }, { "check=%ld", &check },
        { "delay=%ld", &delay }, { "bf16=%ld", &bf16 }, { "stochastic=%ld", &stochastic }, { "lr=%lf", &lr },
        { "clip=%lf", &clip }, { "decay=%lf", &decay }, { "grads=%4095[^\n]", grads_path },
        { "params=%4095[^\n]", params_path }, { "data=%4095[^\n]", data_path },
        { "labels=%4095[^\n]", labels_path } };
    return take(word, options, sizeof options / sizeof *options);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!parse(argv[i]))
            return 2;
    if (L < 1 || L > 4096 || C < 64 || C % 64 || C > 1 << 16 || S < 8 || S % 8 || S > 256 || V < 2 ||
        V > (*data_path ? 256 : 16) || B < 1 || B > 1 << 20 || groups < 1 || C % groups || split < 0 ||
        split > 2 || (planes != 1 && (planes != 3 || !*data_path))) {
        fprintf(stderr, "cnn: channels must be a multiple of 64, size one of 8 up to 256, classes 2 to 16, "
                        "with data 256, layers 1 to 4096, batch 1 to 1048576, groups must divide channels, "
                        "split 0 to 2, planes 1, or 3 with data\n");
        return 2;
    }
    if (*data_path && !read_pictures())
        return 2;
    make_model();
    return learn();
}
