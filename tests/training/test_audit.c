/* SPDX-License-Identifier: BSD-3-Clause */
/* test_audit.c: one rank steps, and touches the memory that its tape predicts, no more and no less, and
 * allocates none. verify audits all other meshes. */
#include <criterion/criterion.h>
#include <malloc.h>
#include <string.h>

#include "training/commands/prepare.h"
#include "training/run/run.h"

static struct tr_options options;
static struct tr_prepared prepared;
static struct tr_data data;
static struct tr_runner runner;
static struct tr_error error;

static void set_up(void)
{
    tr_options_default(&options);
    options.plan.micros = 4;
    cr_assert(tr_prepare(&prepared, &options, &error), "%s", error.text);
    const struct tr_graph *g = &prepared.run.graph;
    cr_assert(tr_data_open(&data, NULL, 1, g->vocabulary, g->context, &error), "%s", error.text);
    cr_assert(tr_runner_open(&runner, prepared.tapes->of, tr_kernels_best(), &data, NULL, &error), "%s",
        error.text);
}

static void tear_down(void)
{
    tr_runner_close(&runner);
    tr_data_close(&data);
    tr_prepared_free(&prepared);
}

TestSuite(audit, .init = set_up, .fini = tear_down);

static bool audited(void)
{
    runner.audited = true;
    return tr_runner_step(&runner, &error);
}

Test(audit, equals_the_plan)
{
    cr_assert(audited(), "%s", error.text);
    for (int k = 0; k < TR_MEMORIES; k++)
        if (k != TR_MEM_SCRATCH)
            cr_expect_eq(runner.audit.peak[k], prepared.tapes->of[0].peak[k], "%s", tr_memory_names[k]);
    cr_expect_leq(runner.audit.peak_total, prepared.tapes->of[0].peak_total);
    double loss = runner.result.loss;
    cr_assert(tr_runner_step(&runner, &error), "%s", error.text); /* the audit took nothing that is needed */
    cr_expect_lt(runner.result.loss, loss);
}

/* A value that is planned larger than what is written of it. */
Test(audit, a_value_that_is_too_large)
{
    struct tr_tape *t = &prepared.tapes->of[0];
    int v = t->instrs[t->n_instrs - 1].in[0];
    while (t->values[v].memory != TR_MEM_ACTIVATION || t->values[v].bytes % 128)
        v--;
    t->values[v].bytes /= 2; /* its second half now belongs to nobody */
    cr_assert_not(audited());
    cr_expect(
        strstr(error.text, "belong to no value") || strstr(error.text, "predicts a peak"), "%s", error.text);
}

Test(audit, a_peak_that_is_wrong)
{
    prepared.tapes->of[0].peak[TR_MEM_GRADIENT] -= 64;
    cr_assert_not(audited());
    cr_expect_not_null(
        strstr(error.text, "rank 0: gradients: the tape predicts a peak of"), "%s", error.text);
}

/* Bytes beside a value's own, in the same line of memory. */
Test(audit, a_write_beside_a_value)
{
    struct tr_tape *t = &prepared.tapes->of[0];
    runner.audited = true;
    t->values[t->losses].bytes -= 8; /* the last leaf is one too many */
    cr_assert_not(tr_runner_step(&runner, &error));
    cr_expect_not_null(strstr(error.text, "belong to no value"), "%s", error.text);
}

Test(audit, a_step_allocates_nothing)
{
    cr_assert(tr_runner_step(&runner, &error), "%s", error.text);
    long before = tr_allocations();
    struct mallinfo2 heap = mallinfo2();
    for (int i = 0; i < 3; i++)
        cr_assert(i == 1 ? audited() : tr_runner_step(&runner, &error), "%s", error.text);
    cr_expect_eq(tr_allocations(), before);
    cr_expect_eq(mallinfo2().uordblks, heap.uordblks);
    cr_expect_eq(mallinfo2().hblkhd, heap.hblkhd);
}
