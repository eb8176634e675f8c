/* SPDX-License-Identifier: BSD-3-Clause */
/* test_policies.c: what a policy says of memory and messages is what the tape does. That the numbers stay the
 * same is what `tutti-train verify` shows. */
#include "tests/training/options_rig.h"

#include <criterion/criterion.h>
#include <string.h>

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
    rig_prepare(&p, MODEL);
    struct gathered g = gathered(&p.tapes->of[0], 1);
    cr_assert(g.calls > 0 && g.peak > 0);
    cr_assert(g.peak <= g.most_in_units, "%lld bytes are whole at one time; the largest unit has %lld",
        (long long)g.peak, (long long)g.most_in_units);
    cr_assert(p.tapes->of[0].peak[TR_MEM_BUFFER] < g.all);
    tr_prepared_free(&p);
}

Test(policies, keep_saves_the_calls_of_the_backward_pass_and_takes_all_the_memory)
{
    struct tr_prepared p, without;
    rig_prepare(&without, MODEL);
    rig_prepare(&p, MODEL "--zero3-keep");
    struct gathered g = gathered(&p.tapes->of[0], 1), before = gathered(&without.tapes->of[0], 1);
    int forward = 0;
    for (int n = 0; n < without.tapes->of[0].n_instrs; n++) {
        const struct tr_instr *i = &without.tapes->of[0].instrs[n];
        forward += gathers(&without.tapes->of[0], i) && i->part == TR_F;
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
        rig_prepare(&without, MODEL);
        rig_prepare(&p, options);
        struct gathered g = gathered(&p.tapes->of[0], k + 1), before = gathered(&without.tapes->of[0], 1);
        cr_assert_eq(g.calls, before.calls);
        cr_assert_eq(g.waits, g.calls);
        cr_assert(g.peak > gathered(&p.tapes->of[0], k).most_in_units && g.peak <= g.most_in_units,
            "prefetch %d: %lld bytes are whole at one time", k, (long long)g.peak);
        tr_prepared_free(&p), tr_prepared_free(&without);
    }
}

/* Vectors have 64 elements and more, and what has as many as the limit is cut. */
Test(policies, persist_keeps_small_tensors_whole)
{
    for (int i = 0; i < 3; i++) {
        const int64_t limit = (const int64_t[]){ 1000, 64, 65 }[i];
        char options[200];
        struct tr_prepared p;
        snprintf(options, sizeof options, MODEL "--zero3-persist %d", (int)limit);
        rig_prepare(&p, options);
        const struct tr_tape *t = &p.tapes->of[0];
        for (int n = 0; n < t->n_states; n++) {
            const struct tr_tensor *w = &p.run.graph.tensors[t->states[n].parameter];
            int64_t elements = w->size[0] * (w->dims > 1 ? w->size[1] : 1);
            cr_assert_eq(
                t->values[t->states[n].values].bytes, 4 * (elements < limit ? elements : elements / 2));
        }
        for (int n = 0; n < t->n_instrs; n++)
            if (gathers(t, &t->instrs[n]))
                cr_assert(t->values[t->instrs[n].out[0]].bytes >= 4 * limit);
        tr_prepared_free(&p);
    }
}

/* Reductions of gradients over dp, at the end of the step or beside the backward pass. */
static int reductions(const struct tr_tape *t, enum tr_code code, int64_t *bytes)
{
    int calls = 0;
    *bytes = 0;
    for (int n = 0; n < t->n_instrs; n++)
        if (t->instrs[n].code == code && t->instrs[n].axes == 1 << TR_DP) {
            calls++;
            *bytes += t->instrs[n].count * 4;
        }
    return calls;
}

