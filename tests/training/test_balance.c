/* SPDX-License-Identifier: BSD-3-Clause */
/* test_balance.c: layers cut over stages by price: no other cut has a cheaper dearest stage. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "training/options.h"
#include "training/parallel/balance.h"

static double dearest(const struct tr_graph *g, const int *layers, int stages)
{
    struct tr_stage_costs of[TR_STAGES_MAX];
    double most = 0;
    tr_price_stages(g, layers, stages, of);
    for (int s = 0; s < stages; s++) {
        double x = of[s].f + of[s].i + of[s].w;
        most = x > most ? x : most;
    }
    return most;
}

/* The cheapest dearest stage over all cuts. */
static double least(const struct tr_graph *g, int *layers, int stages, int stage, int left)
{
    double best = 1e300;
    if (stage + 1 == stages) {
        layers[stage] = left;
        return dearest(g, layers, stages);
    }
    for (int n = 1; n <= left - (stages - stage - 1); n++) {
        layers[stage] = n;
        double x = least(g, layers, stages, stage + 1, left - n);
        best = x < best ? x : best;
    }
    return best;
}

static struct tr_run run_of(const char *model, long layers, long vocabulary)
{
    struct tr_run run;
    struct tr_options o;
    struct tr_error e;
    tr_options_default(&o);
    strcpy(o.model.name, model);
    o.model.sizes.layers = layers, o.model.sizes.vocabulary = vocabulary;
    cr_assert(tr_run_make(&run, &o, &e), "%s", e.text);
    return run;
}

Test(balance, no_cut_is_cheaper)
{
    const char *const models[] = { "gpt:nano", "mlp:nano", "cnn:nano" };
    for (int i = 0; i < 60; i++) {
        struct tr_run run = run_of(models[i % 3], 1 + i % 9, i % 6 < 2 ? 2048 : 0);
        int layers[TR_STAGES_MAX] = { 0 }, any[TR_STAGES_MAX], stages = 1 + i % 5, sum = 0;
        struct tr_error e;
        bool fits = stages <= run.graph.layers;
        cr_assert_eq(tr_cut_layers(layers, &run.graph, stages, "", TR_BALANCE_AUTO, &e), fits);
        for (int s = 0; s < stages && fits; s++) {
            cr_assert_geq(layers[s], 1);
            sum += layers[s];
        }
        if (fits) {
            cr_assert_eq(sum, run.graph.layers);
            cr_assert_float_eq(dearest(&run.graph, layers, stages),
                least(&run.graph, any, stages, 0, (int)run.graph.layers), 1e-3);
        }
        tr_run_free(&run);
    }
}

/* Where nothing but layers costs, they are cut as evenly as they can. */
Test(balance, ends_cost_too)
{
    char text[200];
    int layers[TR_STAGES_MAX];
    struct tr_error e;
    struct tr_run run = run_of("gpt:nano8", 0, 0);
    cr_assert(tr_cut_layers(layers, &run.graph, 4, "", TR_BALANCE_AUTO, &e));
    cr_expect_str_eq(tr_cut_text(layers, 4, text), "2,2,2,2");
    tr_run_free(&run);
    run = run_of("gpt:nano8", 0, 2048);
    cr_assert(tr_cut_layers(layers, &run.graph, 4, "", TR_BALANCE_AUTO, &e));
    cr_expect_str_eq(tr_cut_text(layers, 4, text), "2,2,3,1", "%s", text);
    tr_run_free(&run);
}

