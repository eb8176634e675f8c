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
#include "training/parallel/paradigms.h"

const char *const tr_conv_split_names[TR_CONV_SPLITS] = { "pairs", "filters", "channels" };

const struct tr_paradigm tr_filter_parallel = { "filters", "each layer's filters are cut", TR_TP,
    { { "*convf.weight", "Sr" }, { "*convf.bias", "Sr" } } };

const struct tr_paradigm tr_channel_parallel = { "channels", "each layer's input channels are cut", TR_TP,
    { { "*convf.weight", "Sr" }, { "*convf.bias", "Sr" }, { "*convc.weight", "Sr" },
        { "*convc.bias", "Sr" } } };
