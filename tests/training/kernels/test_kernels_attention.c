/* SPDX-License-Identifier: BSD-3-Clause */
/* test_kernels_attention.c: attention, the softmax over the vocabulary and the loss, of each set that this
 * machine runs, against the text of the golden program. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/training/kernels/kernels_rig.h"

enum { BLOCKS = 8, MOST_CHUNKS = 40, MOST_EMULATED = 160 };

/* ---- attention ---- */

struct partial {
    float m, l, *o;
};

/* The token that stands in place t. */
static int64_t ref_token(int64_t t, const struct tr_attention *s)
{
    static const int stripes[BLOCKS] = { 0, 4, 2, 6, 1, 5, 3, 7 };
    return s->striped ? t % s->block * BLOCKS + stripes[t / s->block] : t;
}

/* What the probability is multiplied by that the query in place t of head h gives the key in place j. */
static float ref_kept(int64_t h, int64_t t, int64_t j, const struct tr_attention *s)
{
    const uint32_t *draw = s->dropped.draws;
    int64_t key = ref_token(j, s);
    if (!draw || !draw[TR_DRAW_LEAST])
        return 1;
    uint32_t word[4] = { (uint32_t)(key / 64 * 16 + key % 16), (uint32_t)ref_token(t, s),
        draw[TR_DRAW_SEQUENCE] + 0x80000000u, (uint32_t)(4096 * (s->dropped.head + h) + s->dropped.layer) };
    ref_philox(word, draw[TR_DRAW_KEY], draw[TR_DRAW_KEY_2]);
    return word[key % 64 / 16] >= draw[TR_DRAW_LEAST] ? s->dropped.scale : 0;
}

/* Of the query in place t of head h and block b of the keys. */
static struct partial ref_attend(const float *q, const float *k, int64_t h, int64_t t, int64_t b,
    int64_t seen, int64_t step, float *o, const struct tr_attention *s)
{
    int64_t size = s->size;
    float p[64], scale = 1 / sqrtf((float)size);
    struct partial part = { seen ? 0 : -1e30f, 0, o };
    for (int64_t j = 0; j < seen; j++) {
        float score = 0;
        for (int64_t d = 0; d < size; d++)
            score = fmaf(q[d], k[j * step + d], score);
        p[j] = score * scale;
        part.m = j == 0 || p[j] > part.m ? p[j] : part.m;
    }
    memset(o, 0, sizeof(float) * (size_t)size);
    for (int64_t j = 0; j < seen; j++) {
        p[j] = ref_exponential(p[j] - part.m);
        float share = p[j] * ref_kept(h, t, b * s->block + j, s);
        for (int64_t d = 0; d < size; d++)
            o[d] = fmaf(share, k[j * step + size + d], o[d]); /* values lie behind keys */
    }
    part.l = ref_sum_row(p, seen);
    return part;
}

static void ref_merge(struct partial *a, const struct partial *b, int64_t size)
{
    float m = a->m > b->m ? a->m : b->m, ea = ref_exponential(a->m - m), eb = ref_exponential(b->m - m);
    a->l = a->l * ea + b->l * eb;
    for (int64_t d = 0; d < size; d++)
        a->o[d] = a->o[d] * ea + b->o[d] * eb;
    a->m = m;
}

/* Keys of block b that the query in place t sees. */
static int64_t ref_seen(int64_t t, int64_t b, const struct tr_attention *s)
{
    int64_t seen = 0;
    while (seen < s->block && ref_token(b * s->block + seen, s) <= ref_token(t, s))
        seen++;
    return seen;
}

