/* SPDX-License-Identifier: BSD-3-Clause */
/* waits.c: who uses the places that a copy reads and writes, before it and behind it. */
#include "training/tape/waits.h"

#include <stdlib.h>

static bool copies(const struct tr_instr *i)
{
    return i->code == TR_DOWN || i->code == TR_UP;
}

static bool overlap(const struct tr_value *a, const struct tr_value *b)
{
    return a->host == b->host && a->offset >= 0 && b->offset >= 0 && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Whether the instruction uses any of the value's place. */
static bool uses(const struct tr_tape *t, const struct tr_instr *i, const struct tr_value *v)
{
    for (int x = 0; x < i->ins; x++)
        if (overlap(&t->values[i->in[x]], v))
            return true;
    for (int x = 0; x < i->outs; x++)
        if (overlap(&t->values[i->out[x]], v))
            return true;
    if (i->scratch >= 0 && overlap(&t->values[i->scratch], v))
        return true;
    const struct tr_param_state *h =
        i->code == TR_ACCUMULATE ? tr_param_state_of((struct tr_tape *)t, i->parameter) : NULL;
    for (int level = 0; h && level < 32; level++)
        if (h->level[level] >= 0 && overlap(&t->values[h->level[level]], v))
            return true;
    return false;
}

/* The nearest one that is no copy and uses the value's place, from n on in this direction; -1: none does. */
static int nearest(const struct tr_tape *t, int n, int direction, const struct tr_value *v)
{
    for (n += direction; n >= 0 && n < t->n_instrs; n += direction)
        if (!copies(&t->instrs[n]) && uses(t, &t->instrs[n], v))
            return n;
    return -1;
}

/* Where it lies on the host, who comes before it was the processor, and has been there. */
static void add_copy(struct tr_waits *w, const struct tr_tape *t, int n)
{
    const int sides[] = { t->instrs[n].in[0], t->instrs[n].out[0] };
    for (int side = 0; side < 2; side++) {
        const struct tr_value *v = &t->values[sides[side]];
        int next = nearest(t, n, 1, v), before = v->host ? -1 : nearest(t, n, -1, v);
        if (next >= 0 && n > w->copy[next])
            w->copy[next] = n;
        if (before > w->after[n])
            w->after[n] = before;
    }
    if (w->after[n] >= 0)
        w->awaited[w->after[n]] = true;
}

void tr_waits_make(struct tr_waits *w, const struct tr_tape *t)
{
    size_t n = (size_t)t->n_instrs;
    *w = (struct tr_waits){ tr_new(n, sizeof(int)), tr_new(n, sizeof(int)), tr_new(n, sizeof(bool)) };
    for (int i = 0; i < t->n_instrs; i++)
        w->after[i] = w->copy[i] = -1;
    for (int i = 0; i < t->n_instrs; i++)
        if (copies(&t->instrs[i]))
            add_copy(w, t, i);
}

void tr_waits_free(struct tr_waits *w)
{
    free(w->after);
    free(w->copy);
    free(w->awaited);
    *w = (struct tr_waits){ .after = NULL };
}
