/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c: the passes are asked, in their order; and what is done with their answers. */
#include "training/passes/pass.h"

#define ROW(name) &TR_PASS(name)
static const struct tr_pass *const passes[] = { TR_PASSES(ROW) };
enum { PASSES = sizeof passes / sizeof *passes };

/* The next pass from n on that the plan has; NULL: there is none. */
static const struct tr_pass *next_pass(const struct tr_lowering *l, int *n)
{
    while (*n < PASSES && !passes[*n]->on(l->p->plan))
        ++*n;
    return *n < PASSES ? passes[(*n)++] : NULL;
}

struct tr_held tr_passes_hold(const struct tr_lowering *l, const struct tr_tensor *w)
{
    const struct tr_pass *pass;
    struct tr_held held = { .ways = 1 };
    for (int n = 0; (pass = next_pass(l, &n));)
        if (pass->hold)
            pass->hold(l, w, &held);
    return held;
}

void tr_passes_begin(struct tr_lowering *l)
{
    const struct tr_pass *pass;
    for (int n = 0; (pass = next_pass(l, &n));)
        if (pass->begin)
            pass->begin(l);
}

int tr_passes_use(
    struct tr_lowering *l, const struct tr_param_state *h, int shard, const struct tr_slot *slot, int unit)
{
    const struct tr_pass *pass;
    int value = -1;
    for (int n = 0; value < 0 && (pass = next_pass(l, &n));)
        value = pass->use ? pass->use(l, h, shard, slot, unit) : -1;
    return value < 0 ? h->values : value;
}

bool tr_passes_again(const struct tr_lowering *l, const struct tr_step *s)
{
    const struct tr_pass *pass;
    for (int n = 0; (pass = next_pass(l, &n));)
        if (pass->again && pass->again(l, s))
            return true;
    return false;
}

int tr_passes_gradient(
    struct tr_lowering *l, const struct tr_param_state *h, int value, const struct tr_slot *slot, int unit)
{
    const struct tr_pass *pass;
    for (int n = 0; (pass = next_pass(l, &n));)
        if (pass->gradient)
            value = pass->gradient(l, h, value, slot, unit);
    return value;
}

void tr_passes_slot_end(struct tr_lowering *l, const struct tr_slot *slot)
{
    const struct tr_pass *pass;
    for (int n = 0; (pass = next_pass(l, &n));)
        if (pass->slot_end)
            pass->slot_end(l, slot);
}

void tr_passes_reduce(struct tr_lowering *l)
{
    const struct tr_pass *pass;
    bool done = false;
    for (int n = 0; !done && (pass = next_pass(l, &n));)
        done = pass->reduce && pass->reduce(l);
}

int tr_passes_whole(
    struct tr_lowering *l, const struct tr_param_state *h, int value, const struct tr_slot *slot, int unit)
{
    const struct tr_pass *pass;
    for (int n = 0; (pass = next_pass(l, &n));)
        if (pass->whole)
            value = pass->whole(l, h, value, slot, unit);
    return value;
}

static void update_in_place(struct tr_tape *t, const struct tr_param_state *h)
{
    struct tr_instr *i = tr_add_update(t, h, h->gradient);
    i->out[i->outs++] = h->values;
    if (h->master >= 0)
        i->out[i->outs++] = h->master;
}

void tr_passes_update(struct tr_lowering *l, struct tr_param_state *h)
{
    const struct tr_pass *pass;
    bool done = false;
    for (int n = 0; !done && (pass = next_pass(l, &n));)
        done = pass->update && pass->update(l, h);
    if (done)
        return;
    update_in_place(l->t, h);
    tr_passes_share(l, h, h->values);
}

void tr_passes_share(struct tr_lowering *l, const struct tr_param_state *h, int value)
{
    const struct tr_pass *pass;
    for (int n = 0; (pass = next_pass(l, &n));)
        if (pass->shared)
            pass->shared(l, h, value);
}

void tr_passes_rewrite(struct tr_lowering *l)
{
    const struct tr_pass *pass;
    for (int n = 0; (pass = next_pass(l, &n));)
        if (pass->rewrite)
            pass->rewrite(l);
}

void tr_passes_end(struct tr_lowering *l)
{
    const struct tr_pass *pass;
    for (int n = 0; (pass = next_pass(l, &n));)
        if (pass->end)
            pass->end(l);
}
