/* SPDX-License-Identifier: BSD-3-Clause */
/* moe.c: the golden mixture of experts: gpt.c with E experts in the place of the feed-forward part. It
 * needs the C library, and text.h and golden.h beside it.
 *
 *   cc -O2 -ffp-contract=off moe.c -lm -o moe        ./moe steps=50
 *   cc -O2 -ffp-contract=off -DFP64 moe.c -lm -o moe64        ./moe64 check=64
 *
 * A router gives each token a probability for every expert: the softmax of a linear map. The `top` experts of
 * the highest probability are chosen, of equal ones the lower. Each is two matrices with GELU between them; a
 * token's result is the sum of its experts', each times its probability, the highest first (Shazeer et al.
 * 2017, Fedus et al. 2022). Hidden layers have H = 2 C channels, so that with top=2 a token costs what it
 * costs in gpt.c.
 *
 * The canonical order is that of gpt.c, where its words are defined. Of the experts:
 *
 *   the router       chain over channels; its gradients like those of gpt.c's head: E rows as if padded to a
 *                    multiple of 64, 8 chunks, tree
 *   probabilities    as gpt.c's softmax over the vocabulary: 8 chunks of the padded E
 *   experts          out: a chain over C, then 8 chunks of H; dX: a chain over C, then 8 chunks of H. The
 *                    gradient of a weight: the tokens that the expert got, ascending: blocks of a sequence,
 *                    the tree over the 8, + 0, the tree over the sequences. A part where it got none is +0
 *   a token          the sum over its experts from +0, products rounded, the first choice first
 *
 * Which tokens count together, for capacity and balance, is a group of sequences: the batch is cut into runs
 * of `run` neighbours, of which every `micros`-th is of the same group. With micros=1 a group is the batch.
 *
 *   capacity=F   an expert takes at most ceil(F top tokens / E) of a group's tokens, the first ones in the
 *                order of sequence and token; the others go without it
 *   balance=A    the gradient of A E sum(f_e P_e) over the experts is added (Fedus et al. 2022): f_e is the
 *                share of the group's choices that e got, before any is refused, and P_e its mean
 *                probability; the mean over groups and the sum over layers. The loss that is printed is the
 *                cross entropy alone */
#define NAME "moe"
#include "text.h"

static long E = 8, K = 2; /* experts, and how many of them a token has */
static long steps = 10, tied = 1, sgd = 0, seed = 1, check = 0, delay = 0, micros = 1, run = 1;
static double lr = 1e-3, clip = 1, decay = 0.1, capacity = 0, balance = 0;
static long H; /* hidden channels of an expert */

/* ---- sums ---- */

/* Lanes of the products as they are rounded. */
static real rounded_dot(const real *x, const real *y, long n)
{
    real lane[LANES] = { 0 };
    for (long i = 0; i < n; i++)
        lane[i % LANES] += x[i] * y[i];
    tree(lane, LANES, 1);
    return lane[0];
}

/* dw[m][n] = the sum of the products of rows a[r][m] and b[r][n], and db[m] that of the rows of `bias`, both
 * if they are wanted: row r is that of token at[r], or r. By blocks of tokens, then the tree. */
CLONES static void sum_rows(real *dw, real *db, const real *a, const real *b, const real *bias,
    const long *at, long rows, long m, long n, long width)
{
    real *part = dw ? room(CHUNKS * m * n) : NULL, *sum = room(CHUNKS * width);
    for (long r = 0; r < rows; r++) {
        long b0 = (at ? at[r] : r) / block;
        for (long i = 0; i < m && dw; i++) {
            real *acc = part + (b0 * m + i) * n, x = a[r * m + i];
            for (long j = 0; j < n; j++)
                acc[j] = FMA(x, b[r * n + j], acc[j]);
        }
        for (long j = 0; j < width; j++)
            sum[b0 * width + j] += bias[r * width + j];
    }
    if (dw)
        tree(part, CHUNKS, m * n);
    tree(sum, CHUNKS, width);
    for (long i = 0; i < m * n && dw; i++)
        dw[i] = part[i] + 0;
    memcpy(db, sum, sizeof(real) * (size_t)width);
    free(part), free(sum);
}

