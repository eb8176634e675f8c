/* SPDX-License-Identifier: BSD-3-Clause */
/* test_advice.c: what `tutti-train plan` answers: that it says what fits as train does, that its bound is
 * one, what textbooks recommend, and that its times are near those that others have published
 * (tests/training/published.txt). */
#include "tests/training/options_rig.h"

#include "training/advice/measure.h"
#include "training/advice/rules.h"
#include "training/commands/limits.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void options(struct tr_options *o, const char *line)
{
    struct tr_error e;
    cr_assert(rig_options(o, line, &e), "%s: %s", line, e.text);
}

static void machine(struct tr_machine *m, const char *name)
{
    struct tr_error e;
    cr_assert(tr_machine_read(m, name, &e), "%s", e.text);
}

/* To be freed. */
static struct tr_search *search(const char *line, const char *on, int64_t memory)
{
    struct tr_search *s = calloc(1, sizeof *s);
    struct tr_machine m;
    struct tr_options o;
    struct tr_error e;
    machine(&m, on);
    options(&o, line);
    cr_assert(tr_search(s, &o, &m, memory, &e), "%s: %s", line, e.text);
    return s;
}

static const struct tr_choice *best(const struct tr_search *s)
{
    cr_assert_gt(s->n_best, 0);
    return &s->evaluated[s->best[0]].choice;
}

/* What train does with that much memory, and with a byte less than it needs. */
static void refuses_as_said(const struct tr_options *base, const struct tr_candidate *x)
{
    struct tr_prepared p;
    struct tr_options o;
    struct tr_error e;
    char text[160];
    tr_choice_text(&x->choice, text);
    tr_choice_options(&o, base, &x->choice);
    bool made = tr_prepare(&p, &o, &e);
    cr_expect_eq(made, x->estimate.legal, "%s: %s", text, made ? x->estimate.why : e.text);
    if (!made)
        return;
    o.shown.memory = x->estimate.arena;
    cr_expect(tr_limits_kept(&p, &o, 0, &e), "%s: %s", text, e.text);
    o.shown.memory--;
    cr_expect_not(tr_limits_kept(&p, &o, 0, &e), "%s fits a byte less than plan says", text);
    cr_expect_leq(x->choice.least, x->estimate.arena, "%s: at least %lld, and it needs %lld", text,
        (long long)x->choice.least, (long long)x->estimate.arena);
    tr_prepared_free(&p);
}

/* Every choice that plan evaluates for these, with little memory and with more. */
Test(advice, fits_as_train_does)
{
    static const char *const lines[] = { "-n 4 --batch 4 --layers 2",
        "-n 4 --batch 8 --precision bfloat16 --tp 2", "-n 4 --batch 16 --pp 4",
        "-n 2 --batch 4 --optimizer sgd", "--model moe:nano -n 2 --batch 4",
        "--model mlp:nano -n 2 --batch 4" };
    int judged = 0;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        for (int64_t memory = 1000 * 1000; memory < 8 * 1000 * 1000; memory *= 5) {
            struct tr_search *s = search(lines[i], "host", memory);
            struct tr_options o;
            options(&o, lines[i]);
            for (int k = 0; k < s->n_evaluated; k++, judged++) {
                const struct tr_candidate *x = &s->evaluated[k];
                refuses_as_said(&o, x);
                bool fits = x->fate == TR_SLOWER || x->fate == TR_WON;
                cr_expect_eq(fits, x->estimate.legal && x->estimate.arena <= memory);
            }
            free(s);
        }
    cr_expect_gt(judged, 40, "only %d", judged);
}

/* Where parameters are most of the memory, so that the bound is near. */
Test(advice, the_bound_is_none_of_the_tapes_above)
{
    static const char *const lines[] = {
        "-n 2 --batch 16 --dp 2 --micro 8 --channels 512 --context 8 --layers 2",
        "-n 2 --batch 2 --dp 2 --channels 512 --context 8 --layers 2 --precision bfloat16",
        "-n 2 --batch 2 --tp 2 --channels 512 --context 8 --layers 2 --optimizer sgd",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct tr_search *s = search(lines[i], "host", 0);
        struct tr_options o;
        options(&o, lines[i]);
        cr_expect_gt(s->n_evaluated, 0);
        for (int k = 0; k < s->n_evaluated; k++)
            refuses_as_said(&o, &s->evaluated[k]);
        free(s);
    }
}

