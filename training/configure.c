/* SPDX-License-Identifier: BSD-3-Clause */
/* configure.c: the run that the options describe: a model, a plan for a mesh, a schedule. */
#include "training/options.h"

#include "training/kernels/openblas.h"
#include "training/parallel/balance.h"

#include <stdlib.h>
#include <string.h>

/* Which of the names the value is; no option's value is guessed. */
static bool choose(
    int *which, const char *option, const char *value, const char *const *names, int n, struct tr_error *e)
{
    char legal[200] = "";
    for (int i = 0; i < n; i++) {
        if (!strcmp(value, names[i])) {
            *which = i;
            return true;
        }
        snprintf(legal + strlen(legal), sizeof legal - strlen(legal), "%s%s",
            i == 0       ? ""
            : i + 1 == n ? " and "
                         : ", ",
            names[i]);
    }
    return tr_fail(e, "--%s %s: legal are %s", option, value, legal);
}

bool tr_options_any_order(const struct tr_options *o)
{
    return !strcmp(o->order, "free");
}

const struct tr_kernels *tr_options_kernels(const struct tr_options *o, struct tr_error *e)
{
    const struct tr_kernels *k = *o->kernels ? tr_kernels_named(o->kernels) : tr_kernels_best();
    if (!k)
        tr_fail(e, "--kernels %s: legal are generic, avx2, avx512, where the machine has them", o->kernels);
    return k && tr_options_any_order(o) ? tr_kernels_free(k) : k;
}

struct model {
    const char *name;
    int64_t layers, channels, heads, context, inputs, vocabulary, grid, experts, choices;
};

static const struct model models[] = {
    { "gpt:nano", 4, 64, 4, 64, 0, 256, 0, 0, 0 },
    { "gpt:nano8", 8, 64, 8, 64, 0, 256, 0, 0, 0 },
    { "gpt:micro", 6, 128, 8, 128, 0, 256, 0, 0, 0 },
    { "gpt:small", 8, 256, 8, 256, 0, 256, 0, 0, 0 },
    { "mlp:nano", 4, 64, 0, 0, 32, 10, 0, 0, 0 },
    { "mlp:micro", 8, 256, 0, 0, 256, 100, 0, 0, 0 },
    { "cnn:nano", 4, 64, 0, 0, 4, 10, 8, 0, 0 },
    { "cnn:micro", 6, 128, 0, 0, 4, 16, 16, 0, 0 },
    { "moe:nano", 4, 64, 4, 64, 0, 256, 0, 8, 2 },
    { "moe:micro", 6, 128, 8, 128, 0, 256, 0, 16, 2 },
};

/* An option of the other model would be ignored without a word, so it is refused. */
static bool has_options(const struct model *m, const struct tr_options *o, struct tr_error *e)
{
    const char *foreign = NULL;
    const char *of_experts = o->experts               ? "experts"
                             : o->top_k               ? "top-k"
                             : o->capacity_factor > 0 ? "capacity-factor"
                             : o->aux_loss > 0        ? "aux-loss"
                                                      : NULL;
    if (!m->experts && of_experts)
        return tr_fail(
            e, "--%s: %s has no experts; legal with --model moe:nano or moe:micro", of_experts, m->name);
    if (m->inputs == 0)
        foreign = o->inputs ? "inputs" : NULL;
    else if (!m->grid && *o->data && strcmp(o->data, "grammar"))
        return tr_fail(e, "--data %s: %s learns rows that are made up; leave --data out", o->data, m->name);
    else if (m->grid && o->sp)
        return tr_fail(e, "--sp: %s has no stream of tokens that it could cut; leave --sp out", m->name);
    else
        foreign = o->heads               ? "heads"
                  : o->context           ? "context"
                  : o->untied            ? "untied"
                  : m->grid && o->inputs ? "inputs"
                                         : NULL;
    return !foreign || tr_fail(e, "--%s is no option of %s, which has --layers, --channels, --vocabulary%s",
                           foreign, m->name,
                           m->grid     ? ", --grid and --norm"
                           : m->inputs ? " and --inputs"
                                       : ", --heads, --context and --untied");
}

