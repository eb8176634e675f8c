/* SPDX-License-Identifier: BSD-3-Clause */
/* measure.c: from the executor's clock to what a step of all ranks did.
 *
 * Ranks begin a step together, as the end of the step before joins them. The pipeline's time is that of the
 * slowest rank from there to its last part. A rank waits in receives, and when it is done before the slowest
 * one: then in the collectives that follow, which is no exposed communication. On a device only a timed step
 * tells how long what took; of others there is the whole step's time. */
#include "training/report/report.h"

#include "training/parallel/balance.h"

#include <math.h>

enum { NS_MS = 1000000 };

/* What ranks add up, in one vector. */
enum { RECEIVING, EXPOSED, STEP, SENT, PARTS_NS, PARTS = PARTS_NS + TR_PARTS, SUMS = PARTS + TR_PARTS };

static int64_t duration(const struct tr_runner *r, int n)
{
    return r->clock[n + 1] - r->clock[n];
}

static int64_t pipeline_end(const struct tr_runner *r)
{
    int n = r->tape->n_instrs;
    while (n > 0 && r->tape->instrs[n - 1].part < 0)
        n--;
    return r->clock[n] - r->clock[0];
}

static void add_up(const struct tr_runner *r, const struct tr_schedule *s, int64_t idle_after, int64_t *sums)
{
    int64_t after = 0;
    for (int n = 0; n < r->tape->n_instrs; n++) {
        const struct tr_instr *i = &r->tape->instrs[n];
        bool talks =
            tr_codes[i->code].talks || i->code == TR_WAIT || (i->code == TR_TIE && i->edge == TR_HOME);
        if (i->code == TR_RECV && !tr_edge_kinds[i->edge].served)
            sums[RECEIVING] += duration(r, n);
        else if (talks)
            *(i->part < 0 ? &after : &sums[EXPOSED]) += duration(r, n);
        else if (i->part >= 0)
            sums[PARTS_NS + i->part] += duration(r, n);
    }
    sums[EXPOSED] += after > idle_after ? after - idle_after : 0;
    sums[STEP] = r->clock[r->tape->n_instrs] - r->clock[0]; /* ranks begin a step at different times */
    int stage = r->tape->at[TR_PP];
    for (int i = 0; i < s->count[stage]; i++)
        sums[PARTS + s->slots[stage][i].part]++;
    sums[SENT] = tr_ledger_sum(&r->predicted, -1, -1, -1, -1).wire;
}

static double mean(const int64_t *sums, int part)
{
    return sums[PARTS + part] ? (double)sums[PARTS_NS + part] / (double)sums[PARTS + part] : 0;
}

/* Where stages differ, the mean of a part is that of all stages; each has its share of it by price. */
static void share_out(struct tr_costs *c, const struct tr_placed *p, struct tr_stage_costs *stage)
{
    struct tr_stage_costs all = { 0 };
    int stages = p->plan->mesh.size[TR_PP] * p->plan->pipeline.chunks;
    tr_price_stages(p->g, p->plan->pipeline.stage_layers, stages, stage);
    for (int s = 0; s < stages; s++)
        all.f += stage[s].f, all.i += stage[s].i, all.w += stage[s].w;
    for (int s = 0; s < stages; s++) {
        stage[s].f *= stages * c->f / all.f;
        stage[s].i *= stages * c->i / all.i;
        stage[s].w *= stages * c->w / all.w;
    }
    c->stage = stage;
}

static void bubbles(struct tr_report *to, const struct tr_placed *p, const struct tr_schedule *s,
    const int64_t *sums, int64_t idle, int64_t pipeline)
{
    struct tr_stage_costs stage[TR_STAGES_MAX];
    struct tr_costs c = { .f = mean(sums, TR_F), .i = mean(sums, TR_I), .w = mean(sums, TR_W) };
    struct tr_timing timing;
    struct tr_error ignored;
    struct tr_schedule joined = *s;
    joined.no_flush = false; /* the sums of loss and norm, which this report has, join ranks between steps */
    s = &joined;
    if (!s->split)
        c.i = c.w = mean(sums, TR_B) / 2;
    if (p->plan->pipeline.stage_layers[0])
        share_out(&c, p, stage);
    to->formula = tr_bubble_formula(s, &c);
    to->measured = (double)idle / ((double)pipeline * p->plan->mesh.n);
    if (tr_schedule_simulate(s, &c, &timing, &ignored)) {
        to->simulated = tr_bubble(s, &timing);
        tr_timing_free(&timing, s->ranks);
    }
}

static bool fold(const struct tr_runner *r, int64_t *x, size_t count, tutti_op op, struct tr_error *e)
{
    tutti_comm *world = r->groups.world;
    return !world || tutti_all_reduce(x, x, count, TUTTI_INT64, op, world, tutti_no_stream()) == TUTTI_OK ||
           tr_fail(e, "the report of a step: %s", tr_why(world));
}

bool tr_report_make(
    struct tr_report *to, const struct tr_runner *r, const struct tr_schedule *s, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    const struct tr_plan *plan = t->placed->plan;
    int64_t step = r->clock[t->n_instrs] - r->clock[0], own_end = pipeline_end(r), sums[SUMS + 1] = { 0 };
    int64_t largest[] = { own_end, t->peak_total };
    if (!fold(r, largest, 2, TUTTI_MAX, e))
        return false;
    int64_t idle_after = plan->mesh.size[TR_PP] > 1 ? largest[0] - own_end : 0;
    add_up(r, s, idle_after, sums);
    sums[SUMS] = idle_after;
    if (!fold(r, sums, SUMS + 1, TUTTI_SUM, e))
        return false;
    *to = (struct tr_report){ .step = r->step * tr_updates(plan) - 1,
        .audited = r->audit.peak_total > 0 && r->step == 1,
        .loss = r->result.loss,
        .norm = r->result.norm,
        .ms = (double)step / NS_MS,
        .tokens = (double)(plan->batch * tr_targets(t->placed->g)) / (double)step * 1e9,
        .formula = NAN,
        .simulated = NAN,
        .measured = NAN,
        .exposed = r->timed.known ? (double)sums[EXPOSED] / (double)sums[STEP] : NAN,
        .sent = sums[SENT],
        .peak = largest[1] };
    if (plan->mesh.size[TR_PP] > 1 && r->timed.known)
        bubbles(to, t->placed, s, sums, sums[RECEIVING] + sums[SUMS], largest[0]);
    return true;
}