Test(policies, buckets_make_fewer_calls_of_the_same_bytes)
{
    static const struct {
        const char *options;
        int64_t bucket;
    } cases[] = { { "--dp 2 --micro 2 --bucket 32K", 32 << 10 },
        { "--dp 2 --micro 2 --bucket 256K", 256 << 10 }, { "--dp 2 --micro 2 --bucket 1G", 1 << 30 } };
    struct tr_prepared p, without;
    int64_t bytes, all;
    rig_prepare(&without, "--dp 2 --micro 2");
    int before = reductions(&without.tapes->of[0], TR_ALL_REDUCE, &all);
    for (int x = 0; x < 3; x++) {
        rig_prepare(&p, cases[x].options);
        const struct tr_tape *t = &p.tapes->of[0];
        int calls = reductions(t, TR_ALL_REDUCE, &bytes);
        cr_assert_eq(bytes, all);
        cr_assert(calls < before, "%s: %d calls", cases[x].options, calls);
        if (cases[x].bucket > all)
            cr_assert_eq(calls, 1);
        for (int b = 0; b < t->n_buckets; b++)
            cr_assert(t->buckets[b].members == 1 || t->values[t->buckets[b].value].bytes <= cases[x].bucket);
        before = calls;
        tr_prepared_free(&p);
    }
    tr_prepared_free(&without);
}

Test(policies, forms_are_the_calls_that_they_are_named_for)
{
    struct tr_prepared ring, root, sharded;
    int64_t bytes, part, whole;
    rig_prepare(&ring, "--dp 2");
    rig_prepare(&root, "--dp 2 --dp-reduce root");
    rig_prepare(&sharded, "--dp 2 --dp-reduce sharded");
    int calls = reductions(&ring.tapes->of[0], TR_ALL_REDUCE, &bytes);
    cr_assert_eq(reductions(&root.tapes->of[0], TR_REDUCE, &whole), calls);
    cr_assert_eq(whole, bytes);
    cr_assert_eq(reductions(&root.tapes->of[0], TR_BROADCAST, &whole), calls);
    cr_assert_eq(whole, bytes);
    cr_assert_eq(reductions(&sharded.tapes->of[0], TR_REDUCE_SCATTER, &part), calls);
    cr_assert_eq(part, bytes / 2);
    cr_assert_eq(reductions(&sharded.tapes->of[0], TR_ALL_GATHER, &part), calls);
    cr_assert_eq(part, bytes / 2);
    cr_assert_eq(reductions(&sharded.tapes->of[0], TR_ALL_REDUCE, &part), 0);
    tr_prepared_free(&ring), tr_prepared_free(&root), tr_prepared_free(&sharded);
}

/* All reductions but the last begin while there is something left to compute; each is awaited behind that. */
Test(policies, overlap_begins_reductions_in_the_backward_pass)
{
    static const char *const options[] = { "--dp 2 --micro 2 --overlap", "--dp 2 --bucket 64K --overlap",
        "--dp 2 --micro 4 --zero 1 --overlap", "--dp 2 --dp-reduce root --overlap" };
    for (size_t x = 0; x < sizeof options / sizeof *options; x++) {
        struct tr_prepared p;
        rig_prepare(&p, options[x]);
        const struct tr_tape *t = &p.tapes->of[0];
        int begun = 0, awaited = 0, last_compute = 0;
        for (int n = 0; n < t->n_instrs; n++)
            if (t->instrs[n].code == TR_COMPUTE)
                last_compute = n;
        for (int n = 0; n < t->n_instrs; n++) {
            const struct tr_instr *i = &t->instrs[n];
            begun += i->beside && i->code != TR_WAIT && n < last_compute;
            awaited += i->beside && i->code == TR_WAIT;
            cr_assert(!(i->beside && i->code == TR_WAIT) || n > last_compute);
            cr_assert(i->axes != 1 << TR_DP || i->beside || i->in[0] == i->out[0]);
        }
        cr_assert(awaited == t->n_buckets && begun >= awaited - 2, "%s: %d of %d buckets begin early",
            options[x], begun, t->n_buckets);
        tr_prepared_free(&p);
    }
}