/* Of more than TR_WALKED ranks few tapes are made, and they are those that need most. */
Test(advice, few_tapes_tell_the_memory_of_all)
{
    static const char *const lines[] = { "-n 32 --dp 4 --tp 4 --pp 2 --micro 4 --batch 32",
        "-n 32 --dp 2 --tp 2 --pp 4 --cp 2 --micro 2 --batch 8 --zero 1",
        "-n 32 --dp 8 --tp 4 --zero 3 --batch 32 --vocabulary 301",
        "-n 24 --dp 3 --tp 2 --pp 4 --micro 2 --batch 12 --precision bfloat16" };
    struct tr_machine m;
    machine(&m, "host");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct tr_estimate x;
        struct tr_options o;
        struct tr_prepared p;
        int64_t most[2];
        options(&o, lines[i]);
        tr_evaluate(&x, &o, &m);
        rig_prepare(&p, lines[i]);
        tr_limits_needs(&p, most);
        cr_expect(x.legal, "%s", x.why);
        cr_expect_eq(
            x.arena, most[0], "%s: %lld, and not %lld", lines[i], (long long)x.arena, (long long)most[0]);
        tr_prepared_free(&p);
    }
}

/* Bytes are those of the ledger. */
Test(advice, prices_what_the_ledger_counts)
{
    struct tr_prepared p;
    struct tr_ledger l;
    rig_prepare(&p, "--dp 2 --tp 2 --pp 2 --micro 2 --zero 1 --batch 8");
    for (int r = 0; r < 8; r++) {
        const struct tr_tape *t = tr_tapes_of(p.tapes, r);
        double priced = 0;
        tr_ledger_predict(&l, t);
        for (int n = 0; n < t->n_instrs; n++) {
            const struct tr_instr *i = &t->instrs[n];
            bool both = i->code == TR_TIE && i->edge == TR_HOME; /* it sends, and it receives */
            if (tr_codes[i->code].talks || both)
                priced += (both ? 2 : 1) * (i->times > 0 ? (double)i->times : 1) * tr_bytes_of_call(t, i);
        }
        double counted = (double)tr_ledger_sum(&l, -1, -1, -1, -1).bytes;
        cr_expect_float_eq(priced, counted, 0.5, "rank %d: %.0f, and %.0f are counted", r, priced, counted);
    }
    tr_prepared_free(&p);
}

/* The end of a step is that of the rank which takes longest for it, whichever stage that has. */
Test(advice, the_longest_end_counts)
{
    struct tr_prepared small, large;
    struct tr_price a, b, c;
    struct tr_machine m;
    struct tr_error e;
    machine(&m, "host");
    rig_prepare(&small, "--dp 2 --batch 8 --channels 64");
    rig_prepare(&large, "--dp 2 --batch 8 --channels 128");
    const struct tr_tape *s = tr_tapes_of(small.tapes, 0), *l = tr_tapes_of(large.tapes, 0);
    const struct tr_schedule *one = &small.run.schedule;
    cr_assert(tr_price_step(&a, one, (const struct tr_tape *const[3]){ s, s, s }, &m, &e));
    cr_assert(tr_price_step(&b, one, (const struct tr_tape *const[3]){ s, s, l }, &m, &e));
    cr_assert(tr_price_step(&c, one, (const struct tr_tape *const[3]){ s, l, s }, &m, &e));
    cr_expect_gt(b.step, a.step);
    cr_expect_float_eq(c.step, b.step, 1e-12);
    tr_prepared_free(&small);
    tr_prepared_free(&large);
}

/* ZeRO 2 sums each micro-batch up over the ranks, and so the guess of it is above that of ZeRO 1. */
Test(advice, guesses_know_what_zero_sends)
{
    struct tr_options o;
    struct tr_machine m;
    struct tr_sketch s;
    struct tr_error e;
    machine(&m, "a100");
    options(&o, "--model gpt2:124M -n 8 --dp 8 --batch 32");
    cr_assert(tr_sketch_make(&s, &o, &e), "%s", e.text);
    struct tr_choice c[] = { { .pp = 1, .cp = 1, .ep = 1, .tp = 1, .dp = 8, .micros = 4, .zero = 1 },
        { .pp = 1, .cp = 1, .ep = 1, .tp = 1, .dp = 8, .micros = 4, .zero = 2 } };
    for (int i = 0; i < 2; i++)
        tr_guess(&c[i], &s, &m);
    cr_expect_gt(c[1].seconds, 1.02 * c[0].seconds, "%g and %g", c[0].seconds, c[1].seconds);
}

