/* SPDX-License-Identifier: BSD-3-Clause */
/* plan.c: `tutti-train plan`: which paradigms to use for a model, so many ranks and so much memory. No rank
 * is started, but by --measure. */
#include "training/advice/measure.h"
#include "training/advice/say.h"
#include "training/commands/commands.h"
#include "training/launch.h"

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

/* false: it was refused, or cannot be measured, and that was said. */
static bool machine(struct tr_machine *m, const struct tr_options *o)
{
    struct tr_error e;
    if (o->shown.measure && *o->shown.machine)
        tr_fail(&e, "--measure with --machine %s: both say what runs it; legal is one", o->shown.machine);
    else if (o->shown.measure && o->ranks > TR_MEASURED)
        tr_fail(&e,
            "--measure: %ld ranks; up to %d are started here; legal is --machine with a name or a file",
            o->ranks, TR_MEASURED);
    else if (o->shown.measure && tr_launched())
        tr_fail(&e, "--measure: plan starts its own ranks; run it without a launcher");
    else if (o->shown.measure)
        return tr_machine_measure(m, o);
    else if (tr_machine_read(m, *o->shown.machine ? o->shown.machine : "host", &e))
        return true;
    return tr_refuse(1, &e) == 0;
}

static int plan(struct tr_options *o)
{
    struct tr_machine m;
    struct tr_error e;
    if (!can_be_planned(o, &e))
        return tr_refuse(1, &e);
    o->ranks = o->ranks ? o->ranks : 1;
    if (!tr_options_given(o, "batch"))
        o->plan.batch = o->ranks > o->plan.batch ? (int)o->ranks : o->plan.batch;
    if (!machine(&m, o))
        return 1;
    if (o->shown.measure && !o->shown.json)
        tr_machine_say(&m, stdout);
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
