/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.c: the memory of a step comes from a back end, and goes back to it. */
#include "training/run/arena.h"

static bool take(struct tr_arenas *a, bool host, int64_t bytes, int rank, struct tr_error *e)
{
    a->at[host] = a->b->alloc(a->x, bytes, host);
    if (!a->at[host])
        return tr_fail(e, "rank %d: there is no memory for %lld bytes", rank, (long long)bytes);
    tr_arenas_clear(a, host, 0, 0xFF, bytes); /* NaN */
    return true;
}

bool tr_arenas_take(struct tr_arenas *a, const struct tr_backend *b, struct tr_context *x,
    const struct tr_tape *t, struct tr_error *e)
{
    *a = (struct tr_arenas){ .b = b, .x = x };
    return take(a, false, t->arena, t->rank, e) &&
           (!t->host.arena || take(a, true, t->host.arena, t->rank, e));
}

void tr_arenas_release(struct tr_arenas *a)
{
    for (int host = 0; host < 2; host++)
        if (a->at[host])
            a->b->release(a->x, a->at[host], host);
}

void tr_arenas_read(const struct tr_arenas *a, bool host, int64_t offset, int64_t bytes, void *to)
{
    a->b->copy(a->x, to, a->at[host] + offset, bytes);
}

void tr_arenas_clear(const struct tr_arenas *a, bool host, int64_t offset, int byte, int64_t bytes)
{
    a->b->clear(a->x, a->at[host] + offset, byte, bytes);
}
