/* SPDX-License-Identifier: BSD-3-Clause */
/* async.c: asynchronous pipelines: how many updates a step makes, how old weights are, and what fits them;
 * passes/versions.c says which version each part reads. */
#include "training/parallel/paradigms.h"

#include <string.h>

const char *const tr_async_names[TR_ASYNCS] = { "off", "stash", "two", "newest" };

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

bool tr_async_check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
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

int tr_staleness(const struct tr_plan *p, int stage)
{
    int after = p->mesh.size[TR_PP] - 1 - stage, most = tr_updates(p) - 1;
    int stale = p->pipeline.async == TR_ASYNC_OFF ? 0 : p->pipeline.async == TR_ASYNC_TWO ? 1 : after;
    return stale < most ? stale : most;
}
