/* SPDX-License-Identifier: BSD-3-Clause */
/* test_emulated_fused.c: what the set for a device does in one kernel has the bits of one operation after the
 * other; and lists of training have such chains where memory allows it, and nowhere else. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/training/kernels/kernels_rig.h"
#include "tests/training/options_rig.h"
#include "training/kernels/cuda/cuda_set.h"
#include "training/tape/fuse.h"

/* ---- kernels ---- */

/* Their roots have so little room that the product is made in halves. */
static bool is_split(int round)
{
    return round % 5 == 1;
}

/* Rows of a are contiguous; some shapes fill all tiles, and some have more chunks than a block adds up. */
static struct tr_gemm rows_product(int round)
{
    bool even = round % 3 == 0;
    int64_t chunks = (int64_t)1 << (is_split(round) ? 7 : rig_between(0, 3)),
            chunk = even ? 16 : rig_between(1, 20);
    struct tr_gemm g = { .m = even ? 64 * rig_between(1, 3) : rig_between(1, 150),
        .n = even ? 64 * rig_between(1, 3) : rig_between(1, 150),
        .k = chunks * chunk - (even ? 0 : rig_between(0, chunk - 1)),
        .chunks = chunks,
        .chunk = chunk,
        .a_column = 1 };
    int64_t more = even ? 4 * rig_between(0, 1) : rig_between(0, 7);
    g.a_row = g.k + more, g.a = rig_random(g.m * g.a_row);
    bool along = rig_between(0, 1);
    g.b_row = along ? 1 : g.n + more, g.b_column = along ? g.k + more : 1;
    g.b = rig_random(along ? g.n * g.b_column : g.k * g.b_row);
    g.c_row = g.n + more;
    return g;
}

/* One after the other, by plain kernels: c, and what GELU gives. */
static void separately(struct tr_gemm g, const struct tr_then *then, float *gelu)
{
    struct tr_context on = { .k = tr_kernels_named("generic") };
    on.k->gemm(&on, &g, rig_empty(on.k->scratch_gemm(&g)));
    for (int64_t i = 0; i < g.m; i++) {
        float *row = g.c + i * g.c_row;
        if (then->bias)
            on.k->add_bias(&on, row, row, then->bias, 1, g.n);
        if (then->gelu)
            on.k->gelu.forward(&on, gelu + i * g.c_row, row, g.n);
        if (then->slope)
            on.k->gelu.dx(&on, row, row, then->slope + i * g.c_row, g.n);
    }
}

/* What lies between the rows stays as it was. */
Test(train_emulated, what_is_behind_a_product_has_the_bits_of_operations_of_their_own)
{
    struct tr_context on = { 0 };
    for (int round = 0; round < 120; round++) {
        struct tr_gemm g = rows_product(round);
        int64_t count = g.m * g.c_row;
        float *first = rig_random(count), *want = rig_copy(first, count), *wanted = rig_copy(first, count);
        float *gelu = rig_copy(first, count);
        struct tr_then then = { .bias = round % 4 < 2 ? rig_random(g.n) : NULL,
            .gelu = round % 4 == 1 ? gelu : NULL,
            .slope = round % 4 > 1 ? rig_random(count) : NULL };
        g.c = want;
        separately(g, &then, wanted);
        g.c = rig_copy(first, count), g.then = then;
        rig_emulate(&on);
        if (is_split(round))
            ((struct tr_cuda *)on.self)->workspace_floats = g.m * g.n;
        on.k->gemm(&on, &g, rig_empty(on.k->scratch_gemm(&g)));
        cr_assert_eq(on.status, 0);
        rig_equal(g.c, want, count, on.k->name, "c");
        if (then.gelu)
            rig_equal(gelu, wanted, count, on.k->name, "gelu");
        rig_end();
    }
}

