/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c: the passes, in the order in which they are asked, and what is done with their answers. */
#include "training/passes/pass.h"

static const struct tr_pass *const passes[] = { &tr_pass_recompute };
enum { PASSES = sizeof passes / sizeof *passes };

/* The next pass from n on that the plan has; NULL: there is none. */
static const struct tr_pass *next_pass(const struct tr_lowering *l, int *n)
{
    while (*n < PASSES && !passes[*n]->on(l->p->plan))
        ++*n;
    return *n < PASSES ? passes[(*n)++] : NULL;
}

bool tr_computes_again(const struct tr_lowering *l, const struct tr_step *s)
{
    const struct tr_pass *pass;
    for (int n = 0; (pass = next_pass(l, &n));)
        if (pass->again && pass->again(l, s))
            return true;
    return false;
}
