/* SPDX-License-Identifier: BSD-3-Clause */
/* test_kernels_gemm.c: the product of matrices, of each set that this machine runs, against scalar chains. */
#include <criterion/criterion.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tests/training/kernels/kernels_rig.h"
#include "training/kernels/openblas.h"
#include "training/kernels/sets.h"

/* A product with random strides: rows and columns of a, b and c may lie in a larger matrix. */
static struct tr_gemm product(int64_t m, int64_t n, int64_t chunks, int64_t chunk, int64_t k)
{
    struct tr_gemm g = { .m = m, .n = n, .k = k, .chunks = chunks, .chunk = chunk, .add = rig_between(0, 1) };
    int64_t more = rig_between(0, 1) * rig_between(1, 20);
    if (rig_between(0, 1))
        g.a_row = k + more, g.a_column = 1, g.a = rig_random(m * g.a_row);
    else
        g.a_row = 1, g.a_column = m + more, g.a = rig_random(k * g.a_column);
    if (rig_between(0, 1))
        g.b_row = n + more, g.b_column = 1, g.b = rig_random(k * g.b_row);
    else
        g.b_row = 1, g.b_column = k + more, g.b = rig_random(n * g.b_column);
    g.c_row = n + more;
    return g;
}

/* What lies between the rows of c must stay as it was, so whole arrays are compared. */
static void check_product(struct tr_gemm g)
{
    float *first = rig_random(g.m * g.c_row), *want = rig_copy(first, g.m * g.c_row);
    g.c = want;
    ref_gemm(&g);
    for (int s = 0; s < RIG_SETS; s++) {
        struct tr_context *on = rig_context(s);
        const struct tr_kernels *set = on->k;
        if (!set)
            continue;
        g.c = rig_copy(first, g.m * g.c_row);
        set->gemm(on, &g, rig_empty(set->scratch_gemm(&g)));
        rig_equal(g.c, want, g.m * g.c_row, set->name, "gemm");
    }
    rig_end();
}

Test(train_kernels, gemm_of_any_shape_has_the_bits_of_scalar_chains)
{
    for (int i = 0; i < 400; i++) {
        int64_t chunks = (int64_t)1 << rig_between(0, 3), chunk = rig_between(1, 40);
        check_product(product(rig_between(1, 70), rig_between(1, 130), chunks, chunk, chunks * chunk));
    }
}

Test(train_kernels, gemm_takes_short_and_empty_chunks_and_any_number_of_them)
{
    for (int i = 0; i < 300; i++) {
        int64_t chunks = rig_between(1, 17), chunk = rig_between(1, 24);
        check_product(
            product(rig_between(1, 20), rig_between(1, 50), chunks, chunk, rig_between(0, chunks * chunk)));
    }
}

/* What is too small for a number is rounded to -0 if it is negative, and nothing that is added later, where k
 * is filled up, may turn that into +0. */
Test(train_kernels, gemm_keeps_the_sign_of_a_sum_that_underflows)
{
    for (int64_t k = 1; k < 20; k++) {
        float *a = rig_random(3 * k), *b = rig_random(5 * k);
        for (int64_t i = 0; i < 3 * k; i++)
            a[i] = -1e-30f;
        for (int64_t i = 0; i < 5 * k; i++)
            b[i] = 1e-30f;
        check_product((struct tr_gemm){ .m = 3,
            .n = 5,
            .k = k,
            .a = a,
            .b = b,
            .a_row = k,
            .a_column = 1,
            .b_row = 5,
            .b_column = 1,
            .c_row = 5,
            .chunks = 1,
            .chunk = k });
    }
}

Test(train_kernels, gemm_of_large_matrices_which_it_packs_has_the_same_bits)
{
    for (int i = 0; i < 4; i++)
        check_product(product(rig_between(180, 200), rig_between(70, 100), 8, 32, rig_between(225, 256)));
}

