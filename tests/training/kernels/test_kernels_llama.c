/* SPDX-License-Identifier: BSD-3-Clause */
/* test_kernels_llama.c: the kernels that the Llama alone has, of each set, against the text of its golden
 * program. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/training/kernels/kernels_rig.h"
#include "training/kernels/stripes.h"

enum { ROUNDS = 60 };

/* ---- RMS norm ---- */

/* normed: the rows whose sum over tokens is dw; dx begins with zeros, as the golden program adds. */
static void ref_rms(float *y, float *scale, float *dx, float *normed, const float *dy, const float *x,
    const float *w, int64_t rows, int64_t c)
{
    float *g = rig_empty(c);
    for (int64_t t = 0; t < rows; t++) {
        const float *row = x + t * c;
        float *n = normed + t * c;
        scale[t] = 1 / sqrtf(ref_dot_row(row, row, c) / (float)c + 1e-5f);
        for (int64_t i = 0; i < c; i++) {
            y[t * c + i] = row[i] * scale[t] * w[i];
            n[i] = row[i] * scale[t];
            g[i] = dy[t * c + i] * w[i];
        }
        float along = ref_dot_row(g, n, c) / (float)c;
        for (int64_t i = 0; i < c; i++) {
            dx[t * c + i] = (g[i] - n[i] * along) * scale[t] + 0.0f;
            n[i] = n[i] * dy[t * c + i];
        }
    }
}

Test(train_kernels, rms_norm_has_the_bits_of_the_golden_program)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct tr_tokens t = { rig_between(1, 3), 0, rig_between(1, 90), rig_between(1, 3) };
        t.tokens = t.block * rig_between(1, 8);
        int64_t rows = t.sequences * t.tokens, count = rows * t.columns, sums = t.sequences * t.columns;
        float *x = rig_random(count), *w = rig_random(t.columns), *dy = rig_random(count);
        float *want[] = { rig_empty(count), rig_empty(rows), rig_empty(count), rig_empty(count),
            rig_empty(sums) };
        ref_rms(want[0], want[1], want[2], want[3], dy, x, w, rows, t.columns);
        for (int64_t s = 0, blocks = t.tokens / t.block; s < t.sequences; s++) {
            float *part = rig_empty(blocks * t.columns);
            memset(part, 0, sizeof *part * (size_t)(blocks * t.columns));
            for (int64_t n = 0; n < t.tokens; n++)
                for (int64_t i = 0; i < t.columns; i++)
                    part[n / t.block * t.columns + i] += want[3][(s * t.tokens + n) * t.columns + i];
            ref_tree(part, blocks, t.columns, t.columns);
            memcpy(want[4] + s * t.columns, part, sizeof *part * (size_t)t.columns);
        }
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            float *y = rig_empty(count), *scale = rig_empty(rows), *dx = rig_empty(count),
                  *dw = rig_empty(sums);
            if (!set)
                continue;
            set->rms_norm.forward(on, y, scale, x, w, rows, t.columns);
            set->rms_norm.dx(on, dx, dy, x, w, scale, rows, t.columns);
            set->rms_norm.dw(on, dw, dy, x, scale, &t);
            rig_equal(y, want[0], count, set->name, "rms_norm");
            rig_equal(scale, want[1], rows, set->name, "scale");
            rig_equal(dx, want[2], count, set->name, "rms_norm_dx");
            rig_equal(dw, want[4], sums, set->name, "rms_norm_dw");
        }
        rig_end();
    }
}

/* ---- SwiGLU ---- */

Test(train_kernels, swiglu_has_the_bits_of_the_golden_program)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t pairs = rig_between(1, 6), chunk = rig_between(1, 70), count = pairs * chunk;
        float *x = rig_random(2 * count), *dy = rig_random(count), *y = rig_empty(count),
              *dx = rig_empty(2 * count);
        for (int64_t i = 0; i < 2 * count; i++)
            x[i] *= round % 3 ? 8 : 90; /* both ends of the gate are reached */
        for (int64_t i = 0; i < count; i++) {
            int64_t at = i / chunk * 2 * chunk + i % chunk;
            float gate = x[at], beside = x[at + chunk], s = 1 / (ref_exponential(-gate) + 1);
            y[i] = gate * s * beside;
            dx[at] = dy[i] * beside * (s * (1 + gate * (1 - s)));
            dx[at + chunk] = dy[i] * (gate * s);
        }
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            float *out = rig_empty(count), *back = rig_empty(2 * count);
            if (!set)
                continue;
            set->swiglu.forward(on, out, x, pairs, chunk);
            set->swiglu.dx(on, back, dy, x, pairs, chunk);
            rig_equal(out, y, count, set->name, "swiglu");
            rig_equal(back, dx, 2 * count, set->name, "swiglu_dx");
        }
        rig_end();
    }
}

