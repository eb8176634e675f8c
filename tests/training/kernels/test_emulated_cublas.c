/* SPDX-License-Identifier: BSD-3-Clause */
/* test_emulated_cublas.c: products in free order for a device: how cuBLAS is called, by a stand-in that has
 * its functions, and what is said where it is missing or fails. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/training/kernels/kernels_rig.h"
#include "training/kernels/cuda/cublas.h"

static const char stand_in[] = "tests/training/kernels/.libs/cublas_stand_in.so";

/* A context of the set for a device, whose products are the stand-in's. */
struct free_order {
    struct tr_kernels set;
    struct tr_cublas blas;
    struct tr_context x;
};

static void begin(struct free_order *f, enum tr_cublas_precision precision, void *stream)
{
    char words[512] = "";
    *f = (struct free_order){ .x = { NULL, NULL, 0 } };
    rig_emulate(&f->x);
    cr_assert(tr_cublas_open(&f->blas, stream, precision, stand_in, words, sizeof words), "%s", words);
    ((struct tr_cuda *)f->x.self)->blas = &f->blas;
    f->set = *f->x.k;
    tr_cuda_set_free_order(&f->set);
    cr_assert(f->set.free);
    f->x.k = &f->set;
}

/* Rows and columns of a, b and c may lie in larger matrices. */
static struct tr_gemm product(int64_t m, int64_t n, int64_t chunks, int64_t chunk)
{
    int64_t k = chunks * chunk, more = rig_between(0, 1) * rig_between(1, 20);
    struct tr_gemm g = { .m = m, .n = n, .k = k, .chunks = chunks, .chunk = chunk, .add = rig_between(0, 1) };
    bool a_turned = rig_between(0, 1), b_turned = rig_between(0, 1);
    g.a_row = a_turned ? 1 : k + more, g.a_column = a_turned ? m + more : 1;
    g.b_row = b_turned ? 1 : n + more, g.b_column = b_turned ? k + more : 1;
    g.a = rig_random((m + k) * (m + k + more));
    g.b = rig_random((n + k) * (n + k + more));
    g.c_row = n + more;
    return g;
}

/* Every element of c and of what lies between its rows: at most `most` off. Returns the largest distance. */
static double check(struct free_order *f, struct tr_gemm g, double most)
{
    float *first = rig_random(g.m * g.c_row), *want = rig_copy(first, g.m * g.c_row);
    double largest = 0;
    g.c = want;
    ref_gemm(&g);
    g.c = rig_copy(first, g.m * g.c_row);
    f->set.gemm(&f->x, &g, rig_empty(f->set.scratch_gemm(&g)));
    cr_assert_eq(f->x.status, 0, "status %d", f->x.status);
    for (int64_t i = 0; i < g.m * g.c_row; i++) {
        double off = fabs((double)g.c[i] - want[i]);
        largest = off > largest ? off : largest;
        cr_assert(off <= (i % g.c_row < g.n ? most : 0), "element %ld is %g, and not %g", (long)i,
            (double)g.c[i], (double)want[i]);
    }
    rig_end();
    return largest;
}

Test(train_emulated_cublas, any_strides_are_the_same_product)
{
    struct free_order f;
    begin(&f, TR_CUBLAS_FLOAT32, NULL);
    for (int i = 0; i < 200; i++) {
        int64_t chunks = rig_between(1, 8), chunk = rig_between(1, 20);
        check(&f, product(rig_between(1, 30), rig_between(1, 40), chunks, chunk),
            (double)(chunks * chunk) * 16 * FLT_EPSILON);
    }
    tr_cublas_close(&f.blas);
}

/* Products of numbers below 1 are off by what their factors lost, and no less. */
Test(train_emulated_cublas, factors_have_the_precision_that_is_asked)
{
    static const struct {
        enum tr_cublas_precision precision;
        double bit;
    } of[] = { { TR_CUBLAS_TF32, 0x1p-11 }, { TR_CUBLAS_BFLOAT16, 0x1p-8 } };
    for (int i = 0; i < 2; i++) {
        struct free_order f;
        begin(&f, of[i].precision, NULL);
        double off = check(&f, product(20, 30, 1, 40), 40 * 2.1 * of[i].bit);
        cr_expect(off > of[i].bit / 8, "only %g", off);
        tr_cublas_close(&f.blas);
    }
}

