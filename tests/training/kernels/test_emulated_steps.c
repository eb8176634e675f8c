/* SPDX-License-Identifier: BSD-3-Clause */
/* test_emulated_steps.c: whole steps of training by the kernels for a device, emulated, beside the same steps
 * on the processor, whose bits are those of the golden programs; and what the set does where it cannot go on.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/training/kernels/kernels_rig.h"
#include "tests/training/options_rig.h"
#include "training/kernels/cuda/cuda_set.h"
#include "training/run/run.h"

/* A run of one rank, by one set. */
struct steps {
    struct tr_prepared p;
    struct tr_tapes tapes;
    struct tr_data data;
    struct tr_runner r;
};

static void begin(struct steps *s, const char *line, const struct tr_kernels *set)
{
    struct tr_options o;
    struct tr_error e = { .text = "" };
    *s = (struct steps){ 0 };
    cr_assert(rig_options(&o, line, &e), "%s: %s", line, e.text);
    cr_assert(tr_run_make(&s->p.run, &o, &e), "%s: %s", line, e.text);
    const struct tr_graph *g = &s->p.run.graph;
    cr_assert(tr_place(&s->p.placed, g, &s->p.run.plan, set, &e), "%s: %s", line, e.text);
    s->p.tapes = &s->tapes;
    cr_assert(tr_tapes_make(s->p.tapes, &s->p.placed, &s->p.run.schedule, false, &e), "%s: %s", line, e.text);
    cr_assert(tr_open_data(&s->data, &o, g, &e), "%s: %s", line, e.text);
    cr_assert(tr_runner_open(&s->r, s->tapes.of, set, &s->data, NULL, &e), "%s: %s", line, e.text);
}

static void end(struct steps *s)
{
    tr_runner_close(&s->r);
    tr_data_close(&s->data);
    tr_tapes_free(&s->tapes);
    tr_placed_free(&s->p.placed);
    tr_run_free(&s->p.run);
}

static void expect_same(const char *line, int steps)
{
    struct steps on_processor, emulated;
    struct tr_context device = { NULL, NULL, 0 };
    struct tr_error e = { .text = "" };
    rig_emulate(&device);
    begin(&on_processor, line, tr_kernels_best());
    begin(&emulated, line, device.k);
    emulated.r.x->self = device.self;
    for (int i = 0; i < steps; i++) {
        rig_emulate(&device); /* with its threads in another order */
        cr_assert(tr_runner_step(&on_processor.r, &e), "%s: %s", line, e.text);
        cr_assert(tr_runner_step(&emulated.r, &e), "%s: %s", line, e.text);
        const struct tr_result *want = &on_processor.r.result, *got = &emulated.r.result;
        cr_expect(!memcmp(got, want, sizeof *got), "%s: step %d: loss %a norm %a instead of loss %a norm %a",
            line, i, got->loss, got->norm, want->loss, want->norm);
    }
    end(&on_processor);
    end(&emulated);
}

Test(train_emulated, a_language_model_has_the_bits_of_the_processor)
{
    expect_same("--model gpt:nano --batch 1", 2);
}
Test(train_emulated, a_llama_has_the_bits_of_the_processor)
{
    expect_same("--model llama:nano --layers 1 --context 16 --batch 2 --micro 2", 2);
}
Test(train_emulated, a_perceptron_has_the_bits_of_the_processor)
{
    expect_same("--model mlp:nano", 2);
}
Test(train_emulated, experts_have_the_bits_of_the_processor)
{
    expect_same("--model moe:nano --batch 1", 1);
}
Test(train_emulated, a_convolution_has_the_bits_of_the_processor)
{
    expect_same("--model cnn:nano --batch 2", 2);
}

enum { FAILS_AT = 2, LOST = 700 };
static int starts;

static int fails_later(struct tr_cuda *c, const struct tr_cuda_launch *l)
{
    (void)c, (void)l;
    return ++starts >= FAILS_AT ? LOST + starts : 0;
}

Test(train_emulated, the_first_start_that_fails_is_the_last_one_and_stays)
{
    struct tr_cuda c = { .launch = fails_later, .workspace_floats = 1, .multiprocessors = 1 };
    struct tr_context x = { &tr_kernels_cuda, &c, 0 };
    float y[4] = { 0 };
    for (int i = 0; i < 5; i++)
        x.k->gelu.forward(&x, y, y, 4);
    cr_expect_eq(starts, FAILS_AT);
    cr_expect_eq(x.status, LOST + FAILS_AT);
}

Test(train_emulated, a_workspace_without_room_for_one_sum_is_refused)
{
    struct tr_context x = { NULL, NULL, 0 };
    rig_emulate(&x);
    ((struct tr_cuda *)x.self)->workspace_floats = 1;
    float a[200] = { 0 }, sum[1];
    x.k->sum_tokens(&x, sum, a, &(struct tr_tokens){ 1, 2, 1, 1 });
    cr_expect_eq(x.status, TR_CUDA_INVALID, "two leaves");
    x.status = 0;
    struct tr_gemm g = { 1, 1, 200, a, a, sum, 200, 1, 1, 1, 1, 200, 1, false, 0, 0, { 0 } };
    x.k->gemm(&x, &g, NULL);
    cr_expect_eq(x.status, TR_CUDA_INVALID, "four roots of 64 chunks");
}
