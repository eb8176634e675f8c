/* SPDX-License-Identifier: BSD-3-Clause */
/* figures.c: the numbers of the figures: who sends to whom, memory over a step, and a step as it would run on
 * other cores; and the same as JSON. */
#include "training/compare/compare.h"

#include "training/account/flows.h"

#include <inttypes.h>
#include <stdlib.h>

double *tr_compare_sends(const struct tr_contender *x)
{
    int n = x->prepared.run.plan.mesh.n;
    double *of = tr_new((size_t)n * (size_t)n, sizeof *of);
    for (int r = 0; r < n; r++)
        tr_flows_add(of, tr_tapes_of(x->prepared.tapes, r));
    return of;
}

double *tr_compare_memory_over(const struct tr_contender *x)
{
    const struct tr_tape *t = tr_tapes_of(x->prepared.tapes, x->largest);
    int64_t *now = tr_new(((size_t)t->n_instrs + 1) * TR_MEMORIES, sizeof *now);
    double *most = tr_new((size_t)TR_COMPARE_COLUMNS * TR_MEMORIES, sizeof *most);
    int shown = -1, at = 0;
    tr_memory_over(t, false, now);
    for (int c = 0; c < TR_COMPARE_COLUMNS; c++) {
        int64_t highest = -1, end = (int64_t)t->n_instrs * (c + 1) / TR_COMPARE_COLUMNS;
        for (; at < end; at++) { /* a column shows one moment, and that is the one with most memory */
            int64_t all = 0;
            for (int k = 0; k < TR_MEMORIES; k++)
                all += now[at * TR_MEMORIES + k];
            if (all > highest)
                highest = all, shown = at;
        }
        for (int k = 0; k < TR_MEMORIES && shown >= 0; k++)
            most[c * TR_MEMORIES + k] = (double)now[shown * TR_MEMORIES + k];
    }
    free(now);
    return most;
}

static double updated(const struct tr_tape *t)
{
    double n = 0;
    for (int k = 0; k < t->n_instrs; k++)
        n += t->instrs[k].code == TR_UPDATE ? (double)t->instrs[k].count : 0;
    return n;
}

static double faster(double amount, double seconds, double than)
{
    return amount > 0 && seconds > 0 && amount / seconds > than ? amount / seconds : than;
}

/* Whether it ran where most do, and not beside them on the processor. */
static bool is_in_place(const struct tr_comparison *c, const struct tr_contender *x)
{
    return x->options.device == c->base.device;
}

/* Of a core that does nothing else, or of a device: the most that a first rank reached. */
static struct tr_core core_of(const struct tr_comparison *c)
{
    struct tr_core best = { 0, 0 };
    for (int i = 0; i < c->n; i++) {
        const struct tr_timeline *did = &c->all[i].did;
        if (!is_in_place(c, &c->all[i]))
            continue;
        const struct tr_tape *t = tr_tapes_of(c->all[i].prepared.tapes, 0);
        double computing = tr_timeline_of(did, 0, TR_DOES_FORWARD) +
                           tr_timeline_of(did, 0, TR_DOES_BACKWARD) + tr_timeline_of(did, 0, TR_DOES_WEIGHTS);
        best.flops = faster(tr_tape_flops(t), computing, best.flops);
        best.updates = faster(updated(t), tr_timeline_of(did, 0, TR_DOES_UPDATE), best.updates);
    }
    return best;
}

void tr_compare_simulate(struct tr_comparison *c)
{
    struct tr_machine m;
    struct tr_error e;
    struct tr_core core = core_of(c);
    bool known = core.flops > 0 && core.updates > 0 && tr_machine_read(&m, "host", &e);
    for (int i = 0; known && i < c->n; i++)
        if (!c->all[i].planted && is_in_place(c, &c->all[i]))
            tr_timeline_simulate(&c->all[i].would, c->all[i].prepared.tapes, &m, &core);
}

/* ---- JSON ---- */

static void say_timeline(FILE *to, const char *name, const struct tr_timeline *t)
{
    fprintf(to, ", \"%s\": ", name);
    if (!t->n) {
        fprintf(to, "null");
        return;
    }
    fprintf(to, "{\"ms\": %.17g", t->end * 1e3);
    for (int k = 0; k < TR_DOINGS; k++) {
        fprintf(to, ", \"%s\": [", tr_does_names[k]);
        for (int r = 0; r < t->n; r++)
            fprintf(to, "%s%.17g", r ? ", " : "", 1e3 * tr_timeline_of(t, r, (enum tr_does)k));
        fputc(']', to);
    }
    fputc('}', to);
}

void tr_compare_figures_json(const struct tr_contender *x, FILE *to)
{
    int n = x->prepared.run.plan.mesh.n;
    double *sends = tr_compare_sends(x), *over = tr_compare_memory_over(x);
    fprintf(to, ", \"losses\": [");
    for (long s = 0; x->runs && s < x->options.steps; s++)
        fprintf(to, "%s%.17g", s ? ", " : "", x->reports[s].loss);
    fprintf(to, "], \"sends\": [");
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            fprintf(to, "%s%.17g%s", b ? ", " : a ? ", [" : "[", sends[a * n + b], b + 1 == n ? "]" : "");
    fprintf(to, "], \"peak\": %" PRId64 ", \"memory_over\": {",
        tr_tapes_of(x->prepared.tapes, x->largest)->peak_total);
    for (int k = 0; k < TR_MEMORIES; k++)
        for (int i = 0; i < TR_COMPARE_COLUMNS; i++)
            if (i)
                fprintf(to, ", %.0f%s", over[i * TR_MEMORIES + k], i + 1 == TR_COMPARE_COLUMNS ? "]" : "");
            else
                fprintf(to, "%s\"%s\": [%.0f", k ? ", " : "", tr_memory_names[k], over[k]);
    fputc('}', to);
    say_timeline(to, "did", &x->did);
    say_timeline(to, "would", &x->would);
    free(sends), free(over);
}