/* With ZeRO-2 a micro-batch's reduction ends one unit later, so that unit computes meanwhile. */
Test(policies, overlap_reduces_each_micro_batch_beside_the_next_unit)
{
    struct tr_prepared p;
    rig_prepare(&p, "--dp 2 --micro 2 --zero 2 --overlap");
    const struct tr_tape *t = &p.tapes->of[0];
    int calls = 0, hidden = 0;
    for (int n = 0; n < t->n_instrs; n++) {
        if (t->instrs[n].code != TR_REDUCE_SCATTER)
            continue;
        int m = n + 1, other = 0;
        for (; !(t->instrs[m].code == TR_WAIT && t->instrs[m].in[0] == t->instrs[n].out[0]); m++)
            other += t->instrs[m].code == TR_COMPUTE && t->instrs[m].unit != t->instrs[n].unit;
        cr_assert(t->instrs[n].beside);
        calls++;
        hidden += other > 0;
    }
    cr_assert(calls > 0 && hidden > calls * 3 / 4, "%d of %d", hidden, calls);
    tr_prepared_free(&p);
}

/* Bytes of a layer's activations in a micro-batch that the forward part makes and a backward part reads. */
static int64_t kept(const struct tr_tape *t)
{
    enum { SECOND_LAYER = 2 };
    int64_t bytes = 0;
    for (int n = 0; n < t->n_values; n++) {
        const struct tr_value *v = &t->values[n];
        if (v->lasts || v->first < 0 || v->shard < 0 || v->memory != TR_MEM_ACTIVATION || v->micro != 0)
            continue;
        const struct tr_instr *made = &t->instrs[v->first];
        if (made->part == TR_F && made->unit == SECOND_LAYER && t->instrs[v->last].part > TR_F)
            bytes += v->bytes;
    }
    return bytes;
}

/* Of gpt:nano with whole sequences: in units of b s h elements, all but the rows' numbers: two pairs of a
 * layer norm's mean and scale, and a number of each head's row of scores. */
Test(policies, recomputation_keeps_what_the_ladder_says)
{
    static const struct {
        const char *options;
        int halves; /* of a unit */
        int statistics; /* divisor of 4 b s; 0: none is kept */
        int rows; /* the same of a b s */
    } cases[] = { { "", 32, 1, 1 }, { "--recompute gelu", 24, 1, 1 }, { "--recompute selective", 22, 1, 0 },
        { "--recompute full", 2, 0, 0 }, { "--tp 2 --recompute selective", 8 + 7, 1, 0 },
        { "--tp 2 --sp --recompute selective", 4 + 9, 2, 0 }, { "--tp 2", 8 + 12, 1, 2 },
        { "--tp 2 --recompute gelu", 8 + 8, 1, 2 }, { "--tp 2 --recompute full", 2, 0, 0 },
        { "--tp 2 --sp", 4 + 14, 2, 2 }, { "--tp 2 --sp --recompute gelu", 4 + 10, 2, 2 },
        { "--tp 2 --sp --recompute full", 1, 0, 0 }, { "--tp 2 --sp --wgrad regather", 16, 2, 2 },
        { "--tp 2 --sp --wgrad regather --recompute selective", 11, 2, 0 },
        { "--tp 2 --recompute full --recompute-comm save", 2 + 2, 0, 0 },
        { "--tp 2 --sp --recompute full --recompute-comm save", 4 + 2, 0, 0 } };
    for (size_t x = 0; x < sizeof cases / sizeof *cases; x++) {
        struct tr_prepared p;
        rig_prepare(&p, cases[x].options);
        const struct tr_graph *g = &p.run.graph;
        int64_t tokens = p.run.plan.batch * g->context, expected = cases[x].halves * tokens * g->channels * 2;
        expected += cases[x].statistics ? 4 * tokens * 4 / cases[x].statistics : 0;
        expected += cases[x].rows ? g->heads * tokens * 4 / cases[x].rows : 0;
        for (int r = 0; r < p.run.plan.mesh.n; r++)
            cr_assert_eq(kept(&p.tapes->of[r]), expected, "%s: %lld bytes, and %lld by the ladder",
                cases[x].options, (long long)kept(&p.tapes->of[r]), (long long)expected);
        tr_prepared_free(&p);
    }
}

