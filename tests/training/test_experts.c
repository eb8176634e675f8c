/* SPDX-License-Identifier: BSD-3-Clause */
/* test_experts.c: what is planned for experts that ranks share, and which meshes they fit. That the numbers
 * are those of one rank, and the bytes those of the router's counts, is what `tutti-train verify` shows. */
#include "training/commands/prepare.h"
#include "training/run/compute.h"
#include "training/run/run.h"

#include <criterion/criterion.h>
#include <string.h>

static bool prepare(struct tr_prepared *p, const char *options, struct tr_error *e)
{
    struct tr_options o;
    char text[256], *words[32], *rest = text;
    int n = 0;
    snprintf(text, sizeof text, "--model moe:nano %s", options);
    for (char *word; n < 32 && (word = strtok_r(rest, " ", &rest)) != NULL;)
        words[n++] = word;
    tr_options_default(&o);
    *e = (struct tr_error){ .text = "" };
    return tr_options_parse(&o, n, words, e) && tr_prepare(p, &o, e);
}

/* Bytes of the value that this instruction makes of a tensor; -1: there is none. */
static int64_t made(const struct tr_tape *t, int op, const char *tensor)
{
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        bool exchange = i->code == TR_ALL_TO_ALL_V && op < 0;
        if ((exchange || (i->code == TR_COMPUTE && i->op == op)) && !strcmp(tr_instr_name(t, i), tensor))
            return t->values[i->out[0]].bytes;
    }
    return -1;
}

/* b sequences of 64 tokens with 64 channels, the hidden ones twice as many; a token's choices differ, so at
 * most as many of them are here as experts. */
Test(experts, there_is_room_for_all_tokens)
{
    static const struct {
        const char *options;
        int64_t b, ep, here;
    } runs[] = { { "--dp 2 --ep 2", 4, 2, 2 }, { "--dp 4 --ep 4 --zero 3 --micro 2", 1, 4, 2 },
        { "--dp 8 --ep 8", 1, 8, 1 }, { "--experts 6 --top-k 5 --dp 4 --ep 2", 2, 2, 3 } };
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct tr_prepared p;
        struct tr_error e;
        cr_assert(prepare(&p, runs[i].options, &e), "%s: %s", runs[i].options, e.text);
        int64_t most = 4 * runs[i].b * 64 * 64 * runs[i].ep * runs[i].here;
        for (int r = 0; r < p.run.plan.mesh.n; r++) {
            cr_expect_eq(made(&p.tapes->of[r], -1, "layer0.rows"), most, "%s", runs[i].options);
            cr_expect_eq(made(&p.tapes->of[r], TR_EXPERT_UP, "layer0.up"), 2 * most, "%s", runs[i].options);
        }
        tr_prepared_free(&p);
    }
}

/* Each rank has a part in ep of the experts, and with ZeRO updates its replicas' share of that. */
Test(experts, a_rank_holds_its_experts)
{
    struct tr_prepared p;
    struct tr_error e;
    cr_assert(prepare(&p, "--dp 8 --ep 2 --zero 1", &e), "%s", e.text);
    for (int r = 0; r < 8; r++)
        for (int n = 0; n < p.tapes->of[r].n_states; n++) {
            const struct tr_param_state *h = &p.tapes->of[r].states[n];
            const struct tr_tensor *w = &p.run.graph.tensors[h->parameter];
            bool expert = strstr(w->name, ".up.") || strstr(w->name, ".down.");
            int64_t all = w->size[0] * (w->dims > 1 ? w->size[1] : 1);
            cr_expect_eq(h->shard_count, all / 8, "%s", w->name);
            cr_expect_eq(tr_count(&p.tapes->of[r], h->values), expert ? all / 2 : all, "%s", w->name);
            cr_expect_eq(tr_held_from(&p.tapes->of[r], h), expert ? r % 2 * all / 2 : 0, "%s", w->name);
        }
    tr_prepared_free(&p);
}

Test(experts, what_makes_no_sense_is_refused_with_what_would)
{
    static const char *const wrong[][2] = {
        { "--dp 4 --ep 3", "legal: --ep 1, 2, 4" },
        { "--dp 6 --batch 12 --ep 3", "legal: --ep 1, 2" },
        { "--dp 8 --ep 8 --experts 4", "legal: --ep 1, 2, 4" },
        { "--dp 2 --ep 2 --model gpt:nano", "legal with --model moe:nano or moe:micro" },
        { "--dp 2 --ep 2 --micro 2 --bucket 64K", "are legal with --micro 1" },
        { "--dp 2 --ep 2 --servers 1", "legal with --servers is --ep 1" },
        { "--dp 2 --servers 1 --capacity-factor 1", "which exchange nothing; legal is 0" },
        { "--aux-loss 1 --model gpt:nano", "legal with --model moe:nano or moe:micro" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct tr_prepared p;
        struct tr_error e;
        cr_expect_not(prepare(&p, wrong[i][0], &e), "%s", wrong[i][0]);
        cr_expect(strstr(e.text, wrong[i][1]), "%s: %s", wrong[i][0], e.text);
    }
}

/* A router of zeros finds all experts equally probable: the lowest are chosen, the first of them first. */
Test(experts, of_equal_experts_the_lower_are_chosen)
{
    struct tr_prepared p;
    struct tr_error e;
    struct tr_data data;
    struct tr_runner r;
    int gates = 0;
    cr_assert(prepare(&p, "--top-k 3 --batch 2", &e), "%s", e.text);
    const struct tr_graph *g = &p.run.graph;
    const struct tr_tape *t = &p.tapes->of[0];
    cr_assert(tr_data_open(&data, NULL, 1, g->vocabulary, g->context, &e), "%s", e.text);
    cr_assert(tr_runner_open(&r, t, tr_kernels_best(), &data, NULL, &e), "%s", e.text);
    for (int n = 0; n < t->n_states; n++)
        if (strstr(g->tensors[t->states[n].parameter].name, "router"))
            memset(tr_at(&r, t->states[n].values), 0, (size_t)t->values[t->states[n].values].bytes);
    for (int n = 0; n < t->n_instrs && t->instrs[n].code != TR_UPDATE; n++) {
        const struct tr_instr *i = &t->instrs[n];
        cr_assert(tr_runner_instr(&r, n, &e), "%s", e.text);
        if (i->code != TR_COMPUTE || i->op != TR_GATE)
            continue;
        const int32_t *choice = (const int32_t *)(const void *)tr_at(&r, i->out[1]);
        for (int64_t k = 0; k < 2 * g->context * 3; k++)
            cr_assert_eq(choice[k], k % 3, "choice %ld is of expert %d", (long)k, choice[k]);
        gates++;
    }
    cr_expect_eq(gates, g->layers);
    tr_runner_close(&r);
    tr_data_close(&data);
    tr_prepared_free(&p);
}
