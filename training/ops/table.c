/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c: which row is which operation's; rules as text; and the price of a node of a graph. */
#include "training/ops/site.h"

#include <string.h>

static const struct tr_op_row *const rows[TR_OPS] = {
    [TR_EMBED] = &tr_op_embed,
    [TR_POSITION] = &tr_op_position,
    [TR_LAYER_NORM] = &tr_op_layer_norm,
    [TR_COLUMN] = &tr_op_column,
    [TR_ROW] = &tr_op_row_parallel,
    [TR_BIAS] = &tr_op_bias,
    [TR_GELU] = &tr_op_gelu,
    [TR_ATTENTION] = &tr_op_attention,
    [TR_SPLIT] = &tr_op_split,
    [TR_ATTEND] = &tr_op_attend,
    [TR_ATTEND_PART] = &tr_op_attend_part,
    [TR_ATTEND_SCORES] = &tr_op_attend_scores,
    [TR_ATTEND_MERGE] = &tr_op_attend_merge,
    [TR_ATTEND_WINDOW] = &tr_op_attend_window,
    [TR_ADD] = &tr_op_add,
    [TR_ROW_MAX] = &tr_op_row_max,
    [TR_SOFTMAX] = &tr_op_softmax,
    [TR_LOSS_LEAVES] = &tr_op_loss,
    [TR_SOFTMAX_DX] = &tr_op_softmax_dx,
    [TR_COLUMN_DX] = &tr_op_column_dx,
    [TR_COLUMN_DW] = &tr_op_column_dw,
    [TR_COLUMN_LEAVES] = &tr_op_column_leaves,
    [TR_ROW_DX] = &tr_op_row_dx,
    [TR_ROW_DW] = &tr_op_row_dw,
    [TR_ROW_LEAVES] = &tr_op_row_leaves,
    [TR_BIAS_DW] = &tr_op_bias_dw,
    [TR_GELU_DX] = &tr_op_gelu_dx,
    [TR_ATTENTION_DX] = &tr_op_attention_dx,
    [TR_ATTEND_DX] = &tr_op_attend_dx,
    [TR_ATTEND_PART_DX] = &tr_op_attend_part_dx,
    [TR_ATTEND_SCORES_DX] = &tr_op_attend_scores_dx,
    [TR_ATTEND_WINDOW_DX] = &tr_op_attend_window_dx,
    [TR_SUM_KEYS] = &tr_op_sum_keys,
    [TR_SUM_QUERIES] = &tr_op_sum_queries,
    [TR_JOIN] = &tr_op_join,
    [TR_LAYER_NORM_DX] = &tr_op_layer_norm_dx,
    [TR_LAYER_NORM_DW] = &tr_op_layer_norm_dw,
    [TR_POSITION_DW] = &tr_op_position_dw,
    [TR_EMBED_DW] = &tr_op_embed_dw,
    [TR_FILTERS] = &tr_op_filters,
    [TR_CHANNELS] = &tr_op_channels,
    [TR_FILTERS_DX] = &tr_op_filters_dx,
    [TR_FILTERS_DW] = &tr_op_filters_dw,
    [TR_CHANNELS_DX] = &tr_op_channels_dx,
    [TR_CHANNELS_DW] = &tr_op_channels_dw,
    [TR_FILTERS_LEAVES] = &tr_op_filters_leaves,
    [TR_CHANNELS_LEAVES] = &tr_op_channels_leaves,
    [TR_SUM_CELLS] = &tr_op_sum_cells,
    [TR_MEAN] = &tr_op_mean,
    [TR_MEAN_DX] = &tr_op_mean_dx,
    [TR_CENTRE] = &tr_op_centre,
    [TR_SUM_SQUARES] = &tr_op_sum_squares,
    [TR_GROUP_NORM] = &tr_op_group_norm,
    [TR_GROUP_NORM_DW] = &tr_op_group_norm_dw,
    [TR_GROUP_NORM_DX] = &tr_op_group_norm_dx,
    [TR_EMBED_LEAVES] = &tr_op_embed_leaves,
    [TR_GATE] = &tr_op_gate,
    [TR_WANTED] = &tr_op_wanted,
    [TR_ADMIT] = &tr_op_admit,
    [TR_DISPATCH] = &tr_op_dispatch,
    [TR_EXPERT_UP] = &tr_op_expert_up,
    [TR_EXPERT_DOWN] = &tr_op_expert_down,
    [TR_COMBINE] = &tr_op_combine,
    [TR_COMBINE_DX] = &tr_op_combine_dx,
    [TR_EXPERT_DOWN_DX] = &tr_op_expert_down_dx,
    [TR_EXPERT_DOWN_DW] = &tr_op_expert_down_dw,
    [TR_EXPERT_UP_DX] = &tr_op_expert_up_dx,
    [TR_EXPERT_UP_DW] = &tr_op_expert_up_dw,
    [TR_DISPATCH_DX] = &tr_op_dispatch_dx,
    [TR_GATE_DX] = &tr_op_gate_dx,
    [TR_BALANCE_DX] = &tr_op_balance_dx,
    [TR_FOLD] = &tr_op_fold,
    [TR_PACK] = &tr_op_pack,
    [TR_UNPACK] = &tr_op_unpack,
    [TR_ARRANGE] = &tr_op_arrange,
    [TR_DEAL] = &tr_op_deal,
    [TR_HALVES] = &tr_op_halves,
    [TR_SLICE] = &tr_op_slice,
    [TR_ROUND] = &tr_op_round,
    [TR_EXPERT_DOWN_LEAVES] = &tr_op_expert_down_leaves,
    [TR_EXPERT_UP_LEAVES] = &tr_op_expert_up_leaves,
    [TR_RMS_NORM] = &tr_op_rms_norm,
    [TR_RMS_NORM_DX] = &tr_op_rms_norm_dx,
    [TR_RMS_NORM_DW] = &tr_op_rms_norm_dw,
    [TR_ROPE] = &tr_op_rope,
    [TR_ROPE_DX] = &tr_op_rope_dx,
    [TR_SWIGLU] = &tr_op_swiglu,
    [TR_SWIGLU_DX] = &tr_op_swiglu_dx,
    [TR_DROPOUT] = &tr_op_dropout,
    [TR_DROPOUT_DX] = &tr_op_dropout_dx,
};

