/* SPDX-License-Identifier: BSD-3-Clause */
/* test_kernels_rows.c: the kernels on rows and elements, of each set that this machine runs, against the text
 * of the golden program. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/training/kernels/kernels_rig.h"

enum { ROUNDS = 60 };

static float ref_tangent(float x)
{
    return 1 - 2 / (ref_exponential(2 * x) + 1);
}

/* ---- layer norm ---- */

struct rows {
    int64_t rows, c;
    float *x, *w, *b, *mean, *scale, *y;
};

static struct rows normed_rows(int64_t rows)
{
    int64_t c = rig_between(1, 90);
    struct rows r = { rows, c, rig_random(rows * c), rig_random(c), rig_random(c), rig_empty(rows),
        rig_empty(rows), rig_empty(rows * c) };
    float *centred = rig_empty(c);
    for (int64_t t = 0; t < rows; t++) {
        r.mean[t] = ref_sum_row(r.x + t * c, c) / (float)c;
        for (int64_t i = 0; i < c; i++)
            centred[i] = r.x[t * c + i] - r.mean[t];
        r.scale[t] = 1 / sqrtf(ref_dot_row(centred, centred, c) / (float)c + 1e-5f);
        for (int64_t i = 0; i < c; i++)
            r.y[t * c + i] = fmaf(centred[i] * r.scale[t], r.w[i], r.b[i]);
    }
    return r;
}

Test(train_kernels, layer_norm_has_the_bits_of_the_golden_program)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct rows r = normed_rows(rig_between(1, 9));
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            float *y = rig_empty(r.rows * r.c), *mean = rig_empty(r.rows), *scale = rig_empty(r.rows);
            if (!set)
                continue;
            set->layer_norm.forward(on, y, mean, scale, r.x, r.w, r.b, r.rows, r.c);
            rig_equal(mean, r.mean, r.rows, set->name, "mean");
            rig_equal(scale, r.scale, r.rows, set->name, "scale");
            rig_equal(y, r.y, r.rows * r.c, set->name, "layer_norm");
        }
        rig_end();
    }
}

/* Into arrays that begin with zeros, as the golden program adds. */
static void ref_layer_norm_dx(float *dx, float *products, const float *dy, const struct rows *r)
{
    float *n = rig_empty(r->c), *g = rig_empty(r->c);
    for (int64_t t = 0; t < r->rows; t++) {
        const float *d = dy + t * r->c;
        for (int64_t i = 0; i < r->c; i++) {
            n[i] = (r->x[t * r->c + i] - r->mean[t]) * r->scale[t];
            g[i] = d[i] * r->w[i];
        }
        float a = ref_sum_row(g, r->c) / (float)r->c, b = ref_dot_row(g, n, r->c) / (float)r->c;
        for (int64_t i = 0; i < r->c; i++) {
            dx[t * r->c + i] = 0 + (g[i] - a - n[i] * b) * r->scale[t];
            products[t * r->c + i] = n[i] * d[i];
        }
    }
}

static void ref_sum_tokens(float *out, const float *x, int64_t tokens, int64_t m, int64_t block)
{
    float *part = rig_empty(tokens / block * m);
    memset(part, 0, sizeof(float) * (size_t)(tokens / block * m));
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t j = 0; j < m; j++)
            part[t / block * m + j] += x[t * m + j];
    ref_tree(part, tokens / block, m, m);
    memcpy(out, part, sizeof(float) * (size_t)m);
}

/* A cell's taps are its neighbours in the order of the grid, and +0 beyond the border; a halo is a row more
 * on either side, of which no taps are wanted. */
Test(train_kernels, patches_are_the_neighbours_of_each_cell)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t side = rig_between(1, 6), rows = rig_between(1, 6), c = rig_between(1, 20);
        int64_t direction = round % 2 ? 1 : -1;
        bool outside = round / 2 % 2, halo = round / 4 % 2;
        struct tr_grid grid = { rows, side, halo };
        float *x = rig_random((rows + 2 * halo) * side * c), *want = rig_empty(rows * side * 9 * c);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < side; j++)
                for (int64_t n = 0; n < 9 * c; n++) {
                    int64_t channel = outside ? n / 9 : n % c, tap = outside ? n % 9 : n / c;
                    int64_t down = i + direction * (tap / 3 - 1), right = j + direction * (tap % 3 - 1);
                    bool there = down >= -halo && down < rows + halo && right >= 0 && right < side;
                    want[(i * side + j) * 9 * c + n] =
                        there ? x[((down + halo) * side + right) * c + channel] : 0;
                }
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            float *got = rig_empty(rows * side * 9 * c);
            if (!set)
                continue;
            set->patches(on, got, x, &grid, c, outside, direction);
            rig_equal(got, want, rows * side * 9 * c, set->name, "patches");
        }
        rig_end();
    }
}