/* The sum may lie where either operand does. */
static struct tr_summed summed(int round, float *a, float *b, const float *bias, int64_t count)
{
    float *to = round % 3 == 0 ? a : round % 3 == 1 ? b : rig_empty(count);
    return (struct tr_summed){ to, a, round % 2 ? bias : NULL, b };
}

Test(train_emulated, the_norm_of_a_sum_has_the_bits_of_operations_of_their_own)
{
    struct tr_context plain = { .k = tr_kernels_named("generic") }, on = { 0 };
    for (int round = 0; round < 60; round++) {
        int64_t rows = rig_between(1, 40), c = rig_between(1, 90), count = rows * c;
        float *a = rig_random(count), *b = rig_random(count), *bias = rig_random(c), *w = rig_random(c);
        float *shift = rig_random(c), *want = rig_copy(a, count), *wanted = rig_empty(count);
        float *y = rig_empty(count),
              *of[2][2] = { { rig_empty(rows), rig_empty(rows) }, { rig_empty(rows), rig_empty(rows) } };
        bool rms = round / 6 % 2;
        struct tr_summed s = summed(round, a, b, bias, count);
        if (s.bias)
            plain.k->add_bias(&plain, want, want, bias, rows, c);
        plain.k->add(&plain, want, want, b, count);
        rig_emulate(&on);
        if (rms) {
            plain.k->rms_norm.forward(&plain, wanted, of[0][1], want, w, rows, c);
            on.k->rms_norm.of_sum(&on, y, of[1][1], &s, w, rows, c);
        } else {
            plain.k->layer_norm.forward(&plain, wanted, of[0][0], of[0][1], want, w, shift, rows, c);
            on.k->layer_norm.of_sum(&on, y, of[1][0], of[1][1], &s, w, shift, rows, c);
            rig_equal(of[1][0], of[0][0], rows, on.k->name, "mean");
        }
        rig_equal(s.sum, want, count, on.k->name, "sum");
        rig_equal(y, wanted, count, on.k->name, "norm");
        rig_equal(of[1][1], of[0][1], rows, on.k->name, "scale");
        rig_end();
    }
}

/* ---- lists ---- */

/* The list of rank 0. */
struct listed {
    struct tr_prepared p;
    struct tr_tapes tapes;
};

static struct tr_tape *list(struct listed *l, const char *line, const struct tr_kernels *set)
{
    struct tr_options o;
    struct tr_error e = { .text = "" };
    *l = (struct listed){ 0 };
    cr_assert(rig_options(&o, line, &e), "%s: %s", line, e.text);
    cr_assert(tr_run_make(&l->p.run, &o, &e), "%s: %s", line, e.text);
    cr_assert(tr_place(&l->p.placed, &l->p.run.graph, &l->p.run.plan, set, &e), "%s: %s", line, e.text);
    cr_assert(tr_tapes_make(&l->tapes, &l->p.placed, &l->p.run.schedule, false, &e), "%s: %s", line, e.text);
    return l->tapes.of;
}

static void unlist(struct listed *l)
{
    tr_tapes_free(&l->tapes);
    tr_placed_free(&l->p.placed);
    tr_run_free(&l->p.run);
}

static int chains_of(const struct tr_tape *t, const struct tr_kernels *set, const struct tr_waits *waits)
{
    struct tr_fusions f;
    tr_fusions_find(&f, t, set, waits);
    int n = f.n;
    tr_fusions_free(&f);
    return n;
}

/* How many chains there are, and in how many the operation is. */
static int chains(const char *line, const struct tr_kernels *set, int op, int *with)
{
    struct listed l;
    struct tr_fusions f;
    tr_fusions_find(&f, list(&l, line, set), set, NULL);
    int n = f.n;
    *with = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < f.list[i].row->length; k++)
            *with += f.list[i].row->op[k] == op;
    tr_fusions_free(&f);
    unlist(&l);
    return n;
}

