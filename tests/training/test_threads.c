/* SPDX-License-Identifier: BSD-3-Clause */
/* test_threads.c: kernels that several threads share (--threads) have the bits of one thread, and are really
 * shared. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "training/backend/backend.h"
#include "training/backend/threaded.h"

static float *numbers(int64_t count, unsigned seed)
{
    float *x = tr_new((size_t)count, sizeof *x);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / (1 << 23) - 1;
    }
    return x;
}

struct pair {
    struct tr_context one, many;
    float *scratch;
};

static void open_pair(struct pair *p, const struct tr_kernels *base, int n)
{
    struct tr_error e = { .text = "" };
    p->one = (struct tr_context){ .k = base };
    p->many = (struct tr_context){ .k = tr_kernels_threaded(base, n) };
    cr_assert(tr_backend_of(p->many.k)->open(&p->many, &e), "%s", e.text);
    p->scratch = aligned_alloc(64, 64 << 20);
}

static void close_pair(struct pair *p)
{
    tr_backend_of(p->many.k)->close(&p->many);
    free(p->scratch);
}

/* ---- products ---- */

static void same_product(struct pair *p, const struct tr_gemm *shape)
{
    int64_t sequences = shape->sequences ? shape->sequences : 1, products = shape->c_next ? sequences : 1;
    int64_t room = products * shape->m * shape->c_row;
    float *a = numbers(sequences * shape->m * shape->k, 1), *b = numbers(sequences * shape->k * shape->n, 2),
          *one = numbers(room, 3), *many = numbers(room, 3);
    struct tr_gemm g = *shape;
    g.a = a, g.b = b;
    g.c = one;
    p->one.k->gemm(&p->one, &g, p->scratch);
    g.c = many;
    p->many.k->gemm(&p->many, &g, p->scratch);
    cr_expect(!memcmp(one, many, (size_t)room * sizeof *one),
        "%lld x %lld x %lld, %lld sequences: other bits", (long long)g.m, (long long)g.n, (long long)g.k,
        (long long)g.sequences);
    free(a), free(b), free(one), free(many);
}

Test(threads, products_have_the_bits_of_one_thread)
{
    static const int64_t shapes[][3] = { { 512, 256, 64 }, { 513, 100, 70 }, { 9, 600, 600 }, { 7, 900, 900 },
        { 2048, 128, 128 }, { 300, 64, 512 }, { 1000, 33, 65 } };
    for (int n = 2; n <= 5; n++) {
        struct pair p;
        open_pair(&p, tr_kernels_best(), n);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            int64_t rows = shapes[i][0], columns = shapes[i][1], k = shapes[i][2];
            struct tr_gemm g = { .m = rows,
                .n = columns,
                .k = k,
                .a_row = k,
                .a_column = 1,
                .b_row = columns,
                .b_column = 1,
                .c_row = columns,
                .chunks = 1,
                .chunk = k };
            same_product(&p, &g);
            g.chunks = 8, g.chunk = (k + 7) / 8, g.add = true;
            same_product(&p, &g);
            g.add = false, g.b_row = 1, g.b_column = k; /* b is turned */
            same_product(&p, &g);
            /* gradients of weights: a is turned, and the sum goes over sequences, or each has its own */
            g.b_row = columns, g.b_column = 1, g.a_row = 1, g.a_column = rows;
            g.sequences = 4;
            same_product(&p, &g);
            g.c_next = rows * columns;
            same_product(&p, &g);
        }
        close_pair(&p);
    }
}

/* ---- attention ---- */

static void same_attention(struct pair *p, struct tr_attention s)
{
    int64_t rows = s.heads * s.queries, out = rows * s.size, keys = s.heads * s.tokens * s.size,
            n = s.sequences;
    int64_t q = s.separate_kv ? out : 3 * out, kv = s.separate_kv ? 2 * keys : 3 * keys;
    float *in = numbers(n * q, 5), *pairs = s.separate_kv ? numbers(n * kv, 6) : in,
          *dout = numbers(n * out, 7);
    float *result[2][4];
    for (int t = 0; t < 2; t++) {
        struct tr_context *x = t ? &p->many : &p->one;
        float *of = result[t][0] = tr_new((size_t)(n * out), sizeof(float));
        float *lse = result[t][1] = tr_new((size_t)(n * rows), sizeof(float));
        float *dq = result[t][2] = tr_new((size_t)(n * q), sizeof(float));
        float *dkv = s.separate_kv ? tr_new((size_t)(n * kv), sizeof(float)) : dq + s.size;
        result[t][3] = s.separate_kv ? dkv : NULL;
        const float *k = s.separate_kv ? pairs : in + s.size;
        x->k->attention.whole(x, of, lse, in, k, &s, p->scratch);
        x->k->attention.dx(x, dq, dkv, dout, of, lse, in, k, &s, p->scratch);
    }
    cr_expect(!memcmp(result[0][0], result[1][0], (size_t)(n * out) * sizeof(float)));
    cr_expect(!memcmp(result[0][1], result[1][1], (size_t)(n * rows) * sizeof(float)));
    cr_expect(!memcmp(result[0][2], result[1][2], (size_t)(n * q) * sizeof(float)));
    if (s.separate_kv)
        cr_expect(!memcmp(result[0][3], result[1][3], (size_t)(n * kv) * sizeof(float)));
    for (int t = 0; t < 2; t++)
        for (int r = 0; r < 4; r++)
            free(result[t][r]);
    if (s.separate_kv)
        free(pairs);
    free(in), free(dout);
}