/* Parts of the keys that go round a ring; 0: none does. */
static int ring_parts(const struct tr_options *o)
{
    bool ring = !strcmp(o->cp_attention, tr_cp_form_names[TR_CP_RING]),
         two = !strcmp(o->cp_attention, tr_cp_form_names[TR_CP_TWO]);
    ring |= !strcmp(o->cp_attention, tr_cp_form_names[TR_CP_SCORES]);
    if (o->cp == 1 || o->cp > TR_BLOCKS || (!ring && !two))
        return 0;
    return (int)(ring ? o->cp : o->cp / (o->cp_ulysses ? o->cp_ulysses : 2));
}

static const struct model *model_of(const struct tr_options *o)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(o->model, models[i].name))
            return &models[i];
    return NULL;
}

static bool make_model(struct tr_graph *g, const struct tr_options *o, struct tr_error *e)
{
    const struct model *m = model_of(o);
    if (!m)
        return tr_fail(e, "--model %s: legal are " TR_MODELS, o->model);
    struct tr_model_options sizes = { .layers = o->layers ? o->layers : m->layers,
        .channels = o->channels ? o->channels : m->channels,
        .heads = o->heads ? o->heads : m->heads,
        .context = o->context ? o->context : m->context,
        .inputs = o->inputs ? o->inputs : m->inputs,
        .vocabulary = o->vocabulary ? o->vocabulary : m->vocabulary,
        .experts = o->experts && m->experts ? o->experts : m->experts,
        .choices = o->top_k && m->experts ? o->top_k : m->choices,
        .capacity = o->capacity_factor,
        .balance = o->aux_loss,
        .untied = o->untied,
        .leaves = o->cp > 1                          ? TR_ALL_AS_LEAVES
                  : m->experts && o->sp && o->tp > 1 ? TR_EXPERTS_AS_LEAVES
                                                     : TR_NONE_AS_LEAVES,
        .separate_kv = o->cp > 1 && !strcmp(o->cp_attention, tr_cp_form_names[TR_CP_GATHER]),
        .parts = ring_parts(o),
        .scores = o->cp > 1 && !strcmp(o->cp_attention, tr_cp_form_names[TR_CP_SCORES]),
        .windows = o->cp > 1 && !strcmp(o->cp_attention, tr_cp_form_names[TR_CP_LOCAL]) ? (int)o->cp : 0 };
    return has_options(m, o, e) && tr_cnn_options(&sizes, o, m->name, m->grid, e) &&
           (m->grid        ? tr_model_cnn
               : m->inputs ? tr_model_mlp
                           : tr_model_gpt)(g, &sizes, e);
}

/* Ranks are workers and servers. */
static bool count_workers(long *dp, const struct tr_options *o, struct tr_error *e)
{
    *dp = o->dp ? o->dp : o->ranks > o->servers ? o->ranks - o->servers : 1;
    if (o->ranks == 0 || *dp + o->servers == o->ranks)
        return true;
    if (o->ranks <= o->servers)
        return tr_fail(e, "%ld rank%s, and --servers %ld: there is no worker", o->ranks,
                   o->ranks == 1 ? "" : "s", o->servers) ||
               tr_offer(e, "ranks", o->servers + 1);
    return tr_fail(e, "%ld ranks, but %ld workers (--dp) and %ld servers are %ld", o->ranks, *dp, o->servers,
               *dp + o->servers) ||
           tr_offer(e, "ranks", *dp + o->servers) || tr_offer(e, "dp", o->ranks - o->servers);
}

