/* SPDX-License-Identifier: BSD-3-Clause */
/* llama.c: the golden Llama. It needs the C library, and text.h and golden.h beside it.
 *
 *   cc -O2 -ffp-contract=off llama.c -lm -o llama        ./llama steps=50
 *   cc -O2 -ffp-contract=off -DFP64 llama.c -lm -o llama64        ./llama64 check=64
 *
 * The model is that of Touvron et al. 2023, and differs from gpt.c's in this: RMS norm (Zhang, Sennrich 2019)
 * in the place of layer norm; no biases, no table of positions and no tied head; queries and keys are turned
 * by their token's place (RoPE, Su et al. 2021); `kv` heads of keys and values, of which each serves HEADS /
 * kv heads of queries (grouped-query attention, Ainslie et al. 2023); and a feed-forward part whose hidden
 * channels are gated (SwiGLU, Shazeer 2020).
 *
 * The canonical order is that of gpt.c, where its words are defined. What is new:
 *
 *   RMS norm   the sum of squares of a row, and that of its gradient: 16 lanes
 *   RoPE       no sum. Channels i and i + D / 2 of a head are a pair, turned by place 10000^(-2 i / D); that
 *              power is rounded to float32, and its product with the place is exact
 *   a group    attention has the keys and values of a group once for each of its heads. Their gradient is the
 *              tree over the heads, of which each is a whole sum by then; keys are turned back after it
 *   layouts    qkv has rows [kv][HEADS / kv + 2][D]: of each group its queries, then keys, then values. fc1
 *              has rows [8][2][F / 8]: of each chunk of hidden channels first their gates
 *   SwiGLU     y = (g s) u with s = 1 / (1 + exp(-g)), where g is a gate and u beside it. The gradients are
 *              (dy u) (s (1 + g (1 - s))) of g, and dy (g s) of u
 *
 * qkv and fc1 are column-parallel, proj and fc2 row-parallel, as in gpt.c. */
#define NAME "llama"
#include "text.h"

static long KV = 2, F = 192; /* heads of keys and values; hidden channels */
static long steps = 10, sgd = 0, seed = 1, check = 0, delay = 0;
static double lr = 1e-3, clip = 1, decay = 0.1;
static long share, qkv_rows; /* heads of queries in a group; rows of qkv's weight */

/* ---- parameters ---- */

enum { LN1, QKV, PROJ, LN2, FC1, FC2, OF_LAYER };
enum { WTE, FIRST_LAYER };

static void add_tensor(const char *name, long layer, long rows, long columns, double deviation, real first)
{
    tensor *t = &tensors[n_tensors++];
    *t = (tensor){ "", rows, columns, n_elements, deviation, first };
    if (layer >= 0)
        snprintf(t->name, sizeof t->name, "layer%ld.", layer);
    snprintf(t->name + strlen(t->name), 32, "%s", name);
    n_elements += rows * columns;
}
static long of_layer(long l, long which)
{
    return FIRST_LAYER + l * OF_LAYER + which;
}
static long final_norm(void)
{
    return of_layer(L, 0);
}
static long head(void)
{
    return final_norm() + 1;
}

static void list_tensors(void)
{
    double back = 0.02 / sqrt(2.0 * (double)L);
    tensors = calloc((size_t)(head() + 1), sizeof *tensors);
    add_tensor("wte", -1, V, C, 0.02, 0);
    for (long l = 0; l < L; l++) {
        add_tensor("ln1.weight", l, C, 1, 0, 1);
        add_tensor("qkv.weight", l, qkv_rows, C, 0.02, 0);
        add_tensor("proj.weight", l, C, C, back, 0);
        add_tensor("ln2.weight", l, C, 1, 0, 1);
        add_tensor("fc1.weight", l, 2 * F, C, 0.02, 0);
        add_tensor("fc2.weight", l, F, C, back, 0);
    }
    add_tensor("lnf.weight", -1, C, 1, 0, 1);
    add_tensor("head.weight", -1, V, C, 0.02, 0);
    n_own = n_tensors;
}

