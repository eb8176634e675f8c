/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_experts.c: the errors of those who share experts among the ranks of dp. */
#include "training/tape/plant.h"

/* The gradient of a tensor of the first layer is summed over the ranks of these axes. */
static bool summed_over(struct tr_tape *tapes, int n, const char *tail, int axes)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_ALL_REDUCE, -1, tail, -1);
        if (i < 0 || tapes[r].instrs[i].axes == axes)
            return false;
        tapes[r].instrs[i].axes = axes;
    }
    return true;
}

/* As many times too large as there are ranks with other experts. Adam hides it. */
static bool experts_summed_over_dp(struct tr_tape *tapes, int n)
{
    return summed_over(tapes, n, "layer0.up.weight", TR_DATA);
}

static bool router_summed_over_replicas(struct tr_tape *tapes, int n)
{
    return summed_over(tapes, n, "layer0.router.weight", 1 << TR_DP);
}

/* Experts work on what the tokens of their own rank gave. */
static bool rows_not_exchanged(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_TO_ALL_V, "layer0.rows", TR_EP);
}

/* What is sent is counted as what comes: rows lie where those of another rank or expert belong. */
static bool counts_swapped(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_ALL_TO_ALL_V, -1, "layer0.rows", TR_EP);
        if (i < 0)
            return false;
        int *in = tapes[r].instrs[i].in, mine = in[1];
        in[1] = in[2], in[2] = mine;
    }
    return true;
}

static bool counts_of_another_layer(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int other = tr_plant_find(&tapes[r], TR_ALL_TO_ALL_V, -1, "layer0.rows", TR_EP),
            i = tr_plant_find(&tapes[r], TR_ALL_TO_ALL_V, -1, "layer1.rows", TR_EP);
        if (i < 0 || other < 0)
            return false;
        tapes[r].instrs[i].in[2] = tapes[r].instrs[other].in[2];
    }
    return true;
}

/* The rows of a sum over the batch are then no neighbours: the sequences of a rank are, and an expert has
 * those of several ranks. */
static bool sequences_of_a_rank_are_neighbours(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        const struct tr_plan *p = tapes[r].placed->plan;
        int rank = tr_data_rank(p, tapes[r].at);
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            if (x->code == TR_LOAD)
                x->place = (int64_t)tr_micro_batch(p) * (rank * p->micros + x->micro);
        }
        if (p->mesh.size[TR_EP] == 1 || p->micros == 1)
            return false;
    }
    return true;
}

/* What all ranks would send of what their tokens chose is read before it was sent. */
static bool counted_alone(struct tr_tape *tapes, int n, int op, int operand)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_ALL_GATHER, -1, "layer0.wanted", -1), use = i;
        while (use >= 0 && use < tapes[r].n_instrs &&
               !(tapes[r].instrs[use].code == TR_COMPUTE && tapes[r].instrs[use].op == op &&
                   tapes[r].instrs[use].in[operand] == tapes[r].instrs[i].out[0]))
            use++;
        if (use < 0 || use == tapes[r].n_instrs)
            return false;
        tapes[r].instrs[use].in[operand] = tapes[r].instrs[i].in[0];
        tr_plan_memory(&tapes[r]);
    }
    return true;
}

static bool capacity_of_a_rank(struct tr_tape *tapes, int n)
{
    return counted_alone(tapes, n, TR_ADMIT, 1);
}

static bool balance_of_a_rank(struct tr_tape *tapes, int n)
{
    return counted_alone(tapes, n, TR_BALANCE_DX, 3);
}

/* Each rank's tokens are taken to be the first ones: too many are admitted. */
static bool all_ranks_first(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            if (x->code == TR_COMPUTE && x->op == TR_ADMIT)
                x->place = 0;
        }
    return n > 1;
}

static const struct tr_injection list[] = {
    { "experts-scale", "an expert's gradient is summed over dp, and not over dp / ep",
        "--model moe:nano --dp 4 --ep 2", TR_BY_TYPES, experts_summed_over_dp },
    { "router-over-replicas", "a router's gradient is summed over dp / ep, and not over dp",
        "--model moe:nano --dp 4 --ep 2", TR_BY_TYPES, router_summed_over_replicas },
    { "rows-not-exchanged", "experts work on the tokens of their own rank", "--model moe:nano --dp 2 --ep 2",
        TR_BY_TYPES, rows_not_exchanged },
    { "rows-swapped", "rows are sent by the counts of those that come", "--model moe:nano --dp 2 --ep 2",
        TR_BY_TYPES, counts_swapped },
    { "rows-of-another-layer", "rows come by the counts of another layer", "--model moe:nano --dp 2 --ep 2",
        TR_BY_TYPES, counts_of_another_layer },
    { "experts-no-subtree", "an expert's sum over the batch begins with sequences that are no neighbours",
        "--model moe:nano --dp 2 --ep 2 --zero 2 --micro 2", TR_BY_TYPES,
        sequences_of_a_rank_are_neighbours },
    { "capacity-by-local-batch", "an expert's capacity counts the tokens of one rank",
        "--model moe:nano --dp 2 --capacity-factor 1", TR_BY_TYPES, capacity_of_a_rank },
    { "all-ranks-first", "the tokens of each rank are admitted as if no other came before",
        "--model moe:nano --dp 2 --capacity-factor 1", TR_BY_TYPES, all_ranks_first },
    { "balance-by-local-batch", "the loss of balance counts the tokens of one rank",
        "--model moe:nano --dp 2 --aux-loss 0.1", TR_BY_TYPES, balance_of_a_rank },
};
const struct tr_injections tr_injections_experts = { list, sizeof list / sizeof *list };