/* How many data-parallel ranks there are beside the other axes. */
static bool count_dp(long *dp, const struct tr_options *o, struct tr_error *e)
{
    enum { MOST_RANKS = 1 << 20 };
    bool small = o->pp <= MOST_RANKS && o->cp <= MOST_RANKS && o->tp <= MOST_RANKS;
    long others = small ? o->pp * o->cp * o->tp : MOST_RANKS + 1;
    char cp[32] = "";
    if (others > MOST_RANKS)
        return tr_fail(e, "--pp %ld --cp %ld --tp %ld: legal are 1 and more, and %d in all", o->pp, o->cp,
            o->tp, MOST_RANKS);
    if (o->chunks > MOST_RANKS / o->pp)
        return tr_fail(
            e, "--pp %ld --chunks %ld: legal are %d stages in all at most", o->pp, o->chunks, MOST_RANKS);
    if (o->servers)
        return count_workers(dp, o, e);
    *dp = o->dp ? o->dp : o->ranks > others ? o->ranks / others : 1;
    if (o->ranks == 0 || *dp * others == o->ranks)
        return true;
    if (o->cp > 1)
        snprintf(cp, sizeof cp, " x cp %ld", o->cp);
    tr_fail(e, "%ld rank%s, but dp %ld x tp %ld x pp %ld%s is %ld", o->ranks, o->ranks == 1 ? "" : "s", *dp,
        o->tp, o->pp, cp, *dp * others);
    return tr_offer(e, "ranks", *dp * others) ||
           (o->ranks % others == 0 && tr_offer(e, "dp", o->ranks / others));
}

/* Ranks of a group inside cp that exchange tokens for heads, where there are two levels. */
static bool ulysses_inside(long *inside, const struct tr_options *o, struct tr_error *e)
{
    bool two = !strcmp(o->cp_attention, tr_cp_form_names[TR_CP_TWO]);
    if (!two && o->cp_ulysses)
        return tr_fail(e, "--cp-ulysses %ld is for --cp-attention ulysses+ring; --cp-attention is %s",
            o->cp_ulysses, o->cp_attention);
    if (!two || o->cp == 1)
        return true;
    *inside = o->cp_ulysses ? o->cp_ulysses : 2;
    return (o->cp % *inside == 0 && *inside > 1 && *inside < o->cp) ||
           tr_fail(e,
               "--cp %ld --cp-attention ulysses+ring with --cp-ulysses %ld: groups are parts of cp that "
               "leave a ring of two and more",
               o->cp, *inside) ||
           tr_offer_divisors(e, "cp-ulysses", o->cp < TR_BLOCKS ? o->cp : TR_BLOCKS) ||
           tr_offer_divisors(e, "cp", TR_BLOCKS);
}

/* What servers do, if there are any. */
static bool serve(struct tr_plan *p, const struct tr_options *o, struct tr_error *e)
{
    static const char *const modes[] = { "sync", "async" };
    int mode = 0;
    if (!choose(&mode, "server-mode", o->server_mode, modes, 2, e))
        return false;
    p->servers.async = mode, p->servers.staleness = o->staleness;
    p->servers.live = mode && !strcmp(o->arrivals, "live");
    return true;
}

static bool choose_precision(struct tr_plan *p, const struct tr_options *o, struct tr_error *e)
{
    static const char *const precisions[] = { "float32", "bfloat16" }, *const roundings[] = { "nearest",
        "stochastic" };
    int bfloat16 = 0, stochastic = 0;
    if (!choose(&bfloat16, "precision", o->precision, precisions, 2, e) ||
        !choose(&stochastic, "rounding", o->rounding, roundings, 2, e))
        return false;
    p->numbers.bfloat16 = bfloat16, p->numbers.stochastic = stochastic;
    return true;
}

bool tr_options_mesh(struct tr_mesh *m, const struct tr_options *o, struct tr_error *e)
{
    long dp = 1, inside = 1;
    if (!count_dp(&dp, o, e) || !ulysses_inside(&inside, o, e) || !tr_expert_divides(dp, o->ep, e))
        return false;
    int size[TR_AXES] = { (int)o->pp, (int)(dp / o->ep), (int)(o->cp / inside), (int)inside, (int)o->ep,
        (int)o->tp };
    return tr_mesh_make(m, size, (int)o->servers, e);
}