static void initialise(void)
{
    rounded = bf16 ? room(n_elements) : NULL;
    parameter = room(n_elements), momentum = room(n_elements), variance = room(n_elements);
    grads = grad = room(B * n_elements);
    for (long t = 0; t < n_tensors; t++)
        for (long i = 0; i < tensors[t].rows * tensors[t].columns; i++)
            parameter[tensors[t].offset + i] =
                tensors[t].deviation > 0 ? (real)(tensors[t].deviation * normal(t, i)) : tensors[t].first;
}

static real *weight(long t)
{
    return values() + tensors[t].offset;
}
static real *gradient(long t)
{
    return grad + tensors[t].offset;
}

/* ---- RMS norm ---- */

static void rms_norm(real *y, real *scale, const real *x, const real *w)
{
    for (long t = 0; t < T; t++) {
        scale[t] = 1 / ROOT(dot_row(x + t * C, x + t * C, C) / (real)C + (real)1e-5);
        for (long i = 0; i < C; i++)
            y[t * C + i] = nearest(x[t * C + i] * scale[t] * w[i]);
    }
}

/* dx += the gradient of x; dw[C] is set. */
static void rms_norm_backward(
    real *dx, real *dw, const real *dy, const real *x, const real *w, const real *scale)
{
    real *normed = room(T * C), *g = room(C);
    for (long t = 0; t < T; t++) {
        real *n = normed + t * C;
        for (long i = 0; i < C; i++) {
            n[i] = x[t * C + i] * scale[t];
            g[i] = dy[t * C + i] * w[i];
        }
        real along = dot_row(g, n, C) / (real)C;
        for (long i = 0; i < C; i++) {
            dx[t * C + i] = nearest(dx[t * C + i] + nearest((g[i] - n[i] * along) * scale[t]));
            n[i] = n[i] * dy[t * C + i];
        }
    }
    sum_tokens(dw, normed, C);
    free(normed), free(g);
}

/* ---- places ---- */

static real *cosines, *sines; /* [T][D / 2], by places */

#ifdef FP64
static void cosine_and_sine(real *c, real *s, double angle)
{
    *c = cos(angle), *s = sin(angle);
}
#else
/* The angle less a whole number of quarter turns, in double precision: pi / 2 in two parts, of which the
 * first has so few bits that its product is exact. Then polynomials (Cephes' sinf and cosf). */