const struct tr_op_row *tr_op(int op)
{
    return rows[op];
}

static const char *placement(const char *s, int shift, struct tr_placement *to)
{
    while (*s == ' ')
        s++;
    *to = tr_placement_of(s, shift);
    while (*s && *s != ' ')
        s++;
    return s;
}

bool tr_rule_parse(const char *rule, int shift, struct tr_placement in[TR_INS], int *ins,
    struct tr_placement out[TR_OUTS], int *outs)
{
    const char *arrow = rule ? strstr(rule, " -> ") : NULL;
    *ins = *outs = 0;
    if (!arrow)
        return false;
    while (rule < arrow)
        rule = placement(rule, shift, &in[(*ins)++]);
    rule = arrow + 4;
    while (*rule)
        rule = placement(rule, shift, &out[(*outs)++]);
    return true;
}

/* All of it on one rank. */
double tr_flops(const struct tr_graph *g, const struct tr_node *n)
{
    struct tr_call c = { .g = g,
        .op = n->op,
        .n = 1,
        .block = g->context / TR_BLOCKS,
        .map = { .cp = 1 },
        .runs = 1,
        .part = n->shift };
    double elements = 1;
    for (int x = 0; x < n->ins + n->outs; x++) {
        struct tr_operand *o = x < n->ins ? &c.in[x] : &c.out[x - n->ins];
        o->of = &g->tensors[x < n->ins ? n->in[x] : n->out[x - n->ins]];
        for (int i = 0; i < TR_DIMS; i++)
            o->d[i] = o->of->size[i];
    }
    if (rows[n->op]->work)
        return rows[n->op]->work(&c);
    for (int i = 0; i < c.in[0].of->dims; i++)
        elements *= (double)c.in[0].d[i];
    return elements;
}
