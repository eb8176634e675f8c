/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_recompute.c: the errors of those who compute again what was not kept. */
#include "training/tape/plant.h"

/* The instruction of a backward part that computes again what this operation gave; -1. */
static int find_again(const struct tr_tape *t, int op, int micro)
{
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        if (i->code == TR_COMPUTE && i->op == op && i->part > TR_F && i->micro == micro)
            return n;
    }
    return -1;
}

static bool recomputed_from_another_micro(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int other = find_again(t, TR_GELU, 0), i = find_again(t, TR_GELU, 1);
        if (other < 0 || i < 0)
            return false;
        t->instrs[i].in[0] = t->instrs[other].in[0];
        tr_plan_memory(t);
    }
    return true;
}

/* The forward part's value is read, whose place is long another's. */
static bool dropped_and_not_recomputed(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int i = find_again(t, TR_GELU, 0), first = 0;
        if (i < 0)
            return false;
        int again = t->instrs[i].out[0], shard = t->values[again].shard;
        while (t->instrs[first].code != TR_COMPUTE || t->values[t->instrs[first].out[0]].shard != shard ||
               t->instrs[first].micro != 0)
            first++;
        tr_remove_instr(t, i);
        for (int k = i; k < t->n_instrs; k++)
            for (int x = 0; x < t->instrs[k].ins; x++)
                if (t->instrs[k].in[x] == again)
                    t->instrs[k].in[x] = t->instrs[first].out[0];
    }
    return true;
}

/* The sum over the ranks of tp is forgotten when a layer is computed again. */
static bool recomputed_partial_sum(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int i = find_again(t, TR_ROW, 0);
        if (i < 0 || t->instrs[i + 1].code != TR_ALL_REDUCE || t->instrs[i + 1].in[0] != t->instrs[i].out[0])
            return false;
        tr_plant_bypass(t, i + 1);
    }
    return true;
}

/* The gradient of a weight is made of the tokens of this rank alone. */
static bool not_gathered_again(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int i = 0;
        while (i < t->n_instrs &&
               !(t->instrs[i].code == TR_ALL_GATHER && t->instrs[i].part > TR_F &&
                   t->instrs[i + 1].code == TR_COMPUTE && t->instrs[i + 1].op == TR_COLUMN_DW))
            i++;
        if (i == t->n_instrs)
            return false;
        tr_plant_bypass(t, i);
    }
    return true;
}

static const struct tr_injection list[] = {
    { "recomputed-from-another", "an activation is computed again from that of another micro-batch",
        "--micro 2 --recompute gelu", TR_BY_TYPES, recomputed_from_another_micro },
    { "not-recomputed", "an activation is neither kept for the backward pass nor computed again",
        "--recompute gelu", TR_BY_TYPES, dropped_and_not_recomputed },
    { "recomputed-partial-sum", "the all-reduce is left out where a layer is computed again",
        "--tp 2 --recompute full", TR_BY_TYPES, recomputed_partial_sum },
    { "not-gathered-again", "the gradient of a weight takes a part of the tokens",
        "--tp 2 --sp --wgrad regather", TR_BY_TYPES, not_gathered_again },
};
const struct tr_injections tr_injections_recompute = { list, sizeof list / sizeof *list };