static bool plan(struct tr_plan *p, const struct tr_options *o, struct tr_error *e)
{
    struct tr_mesh mesh;
    if (!tr_options_mesh(&mesh, o, e))
        return false;
    *p = (struct tr_plan){ .mesh = mesh,
        .batch = (int)o->batch,
        .micros = (int)o->micro,
        .pipeline = { .chunks = (int)o->chunks },
        .reduce = { .overlap = o->overlap },
        .zero = { .level = (int)o->zero,
            .keep = o->zero3_keep,
            .prefetch = (int)o->zero3_prefetch,
            .persist = o->zero3_persist },
        .offload = { .threads = (int)o->optimizer_threads, .delay = (int)o->offload_delay },
        .optimizer = { .rate = o->rate, .decay = o->decay, .clip = o->clip } };
    snprintf(p->pipeline.schedule, sizeof p->pipeline.schedule, "%.31s", o->schedule);
    p->paradigms[p->n_paradigms++] = &tr_data_parallel;
    p->paradigms[p->n_paradigms++] = &tr_tensor_parallel;
    int split = 0;
    if (!choose(&split, "conv-split", o->conv_split, tr_conv_split_names, TR_CONV_SPLITS, e))
        return false;
    if (split)
        p->paradigms[p->n_paradigms++] =
            split == TR_CONV_FILTERS ? &tr_filter_parallel : &tr_channel_parallel;
    if (o->ep > 1)
        p->paradigms[p->n_paradigms++] = &tr_expert_parallel;
    if (o->sp)
        p->paradigms[p->n_paradigms++] = &tr_sequence_parallel;
    static const char *const optimizers[] = { "adamw", "sgd" }, *const orders[] = { "canonical", "free" },
                             *const comms[] = { "redo", "save" }, *const wgrads[] = { "hold", "regather" };
    int dp_form = 0, offload = 0, recompute = 0, saves = 0, wgrad = 0, cp_form = 0, cp_map = 0, sgd = 0,
        free_order = 0, async = 0;
    if (!choose(&dp_form, "dp-reduce", o->dp_reduce, tr_dp_form_names, TR_DP_FORMS, e) ||
        !choose(&offload, "offload", *o->offload ? o->offload : "none", tr_offload_names, TR_OFFLOADS, e) ||
        !choose(&recompute, "recompute", o->recompute, tr_recompute_names, TR_RECOMPUTES, e) ||
        !choose(&saves, "recompute-comm", o->recompute_comm, comms, 2, e) ||
        !choose(&wgrad, "wgrad", o->wgrad, wgrads, 2, e) ||
        !choose(&cp_form, "cp-attention", o->cp_attention, tr_cp_form_names, TR_CP_FORMS, e) ||
        !choose(&cp_map, "cp-map", o->cp_map, tr_cp_map_names, TR_CP_MAPS, e) ||
        !choose(&sgd, "optimizer", o->optimizer, optimizers, 2, e) ||
        !choose(&free_order, "order", o->order, orders, 2, e) ||
        !choose(&async, "async", o->async, tr_async_names, TR_ASYNCS, e))
        return false;
    p->pipeline.async = async;
    p->reduce.form = dp_form, p->recompute.what = recompute, p->recompute.saves = saves,
    p->tokens.form = cp_form;
    p->tokens.map = cp_map;
    p->offload.what = offload, p->recompute.regathers = wgrad;
    p->optimizer.sgd = sgd, p->numbers.free_order = free_order;
    p->tokens.space = model_of(o) && model_of(o)->grid;
    p->paradigms[p->n_paradigms++] = tr_context_table(p);
    if (p->tokens.form == TR_CP_TWO)
        p->paradigms[p->n_paradigms++] = &tr_context_inside;
    if (*o->bucket && !tr_parse_bytes(o->bucket, &p->reduce.bucket))
        return tr_fail(e, "--bucket %s: legal is a number of bytes, with K, M, G or T", o->bucket);
    return choose_precision(p, o, e) && serve(p, o, e);
}