static void add_bias(real *x, const real *b, long rows, long m)
{
    for (long i = 0; i < rows * m; i++)
        x[i] = x[i] + b[i % m];
}

/* ---- parameters ---- */

enum {
    LN1,
    LN1_BIAS,
    QKV,
    QKV_BIAS,
    PROJ,
    PROJ_BIAS,
    LN2,
    LN2_BIAS,
    ROUTER,
    UP,
    UP_BIAS,
    DOWN,
    DOWN_BIAS,
    OF_LAYER
};
enum { WTE, WPE, FIRST_LAYER };

static void add_tensor(const char *name, long layer, long rows, long columns, double deviation, real first)
{
    tensor *t = &tensors[n_tensors++];
    *t = (tensor){ "", rows, columns, n_elements, deviation, first };
    if (layer >= 0)
        snprintf(t->name, sizeof t->name, "layer%ld.", layer);
    snprintf(t->name + strlen(t->name), 32, "%s", name);
    n_elements += rows * columns;
}
static long final_norm(void)
{
    return FIRST_LAYER + L * OF_LAYER;
}
static long head(void)
{
    return final_norm() + 2;
}

static void list_tensors(void)
{
    static const char *const names[] = { "ln1.weight", "ln1.bias", "qkv.weight", "qkv.bias", "proj.weight",
        "proj.bias", "ln2.weight", "ln2.bias", "router.weight", "up.weight", "up.bias", "down.weight",
        "down.bias" };
    const long rows[] = { C, C, 3 * C, 3 * C, C, C, C, C, E, E * H, E * H, E * H, E * C };
    double back = 0.02 / sqrt(2.0 * (double)L);
    tensors = calloc((size_t)(head() + 1), sizeof *tensors);
    add_tensor("wte", -1, V, C, 0.02, 0);
    add_tensor("wpe", -1, T, C, 0.02, 0);
    for (long l = 0; l < L; l++)
        for (int i = 0; i < OF_LAYER; i++) {
            int is_matrix = i == QKV || i == PROJ || i == ROUTER || i == UP || i == DOWN;
            add_tensor(names[i], l, rows[i], is_matrix ? C : 1,
                !is_matrix               ? 0
                : i == PROJ || i == DOWN ? back
                                         : 0.02,
                i == LN1 || i == LN2);
        }
    add_tensor("lnf.weight", -1, C, 1, 0, 1);
    add_tensor("lnf.bias", -1, C, 1, 0, 0);
    add_tensor("head.weight", -1, V, C, 0.02, 0);
    n_own = n_tensors - tied;
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
    return values() + tensors[t == head() && tied ? WTE : t].offset;
}
static real *gradient(long t)
{
    return grad + tensors[t].offset;
}
static long of_layer(long l, long which)
{
    return FIRST_LAYER + l * OF_LAYER + which;
}

/* ---- parts of the model: forward, and backward beside it ---- */

static void layer_norm(real *y, real *mean, real *scale, const real *x, const real *w, const real *b)
{
    real *centred = room(C);
    for (long t = 0; t < T; t++) {
        mean[t] = sum_row(x + t * C, C) / (real)C;
        for (long i = 0; i < C; i++)
            centred[i] = x[t * C + i] - mean[t];
        scale[t] = 1 / ROOT(dot_row(centred, centred, C) / (real)C + (real)1e-5);
        for (long i = 0; i < C; i++)
            y[t * C + i] = nearest(FMA(centred[i] * scale[t], w[i], b[i]));
    }
    free(centred);
}