Test(train_emulated_cublas, a_sum_over_sequences_is_one_over_all_their_tokens)
{
    enum { M = 5, N = 7, K = 6, SEQUENCES = 3 };
    struct free_order f;
    begin(&f, TR_CUBLAS_FLOAT32, NULL);
    struct tr_gemm g = { M, N, K, rig_random(SEQUENCES * K * M), rig_random(SEQUENCES * K * N), NULL, 1, M, N,
        1, N, 2, 3, false, SEQUENCES, 0, { 0 } };
    float *leaves = rig_empty(SEQUENCES * M * N), *got = rig_empty(SEQUENCES * M * N), sum[M * N] = { 0 };
    for (int s = 0; s < SEQUENCES; s++) {
        struct tr_gemm one = g;
        one.a += s * K * M, one.b += s * K * N, one.c = leaves + s * M * N;
        ref_gemm(&one);
        for (int i = 0; i < M * N; i++)
            sum[i] += one.c[i];
    }
    g.c = got;
    f.set.gemm(&f.x, &g, rig_empty(f.set.scratch_gemm(&g)));
    for (int i = 0; i < M * N; i++)
        cr_assert_float_eq(got[i], sum[i], 1e-4f);
    g.c_next = M * N;
    f.set.gemm(&f.x, &g, NULL);
    for (int i = 0; i < SEQUENCES * M * N; i++)
        cr_assert_float_eq(got[i], leaves[i], 1e-4f);
    cr_assert_eq(f.x.status, 0);
    tr_cublas_close(&f.blas);
    rig_end();
}

Test(train_emulated_cublas, a_product_without_factors_is_zero)
{
    struct free_order f;
    begin(&f, TR_CUBLAS_FLOAT32, NULL);
    float a[1] = { 1 }, c[6];
    memset(c, 0xff, sizeof c);
    struct tr_gemm g = { 2, 3, 0, a, a, c, 1, 1, 3, 1, 3, 1, 1, false, 0, 0, { 0 } };
    f.set.gemm(&f.x, &g, NULL);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(c[i], 0);
    tr_cublas_close(&f.blas);
}

Test(train_emulated_cublas, a_failure_stays_in_the_context_and_has_words)
{
    struct free_order f;
    int lost;
    begin(&f, TR_CUBLAS_FLOAT32, &lost);
    float a[4] = { 1 }, c[4] = { 5, 5, 5, 5 };
    struct tr_gemm g = { 2, 2, 1, a, a, c, 1, 2, 2, 1, 2, 1, 1, false, 1, 4, { 0 } };
    f.set.gemm(&f.x, &g, NULL);
    cr_expect_eq(f.x.status, TR_CUBLAS_STATUS + 13);
    cr_expect(strstr(tr_cublas_words(f.x.status - TR_CUBLAS_STATUS), "a kernel of cuBLAS failed"));
    f.x.status = 700;
    f.set.gemm(&f.x, &g, NULL);
    cr_expect_eq(f.x.status, 700, "the first failure stays");
    cr_expect_eq(c[0], 5);
    tr_cublas_close(&f.blas);
}

Test(train_emulated_cublas, a_library_that_is_missing_or_another_one_is_refused_with_words)
{
    struct tr_cublas b = { .precision = TR_CUBLAS_TF32 };
    char words[512];
    cr_expect(!tr_cublas_open(&b, NULL, TR_CUBLAS_FLOAT32, "libnowhere.so.1", words, sizeof words));
    cr_expect(strstr(words, "needs cuBLAS") && strstr(words, "libnowhere.so.1"), "%s", words);
    cr_expect(!tr_cublas_open(&b, NULL, TR_CUBLAS_FLOAT32, "libm.so.6", words, sizeof words));
    cr_expect(strstr(words, "lacks cublasGemmEx"), "%s", words);
    cr_expect_eq(b.precision, TR_CUBLAS_TF32, "an output was set");
}

/* The real one, where this machine has it: its names are there. Without a device it cannot begin. */
Test(train_emulated_cublas, the_real_library_has_these_names)
{
    struct tr_cublas b;
    char words[512] = "";
    if (tr_cublas_open(&b, NULL, TR_CUBLAS_FLOAT32, NULL, words, sizeof words))
        tr_cublas_close(&b);
    else
        cr_expect(strstr(words, "finds none of libcublas.so") || strstr(words, "cannot begin on this device"),
            "%s", words);
}