static void cosine_and_sine(real *c, real *s, double angle)
{
    double turns = angle * 0.63661977236758138 + 6755399441055744.0 - 6755399441055744.0;
    float x = (float)(angle - turns * 1.57079632673412561417 - turns * 6.07710050650619224932e-11), z = x * x;
    float sine = FMA(FMA(FMA(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f), z * x, x);
    float cosine = FMA(FMA(FMA(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f),
        z * z, FMA(-0.5f, z, 1.0f));
    long quarter = (long)turns & 3;
    *s = quarter & 1 ? cosine : sine, *c = quarter & 1 ? sine : cosine;
    *s = quarter & 2 ? -*s : *s, *c = quarter == 1 || quarter == 2 ? -*c : *c;
}
#endif

static void make_places(void)
{
    long half = head_size / 2;
    cosines = room(T * half), sines = room(T * half);
    for (long i = 0; i < half; i++) {
        float slow = (float)pow(10000, -2.0 * (double)i / (double)head_size);
        for (long t = 0; t < T; t++)
            cosine_and_sine(&cosines[t * half + i], &sines[t * half + i], (double)token_at(t) * (double)slow);
    }
}

/* A head's queries or keys of the token in place t; or, with sign -1, their gradient turned back. */
static void turn_by_place(real *to, const real *from, long t, real sign)
{
    long half = head_size / 2;
    for (long i = 0; i < half; i++) {
        real c = cosines[t * half + i], s = sign * sines[t * half + i], x = from[i], y = from[half + i];
        to[i] = nearest(x * c - y * s);
        to[half + i] = nearest(y * c + x * s);
    }
}

/* qkv[T][HEADS][3][D] of each head, from that of each group. */
static void spread(real *qkv, const real *grouped)
{
    for (long t = 0; t < T; t++)
        for (long h = 0; h < HEADS; h++) {
            const real *group = grouped + t * qkv_rows + h / share * (share + 2) * head_size;
            real *to = qkv + (t * HEADS + h) * 3 * head_size;
            turn_by_place(to, group + h % share * head_size, t, 1);
            turn_by_place(to + head_size, group + share * head_size, t, 1);
            memcpy(to + 2 * head_size, group + (share + 1) * head_size, sizeof(real) * (size_t)head_size);
        }
}

static void spread_backward(real *grouped, const real *dqkv)
{
    real *sum = room(2 * share * head_size);
    for (long t = 0; t < T; t++)
        for (long g = 0; g < KV; g++) {
            const real *from = dqkv + (t * HEADS + g * share) * 3 * head_size;
            real *to = grouped + t * qkv_rows + g * (share + 2) * head_size;
            for (long h = 0; h < share; h++) {
                turn_by_place(to + h * head_size, from + 3 * h * head_size, t, -1);
                memcpy(sum + 2 * h * head_size, from + (3 * h + 1) * head_size,
                    sizeof(real) * (size_t)(2 * head_size));
            }
            tree(sum, share, 2 * head_size);
            turn_by_place(to + share * head_size, sum, t, -1);
            for (long i = 0; i < head_size; i++)
                to[(share + 1) * head_size + i] = nearest(sum[head_size + i]);
        }
    free(sum);
}

/* ---- the feed-forward part ---- */

/* Where the gate of hidden channel i stands in a row of fc1; what it gates stands F / 8 behind. */
static long gate(long i)
{
    long chunk = F / CHUNKS;
    return i / chunk * 2 * chunk + i % chunk;
}
static real sigmoid(real x)
{
    return 1 / (exponential(-x) + 1);
}

static void swiglu(real *y, const real *x)
{
    for (long t = 0; t < T; t++)
        for (long i = 0; i < F; i++) {
            real g = x[t * 2 * F + gate(i)], u = x[t * 2 * F + gate(i) + F / CHUNKS];
            y[t * F + i] = nearest(g * sigmoid(g) * u);
        }
}

static void swiglu_backward(real *dx, const real *dy, const real *x)
{
    for (long t = 0; t < T; t++)
        for (long i = 0; i < F; i++) {
            long at = t * 2 * F + gate(i);
            real g = x[at], u = x[at + F / CHUNKS], d = dy[t * F + i], s = sigmoid(g);
            dx[at] = nearest(d * u * (s * (1 + g * (1 - s))));
            dx[at + F / CHUNKS] = nearest(d * (g * s));
        }
}

/* ---- the model ---- */

typedef struct {
    real *ln1, *scale1, *qkv, *attention, *lse, *middle, *ln2, *scale2, *fc1, *hidden, *out;
} activations;

static activations *layers;
static real *embedded, *lnf, *scalef, *logits, *dx, *s1, *s2, *s3;

static void make_model(void)
{
    head_size = C / HEADS, block = T / CHUNKS, score_scale = 1 / ROOT((real)head_size);
    share = HEADS / KV, qkv_rows = C + 2 * KV * head_size;
    list_tensors();
    initialise();
    make_places();
    layers = calloc((size_t)L, sizeof *layers);
    for (long l = 0; l < L; l++)
        layers[l] = (activations){ room(T * C), room(T), room(3 * T * C), room(T * C), room(HEADS * T),
            room(T * C), room(T * C), room(T), room(2 * T * F), room(T * F), room(T * C) };
    embedded = room(T * C), lnf = room(T * C), scalef = room(T), logits = room(T * V), dx = room(T * C);
    s1 = room(T * (3 * C + 2 * F)), s2 = room(T * (3 * C + F)), s3 = room(T * C);
}

static const real *input_of(long l)
{
    return l ? layers[l - 1].out : embedded;
}

/* y[T][n] = x[T][k] w', each element one chain; and the sum over the rows of w[k][n], by its 8 chunks. */
static void column(real *y, const real *x, long w, long n, long k)
{
    multiply(y, T, n, k, plain(x, k), turned(weight(w), k), k);
    narrow(y, T * n);
}
static void row(real *y, const real *x, long w, long n, long k)
{
    multiply(y, T, n, k, plain(x, k), plain(weight(w), n), k / CHUNKS);
    narrow(y, T * n);
}
/* The gradient of a weight of m rows and n columns, from a[T][m] and b[T][n]. */
static void weight_gradient(long w, const real *a, const real *b, long m, long n)
{
    multiply(gradient(w), m, n, T, turned(a, m), plain(b, n), block);
}

static void layer_forward(long l)
{
    activations *a = &layers[l];
    const real *in = input_of(l);
    rms_norm(a->ln1, a->scale1, in, weight(of_layer(l, LN1)));
    column(s1, a->ln1, of_layer(l, QKV), qkv_rows, C);
    spread(a->qkv, s1);
    attention(a->attention, a->lse, a->qkv, l);
    narrow(a->attention, T * C);
    row(a->middle, a->attention, of_layer(l, PROJ), C, C);
    drop(a->middle, a->middle, 2 * l + 1);
    add(a->middle, in, T * C);
    narrow(a->middle, T * C);
    rms_norm(a->ln2, a->scale2, a->middle, weight(of_layer(l, LN2)));
    column(a->fc1, a->ln2, of_layer(l, FC1), 2 * F, C);
    swiglu(a->hidden, a->fc1);
    row(a->out, a->hidden, of_layer(l, FC2), C, F);
    drop(a->out, a->out, 2 * l + 2);
    add(a->out, a->middle, T * C);
    narrow(a->out, T * C);
}

/* dx is the gradient of the layer's result at first, and of its input in the end. */
static void layer_backward(long l)
{
    const activations *a = &layers[l];
    const real *d = drop(s3, dx, 2 * l + 2);
    weight_gradient(of_layer(l, FC2), a->hidden, d, F, C);
    column(s2, d, of_layer(l, FC2), F, C);
    swiglu_backward(s1, s2, a->fc1);
    weight_gradient(of_layer(l, FC1), s1, a->ln2, 2 * F, C);
    row(s2, s1, of_layer(l, FC1), C, 2 * F);
    rms_norm_backward(dx, gradient(of_layer(l, LN2)), s2, a->middle, weight(of_layer(l, LN2)), a->scale2);

    d = drop(s3, dx, 2 * l + 1);
    weight_gradient(of_layer(l, PROJ), a->attention, d, C, C);
    column(s2, d, of_layer(l, PROJ), C, C);
    attention_backward(s1, s2, a->attention, a->lse, a->qkv, l);
    narrow(s1, 3 * T * C);
    spread_backward(s2, s1);
    weight_gradient(of_layer(l, QKV), s2, a->ln1, qkv_rows, C);
    row(s1, s2, of_layer(l, QKV), C, qkv_rows);
    rms_norm_backward(dx, gradient(of_layer(l, LN1)), s1, input_of(l), weight(of_layer(l, LN1)), a->scale1);
}

/* Cross entropy, by blocks of tokens; logits become the gradient of the batch's mean. */
static void head_forward(double *leaf, const uint16_t *target)
{
    rms_norm(lnf, scalef, input_of(L), weight(final_norm()));
    column(logits, lnf, head(), V, C);
    for (long t = 0; t < T; t++) {
        long due = target[token_at(t)];
        real *x = logits + t * V, max, wanted = x[due] + 0, sum = softmax(x, V, &max);
        leaf[t / block] += (double)(logarithm(sum) + max - wanted);
        x[due] = x[due] - 1;
        for (long i = 0; i < V; i++)
            x[i] = nearest(x[i] * ((real)1 / (real)(B * T)));
    }
}

static void head_backward(void)
{
    weight_gradient(head(), logits, lnf, V, C);
    multiply(s2, T, C, V, plain(logits, V), plain(weight(head()), C), padded_chunk(V));
    narrow(s2, T * C);
    memset(dx, 0, sizeof(real) * (size_t)(T * C));
    rms_norm_backward(dx, gradient(final_norm()), s2, input_of(L), weight(final_norm()), scalef);
}

static void embed(const uint16_t *token)
{
    for (long i = 0; i < T * C; i++)
        embedded[i] = weight(WTE)[token[token_at(i / C)] * C + i % C] + 0;
    drop(embedded, embedded, 0);
}

static void embed_backward(const uint16_t *token)
{
    drop(dx, dx, 0);
    real *part = room(CHUNKS * V * C);
    for (long t = 0; t < T; t++)
        add(part + (t / block * V + token[token_at(t)]) * C, dx + t * C, C);
    tree(part, CHUNKS, V * C);
    memcpy(gradient(WTE), part, sizeof(real) * (size_t)(V * C));
    free(part);
}

/* ---- a step ---- */

static double loss_and_gradient(long step, int backward)
{
    double *leaf = calloc((size_t)(B * CHUNKS), sizeof *leaf), sum = 0;
    for (long i = 0; i < B; i++) {
        const uint16_t *token = sequence_of(step, i);
        grad = grads + i * n_elements;
        embed(token);
        for (long l = 0; l < L; l++)
            layer_forward(l);
        head_forward(leaf + i * CHUNKS, token + 1);
        if (backward)
            head_backward();
        for (long l = L - 1; backward && l >= 0; l--)
            layer_backward(l);
        if (backward)
            embed_backward(token);
    }
    grad = grads;
    if (backward) {
        tree(grads, B, n_elements);
        narrow(grads, n_elements);
    }
    for (long i = 0; i < B * CHUNKS; i++)
        sum += leaf[i];
    free(leaf);
    return sum / (double)(B * T);
}

static double whole_loss(void)
{
    return loss_and_gradient(0, 0);
}

/* ---- main ---- */

static int parse(const char *word)
{
    const option options[] = { { "layers=%ld", &L }, { "channels=%ld", &C }, { "heads=%ld", &HEADS },
        { "kv=%ld", &KV }, { "hidden=%ld", &F }, { "context=%ld", &T }, { "vocab=%ld", &V },
        { "batch=%ld", &B }, { "steps=%ld", &steps }, { "sgd=%ld", &sgd }, { "seed=%ld", &seed },
        { "check=%ld", &check }, { "delay=%ld", &delay }, { "parts=%ld", &parts },
        { "stripes=%ld", &stripes }, { "bf16=%ld", &bf16 }, { "stochastic=%ld", &stochastic },
        { "lr=%lf", &lr }, { "clip=%lf", &clip }, { "decay=%lf", &decay }, { "dropout=%lf", &dropout },
        { "data=%4095[^\n]", data_path }, { "grads=%4095[^\n]", grads_path },
        { "params=%4095[^\n]", params_path } };
    return take(word, options, sizeof options / sizeof *options);
}

static int fits(void)
{
    return L >= 1 && L <= 4096 && HEADS >= 1 && KV >= 1 && HEADS % KV == 0 && V >= 2 && V <= 65536 &&
           B >= 1 && B <= 1 << 20 && C >= 64 && C % 64 == 0 && C % (2 * HEADS) == 0 &&
           2 * KV * (C / HEADS) % 64 == 0 && F >= 64 && F % 64 == 0 && T >= CHUNKS && T % CHUNKS == 0 &&
           parts >= 1 && parts <= CHUNKS && CHUNKS % parts == 0 && dropout >= 0 && dropout < 1;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!parse(argv[i]))
            return 2;
    if (!fits()) {
        fprintf(stderr,
            "llama: channels must be a multiple of 64 and of 2 x heads, heads one of kv, 2 x kv x "
            "channels / heads and hidden multiples of 64, context a multiple of 8, vocab 2 to "
            "65536, layers 1 to 4096, batch 1 to 1048576, parts 1, 2, 4 or 8, dropout less than 1\n");
        return 2;
    }
    make_model();
    open_corpus();
    return learn();
}