/* dx += the gradient of x; dw[C] and db[C], behind it, are set. */
static void layer_norm_backward(
    real *dx, real *dw, const real *dy, const real *x, const real *w, const real *mean, const real *scale)
{
    real *normed = room(T * C), *g = room(C);
    for (long t = 0; t < T; t++) {
        real *n = normed + t * C;
        for (long i = 0; i < C; i++) {
            n[i] = (x[t * C + i] - mean[t]) * scale[t];
            g[i] = dy[t * C + i] * w[i];
        }
        real a = sum_row(g, C) / (real)C, b = dot_row(g, n, C) / (real)C;
        for (long i = 0; i < C; i++) {
            dx[t * C + i] = nearest(dx[t * C + i] + nearest((g[i] - a - n[i] * b) * scale[t]));
            n[i] = n[i] * dy[t * C + i];
        }
    }
    sum_tokens(dw, normed, C);
    sum_tokens(dw + C, dy, C);
    free(normed), free(g);
}

static void gelu_rows(real *y, const real *x, long count)
{
    for (long i = 0; i < count; i++)
        y[i] = gelu(x[i]);
}
static void gelu_backward(real *d, const real *x, long count)
{
    for (long i = 0; i < count; i++)
        d[i] = d[i] * gelu_slope(x[i]);
}

/* ---- the experts ---- */

typedef struct {
    real *ln1, *mean1, *scale1, *qkv, *attention, *lse, *middle, *ln2, *mean2, *scale2, *out;
    real *p, *up, *down; /* p[T][E]; of a token and choice: up[T][K][H] before GELU, down[T][K][C] */
    long *choice; /* [T][K]; E: refused */
} activations;

/* Of a group and a layer: how many tokens each expert has got so far, and how many chose it in all. */
static long *taken, *wanted;
static double *probable; /* and the sum of its probabilities */

static long group_of(long sequence)
{
    return sequence / run % micros;
}
static double group_tokens(void)
{
    return (double)(B / micros * T);
}

/* The probabilities, and the choices: an expert that is full refuses. */
static void route(activations *a, long l, long sequence, int counting)
{
    long first = (group_of(sequence) * L + l) * E;
    double most = ceil(capacity * (double)K * group_tokens() / (double)E);
    multiply(a->p, T, E, C, plain(a->ln2, C), turned(weight(of_layer(l, ROUTER)), C), C);
    for (long t = 0; t < T; t++) {
        real *p = a->p + t * E, max;
        softmax(p, E, &max);
        long *choice = a->choice + t * K;
        for (long j = 0; j < K; j++) {
            choice[j] = -1;
            for (long e = 0; e < E; e++) {
                int before = 0;
                for (long i = 0; i < j; i++)
                    before |= choice[i] == e;
                if (!before && (choice[j] < 0 || p[e] > p[choice[j]]))
                    choice[j] = e;
            }
        }
        for (long e = 0; e < E; e++)
            probable[first + e] += (double)p[e];
        for (long j = 0; j < K; j++) {
            long e = choice[j];
            wanted[first + e] += counting;
            if (capacity > 0 && (double)taken[first + e] >= most)
                choice[j] = E;
            taken[first + e]++;
        }
    }
}

/* The tokens of expert e, ascending, each with the place of its choice in [T][K]. */
static long list_rows(const activations *a, long e, long *at, long *place)
{
    long rows = 0;
    for (long i = 0; i < T * K; i++)
        if (a->choice[i] == e)
            at[rows] = i / K, place[rows++] = i;
    return rows;
}

/* Rows of `width` elements, from their places or, with back, to them. */
static void move_rows(real *packed, real *spread, const long *place, long rows, long width, int back)
{
    for (long r = 0; r < rows; r++)
        memcpy(back ? spread + place[r] * width : packed + r * width,
            back ? packed + r * width : spread + place[r] * width, sizeof(real) * (size_t)width);
}

