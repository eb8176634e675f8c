/* SPDX-License-Identifier: BSD-3-Clause */
/* guess.c: quick prices and least memory, by formula. */
#include "training/advice/guess.h"

#include "training/advice/network.h"
#include "training/parallel/balance.h"

#include <stdio.h>
#include <string.h>

const char *const tr_order_names[TR_ORDERS] = { "1f1b", "interleaved", "zb-h1" };

static double attention_of(const struct tr_graph *g)
{
    double flops = 0;
    for (int n = 0; n < g->n_forward; n++)
        if (g->nodes[n].unit == 1 && tr_op(g->nodes[n].op)->masked)
            flops += tr_flops(g, &g->nodes[n]);
    return flops;
}

static void count_parameters(struct tr_sketch *s, const struct tr_graph *g)
{
    for (int i = 0; i < g->n_tensors; i++) {
        const struct tr_tensor *t = &g->tensors[i];
        int64_t elements = 1;
        if (t->role != TR_PARAMETER || t->values_of != i)
            continue;
        for (int d = 0; d < t->dims; d++)
            elements *= t->size[d];
        bool layer = t->unit >= 1 && t->unit <= g->layers;
        bool expert = layer && g->experts && (strstr(t->name, "up.") || strstr(t->name, "down."));
        if (!layer)
            s->outside += elements;
        else if (t->unit == 1 && t->dims > 1)
            s->in_layer += elements, s->in_experts += expert ? elements : 0;
    }
}

bool tr_sketch_make(struct tr_sketch *s, const struct tr_options *o, struct tr_error *e)
{
    struct tr_options one;
    struct tr_run run;
    tr_options_default(&one);
    one.model = o->model, one.plan.optimizer = o->plan.optimizer;
    one.plan.batch = 1, one.plan.sizes.dp = 1, one.ranks = 1;
    if (!tr_run_make(&run, &one, e))
        return false;
    const struct tr_graph *g = &run.graph;
    *s = (struct tr_sketch){ .layers = g->layers,
        .channels = g->channels,
        .heads = g->heads,
        .context = g->context,
        .experts = g->experts,
        .batch = o->plan.batch,
        .narrow = o->plan.numbers.bfloat16,
        .sgd = o->plan.optimizer.sgd,
        .free_order = o->plan.numbers.free_order };
    struct tr_stage_costs all;
    int layers = (int)g->layers;
    tr_price_stages(g, &layers, 1, &all);
    double layer = tr_price_layer(g), both = (double)s->layers * layer;
    double of[3] = { all.f, all.i, all.w };
    for (int k = 0; k < 3; k++) {
        double share = all.f > 0 ? both / all.f : 1; /* layers and ends have like shares of each part */
        s->layer[k] = of[k] * share / (double)s->layers, s->ends[k] = of[k] * (1 - share);
    }
    s->attention = attention_of(g);
    count_parameters(s, g);
    tr_run_free(&run);
    return true;
}

/* ---- the least memory ---- */

/* How many sums of micro-batches wait at most: the ones in the binary form of a number below m; in any order
 * one. */
static int waiting_sums(const struct tr_sketch *s, int micros)
{
    int sums = 0;
    while (micros >> (sums + 1))
        sums++;
    return s->free_order && sums ? 1 : sums;
}

/* What the first stage keeps of the micro-batches that are under way when one comes back: of each layer its
 * input at least; without recomputation the inputs of its matrices, too, of which tensor parallelism cuts
 * some, and with sp all. */
static int64_t least_activations(const struct tr_choice *c, const struct tr_sketch *s)
{
    int64_t under_way = (c->micros < c->pp ? c->micros : c->pp) - 1;
    int64_t stream = s->context * s->channels * (s->narrow ? 2 : 4) / c->cp * (s->batch / c->dp / c->micros);
    int64_t each = stream / (c->sp ? c->tp : 1);
    if (c->recompute != TR_RECOMPUTE_FULL)
        each = c->sp ? 8 * stream / c->tp : 4 * stream + 4 * stream / c->tp;
    return s->heads ? under_way * (s->layers / c->pp) * each : 0;
}

/* Of each parameter that a rank has: its value, what AdamW and bfloat16 keep of it, and of gradients the more
 * of two: all are there when the first parameter is updated, since the norm must be known before; and where
 * there are micro-batches, all canonical sums that wait are, in float32, before the last one's backward part.
 * ZeRO 2 and 3 keep parts of those. What is cut over more ranks than divide it counts as cut evenly. */