Test(threads, attention_has_the_bits_of_one_thread)
{
    struct pair p;
    open_pair(&p, tr_kernels_best(), 3);
    for (int64_t n = 1; n <= 8; n += 7) {
        struct tr_attention s = { .tokens = 64,
            .heads = 4,
            .size = 32,
            .block = 8,
            .queries = 64,
            .sequences = n,
            .by_queries = 1,
            .by_keys = 1,
            .by_pairs = 1 };
        same_attention(&p, s);
        s.separate_kv = true, s.queries = 32, s.first = 32;
        same_attention(&p, s);
    }
    close_pair(&p);
}

/* ---- elements and rows ---- */

Test(threads, elements_have_the_bits_of_one_thread)
{
    enum { ROWS = 1001, COLUMNS = 128, COUNT = ROWS * COLUMNS };
    struct pair p;
    float *a = numbers(COUNT, 8), *b = numbers(COUNT, 9), *w = numbers(COLUMNS, 10), *mean[2], *scale[2],
          *y[2][6];
    open_pair(&p, tr_kernels_best(), 3);
    for (int t = 0; t < 2; t++) {
        struct tr_context *x = t ? &p.many : &p.one;
        for (int i = 0; i < 6; i++)
            y[t][i] = numbers(COUNT, 11);
        mean[t] = numbers(ROWS, 12), scale[t] = numbers(ROWS, 13);
        x->k->gelu.forward(x, y[t][0], a, COUNT);
        x->k->gelu.dx(x, y[t][1], b, a, COUNT);
        x->k->add(x, y[t][2], a, b, COUNT);
        x->k->layer_norm.forward(x, y[t][3], mean[t], scale[t], a, w, w, ROWS, COLUMNS);
        x->k->layer_norm.dx(x, y[t][4], b, a, w, mean[t], scale[t], ROWS, COLUMNS);
        struct tr_update u = { .p = y[t][5], .g = a, .count = COUNT - 3, .a = { .rate = 0.1f, .scale = 1 } };
        x->k->update(x, &u);
    }
    for (int i = 0; i < 6; i++)
        cr_expect(!memcmp(y[0][i], y[1][i], COUNT * sizeof(float)), "operation %d", i);
    cr_expect(
        !memcmp(mean[0], mean[1], ROWS * sizeof(float)) && !memcmp(scale[0], scale[1], ROWS * sizeof(float)));
    for (int t = 0; t < 2; t++) {
        for (int i = 0; i < 6; i++)
            free(y[t][i]);
        free(mean[t]), free(scale[t]);
    }
    free(a), free(b), free(w);
    close_pair(&p);
}

/* ---- whether work is shared ---- */

static atomic_int calls, rows_made;

static void watched_gemm(struct tr_context *x, const struct tr_gemm *g, float *scratch)
{
    (void)x;
    calls++;
    rows_made += (int)g->m;
    for (int i = 0; i < 16; i++)
        scratch[i] = 1;
}

Test(threads, a_long_product_is_shared_and_a_short_one_is_not)
{
    static struct tr_kernels base;
    struct pair p;
    float x[1] = { 0 };
    base = *tr_kernels_best();
    base.gemm = watched_gemm;
    open_pair(&p, &base, 2);
    struct tr_gemm g = { .m = 600, .n = 600, .k = 600, .a = x, .b = x, .c = x };
    p.many.k->gemm(&p.many, &g, p.scratch);
    cr_expect_eq(rows_made, 600, "%d rows of 600 are made", rows_made);
    cr_expect_eq(calls, 4, "%d calls, and 2 of each thread were wanted", calls);
    calls = rows_made = 0;
    g.n = g.k = 4;
    p.many.k->gemm(&p.many, &g, p.scratch);
    cr_expect_eq(calls, 1);
    cr_expect_eq(rows_made, 600);
    void *helpers = p.many.self; /* as a second memory's context: it has none */
    p.many.self = NULL;
    calls = 0;
    g.n = g.k = 600;
    p.many.k->gemm(&p.many, &g, p.scratch);
    cr_expect_eq(calls, 1);
    p.many.self = helpers;
    close_pair(&p);
}

Test(threads, one_thread_is_the_set_itself_and_too_many_are_none)
{
    const struct tr_kernels *k = tr_kernels_best();
    cr_expect_eq(tr_kernels_threaded(k, 1), k);
    cr_expect_eq(tr_kernels_threaded(k, TR_THREADS_MOST + 1), k);
    cr_expect_neq(tr_kernels_threaded(k, 2), k);
    cr_expect_str_eq(tr_kernels_threaded(k, 2)->name, k->name);
}
