/* SPDX-License-Identifier: BSD-3-Clause */
/* pipeline.c: layers on ranks one after the other, in stages; and asynchronous pipelines: how many updates a
 * step makes, how old weights are, and what fits them. schedule/ has the order of the parts, balance.c the
 * layers of the stages, and passes/versions.c says which version of the weights each part reads. */
#include "training/parallel/registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- model parallel: stages ---- */

static const struct tr_option of_stages[] = {
    { "pp", TR_WHOLE, TR_PLAN(sizes.pp), "pipeline stages", .least = 1 },
    { "chunks", TR_WHOLE, TR_PLAN(pipeline.chunks),
        "stages of a rank, for --schedule interleaved; dualpipev: 2", .least = 1 },
};

static bool has_stages(const struct tr_plan *p)
{
    return p->sizes.pp > 1;
}

static void cut_layers(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room)
{
    snprintf(to, room,
        "the list of %" PRId64 " layers: %d ranks have some each, the first also the embedding", g->layers,
        p->mesh.size[TR_PP]);
}

static bool check_stages(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int stages = p->mesh.size[TR_PP] * p->pipeline.chunks;
    if (p->pipeline.stage_layers[0] == 0 && g->layers % stages)
        return tr_fail(e, "--pp %d with --chunks %d: %d stages do not divide %lld layers",
                   p->mesh.size[TR_PP], p->pipeline.chunks, stages, (long long)g->layers) ||
               tr_offer_divisors(e, "pp", (long)g->layers) || tr_offer_divisors(e, "chunks", (long)g->layers);
    return true;
}

const struct tr_paradigm tr_model_parallel = { .word = "mp",
    .name = "model parallel",
    .axis = TR_PP,
    TR_OPTIONS(of_stages),
    .compared = { { "naive pipeline", "--pp N --schedule naive" }, { "gpipe", "--pp N --schedule gpipe" },
        { "1f1b", "--pp N --schedule 1f1b" }, { "interleaved", "--pp N --chunks 2 --schedule interleaved" },
        { "zb-h1", "--pp N --schedule zb-h1" } },
    .check = check_stages,
    .cuts = cut_layers,
    .when = "the model fits no rank, a layer does, and links are slow" };

/* ---- pipelines: micro-batches in an order ---- */

static const struct tr_option of_micros[] = {
    { "micro", TR_WHOLE, TR_PLAN(micros), "micro-batches of a step", .least = 1 },
};

const struct tr_paradigm tr_micro_batches = { .name = "micro-batches", TR_OPTIONS(of_micros) };

static const struct tr_option of_order[] = {
    { "stage-layers", TR_TEXT, TR_PLAN(pipeline.list),
        "layers of each stage, as 1,1,1,5; without it all alike" },
    { "balance", TR_CHOICE, TR_PLAN(pipeline.balance),
        "layers of the stages: even; auto by FLOPs, or measured by times", TR_NAMES(tr_balance_names) },
    { "schedule", TR_TEXT, TR_PLAN(pipeline.schedule),
        "naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, dualpipev, or a CSV file" },
};

const struct tr_paradigm tr_pipeline_parallel = {
    .name = "pipeline", TR_OPTIONS(of_order), .asked = has_stages
};

/* ---- asynchronous ---- */

const char *const tr_async_names[TR_ASYNCS] = { "off", "stash", "two", "newest" };

static const struct tr_option of_async[] = {
    { "async", TR_CHOICE, TR_PLAN(pipeline.async),
        "each stage updates its weights at once: stash, two, newest; or off", TR_NAMES(tr_async_names) },
};

int tr_update_micros(const struct tr_plan *p)
{
    return p->pipeline.async == TR_ASYNC_OFF   ? p->micros
           : p->pipeline.async == TR_ASYNC_TWO ? p->mesh.size[TR_PP]
                                               : 1;
}

