/* SPDX-License-Identifier: BSD-3-Clause */
/* facts.c: a run as names and values, and back.
 *
 * Other trainers count in other ways what is one number here: a micro-batch by its sequences or its tokens, a
 * batch by tokens, dp as replicas and shards, the end of a rate's way from where it begins. And what is the
 * name of a model here are switches there, or the only model there is. These are facts as well, which follow
 * from the others. */
#include "training/translate/translate.h"

#include "training/parallel/map.h"

#include <inttypes.h>
#include <stdarg.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *tr_words_get(const struct tr_words *w, const char *name)
{
    for (int i = 0; i < w->n; i++)
        if (!strcmp(w->of[i].name, name))
            return w->of[i].value;
    return NULL;
}

void tr_words_set(struct tr_words *w, const char *name, const char *format, ...)
{
    struct tr_word *to = NULL;
    va_list args;
    for (int i = 0; i < w->n && !to; i++)
        to = strcmp(w->of[i].name, name) ? NULL : &w->of[i];
    if (!to) {
        w->of = tr_grow(w->of, w->n, &w->room, sizeof *w->of);
        to = &w->of[w->n++];
        snprintf(to->name, sizeof to->name, "%s", name);
    }
    va_start(args, format);
    vsnprintf(to->value, sizeof to->value, format, args);
    va_end(args);
}

static void set(struct tr_words *w, const char *name, int64_t value)
{
    tr_words_set(w, name, "%" PRId64, value);
}

/* How a Llama differs from a GPT, for who has a switch for each. */
static const struct {
    const char *name, *gpt, *llama;
} switches[] = { { "norm", "layer", "rms" }, { "positions", "learned", "rope" },
    { "feed-forward", "gelu", "swiglu" }, { "biases", "1", "0" } };
enum { SWITCHES = sizeof switches / sizeof *switches };

static void facts_of_kind(struct tr_words *w, const struct tr_graph *g)
{
    bool llama = g->attention.kv_heads > 0;
    tr_words_set(w, "model", llama ? "llama" : "gpt");
    for (int i = 0; i < SWITCHES; i++)
        tr_words_set(w, switches[i].name, "%s", llama ? switches[i].llama : switches[i].gpt);
    if (!llama)
        return;
    set(w, "grouped", g->attention.kv_heads < g->heads);
    set(w, "kv-heads", g->attention.kv_heads);
    for (int i = 0; i < g->n_tensors; i++)
        if (!strcmp(g->tensors[i].name, "layer0.fc2.weight"))
            set(w, "hidden", g->tensors[i].rows);
}

static void facts_of_model(struct tr_words *w, const struct tr_graph *g)
{
    facts_of_kind(w, g);
    set(w, "layers", g->layers), set(w, "channels", g->channels), set(w, "heads", g->heads);
    set(w, "context", g->context), set(w, "vocabulary", g->vocabulary);
    bool tied = false;
    for (int i = 0; i < g->n_tensors; i++)
        tied |= g->tensors[i].role == TR_PARAMETER && g->tensors[i].values_of != i;
    set(w, "untied", !tied);
    tr_words_set(w, "dropout", "%.9g", g->dropout.part);
    tr_words_set(w, "attention-dropout", "%.9g", g->dropout.part);
    if (!g->experts)
        return;
    set(w, "experts", g->experts), set(w, "top-k", g->choices);
    tr_words_set(w, "capacity-factor", "%.9g", g->capacity);
    tr_words_set(w, "aux-loss", "%.9g", g->balance);
}