static void ref_attention(float *out, float *lse, const float *qkv, const struct tr_attention *s)
{
    int64_t step = 3 * s->heads * s->size;
    float *o = rig_empty(BLOCKS * s->size);
    for (int64_t h = 0; h < s->heads; h++)
        for (int64_t t = 0; t < s->tokens; t++) {
            const float *q = qkv + t * step + 3 * h * s->size, *k = qkv + (3 * h + 1) * s->size;
            struct partial part[BLOCKS];
            int64_t blocks = s->striped ? BLOCKS : t / s->block + 1;
            for (int64_t b = 0; b < blocks; b++)
                part[b] = ref_attend(
                    q, k + b * s->block * step, h, t, b, ref_seen(t, b, s), step, o + b * s->size, s);
            for (int64_t n = 1; n < blocks; n *= 2)
                for (int64_t b = 0; b + n < blocks; b += 2 * n)
                    ref_merge(&part[b], &part[b + n], s->size);
            for (int64_t d = 0; d < s->size; d++)
                out[(t * s->heads + h) * s->size + d] = part[0].o[d] / part[0].l;
            lse[h * s->tokens + t] = part[0].m + (float)log((double)part[0].l);
        }
}

/* to = weights x, where weights may be turned; sums in chunks of a block, as multiply_cut. */
static void ref_cut(
    float *to, const float *weights, bool turned, const float *x, int64_t x_row, const struct tr_attention *s)
{
    int64_t n = s->tokens;
    struct tr_gemm g = { .m = n,
        .n = s->size,
        .k = n,
        .a = weights,
        .b = x,
        .c = to,
        .a_row = turned ? 1 : n,
        .a_column = turned ? n : 1,
        .b_row = x_row,
        .b_column = 1,
        .c_row = 3 * s->heads * s->size,
        .chunks = n / s->block,
        .chunk = s->block };
    ref_gemm(&g);
}

static void ref_attention_dx(float *dqkv, const float *dout, const float *out, const float *lse,
    const float *qkv, const struct tr_attention *s)
{
    int64_t n = s->tokens, row = s->heads * s->size;
    float *p = rig_empty(n * n), *ds = rig_empty(n * n), scale = 1 / sqrtf((float)s->size);
    for (int64_t h = 0; h < s->heads; h++) {
        const float *q = qkv + 3 * h * s->size, *k = q + s->size, *v = k + s->size, *d = dout + h * s->size;
        struct tr_gemm g = { .m = n,
            .n = n,
            .k = s->size,
            .a = q,
            .b = k,
            .c = p,
            .a_row = 3 * row,
            .a_column = 1,
            .b_row = 1,
            .b_column = 3 * row,
            .c_row = n,
            .chunks = 1,
            .chunk = s->size };
        ref_gemm(&g);
        g.a = d, g.a_row = row, g.b = v, g.c = ds;
        ref_gemm(&g);
        for (int64_t t = 0; t < n; t++) {
            float along = ref_dot_row(d + t * row, out + t * row + h * s->size, s->size);
            for (int64_t j = 0; j < n; j++) {
                float *pj = p + t * n + j, *dj = ds + t * n + j;
                bool seen = ref_token(j, s) <= ref_token(t, s);
                float e = seen ? ref_exponential(*pj * scale - lse[h * n + t]) : 0,
                      by = seen ? ref_kept(h, t, j, s) : 0;
                *dj = seen ? e * (*dj * by - along) * scale : 0;
                *pj = e * by;
            }
        }
        float *to = dqkv + 3 * h * s->size;
        ref_cut(to, ds, false, k, 3 * row, s);
        ref_cut(to + s->size, ds, true, q, 3 * row, s);
        ref_cut(to + 2 * s->size, p, true, d, row, s);
    }
}

/* One sequence, and what the reference says of it. */
struct whole {
    const float *qkv, *dout, *out, *lse, *dqkv;
};

/* q[tokens][heads][size] and kv[tokens][heads][2][size] of qkv[tokens][heads][3][size]. */
static void take_apart(float *q, float *kv, const float *qkv, const struct tr_attention *s)
{
    for (int64_t i = 0; i < s->tokens * s->heads; i++) {
        memcpy(q + i * s->size, qkv + 3 * i * s->size, (size_t)s->size * sizeof *q);
        memcpy(kv + 2 * i * s->size, qkv + (3 * i + 1) * s->size, 2 * (size_t)s->size * sizeof *q);
    }
}

/* The queries in parts, each with all keys: results side by side, and the gradients of keys and values, each
 * a sum over some queries, joined by the tree, are those of the whole. */
