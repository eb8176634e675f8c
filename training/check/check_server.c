/* SPDX-License-Identifier: BSD-3-Clause */
/* check_server.c: types of what workers push and pull.
 *
 * A worker pushes its part of a sum over sequences, when it has all of that. It pulls every part of what is
 * updated, one after the other. A server gives what it has updated, and nothing else. */
#include "training/check/checking.h"

#include <string.h>

static bool pull(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    int servers = c->plan->mesh.servers, *pulled = &c->pulled[i->parameter];
    int64_t all = tr_count(c->t, i->out[0]);
    char text[128];
    if (i->peer != *pulled || i->count * servers != all || i->place != i->peer * i->count) {
        snprintf(text, sizeof text, "%d parts of %d came, and what comes now is not the next one", *pulled,
            servers);
        return tr_checked_wrong(c, n, e, text);
    }
    c->updated[i->parameter] += ++*pulled == servers;
    return true;
}

/* The gradient is all that there will be, and a worker has added a tied head's. */
static void comes_alone(struct tr_checking *c, int parameter)
{
    c->counted[parameter]++;
    for (int x = 0; x < c->g->n_tensors; x++)
        c->tied[x] |= c->g->tensors[x].values_of == parameter;
}

bool tr_check_with_server(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    char text[128];
    if (i->parameter < 0) /* leaves of the loss, or of the norm */
        return true;
    switch (i->edge) {
    case TR_TO_SERVER:
        if (c->counted[i->parameter] == c->plan->micros)
            return tr_check_term(c, n, i->in[0], e);
        snprintf(text, sizeof text, "the gradient is pushed with %d of %d micro-batches",
            c->counted[i->parameter], c->plan->micros);
        return tr_checked_wrong(c, n, e, text);
    case TR_FROM_SERVER:
        return pull(c, n, e);
    case TR_FROM_WORKER: /* as the worker has it: check_order holds that against this */
        memcpy(c->values[i->out[0]].on, c->t->placed->shards[c->t->values[i->out[0]].shard].on,
            sizeof c->values->on);
        if (c->plan->servers.async)
            comes_alone(c, i->parameter);
        return true;
    default:
        snprintf(text, sizeof text, "workers are given values that were updated %d times",
            c->updated[i->parameter]);
        return c->updated[i->parameter] == 1 || tr_checked_wrong(c, n, e, text);
    }
}