static bool schedule(struct tr_run *r, const struct tr_options *o, struct tr_error *e)
{
    const char *dot = strrchr(o->schedule, '.');
    if (!dot || strcmp(dot, ".csv"))
        return tr_schedule_make(
            &r->schedule, o->schedule, r->plan.mesh.size[TR_PP], r->plan.pipeline.chunks, r->plan.micros, e);
    FILE *file = fopen(o->schedule, "r");
    if (!file)
        return tr_fail(e, "--schedule %s: the file cannot be read", o->schedule);
    struct tr_error why;
    bool ok =
        tr_schedule_read(&r->schedule, file, o->schedule, &why) && tr_schedule_check(&r->schedule, &why);
    fclose(file);
    return ok || tr_fail(e, "--schedule %s: %.900s", o->schedule, why.text);
}

static bool make(struct tr_run *r, const struct tr_options *o, struct tr_error *e)
{
    *r = (struct tr_run){ .plan = { .batch = 0 } };
    if (!plan(&r->plan, o, e) || !make_model(&r->graph, o, e))
        return false;
    if (tr_cut_layers(r->plan.pipeline.stage_layers, &r->graph,
            r->plan.mesh.size[TR_PP] * r->plan.pipeline.chunks, o->stage_layers, o->balance, e) &&
        tr_plan_check(&r->plan, &r->graph, e) && schedule(r, o, e)) {
        r->plan.pipeline.vee = r->schedule.vee,
        r->plan.pipeline.no_flush = r->schedule.no_flush && r->plan.mesh.size[TR_PP] > 1;
        if (!r->plan.pipeline.no_flush || r->plan.optimizer.clip == 0)
            return true;
        tr_fail(e,
            "--schedule %s with --clip %g: its ranks update before the norm of the whole gradient is known; "
            "legal is --clip 0, which does not clip",
            o->schedule, r->plan.optimizer.clip);
        tr_schedule_free(&r->schedule);
    }
    tr_graph_free(&r->graph);
    return false;
}

static bool is_legal(const struct tr_options *o, const char *option, long value, struct tr_error *why)
{
    struct tr_options other = *o;
    struct tr_run r;
    char name[32], number[24], *words[] = { name, number };
    snprintf(name, sizeof name, "--%s", option);
    snprintf(number, sizeof number, "%ld", value);
    if (!tr_options_parse(&other, 2, words, why) || !make(&r, &other, why))
        return false;
    tr_run_free(&r);
    return true;
}

/* "; legal: --dp 1, 5 or --batch 8": of the values that were offered those with which all else may stay. */
static void name_legal(const struct tr_options *o, struct tr_error *e)
{
    size_t used = strlen(e->text), room = sizeof e->text;
    const char *before = "; legal: ";
    struct tr_error why, first = { .text = "" };
    for (int i = 0; i < e->n_offers; i++) {
        const struct tr_offer *offer = &e->offers[i];
        int named = 0;
        for (int n = 0; n < offer->n && used + 64 < room; n++) {
            if (!is_legal(o, offer->option, offer->values[n], &why)) {
                first = *first.text ? first : why;
                continue;
            }
            if (named++ == 0)
                used += (size_t)snprintf(e->text + used, room - used, "%s--%s", before, offer->option);
            used += (size_t)snprintf(
                e->text + used, room - used, "%s %ld", named > 1 ? "," : "", offer->values[n]);
            before = " or ";
        }
    }
    if (e->n_offers && *before == ';')
        snprintf(e->text + used, room - used,
            "; no other --%s alone makes it legal, for with --%s %ld: %.400s", e->offers[0].option,
            e->offers[0].option, e->offers[0].values[0], first.text);
}

bool tr_run_make(struct tr_run *r, const struct tr_options *o, struct tr_error *e)
{
    e->n_offers = 0;
    if (make(r, o, e))
        return true;
    name_legal(o, e);
    return false;
}

void tr_run_free(struct tr_run *r)
{
    tr_graph_free(&r->graph);
    tr_schedule_free(&r->schedule);
}
