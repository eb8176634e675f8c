/* SPDX-License-Identifier: BSD-3-Clause */
/* test_compare.c: what `tutti-train compare` tells by formulas is what the tapes say. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/training/options_rig.h"
#include "training/compare/compare.h"
#include "training/exercise/exercise.h"
#include "training/verify/verify.h"
#include "training/parallel/registry.h"

static void prepare(struct tr_prepared *p, const char *options)
{
    struct tr_options o;
    struct tr_error e = { .text = "" };
    char line[200], *words[24], *at = line;
    int n = 0;
    tr_options_default(&o);
    snprintf(line, sizeof line, "%s", options);
    for (char *word; (word = strtok_r(at, " ", &at)) != NULL;)
        words[n++] = word;
    cr_assert(tr_options_parse(&o, n, words, &e) && tr_prepare(p, &o, &e), "%s: %s", options, e.text);
}

static struct tr_flow flow_of(const char *options)
{
    struct tr_prepared p;
    prepare(&p, options);
    struct tr_flow f = tr_compare_formula(&p.run.plan, &p.run.graph), l = tr_compare_ledger(&p);
    cr_expect_eq(
        f.in, l.in, "%s: in are %lld, and by the ledger %lld", options, (long long)f.in, (long long)l.in);
    cr_expect_eq(f.out, l.out, "%s: out are %lld, and by the ledger %lld", options, (long long)f.out,
        (long long)l.out);
    tr_prepared_free(&p);
    return f;
}

/* Of gpt:nano gradients are 947712 bytes, and values 882176, as the embedding is tied. */
Test(compare, the_hottest_rank_has_the_bytes_of_the_formulas)
{
    struct tr_flow f = flow_of("--dp 8 --servers 1");
    cr_expect_eq(f.in, 8 * 947712);
    cr_expect_eq(f.out, 8 * 882176);
    f = flow_of("--dp 8 --servers 4");
    cr_expect_eq(f.in, 2 * 947712);
    cr_expect_eq(f.out, 2 * 882176);
    f = flow_of("--dp 2 --servers 4"); /* a worker has more than a server */
    cr_expect_eq(f.in, 882176);
    cr_expect_eq(f.out, 947712);
    f = flow_of("--dp 8 --dp-reduce sharded");
    cr_expect_eq(f.in, 2 * 7 * 947712 / 8);
    cr_expect_eq(f.out, f.in);
}

Test(compare, the_formulas_hold_for_every_number_of_workers)
{
    static const char *const models[] = { "gpt:nano", "gpt:nano --untied", "mlp:nano", "cnn:nano",
        "moe:nano" };
    char line[160];
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int workers = 1; workers <= 8; workers++)
            for (int servers = 0; servers <= 4; servers = servers ? 2 * servers : 1) {
                if (!servers)
                    snprintf(line, sizeof line, "--model %s --batch %d --dp %d --dp-reduce sharded",
                        models[m], 2 * workers, workers);
                else
                    snprintf(line, sizeof line, "--model %s --batch %d --dp %d --servers %d", models[m],
                        2 * workers, workers, servers);
                flow_of(line);
            }
}

/* What one instruction computes, by the values that it has here; -1: it is none of these. */
static double by_values(const struct tr_tape *t, const struct tr_instr *i)
{
    double x = (double)tr_count(t, i->in[0]), w = i->ins > 1 ? (double)tr_count(t, i->in[1]) : 0;
    const struct tr_placed *p = t->placed;
    double columns =
        i->ins > 1 ? (double)p->g->tensors[p->shards[t->values[i->in[1]].shard].tensor].size[1] : 0;
    switch (i->op) {
    case TR_COLUMN: /* x[t][k] w[r][k] */
        return 2 * x * w / columns;
    case TR_ROW: /* x[t][r] w[r][k] */
        return 2 * x * columns;
    case TR_LAYER_NORM:
    case TR_GELU:
    case TR_BIAS:
    case TR_ADD:
        return x;
    default:
        return -1;
    }
}

Test(compare, operations_are_those_of_what_a_rank_has)
{
    static const char *const options[] = { "", "--dp 2 --micro 2", "--tp 4", "--tp 4 --sp", "--pp 2 --tp 2",
        "--cp 4", "--cp 2 --tp 2 --cp-attention ulysses", "--model mlp:nano --tp 2",
        "--tp 2 --recompute full", "--cp 4 --cp-attention ulysses+ring" };
    for (size_t n = 0; n < sizeof options / sizeof *options; n++) {
        struct tr_prepared p;
        int found = 0;
        prepare(&p, options[n]);
        for (int r = 0; r < p.run.plan.mesh.n; r++)
            for (int k = 0; k < p.tapes->of[r].n_instrs; k++) {
                const struct tr_instr *i = &p.tapes->of[r].instrs[k];
                double flops = i->code == TR_COMPUTE ? by_values(&p.tapes->of[r], i) : -1;
                found += flops >= 0;
                cr_expect(flops < 0 || flops == i->flops, "%s: rank %d, %s of %s has %.0f, and not %.0f",
                    options[n], r, tr_op(i->op)->name, tr_instr_name(&p.tapes->of[r], i), i->flops, flops);
            }
        cr_expect_gt(found, 20);
        tr_prepared_free(&p);
    }
}

/* ---- the registry of paradigms ---- */

