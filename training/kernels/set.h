/* SPDX-License-Identifier: BSD-3-Clause */
/* set.h: all kernels, for the instruction set of the file that includes this, and their table TR_SET. */
#include "training/kernels/sets.h"

#include "training/kernels/numbers.h"
#include "training/kernels/tree.h"
#include "training/kernels/gemm.h"
#include "training/kernels/bfloat16.h"
#include "training/kernels/rows.h"
#include "training/kernels/dropout.h"
#include "training/kernels/group.h"
#include "training/kernels/rope.h"
#include "training/kernels/softmax.h"
#include "training/kernels/attention.h"
#include "training/kernels/patches.h"
#include "training/kernels/update.h"

const struct tr_kernels TR_SET = {
    .name = TR_SET_NAME,
    .gemm = gemm,
    .scratch_gemm = tr_scratch_gemm,
    .copy = copy,
    .fill = fill,
    .tree_in = tree_in,
    .fold = fold,
    .fold_parts = fold_parts,
    .layer_norm = { layer_norm, layer_norm_dx, layer_norm_dw, NULL },
    .rms_norm = { rms_norm, rms_norm_dx, rms_norm_dw, NULL },
    .sum_tokens = sum_tokens,
    .sum_squares = sum_squares,
    .mean = mean,
    .group_norm = { group_centre, group_norm, group_norm_dw, group_norm_dx, group_scratch },
    .bfloat16 = { to_float, from_float, add_bfloat16 },
    .gelu = { gelu, gelu_dx, false },
    .swiglu = { swiglu, swiglu_dx },
    .add = add,
    .add_bias = add_bias,
    .rope = { rope, rope_dx, rope_scratch },
    .attention = { attention, attention_part, attention_merge, attention_dx, tr_scratch_attention },
    .patches = patches,
    .embed = { embed, embed_dw, embed_scratch, position, position_dw, dropout },
    .softmax = { row_max, softmax, softmax_dx, loss },
    .square_leaves = square_leaves,
    .update = update,
};
