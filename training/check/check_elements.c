/* SPDX-License-Identifier: BSD-3-Clause */
/* check_elements.c: the element types of a tape. A sum is rounded when it is whole, and an optimizer keeps
 * what rounding would lose. */
#include "training/check/checking.h"

#include <stdio.h>
#include <string.h>

static enum tr_element element(const struct tr_checking *c, int value)
{
    return c->t->values[value].element;
}

/* Summands of a sum over ranks or micro-batches are float32. */
static bool rounded_too_early(struct tr_checking *c, int n, int value, struct tr_error *e)
{
    const struct tr_tensor *t = tr_checked_tensor(c, value);
    char text[160];
    if (!t || element(c, value) != TR_BFLOAT16)
        return false;
    for (int a = 0; a < TR_AXES; a++)
        if (c->values[value].on[a].kind == TR_P || c->values[value].on[a].term ||
            c->values[value].on[a].halves)
            return !tr_checked_said(
                c, n, e, value, a, "it was rounded before it is whole; legal is to round the sum");
    if (t->role != TR_D_PARAMETER || c->counted[t->of] == tr_check_parts(c))
        return false;
    snprintf(text, sizeof text, "%s is rounded with %d of %d %s in it", t->name, c->counted[t->of],
        tr_check_parts(c), c->t->server >= 0 ? "workers' gradients" : "micro-batches");
    return !tr_checked_wrong(c, n, e, text);
}

static bool keeps_its_type(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    bool rounds = i->code == TR_COMPUTE && i->op == TR_ROUND;
    if (rounds && (element(c, i->in[0]) != TR_FLOAT32 || element(c, i->out[0]) != TR_BFLOAT16))
        return tr_checked_wrong(c, n, e, "float32 is rounded to bfloat16, and nothing else");
    bool moves = i->code != TR_COMPUTE && i->code != TR_UPDATE && i->code != TR_NORM && i->ins && i->outs;
    if (moves && element(c, i->in[0]) != element(c, i->out[0]))
        return tr_checked_wrong(c, n, e, "what it reads and what it gives have not the same element type");
    return true;
}

/* What the norm and the optimizer read is rounded, on every mesh alike; and the sum over steps is not. */
static bool updates_masters(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    bool uses = i->code == TR_UPDATE || i->code == TR_NORM;
    if (!uses || !c->plan->numbers.bfloat16)
        return true;
    if (element(c, i->in[0]) != TR_BFLOAT16)
        return tr_checked_wrong(c, n, e, "the gradient is not rounded, and on another mesh it would be");
    if (i->code == TR_UPDATE && (i->outs < 2 || element(c, i->out[1]) != TR_FLOAT32))
        return tr_checked_wrong(
            c, n, e, "rounded values are updated, which loses small steps; legal is to update their master");
    return true;
}

bool tr_check_elements(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    for (int x = 0; x < i->outs; x++)
        if (rounded_too_early(c, n, i->out[x], e))
            return false;
    return keeps_its_type(c, n, e) && updates_masters(c, n, e);
}
