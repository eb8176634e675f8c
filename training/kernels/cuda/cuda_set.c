/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_set.c: the table of the kernels on a device. It is of C, so that each function has its name here. */
#include "training/kernels/cuda/cuda_set.h"

const struct tr_kernels tr_kernels_cuda = {
    .name = "cuda",
    .words = tr_cuda_words,
    .gemm = tr_cuda_gemm,
    .scratch_gemm = tr_cuda_scratch_gemm,
    .copy = tr_cuda_copy,
    .fill = tr_cuda_fill,
    .tree_in = tr_cuda_tree_in,
    .fold = tr_cuda_fold,
    .fold_parts = tr_cuda_fold_parts,
    .layer_norm = { tr_cuda_layer_norm, tr_cuda_layer_norm_dx, tr_cuda_layer_norm_dw },
    .sum_tokens = tr_cuda_sum_tokens,
    .sum_squares = tr_cuda_sum_squares,
    .mean = tr_cuda_mean,
    .group_norm = { tr_cuda_group_centre, tr_cuda_group_norm, tr_cuda_group_norm_dw, tr_cuda_group_norm_dx,
        tr_cuda_scratch_group },
    .bfloat16 = { tr_cuda_to_float, tr_cuda_from_float, tr_cuda_add_bfloat16 },
    .gelu = tr_cuda_gelu,
    .gelu_dx = tr_cuda_gelu_dx,
    .add = tr_cuda_add,
    .add_bias = tr_cuda_add_bias,
    .attention = { tr_cuda_attention, tr_cuda_attention_part, tr_cuda_attention_merge, tr_cuda_attention_dx,
        tr_cuda_scratch_attention },
    .patches = tr_cuda_patches,
    .embed = { tr_cuda_embed, tr_cuda_embed_dw, tr_cuda_scratch_embed, tr_cuda_position,
        tr_cuda_position_dw },
    .softmax = { tr_cuda_row_max, tr_cuda_softmax, tr_cuda_softmax_dx, tr_cuda_loss },
    .square_leaves = tr_cuda_square_leaves,
    .update = tr_cuda_update,
};
