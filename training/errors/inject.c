/* SPDX-License-Identifier: BSD-3-Clause */
/* inject.c: plants what a row of the table says into the tapes, as a pass with that error would have written
 * them. */
#include "training/errors/plant.h"

#include <string.h>

static bool picked(const struct tr_tape *t, const struct tr_pick *p, int n)
{
    if (n < 0 || n >= t->n_instrs)
        return false;
    const struct tr_instr *i = &t->instrs[n];
    const char *name = tr_instr_name(t, i);
    size_t length = strlen(name), end = p->tail ? strlen(p->tail) : 0;
    return (p->code == TR_CODES || i->code == p->code) && (p->code != TR_COMPUTE || i->op == p->op) &&
           (!p->axes || i->axes == p->axes) && length >= end &&
           (!end || !strcmp(name + length - end, p->tail)) && (!p->backward || i->part > TR_F) &&
           (!p->micro || i->micro == p->micro - 1) && (!p->beside || i->beside) &&
           (p->about == TR_ABOUT_ANY || (i->parameter >= 0) == (p->about == TR_ABOUT_PARAMETER));
}

int tr_find(const struct tr_tape *t, const struct tr_pick *p, int from)
{
    while (from < t->n_instrs && !picked(t, p, from))
        from++;
    return from < t->n_instrs ? from : -1;
}

/* Where the second instruction of the row stands, for a first one at `at`; -1. */
static int second_of(const struct tr_tape *t, const struct tr_planting *row, int at)
{
    static const int away[] = { [TR_JUST_BEFORE] = -1, [TR_JUST_BEHIND] = 1, [TR_TWO_BEHIND] = 2 };
    if (row->second_is >= TR_JUST_BEFORE)
        return picked(t, &row->second, at + away[row->second_is]) ? at + away[row->second_is] : -1;
    return tr_find(t, &row->second, row->second_is == TR_LATER ? at + 1 : 0);
}

/* Every instruction is taken from the end on, so that one that goes leaves those to come where they are. */
static bool plant_on(struct tr_tape *t, const struct tr_planting *row)
{
    bool changed = false;
    for (int k = 0, all = t->n_instrs; k < all && (!changed || row->every); k++) {
        int n = row->last || row->every ? all - 1 - k : k;
        int second = row->second_is ? second_of(t, row, n) : -1;
        if (picked(t, &row->at, n) && (!row->second_is || second >= 0))
            changed |= row->change(&(struct tr_spot){ t, row, n, second, &t->instrs[n] });
    }
    if (changed && !row->places_stay)
        tr_plan_memory(t);
    return changed;
}

static bool plant(struct tr_tape *tapes, int n, const struct tr_planting *row)
{
    if (row->whole)
        return row->whole(tapes, n);
    bool served = tapes[n - 1].server >= 0;
    if ((row->on == TR_ON_SERVER || row->on == TR_ON_WORKER) && !served)
        return false;
    if (row->on == TR_ON_FIRST || row->on == TR_ON_WORKER)
        return plant_on(&tapes[0], row);
    if (row->on == TR_ON_LAST || row->on == TR_ON_SERVER)
        return plant_on(&tapes[n - 1], row);
    int changed = 0;
    for (int r = 0; r < n && (row->on != TR_ON_ONE || !changed); r++)
        changed += (row->on != TR_ON_THIRD || tapes[r].at[TR_DP] == 2) && plant_on(&tapes[r], row);
    return row->on == TR_ON_EACH ? changed == n : changed > 0;
}

const struct tr_injection *tr_injection_at(int i)
{
    return i < tr_n_plantings ? &tr_plantings[i].is : NULL;
}

bool tr_inject(struct tr_tape *tapes, int n, const char *name, struct tr_error *e)
{
    char names[sizeof e->text - 256] = "";
    const struct tr_injection *x;
    for (int i = 0; (x = tr_injection_at(i)); i++) {
        if (!strcmp(name, x->name))
            return plant(tapes, n, &tr_plantings[i]) ||
                   tr_fail(e, "--inject %s: this run cannot have it; it needs %s", name, x->needs);
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", x->name);
    }
    return tr_fail(e, "--inject %s: legal are %s", name, names);
}