/* The same operation on the same numbers: what is computed again has the placements of the first time. */
Test(policies, a_layer_is_computed_again_once_for_each_micro_batch)
{
    struct tr_prepared p;
    rig_prepare(&p, "--tp 2 --sp --pp 2 --micro 4 --schedule zb-h1 --recompute full");
    for (int r = 0; r < 4; r++) {
        const struct tr_tape *t = &p.tapes->of[r];
        int forward = 0, again = 0;
        for (int n = 0; n < t->n_instrs; n++)
            if (t->instrs[n].code == TR_COMPUTE && t->instrs[n].op == TR_ATTENTION) {
                forward += t->instrs[n].part == TR_F;
                again += t->instrs[n].part == TR_I;
            }
        cr_expect_eq(forward, 2 * 4, "rank %d: %d", r, forward);
        cr_expect_eq(again, forward, "rank %d: %d again", r, again);
    }
    tr_prepared_free(&p);
}

/* Collectives over tp in backward parts: those of the forward part, again, but for each layer's last. */
static int calls_backward(const char *options)
{
    struct tr_prepared p;
    int calls = 0;
    rig_prepare(&p, options);
    for (int n = 0; n < p.tapes->of[0].n_instrs; n++)
        calls += p.tapes->of[0].instrs[n].part > TR_F && p.tapes->of[0].instrs[n].axes == 1 << TR_TP;
    tr_prepared_free(&p);
    return calls;
}

Test(policies, saved_collectives_are_not_called_again)
{
    int layers = 4, none = calls_backward("--tp 2"), none_sp = calls_backward("--tp 2 --sp");
    cr_assert_eq(calls_backward("--tp 2 --recompute full"), none + layers);
    cr_assert_eq(calls_backward("--tp 2 --recompute full --recompute-comm save"), none);
    cr_assert_eq(calls_backward("--tp 2 --sp --recompute full"), none_sp + 3 * layers);
    cr_assert_eq(calls_backward("--tp 2 --sp --recompute full --recompute-comm save"), none_sp);
}

/* For the weights of qkv and fc1 in each layer, and of the head. */
Test(policies, regathering_calls_once_more_for_each_weight)
{
    int layers = 4, held = calls_backward("--tp 2 --sp");
    cr_assert_eq(calls_backward("--tp 2 --sp --wgrad regather"), held + 2 * layers + 1);
}

Test(policies, what_does_not_fit_together_is_refused)
{
    static const struct {
        const char *options, *words;
    } cases[] = { { "--zero3-keep --dp 2 --zero 2", "legal with --zero 3" },
        { "--zero 3 --dp 2 --zero3-prefetch -1", "legal are 0 to" },
        { "--dp 2 --dp-reduce star", "legal are ring, root and sharded" },
        { "--dp 2 --zero 1 --bucket 64K", "legal with --zero 0" },
        { "--dp 2 --zero 2 --dp-reduce root", "legal with --zero 0" },
        { "--recompute half", "legal are none, gelu, selective and full" },
        { "--recompute full --recompute-comm keep", "legal are redo and save" },
        { "--recompute gelu --recompute-comm save", "legal with --recompute full" },
        { "--tp 2 --wgrad regather", "legal with --sp and --tp 2 and more" },
        { "--tp 2 --sp --recompute full --recompute-comm save --wgrad regather", "legal with redo" },
        { "--tp 2 --sp --wgrad keep", "legal are hold and regather" },
        { "--dp 2 --bucket big", "a number of bytes, with K, M, G or T" } };
    for (size_t x = 0; x < sizeof cases / sizeof *cases; x++) {
        struct tr_options o;
        struct tr_run r;
        struct tr_error e = { .text = "" };
        bool taken = rig_options(&o, cases[x].options, &e) && tr_run_make(&r, &o, &e);
        cr_assert(!taken, "%s is taken", cases[x].options);
        cr_assert(strstr(e.text, cases[x].words), "%s: %s", cases[x].options, e.text);
    }
}