static int64_t least_memory(const struct tr_choice *c, const struct tr_sketch *s)
{
    int64_t width = s->narrow ? 2 : 4, state = (s->sgd ? 0 : 8) + (s->narrow ? 4 : 0);
    int64_t whole = s->in_layer - s->in_experts;
    int64_t mine = s->layers * (whole / c->tp + s->in_experts / c->tp / c->ep) / c->pp;
    int64_t shares = c->dp * c->cp, sum = mine * 4 / (c->zero >= 2 ? shares : 1);
    int under_way = c->micros > c->pp ? waiting_sums(s, c->micros - c->pp) : 0;
    int64_t waiting = waiting_sums(s, c->micros) * sum, running = under_way * sum + least_activations(c, s);
    int64_t values = mine * width / (c->zero == 3 ? shares : 1),
            states = mine * state / (c->zero ? shares : 1);
    int64_t gradients = mine * width / (c->zero ? shares : 1);
    int64_t most = waiting > gradients ? waiting : gradients;
    return values + states + (most > running ? most : running);
}

/* ---- the price ---- */

struct guessing {
    const struct tr_choice *c;
    const struct tr_sketch *s;
    const struct tr_machine *m;
    struct tr_mesh mesh;
    int64_t width; /* bytes of an element */
};

static double all_reduce(const struct guessing *g, double bytes, int axes)
{
    return tr_call_seconds(g->m, TR_ALL_REDUCE, bytes, tr_spread_of(&g->mesh, g->m, 0, axes));
}

/* Seconds of one micro-batch on the rank that has most: its operations, and the messages within. */
static double micro_seconds(const struct guessing *g, double *compute)
{
    const struct tr_choice *c = g->c;
    const struct tr_sketch *s = g->s;
    double sequences = (double)s->batch / ((double)c->dp * c->micros);
    double layers = (double)s->layers / c->pp, again = 0;
    if (c->recompute == TR_RECOMPUTE_FULL)
        again = s->layer[0];
    else if (c->recompute == TR_RECOMPUTE_SELECTIVE)
        again = s->attention;
    double flops = layers * (s->layer[0] + s->layer[1] + s->layer[2] + again);
    flops += s->ends[0] + s->ends[1] + s->ends[2]; /* the last stage has the head */
    flops *= sequences / (c->tp * c->cp);
    *compute = flops / (g->m->peak[s->narrow] * g->m->efficiency);
    double stream = sequences * (double)(s->context * s->channels * g->width) / c->cp, messages = 0;
    if (c->tp > 1)
        messages += layers * (c->recompute == TR_RECOMPUTE_FULL ? 6 : 4) * all_reduce(g, stream, 1 << TR_TP);
    if (c->cp > 1) /* keys and values, forward, and their gradients back */
        messages += layers * 2 * all_reduce(g, 2 * stream * c->cp / c->tp, 1 << TR_CP);
    if (c->ep > 1)
        messages +=
            layers * 4 *
            tr_call_seconds(g->m, TR_ALL_TO_ALL, 2 * stream, tr_spread_of(&g->mesh, g->m, 0, 1 << TR_EP));
    return *compute + messages;
}

/* What data parallelism sends in a step, as far as the backward pass does not cover it. */
static double data_seconds(const struct guessing *g, double compute)
{
    const struct tr_choice *c = g->c;
    const struct tr_sketch *s = g->s;
    int axes = 1 << TR_DP | 1 << TR_EP | 1 << TR_CP;
    if (c->dp * c->cp == 1)
        return 0;
    double mine = (double)(s->layers * s->in_layer) / ((double)c->pp * c->tp) + (double)s->outside / c->tp;
    double once = all_reduce(g, mine * (double)g->width, axes) / 2; /* a reduce-scatter, or an all-gather */
    double all = c->zero <= 1 ? 2 * once : c->zero == 2 ? (c->micros + 1) * once : 3 * c->micros * once;
    double covered = !c->overlap ? 0 : (c->zero == 3 ? 1 : 0.5) * compute * c->micros;
    if (c->zero == 2 || (c->zero == 1 && c->micros > 1))
        covered = 0;
    return all > covered ? all - covered : 0;
}

void tr_guess(struct tr_choice *c, const struct tr_sketch *s, const struct tr_machine *m)
{
    struct guessing g = { .c = c, .s = s, .m = m, .width = s->narrow ? 2 : 4 };
    int size[TR_AXES] = { c->pp, c->dp / c->ep, c->cp, 1, c->ep, c->tp };
    g.mesh = (struct tr_mesh){ .n = c->pp * c->dp * c->cp * c->tp };
    memcpy(g.mesh.size, size, sizeof size);
    double compute, micro = micro_seconds(&g, &compute);
    double filled = c->pp - 1, chunks = c->order == TR_ORDER_INTERLEAVED ? 2 : 1;
    filled *= c->order == TR_ORDER_ZB_H1 ? 1.0 / 3 : 1 / chunks;
    double hop = 0;
    if (c->pp > 1)
        hop = tr_message_seconds(m,
            (double)s->batch / ((double)c->dp * c->micros) * (double)(s->context * s->channels * g.width) /
                (c->cp * (c->sp ? c->tp : 1)),
            tr_reach_of_stage(&g.mesh, m));
    c->seconds = (c->micros + filled) * micro + 2 * (c->pp - 1) * hop + data_seconds(&g, compute);
    c->least = least_memory(c, s);
}

