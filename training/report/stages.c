/* SPDX-License-Identifier: BSD-3-Clause */
/* stages.c: the table of what each stage of a pipeline holds. */
#include "training/tape/stages.h"

#include "training/report/report.h"

#include <inttypes.h>
#include <stdlib.h>

/* The first of the ranks that have it. */
static int rank_of(const struct tr_plan *p, int stage)
{
    int at[TR_AXES] = { 0 };
    at[TR_PP] = tr_plan_rank(p, stage);
    return tr_mesh_rank(&p->mesh, at);
}

void tr_stages_say(
    FILE *to, const char *begin, struct tr_tapes *tapes, const struct tr_schedule *s, const int64_t *measured)
{
    const struct tr_plan *p = tapes->placed->plan;
    fprintf(to, "%s%5s %5s %9s %12s %12s%s\n", begin, "stage", "rank", "in flight", "kept", "most",
        measured ? "     measured" : "");
    for (int stage = 0; stage < s->ranks * s->chunks; stage++) {
        int rank = rank_of(p, stage);
        bool had = tr_tapes_has(tapes, rank);
        struct tr_stage_room room = tr_stage_room(tr_tapes_of(tapes, rank), stage, NULL);
        if (!had)
            tr_tapes_forget(tapes, rank);
        fprintf(to, "%s%5d %5d %9d %12" PRId64 " %12" PRId64, begin, stage, rank,
            tr_stage_in_flight(s, stage), room.kept, room.most);
        if (measured)
            fprintf(to, " %12" PRId64, measured[stage]);
        fprintf(to, "\n");
    }
}

bool tr_stages_measured(FILE *to, const struct tr_runner *r, struct tr_tapes *tapes,
    const struct tr_schedule *s, struct tr_error *e)
{
    size_t stages = (size_t)s->ranks * (size_t)s->chunks;
    int64_t *found = tr_new(stages, sizeof *found);
    for (int stage = 0; stage < (int)stages; stage++)
        if (rank_of(r->tape->placed->plan, stage) == r->tape->rank)
            found[stage] = tr_stage_room(r->tape, stage, r->audit.touched).most;
    bool ok = tutti_all_reduce(found, found, stages, TUTTI_INT64, TUTTI_MAX, r->groups.world,
                  tutti_no_stream()) == TUTTI_OK ||
              tr_fail(e, "the memory of the stages: %s", tr_why(r->groups.world));
    if (ok && r->tape->rank == 0)
        tr_stages_say(to, "# ", tapes, s, found);
    free(found);
    return ok;
}
