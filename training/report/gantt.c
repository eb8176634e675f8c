/* SPDX-License-Identifier: BSD-3-Clause */
/* gantt.c: the pipeline of the last step as it ran. `tutti-train schedule` draws it as it would run. */
#include "training/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

enum { COLUMNS = 96 };

/* When each part of this rank began to compute, and when it ended, in ns of the step. A receive, and a wait
 * for what was sent, come before. */
static void measure(const struct tr_runner *r, const struct tr_schedule *s, double *start, double *end)
{
    const struct tr_tape *t = r->tape;
    int k = -1, stage = -1, micro = -1, part = -1, count = s->count[t->at[TR_PP]];
    for (int n = 0; n < t->n_instrs && t->instrs[n].part >= 0; n++) {
        const struct tr_instr *i = &t->instrs[n];
        bool begins = i->stage != stage || i->micro != micro || i->part != part;
        if (begins && ++k == count)
            return;
        if (begins)
            start[k] = end[k] = (double)(r->clock[n] - r->clock[0]);
        bool waits = (i->code == TR_RECV || i->code == TR_WAIT) && end[k] <= start[k];
        end[k] = (double)(r->clock[n + 1] - r->clock[0]);
        if (waits)
            start[k] = end[k];
        stage = i->stage, micro = i->micro, part = i->part;
    }
}

static void draw(
    FILE *to, const struct tr_runner *r, const struct tr_schedule *s, const double *all, int room)
{
    const struct tr_mesh *m = &r->tape->placed->plan->mesh;
    double **start = tr_new((size_t)s->ranks, sizeof *start), **end = tr_new((size_t)s->ranks, sizeof *end);
    double total = 0;
    for (int stage = 0; stage < s->ranks; stage++) {
        int at[TR_AXES] = { 0 };
        at[TR_PP] = stage;
        const double *of = all + (ptrdiff_t)tr_mesh_rank(m, at) * 2 * room;
        start[stage] = (double *)of, end[stage] = (double *)of + room;
        for (int k = 0; k < s->count[stage]; k++)
            total = end[stage][k] > total ? end[stage][k] : total;
    }
    fprintf(to,
        "# the pipeline of step %" PRId64 " as it ran: %.1f ms; a digit is a micro-batch forward, a letter "
        "backward,\n# w gradients of weights, a dot waits\n",
        r->step - 1, total / 1e6);
    tr_schedule_draw_times(s, start, end, total, total / COLUMNS, to);
    free(start);
    free(end);
}

bool tr_gantt(FILE *to, const struct tr_runner *r, const struct tr_schedule *s, struct tr_error *e)
{
    int room = 0, n = r->tape->placed->plan->mesh.n;
    for (int i = 0; i < s->ranks; i++)
        room = s->count[i] > room ? s->count[i] : room;
    double *mine = tr_new((size_t)room * 2, sizeof *mine),
           *all = tr_new((size_t)n * (size_t)room * 2, sizeof *all);
    measure(r, s, mine, mine + room);
    tutti_status status =
        tutti_gather(mine, all, (size_t)room * 2, TUTTI_FLOAT64, 0, r->groups.world, tutti_no_stream());
    if (status != TUTTI_OK)
        tr_fail(e, "--gantt: %s", tr_why(r->groups.world));
    else if (r->tape->rank == 0)
        draw(to, r, s, all, room);
    free(mine);
    free(all);
    return status == TUTTI_OK;
}