static void experts(real *out, activations *a, long l)
{
    real *x = room(T * C), *up = room(T * H), *y = room(T * C);
    long *at = calloc((size_t)T, sizeof *at), *place = calloc((size_t)T, sizeof *place);
    for (long e = 0; e < E; e++) {
        long rows = list_rows(a, e, at, place);
        move_rows(x, a->ln2, at, rows, C, 0);
        multiply(up, rows, H, C, plain(x, C), turned(weight(of_layer(l, UP)) + e * H * C, C), C);
        add_bias(up, weight(of_layer(l, UP_BIAS)) + e * H, rows, H);
        narrow(up, rows * H);
        move_rows(up, a->up, place, rows, H, 1);
        gelu_rows(up, up, rows * H);
        multiply(y, rows, C, H, plain(up, H), plain(weight(of_layer(l, DOWN)) + e * H * C, C), H / CHUNKS);
        add_bias(y, weight(of_layer(l, DOWN_BIAS)) + e * C, rows, C);
        narrow(y, rows * C);
        move_rows(y, a->down, place, rows, C, 1);
    }
    for (long t = 0; t < T; t++)
        for (long i = 0; i < C; i++) {
            real sum = 0;
            for (long j = t * K; j < (t + 1) * K; j++)
                if (a->choice[j] < E)
                    sum = sum + a->p[t * E + a->choice[j]] * a->down[j * C + i];
            out[t * C + i] = nearest(sum);
        }
    free(x), free(up), free(y), free(at), free(place);
}

/* The gradient of the scores, from those of the probabilities of what was chosen. */
static void route_backward(real *d_score, const activations *a, const real *dy, long l, long sequence)
{
    const long *chosen = wanted + (group_of(sequence) * L + l) * E;
    double each = balance * (double)E / ((double)K * group_tokens() * group_tokens() * (double)micros);
    real *dp = room(E);
    for (long t = 0; t < T; t++) {
        const real *p = a->p + t * E;
        real along = 0;
        for (long e = 0; e < E; e++)
            dp[e] = (real)(each * (double)chosen[e]);
        for (long j = t * K; j < (t + 1) * K; j++)
            if (a->choice[j] < E)
                dp[a->choice[j]] = rounded_dot(dy + t * C, a->down + j * C, C) + dp[a->choice[j]];
        for (long e = 0; e < E; e++)
            along = along + p[e] * dp[e];
        for (long e = 0; e < E; e++)
            d_score[t * E + e] = p[e] * (dp[e] - along);
    }
    free(dp);
}

/* dx[T][C] is set: first what the experts give, each token's in the order of its choices; then the router. */
static void experts_backward(real *dx, const real *dy, const activations *a, long l, long sequence)
{
    real *x = room(T * C), *d = room(T * C), *up = room(T * H), *g = room(T * H), *dup = room(T * H),
         *rows_dx = room(T * K * C);
    long *at = calloc((size_t)T, sizeof *at), *place = calloc((size_t)T, sizeof *place);
    for (long e = 0; e < E; e++) {
        long rows = list_rows(a, e, at, place);
        for (long r = 0; r < rows; r++)
            for (long i = 0; i < C; i++)
                d[r * C + i] = nearest(a->p[at[r] * E + e] * dy[at[r] * C + i]);
        move_rows(x, a->ln2, at, rows, C, 0);
        move_rows(up, a->up, place, rows, H, 0);
        gelu_rows(g, up, rows * H);
        sum_rows(gradient(of_layer(l, DOWN)) + e * H * C, gradient(of_layer(l, DOWN_BIAS)) + e * C, g, d, d,
            at, rows, H, C, C);
        multiply(dup, rows, H, C, plain(d, C), turned(weight(of_layer(l, DOWN)) + e * H * C, C), C);
        gelu_backward(dup, up, rows * H);
        narrow(dup, rows * H);
        sum_rows(gradient(of_layer(l, UP)) + e * H * C, gradient(of_layer(l, UP_BIAS)) + e * H, dup, x, dup,
            at, rows, H, C, H);
        multiply(d, rows, C, H, plain(dup, H), plain(weight(of_layer(l, UP)) + e * H * C, C), H / CHUNKS);
        narrow(d, rows * C);
        move_rows(d, rows_dx, place, rows, C, 1);
    }
    for (long t = 0; t < T; t++)
        for (long i = 0; i < C; i++) {
            real sum = 0;
            for (long j = t * K; j < (t + 1) * K; j++)
                if (a->choice[j] < E)
                    sum = sum + rows_dx[j * C + i];
            dx[t * C + i] = nearest(sum);
        }
    real *d_score = room(T * E);
    route_backward(d_score, a, dy, l, sequence);
    multiply(gradient(of_layer(l, ROUTER)), E, C, T, turned(d_score, E), plain(a->ln2, C), block);
    multiply(x, T, C, E, plain(d_score, E), plain(weight(of_layer(l, ROUTER)), C), padded_chunk(E));
    narrow(x, T * C);
    add(dx, x, T * C);
    narrow(dx, T * C);
    free(x), free(d), free(up), free(g), free(dup), free(rows_dx), free(at), free(place), free(d_score);
}