static void expect_chains(const char *line, int n, int op, int with)
{
    struct tr_context on = { 0 };
    int found;
    rig_emulate(&on);
    cr_expect_eq(chains(line, on.k, op, &found), n, "%s: %d chains", line, chains(line, on.k, op, &found));
    cr_expect_eq(found, with, "%s: %d with %s", line, found, tr_op(op)->name);
    cr_expect_eq(chains(line, tr_kernels_best(), op, &found), 0, "%s: the processor has none", line);
}

Test(train_emulated, lists_have_chains)
{
    /* Of a layer: queries with their bias, twice a residual with bias and norm, GELU and its slope. */
    expect_chains("--model gpt:nano --layers 2 --batch 1", 10, TR_LAYER_NORM, 4);
    expect_chains("--model gpt:nano --layers 2 --batch 1 --dp 1 --tp 2", 10, TR_GELU_DX, 2);
    expect_chains("--model llama:nano --layers 2 --batch 1", 4, TR_RMS_NORM, 4);
    expect_chains("--model mlp:nano", 8, TR_GELU_DX, 4);
}

Test(train_emulated, lists_have_no_chains_where_they_may_have_none)
{
    /* Numbers that are rounded between operations, and a sum whose parts other ranks have. */
    expect_chains("--model gpt:nano --layers 2 --batch 1 --precision bfloat16", 0, TR_GELU, 0);
    expect_chains("--model mlp:nano --tp 2", 4, TR_ROW, 0);
}

/* The first instruction that does this. */
static int first_of(const struct tr_tape *t, int op)
{
    int n = 0;
    while (t->instrs[n].code != TR_COMPUTE || t->instrs[n].op != op)
        n++;
    return n;
}

/* In a list of one layer: 5 chains, of which one is about the slope of GELU and one about GELU. What another
 * instruction, the chain's own too, has where the chain would write early forbids it. */
Test(train_emulated, a_chain_is_none_where_memory_or_another_reader_is_in_the_way)
{
    struct tr_context on = { 0 };
    struct listed l;
    rig_emulate(&on);
    struct tr_tape *t = list(&l, "--model gpt:nano --layers 1 --batch 1", on.k);
    cr_assert_eq(chains_of(t, on.k, NULL), 5);

    int column = first_of(t, TR_GELU) - 2, gelu = t->instrs[column + 2].out[0];
    int64_t offset = t->values[gelu].offset;
    cr_assert_eq(t->instrs[column].op, TR_COLUMN);
    t->values[gelu].offset = t->values[t->instrs[column].in[0]].offset;
    cr_expect_eq(chains_of(t, on.k, NULL), 5, "without GELU, product and bias are one still");
    struct tr_fusions f;
    tr_fusions_find(&f, t, on.k, NULL);
    cr_expect_eq(f.of[column + 2], -1, "GELU would be written over what the product reads");
    tr_fusions_free(&f);
    t->values[gelu].offset = offset;

    /* What is multiplied by the slope is read by another one later; or by the one between, whose result lies
     * where the slope's does. */
    int dx = first_of(t, TR_ROW_DX), slope = first_of(t, TR_GELU_DX), d = t->instrs[dx].out[0];
    t->values[d].last++;
    cr_expect_eq(chains_of(t, on.k, NULL), 4, "it is needed as it was");
    t->values[d].last--;
    int between = t->instrs[dx + 1].out[0];
    offset = t->values[between].offset;
    t->values[between].offset = t->values[t->instrs[slope].out[0]].offset;
    cr_expect_eq(chains_of(t, on.k, NULL), 4, "row_dw writes there meanwhile");
    t->values[between].offset = offset;

    /* A copy between the memories that the slope must wait for is not awaited where the product stands. */
    struct tr_waits waits;
    tr_waits_make(&waits, t);
    cr_expect_eq(chains_of(t, on.k, &waits), 5);
    waits.copy[slope] = 0;
    cr_expect_eq(chains_of(t, on.k, &waits), 4);
    tr_waits_free(&waits);
    unlist(&l);
}
