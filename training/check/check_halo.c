/* SPDX-License-Identifier: BSD-3-Clause */
/* check_halo.c: the rows of cells that neighbours give are those that are due. */
#include "training/check/checking.h"

#include <stdio.h>

bool tr_check_halo(const struct tr_checking *c, int n, enum tr_axis axis, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    struct tr_instr due = *i;
    char text[160];
    tr_put_halo(c->t, &due, axis);
    snprintf(text, sizeof text, "its halo has %lld elements, and a row of cells has %lld",
        (long long)i->count, (long long)due.count);
    if (i->count != due.count)
        return tr_checked_wrong(c, n, e, text);
    if (i->first == due.first && i->second == due.second)
        return true;
    return tr_checked_wrong(c, n, e,
        i->first > due.first || i->second > due.second
            ? "the halo beyond the border is +0, and a rank at the other end would give it"
            : "a neighbour's row is due in its halo, and is not asked for");
}