/* ---- the model ---- */

static activations *layers;
static real *embedded, *lnf, *meanf, *scalef, *logits, *dx, *s1, *s2, *s3;

static void make_model(void)
{
    H = 2 * C, head_size = C / HEADS, block = T / CHUNKS, score_scale = 1 / ROOT((real)head_size);
    list_tensors();
    initialise();
    layers = calloc((size_t)L, sizeof *layers);
    for (long l = 0; l < L; l++) {
        activations *a = &layers[l];
        real **const narrow[] = { &a->ln1, &a->attention, &a->middle, &a->ln2, &a->out },
                     **const each[] = { &a->mean1, &a->scale1, &a->mean2, &a->scale2 };
        for (int i = 0; i < 5; i++)
            *narrow[i] = room(T * C);
        for (int i = 0; i < 4; i++)
            *each[i] = room(T);
        a->qkv = room(3 * T * C), a->lse = room(HEADS * T), a->p = room(T * E), a->up = room(T * K * H);
        a->down = room(T * K * C), a->choice = calloc((size_t)(T * K), sizeof *a->choice);
    }
    embedded = room(T * C), lnf = room(T * C), meanf = room(T), scalef = room(T), logits = room(T * V);
    dx = room(T * C), s1 = room(3 * T * C), s2 = room(T * C), s3 = room(T * C);
    taken = calloc((size_t)(micros * L * E), sizeof *taken);
    wanted = calloc((size_t)(micros * L * E), sizeof *wanted);
    probable = calloc((size_t)(micros * L * E), sizeof *probable);
}

static const real *input_of(long l)
{
    return l ? layers[l - 1].out : embedded;
}

static void layer_forward(long l, long sequence, int counting)
{
    activations *a = &layers[l];
    const real *in = input_of(l);
    layer_norm(a->ln1, a->mean1, a->scale1, in, weight(of_layer(l, LN1)), weight(of_layer(l, LN1_BIAS)));
    multiply(a->qkv, T, 3 * C, C, plain(a->ln1, C), turned(weight(of_layer(l, QKV)), C), C);
    narrow(a->qkv, 3 * T * C);
    add_bias(a->qkv, weight(of_layer(l, QKV_BIAS)), T, 3 * C);
    narrow(a->qkv, 3 * T * C);
    attention(a->attention, a->lse, a->qkv, l);
    narrow(a->attention, T * C);
    multiply(a->middle, T, C, C, plain(a->attention, C), plain(weight(of_layer(l, PROJ)), C), C / CHUNKS);
    narrow(a->middle, T * C);
    add_bias(a->middle, weight(of_layer(l, PROJ_BIAS)), T, C);
    narrow(a->middle, T * C);
    drop(a->middle, a->middle, 2 * l + 1);
    add(a->middle, in, T * C);
    narrow(a->middle, T * C);
    layer_norm(
        a->ln2, a->mean2, a->scale2, a->middle, weight(of_layer(l, LN2)), weight(of_layer(l, LN2_BIAS)));
    route(a, l, sequence, counting);
    experts(a->out, a, l);
    drop(a->out, a->out, 2 * l + 2);
    add(a->out, a->middle, T * C);
    narrow(a->out, T * C);
}