static void check_parts(
    struct tr_context *on, const struct tr_attention *s, const struct whole *w, int64_t parts)
{
    const struct tr_kernels *set = on->k;
    int64_t part = s->tokens / parts, row = s->heads * s->size, count = s->tokens * row;
    float *q = rig_empty(count), *kv = rig_empty(2 * count), *dq = rig_empty(count), *y = rig_empty(count),
          *mine = rig_empty(count), *dkv = rig_empty(parts * 2 * count), *l = rig_empty(s->heads * part),
          *dkv_due = rig_empty(2 * count);
    take_apart(q, kv, w->qkv, s);
    for (int64_t r = 0; r < parts; r++) {
        int64_t at = r * part;
        struct tr_attention a = *s;
        a.first = at, a.queries = part, a.separate_kv = true;
        float *scratch = rig_empty(set->attention.scratch(&a));
        set->attention.whole(on, y + at * row, l, q + at * row, kv, &a, scratch);
        for (int64_t h = 0; h < s->heads; h++)
            rig_equal(l + h * part, w->lse + h * s->tokens + at, part, set->name, "lse of a part");
        set->attention.dx(on, mine + at * row, dkv + r * 2 * count, w->dout + at * row, w->out + at * row, l,
            q + at * row, kv, &a, scratch);
    }
    take_apart(dq, dkv_due, w->dqkv, s);
    ref_tree(dkv, parts, 2 * count, 2 * count);
    rig_equal(y, w->out, count, set->name, "attention in parts");
    rig_equal(mine, dq, count, set->name, "gradient of queries in parts");
    rig_equal(dkv, dkv_due, 2 * count, set->name, "gradient of keys and values in parts");
}

/* Queries and keys in parts: what each pair gives, joined in the order of the keys, is the whole; the
 * gradients are the tree over parts of keys, and of queries. */
static void check_pairs(
    struct tr_context *on, const struct tr_attention *s, const struct whole *w, int64_t parts)
{
    const struct tr_kernels *set = on->k;
    int64_t n = s->tokens / parts, row = s->heads * s->size, count = n * row;
    int64_t room = s->heads * n * (s->size + 2);
    float *q = rig_empty(parts * count), *kv = rig_empty(2 * parts * count),
          *dq_due = rig_empty(parts * count), *dkv_due = rig_empty(2 * parts * count),
          *dkv = rig_empty(2 * parts * parts * count);
    take_apart(q, kv, w->qkv, s);
    take_apart(dq_due, dkv_due, w->dqkv, s);
    for (int64_t r = 0; r < parts; r++) {
        struct tr_partial part[BLOCKS];
        float *dq = rig_empty(parts * count), *y = rig_empty(count), *l = rig_empty(s->heads * n);
        struct tr_attention a = *s;
        a.tokens = a.queries = n, a.first = r * n, a.separate_kv = true;
        float *scratch = rig_empty(set->attention.scratch(&a));
        for (int64_t k = 0; k < parts; k++) {
            a.begin = k * n;
            part[k] = (struct tr_partial){ rig_empty(room), 0 };
            set->attention.part(on, part[k].p, q + r * count, kv + 2 * k * count, &a, scratch);
        }
        set->attention.merge(on, y, l, part, s->striped ? parts : r + 1, &a, scratch);
        rig_equal(y, w->out + r * count, count, set->name, "attention of pairs");
        for (int64_t k = 0; k < parts; k++) {
            a.begin = k * n;
            set->attention.dx(on, dq + k * count, dkv + 2 * (k * parts + r) * count, w->dout + r * count,
                w->out + r * count, l, q + r * count, kv + 2 * k * count, &a, scratch);
        }
        ref_tree(dq, parts, count, count);
        rig_equal(dq, dq_due + r * count, count, set->name, "gradient of queries of pairs");
    }
    for (int64_t k = 0; k < parts; k++) {
        float *sum = dkv + 2 * k * parts * count;
        ref_tree(sum, parts, 2 * count, 2 * count);
        rig_equal(sum, dkv_due + 2 * k * count, 2 * count, set->name, "gradient of keys of pairs");
    }
}

