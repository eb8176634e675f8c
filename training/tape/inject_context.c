/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_context.c: the errors of those who cut the tokens of a sequence. */
#include "training/tape/plant.h"

/* The gradient is a sum over the tokens of this rank. */
static bool tokens_not_reduced(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_REDUCE, "qkv.weight", TR_CP);
}

static bool keys_not_gathered(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_GATHER, "kv", TR_CP);
}

static bool heads_not_exchanged(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_TO_ALL, "qkv", TR_CP);
}

/* Keys of the rank before are what those of this rank were. */
static bool ring_not_turned(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_SHIFT, "kv", TR_CP);
}

/* What two ranks' keys give is joined in the order in which it came, not in that of the sequence. */
static bool ring_rotated(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_COMPUTE, TR_ATTEND_MERGE, "attention", -1);
        if (i < 0)
            return false;
        int *part = tapes[r].instrs[i].in, first = part[0];
        part[0] = part[1];
        part[1] = first;
    }
    return true;
}

/* Gradients of keys go on with the ring; they are due at the rank whose keys they are. */
static bool ring_goes_on(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            found |= x->code == TR_SHIFT && x->turn < 0;
            x->turn = x->code == TR_SHIFT ? 1 : x->turn;
        }
    return found;
}

/* What the other ranks gave lies side by side still, and is read as if it were in the order of the heads. */
static bool heads_not_unpacked(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_COMPUTE, TR_UNPACK, "attention", -1);
        if (i < 0)
            return false;
        tr_plant_bypass(&tapes[r], i);
    }
    return true;
}

/* Each rank takes its tokens to be the first ones of the sequence. */
static bool tokens_begin_at_zero(struct tr_tape *tapes, int n, int op)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            if (x->code == TR_COMPUTE && x->op == op && x->first > 0) {
                x->first = 0;
                found = true;
            }
        }
    return found;
}

static bool positions_begin_at_zero(struct tr_tape *tapes, int n)
{
    return tokens_begin_at_zero(tapes, n, TR_POSITION);
}

static bool mask_of_the_first_rank(struct tr_tape *tapes, int n)
{
    return tokens_begin_at_zero(tapes, n, TR_ATTEND);
}

/* Blocks that are no neighbours are added first. */
static bool outer_first(struct tr_tape *tapes, int n, enum tr_axis inner)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_ALL_REDUCE, -1, "ln1.weight", inner);
        if (i < 0 || tapes[r].instrs[i + 1].axes != 1 << TR_CP)
            return false;
        tapes[r].instrs[i].axes = 1 << TR_CP;
        tapes[r].instrs[i + 1].axes = 1 << inner;
    }
    return true;
}

static bool outer_axis_first(struct tr_tape *tapes, int n)
{
    return outer_first(tapes, n, TR_TP);
}

static bool outer_level_first(struct tr_tape *tapes, int n)
{
    return outer_first(tapes, n, TR_CU);
}

/* Inside a group, where ranks have other heads of the same tokens. */
static bool ring_inside_the_group(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_SHIFT, -1, "kv", TR_CP);
        if (i < 0 || tapes[r].placed->plan->mesh.size[TR_CU] == 1)
            return false;
        tapes[r].instrs[i].axes = 1 << TR_CU;
    }
    return true;
}

/* The second half of a rank's tokens is taken to follow the first. */
static bool second_half_follows(struct tr_tape *tapes, int n, int op)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            if (x->code != TR_COMPUTE || x->op != op || !x->second)
                continue;
            int64_t tokens = tr_shard_size(tapes[r].placed, tapes[r].values[x->in[0]].shard, 1);
            x->second = x->first + tokens / 2;
            found = true;
        }
    return found;
}

static bool zigzag_positions_follow(struct tr_tape *tapes, int n)
{
    return second_half_follows(tapes, n, TR_POSITION);
}

static bool zigzag_mask_follows(struct tr_tape *tapes, int n)
{
    return second_half_follows(tapes, n, TR_ATTEND_PART);
}

/* Tokens of stripes are taken to be neighbours. */
static bool stripes_are_neighbours(struct tr_tape *tapes, int n, int op)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            if (x->code != TR_COMPUTE || x->op != op || !x->striped)
                continue;
            x->striped = false;
            found = true;
        }
    return found;
}

static bool striped_positions_follow(struct tr_tape *tapes, int n)
{
    return stripes_are_neighbours(tapes, n, TR_POSITION);
}

static bool striped_mask_of_neighbours(struct tr_tape *tapes, int n)
{
    return stripes_are_neighbours(tapes, n, TR_ATTEND_PART);
}

/* Keys lie as they came, by ranks. */
static bool zigzag_not_arranged(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_COMPUTE, TR_ARRANGE, "kv", -1);
        if (i < 0)
            return false;
        tr_plant_bypass(&tapes[r], i);
    }
    return true;
}

