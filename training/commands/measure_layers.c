/* SPDX-License-Identifier: BSD-3-Clause */
/* measure_layers.c: one rank runs a micro-batch of the whole model, and each layer's time is the least of
 * some steps: what else the machine does can only add to it. */
#include "training/commands/measure_layers.h"

#include "training/commands/one_rank.h"
#include "training/commands/prepare.h"
#include "training/launch.h"
#include "training/parallel/balance.h"
#include "training/run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 5 };

/* A micro-batch of one rank. dp may be what -n leaves; whether the mesh fits is found out when it is made. */
static void options_of(struct tr_options *to, const struct tr_options *o)
{
    const struct tr_sizes *s = &o->plan.sizes;
    long others = s->pp * s->tp * s->cp, dp = s->dp ? s->dp : o->ranks / (others > 0 ? others : 1);
    long sequences = o->plan.batch / (dp > 0 ? dp : 1) / (o->plan.micros > 0 ? o->plan.micros : 1);
    tr_one_rank_options(to, o);
    to->plan.recompute.what = o->plan.recompute.what;
    to->plan.batch = sequences > 0 ? (int)sequences : 1;
}

/* Of each unit in the last step; the ends take what belongs to no layer. */
static void add_times(double *unit, const struct tr_runner *r, int64_t layers)
{
    for (int n = 0; n < r->tape->n_instrs; n++) {
        const struct tr_instr *i = &r->tape->instrs[n];
        int64_t at = i->unit < 0 ? 0 : i->unit < layers + 1 ? i->unit : layers + 1;
        if (i->part >= 0) /* the end of a step is no stage's work */
            unit[at] += (double)(r->clock[n + 1] - r->clock[n]);
    }
}

static bool measure(double *least, struct tr_runner *r, int64_t layers, struct tr_error *e)
{
    double *now = tr_new((size_t)layers + 2, sizeof *now);
    bool ok = true;
    for (int step = 0; step < STEPS && ok; step++) {
        ok = tr_runner_step(r, e);
        memset(now, 0, ((size_t)layers + 2) * sizeof *now);
        add_times(now, r, layers);
        for (int64_t u = 0; u < layers + 2; u++)
            least[u] = step == 0 || now[u] < least[u] ? now[u] : least[u];
    }
    free(now);
    return ok;
}

static void say(const double *unit, int64_t layers, const char *cut)
{
    printf("# --balance measured, ms of a micro-batch: ends %.2f and %.2f, layers", unit[0] / 1e6,
        unit[layers + 1] / 1e6);
    for (int64_t l = 1; l <= layers; l++)
        printf("%s%.2f", l > 1 ? "," : " ", unit[l] / 1e6);
    printf("\n# cut as by --stage-layers %s\n", cut);
    fflush(stdout);
}

static bool cut(struct tr_options *o, const struct tr_prepared *p, struct tr_runner *r, struct tr_error *e)
{
    int64_t layers = p->run.graph.layers;
    int stages = (int)(o->plan.sizes.pp * o->plan.pipeline.chunks), cut[TR_STAGES_MAX];
    char text[200];
    double *unit = tr_new((size_t)layers + 2, sizeof *unit);
    bool ok = measure(unit, r, layers, e) && tr_cut_by_costs(cut, layers, stages, unit, e);
    if (ok && strlen(tr_cut_text(cut, stages, text)) >= sizeof o->plan.pipeline.list)
        ok = tr_fail(e, "--balance measured: the cut into %d stages is too long a list", stages);
    if (ok) {
        strcpy(o->plan.pipeline.list, text);
        o->plan.pipeline.balance = TR_BALANCE_EVEN;
    }
    if (ok && !o->shown.json && !o->shown.hex && !o->shown.quiet)
        say(unit, layers, text);
    free(unit);
    return ok;
}

bool tr_warm_up(struct tr_options *o, struct tr_error *e)
{
    struct tr_options alone;
    struct tr_prepared p;
    struct tr_data data;
    struct tr_runner r = { .tape = NULL };
    if (o->plan.pipeline.balance != TR_BALANCE_MEASURED)
        return true;
    if (o->device)
        return tr_fail(e,
            "--balance measured with --device cuda: layers are measured on the processor, before there are "
            "ranks; legal are --balance auto, and --stage-layers");
    if (*o->plan.pipeline.list)
        return tr_fail(e, "--stage-layers %s with --balance measured: both cut the layers; legal is one",
            o->plan.pipeline.list);
    if (tr_launched())
        return tr_fail(e, "--balance measured: each rank of a launcher would measure for itself; legal is "
                          "--stage-layers with what a run with -n measured");
    options_of(&alone, o);
    const struct tr_kernels *k = tr_options_kernels(&alone, e);
    if (!k || !tr_prepare(&p, &alone, e))
        return false;
    bool opened = tr_open_data(&data, &alone, &p.run.graph, e);
    bool ok = opened && tr_runner_open(&r, tr_tapes_of(p.tapes, 0), k, &data, NULL, e) && cut(o, &p, &r, e);
    if (opened) {
        tr_runner_close(&r);
        tr_data_close(&data);
    }
    tr_prepared_free(&p);
    return ok;
}
