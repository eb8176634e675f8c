/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_context.c: the errors of those who cut the tokens of a sequence. */
#include "training/tape/plant.h"

/* The gradient is a sum over the tokens of this rank. */
bool tr_plant_tokens_not_reduced(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_REDUCE, "qkv.weight", TR_CP);
}

bool tr_plant_keys_not_gathered(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_GATHER, "kv", TR_CP);
}

bool tr_plant_heads_not_exchanged(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_TO_ALL, "qkv", TR_CP);
}

/* Keys of the rank before are what those of this rank were. */
bool tr_plant_ring_not_turned(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_SHIFT, "kv", TR_CP);
}

/* What two ranks' keys give is joined in the order in which it came, not in that of the sequence. */
bool tr_plant_ring_rotated(struct tr_tape *tapes, int n)
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
bool tr_plant_ring_goes_on(struct tr_tape *tapes, int n)
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
bool tr_plant_heads_not_unpacked(struct tr_tape *tapes, int n)
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

bool tr_plant_positions_begin_at_zero(struct tr_tape *tapes, int n)
{
    return tokens_begin_at_zero(tapes, n, TR_POSITION);
}

bool tr_plant_mask_of_the_first_rank(struct tr_tape *tapes, int n)
{
    return tokens_begin_at_zero(tapes, n, TR_ATTEND);
}

/* Blocks that are no neighbours are added first. */
bool tr_plant_outer_axis_first(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_ALL_REDUCE, -1, "ln1.weight", TR_TP);
        if (i < 0 || tapes[r].instrs[i + 1].axes != 1 << TR_CP)
            return false;
        tapes[r].instrs[i].axes = 1 << TR_CP;
        tapes[r].instrs[i + 1].axes = 1 << TR_TP;
    }
    return true;
}