Test(train_kernels, gradients_of_layer_norm_and_sums_over_tokens_have_the_bits_of_the_golden_program)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t block = rig_between(1, 5), tokens = block * rig_between(1, 8);
        struct rows r = normed_rows(tokens);
        float *dy = rig_random(tokens * r.c), *dx = rig_empty(tokens * r.c), *n = rig_empty(tokens * r.c);
        float *dw = rig_empty(r.c), *db = rig_empty(r.c);
        memset(dy, 0, sizeof(float) * (size_t)(round % 2 * r.c)); /* -0 may come of that */
        ref_layer_norm_dx(dx, n, dy, &r);
        ref_sum_tokens(dw, n, tokens, r.c, block);
        ref_sum_tokens(db, dy, tokens, r.c, block);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            float *x = rig_empty(tokens * r.c), *w = rig_empty(r.c), *b = rig_empty(r.c),
                  *sum = rig_empty(r.c);
            if (!set)
                continue;
            set->layer_norm.dx(on, x, dy, r.x, r.w, r.mean, r.scale, tokens, r.c);
            struct tr_tokens t = { 1, tokens, r.c, block };
            set->layer_norm.dw(on, w, b, dy, r.x, r.mean, r.scale, &t);
            set->sum_tokens(on, sum, dy, &t);
            rig_equal(x, dx, tokens * r.c, set->name, "layer_norm_dx");
            rig_equal(w, dw, r.c, set->name, "dw");
            rig_equal(b, db, r.c, set->name, "db");
            rig_equal(sum, db, r.c, set->name, "sum_tokens");
        }
        rig_end();
    }
}

/* ---- element by element ---- */

static void ref_gelu(float *y, float *dx, const float *dy, const float *x, int64_t count)
{
    const float root = (float)0.7978845608028654;
    for (int64_t i = 0; i < count; i++) {
        float xx = x[i] * x[i], u = root * fmaf((float)0.044715 * xx, x[i], x[i]);
        float th = ref_tangent(u), du = root * fmaf((float)(3 * 0.044715), xx, 1);
        y[i] = 0.5f * x[i] * (1 + th);
        dx[i] = dy[i] * (0.5f * (1 + th) + 0.5f * x[i] * (1 - th * th) * du);
    }
}

Test(train_kernels, gelu_and_additions_have_the_bits_of_the_golden_program)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t rows = rig_between(1, 6), columns = rig_between(1, 70), count = rows * columns;
        float *x = rig_random(count), *dy = rig_random(count), *bias = rig_random(columns);
        float *y = rig_empty(count), *dx = rig_empty(count), *sum = rig_empty(count),
              *more = rig_empty(count);
        for (int64_t i = 0; i < count; i++) {
            x[i] *= round % 2 ? 8 : 1; /* both ends of tanh are reached */
            sum[i] = x[i] + dy[i];
            more[i] = x[i] + bias[i % columns];
        }
        ref_gelu(y, dx, dy, x, count);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            float *out = rig_empty(count), *in_place = rig_copy(dy, count);
            if (!set)
                continue;
            set->gelu.forward(on, out, x, count);
            rig_equal(out, y, count, set->name, "gelu");
            set->gelu.dx(on, in_place, in_place, x, count);
            rig_equal(in_place, dx, count, set->name, "gelu_dx");
            set->add_bias(on, out, x, bias, rows, columns);
            rig_equal(out, more, count, set->name, "add_bias");
            memcpy(out, x, sizeof(float) * (size_t)count);
            set->add(on, out, out, dy, count);
            rig_equal(out, sum, count, set->name, "add");
        }
        rig_end();
    }
}

/* ---- the embedding ---- */

static void ref_embed_dw(float *dw, const float *dy, const uint16_t *token, int64_t tokens, int64_t c,
    int64_t first, int64_t rows, int64_t block)
{
    int64_t blocks = tokens / block, m = rows * c;
    float *part = rig_empty(blocks * m);
    memset(part, 0, sizeof(float) * (size_t)(blocks * m));
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t i = 0; i < c && token[t] >= first && token[t] < first + rows; i++)
            part[t / block * m + (token[t] - first) * c + i] += dy[t * c + i];
    ref_tree(part, blocks, m, m);
    memcpy(dw, part, sizeof(float) * (size_t)m);
}

Test(train_kernels, embedding_takes_and_sums_the_rows_that_are_here)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t block = rig_between(1, 6), tokens = block * rig_between(1, 8), c = rig_between(1, 70);
        int64_t first = rig_between(0, 3), rows = rig_between(1, 5);
        uint16_t token[48];
        float *w = rig_random(rows * c), *dy = rig_random(tokens * c), *out = rig_empty(tokens * c),
              *dw = rig_empty(rows * c);
        for (int64_t t = 0; t < tokens; t++) {
            token[t] = (uint16_t)rig_between(0, 9);
            bool here = token[t] >= first && token[t] < first + rows;
            for (int64_t i = 0; i < c; i++)
                out[t * c + i] = (here ? w[(token[t] - first) * c + i] : 0) + 0;
        }
        ref_embed_dw(dw, dy, token, tokens, c, first, rows, block);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            float *got = rig_empty(tokens * c), *of_rows = rig_empty(rows * c);
            if (!set)
                continue;
            set->embed.forward(on, got, w, token, tokens, c, first, rows);
            rig_equal(got, out, tokens * c, set->name, "embed");
            set->embed.dw(on, of_rows, dy, token,
                &(struct tr_embedded){ { 1, tokens, c, block }, first, rows, true }, NULL);
            rig_equal(of_rows, dw, rows * c, set->name, "embed_dw");
        }
        rig_end();
    }
}

