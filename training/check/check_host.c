/* SPDX-License-Identifier: BSD-3-Clause */
/* check_host.c: the type check of two memories: an instruction works in one of them, a copy joins them, and
 * what the host renews is not forgotten there. */
#include "training/check/checking.h"

#include <string.h>

static bool is_at(const struct tr_checking *c, int n, int value, bool host, struct tr_error *e)
{
    char text[200];
    if (c->t->values[value].host == host)
        return true;
    snprintf(text, sizeof text, "%s lies in the %s memory, and this works in the %s; a copy is due",
        tr_checked_name(c, value), host ? "device's" : "host's", host ? "host's" : "device's");
    return tr_checked_wrong(c, n, e, text);
}

/* The optimizer works where the parameter is that it renews. All else works on the device. */
bool tr_check_memories(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    bool in = i->code == TR_UP, out = i->code == TR_DOWN;
    if (i->code == TR_UPDATE)
        in = out = c->t->values[i->out[0]].host;
    for (int x = 0; x < i->ins; x++)
        if (!is_at(c, n, i->in[x], in, e))
            return false;
    for (int x = 0; x < i->outs; x++)
        if (!is_at(c, n, i->out[x], out, e))
            return false;
    return i->scratch < 0 || is_at(c, n, i->scratch, false, e);
}

/* Where the host's part of a parameter begins in what the device has. */
static int64_t part_begins(const struct tr_checking *c, const struct tr_value *from, int to)
{
    const struct tr_tensor *w = tr_checked_tensor(c, to);
    bool part = tr_zero_cuts(c->plan, w) && !tr_zero_cuts_parameter(c->plan, w);
    return part ? from->bytes / tr_element_bytes(from->element) * tr_replica_rank(c->plan, w, c->t->at) : 0;
}

bool tr_check_copy(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    const struct tr_value *from = &c->t->values[i->in[0]], *to = &c->t->values[i->out[0]];
    const struct tr_tensor *t = tr_checked_tensor(c, i->out[0]);
    bool parameter = t && t->role == TR_PARAMETER;
    if (from->shard != to->shard)
        return tr_checked_wrong(c, n, e, "the copy is said to be another tensor than what is copied");
    if (i->place * tr_element_bytes(from->element) + from->bytes > to->bytes ||
        (!parameter && from->bytes != to->bytes))
        return tr_checked_wrong(c, n, e, "the copy is of another size than what is copied");
    if (i->place != (parameter ? part_begins(c, from, i->out[0]) : 0))
        return tr_checked_wrong(c, n, e, "the copy does not lie where this rank's part begins");
    memcpy(c->values[i->out[0]].on, c->values[i->in[0]].on, sizeof c->values->on);
    c->values[i->out[0]].renewed = to->lasts;
    if (parameter)
        c->raised[t - c->g->tensors] += c->updated[t - c->g->tensors];
    return true;
}

bool tr_check_raised(const struct tr_checking *c, struct tr_error *e)
{
    for (int n = 0; n < c->t->n_states; n++) {
        const struct tr_param_state *h = &c->t->states[n];
        if (h->on_host >= 0 && c->raised[h->parameter] != c->updated[h->parameter])
            return tr_fail(e,
                "rank %d: the host updates %s, and it comes up %d times after that: the next step would "
                "read what it was before",
                c->t->rank, c->g->tensors[h->parameter].name, c->raised[h->parameter]);
    }
    return true;
}
