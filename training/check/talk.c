/* SPDX-License-Identifier: BSD-3-Clause */
/* talk.c: picks from a tape what is said to others. */
#include "training/check/talk.h"

#include <stdlib.h>

static bool is_said(const struct tr_instr *i)
{
    return i->beside || tr_codes[i->code].talks || i->code == TR_WAIT ||
           (i->code == TR_TIE && i->edge == TR_HOME);
}

static void say(struct tr_talk *k, const struct tr_tape *t, int n)
{
    const struct tr_instr *i = &t->instrs[n];
    int value = i->ins ? i->in[0] : i->out[0];
    k->said[k->n_said++] = (struct tr_said){ .number = n,
        .code = i->code,
        .edge = i->edge,
        .element = t->values[value].element,
        .axes = i->axes,
        .shift = i->shift,
        .peer = i->peer,
        .micro = i->micro,
        .fold = i->fold,
        .count = i->count,
        .times = i->times,
        .name = tr_instr_name(t, i),
        .in = i->ins ? i->in[0] : -1,
        .out = i->outs ? i->out[0] : -1,
        .beside = i->beside };
}

static void put_part(struct tr_talk *k, struct tr_tape *t, int n)
{
    const struct tr_instr *i = &t->instrs[n];
    const struct tr_param_state *h = i->code == TR_NORM ? tr_param_state_of(t, i->parameter) : NULL;
    int run = 0;
    for (int x = 0; x < k->n_parts; x++)
        run += k->parts[x].code == i->code && k->parts[x].micro == i->micro;
    k->parts[k->n_parts++] = (struct tr_leaf_part){ .number = n,
        .code = i->code,
        .parameter = i->parameter,
        .micro = i->micro,
        .run = run,
        .place = i->place,
        .count = i->count,
        .times = i->times,
        .shard_count = h ? h->shard_count : 0,
        .name = tr_instr_name(t, i) };
}

void tr_talk_of(struct tr_talk *k, struct tr_tape *t)
{
    size_t said = 0, parts = 0;
    for (int n = 0; n < t->n_instrs; n++) {
        said += is_said(&t->instrs[n]);
        parts += t->instrs[n].code == TR_NORM || t->instrs[n].code == TR_LOSSES;
    }
    *k = (struct tr_talk){ .rank = t->rank,
        .again = t->server >= 0 && t->placed->plan->servers.async,
        .said = tr_new(said + 1, sizeof *k->said),
        .parts = tr_new(parts + 1, sizeof *k->parts) };
    for (int n = 0; n < t->n_instrs; n++)
        if (is_said(&t->instrs[n]))
            say(k, t, n);
        else if (t->instrs[n].code == TR_NORM || t->instrs[n].code == TR_LOSSES)
            put_part(k, t, n);
}

void tr_talk_free(struct tr_talk *k)
{
    free(k->said), free(k->parts);
    *k = (struct tr_talk){ 0 };
}