/* Of 16 micro-batches the canonical tree keeps four sums, and any order one, where the gradient has to be. */
Test(advice, guesses_know_how_many_sums_wait)
{
    struct tr_options o;
    struct tr_machine m;
    struct tr_sketch s;
    struct tr_error e;
    struct tr_choice c[2];
    machine(&m, "a100");
    for (int any = 0; any < 2; any++) {
        options(&o, any ? "--model gpt2:124M --batch 64 --order free" : "--model gpt2:124M --batch 64");
        cr_assert(tr_sketch_make(&s, &o, &e), "%s", e.text);
        c[any] = (struct tr_choice){ .pp = 1, .cp = 1, .ep = 1, .tp = 1, .dp = 1, .micros = 16 };
        tr_guess(&c[any], &s, &m);
    }
    cr_expect_eq(c[0].least - c[1].least, 3 * 4 * s.layers * s.in_layer);
}

/* By hand: a ring of n sends n - 1 parts of an n-th; two hosts of four first among four, then two by two. */
Test(advice, messages_take_what_their_rings_take)
{
    struct tr_machine m = {
        .ranks_per_host = 4, .latency = { 1e-6, 1e-5 }, .message = { 1e-7, 1e-6 }, .rate = { 1e11, 1e10 }
    };
    double part = 1.2e-6 + 1e9 / 4 / 1e11, across = 1.2e-5 + 1e9 / 8 / 1e10;
    struct tr_spread one = { 4, 1 }, two = { 4, 2 };
    cr_expect_float_eq(tr_call_seconds(&m, TR_ALL_GATHER, 1e9, one), 3 * part, 1e-12);
    cr_expect_float_eq(tr_call_seconds(&m, TR_ALL_REDUCE, 1e9, one), 6 * part, 1e-12);
    cr_expect_float_eq(tr_call_seconds(&m, TR_ALL_REDUCE, 1e9, two), 6 * part + 2 * across, 1e-12);
    m.link = 2e10; /* of four ranks: half as much for each */
    cr_expect_float_eq(tr_machine_rate(&m, TR_ACROSS), 5e9, 1);
    cr_expect_float_eq(tr_machine_rate(&m, TR_INSIDE), 1e11, 1);
    struct tr_mesh mesh;
    struct tr_error e;
    cr_assert(tr_mesh_make(&mesh, (int[TR_AXES]){ 2, 4, 1, 1, 1, 2 }, 0, &e));
    struct tr_spread tp = tr_spread_of(&mesh, &m, 0, 1 << TR_TP), dp = tr_spread_of(&mesh, &m, 0, 1 << TR_DP);
    cr_expect_eq(tp.near, 2);
    cr_expect_eq(tp.hosts, 1);
    cr_expect_eq(dp.near, 2);
    cr_expect_eq(dp.hosts, 2);
    cr_expect_eq(tr_reach_of_stage(&mesh, &m), TR_ACROSS);
}

/* A machine that was measured is priced at what it was measured to take. */
Test(advice, what_was_measured_comes_back)
{
    enum { N = 4 };
    const struct tr_measured of[N] = { { { 1e9, 4e8 }, 12e-6, 3e-3 }, { { 3e9, 2e8 }, 1, 1 },
        { { 1e9, 1e8 }, 1, 1 }, { { 3e9, 1e8 }, 1, 1 } };
    struct tr_spread all = { N, 1 };
    struct tr_machine m;
    machine(&m, "host");
    tr_machine_from(&m, of, N);
    cr_expect_float_eq(m.peak[0] * m.efficiency, 2e9, 1);
    cr_expect_float_eq(m.peak[1] * m.efficiency, 2e8, 1);
    cr_expect_float_eq(tr_call_seconds(&m, TR_ALL_REDUCE, TR_FEW * sizeof(float), all), 12e-6, 1e-7);
    cr_expect_float_eq(tr_call_seconds(&m, TR_ALL_REDUCE, TR_MANY * sizeof(float), all), 3e-3, 1e-9);
    machine(&m, "host");
    double rate = m.rate[TR_INSIDE];
    tr_machine_from(&m, of, 1);
    cr_expect_float_eq(m.peak[0], 1e9, 1);
    cr_expect_float_eq(m.rate[TR_INSIDE], rate, 1, "one rank has measured no call");
}

