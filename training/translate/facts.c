/* SPDX-License-Identifier: BSD-3-Clause */
/* facts.c: a run as names and values, and back.
 *
 * Other trainers count in other ways what is one number here: a micro-batch by its sequences or its tokens, a
 * batch by tokens, dp as replicas and shards. These are facts as well, which follow from the others. */
#include "training/translate/translate.h"

#include "training/parallel/map.h"

#include <inttypes.h>
#include <stdarg.h>
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

static void facts_of_model(struct tr_words *w, const struct tr_graph *g)
{
    set(w, "layers", g->layers), set(w, "channels", g->channels), set(w, "heads", g->heads);
    set(w, "context", g->context), set(w, "vocabulary", g->vocabulary);
    bool tied = false;
    for (int i = 0; i < g->n_tensors; i++)
        tied |= g->tensors[i].role == TR_PARAMETER && g->tensors[i].values_of != i;
    set(w, "untied", !tied);
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
    tr_words_set(w, "rate", "%.9g", p->optimizer.rate);
    if (!p->optimizer.sgd) /* which has no decay here */
        tr_words_set(w, "decay", "%.9g", p->optimizer.decay);
    tr_words_set(w, "clip", "%.9g", p->optimizer.clip);
    set(w, "steps", o->steps), set(w, "seed", o->seed);
}

/* What a fact is without a word of it; the last ones say in another way what others say. */
static const char *const plain[][2] = { { "untied", "0" }, { "capacity-factor", "0" }, { "aux-loss", "0" },
    { "dp", "1" }, { "tp", "1" }, { "sp", "0" }, { "pp", "1" }, { "cp", "1" }, { "ep", "1" }, { "zero", "0" },
    { "schedule", "1f1b" }, { "recompute", "none" }, { "offload", "none" }, { "overlap", "0" },
    { "precision", "float32" }, { "optimizer", "adamw" }, { "micro", "1" }, { "chunks", "1" },
    { "ranks", NULL }, { "replicas", NULL }, { "shards", NULL }, { "slices", NULL }, { "tokens", NULL },
    { "micro-tokens", NULL }, { "micro-batch", NULL } };

bool tr_fact_is_plain(const struct tr_word *fact)
{
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!strcmp(fact->name, plain[i][0]))
            return !plain[i][1] || !strcmp(fact->value, plain[i][1]);
    return false;
}

/* ---- back ---- */

static int64_t number(const struct tr_words *w, const char *name, int64_t otherwise)
{
    const char *value = tr_words_get(w, name);
    return value ? strtoll(value, NULL, 10) : otherwise;
}

/* A quotient of what was read, or what is taken where it is none. */
static int64_t part(int64_t all, int64_t of, int64_t otherwise)
{
    return of > 0 && all > 0 && all % of == 0 ? all / of : otherwise;
}

/* dp, where it is not said: shards and replicas, or the ranks that are left. */
static int64_t ranks_of_dp(struct tr_words *w, int64_t ranks)
{
    int64_t others = number(w, "tp", 1) * number(w, "pp", 1) * number(w, "cp", 1);
    int64_t replicas = number(w, "replicas", 1), shards = number(w, "shards", 1);
    int64_t left = part(ranks, others, 1);
    if (shards < 0)
        shards = part(left, replicas, 1);
    if (shards > 1 && number(w, "zero", 0) < 2)
        set(w, "zero", 3);
    if (shards == 1 && tr_words_get(w, "shards"))
        set(w, "zero", 0);
    return replicas * shards > 1 ? replicas * shards : left;
}

void tr_facts_words(struct tr_words *options, const struct tr_words *facts, int64_t ranks)
{
    static const char *const order[] = { "layers", "channels", "heads", "context", "vocabulary", "untied",
        "experts", "top-k", "capacity-factor", "aux-loss", "dp", "tp", "sp", "pp", "schedule", "chunks", "cp",
        "cp-attention", "cp-map", "ep", "zero", "recompute", "offload", "overlap", "precision", "batch",
        "micro", "steps", "optimizer", "rate", "decay", "clip", "seed" };
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
        batch = dp * micro_batch * number(&w, "micro", 1);
    if (batch)
        set(&w, "batch", batch);
    if (!tr_words_get(&w, "micro") && micro_batch)
        set(&w, "micro", part(batch, dp * micro_batch, 1));
    const char *schedule = tr_words_get(&w, "schedule");
    if (number(&w, "chunks", 1) > 1 && (!schedule || !strcmp(schedule, "1f1b")))
        tr_words_set(&w, "schedule", "interleaved");
    tr_words_set(options, "model", "%s", number(&w, "experts", 0) ? "moe:nano" : "gpt:nano");
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const char *value = tr_words_get(&w, order[i]);
        struct tr_word fact = { .name = "" };
        snprintf(fact.name, sizeof fact.name, "%s", order[i]);
        snprintf(fact.value, sizeof fact.value, "%s", value ? value : "");
        bool flag = strstr(flags, order[i]) != NULL;
        bool idle = !strncmp(order[i], "cp-", 3) && number(&w, "cp", 1) == 1;
        if (value && !idle && !tr_fact_is_plain(&fact))
            tr_words_set(options, order[i], "%s", flag ? "" : value);
    }
    free(w.of);
}
