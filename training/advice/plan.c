/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c: `tutti-train plan`: which paradigms to use for a model, so many ranks and so much memory. No rank
 * is started. */
#include "training/advice/say.h"
#include "training/commands/commands.h"

#include <stdlib.h>
#include <string.h>

/* What is priced is a step that trains, of a model whose work a machine's peak tells. */
static bool can_be_planned(const struct tr_options *o, struct tr_error *e)
{
    if (o->plan.sizes.servers)
        return tr_fail(e, "--servers: plan knows no parameter servers; tutti-train compare server does");
    if (o->plan.pipeline.async)
        return tr_fail(e, "--async: plan knows no asynchronous pipelines; tutti-train compare async does");
    if (*o->tests.inject)
        return tr_fail(e, "--inject: plan plants no errors; it is an option of train and compare");
    return true;
}

static bool machine(struct tr_machine *m, const struct tr_options *o, struct tr_error *e)
{
    return tr_machine_read(m, *o->shown.machine ? o->shown.machine : "host", e);
}

static int plan(struct tr_options *o)
{
    struct tr_machine m;
    struct tr_error e;
    if (!can_be_planned(o, &e) || !machine(&m, o, &e))
        return tr_refuse(1, &e);
    o->ranks = o->ranks ? o->ranks : 1;
    if (!tr_options_given(o, "batch"))
        o->plan.batch = o->ranks > o->plan.batch ? (int)o->ranks : o->plan.batch;
    int64_t memory = o->shown.memory ? o->shown.memory : m.memory;
    struct tr_search *s = tr_new(1, sizeof *s);
    bool ok = tr_search(s, o, &m, memory, &e);
    int status = ok ? !s->n_best : tr_refuse(1, &e);
    if (ok)
        (o->shown.json ? tr_search_json : tr_search_say)(s, o, &m, stdout);
    free(s);
    return status;
}

int tr_command_plan(int argc, char **argv)
{
    struct tr_options o;
    int status;
    if (!tr_begin(&o, argc, argv,
            "plan [OPTION]...: the options of train, of which those that are given stay as they are", true,
            &status))
        return status;
    if (!strcmp(o.shown.machine, "list")) {
        tr_machine_list(stdout);
        return 0;
    }
    return plan(&o);
}
