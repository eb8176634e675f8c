/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_space.c: the errors of those who cut pictures by space, and convolutions by channels. */
#include "training/tape/plant.h"

/* A row is exchanged without its last cell. */
static bool halo_one_short(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            if (x->code != TR_HALO)
                continue;
            x->count -= tr_shard_size(tapes[r].placed, tapes[r].values[x->in[0]].shard, 2);
            found = true;
        }
    return found;
}

/* The first rank and the last are taken for neighbours, as on a ring. */
static bool halo_wraps_around(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            if (x->code == TR_HALO)
                x->first = x->second = found = true;
        }
    return found;
}

/* The gradient of what a neighbour's cells gave to those here is left out. */
static bool halo_not_exchanged_backward(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_HALO, "d.layer1.before", TR_CP);
}

/* The mean over the grid is that of the cells of this rank. */
static bool mean_of_own_cells(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_REDUCE, "pooled", TR_CP);
}

/* Each rank's channels are taken for all of them. */
static bool channels_not_gathered(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_GATHER, "layer0.after", TR_TP);
}

/* What a rank gives to a sum is scattered by cells, as it lies, and the sums are due by channels. */
static bool channels_not_packed(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_COMPUTE, TR_PACK, "layer1.sum", -1);
        if (i >= 0)
            tr_plant_bypass(&tapes[r], i);
        found |= i >= 0;
    }
    return found;
}

#define NEEDS "--model cnn:nano --cp 2"
static const struct tr_injection list[] = {
    { "halo-one-short", "a row of a neighbour's cells comes without its last cell", NEEDS, TR_BY_TYPES,
        halo_one_short },
    { "halo-wraps-around", "beyond the border of a picture lie the cells of the other side", NEEDS,
        TR_BY_TYPES, halo_wraps_around },
    { "halo-not-exchanged-backward", "a gradient has no part from the neighbours' cells", NEEDS, TR_BY_TYPES,
        halo_not_exchanged_backward },
    { "mean-of-own-cells", "the mean over a picture is that of a rank's cells", NEEDS, TR_BY_TYPES,
        mean_of_own_cells },
    { "channels-not-gathered", "a layer reads the channels of one rank",
        "--model cnn:nano --conv-split filters --tp 2", TR_BY_TYPES, channels_not_gathered },
    { "channels-not-packed", "sums over ranks are scattered by cells, and not by channels",
        "--model cnn:nano --conv-split channels --tp 2", TR_BY_TYPES, channels_not_packed },
};
const struct tr_injections tr_injections_space = { list, sizeof list / sizeof *list };