/* Where C libraries could part. A logarithm in float64 that is off by less than its last place gives the same
 * float32 for each number from 1 to 2^18, in which the sums of a softmax lie, but for these two: their
 * logarithms are 0.19 and 0.73 of a last place from where the float changes. What stands here is that of the
 * nearest float64, with which the golden runs were made. */
Test(train_kernels, the_two_logarithms_on_which_c_libraries_could_differ_are_the_golden_ones)
{
    static const float sum[] = { 0x1.2f1fd6p+3f, 0x1.cb534cp+13f }, zero[2];
    static const double want[] = { 0x1.1fcbdp+1, 0x1.330e4ap+3 };
    for (int s = 0; s < RIG_SETS; s++) {
        double got[2];
        struct tr_context *on = rig_context(s);
        if (!on->k)
            continue;
        on->k->softmax.loss(on, got, 2, sum, zero, zero, &(struct tr_tokens){ 1, 2, 1, 1 });
        for (int i = 0; i < 2; i++)
            cr_expect(got[i] == want[i],
                "%s: this C library says that log(%a) is %a as a float, and golden runs have %a: all losses "
                "with such a sum will differ from those of other machines",
                rig_sets[s], (double)sum[i], got[i], want[i]);
    }
}

/* ---- the optimizers ---- */

/* Zeros stand for what is not there. */
static double ref_square_leaf(const float *x, int64_t count)
{
    double lane[256] = { 0 };
    for (int64_t i = 0; i < count; i++)
        lane[i % 256] += (double)x[i] * (double)x[i];
    for (int step = 1; step < 256; step *= 2)
        for (int i = 0; i < 256; i += 2 * step)
            lane[i] += lane[i + step];
    return lane[0];
}

Test(train_kernels, square_leaves_are_lanes_and_their_tree_in_double_precision)
{
    for (int round = 0; round < 4 * ROUNDS; round++) {
        int64_t leaf = rig_between(1, round % 2 ? 50 : 1200), count = rig_between(1, 20 * leaf);
        int64_t n = (count + leaf - 1) / leaf;
        float *x = rig_random(count);
        double want[20] = { 0 }, got[21];
        for (int64_t i = 0; i < n; i++)
            want[i] = ref_square_leaf(x + i * leaf, i < n - 1 ? leaf : count - i * leaf);
        for (int s = 0; s < RIG_SETS; s++)
            if (rig_context(s)->k) {
                got[n] = -7;
                rig_context(s)->k->square_leaves(rig_context(s), got, x, false, count, leaf);
                cr_assert(!memcmp(got, want, sizeof(double) * (size_t)n), "square_leaves of %s", rig_sets[s]);
                cr_assert(got[n] == -7, "square_leaves of %s wrote a leaf too many", rig_sets[s]);
            }
        rig_end();
    }
}

static void ref_adamw(
    float *p, float *m, float *v, const float *grad, int64_t count, const struct tr_adamw *a)
{
    const float b1 = (float)0.9, b2 = (float)0.95, eps = (float)1e-8;
    for (int64_t i = 0; i < count; i++) {
        float g = grad[i] * a->scale;
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * (g * g);
        p[i] = p[i] - a->rate * ((m[i] * a->correct1) / (sqrtf(v[i] * a->correct2) + eps) + a->decay * p[i]);
    }
}

Test(train_kernels, optimizers_have_the_bits_of_the_golden_program)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t count = rig_between(1, 200);
        struct tr_adamw a = { 1e-3f, round % 2 ? 0.1f : 0, 0.7f, 10, 20 };
        float *g = rig_random(count), *p = rig_random(count), *m = rig_random(count), *v = rig_random(count);
        for (int64_t i = 0; i < count; i++)
            v[i] = fabsf(v[i]);
        float *want_p = rig_copy(p, count), *want_m = rig_copy(m, count), *want_v = rig_copy(v, count);
        float *plain = rig_empty(count);
        ref_adamw(want_p, want_m, want_v, g, count, &a);
        for (int64_t i = 0; i < count; i++)
            plain[i] = p[i] - 0.1f * (g[i] * 0.7f);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            float *q = rig_copy(p, count), *n = rig_copy(m, count), *u = rig_copy(v, count);
            if (!set)
                continue;
            set->update(on, &(struct tr_update){ q, n, u, g, NULL, count, a, NULL });
            rig_equal(q, want_p, count, set->name, "adamw's parameters");
            rig_equal(n, want_m, count, set->name, "adamw's momentum");
            rig_equal(u, want_v, count, set->name, "adamw's variance");
            memcpy(q, p, sizeof(float) * (size_t)count);
            set->update(on,
                &(struct tr_update){ .p = q, .g = g, .count = count, .a = { .rate = 0.1f, .scale = 0.7f } });
            rig_equal(q, plain, count, set->name, "sgd");
        }
        rig_end();
    }
}
