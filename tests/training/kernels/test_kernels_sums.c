/* SPDX-License-Identifier: BSD-3-Clause */
/* test_kernels_sums.c: what goes over several sequences in one call: sums over tokens, norms of groups,
 * positions, trees over leaves, and copies; of each set that this machine runs, against plain text. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/training/kernels/kernels_rig.h"
#include "training/kernels/stripes.h"

enum { ROUNDS = 40 };

static struct tr_tokens tokens_of_any_shape(void)
{
    int64_t block = rig_between(1, 5);
    return (struct tr_tokens){ rig_between(1, 4), block * rig_between(1, 8), rig_between(1, 90), block };
}

static int64_t elements(const struct tr_tokens *t)
{
    return t->sequences * t->tokens * t->columns;
}

/* sums[sequence][column] of x y, or of x; products are fused. */
static void ref_sums(float *sums, const float *x, const float *y, const struct tr_tokens *t)
{
    int64_t c = t->columns, blocks = t->tokens / t->block;
    float *part = rig_empty(blocks * c);
    for (int64_t s = 0; s < t->sequences; s++, x += t->tokens * c, y += y ? t->tokens * c : 0) {
        memset(part, 0, sizeof(float) * (size_t)(blocks * c));
        for (int64_t i = 0; i < t->tokens * c; i++) {
            float *acc = &part[i / c / t->block * c + i % c];
            *acc = y ? fmaf(x[i], y[i], *acc) : *acc + x[i];
        }
        ref_tree(part, blocks, c, c);
        memcpy(sums + s * c, part, sizeof(float) * (size_t)c);
    }
}

Test(train_kernels, each_sequence_has_its_sum_over_tokens)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct tr_tokens t = tokens_of_any_shape();
        int64_t n = t.sequences * t.columns, rows = t.sequences * t.tokens;
        float *x = rig_random(elements(&t)), *dy = rig_random(elements(&t)), *sums = rig_empty(n),
              *squares = rig_empty(n), *mean = rig_random(rows), *scale = rig_random(rows),
              *dw = rig_empty(n), *means = rig_empty(elements(&t));
        ref_sums(sums, x, NULL, &t);
        ref_sums(squares, x, x, &t);
        float *normed = rig_empty(elements(&t));
        for (int64_t i = 0; i < elements(&t); i++) {
            normed[i] = (x[i] - mean[i / t.columns]) * scale[i / t.columns] * dy[i];
            means[i] = sums[i / (t.tokens * t.columns) * t.columns + i % t.columns] / 7;
        }
        ref_sums(dw, normed, NULL, &t);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            float *a = rig_empty(n), *b = rig_empty(n), *w = rig_empty(n), *db = rig_empty(n),
                  *m = rig_empty(elements(&t));
            if (!set)
                continue;
            set->sum_tokens(on, a, x, &t);
            set->sum_squares(on, b, x, &t);
            set->layer_norm.dw(on, w, db, dy, x, mean, scale, &t);
            set->mean(on, m, a, 7, &t);
            rig_equal(a, sums, n, set->name, "sum_tokens");
            rig_equal(b, squares, n, set->name, "sum_squares");
            rig_equal(w, dw, n, set->name, "layer_norm_dw");
            rig_equal(m, means, elements(&t), set->name, "mean");
            ref_sums(sums, dy, NULL, &t);
            rig_equal(db, sums, n, set->name, "layer_norm_db");
            ref_sums(sums, x, NULL, &t);
        }
        rig_end();
    }
}

/* to[column]: what its group has in sums, times factor if there is one, over all cells and columns. */
static void ref_means(float *to, const float *sums, const float *factor, const struct tr_grouped *g)
{
    for (int64_t i = 0; i < g->here.columns; i++) {
        int64_t first = i / g->size * g->size;
        float sum =
            factor ? ref_dot_row(sums + first, factor + first, g->size) : ref_sum_row(sums + first, g->size);
        to[i] = sum / (float)(g->cells * g->size);
    }
}

struct grouped {
    float *x, *dy, *sums, *squares, *w, *b, *of_w, *of_b; /* given */
    float *centred, *y, *dx, *dw, *db; /* due */
};

static void ref_group_norm(const struct grouped *p, const struct tr_grouped *g)
{
    int64_t c = g->here.columns, picture = g->here.tokens * c;
    float *scale = rig_empty(c), *a = rig_empty(c), *dot = rig_empty(c), *mean = rig_empty(c),
          *normed = rig_empty(elements(&g->here));
    for (int64_t s = 0; s < g->here.sequences; s++) {
        ref_means(mean, p->sums + s * c, NULL, g);
        ref_means(scale, p->squares + s * c, NULL, g);
        ref_means(a, p->w, p->of_b + s * c, g);
        ref_means(dot, p->w, p->of_w + s * c, g);
        for (int64_t i = 0; i < c; i++)
            scale[i] = 1 / sqrtf(scale[i] + 1e-5f);
        for (int64_t i = s * picture; i < (s + 1) * picture; i++) {
            int64_t at = i % c;
            normed[i] = p->x[i] * scale[at];
            p->centred[i] = p->x[i] - mean[at];
            p->y[i] = fmaf(normed[i], p->w[at], p->b[at]);
            p->dx[i] = (p->dy[i] * p->w[at] - a[at] - normed[i] * dot[at]) * scale[at];
        }
    }
    ref_sums(p->dw, p->dy, normed, &g->here);
    ref_sums(p->db, p->dy, NULL, &g->here);
}

