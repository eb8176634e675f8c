/* SPDX-License-Identifier: BSD-3-Clause */
/* check_update.c: an update goes by the optimizer that the plan has for this parameter, and what is loaded is
 * of the update that it is for. A rank with another rate or number would go on, with other weights than its
 * peers, and no message would tell. */
#include "training/check/checking.h"

#include <math.h>
#include <stdio.h>

static bool of_its_update(const struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    int due = i->micro < 0 ? 0 : i->micro / tr_update_micros(c->plan);
    char text[128];
    if (i->update == due)
        return true;
    snprintf(text, sizeof text, "it is taken for update %d of the step, and is of update %d", i->update, due);
    return tr_checked_wrong(c, n, e, text);
}

bool tr_check_loaded(const struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    char text[128];
    if (i->times == tr_micro_batch(c->plan))
        return of_its_update(c, n, e);
    snprintf(text, sizeof text, "it loads %lld sequences, and a micro-batch has %d here", (long long)i->times,
        tr_micro_batch(c->plan));
    return tr_checked_wrong(c, n, e, text);
}

static bool differ(double a, double b)
{
    return fabs(a - b) > 0;
}

static bool same_rates(const struct tr_optimizer *a, const struct tr_optimizer *b)
{
    return a->curve == b->curve && a->warmup == b->warmup && a->until == b->until &&
           !differ(a->least, b->least);
}

bool tr_check_optimizer(const struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    const struct tr_optimizer *is = &i->optimizer, *due = &c->plan->optimizer;
    double decay = c->g->tensors[i->parameter].dims > 1 ? due->decay : 0;
    char text[256];
    if (is->sgd == due->sgd && !differ(is->rate, due->rate) && !differ(is->decay, decay) &&
        !differ(is->clip, due->clip) && same_rates(is, due))
        return of_its_update(c, n, e);
    if (!same_rates(is, due))
        return tr_checked_wrong(c, n, e, "its rate goes another way than on the other ranks");
    snprintf(text, sizeof text,
        "%s with rate %g, decay %g and clip %g updates it; on every rank it is %s with %g, %g and %g",
        is->sgd ? "sgd" : "adamw", is->rate, is->decay, is->clip, due->sgd ? "sgd" : "adamw", due->rate,
        decay, due->clip);
    return tr_checked_wrong(c, n, e, text);
}