/* ---- choices ---- */

static bool power_of_two(int64_t n)
{
    return n > 0 && !(n & (n - 1));
}

bool tr_choice_divides(const struct tr_choice *c, const struct tr_sketch *s)
{
    int chunks = c->order == TR_ORDER_INTERLEAVED ? 2 : 1;
    if (s->batch % c->dp || s->batch / c->dp % c->micros || s->layers % (c->pp * chunks))
        return false;
    if (s->heads ? s->heads % c->tp != 0 : c->cp > 1)
        return false;
    int64_t each = s->batch / c->dp / c->micros;
    bool once = c->zero < 2 && c->ep == 1;
    if (c->dp > 1 && !power_of_two(once ? s->batch / c->dp : each * c->dp))
        return false;
    if (c->zero && (c->dp == 1 || c->dp * c->tp > TR_NORM_LEAVES || !power_of_two(c->dp)))
        return false;
    if (c->sp && c->cp * c->tp > TR_BLOCKS)
        return false;
    if ((c->sp && c->tp == 1) || (c->ep > 1 && (!s->experts || c->dp % c->ep || s->experts % c->ep)))
        return false;
    if (c->order != TR_ORDER_1F1B && c->pp == 1)
        return false;
    return chunks == 1 || c->micros % c->pp == 0;
}

/* Gradients that are reduced once, and not to the parts of ZeRO, go together: each alone pays a call. */
static bool has_buckets(const struct tr_choice *c)
{
    return c->dp * c->cp > 1 && c->zero == 0 && c->ep == 1;
}

static bool has_prefetch(const struct tr_choice *c)
{
    return c->zero == 3 && c->overlap;
}

void tr_choice_options(struct tr_options *to, const struct tr_options *base, const struct tr_choice *c)
{
    *to = *base;
    struct tr_plan *p = &to->plan;
    p->sizes.pp = c->pp, p->sizes.dp = c->dp, p->sizes.cp = c->cp, p->sizes.ep = c->ep, p->sizes.tp = c->tp;
    to->ranks = (long)c->pp * c->dp * c->cp * c->tp;
    p->micros = c->micros, p->zero.level = c->zero;
    p->recompute.what = (enum tr_recompute)c->recompute, p->tokens.sp = c->sp;
    p->pipeline.chunks = c->order == TR_ORDER_INTERLEAVED ? 2 : 1;
    if (c->pp > 1)
        snprintf(p->pipeline.schedule, sizeof p->pipeline.schedule, "%s", tr_order_names[c->order]);
    p->reduce.overlap |= c->overlap;
    p->reduce.bucket = has_buckets(c) ? TR_BUCKET : 0;
    p->zero.prefetch = has_prefetch(c);
}

const char *tr_choice_text(const struct tr_choice *c, char text[160])
{
    const struct {
        const char *name;
        int value, none;
    } of[] = { { "dp", c->dp, 1 }, { "tp", c->tp, 1 }, { "pp", c->pp, 1 }, { "cp", c->cp, 1 },
        { "ep", c->ep, 1 }, { "micro", c->micros, 1 }, { "zero", c->zero, 0 } };
    int used = 0;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i].value != of[i].none)
            used += snprintf(
                text + used, 160 - (size_t)used, "%s--%s %d", used ? " " : "", of[i].name, of[i].value);
    if (c->pp > 1)
        used += snprintf(text + used, 160 - (size_t)used, " --schedule %s%s", tr_order_names[c->order],
            c->order == TR_ORDER_INTERLEAVED ? " --chunks 2" : "");
    if (c->recompute)
        used += snprintf(text + used, 160 - (size_t)used, "%s--recompute %s", used ? " " : "",
            tr_recompute_names[c->recompute]);
    if (c->sp)
        used += snprintf(text + used, 160 - (size_t)used, " --sp");
    if (c->overlap)
        used += snprintf(text + used, 160 - (size_t)used, " --overlap");
    if (has_buckets(c))
        used += snprintf(text + used, 160 - (size_t)used, " --bucket %dM", TR_BUCKET >> 20);
    if (has_prefetch(c))
        used += snprintf(text + used, 160 - (size_t)used, " --zero3-prefetch 1");
    if (!used)
        snprintf(text, 160, "one rank");
    return text;
}