Test(train_kernels, group_norm_has_the_bits_of_the_golden_program)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct tr_grouped g = { tokens_of_any_shape(), rig_between(1, 40), rig_between(1, 99) };
        g.here.columns = g.size * rig_between(1, 4);
        int64_t all = elements(&g.here), c = g.here.columns, n = g.here.sequences * c;
        struct grouped p = { rig_random(all), rig_random(all), rig_random(n), rig_random(n), rig_random(c),
            rig_random(c), rig_random(n), rig_random(n), rig_empty(all), rig_empty(all), rig_empty(all),
            rig_empty(n), rig_empty(n) };
        for (int64_t i = 0; i < n; i++)
            p.squares[i] = fabsf(p.squares[i]);
        ref_group_norm(&p, &g);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            float *got = rig_empty(all), *w = rig_empty(n), *b = rig_empty(n), *d = rig_copy(p.dy, all);
            if (!set)
                continue;
            float *scratch = rig_empty(set->group_norm.scratch(&g));
            set->group_norm.centre(on, got, p.x, p.sums, &g, scratch);
            rig_equal(got, p.centred, all, set->name, "centre");
            set->group_norm.forward(on, got, p.x, p.squares, p.w, p.b, &g, scratch);
            rig_equal(got, p.y, all, set->name, "group_norm");
            set->group_norm.dw(on, w, b, p.dy, p.x, p.squares, &g, scratch);
            rig_equal(w, p.dw, n, set->name, "group_norm_dw");
            rig_equal(b, p.db, n, set->name, "group_norm_db");
            set->group_norm.dx(on, d, d, p.x, p.squares, p.w, p.of_w, p.of_b, &g, scratch);
            rig_equal(d, p.dx, all, set->name, "group_norm_dx");
        }
        rig_end();
    }
}

/* ---- the embedding ---- */

/* Leaves, and their sum. What a leaf is, test_kernels_rows.c says. */
Test(train_kernels, embedding_sums_over_sequences_or_gives_leaves)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct tr_tokens t = tokens_of_any_shape();
        struct tr_embedded e = { t, rig_between(0, 3), rig_between(1, 5), true };
        int64_t count = e.rows * t.columns;
        uint16_t token[4 * 40];
        float *dy = rig_random(elements(&t));
        for (int64_t i = 0; i < t.sequences * t.tokens; i++)
            token[i] = (uint16_t)rig_between(0, 9);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            float *leaves = rig_empty(t.sequences * count), *one = rig_empty(count), *sum = rig_empty(count);
            if (!on->k)
                continue;
            e.leaves = true;
            on->k->embed.dw(on, leaves, dy, token, &e, rig_empty(on->k->embed.scratch(&e)));
            for (int64_t i = 0; i < t.sequences; i++) {
                struct tr_embedded alone = e;
                alone.here.sequences = 1;
                on->k->embed.dw(on, one, dy + i * t.tokens * t.columns, token + i * t.tokens, &alone, NULL);
                rig_equal(leaves + i * count, one, count, on->k->name, "a leaf of embed_dw");
            }
            e.leaves = false;
            on->k->embed.dw(on, sum, dy, token, &e, rig_empty(on->k->embed.scratch(&e)));
            ref_tree(leaves, t.sequences, count, count);
            rig_equal(sum, leaves, count, on->k->name, "embed_dw");
        }
        rig_end();
    }
}

Test(train_kernels, positions_are_those_of_the_tokens_that_are_here)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t parts = (int64_t)1 << rig_between(1, 2), n = TR_STRIPES * rig_between(1, 3);
        struct tr_positions p = { rig_between(1, 3), rig_between(1, 2), n, rig_between(1, 50), parts * n,
            { rig_between(0, 1) ? 0 : n, (parts - 1) * n }, round % 3 == 0, parts * n + rig_between(0, 9) };
        p.first[0] = p.runs == 2 ? 0 : p.first[0];
        int64_t all = p.sequences * p.runs * n * p.columns, table = p.rows * p.columns;
        float *x = rig_random(all), *w = rig_random(table), *y = rig_empty(all),
              *dw = rig_empty(p.sequences * table);
        memset(dw, 0, sizeof(float) * (size_t)(p.sequences * table));
        for (int64_t i = 0; i < all; i++) {
            int64_t t = i / p.columns, place = p.first[t / n % p.runs] + t % n, s = t / n / p.runs;
            int64_t row = p.striped ? tr_striped_token(p.context, place) : place;
            y[i] = x[i] + w[row * p.columns + i % p.columns];
            dw[s * table + row * p.columns + i % p.columns] = x[i] + 0;
        }
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            float *got = rig_copy(x, all), *d = rig_empty(p.sequences * table);
            if (!on->k)
                continue;
            on->k->embed.position(on, got, got, w, &p);
            on->k->embed.position_dw(on, d, x, &p);
            rig_equal(got, y, all, on->k->name, "position");
            rig_equal(d, dw, p.sequences * table, on->k->name, "position_dw");
        }
        rig_end();
    }
}

