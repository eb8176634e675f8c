/* SPDX-License-Identifier: BSD-3-Clause */
/* test_compare.c: what `tutti-train compare` tells by formulas is what the tapes say. */
#include <criterion/criterion.h>
#include <string.h>

#include "training/commands/compare.h"

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