/* Where the cores that compute copy messages, too, these take their time, whatever runs beside. */
Test(advice, who_copies_messages_covers_none)
{
    struct tr_search *host = search("-n 4", "host", 0),
                     *gpus = search("--model gpt2:124M -n 4 --batch 64 --precision bfloat16", "a100", 0);
    cr_expect(!best(host)->overlap && best(gpus)->overlap && best(host)->dp == 4 && best(gpus)->dp == 4);
    char text[160];
    for (int i = 0; i < host->n_evaluated; i++)
        cr_expect_null(strstr(tr_choice_text(&host->evaluated[i].choice, text), "overlap"), "%s", text);
    struct tr_options o;
    struct tr_estimate in_turn, beside, covered;
    struct tr_machine m;
    machine(&m, "host");
    options(&o, "--dp 4 --bucket 25M");
    tr_evaluate(&in_turn, &o, &m);
    options(&o, "--dp 4 --bucket 25M --overlap");
    tr_evaluate(&beside, &o, &m);
    m.covers = true;
    tr_evaluate(&covered, &o, &m);
    cr_assert(in_turn.legal && beside.legal && covered.legal);
    cr_expect_float_eq(beside.price.step, in_turn.price.step, 1e-9);
    cr_expect_lt(covered.price.step, beside.price.step);
    struct tr_choice c = *best(gpus);
    machine(&m, "a100");
    tr_guess(&c, &gpus->sketch, &m);
    double before = c.seconds;
    c.overlap = false;
    tr_guess(&c, &gpus->sketch, &m);
    cr_expect_gt(c.seconds, before, "a guess knows it, too");
    free(host), free(gpus);
}

/* ---- what textbooks recommend ---- */

static enum tr_verdict verdict(const struct tr_search *s, const char *on, const char *begins)
{
    struct tr_machine m;
    const struct tr_rule *rule;
    machine(&m, on);
    for (int i = 0; (rule = tr_rule_at(i)); i++)
        if (!strncmp(rule->says, begins, strlen(begins)))
            return rule->judge(s, &m);
    cr_expect_fail("no rule begins with %s", begins);
    return TR_DOES_NOT_APPLY;
}

Test(advice, small_models_are_data_parallel)
{
    struct tr_search *s =
        search("--model gpt2:124M -n 4 --batch 64 --precision bfloat16", "a100", 80000000000);
    cr_expect_eq(best(s)->dp, 4);
    cr_expect_eq(best(s)->tp * best(s)->pp * best(s)->cp, 1);
    cr_expect_eq(verdict(s, "a100", "a model that fits"), TR_AGREES);
    cr_expect_eq(verdict(s, "a100", "a model that does not fit"), TR_DOES_NOT_APPLY);
    cr_expect_eq(verdict(s, "a100", "a pipeline gains little"), TR_AGREES);
    int zero = s->alone[TR_ALONE_ZERO];
    cr_assert_geq(zero, 0);
    cr_expect(s->evaluated[zero].estimate.legal, "ZeRO: %s", s->evaluated[zero].estimate.why);
    free(s);
}

/* With a call for each of 149 gradients, data parallel would take 1.67 times the best here. */
Test(advice, gradients_go_in_buckets)
{
    struct tr_search *s = search("--model gpt2:124M -n 8", "dgx-h100", 80000000000);
    int dp = s->alone[TR_ALONE_DP];
    char text[160];
    cr_assert_geq(dp, 0);
    const struct tr_candidate *x = &s->evaluated[dp];
    cr_expect(strstr(tr_choice_text(&x->choice, text), "--bucket 25M"), "%s", text);
    cr_expect_lt(x->estimate.price.step, 1.1 * s->evaluated[s->best[0]].estimate.price.step);
    free(s);
}

Test(advice, what_does_not_fit_is_cut)
{
    struct tr_search *s =
        search("--model gpt3:175B -n 1024 --batch 1024 --precision bfloat16", "selene", 80000000000);
    cr_expect_gt(best(s)->tp * best(s)->pp, 8);
    cr_expect_gt(s->fates[TR_TOO_LARGE], 0);
    cr_expect_eq(verdict(s, "selene", "a model that fits"), TR_DOES_NOT_APPLY);
    cr_expect_eq(verdict(s, "selene", "a model that does not fit"), TR_AGREES);
    cr_expect_eq(verdict(s, "selene", "tensor parallel inside"), TR_AGREES);
    cr_expect_eq(verdict(s, "selene", "the largest models"), TR_AGREES);
    free(s);
}

Test(advice, what_fits_nowhere_is_said)
{
    struct tr_search *s = search("--model gpt2:1.5B -n 2 --batch 8", "host", 1000000);
    cr_expect_eq(s->n_best, 0);
    cr_expect_eq(s->fates[TR_TOO_LARGE], s->choices);
    cr_expect_gt(s->tightest.least, 1000000);
    free(s);
}