/* dx is the gradient of the layer's result at first, and of its input in the end. */
static void layer_backward(long l, long sequence)
{
    const activations *a = &layers[l];
    experts_backward(s2, drop(s3, dx, 2 * l + 2), a, l, sequence);
    layer_norm_backward(
        dx, gradient(of_layer(l, LN2)), s2, a->middle, weight(of_layer(l, LN2)), a->mean2, a->scale2);
    const real *d = drop(s3, dx, 2 * l + 1);
    sum_tokens(gradient(of_layer(l, PROJ_BIAS)), d, C);
    multiply(gradient(of_layer(l, PROJ)), C, C, T, turned(a->attention, C), plain(d, C), block);
    multiply(s2, T, C, C, plain(d, C), turned(weight(of_layer(l, PROJ)), C), C);
    narrow(s2, T * C);
    attention_backward(s1, s2, a->attention, a->lse, a->qkv, l);
    narrow(s1, 3 * T * C);
    sum_tokens(gradient(of_layer(l, QKV_BIAS)), s1, 3 * C);
    multiply(gradient(of_layer(l, QKV)), 3 * C, C, T, turned(s1, 3 * C), plain(a->ln1, C), block);
    multiply(s2, T, C, 3 * C, plain(s1, 3 * C), plain(weight(of_layer(l, QKV)), C), 3 * C / CHUNKS);
    narrow(s2, T * C);
    layer_norm_backward(
        dx, gradient(of_layer(l, LN1)), s2, input_of(l), weight(of_layer(l, LN1)), a->mean1, a->scale1);
}

/* Cross entropy, by blocks of tokens; logits become the gradient of the batch's mean. */
static void head_forward(double *leaf, const uint16_t *target)
{
    layer_norm(lnf, meanf, scalef, input_of(L), weight(final_norm()), weight(final_norm() + 1));
    multiply(logits, T, V, C, plain(lnf, C), turned(weight(head()), C), C);
    narrow(logits, T * V);
    for (long t = 0; t < T; t++) {
        real *x = logits + t * V, max, wanted_score = x[target[t]] + 0, sum = softmax(x, V, &max);
        leaf[t / block] += (double)(logarithm(sum) + max - wanted_score);
        x[target[t]] = x[target[t]] - 1;
        for (long i = 0; i < V; i++)
            x[i] = nearest(x[i] * ((real)1 / (real)(B * T)));
    }
}

static void head_backward(void)
{
    multiply(gradient(head()), V, C, T, turned(logits, V), plain(lnf, C), block);
    multiply(s2, T, C, V, plain(logits, V), plain(weight(head()), C), padded_chunk(V));
    narrow(s2, T * C);
    memset(dx, 0, sizeof(real) * (size_t)(T * C));
    layer_norm_backward(dx, gradient(final_norm()), s2, input_of(L), weight(final_norm()), meanf, scalef);
}

static void embed(const uint16_t *token)
{
    for (long i = 0; i < T * C; i++)
        embedded[i] = nearest((weight(WTE)[token[i / C] * C + i % C] + 0) + weight(WPE)[i]);
    drop(embedded, embedded, 0);
}

static void embed_backward(const uint16_t *token)
{
    drop(dx, dx, 0);
    real *part = room(CHUNKS * V * C);
    for (long t = 0; t < T; t++)
        add(part + (t / block * V + token[t]) * C, dx + t * C, C);
    tree(part, CHUNKS, V * C);
    memcpy(gradient(WTE), part, sizeof(real) * (size_t)(V * C));
    for (long i = 0; i < T * C; i++)
        gradient(WPE)[i] = dx[i] + 0;
    free(part);
}

/* ---- a step ---- */

