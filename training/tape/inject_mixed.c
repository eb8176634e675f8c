/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_mixed.c: the errors of those who round: too early, or what should have been kept. */
#include "training/tape/plant.h"

static void become_bfloat16(struct tr_tape *t, int value)
{
    t->values[value].bytes = tr_count(t, value) * tr_element_bytes(TR_BFLOAT16);
    t->values[value].element = TR_BFLOAT16;
}

/* The rounding at n of what the instruction before it makes comes before that. */
static void round_before(struct tr_tape *t, int n)
{
    struct tr_instr *makes = &t->instrs[n - 1], *rounds = &t->instrs[n];
    int whole = makes->out[0];
    become_bfloat16(t, whole);
    t->values[rounds->out[0]].takes = makes->outs ? makes->in[0] : -1;
    rounds->in[0] = makes->in[0];
    makes->in[0] = rounds->out[0];
    for (int i = n + 1; i < t->n_instrs; i++)
        for (int x = 0; x < t->instrs[i].ins; x++)
            if (t->instrs[i].in[x] == rounds->out[0])
                t->instrs[i].in[x] = whole;
    tr_move_instr(t, n, n - 1);
    tr_plan_memory(t);
}

static bool rounds_before(struct tr_tape *tapes, int n, const char *tail)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_COMPUTE, TR_ROUND, tail, -1);
        if (i < 1 || tapes[r].instrs[i - 1].code != TR_ALL_REDUCE)
            return false;
        round_before(&tapes[r], i);
    }
    return true;
}

static bool gradient_rounded_before_its_sum(struct tr_tape *tapes, int n)
{
    return rounds_before(tapes, n, "fc1.weight");
}

static bool activation_rounded_before_its_sum(struct tr_tape *tapes, int n)
{
    return rounds_before(tapes, n, "fc2.sum");
}

/* The rounding is there, but has nothing to do any more. */
static bool partial_sum_is_bfloat16(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_COMPUTE, TR_ROW, "fc2.sum", -1);
        if (i < 0 || tapes[r].values[tapes[r].instrs[i].out[0]].element == TR_BFLOAT16)
            return false;
        become_bfloat16(&tapes[r], tapes[r].instrs[i].out[0]);
        tr_plan_memory(&tapes[r]);
    }
    return true;
}

/* What enters the sum over micro-batches is rounded first. */
static bool rounded_before_the_last_micro(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int i = tr_plant_find(t, TR_COMPUTE, TR_ROUND, "fc1.weight", -1);
        if (i < 1 || t->instrs[i - 1].code != TR_COUNT)
            return false;
        tr_move_instr(t, i, i - 1);
        tr_plan_memory(t);
    }
    return true;
}

static bool not_rounded(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_COMPUTE, TR_ROUND, "fc1.weight", -1);
        if (i < 0)
            return false;
        tr_plant_bypass(&tapes[r], i);
    }
    return true;
}

static bool master_forgotten(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_UPDATE, -1, "fc1.weight", -1);
        if (i < 0 || tapes[r].instrs[i].outs < 2)
            return false;
        tapes[r].instrs[i].outs = 1;
    }
    return true;
}

static const struct tr_injection list[] = {
    { "gradient-rounded-early", "a gradient is rounded before its sum over the ranks",
        "--precision bfloat16 --dp 2", TR_BY_TYPES, gradient_rounded_before_its_sum },
    { "activation-rounded-early", "an activation is rounded before its sum over the ranks",
        "--precision bfloat16 --tp 2", TR_BY_TYPES, activation_rounded_before_its_sum },
    { "partial-sum-in-bfloat16", "a partial sum has the element type of the whole",
        "--precision bfloat16 --tp 2", TR_BY_TYPES, partial_sum_is_bfloat16 },
    { "micro-batch-rounded", "a gradient is rounded before the last micro-batch is in it",
        "--precision bfloat16 --micro 4", TR_BY_TYPES, rounded_before_the_last_micro },
    { "gradient-not-rounded", "a gradient stays float32, as on no other mesh", "--precision bfloat16 --dp 2",
        TR_BY_TYPES, not_rounded },
    { "master-forgotten", "the optimizer updates rounded values, and small steps are lost",
        "--precision bfloat16", TR_BY_TYPES, master_forgotten },
};
const struct tr_injections tr_injections_mixed = { list, sizeof list / sizeof *list };