/* What the user has said stays. */
Test(advice, options_that_are_given_stay)
{
    struct tr_search *s = search("-n 4 --batch 16 --tp 2 --zero 1 --recompute full --micro 4", "host", 0);
    cr_expect_gt(s->n_evaluated, 0);
    for (int i = 0; i < s->n_evaluated; i++) {
        const struct tr_choice *c = &s->evaluated[i].choice;
        cr_expect(c->tp == 2 && c->zero == 1 && c->recompute == TR_RECOMPUTE_FULL && c->micros == 4);
    }
    free(s);
}

/* ---- what others have measured ---- */

/* Each line: "name; machine; options; seconds of a step; 'near' or 'off'; where it stands". */
Test(advice, times_are_near_published_ones)
{
    char path[512], line[1024];
    const char *source = getenv("srcdir");
    snprintf(path, sizeof path, "%s/tests/training/published.txt", source ? source : "..");
    FILE *file = fopen(path, "r");
    int near = 0;
    cr_assert(file, "%s cannot be read", path);
    while (fgets(line, sizeof line, file)) {
        char *rest = NULL;
        if (*line == '#' || *line == '\n')
            continue;
        const char *name = strtok_r(line, ";", &rest), *on = strtok_r(NULL, "; ", &rest);
        const char *words = strtok_r(NULL, ";", &rest);
        double published = strtod(strtok_r(NULL, ";", &rest), NULL);
        const char *expected = strtok_r(NULL, "; ", &rest);
        struct tr_machine m;
        struct tr_options o;
        struct tr_estimate x;
        machine(&m, on);
        options(&o, words);
        tr_evaluate(&x, &o, &m);
        cr_expect(x.legal, "%s: %s", name, x.why);
        double ratio = x.price.step / published;
        bool is_near = ratio < 1.3 && ratio > 1 / 1.3, fits = x.arena <= m.memory;
        fprintf(stderr, "%-28s %8.3f s, published %8.3f s: %.2f; %.1f GB%s\n", name, x.price.step, published,
            ratio, 1e-9 * (double)x.arena, fits ? "" : ": does not fit");
        cr_expect_eq(is_near, !strncmp(expected, "near", 4), "%s: %.3f s, and published are %.3f s", name,
            x.price.step, published);
        cr_expect_eq(fits, strstr(expected, "-large") == NULL, "%s: %.1f GB", name, 1e-9 * (double)x.arena);
        near += is_near && fits;
    }
    fclose(file);
    cr_expect_geq(near, 12);
}

/* ---- bad input ---- */

static void refuses(const char *text, const char *words)
{
    char name[] = "/tmp/tutti_machine_XXXXXX";
    struct tr_machine m;
    struct tr_error e = { .text = "" };
    int file = mkstemp(name);
    cr_assert_geq(file, 0);
    FILE *to = fdopen(file, "w");
    fputs(text, to);
    fclose(to);
    bool ok = tr_machine_read(&m, name, &e);
    remove(name);
    cr_expect_eq(ok, !words, "%s", e.text);
    cr_expect(!words || strstr(e.text, words), "not \"%s\" but: %s", words ? words : "", e.text);
}

Test(advice, machines_are_read)
{
    refuses("peak_float32 1 TFLOP/s\nefficiency 0.5\n", NULL);
    refuses("# mine\npeak_bfloat16 1 GFLOP/s # a\nefficiency 1\nlink inf\nlatency_far 250.0 ns\nspin_call "
            "1500 ns\n",
        NULL);
    refuses("library NCCL\nalgorithms all_reduce ring away tree\nprotocol LL\npeak_float32 1 TFLOP/s\n"
            "efficiency 1\nbyte_near 3 GB/s\n",
        NULL);
    refuses("efficiency 0.5\n", "nothing of how fast");
    refuses("peak_float32 1 TFLOP/s\n", "nothing of how fast");
    refuses("peak_float32 1 TFLOP/s\nefficiency 1.5\n", "line 2: \"efficiency\"");
    refuses("peak_float32 1\n", "line 1: \"peak_float32\"");
    refuses("peak_float32 1 TFLOP/s\nefficiency 1\nbyte_near 0 GB/s\n", "line 3: \"byte_near\"");
    refuses("fast yes\n", "line 1: \"fast\"");
    refuses("ranks_per_host 1.5\n", "line 1: \"ranks_per_host\"");
    refuses("memory 80\n", "line 1: \"memory\"");
    refuses("overlap 2\n", "line 1: \"overlap\"");
}
