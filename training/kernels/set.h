/* SPDX-License-Identifier: BSD-3-Clause */
/* set.h: all kernels, for the instruction set of the file that includes this, and their table TR_SET. */
#include "training/kernels/sets.h"

#include "training/kernels/numbers.h"
#include "training/kernels/gemm.h"
#include "training/kernels/bfloat16.h"
#include "training/kernels/rows.h"
#include "training/kernels/group.h"
#include "training/kernels/softmax.h"
#include "training/kernels/attention.h"
#include "training/kernels/patches.h"
#include "training/kernels/update.h"

const struct tr_kernels TR_SET = {
    .name = TR_SET_NAME,
    .gemm = gemm,
    .layer_norm = layer_norm,
    .layer_norm_dx = layer_norm_dx,
    .layer_norm_dw = layer_norm_dw,
    .sum_tokens = sum_tokens,
    .sum_products = sum_products,
    .group_norm = group_norm,
    .group_norm_dx = group_norm_dx,
    .to_float = to_float,
    .to_bfloat16 = to_bfloat16,
    .to_bfloat16_by_chance = to_bfloat16_by_chance,
    .gelu = gelu,
    .gelu_dx = gelu_dx,
    .add = add,
    .add_bias = add_bias,
    .attention = attention,
    .attention_part = attention_part,
    .attention_merge = attention_merge,
    .attention_dx = attention_dx,
    .patches = patches,
    .embed = embed,
    .embed_dw = embed_dw,
    .row_max = row_max,
    .softmax = softmax,
    .softmax_dx = softmax_dx,
    .loss = loss,
    .square_leaves = square_leaves,
    .square_leaves_of_bfloat16 = square_leaves_of_bfloat16,
    .adamw = adamw,
    .sgd = sgd,
};
