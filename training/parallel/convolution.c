/* SPDX-License-Identifier: BSD-3-Clause */
/* convolution.c: three ways to cut the weights of convolutions (Dryden et al. 2019), on the axis of tensor
 * parallelism.
 *
 *   filters     each rank has some filters of each layer, and so some channels of what these give. A layer
 *               reads all channels: one all_gather forward, and backward one reduce_scatter, for each layer
 *   channels    each rank has, of every filter, the weights for some of its input channels; a layer gives
 *               partial sums: one reduce_scatter forward, and backward one all_gather, for each layer
 *   pairs       by turns: who has a filter of the first layer has it as a channel of the second. One
 *               all_reduce forward and one backward for two layers: tensor.c
 *
 *        x R  -> filters  -> y Sc -> all_gather (Yc) -> unpack -> y R
 *        x Sc -> channels -> y P+ -> pack (Pc) -> reduce_scatter -> y Sc
 *
 * The sums of all three are cut into eight parts, whatever ranks there are, but in each layer along another
 * dimension, so each is a net with bits of its own. The first layer reads pixels, which all ranks have, so
 * it goes by filters in all of them. */
#include "training/parallel/registry.h"

const char *const tr_conv_split_names[TR_CONV_SPLITS] = { "pairs", "filters", "channels" };
static const char *const cuts[] = { "rows", "columns" };

static const struct tr_option options[] = {
    { "conv-split", TR_CHOICE, TR_PLAN(pictures.split),
        "cnn: what tp cuts of the weights: pairs, filters, or channels", TR_NAMES(tr_conv_split_names),
        .bits = true },
    { "cnn-cut", TR_CHOICE, TR_PLAN(pictures.columns),
        "cnn: what cp cuts of a picture's grid: rows, or columns", TR_NAMES(cuts), .bits = true },
};

static const struct tr_table filters = { "filters", TR_TP,
    { { "*convf.weight", "Sr" }, { "*convf.bias", "Sr" } } };
static const struct tr_table channels = { "channels", TR_TP,
    { { "*convf.weight", "Sr" }, { "*convf.bias", "Sr" }, { "*convc.weight", "Sr" },
        { "*convc.bias", "Sr" } } };

static const struct tr_table *table(const struct tr_plan *p, int i)
{
    enum tr_conv_split split = p->pictures.split;
    return i > 0 || split == TR_CONV_PAIRS ? NULL : split == TR_CONV_FILTERS ? &filters : &channels;
}

static bool asked(const struct tr_plan *p)
{
    return (p->pictures.split && p->sizes.tp > 1) || (p->pictures.columns && p->sizes.cp > 1);
}

static void model(const struct tr_plan *p, struct tr_model_options *to)
{
    to->split = p->pictures.split, to->columns = p->pictures.columns;
}

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    if (p->pictures.columns && !g->grid)
        return tr_fail(e, "--cnn-cut columns: %s has no pictures; leave it out", g->model);
    return !p->pictures.split || g->grid ||
           tr_fail(e, "--conv-split %s: %s has no convolutions; leave it out",
               tr_conv_split_names[p->pictures.split], g->model);
}

const struct tr_paradigm tr_picture_cuts = { .name = "cuts of pictures",
    TR_OPTIONS(options),
    .asked = asked,
    .choose = table,
    .model = model,
    .check = check };
