/* SPDX-License-Identifier: BSD-3-Clause */
/* async.c: what computes with old weights, or with an old gradient, beside what does not. These are
 * of class D: they have other numbers than one device, and those of a simulator that knows the versions. */
#include "training/compare/compare.h"

#include <string.h>

enum { DELAY = TR_ASYNC_NEWEST, SERVER }; /* the words are the ways of --async, without off, and these */

/* An asynchronous pipeline has no norm of the whole gradient, and both ends have weights of their own. */
void tr_compare_async_options(struct tr_options *o)
{
    o->plan.optimizer.clip = 0;
    o->model.sizes.untied = !strncmp(o->model.name, "gpt", 3);
}

static void add_pipelines(struct tr_comparison *c)
{
    struct tr_options o = c->base;
    o.plan.sizes.pp = o.ranks, o.plan.sizes.dp = 1;
    tr_compare_add_pipeline(c, "1f1b", o, "1f1b", false);
    for (int i = 0; i < c->n_words; i++) {
        if (c->words[i] >= DELAY)
            continue;
        o.plan.pipeline.async = (enum tr_async)(c->words[i] + 1);
        tr_compare_add_pipeline(c, tr_async_names[o.plan.pipeline.async], o, "1f1b", false);
    }
}

static void add_delay(struct tr_comparison *c)
{
    struct tr_options o = c->base;
    o.plan.sizes.dp = o.ranks;
    tr_compare_add(c, "data parallel", &o, false);
    o.plan.offload.what = TR_OFFLOAD_OPTIMIZER;
    o.plan.offload.delay = 1;
    tr_compare_add(c, "delayed offload", &o, false);
}

/* One rank is the server, and the others work, as many as the batch allows. An order by a seed can be
 * simulated; whoever comes first can not. */
static void add_servers(struct tr_comparison *c)
{
    struct tr_options o = c->base;
    struct tr_run run;
    struct tr_error e;
    o.plan.sizes.servers = 1;
    for (o.plan.sizes.dp = o.ranks - 1; o.plan.sizes.dp > 1; o.plan.sizes.dp--) {
        o.ranks = o.plan.sizes.dp + 1;
        if (!tr_run_make(&run, &o, &e))
            continue;
        tr_run_free(&run);
        break;
    }
    tr_compare_add(c, "server, in step", &o, false);
    o.plan.servers.async = true;
    if (!strcmp(o.plan.servers.arrivals, "live"))
        strcpy(o.plan.servers.arrivals, "seed:1");
    tr_compare_add(c, "server, asynchronous", &o, !o.device); /* a device may have the other one alone */
}

void tr_compare_add_async(struct tr_comparison *c)
{
    bool delay = false, server = false, pipelines = false;
    for (int i = 0; i < c->n_words; i++)
        *(c->words[i] == DELAY ? &delay : c->words[i] == SERVER ? &server : &pipelines) = true;
    if (pipelines)
        add_pipelines(c);
    if (delay)
        add_delay(c);
    if (server)
        add_servers(c);
}
