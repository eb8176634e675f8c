/* SPDX-License-Identifier: BSD-3-Clause */
/* staleness.c: `tutti-train staleness`: how old the weights are that asynchronous pipelines compute with,
 * and what that does to the loss. Each line is the simulator's run of as many updates as the others, from the
 * same data; that a pipeline of ranks has its bits is what verify shows. */
#include "training/commands/one_rank.h"
#include "training/commands/commands.h"
#include "training/verify/golden.h"
#include "training/commands/prepare.h"
#include "training/passes/versions.h"

#include <string.h>

static const char usage[] = "staleness [--steps N] [OPTION]...\n"
                            "\n"
                            "For pipelines of 1, 2, 4 and 8 stages, as far as the model has layers, and each "
                            "way of --async: how many\n"
                            "updates old the weights of each stage are, how many versions it keeps, and the "
                            "loss after N updates (50)\n"
                            "of --batch sequences, the mean of the last ten. Nothing is clipped, and "
                            "embedding and head are not tied.";

enum { LAST = 10 };

static bool refuse(const struct tr_options *o, struct tr_error *e)
{
    struct tr_options alone;
    char given[TR_OPTION_TEXT], other[TR_OPTION_TEXT];
    tr_one_rank_options(&alone, o);
    alone.plan.sizes.dp = 0;
    alone.plan.numbers.bfloat16 = false;
    if (!tr_options_same(o, &alone, given, other))
        return tr_fail(e,
            "%s is no option of staleness: one rank computes what each pipeline would, in float32; legal are "
            "the options of the model and of what is learned",
            given);
    return o->steps >= LAST ||
           tr_fail(e, "--steps %ld: the loss is a mean of the last %d; legal are %d and more", o->steps, LAST,
               LAST);
}

/* All updates are in one window, of which each is `batch` sequences. */
static struct tr_options pipeline(const struct tr_options *base, enum tr_async way, long stages)
{
    struct tr_options o = *base;
    o.plan.pipeline.async = way;
    o.plan.sizes.pp = stages;
    o.plan.micros = (int)(way == TR_ASYNC_OFF ? 1 : way == TR_ASYNC_TWO ? base->steps * stages : base->steps);
    if (way != TR_ASYNC_OFF)
        o.plan.batch *= (int)base->steps, o.steps = 1;
    return o;
}

/* "3,2,1,0": of the weights of each stage, the age, or how many versions there are. */
static void of_stages(char *to, size_t room, const struct tr_run *r, bool versions)
{
    size_t used = 0;
    for (int s = 0; s < r->plan.mesh.size[TR_PP] && used < room; s++) {
        struct tr_versions v;
        tr_versions_make(&v, &r->plan, r->schedule.slots[s], r->schedule.count[s]);
        int number = !r->plan.pipeline.async ? versions : versions ? v.buffers : tr_staleness(&r->plan, s);
        used += (size_t)snprintf(to + used, room - used, "%s%d", s ? "," : "", number);
        tr_versions_free(&v);
    }
}

static bool line(const struct tr_options *o, enum tr_async way, struct tr_error *e)
{
    struct tr_run run;
    struct tr_golden g;
    char age[64], versions[64];
    double loss = 0;
    if (!tr_run_make(&run, o, e))
        return false;
    bool ok = tr_golden_make(&g, o, &run.graph, e);
    of_stages(age, sizeof age, &run, false);
    of_stages(versions, sizeof versions, &run, true);
    tr_run_free(&run);
    if (!ok)
        return false;
    for (int64_t s = g.steps - LAST; s < g.steps; s++)
        loss += g.loss[s] / LAST;
    printf("%6ld  %-7s %-16s %-16s %.6f\n", o->plan.sizes.pp, way ? tr_async_names[way] : "flush", age,
        versions, loss);
    fflush(stdout);
    tr_golden_free(&g);
    return true;
}

/* A pipeline that is flushed computes what one rank does, whatever its stages. */
static bool table(const struct tr_options *base, int64_t layers, struct tr_error *e)
{
    struct tr_options o = pipeline(base, TR_ASYNC_OFF, 1);
    printf("stages  way     updates old      versions kept    loss after %ld updates\n", base->steps);
    if (!line(&o, TR_ASYNC_OFF, e))
        return false;
    for (long stages = 2; stages <= 8; stages *= 2)
        for (int way = TR_ASYNC_STASH; way < TR_ASYNCS && layers % stages == 0; way++) {
            o = pipeline(base, (enum tr_async)way, stages);
            if (base->plan.batch % stages && way == TR_ASYNC_TWO)
                continue; /* an update's sequences are not as many as its micro-batches */
            if (!line(&o, (enum tr_async)way, e))
                return false;
        }
    return true;
}

int tr_command_staleness(int argc, char **argv)
{
    struct tr_options o;
    struct tr_run run;
    struct tr_error e;
    int status;
    if (!tr_begin(&o, argc, argv, usage, true, &status))
        return status;
    if (!refuse(&o, &e))
        return tr_refuse(1, &e);
    o.plan.optimizer.clip = 0;
    o.model.sizes.untied = !strncmp(o.model.name, "gpt", 3);
    if (!*o.files.data)
        strcpy(o.files.data, "grammar");
    if (!tr_run_make(&run, &o, &e))
        return tr_refuse(1, &e);
    int64_t layers = run.graph.layers, experts = run.graph.experts;
    tr_run_free(&run);
    if (experts)
        return tr_fail(&e, "--model %s: what computes the lines has no experts; legal is another model",
                   o.model.name),
               tr_refuse(1, &e);
    return table(&o, layers, &e) ? 0 : tr_refuse(1, &e);
}