/* One all-reduce of what a rank sums over both of its runs: a tree, but another one. */
static bool zigzag_halves_added_first(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int sum = tr_plant_find(t, TR_ALL_REDUCE, -1, "qkv.weight", TR_CP),
            fold = tr_plant_find(t, TR_COMPUTE, TR_FOLD, "qkv.weight", -1);
        if (sum < 0 || fold < sum || !tapes[r].instrs[fold].in[0])
            return false;
        t->instrs[fold].in[0] = t->instrs[sum].in[0];
        t->instrs[sum].in[0] = t->instrs[sum].out[0] = t->instrs[fold].out[0];
        t->instrs[sum].count = t->values[t->instrs[fold].out[0]].bytes / 4;
        tr_move_instr(t, sum, fold);
    }
    return true;
}

/* The results of this rank's own keys are in the place of those of the rank before. */
static bool block_joined_twice(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_COMPUTE, TR_ATTEND_MERGE, "attention", -1);
        if (i < 0)
            return false;
        tapes[r].instrs[i].in[1] = tapes[r].instrs[i].in[0];
    }
    return true;
}

/* The loss of a rank's second half is given the place behind that of the first. */
static bool loss_of_second_half_misplaced(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i + 1 < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i], *next = x + 1;
            if (x->code != TR_LOSSES || next->code != TR_LOSSES || next->in[0] != x->in[0])
                continue;
            next->place = x->place + x->count;
            found = true;
        }
    return found;
}

static const struct tr_injection list[] = {
    { "tokens-not-reduced", "under context parallelism a weight's gradient has a part of the tokens",
        "--cp 2", TR_BY_TYPES, tokens_not_reduced },
    { "keys-not-gathered", "attention sees the keys of this rank's tokens only", "--cp 2", TR_BY_TYPES,
        keys_not_gathered },
    { "heads-not-exchanged", "attention has all heads of its tokens, not all tokens of its heads",
        "--cp 2 --cp-attention ulysses", TR_BY_TYPES, heads_not_exchanged },
    { "heads-not-unpacked", "what an all-to-all brought is read in another order than it has",
        "--cp 2 --cp-attention ulysses", TR_BY_TYPES, heads_not_unpacked },
    { "ring-not-turned", "keys are not handed on, and are taken for those of the rank before",
        "--cp 2 --cp-attention ring", TR_BY_TYPES, ring_not_turned },
    { "ring-rotated", "what the keys of two ranks give is joined in another order",
        "--cp 2 --cp-attention ring", TR_BY_TYPES, ring_rotated },
    { "ring-goes-on", "gradients of keys are sent to the next rank, not to the owner",
        "--cp 4 --cp-attention ring", TR_BY_TYPES, ring_goes_on },
    { "positions-begin-at-zero", "each rank gives its tokens the first positions", "--cp 2", TR_BY_TYPES,
        positions_begin_at_zero },
    { "mask-of-the-first-rank", "each rank hides keys as if its queries were the first", "--cp 2",
        TR_BY_TYPES, mask_of_the_first_rank },
    { "outer-axis-first", "a sum over blocks of tokens joins blocks that are no neighbours",
        "--cp 2 --tp 2 --sp", TR_BY_TYPES, outer_axis_first },
    { "outer-level-first", "of two levels, the sum over blocks of tokens begins with the outer one",
        "--cp 4 --cp-attention ulysses+ring", TR_BY_TYPES, outer_level_first },
    { "ring-inside-the-group", "keys go round the ranks that have other heads, not other tokens",
        "--cp 4 --cp-attention ulysses+ring", TR_BY_TYPES, ring_inside_the_group },
    { "block-joined-twice", "what a rank's own keys give is joined twice, and what others' give is not",
        "--cp 2 --cp-attention ring", TR_BY_TYPES, block_joined_twice },
    { "zigzag-positions-follow",
        "with zigzag, the second half of a rank's tokens has the positions behind the first",
        "--cp 2 --cp-map zigzag", TR_BY_TYPES, zigzag_positions_follow },
    { "zigzag-mask-follows", "with zigzag, keys are hidden as if a rank's tokens were neighbours",
        "--cp 2 --cp-map zigzag --cp-attention ring", TR_BY_TYPES, zigzag_mask_follows },
    { "zigzag-not-arranged", "with zigzag, gathered keys are read in the order of ranks",
        "--cp 2 --cp-map zigzag", TR_BY_TYPES, zigzag_not_arranged },
    { "zigzag-halves-added-first", "with zigzag, a rank adds what both its runs give before the ranks do",
        "--cp 2 --cp-map zigzag", TR_BY_TYPES, zigzag_halves_added_first },
    { "zigzag-loss-misplaced", "with zigzag, the loss of a rank's second half is counted in another's place",
        "--cp 2 --cp-map zigzag", TR_BY_ORDER, loss_of_second_half_misplaced },
    { "striped-positions-follow", "with striped, a rank's tokens have positions one after the other",
        "--cp 2 --cp-map striped", TR_BY_TYPES, striped_positions_follow },
    { "striped-mask-of-neighbours", "with striped, keys are hidden as if a rank's tokens were neighbours",
        "--cp 4 --cp-map striped --cp-attention ring", TR_BY_TYPES, striped_mask_of_neighbours },
};
const struct tr_injections tr_injections_context = { list, sizeof list / sizeof *list };