/* All sequences, in order: what an expert takes depends on those before. */
static void run_batch(double *leaf, long step, int counting, int backward)
{
    memset(taken, 0, sizeof *taken * (size_t)(micros * L * E));
    memset(probable, 0, sizeof *probable * (size_t)(micros * L * E));
    for (long i = 0; i < B; i++) {
        const uint16_t *token = sequence_of(step, i);
        grad = grads + i * n_elements;
        embed(token);
        for (long l = 0; l < L; l++)
            layer_forward(l, i, counting);
        head_forward(leaf + i * CHUNKS, token + 1);
        if (backward)
            head_backward();
        for (long l = L - 1; backward && l >= 0; l--)
            layer_backward(l, i);
        if (backward)
            embed_backward(token);
    }
    grad = grads;
}

static double loss_and_gradient(long step, int backward)
{
    double *leaf = calloc((size_t)(B * CHUNKS), sizeof *leaf), sum = 0;
    memset(wanted, 0, sizeof *wanted * (size_t)(micros * L * E));
    if (balance > 0) {
        run_batch(leaf, step, 1, 0);
        memset(leaf, 0, sizeof *leaf * (size_t)(B * CHUNKS));
    }
    run_batch(leaf, step, 0, backward);
    if (backward) {
        tree(grads, B, n_elements);
        narrow(grads, n_elements);
        add(gradient(WTE), gradient(head()), tied ? V * C : 0);
        narrow(gradient(WTE), V * C);
    }
    for (long i = 0; i < B * CHUNKS; i++)
        sum += leaf[i];
    free(leaf);
    return sum / (double)(B * T);
}

/* What `balance` adds to the loss. */
static double balance_loss(void)
{
    double sum = 0, tokens = group_tokens();
    for (long i = 0; i < micros * L * E; i++)
        sum += (double)wanted[i] / ((double)K * tokens) * (probable[i] / tokens);
    return balance * (double)E * sum / (double)micros;
}

static double whole_loss(void)
{
    return loss_and_gradient(0, 0) + balance_loss();
}

/* ---- main ---- */

static int parse(const char *word)
{
    const option options[] = { { "layers=%ld", &L }, { "channels=%ld", &C }, { "heads=%ld", &HEADS },
        { "context=%ld", &T }, { "vocab=%ld", &V }, { "experts=%ld", &E }, { "top=%ld", &K },
        { "batch=%ld", &B }, { "steps=%ld", &steps }, { "tied=%ld", &tied }, { "sgd=%ld", &sgd },
        { "seed=%ld", &seed }, { "check=%ld", &check }, { "delay=%ld", &delay }, { "bf16=%ld", &bf16 },
        { "stochastic=%ld", &stochastic }, { "lr=%lf", &lr }, { "clip=%lf", &clip }, { "decay=%lf", &decay },
        { "dropout=%lf", &dropout }, { "capacity=%lf", &capacity }, { "balance=%lf", &balance },
        { "micros=%ld", &micros }, { "run=%ld", &run }, { "data=%4095[^\n]", data_path },
        { "grads=%4095[^\n]", grads_path }, { "params=%4095[^\n]", params_path } };
    return take(word, options, sizeof options / sizeof *options);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!parse(argv[i]))
            return 2;
    if (L < 1 || L > 4096 || HEADS < 1 || V < 2 || V > 65536 || B < 1 || B > 1 << 20 || C < 64 || C % 64 ||
        C % HEADS || T < CHUNKS || T % CHUNKS || E < 1 || E > 1024 || K < 1 || K > E || micros < 1 ||
        run < 1 || B % (micros * run) || dropout < 0 || dropout >= 1) {
        fprintf(stderr,
            "moe: channels must be a multiple of 64 and of heads, context a multiple of 8, vocab 2 to 65536, "
            "layers 1 to 4096, batch 1 to 1048576 and a multiple of micros x run, experts 1 to 1024, top 1 "
            "to experts, dropout less than 1\n");
        return 2;
    }
    make_model();
    open_corpus();
    return learn();
}
