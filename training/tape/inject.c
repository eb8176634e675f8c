/* SPDX-License-Identifier: BSD-3-Clause */
/* inject.c: the classic silent errors of parallel training, each planted into the tape as a pass with that
 * error would have written it. Each paradigm has a file with its own. */
#include "training/tape/plant.h"

#include <string.h>

int tr_plant_find(const struct tr_tape *t, enum tr_code code, int op, const char *tail, int axis)
{
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        const char *name = tr_instr_name(t, i);
        size_t length = strlen(name), end = strlen(tail);
        if (i->code == code && (op < 0 || i->op == op) && (axis < 0 || i->axes == 1 << axis) &&
            length >= end && !strcmp(name + length - end, tail))
            return n;
    }
    return -1;
}

void tr_plant_bypass(struct tr_tape *t, int n)
{
    int from = t->instrs[n].in[0], to = t->instrs[n].out[0];
    tr_remove_instr(t, n);
    for (int i = n; i < t->n_instrs; i++)
        for (int x = 0; x < t->instrs[i].ins; x++)
            if (t->instrs[i].in[x] == to)
                t->instrs[i].in[x] = from;
    tr_plan_memory(t);
}

bool tr_plant_leave_out(struct tr_tape *tapes, int n, enum tr_code code, const char *tail, int axis)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], code, -1, tail, axis);
        if (i < 0)
            return false;
        tr_plant_bypass(&tapes[r], i);
    }
    return true;
}

static const struct tr_injections *const groups[] = { &tr_injections_step, &tr_injections_context,
    &tr_injections_recompute, &tr_injections_server, &tr_injections_offload, &tr_injections_pipeline,
    &tr_injections_mixed, &tr_injections_async, &tr_injections_space, &tr_injections_norm,
    &tr_injections_experts };

const struct tr_injection *tr_injection_at(int i)
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; i -= groups[g]->n, g++)
        if (i < groups[g]->n)
            return &groups[g]->list[i];
    return NULL;
}

bool tr_inject(struct tr_tape *tapes, int n, const char *name, struct tr_error *e)
{
    char names[sizeof e->text - 256] = "";
    const struct tr_injection *x;
    for (int i = 0; (x = tr_injection_at(i)); i++) {
        if (!strcmp(name, x->name))
            return x->plant(tapes, n) ||
                   tr_fail(e, "--inject %s: this run cannot have it; it needs %s", name, x->needs);
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", x->name);
    }
    return tr_fail(e, "--inject %s: legal are %s", name, names);
}