/* "--dp N --ep N" over two ranks; of a model that has what is cut. */
static void ask(char line[96], const struct tr_paradigm *x, int variant)
{
    int used = sprintf(line, "%s", x->axis == TR_EP ? "--model moe:nano " : "");
    for (const char *at = x->compared[variant].options; *at; at++)
        line[used++] = *at == 'N' ? '2' : *at;
    line[used] = 0;
}

Test(compare, each_paradigm_that_is_registered_runs_alone_and_cuts_what_it_says)
{
    const struct tr_paradigm *x, *y;
    int alone = 0;
    for (int i = 0; (x = tr_paradigm_at(i)); i++) {
        struct tr_prepared p;
        char line[96], text[200] = "";
        if (!x->word)
            continue;
        ask(line, x, 0);
        rig_prepare(&p, line);
        for (int k = 0; (y = tr_paradigm_at(k)); k++)
            cr_expect_eq(tr_paradigm_cuts(y, &p.run.plan), x == y, "%s: %s", line, y->name);
        x->cuts(&p.run.plan, &p.run.graph, text, sizeof text);
        cr_expect(*text && *x->when, "%s: nothing is said", line);
        cr_expect(tr_paradigm_word(x->word) == x);
        tr_prepared_free(&p);
        alone++;
    }
    cr_expect_eq(alone, 5);
}

Test(compare, what_is_tried_of_a_paradigm_asks_for_it)
{
    const struct tr_paradigm *x;
    for (int i = 0; (x = tr_paradigm_at(i)); i++)
        for (int k = 0; k < 5 && x->compared[k].name; k++) {
            struct tr_options o;
            struct tr_error e;
            char line[96];
            ask(line, x, k);
            cr_assert(rig_options(&o, line, &e), "%s: %s", x->compared[k].name, e.text);
            cr_expect(tr_paradigm_asked(x, &o.plan), "%s: %s has no %s", x->compared[k].name, line, x->name);
        }
}

/* An option that no paradigm has is said by nobody; one that is misspelt would be no option. */
Test(compare, what_differs_from_one_device_is_said_with_its_paradigm)
{
    static const struct {
        const char *line, *how;
    } lines[] = { { "--dp 1", "" }, { "--dp 2", "--dp 2" }, { "--micro 4", "--micro 4" },
        { "--schedule gpipe --conv-split filters --cp-map zigzag", "" }, /* they say nothing here */
        { "--dp 2 --sp --tp 2 --pp 2 --micro 4 --schedule gpipe",
            "--dp 2 --tp 2 --sp --pp 2 --micro 4 --schedule gpipe" },
        { "--dp 2 --servers 1 --server-mode async --arrivals seed:1",
            "--dp 2 --servers 1 --server-mode async --arrivals seed:1" },
        { "--cp 2 --cp-attention ring --steps 3 --rate 0.5", "--cp 2 --cp-attention ring" },
        { "--dp 2 --zero 3 --zero3-keep --offload both", "--dp 2 --zero 3 --zero3-keep --offload both" } };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct tr_options o;
        struct tr_error e;
        char how[128];
        cr_assert(rig_options(&o, lines[i].line, &e), "%s", e.text);
        tr_options_how(how, sizeof how, &o);
        cr_expect_str_eq(how, lines[i].how, "%s", lines[i].line);
    }
}

Test(compare, what_has_no_room_is_left_out_as_a_whole)
{
    struct tr_options o;
    struct tr_error e;
    char how[16] = "";
    cr_assert(rig_options(&o, "--dp 2 --tp 2 --pp 2", &e));
    tr_options_how(how, sizeof how, &o);
    cr_expect_str_eq(how, "--dp 2 --tp 2");
}

Test(compare, verify_quick_has_every_paradigm_that_is_registered)
{
    const struct tr_paradigm *x;
    int n;
    struct tr_verify_case *cases = tr_verify_cases(TR_VERIFY_QUICK, &n);
    for (int i = 0; (x = tr_paradigm_at(i)); i++) {
        bool found = false;
        for (int c = 0; c < n && !found; c++) {
            struct tr_options o;
            struct tr_error e;
            cr_assert(tr_verify_options(&o, &cases[c], &e), "%s", e.text);
            found = tr_paradigm_asked(x, &o.plan);
        }
        cr_expect(found, "%s: no case has it", x->name);
    }
    free(cases);
}

/* Of times within a tenth of each other none is said to be better. */
Test(compare, an_exercise_says_what_its_times_do)
{
    static const struct {
        double one, threads, ranks;
        int cores;
        const char *said;
    } of[] = {
        { 100, 100, 50, 2, "It pays here: ranks meet" },
        { 100, 60, 50, 2, "It pays here: ranks meet" },
        { 100, 54, 50, 2, "It pays here against one thread; two threads do as well" },
        { 100, 50, 54, 2, "It pays here against one thread; two threads do as well" },
        { 100, 50, 60, 2, "It pays here against one thread, but threads do better" },
        { 100, 50, 95, 2, "It does not pay here; threads do" },
        { 100, 50, 200, 2, "It does not pay here; threads do" },
        { 100, 95, 95, 2, "It does not pay here, and neither do threads" },
        { 100, 120, 105, 2, "It does not pay here, and neither do threads" },
        { 100, 50, 50, 1, "This machine gives one core" },
    };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const char *said = tr_exercise_pays(of[i].one, of[i].threads, of[i].ranks, of[i].cores);
        cr_expect(!strncmp(said, of[i].said, strlen(of[i].said)), "%zu: %s", i, said);
    }
}