/* ---- RoPE ---- */

static void ref_turn(float *to, const float *from, int64_t place, int64_t size, bool back)
{
    for (int64_t i = 0; i < size / 2; i++) {
        double angle = (double)place * (double)(float)pow(10000, -2.0 * (double)i / (double)size);
        double turns = angle * 0.63661977236758138 + 6755399441055744.0 - 6755399441055744.0;
        float x = (float)(angle - turns * 1.57079632673412561417 - turns * 6.07710050650619224932e-11);
        float z = x * x, sine = fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f);
        sine = fmaf(fmaf(sine, z, -1.6666654611e-1f), z * x, x);
        float cosine = fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f);
        cosine = fmaf(fmaf(cosine, z, 4.166664568298827e-2f), z * z, fmaf(-0.5f, z, 1.0f));
        long quarter = (long)turns & 3;
        float s = quarter & 1 ? cosine : sine, c = quarter & 1 ? sine : cosine;
        s = quarter & 2 ? -s : s, c = quarter == 1 || quarter == 2 ? -c : c;
        cr_assert(fabs(cos(angle) - (double)c) < 1.5e-7 && fabs(sin(angle) - (double)s) < 1.5e-7);
        s = back ? -s : s;
        float first = from[i], second = from[size / 2 + i];
        to[i] = first * c - second * s;
        to[size / 2 + i] = second * c + first * s;
    }
}

static int64_t place_of(const struct tr_rope *r, int64_t token)
{
    int64_t place = r->at.first[token / r->at.tokens] + token % r->at.tokens;
    return r->at.striped ? tr_striped_token(r->at.context, place) : place;
}

/* One group of one token, forward from grouped, or back to it. */
static void ref_group(float *grouped, float *qkv, int64_t place, const struct tr_rope *r, bool back)
{
    int64_t size = r->size, both = 2 * size;
    float *keys = grouped + r->share * size, *sum = rig_empty(r->share * both);
    for (int64_t h = 0; h < r->share; h++) {
        float *q = qkv + 3 * h * size, *from = grouped + h * size;
        if (back) {
            ref_turn(from, q, place, size, true);
            memcpy(sum + h * both, q + size, sizeof *sum * (size_t)both);
        } else {
            ref_turn(q, from, place, size, false);
            ref_turn(q + size, keys, place, size, false);
            memcpy(q + both, keys + size, sizeof *q * (size_t)size);
        }
    }
    if (!back)
        return;
    ref_tree(sum, r->share, both, both);
    ref_turn(keys, sum, place, size, true);
    memcpy(keys + size, sum + size, sizeof *keys * (size_t)size);
}

/* A device gets the powers of so many pairs at once that large heads need several times as many. */
static struct tr_rope drawn_rope(bool large)
{
    struct tr_rope r = { .groups = rig_between(1, 3),
        .share = rig_between(1, 5),
        .size = 2 * (large ? rig_between(129, 300) : rig_between(1, 40)) };
    bool two = rig_between(0, 1);
    r.at = (struct tr_positions){ .sequences = rig_between(1, 2),
        .runs = two ? 2 : 1,
        .tokens = rig_between(1, 4),
        .context = 8 * rig_between(8, 5000),
        .striped = !two && rig_between(0, 1) };
    for (int64_t run = 0; run < r.at.runs; run++)
        r.at.first[run] = rig_between(0, r.at.context - r.at.tokens);
    return r;
}

Test(train_kernels, rope_turns_and_spreads_with_the_bits_of_the_golden_program)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct tr_rope r = drawn_rope(round % 5 == 0);
        int64_t group = (r.share + 2) * r.size, heads = 3 * r.share * r.size, here = r.at.runs * r.at.tokens;
        int64_t n = r.at.sequences * here * r.groups;
        float *grouped = rig_random(n * group), *qkv = rig_random(n * heads);
        float *spread = rig_empty(n * heads), *back = rig_empty(n * group);
        for (int64_t i = 0; i < n; i++) {
            int64_t place = place_of(&r, i / r.groups % here);
            ref_group(grouped + i * group, spread + i * heads, place, &r, false);
            ref_group(back + i * group, qkv + i * heads, place, &r, true);
        }
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            if (!set)
                continue;
            float *to = rig_empty(n * heads), *dx = rig_empty(n * group),
                  *scratch = rig_empty(set->rope.scratch(&r));
            set->rope.forward(on, to, grouped, &r, scratch);
            set->rope.dx(on, dx, qkv, &r, scratch);
            rig_equal(to, spread, n * heads, set->name, "rope");
            rig_equal(dx, back, n * group, set->name, "rope_dx");
        }
        rig_end();
    }
}