int tr_updates(const struct tr_plan *p)
{
    return p->micros / tr_update_micros(p);
}

static bool check_others(const struct tr_plan *p, struct tr_error *e)
{
    const char *name = tr_async_names[p->pipeline.async];
    if (p->optimizer.clip > 0)
        return tr_fail(e,
            "--async %s with --clip %g: the norm of the gradient is known when all stages have theirs, and "
            "each has updated its weights by then; legal is --clip 0, which clips nothing",
            name, p->optimizer.clip);
    if (p->zero.level > 1)
        return tr_fail(e,
            "--async %s with --zero %d: a stage keeps several versions of whole weights, and a gradient no "
            "longer than until its own update, so there is nothing more to cut; legal are --zero 0 and 1, "
            "which cuts the optimizer's states",
            name, p->zero.level);
    if (p->offload.what & TR_OFFLOAD_OPTIMIZER)
        return tr_fail(e,
            "--async %s with --offload %s: the host has one version of the weights; legal are --offload none "
            "and activations",
            name, tr_offload_names[p->offload.what]);
    if (p->reduce.bucket || p->reduce.overlap || p->reduce.form != TR_DP_RING)
        return tr_fail(e,
            "--async %s reduces the gradients of each mini-batch when they are there; --bucket, --overlap "
            "and --dp-reduce are legal with --async off",
            name);
    if (p->recompute.what != TR_RECOMPUTE_NONE && p->pipeline.async == TR_ASYNC_NEWEST)
        return tr_fail(e,
            "--async newest with --recompute %s: an activation would be computed again with newer weights; "
            "legal are --async stash and two",
            tr_recompute_names[p->recompute.what]);
    return true;
}

static bool check_async(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    const char *name = tr_async_names[p->pipeline.async];
    if (p->pipeline.async == TR_ASYNC_OFF)
        return true;
    if (p->mesh.size[TR_PP] == 1)
        return tr_fail(e, "--async %s is of a pipeline, and there is none; legal with --pp 2 and more", name);
    if (strcmp(p->pipeline.schedule, "1f1b") || p->pipeline.chunks > 1)
        return tr_fail(e, "--async %s has the order of 1F1B; legal is --schedule 1f1b with --chunks 1", name);
    if (p->numbers.bfloat16 || g->experts)
        return tr_fail(e, "--async %s: the simulator that it is compared with has %s; legal is %s", name,
            g->experts ? "no experts" : "float32 alone",
            g->experts ? "another model" : "--precision float32");
    for (int s = 1; s < p->mesh.size[TR_PP] && p->pipeline.stage_layers[0]; s++)
        if (p->pipeline.stage_layers[s] != p->pipeline.stage_layers[0])
            return tr_fail(e,
                "--async %s: the simulator that it is compared with has stages of as many layers each; legal "
                "is --balance even without --stage-layers",
                name);
    if (p->micros % tr_update_micros(p))
        return tr_fail(e,
            "--async two with --micro %d: an update takes as many micro-batches as there are stages; legal "
            "are multiples of %d",
            p->micros, p->mesh.size[TR_PP]);
    for (int t = 0; t < g->n_tensors; t++)
        if (g->tensors[t].role == TR_PARAMETER && g->tensors[t].values_of != t)
            return tr_fail(e,
                "--async %s: embedding and head share their weights, and the first and the last stage would "
                "update them at different times; legal with --untied",
                name);
    return check_others(p, e);
}

const struct tr_paradigm tr_async_pipelines = {
    .name = "asynchronous pipeline", TR_OPTIONS(of_async), .check = check_async
};

int tr_staleness(const struct tr_plan *p, int stage)
{
    int after = p->mesh.size[TR_PP] - 1 - stage, most = tr_updates(p) - 1;
    int stale = p->pipeline.async == TR_ASYNC_OFF ? 0 : p->pipeline.async == TR_ASYNC_TWO ? 1 : after;
    return stale < most ? stale : most;
}