/* All of one sequence. */
static struct tr_attention shape_of(int64_t heads, int64_t size, int64_t block)
{
    return (struct tr_attention){ .tokens = BLOCKS * block,
        .heads = heads,
        .size = size,
        .block = block,
        .queries = BLOCKS * block,
        .sequences = 1,
        .by_queries = 1,
        .by_keys = 1,
        .by_pairs = 1 };
}

static void check_attention(const struct tr_attention *s, float spread)
{
    int64_t count = s->tokens * s->heads * s->size;
    float *qkv = rig_random(3 * count), *dout = rig_random(count), *out = rig_empty(count),
          *lse = rig_empty(s->heads * s->tokens), *dqkv = rig_empty(3 * count);
    for (int64_t i = 0; i < 3 * count; i++)
        qkv[i] *= spread;
    ref_attention(out, lse, qkv, s);
    ref_attention_dx(dqkv, dout, out, lse, qkv, s);
    for (int i = 0; i < RIG_SETS; i++) {
        struct tr_context *on = rig_context(i);
        const struct tr_kernels *set = on->k;
        float *y = rig_empty(count), *l = rig_empty(s->heads * s->tokens), *dx = rig_empty(3 * count);
        if (!set || (i == RIG_EMULATED && s->tokens > MOST_EMULATED))
            continue;
        set->attention.whole(on, y, l, qkv, qkv + s->size, s, rig_empty(set->attention.scratch(s)));
        rig_equal(y, out, count, set->name, "attention");
        rig_equal(l, lse, s->heads * s->tokens, set->name, "lse");
        set->attention.dx(on, dx, dx + s->size, dout, out, lse, qkv, qkv + s->size, s,
            rig_empty(set->attention.scratch(s)));
        rig_equal(dx, dqkv, 3 * count, set->name, "attention_dx");
        struct whole w = { qkv, dout, out, lse, dqkv };
        for (int64_t parts = 1; parts <= BLOCKS; parts *= i == RIG_EMULATED ? 4 : 2) {
            check_parts(on, s, &w, parts);
            check_pairs(on, s, &w, parts);
        }
    }
    rig_end();
}

Test(train_kernels, attention_has_the_bits_of_the_golden_program)
{
    for (int round = 0; round < 40; round++) {
        int64_t block = rig_between(1, 20);
        struct tr_attention s = shape_of(rig_between(1, 3), rig_between(1, 40), block);
        s.striped = round % 3 == 0;
        check_attention(&s, round % 4 ? 1 : 12); /* wide: some exponentials are 0 */
    }
    for (int striped = 0; striped < 2; striped++) {
        struct tr_attention s = shape_of(1, 64, 64);
        s.striped = striped;
        check_attention(&s, 2);
    }
}

/* Whole and in parts: who has some of the heads, the queries or the keys drops what all would. */
Test(train_kernels, attention_drops_what_the_golden_program_drops)
{
    for (int round = 0; round < 32; round++) {
        uint32_t draws[TR_DRAW_WORDS] = { rig_word(), rig_word(), (uint32_t)rig_between(0, 9),
            round % 8 ? rig_word() : 0 };
        struct tr_attention s = shape_of(rig_between(1, 3), rig_between(1, 20), rig_between(1, 20));
        s.striped = round % 3 == 0;
        s.dropped = (struct tr_unattended){ draws, rig_between(0, 4095), rig_between(0, 40), 1.25f };
        if (round == 1)
            s.block = 33, s.tokens = s.queries = 264; /* keys behind four counters of 64 */
        check_attention(&s, 1);
    }
}

/* ---- the softmax and the loss ---- */

struct vocabulary {
    int64_t rows, columns, stride, first, chunk, chunks;
};

static void ref_softmax(
    float *x, float *sum, float *wanted, const float *max, const uint16_t *target, const struct vocabulary *v)
{
    for (int64_t t = 0; t < v->rows; t++, x += v->stride) {
        int64_t at = target[t] - v->first;
        wanted[t] = (at >= 0 && at < v->columns ? x[at] : 0) + 0;
        for (int64_t i = 0; i < v->columns; i++)
            x[i] = ref_exponential(x[i] - max[t]);
        float part[MOST_CHUNKS] = { 0 };
        for (int64_t c = 0; c < v->chunks && c * v->chunk < v->columns; c++) {
            int64_t left = v->columns - c * v->chunk;
            part[c] = ref_sum_row(x + c * v->chunk, left < v->chunk ? left : v->chunk);
        }
        ref_tree(part, v->chunks, 1, 1);
        sum[t] = part[0];
    }
}

