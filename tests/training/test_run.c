/* SPDX-License-Identifier: BSD-3-Clause */
/* test_run.c: what the executor says when something fails beneath it, and what is in memory before a step. */
#include <criterion/criterion.h>
#include <string.h>

#include "training/commands/prepare.h"
#include "training/run/run.h"
#include "training/run/compute.h"

enum { PLANTED = 7 };
static int gelus;

static const char *words(int status)
{
    return status == PLANTED ? "the planted failure" : "another failure";
}

/* The third one fails, and each behind it in its own way. */
static void failing_gelu(struct tr_context *x, float *y, const float *from, int64_t count)
{
    tr_kernels_best()->gelu.forward(x, y, from, count);
    if (++gelus >= 3 && !x->status)
        x->status = PLANTED + gelus - 3;
}

Test(run, a_kernel_that_fails_ends_the_step_and_is_named)
{
    struct tr_options o;
    struct tr_prepared p;
    struct tr_data data;
    struct tr_runner r;
    struct tr_error e = { .text = "" };
    struct tr_kernels set = *tr_kernels_best();
    set.name = "planted", set.gelu.forward = failing_gelu, set.words = words;
    tr_options_default(&o);
    cr_assert(tr_prepare(&p, &o, &e), "%s", e.text);
    const struct tr_graph *g = &p.run.graph;
    cr_assert(tr_data_open(&data, NULL, 1, g->vocabulary, g->context, &e), "%s", e.text);
    cr_assert(tr_runner_open(&r, p.tapes->of, &set, &data, NULL, &e), "%s", e.text);
    cr_assert(!tr_runner_step(&r, &e));
    cr_expect_eq(gelus, 3, "nothing is run behind what failed; there were %d", gelus);
    const char *parts[] = { "step 0, rank 0: instruction ", ", gelu of layer2.",
        "kernels planted: ", "the planted failure" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        cr_expect(strstr(e.text, parts[i]), "'%s' lacks '%s'", e.text, parts[i]);
    tr_runner_close(&r);
    tr_data_close(&data);
    tr_prepared_free(&p);
}

/* What is read before it is written is NaN, in either memory: so a forgotten value shows. */
Test(run, memory_is_poison_before_the_first_step)
{
    struct tr_options o;
    struct tr_prepared p;
    struct tr_data data;
    struct tr_runner r;
    struct tr_error e = { .text = "" };
    int64_t bytes[2] = { 0 };
    tr_options_default(&o);
    cr_assert(tr_options_parse(&o, 2, (char *[]){ "--offload", "both" }, &e), "%s", e.text);
    cr_assert(tr_prepare(&p, &o, &e), "%s", e.text);
    const struct tr_graph *g = &p.run.graph;
    const struct tr_tape *t = p.tapes->of;
    cr_assert(tr_data_open(&data, NULL, 1, g->vocabulary, g->context, &e), "%s", e.text);
    cr_assert(tr_runner_open(&r, t, tr_kernels_best(), &data, NULL, &e), "%s", e.text);
    for (int v = 0; v < t->n_values; v++) {
        const unsigned char *at = tr_at(&r, v);
        for (int64_t i = 0; i < t->values[v].bytes && t->values[v].memory == TR_MEM_ACTIVATION; i++)
            if (at[i] == 0xFF)
                bytes[t->values[v].host]++;
    }
    cr_expect_gt(bytes[0], 0, "activations of the device's memory are no NaN");
    cr_expect_gt(bytes[1], 0, "nor are those of the host's");
    tr_runner_close(&r);
    tr_data_close(&data);
    tr_prepared_free(&p);
}