/* ---- trees over arrays ---- */

Test(train_kernels, leaves_fold_by_their_tree_however_many_there_are)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = round < 20 ? round + 1 : rig_between(21, 70), count = rig_between(1, 100), sequences = 2;
        float *leaves = rig_random(sequences * n * count), *want = rig_copy(leaves, sequences * n * count);
        for (int64_t s = 0; s < sequences; s++)
            ref_tree(want + s * n * count, n, count, count);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            float *got = rig_empty(sequences * count), *sum = rig_empty(count);
            if (!on->k)
                continue;
            on->k->fold(on, got, leaves, n, count, sequences);
            for (int64_t i = 0; i < sequences; i++)
                rig_equal(got + i * count, want + i * n * count, count, on->k->name, "fold");
            float *levels = rig_empty(tr_levels(n) * count), *level[TR_LEVELS] = { NULL };
            for (int64_t l = 0; l < tr_levels(n); l++)
                level[l] = levels + l * count;
            for (int64_t j = 0; j < n; j++) {
                memcpy(sum, leaves + j * count, sizeof(float) * (size_t)count);
                on->k->tree_in(on, sum, level, count, j, n);
            }
            rig_equal(sum, want, count, on->k->name, "tree_in");
        }
        rig_end();
    }
}

Test(train_kernels, parts_that_are_not_there_are_zero_in_the_tree_over_parts)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = rig_between(1, TR_MOST_PARTS), count = rig_between(1, 100), sequences = 2;
        struct tr_partial part[TR_MOST_PARTS];
        float *want = rig_empty(sequences * n * count);
        memset(want, 0, sizeof(float) * (size_t)(sequences * n * count));
        for (int64_t x = 0; x < n; x++) {
            bool there = x == round % n || rig_between(0, 2) > 0;
            int64_t next = count + rig_between(0, 5);
            part[x] = (struct tr_partial){ there ? rig_random(sequences * next) : NULL, next };
            for (int64_t s = 0; s < sequences && there; s++)
                memcpy(want + (s * n + x) * count, part[x].p + s * next, sizeof(float) * (size_t)count);
        }
        for (int64_t s = 0; s < sequences; s++)
            ref_tree(want + s * n * count, n, count, count);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            float *got = rig_random(sequences * 2 * count), *due = rig_copy(got, sequences * 2 * count);
            if (!on->k)
                continue;
            on->k->fold_parts(on, &(struct tr_partial){ got, 2 * count }, part, n, count, sequences);
            for (int64_t i = 0; i < sequences; i++)
                memcpy(due + i * 2 * count, want + i * n * count, sizeof(float) * (size_t)count);
            rig_equal(got, due, sequences * 2 * count, on->k->name, "fold_parts");
        }
        rig_end();
    }
}

/* ---- copies ---- */

/* What lies between the pieces stays as it was. */
Test(train_kernels, copies_go_piece_by_piece_between_arrays_with_strides_of_their_own)
{
    for (int round = 0; round < ROUNDS; round++) {
        struct tr_copy c = { .bytes = rig_between(1, 40) };
        int64_t to_row = c.bytes, from_row = c.bytes;
        for (int d = 2; d >= 0; d--) {
            c.n[d] = rig_between(1, 4);
            c.to[d] = to_row + rig_between(0, 7), c.from[d] = from_row + rig_between(0, 7);
            to_row = c.n[d] * c.to[d], from_row = c.n[d] * c.from[d];
        }
        float *from = rig_random(from_row / 4 + 1), *first = rig_random(to_row / 4 + 1),
              *want = rig_copy(first, to_row / 4 + 1);
        for (int64_t i = 0; i < c.n[0] * c.n[1] * c.n[2] * c.bytes; i++) {
            int64_t byte = i % c.bytes, k = i / c.bytes % c.n[2], j = i / c.bytes / c.n[2] % c.n[1],
                    n = i / c.bytes / c.n[2] / c.n[1];
            ((char *)want)[n * c.to[0] + j * c.to[1] + k * c.to[2] + byte] =
                ((const char *)from)[n * c.from[0] + j * c.from[1] + k * c.from[2] + byte];
        }
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            float *got = rig_copy(first, to_row / 4 + 1);
            if (!on->k)
                continue;
            on->k->copy(on, got, from, &c);
            rig_equal(got, want, to_row / 4 + 1, on->k->name, "copy");
            on->k->fill(on, (char *)got + 1, 0xFF, 2);
            cr_assert(!memcmp((char *)got + 1, "\xFF\xFF", 2) && ((char *)got)[3] == ((char *)want)[3] &&
                      ((char *)got)[0] == ((char *)want)[0]);
        }
        rig_end();
    }
}
