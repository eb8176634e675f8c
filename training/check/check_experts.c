/* SPDX-License-Identifier: BSD-3-Clause */
/* check_experts.c: the type check of an exchange of rows: its counts are those of its rows, as each side has
 * them. */
#include "training/check/checking.h"

#include <stdio.h>
#include <string.h>

bool tr_check_admit(struct tr_checking *c, int n, struct tr_error *e)
{
    char text[160];
    const struct tr_instr *i = &c->t->instrs[n];
    int64_t first = (int64_t)tr_data_rank(c->plan, c->t->at) * tr_micro_batch(c->plan);
    if (i->place == first)
        return true;
    snprintf(text, sizeof text,
        "its sequences are taken to begin at %lld of the micro-batch of all ranks, and begin at %lld",
        (long long)i->place, (long long)first);
    return tr_checked_wrong(c, n, e, text);
}

bool tr_check_exchange(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    const struct tr_tensor *rows = tr_checked_tensor(c, i->in[0]);
    for (int side = 0; side < 2; side++) {
        const struct tr_tensor *counts = i->ins == 3 ? tr_checked_tensor(c, i->in[1 + side]) : NULL;
        if (!counts || counts != &c->g->tensors[rows->counts])
            return tr_checked_wrong(
                c, n, e, "what it sends and what comes is not counted by the counts of these rows");
        if (!tr_placement_is(c->values[i->in[1 + side]].on[TR_EP], tr_placement_of(side ? "E" : "Sb", 0)))
            return tr_checked_said(c, n, e, i->in[1 + side], TR_EP,
                "legal are the counts of the tokens that are here, and then those of the experts");
    }
    return true;
}
