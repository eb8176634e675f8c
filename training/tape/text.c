/* SPDX-License-Identifier: BSD-3-Clause */
/* text.c: a tape for people: one line an instruction. */
#include "training/tape/tape.h"

#include <stdio.h>

const char *tr_instr_does(const struct tr_instr *i)
{
    return i->code == TR_COMPUTE ? tr_op(i->op)->name : tr_codes[i->code].name;
}

const char *tr_instr_name(const struct tr_tape *t, const struct tr_instr *i)
{
    const struct tr_graph *g = t->placed->g;
    if (i->parameter >= 0)
        return g->tensors[i->parameter].name;
    int v = i->outs && t->values[i->out[0]].shard >= 0 ? i->out[0]
            : i->ins                                   ? i->in[0]
            : i->outs                                  ? i->out[0]
                                                       : -1;
    if (v >= 0 && t->values[v].shard >= 0)
        return g->tensors[t->placed->shards[t->values[v].shard].tensor].name;
    return v == t->losses ? "loss" : v == t->leaves ? "norm" : "";
}

static const char *group_text(int axes, char text[32])
{
    int used = 0;
    text[0] = 0;
    if (axes == TR_WORLD)
        return "world";
    for (int a = 0; a < TR_AXES; a++)
        if (axes & 1 << a)
            used += snprintf(text + used, 32 - (size_t)used, "%s%s", used ? "+" : "", tr_axis_names[a]);
    return text;
}

/* How many tensors the call is about. */
static int members(const struct tr_tape *t, const struct tr_instr *i)
{
    int n = 0;
    for (int b = 0; b < t->n_buckets && i->ins; b++)
        if (t->buckets[b].value >= 0 && t->buckets[b].value == i->in[0])
            n = t->buckets[b].members;
    return n;
}

void tr_tape_print(const struct tr_tape *t, FILE *to)
{
    static const char parts[] = "FBIW";
    char text[64], group[32];
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        fprintf(to, "%5d ", n);
        if (i->part >= 0)
            fprintf(to, "%c%d.%-3d ", parts[i->part], i->stage, i->micro);
        else
            fprintf(to, "       ");
        fprintf(to, "%-14s %-28s", tr_instr_does(i), tr_instr_name(t, i));
        if (i->axes)
            fprintf(to, " over %s, %lld x %lld elements", group_text(i->axes, group), (long long)i->times,
                (long long)i->count);
        int together = members(t, i);
        if (together > 1)
            fprintf(to, ", %d tensors", together);
        if (i->beside)
            fprintf(to, " beside the list");
        if (i->edge && i->count)
            fprintf(to, " %s, %lld elements", tr_edge_kinds[i->edge].name, (long long)i->count);
        for (int x = 0; x < i->outs && i->parameter < 0; x++) {
            const struct tr_value *v = &t->values[i->out[x]];
            if (v->shard >= 0)
                fprintf(to, "%s %s", x ? "," : " ->", tr_shard_text(t->placed, v->shard, text));
        }
        fprintf(to, "\n");
    }
}