/* More rows are packed in turns, so scratch does not grow with them. */
Test(train_kernels, gemm_of_many_rows_packs_some_at_a_time)
{
    for (int i = 0; i < 4; i++) {
        struct tr_gemm few = product(TR_GEMM_ROWS, 40, 2, 8, rig_between(9, 16)), many = few;
        many.m = 9 * TR_GEMM_ROWS;
        cr_expect_eq(tr_scratch_gemm(&many), tr_scratch_gemm(&few));
        check_product(product(TR_GEMM_ROWS + rig_between(1, 70), 40, 2, 8, rig_between(9, 16)));
    }
}

/* Factors of sequences lie one behind the other, as tokens do: a[token][m], b[token][n]. With a place
 * for each, the products are leaves. */
Test(train_kernels, gemm_of_sequences_is_the_tree_over_their_products)
{
    for (int i = 0; i < 200; i++) {
        int64_t m = rig_between(1, 30), n = rig_between(1, 60), sequences = rig_between(1, 9), count = m * n;
        int64_t chunks = i % 3 ? (int64_t)1 << rig_between(0, 3) : rig_between(1, 9);
        int64_t chunk = rig_between(1, 12), k = chunks * chunk - (i % 3 ? 0 : rig_between(0, chunk - 1));
        struct tr_gemm g = { m, n, k, rig_random(sequences * k * m), rig_random(sequences * k * n), NULL, 1,
            m, n, 1, n, chunks, chunk, false, 0, 0, { 0 } };
        float *leaves = rig_empty(sequences * count);
        for (int64_t s = 0; s < sequences; s++) {
            struct tr_gemm one = g;
            one.a += s * k * m, one.b += s * k * n, one.c = leaves + s * count;
            ref_gemm(&one);
        }
        float *sum = rig_copy(leaves, sequences * count);
        ref_tree(sum, sequences, count, count);
        g.sequences = sequences;
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            if (!on->k)
                continue;
            g.c = rig_empty(count), g.c_next = 0;
            on->k->gemm(on, &g, rig_empty(on->k->scratch_gemm(&g)));
            rig_equal(g.c, sum, count, on->k->name, "gemm over sequences");
            g.c = rig_empty(sequences * count), g.c_next = count;
            on->k->gemm(on, &g, rig_empty(on->k->scratch_gemm(&g)));
            rig_equal(g.c, leaves, sequences * count, on->k->name, "gemm of sequences");
        }
        rig_end();
    }
}

/* Of OpenBLAS's product no bits are known, but how far off its sums may be: k roundings of what is added. */
Test(train_kernels, gemm_in_free_order_is_the_same_product)
{
    const struct tr_kernels *set = tr_kernels_free(tr_kernels_best());
    struct tr_context on = { .k = set };
    for (int i = 0; i < 200; i++) {
        int64_t chunks = rig_between(1, 8), chunk = rig_between(1, 40), k = chunks * chunk;
        struct tr_gemm g = product(rig_between(1, 70), rig_between(1, 130), chunks, chunk, k);
        float *want = rig_random(g.m * g.c_row), *got = rig_copy(want, g.m * g.c_row);
        float *first = rig_copy(want, g.m * g.c_row);
        g.c = want;
        ref_gemm(&g);
        g.c = got;
        set->gemm(&on, &g, rig_empty(set->scratch_gemm(&g)));
        for (int64_t row = 0; row < g.m; row++)
            for (int64_t at = row * g.c_row; at < (row + 1) * g.c_row; at++) {
                bool between = at >= row * g.c_row + g.n;
                double most = between ? 0 : (double)k * 16 * FLT_EPSILON;
                cr_assert(fabs((double)got[at] - want[at]) <= most && (!between || got[at] == first[at]),
                    "%s: row %" PRId64 ", column %" PRId64 ": %g, not %g", set->name, row, at - row * g.c_row,
                    (double)got[at], (double)want[at]);
            }
        rig_end();
    }
}

Test(train_kernels, sets_have_the_names_they_are_asked_by)
{
    cr_assert_not_null(tr_kernels_named("generic"));
    cr_assert_not_null(tr_kernels_best());
    cr_assert_null(tr_kernels_named("avx1024"));
    for (int s = 0; s < RIG_SETS; s++) {
        const struct tr_kernels *set = rig_context(s)->k;
        cr_assert(!set || !strcmp(set->name, rig_sets[s]));
        cr_assert(!set || set != tr_kernels_named("generic") || s == 0);
    }
}