static void ref_softmax_dx(
    float *x, const float *sum, const uint16_t *target, const struct vocabulary *v, float scale)
{
    for (int64_t t = 0; t < v->rows; t++)
        for (int64_t i = 0; i < v->stride; i++) {
            float *p = x + t * v->stride + i;
            *p = i < v->columns ? (*p / sum[t] - (i == target[t] - v->first ? 1 : 0)) * scale : 0;
        }
}

static void check_softmax(const struct vocabulary *v)
{
    int64_t all = v->rows * v->stride;
    float *x = rig_random(all), *max = rig_empty(v->rows), *sum = rig_empty(v->rows),
          *wanted = rig_empty(v->rows);
    uint16_t target[BLOCKS];
    for (int64_t t = 0; t < v->rows; t++) {
        target[t] = (uint16_t)rig_between(0, v->first + v->columns + 2);
        max[t] = -INFINITY;
        for (int64_t i = 0; i < v->columns; i++)
            max[t] = fmaxf(max[t], x[t * v->stride + i] *= 40);
    }
    float *e = rig_copy(x, all);
    ref_softmax(e, sum, wanted, max, target, v);
    float *dx = rig_copy(e, all);
    ref_softmax_dx(dx, sum, target, v, 0.125f / 3);
    for (int i = 0; i < RIG_SETS; i++) {
        struct tr_context *on = rig_context(i);
        const struct tr_kernels *set = on->k;
        float *y = rig_copy(x, all), *a = rig_empty(v->rows), *b = rig_empty(v->rows),
              *c = rig_empty(v->rows);
        if (!set)
            continue;
        set->softmax.max(on, a, y, v->rows, v->columns, v->stride);
        rig_equal(a, max, v->rows, set->name, "row_max");
        set->softmax.forward(
            on, y, b, c, max, target, v->rows, v->columns, v->stride, v->first, v->chunk, v->chunks);
        rig_equal(y, e, all, set->name, "softmax");
        rig_equal(b, sum, v->rows, set->name, "sum");
        rig_equal(c, wanted, v->rows, set->name, "wanted");
        set->softmax.dx(on, y, sum, target, v->rows, v->columns, v->stride, v->first, 0.125f / 3);
        rig_equal(y, dx, all, set->name, "softmax_dx");
    }
    rig_end();
}

Test(train_kernels, softmax_over_a_part_of_the_vocabulary_has_the_bits_of_the_golden_program)
{
    for (int round = 0; round < 200; round++) {
        struct vocabulary v = { .rows = rig_between(1, BLOCKS),
            .chunk = rig_between(1, 40),
            .chunks = rig_between(1, round % 3 ? BLOCKS : MOST_CHUNKS),
            .first = rig_between(0, 50) };
        v.columns = rig_between(0, v.chunks * v.chunk);
        v.stride = v.columns + rig_between(0, 9);
        check_softmax(&v);
    }
}

/* Of two sequences, whose leaves have room for more blocks than they have. */
Test(train_kernels, loss_is_summed_by_blocks_in_double_precision)
{
    enum { SEQUENCES = 2, ROOM = BLOCKS + 3 };
    int64_t block = 3, tokens = BLOCKS * block, all = SEQUENCES * tokens;
    float *sum = rig_random(all), *max = rig_random(all), *wanted = rig_random(all);
    double want[SEQUENCES * ROOM] = { 0 };
    for (int64_t t = 0; t < all; t++) {
        sum[t] = fabsf(sum[t]) + 1;
        want[t / tokens * ROOM + t % tokens / block] +=
            (double)((float)log((double)sum[t]) + max[t] - wanted[t]);
    }
    for (int i = 0; i < RIG_SETS; i++) {
        struct tr_context *on = rig_context(i);
        double leaf[SEQUENCES * ROOM + 1];
        memset(leaf, 1, sizeof leaf);
        double behind = leaf[SEQUENCES * ROOM];
        if (!on->k)
            continue;
        on->k->softmax.loss(
            on, leaf, ROOM, sum, max, wanted, &(struct tr_tokens){ SEQUENCES, tokens, 1, block });
        cr_assert(!memcmp(leaf, want, sizeof want), "loss of %s", rig_sets[i]);
        cr_assert(leaf[SEQUENCES * ROOM] == behind, "loss of %s wrote behind its leaves", rig_sets[i]);
    }
    rig_end();
}