static void facts_of_mesh(struct tr_words *w, const struct tr_plan *p)
{
    int dp = tr_data_ranks(p), cp = p->mesh.size[TR_CP] * p->mesh.size[TR_ULYSSES];
    set(w, "ranks", p->mesh.n), set(w, "dp", dp), set(w, "tp", p->mesh.size[TR_TP]),
        set(w, "sp", p->tokens.sp);
    set(w, "pp", p->mesh.size[TR_PP]), set(w, "cp", cp), set(w, "ep", p->mesh.size[TR_EP]);
    set(w, "zero", p->zero.level);
    set(w, "replicas", p->zero.level > 1 ? 1 : dp), set(w, "shards", p->zero.level > 1 ? dp : 1);
    if (p->mesh.size[TR_PP] > 1) {
        tr_words_set(w, "schedule", "%s", p->pipeline.schedule);
        set(w, "slices", p->micros);
    }
    if (p->pipeline.chunks > 1)
        set(w, "chunks", p->pipeline.chunks);
    if (cp > 1) {
        tr_words_set(w, "cp-attention", "%s", tr_cp_form_names[p->tokens.form]);
        tr_words_set(w, "cp-map", "%s", tr_cp_map_names[p->tokens.map]);
    }
}

static void facts_of_rate(struct tr_words *w, const struct tr_optimizer *o)
{
    bool falls = o->curve != TR_CURVE_CONSTANT;
    tr_words_set(w, "rate", "%.9g", o->rate);
    tr_words_set(w, "rate-schedule", "%s", tr_curve_names[o->curve]);
    tr_words_set(w, "rate-end", "%.9g", falls ? o->least : o->rate);
    set(w, "warmup", o->warmup);
    if (!falls)
        return;
    tr_words_set(w, "rate-min", "%.9g", o->least);
    set(w, "rate-steps", o->until), set(w, "falling-steps", o->until - o->warmup);
}

void tr_facts_of(struct tr_words *w, const struct tr_run *run, const struct tr_options *o)
{
    const struct tr_plan *p = &run->plan;
    int64_t micro_batch = tr_micro_batch(p);
    facts_of_model(w, &run->graph);
    facts_of_mesh(w, p);
    set(w, "batch", p->batch), set(w, "micro", p->micros), set(w, "micro-batch", micro_batch);
    set(w, "tokens", p->batch * run->graph.context), set(w, "micro-tokens", micro_batch * run->graph.context);
    tr_words_set(w, "recompute", "%s", tr_recompute_names[p->recompute.what]);
    tr_words_set(w, "offload", "%s", tr_offload_names[p->offload.what < 0 ? 0 : p->offload.what]);
    set(w, "overlap", p->reduce.overlap);
    tr_words_set(w, "precision", "%s", p->numbers.bfloat16 ? "bfloat16" : "float32");
    tr_words_set(w, "optimizer", "%s", p->optimizer.sgd ? "sgd" : "adamw");
    facts_of_rate(w, &p->optimizer);
    if (!p->optimizer.sgd) /* which has no decay here */
        tr_words_set(w, "decay", "%.9g", p->optimizer.decay);
    tr_words_set(w, "clip", "%.9g", p->optimizer.clip);
    set(w, "steps", o->steps), set(w, "seed", o->seed);
}

/* What a fact is without a word of it; the last ones say in another way what others say. */
static const char *const plain[][2] = { { "untied", "0" }, { "dropout", "0" }, { "capacity-factor", "0" },
    { "aux-loss", "0" }, { "dp", "1" }, { "tp", "1" }, { "sp", "0" }, { "pp", "1" }, { "cp", "1" },
    { "ep", "1" }, { "zero", "0" }, { "schedule", "1f1b" }, { "recompute", "none" }, { "offload", "none" },
    { "overlap", "0" }, { "precision", "float32" }, { "optimizer", "adamw" }, { "micro", "1" },
    { "chunks", "1" }, { "warmup", "0" }, { "rate-schedule", "constant" }, { "rate-end", NULL },
    { "falling-steps", NULL }, { "norm", NULL }, { "positions", NULL }, { "feed-forward", NULL },
    { "biases", NULL }, { "attention-dropout", NULL }, { "grouped", NULL }, { "ranks", NULL },
    { "replicas", NULL }, { "shards", NULL }, { "slices", NULL }, { "tokens", NULL },
    { "micro-tokens", NULL }, { "micro-batch", NULL } };

