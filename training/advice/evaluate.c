/* SPDX-License-Identifier: BSD-3-Clause */
/* evaluate.c: a configuration as its tapes have it. */
#include "training/advice/evaluate.h"

#include "training/passes/lower.h"
#include "training/planning/tapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refuse(struct tr_estimate *x, const struct tr_error *e)
{
    snprintf(x->why, sizeof x->why, "%.255s", e->text);
    return false;
}

/* ---- what a tape adds ---- */

static void add_memory(struct tr_estimate *x, const struct tr_tape *t)
{
    if (t->arena > x->arena) {
        x->arena = t->arena;
        memcpy(x->peak, t->peak, sizeof x->peak);
    }
    x->host = t->host.arena > x->host ? t->host.arena : x->host;
}

static void add_group(struct tr_estimate *x, const char *group, int64_t sent)
{
    int i = 0;
    while (i < x->n_groups && strcmp(x->groups[i].group, group) != 0)
        i++;
    if (i == TR_GROUPS_SAID || sent == 0)
        return;
    if (i == x->n_groups)
        snprintf(x->groups[x->n_groups++].group, sizeof x->groups[i].group, "%s", group);
    x->groups[i].sent += sent;
}

static int64_t add_bytes(struct tr_estimate *x, const struct tr_tape *t, int64_t most)
{
    struct tr_ledger l;
    char text[32];
    tr_ledger_predict(&l, t);
    int64_t all = tr_ledger_sum(&l, -1, -1, -1, -1).least;
    if (all <= most)
        return most;
    x->n_groups = 0;
    for (int n = 0; n < l.n; n++)
        add_group(x, tr_entry_group(&l.entries[n], text), l.entries[n].least);
    return all;
}

/* ---- all tapes, or a few ---- */

/* The ranks that are first on all axes but pp, where they have the first stage, the second and the last. */
static void stand_for_all(const struct tr_mesh *m, int ranks[3])
{
    int stages = m->size[TR_PP], at[TR_AXES] = { 0 };
    const int stage[3] = { 0, stages > 2 ? 1 : 0, stages - 1 };
    for (int k = 0; k < 3; k++) {
        at[TR_PP] = stage[k];
        ranks[k] = tr_mesh_rank(m, at);
    }
}

static bool price(struct tr_estimate *x, const struct tr_run *run, const struct tr_tape *const of[3],
    const struct tr_machine *m)
{
    struct tr_error e;
    if (!tr_price_step(&x->price, &run->schedule, of, m, &e))
        return refuse(x, &e);
    x->tokens = (double)(run->plan.batch * run->graph.context) / x->price.step;
    return true;
}

static bool walk_all(struct tr_estimate *x, const struct tr_options *o, const struct tr_machine *m)
{
    struct tr_prepared p;
    struct tr_error e;
    int64_t most = -1;
    int ranks[3];
    if (!tr_prepare(&p, o, &e))
        return refuse(x, &e);
    for (int r = 0; r < p.run.plan.mesh.n; r++) {
        const struct tr_tape *t = tr_tapes_of(p.tapes, r);
        add_memory(x, t);
        most = add_bytes(x, t, most);
    }
    x->instructions = p.tapes->instructions;
    stand_for_all(&p.run.plan.mesh, ranks);
    const struct tr_tape *const of[3] = { tr_tapes_of(p.tapes, ranks[0]), tr_tapes_of(p.tapes, ranks[1]),
        tr_tapes_of(p.tapes, ranks[2]) };
    bool ok = price(x, &p.run, of, m);
    tr_prepared_free(&p);
    return ok;
}

static bool walk_some(struct tr_estimate *x, const struct tr_run *run, const struct tr_placed *placed,
    const struct tr_machine *m)
{
    struct tr_tape tapes[3];
    const struct tr_tape *of[3];
    struct tr_error e;
    int ranks[3], made = 0;
    int64_t most = -1;
    bool ok = true;
    stand_for_all(&run->plan.mesh, ranks);
    for (int k = 0; k < 3 && ok; k++) {
        if (k && ranks[k] == ranks[k - 1]) {
            of[k] = of[k - 1];
            continue;
        }
        ok = tr_lower(&tapes[made], placed, &run->schedule, ranks[k], &e) || refuse(x, &e);
        if (!ok)
            break;
        of[k] = &tapes[made++];
        add_memory(x, of[k]);
        most = add_bytes(x, of[k], most);
        x->instructions += of[k]->n_instrs;
    }
    ok = ok && price(x, run, of, m);
    while (made)
        tr_tape_free(&tapes[--made]);
    return ok;
}

void tr_evaluate(struct tr_estimate *x, const struct tr_options *o, const struct tr_machine *m)
{
    struct tr_run run;
    struct tr_placed placed = { .g = NULL };
    struct tr_error e;
    *x = (struct tr_estimate){ .legal = false };
    if (o->ranks <= TR_WALKED) {
        x->legal = walk_all(x, o, m);
        return;
    }
    if (!tr_run_make(&run, o, &e)) {
        refuse(x, &e);
        return;
    }
    if (tr_place(&placed, &run.graph, &run.plan, tr_kernels_planned(o->kernels), &e))
        x->legal = walk_some(x, &run, &placed, m);
    else
        refuse(x, &e);
    tr_placed_free(&placed);
    tr_run_free(&run);
}
