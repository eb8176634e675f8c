/* SPDX-License-Identifier: BSD-3-Clause */
/* mutate.c: the few ways in which a list of instructions goes wrong. */
#include "training/errors/plant.h"

#include <string.h>

void tr_read_instead(const struct tr_spot *s, int value)
{
    struct tr_tape *t = s->t;
    int out = s->i->out[0];
    tr_remove_instr(t, s->at);
    for (int n = s->at; n < t->n_instrs; n++)
        for (int x = 0; x < t->instrs[n].ins; x++)
            if (t->instrs[n].in[x] == out)
                t->instrs[n].in[x] = value;
}

bool tr_drop(const struct tr_spot *s)
{
    tr_remove_instr(s->t, s->at);
    return true;
}

bool tr_bypass(const struct tr_spot *s)
{
    tr_read_instead(s, s->i->in[0]);
    return true;
}

bool tr_double(const struct tr_spot *s)
{
    struct tr_instr again = *s->i;
    if (again.axes)
        again.in[0] = again.out[0];
    *tr_insert_instr(s->t, s->at + 1, again.code) = again;
    return true;
}

bool tr_put(const struct tr_spot *s)
{
    tr_move_instr(s->t, s->at, s->second);
    return true;
}

bool tr_swap(const struct tr_spot *s)
{
    struct tr_instr first = *s->i;
    *s->i = s->t->instrs[s->second];
    s->t->instrs[s->second] = first;
    return true;
}

bool tr_swap_operands(const struct tr_spot *s)
{
    int *to = &s->i->in[s->row->to], *from = &s->i->in[s->row->from], kept = *to;
    *to = *from;
    *from = kept;
    return true;
}

bool tr_redirect(const struct tr_spot *s)
{
    s->i->in[s->row->to] = s->t->instrs[s->second].in[s->row->from];
    return true;
}

bool tr_read_before(const struct tr_spot *s)
{
    const struct tr_instr *made = &s->t->instrs[s->second];
    bool changed = false;
    for (int x = 0; x < s->i->ins; x++)
        if (s->i->in[x] == made->out[0]) {
            s->i->in[x] = made->in[0];
            changed = true;
        }
    return changed;
}

bool tr_lay_over(const struct tr_spot *s)
{
    struct tr_value *values = s->t->values;
    if (s->second > s->at)
        return false;
    values[s->i->out[0]].offset = values[s->t->instrs[s->second].out[0]].offset;
    return true;
}

bool tr_set(const struct tr_spot *s)
{
    const struct tr_planting *row = s->row;
    const bool flag = row->value;
    const int word = (int)row->value;
    const void *value = row->size == sizeof flag   ? (const void *)&flag
                        : row->size == sizeof word ? (const void *)&word
                                                   : (const void *)&row->value;
    void *field = (unsigned char *)s->i + row->field;
    if (!memcmp(field, value, row->size))
        return false;
    memcpy(field, value, row->size);
    return true;
}