/* Each sequence of a call has the bits that it has alone, wherever its arrays lie. */
Test(train_kernels, attention_of_sequences_is_that_of_each)
{
    enum { SEQUENCES = 3, PAIRS = 2 };
    int64_t size = 5, heads = 2, block = 3, n = BLOCKS * block, rows = heads * n, y = rows * size;
    uint32_t draws[SEQUENCES * TR_DRAW_WORDS];
    for (int i = 0; i < SEQUENCES * TR_DRAW_WORDS; i++)
        draws[i] = rig_word() >> i % TR_DRAW_WORDS;
    struct tr_attention one = shape_of(heads, size, block), all;
    one.first = n, one.separate_kv = true;
    one.dropped = (struct tr_unattended){ draws, 3, 1, 1.5f };
    all = one;
    all.sequences = SEQUENCES, all.by_queries = 2, all.by_keys = 3, all.by_pairs = PAIRS;
    float *q = rig_random(SEQUENCES * 2 * y), *kv = rig_random(SEQUENCES * 3 * 2 * y),
          *dout = rig_random(SEQUENCES * 2 * y), *none = rig_random(PAIRS * SEQUENCES * (2 * y + rows * n));
    for (int s = 0; s < RIG_SETS; s++) {
        struct tr_context *on = rig_context(s);
        const struct tr_kernels *set = on->k;
        if (!set)
            continue;
        float *scratch = rig_empty(set->attention.scratch(&all));
        float *got[] = { rig_copy(none, SEQUENCES * 2 * y), rig_copy(none, SEQUENCES * 2 * rows),
            rig_copy(none, SEQUENCES * PAIRS * y), rig_copy(none, SEQUENCES * PAIRS * 2 * y),
            rig_copy(none, SEQUENCES * PAIRS * (y + 2 * rows)),
            rig_copy(none, SEQUENCES * PAIRS * rows * n) };
        int64_t count[] = { 2 * y, 2 * rows, PAIRS * y, PAIRS * 2 * y, PAIRS * (y + 2 * rows),
            PAIRS * rows * n };
        float *want[6];
        for (int a = 0; a < 6; a++)
            want[a] = rig_copy(got[a], SEQUENCES * count[a]);
        all.scores = NULL;
        set->attention.whole(on, got[0], got[1], q, kv, &all, scratch);
        set->attention.dx(on, got[2], got[3], dout, got[0], got[1], q, kv, &all, scratch);
        all.scores = got[5];
        set->attention.part(on, got[4], q, kv, &all, scratch);
        for (int64_t i = 0; i < SEQUENCES; i++) {
            const float *my_q = q + i * 2 * y, *my_kv = kv + i * 6 * y;
            float *out = want[0] + i * count[0], *lse = want[1] + i * count[1];
            one.scores = NULL, one.dropped.draws = draws + i * TR_DRAW_WORDS;
            set->attention.whole(on, out, lse, my_q, my_kv, &one, scratch);
            set->attention.dx(on, want[2] + i * count[2], want[3] + i * count[3], dout + i * 2 * y, out, lse,
                my_q, my_kv, &one, scratch);
            one.scores = want[5] + i * count[5];
            set->attention.part(on, want[4] + i * count[4], my_q, my_kv, &one, scratch);
        }
        for (int a = 0; a < 6; a++)
            rig_equal(got[a], want[a], SEQUENCES * count[a], set->name, "attention of sequences");
    }
    rig_end();
}
