/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor.c: tensor parallelism (Megatron-LM, Shoeybi et al. 2019): each layer's matrices are cut by rows.
 *
 *                    x  R                         all have the input
 *           qkv, fc1  Sr: each has some rows      column: y = x W', each has some heads, some of 4C
 *          proj, fc2  Sr: the rows that fit these row: a partial sum of y
 *                    y  P+ -> R                   one all-reduce forward; and one backward, of dx of qkv and
 *                       fc1
 *
 * The layers of the mlp are fc1 and fc2 by turns, so these lines are theirs, too. Convolutions go in the same
 * pairs (Dryden et al. 2019): conv1 by filters, conv2 by its input channels.
 *
 * The vocabulary is cut as well: who has a token's row embeds it (P1), and the softmax folds its maximum and
 * its sums. Parts are equal: rows as if padded to a multiple of 64; what is padding is in no sum. */
#include "training/parallel/paradigms.h"

const struct tr_paradigm tr_tensor_parallel = { "tp", "each layer's matrices are cut by rows", TR_TP,
    { { "wte", "Sr" }, { "*qkv.weight", "Sr" }, { "*qkv.bias", "Sr" }, { "*proj.weight", "Sr" },
        { "*fc1.weight", "Sr" }, { "*fc1.bias", "Sr" }, { "*fc2.weight", "Sr" }, { "head.weight", "Sr" },
        { "*conv1.weight", "Sr" }, { "*conv1.bias", "Sr" }, { "*conv2.weight", "Sr" },
        { "*gn1.weight", "Sr" }, { "*gn1.bias", "Sr" } } };
