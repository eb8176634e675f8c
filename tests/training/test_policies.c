/* SPDX-License-Identifier: BSD-3-Clause */
/* test_policies.c: what a policy says of memory and messages is what the tape does. That the numbers stay the
 * same is what `tutti-train verify` shows. */
#include "training/commands/prepare.h"

#include <criterion/criterion.h>
#include <string.h>

static void prepare(struct tr_prepared *p, const char *options)
{
    struct tr_options o;
    struct tr_error e = { "" };
    char text[256], *words[32], *rest = text;
    int n = 0;
    snprintf(text, sizeof text, "%s", options);
    for (char *word; n < 32 && (word = strtok_r(rest, " ", &rest)) != NULL;)
        words[n++] = word;
    tr_options_default(&o);
    cr_assert(tr_options_parse(&o, n, words, &e), "%s", e.text);
    cr_assert(tr_prepare(p, &o, &e), "%s: %s", options, e.text);
}

static bool gathers(const struct tr_tape *t, const struct tr_instr *i)
{
    return i->code == TR_ALL_GATHER && i->in[0] != i->out[0] && t->values[i->in[0]].lasts;
}

/* Gathered parameters of ZeRO-3 on rank 0: calls, bytes of each unit, and the most bytes at one time. */
struct gathered {
    int calls, waits;
    int64_t unit[16], most_in_units, all, peak;
};

static struct gathered gathered(const struct tr_tape *t, int units_at_once)
{
    struct gathered g = { 0 };
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        int64_t now = 0;
        for (int x = 0; x < t->n_instrs; x++)
            if (gathers(t, &t->instrs[x])) {
                const struct tr_value *v = &t->values[t->instrs[x].out[0]];
                now += v->first <= n && n <= v->last ? v->bytes : 0;
            }
        g.peak = now > g.peak ? now : g.peak;
        g.waits += i->code == TR_WAIT && i->beside;
        if (!gathers(t, i))
            continue;
        g.calls++;
        if (i->part == TR_F) {
            g.unit[i->unit] += t->values[i->out[0]].bytes;
            g.all += t->values[i->out[0]].bytes;
        }
    }
    for (int u = 0; u + units_at_once <= 16; u++) {
        int64_t sum = 0;
        for (int k = 0; k < units_at_once; k++)
            sum += g.unit[u + k];
        g.most_in_units = sum > g.most_in_units ? sum : g.most_in_units;
    }
    return g;
}

#define MODEL "--model gpt:nano8 --heads 4 --dp 2 --zero 3 "

Test(policies, zero3_has_no_more_than_one_unit_whole)
{
    struct tr_prepared p;
    prepare(&p, MODEL);
    struct gathered g = gathered(&p.tapes[0], 1);
    cr_assert(g.calls > 0 && g.peak > 0);
    cr_assert(g.peak <= g.most_in_units, "%lld bytes are whole at one time; the largest unit has %lld",
        (long long)g.peak, (long long)g.most_in_units);
    cr_assert(p.tapes[0].peak[TR_MEM_BUFFER] < g.all);
    tr_prepared_free(&p);
}

Test(policies, keep_saves_the_calls_of_the_backward_pass_and_takes_all_the_memory)
{
    struct tr_prepared p, without;
    prepare(&without, MODEL);
    prepare(&p, MODEL "--zero3-keep");
    struct gathered g = gathered(&p.tapes[0], 1), before = gathered(&without.tapes[0], 1);
    int forward = 0;
    for (int n = 0; n < without.tapes[0].n_instrs; n++) {
        const struct tr_instr *i = &without.tapes[0].instrs[n];
        forward += gathers(&without.tapes[0], i) && i->part == TR_F;
    }
    cr_assert(before.calls > forward);
    cr_assert_eq(g.calls, forward);
    cr_assert(g.peak > 4 * before.peak, "%lld, and without %lld", (long long)g.peak, (long long)before.peak);
    cr_assert(g.peak <= g.all);
    tr_prepared_free(&p), tr_prepared_free(&without);
}

Test(policies, prefetch_has_the_next_units_whole_and_waits_for_each_call)
{
    for (int k = 1; k <= 3; k++) {
        struct tr_prepared p, without;
        char options[128];
        snprintf(options, sizeof options, MODEL "--zero3-prefetch %d", k);
        prepare(&without, MODEL);
        prepare(&p, options);
        struct gathered g = gathered(&p.tapes[0], k + 1), before = gathered(&without.tapes[0], 1);
        cr_assert_eq(g.calls, before.calls);
        cr_assert_eq(g.waits, g.calls);
        cr_assert(g.peak > k * before.peak && g.peak <= g.most_in_units,
            "prefetch %d: %lld bytes are whole at one time", k, (long long)g.peak);
        tr_prepared_free(&p), tr_prepared_free(&without);
    }
}

Test(policies, persist_keeps_small_tensors_whole)
{
    struct tr_prepared p;
    prepare(&p, MODEL "--zero3-persist 1000");
    const struct tr_tape *t = &p.tapes[0];
    for (int n = 0; n < t->n_holdings; n++) {
        const struct tr_tensor *w = &p.run.graph.tensors[t->holdings[n].parameter];
        int64_t elements = w->size[0] * (w->dims > 1 ? w->size[1] : 1);
        cr_assert_eq(t->values[t->holdings[n].values].bytes, 4 * (elements < 1000 ? elements : elements / 2));
    }
    for (int n = 0; n < t->n_instrs; n++)
        if (gathers(t, &t->instrs[n]))
            cr_assert(t->values[t->instrs[n].out[0]].bytes >= 4000);
    tr_prepared_free(&p);
}
