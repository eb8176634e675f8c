/* SPDX-License-Identifier: BSD-3-Clause */
/* tapes.c: makes tapes, those of all ranks or one of each class, and has them checked. */
#include "training/planning/tapes.h"

#include "training/check/check.h"
#include "training/check/talk.h"
#include "training/passes/lower.h"

#include <stdlib.h>
#include <string.h>

int tr_class_of(const struct tr_mesh *m, int rank)
{
    int at[TR_AXES];
    if (tr_mesh_server(m, rank) >= 0)
        return rank;
    tr_mesh_place(m, rank, at);
    for (int a = 0; a < TR_AXES; a++)
        if (a != TR_PP && at[a] > 1)
            at[a] = 1;
    return tr_mesh_rank(m, at);
}

static bool make(struct tr_tapes *t, int rank, struct tr_error *e)
{
    if (!tr_lower(&t->of[rank], t->placed, t->schedule, rank, e))
        return false;
    tr_need_groups(&t->needed, &t->of[rank]);
    return true;
}

bool tr_tapes_make(struct tr_tapes *t, const struct tr_placed *placed, const struct tr_schedule *schedule,
    bool whole, struct tr_error *e)
{
    int n = placed->plan->mesh.n;
    *t = (struct tr_tapes){ .placed = placed,
        .schedule = schedule,
        .n = n,
        .by_class = !whole && n > TR_WALKED && !placed->plan->mesh.servers,
        .of = tr_new((size_t)n, sizeof *t->of) };
    bool ok = true;
    for (int r = 0; r < n && ok && !t->by_class; r++) {
        ok = make(t, r, e);
        t->instructions += t->of[r].n_instrs;
    }
    for (int r = 0; r < n && ok && !t->by_class; r++)
        tr_take_groups(&t->of[r], &t->needed);
    return ok;
}

/* The mesh that has the first two ranks of each axis, and all of pp. */
static struct tr_mesh small_mesh(const struct tr_mesh *m)
{
    struct tr_mesh small = { .n = 1 };
    for (int a = 0; a < TR_AXES; a++) {
        small.size[a] = a != TR_PP && m->size[a] > 2 ? 2 : m->size[a];
        small.n *= small.size[a];
    }
    return small;
}

/* Whom the x-th rank of the small mesh stands for. */
static int rank_in(const struct tr_mesh *m, const struct tr_mesh *small, int x)
{
    int at[TR_AXES];
    tr_mesh_place(small, x, at);
    return tr_mesh_rank(m, at);
}

/* How many ranks the class of this one has. */
static int64_t ranks_of_class(const struct tr_mesh *m, int rank)
{
    int at[TR_AXES];
    int64_t n = 1;
    tr_mesh_place(m, rank, at);
    for (int a = 0; a < TR_AXES; a++)
        n *= a != TR_PP && at[a] ? m->size[a] - 1 : 1;
    return n;
}

/* The tape is checked alone, and goes when it was heard what it says. */
static bool hear(struct tr_tapes *t, int rank, struct tr_talk *k, bool *by_types, struct tr_error *e)
{
    struct tr_tape *tape = &t->of[rank];
    if (!make(t, rank, e))
        return false;
    t->instructions += tape->n_instrs * ranks_of_class(&t->placed->plan->mesh, rank);
    tr_talk_of(k, tape);
    bool ok = tr_check_types(tape, e);
    *by_types = !ok;
    ok = ok && tr_check_versions(tape, e);
    tr_tape_free(tape);
    return ok;
}

static bool check_classes(struct tr_tapes *t, bool *by_types, struct tr_error *e)
{
    const struct tr_mesh *m = &t->placed->plan->mesh;
    struct tr_mesh small = small_mesh(m);
    struct tr_talk *talks = tr_new((size_t)small.n, sizeof *talks);
    const struct tr_talk **of = tr_new((size_t)t->n, sizeof *of);
    bool ok = true;
    for (int x = 0; x < small.n && ok; x++) {
        int rank = rank_in(m, &small, x);
        ok = hear(t, rank, &talks[x], by_types, e);
        of[rank] = &talks[x];
    }
    for (int r = 0; r < t->n; r++)
        of[r] = of[tr_class_of(m, r)];
    ok = ok && tr_check_talks(talks, small.n, &small, e) && tr_check_leaves(t->placed, of, t->n, true, e);
    for (int x = 0; x < small.n; x++)
        tr_talk_free(&talks[x]);
    free(talks), free(of);
    return ok;
}

bool tr_tapes_check(struct tr_tapes *t, bool *by_types, struct tr_error *e)
{
    *by_types = false;
    if (t->by_class)
        return check_classes(t, by_types, e);
    for (int r = 0; r < t->n; r++)
        if (!tr_check_types(&t->of[r], e)) {
            *by_types = true;
            return false;
        }
    return tr_check_order(t->of, t->n, e);
}

const struct tr_tape *tr_tapes_of(struct tr_tapes *t, int rank)
{
    struct tr_error e;
    if (tr_tapes_has(t, rank))
        return &t->of[rank];
    if (!make(t, rank, &e))
        abort(); /* that of its class was made */
    tr_take_groups(&t->of[rank], &t->needed);
    return &t->of[rank];
}

const struct tr_tape *tr_tapes_like(struct tr_tapes *t, int rank)
{
    return tr_tapes_of(t, t->by_class ? tr_class_of(&t->placed->plan->mesh, rank) : rank);
}

bool tr_tapes_has(const struct tr_tapes *t, int rank)
{
    return t->of[rank].placed != NULL;
}

void tr_tapes_forget(struct tr_tapes *t, int rank)
{
    tr_tape_free(&t->of[rank]);
}

void tr_tapes_free(struct tr_tapes *t)
{
    for (int r = 0; r < t->n && t->of; r++)
        tr_tape_free(&t->of[r]);
    free(t->of);
    *t = (struct tr_tapes){ 0 };
}