bool tr_fact_is_plain(const struct tr_word *fact)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(fact->name, plain[i][0]))
            return !plain[i][1] || !strcmp(fact->value, plain[i][1]);
    return false;
}

/* ---- back ---- */

/* What is larger than any number of a run is as good as the largest: then sums of few do not overflow. */
static int64_t number(const struct tr_words *w, const char *name, int64_t otherwise)
{
    const int64_t most = (int64_t)1 << 56;
    const char *value = tr_words_get(w, name);
    int64_t n = value ? strtoll(value, NULL, 10) : otherwise;
    return n > most ? most : n < -most ? -most : n;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* A quotient of what was read, or what is taken where it is none. */
static int64_t part(int64_t all, int64_t of, int64_t otherwise)
{
    return of > 0 && all > 0 && all % of == 0 ? all / of : otherwise;
}

/* dp, where it is not said: shards and replicas, or the ranks that are left. */
static int64_t ranks_of_dp(struct tr_words *w, int64_t ranks)
{
    int64_t others = times(times(number(w, "tp", 1), number(w, "pp", 1)), number(w, "cp", 1));
    int64_t replicas = number(w, "replicas", 1), shards = number(w, "shards", 1);
    int64_t left = part(ranks, others, 1);
    if (shards < 0)
        shards = part(left, replicas, 1);
    if (shards > 1 && number(w, "zero", 0) < 2)
        set(w, "zero", 3);
    if (shards == 1 && tr_words_get(w, "shards"))
        set(w, "zero", 0);
    return times(replicas, shards) > 1 ? times(replicas, shards) : left;
}

/* Whether it is a Llama: the only model there, or all switches are a Llama's. Where some are, it is none of
 * the models here, and those are left, as is what the model that is chosen cannot have. */
static bool choose_model(struct tr_words *w, struct tr_words *left)
{
    const char *only = tr_words_get(w, "model"), *is;
    int alike = 0, said = 0;
    for (int i = 0; i < SWITCHES; i++) {
        is = tr_words_get(w, switches[i].name);
        said += is != NULL, alike += is && !strcmp(is, switches[i].llama);
    }
    bool llama = said ? alike == SWITCHES : only && !strcmp(only, "llama");
    for (int i = 0; i < SWITCHES && alike < SWITCHES; i++)
        if ((is = tr_words_get(w, switches[i].name)) && !strcmp(is, switches[i].llama))
            tr_words_set(left, switches[i].name, "%s", is);
    int64_t heads = number(w, "heads", 0), experts = number(w, "experts", 0);
    if (!llama && number(w, "kv-heads", heads) != heads)
        set(left, "kv-heads", number(w, "kv-heads", 0));
    if (!llama && tr_words_get(w, "hidden") && number(w, "hidden", 0) != 4 * number(w, "channels", 0))
        set(left, "hidden", number(w, "hidden", 0));
    if (llama && !number(w, "untied", !said)) /* who has switches shares it unless told not to */
        set(left, "untied", 0);
    if (llama && experts)
        set(left, "experts", experts);
    return llama;
}

/* Here attention has the dropout of the rest. */
static void settle_dropout(const struct tr_words *w, struct tr_words *left)
{
    const char *all = tr_words_get(w, "dropout"), *attention = tr_words_get(w, "attention-dropout");
    if (attention && fabs(strtod(attention, NULL) - (all ? strtod(all, NULL) : 0)) > 0)
        tr_words_set(left, "attention-dropout", "%s", attention);
}

/* A rate that goes down to itself is constant. */
static void settle_rate(struct tr_words *w)
{
    const char *rate = tr_words_get(w, "rate"), *schedule = tr_words_get(w, "rate-schedule");
    if (!tr_words_get(w, "rate-min") && tr_words_get(w, "rate-end"))
        tr_words_set(w, "rate-min", "%s", tr_words_get(w, "rate-end"));
    if (!tr_words_get(w, "rate-steps") && tr_words_get(w, "falling-steps"))
        set(w, "rate-steps", number(w, "falling-steps", 0) + number(w, "warmup", 0));
    const char *least = tr_words_get(w, "rate-min");
    if (schedule && rate && least && strtod(rate, NULL) <= strtod(least, NULL))
        tr_words_set(w, "rate-schedule", "constant");
}

/* What the model or the rate's schedule has no use for. */
static bool is_idle(const struct tr_words *w, const char *name, bool llama)
{
    static const char *const of_llama[] = { "kv-heads", "hidden" };
    static const char *const of_others[] = { "untied", "experts", "top-k", "capacity-factor", "aux-loss" };
    const char *schedule = tr_words_get(w, "rate-schedule");
    bool idle = !strncmp(name, "cp-", 3) && number(w, "cp", 1) == 1;
    if (!strcmp(name, "rate-steps") || !strcmp(name, "rate-min"))
        idle = !schedule || !strcmp(schedule, "constant");
    for (size_t i = 0; i < sizeof of_llama / sizeof *of_llama; i++)
        idle |= !llama && !strcmp(name, of_llama[i]);
    for (size_t i = 0; i < sizeof of_others / sizeof *of_others; i++)
        idle |= llama && !strcmp(name, of_others[i]);
    return idle;
}

void tr_facts_words(
    struct tr_words *options, const struct tr_words *facts, int64_t ranks, struct tr_words *left)
{
    static const char *const order[] = { "layers", "channels", "heads", "kv-heads", "hidden", "context",
        "vocabulary", "untied", "dropout", "experts", "top-k", "capacity-factor", "aux-loss", "dp", "tp",
        "sp", "pp", "schedule", "chunks", "cp", "cp-attention", "cp-map", "ep", "zero", "recompute",
        "offload", "overlap", "precision", "batch", "micro", "steps", "optimizer", "rate", "rate-schedule",
        "warmup", "rate-steps", "rate-min", "decay", "clip", "seed" };
    static const char flags[] = " untied sp overlap ";
    struct tr_words w = { .n = 0 };
    for (int i = 0; i < facts->n; i++)
        tr_words_set(&w, facts->of[i].name, "%s", facts->of[i].value);
    if (!tr_words_get(&w, "dp"))
        set(&w, "dp", ranks_of_dp(&w, ranks));
    int64_t dp = number(&w, "dp", 1), context = number(&w, "context", 0);
    int64_t micro_batch = number(&w, "micro-batch", part(number(&w, "micro-tokens", 0), context, 0));
    int64_t batch = number(&w, "batch", part(number(&w, "tokens", 0), context, 0));
    if (!batch && micro_batch)
        batch = times(times(dp, micro_batch), number(&w, "micro", 1));
    if (batch)
        set(&w, "batch", batch);
    if (!tr_words_get(&w, "micro") && micro_batch)
        set(&w, "micro", part(batch, times(dp, micro_batch), 1));
    const char *schedule = tr_words_get(&w, "schedule");
    if (number(&w, "chunks", 1) > 1 && (!schedule || !strcmp(schedule, "1f1b")))
        tr_words_set(&w, "schedule", "interleaved");
    bool llama = choose_model(&w, left);
    settle_rate(&w);
    settle_dropout(&w, left);
    tr_words_set(options, "model", "%s:nano", llama ? "llama" : number(&w, "experts", 0) ? "moe" : "gpt");
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const char *value = tr_words_get(&w, order[i]);
        struct tr_word fact = { .name = "" };
        snprintf(fact.name, sizeof fact.name, "%s", order[i]);
        snprintf(fact.value, sizeof fact.value, "%s", value ? value : "");
        bool flag = strstr(flags, order[i]) != NULL;
        if (value && !is_idle(&w, order[i], llama) && !tr_fact_is_plain(&fact))
            tr_words_set(options, order[i], "%s", flag ? "" : value);
    }
    free(w.of);
}