Test(balance, wrong_cuts_say_what_is_legal)
{
    const char *const wrong[][2] = {
        { "1,1,2", "--stage-layers 1,1,2: 4 layers in 3 stages; legal are 4 in 2" },
        { "1,2", "--stage-layers 1,2: 3 layers in 2 stages; legal are 4 in 2" },
        { "0,4", "legal is a number from 1 to 4 for each stage, as 1,1,2" },
        { "1,", "legal is a number" },
        { "1,x", "legal is a number" },
        { "1;3", "legal is a number" },
        { "99999999999999999999,3", "legal is a number" },
    };
    struct tr_run run = run_of("gpt:nano", 0, 0);
    struct tr_error e;
    int layers[TR_STAGES_MAX] = { 0 };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect_not(tr_cut_layers(layers, &run.graph, 2, wrong[i][0], TR_BALANCE_EVEN, &e));
        cr_expect_not_null(strstr(e.text, wrong[i][1]), "%s", e.text);
    }
    cr_expect_not(tr_cut_layers(layers, &run.graph, 2, "1,3", TR_BALANCE_AUTO, &e));
    cr_expect_not(tr_cut_layers(layers, &run.graph, 5, "", TR_BALANCE_AUTO, &e));
    cr_expect_str_eq(e.text, "5 stages of 4 layers: legal are 4 stages at most");
    tr_run_free(&run);
}

static double random_cost(void)
{
    static unsigned state = 41;
    state = state * 1664525U + 1013904223U;
    return 0.25 * (1 + (state >> 8) % 16);
}

/* Stages that take different times: of naive and GPipe there is a formula, and it is the simulated bubble. */
Test(balance, uneven_stages_have_the_bubble_of_the_formula)
{
    for (int i = 0; i < 400; i++) {
        struct tr_stage_costs stage[8];
        struct tr_costs c = { .stage = stage };
        int p = 2 + i % 7;
        for (int k = 0; k < p; k++)
            stage[k] = (struct tr_stage_costs){ random_cost(), random_cost(), random_cost() };
        struct tr_schedule s, lazy;
        struct tr_timing t;
        struct tr_error e;
        cr_assert(tr_schedule_make(&s, i % 2 ? "gpipe" : "naive", p, 1, 1 + i % 11, &e));
        cr_assert(tr_schedule_make(&lazy, "1f1b", p, 1, s.micros, &e));
        cr_assert(tr_schedule_simulate(&s, &c, &t, &e), "%s", e.text);
        cr_assert_float_eq(tr_bubble(&s, &t), tr_bubble_formula(&s, &c), 1e-9, "%s p %d m %d: %g, %g", s.name,
            p, s.micros, tr_bubble(&s, &t), tr_bubble_formula(&s, &c));
        tr_timing_free(&t, p);
        cr_assert(isnan(tr_bubble_formula(&lazy, &c)));
        for (int k = 1; k < p; k++)
            stage[k] = stage[0];
        cr_assert_not(isnan(tr_bubble_formula(&lazy, &c)), "stages that are alike are no special case");
        tr_schedule_free(&lazy);
        tr_schedule_free(&s);
    }
}

/* Measured times, of which neighbours differ. */
Test(balance, by_costs_of_units)
{
    struct tr_error e;
    int cut[3];
    cr_assert(tr_cut_by_costs(cut, 6, 3, (double[]){ 0, 1, 1, 1, 1, 1, 1, 2 }, &e), "%s", e.text);
    cr_expect(cut[0] + cut[1] == 5 && cut[2] == 1, "%d,%d,%d", cut[0], cut[1], cut[2]);
    cr_assert(tr_cut_by_costs(cut, 6, 3, (double[]){ 9, 1, 1, 1, 1, 1, 1, 0 }, &e), "%s", e.text);
    cr_expect(cut[0] == 1 && cut[1] + cut[2] == 5, "%d,%d,%d", cut[0], cut[1], cut[2]);
    cr_assert(tr_cut_by_costs(cut, 4, 2, (double[]){ 0, 5, 1, 1, 1, 0 }, &e), "%s", e.text);
    cr_expect(cut[0] == 1 && cut[1] == 3, "%d,%d", cut[0], cut[1]);
    cr_expect_not(tr_cut_by_costs(cut, 2, 3, (double[]){ 0, 1, 1, 0 }, &e));
    cr_expect_str_eq(e.text, "3 stages of 2 layers: legal are 2 stages at most");
}
