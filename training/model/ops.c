/* SPDX-License-Identifier: BSD-3-Clause */
/* ops.c: the table of operations, and the cost of each. */
#include "training/model/ops.h"

#include <string.h>

#define EIGHT(x) x " " x " " x " " x " " x " " x " " x " " x
#define IN_TURN(x) x "0 " x "1 " x "2 " x "3 " x "4 " x "5 " x "6 " x "7"

/* Rules for an axis that cuts nothing, sequences, tokens, channels, in this order; what is not there cannot
 * be. The first that fits is taken. */
static const struct tr_op_row tr_ops[TR_OPS] = {
    [TR_EMBED] = { "embed", { "R R -> R", "R Sb -> Sb", "R St -> St", "Sr R -> P1" }, false },
    [TR_POSITION] = { "position", { "R R -> R", "Sb R -> Sb", "St R -> St" }, true },
    [TR_LAYER_NORM] = { "layer_norm", { "R R R -> R R R", "Sb R R -> Sb Sb Sb", "St R R -> St St St" },
        false },
    [TR_COLUMN] = { "column", { "R R -> R", "Sb R -> Sb", "St R -> St", "R Sr -> Sc" }, false },
    [TR_ROW] = { "row", { "R R -> R", "Sb R -> Sb", "St R -> St", "Sc Sr -> P+" }, false },
    [TR_BIAS] = { "bias", { "R R -> R", "Sb R -> Sb", "St R -> St", "Sc Sr -> Sc" }, true },
    [TR_GELU] = { "gelu", { "R -> R", "Sb -> Sb", "St -> St", "Sc -> Sc" }, false },
    [TR_ATTENTION] = { "attention", { "R -> R R", "Sb -> Sb Sb", "Sc -> Sc Sc" }, false },
    [TR_SPLIT] = { "split", { "R -> R R", "Sb -> Sb Sb", "St -> St St", "Sc -> Sc Sc" }, false },
    [TR_ATTEND] = { "attend", { "R R -> R R", "Sb Sb -> Sb Sb", "St R -> St St", "Sc Sc -> Sc Sc" }, false },
    [TR_ATTEND_PART] = { "attend_part", { "R R -> R", "Sb Sb -> Sb", "St T# -> V#", "Sc Sc -> Sc" }, false },
    [TR_ATTEND_SCORES] = { "attend_scores",
        { "R R -> R R", "Sb Sb -> Sb Sb", "St T# -> V# V#", "Sc Sc -> Sc Sc" }, false },
    [TR_ATTEND_MERGE] = { "attend_merge",
        { EIGHT("R") " -> R R", EIGHT("Sb") " -> Sb Sb", IN_TURN("V") " -> St St", EIGHT("Sc") " -> Sc Sc" },
        false },
    [TR_ATTEND_WINDOW] = { "attend_window", { "R -> R R", "Sb -> Sb Sb", "St -> St St", "Sc -> Sc Sc" },
        false },
    [TR_ADD] = { "add", { "R R -> R", "Sb Sb -> Sb", "St St -> St", "Sc Sc -> Sc" }, true },
    [TR_ROW_MAX] = { "row_max", { "R -> R", "Sb -> Sb", "St -> St", "Sc -> Pm" }, false },
    [TR_SOFTMAX] = { "softmax",
        { "R R R -> R R R", "Sb Sb Sb -> Sb Sb Sb", "St St St -> St St St", "Sc R R -> Sc P+ P1" }, true },
    [TR_LOSS_LEAVES] = { "loss", { "R R R -> R", "Sb Sb Sb -> Sb", "St St St -> St" }, false },
    [TR_SOFTMAX_DX] = { "softmax_dx", { "R R R -> R", "Sb Sb Sb -> Sb", "St St St -> St", "Sc R R -> Sc" },
        true },
    [TR_COLUMN_DX] = { "column_dx", { "R R -> R", "Sb R -> Sb", "St R -> St", "Sc Sr -> P+" }, false },
    [TR_COLUMN_DW] = { "column_dw", { "R R -> R", "Sb Sb -> Ps", "Sc R -> Sr" }, false },
    [TR_COLUMN_LEAVES] = { "column_dw", { "R R -> R", "Sb Sb -> Sb", "St St -> Pb", "Sc R -> Sr" }, false },
    [TR_ROW_DX] = { "row_dx", { "R R -> R", "Sb R -> Sb", "St R -> St", "R Sr -> Sc" }, false },
    [TR_ROW_DW] = { "row_dw", { "R R -> R", "Sb Sb -> Ps", "R Sc -> Sr" }, false },
    [TR_ROW_LEAVES] = { "row_dw", { "R R -> R", "Sb Sb -> Sb", "St St -> Pb", "R Sc -> Sr" }, false },
    [TR_BIAS_DW] = { "bias_dw", { "R -> R", "Sb -> Sb", "St -> Pb", "Sc -> Sr" }, false },
    [TR_GELU_DX] = { "gelu_dx", { "R R -> R", "Sb Sb -> Sb", "St St -> St", "Sc Sc -> Sc" }, true },
    [TR_ATTENTION_DX] = { "attention_dx", { "R R R R -> R", "Sb Sb Sb Sb -> Sb", "Sc Sc Sc Sc -> Sc" },
        false },
    [TR_ATTEND_DX] = { "attend_dx",
        { "R R R R R -> R R", "Sb Sb Sb Sb Sb -> Sb Sb", "St St St St R -> St Pb",
            "Sc Sc Sc Sc Sc -> Sc Sc" },
        false },
    [TR_ATTEND_PART_DX] = { "attend_part_dx",
        { "R R R R R -> R R", "Sb Sb Sb Sb Sb -> Sb Sb", "St St St St T# -> V# W#",
            "Sc Sc Sc Sc Sc -> Sc Sc" },
        false },
    [TR_ATTEND_SCORES_DX] = { "attend_scores_dx",
        { "R R R R R R -> R R", "Sb Sb Sb Sb Sb Sb -> Sb Sb", "St St St St T# V# -> V# W#",
            "Sc Sc Sc Sc Sc Sc -> Sc Sc" },
        false },
    [TR_ATTEND_WINDOW_DX] = { "attend_window_dx",
        { "R R R R -> R", "Sb Sb Sb Sb -> Sb", "St St St St -> St", "Sc Sc Sc Sc -> Sc" }, false },
    [TR_SUM_KEYS] = { "sum_keys",
        { EIGHT("R") " -> R", EIGHT("Sb") " -> Sb", IN_TURN("V") " -> St", EIGHT("Sc") " -> Sc" }, false },
    [TR_SUM_QUERIES] = { "sum_queries",
        { EIGHT("R") " -> R", EIGHT("Sb") " -> Sb", IN_TURN("U") " -> St", EIGHT("Sc") " -> Sc" }, false },
    [TR_JOIN] = { "join", { "R R -> R", "Sb Sb -> Sb", "St St -> St", "Sc Sc -> Sc" }, false },
    [TR_LAYER_NORM_DX] = { "layer_norm_dx",
        { "R R R R R -> R", "Sb Sb R Sb Sb -> Sb", "St St R St St -> St" }, false },
    [TR_LAYER_NORM_DW] = { "layer_norm_dw",
        { "R R R R -> R R", "Sb Sb Sb Sb -> Sb Sb", "St St St St -> Pb Pb" }, false },
    [TR_POSITION_DW] = { "position_dw", { "R -> R", "Sb -> Sb", "St -> P1" }, false },
    [TR_EMBED_DW] = { "embed_dw", { "R R -> R", "Sb Sb -> Ps", "R R -> Sr" }, false },
    [TR_FILTERS] = { "filters", { "R R -> R", "Sb R -> Sb", "Nt R -> St", "R Sr -> Sc" }, false },
    [TR_CHANNELS] = { "channels", { "R R -> R", "Sb R -> Sb", "Nt R -> St", "Sc Sr -> P+" }, false },
    [TR_FILTERS_DX] = { "filters_dx", { "R R -> R", "Sb R -> Sb", "Nt R -> St", "Sc Sr -> P+" }, false },
    [TR_FILTERS_DW] = { "filters_dw", { "R R -> R", "Sb Sb -> Ps", "Sc R -> Sr" }, false },
    [TR_CHANNELS_DX] = { "channels_dx", { "R R -> R", "Sb R -> Sb", "Nt R -> St", "R Sr -> Sc" }, false },
    [TR_CHANNELS_DW] = { "channels_dw", { "R R -> R", "Sb Sb -> Ps", "R Sc -> Sr" }, false },
    [TR_FILTERS_LEAVES] = { "filters_dw", { "R R -> R", "Sb Sb -> Sb", "St Nt -> Pb", "Sc R -> Sr" }, false },
    [TR_CHANNELS_LEAVES] = { "channels_dw", { "R R -> R", "Sb Sb -> Sb", "St Nt -> Pb", "R Sc -> Sr" },
        false },
    [TR_SUM_CELLS] = { "sum_cells", { "R -> R", "Sb -> Sb", "St -> Pb", "Sc -> Sc" }, false },
    [TR_MEAN] = { "mean", { "R -> R", "Sb -> Sb", "Sc -> Sc" }, true },
    [TR_MEAN_DX] = { "mean_dx", { "R -> R", "Sb -> Sb", "R -> St", "Sc -> Sc" }, false },
    [TR_CENTRE] = { "centre", { "R R -> R", "Sb Sb -> Sb", "St R -> St", "Sc Sc -> Sc" }, true },
    [TR_SUM_SQUARES] = { "sum_squares", { "R -> R", "Sb -> Sb", "St -> Pb", "Sc -> Sc" }, false },
    [TR_GROUP_NORM] = { "group_norm",
        { "R R R R -> R", "Sb Sb R R -> Sb", "St R R R -> St", "Sc Sc Sr Sr -> Sc" }, false },
    [TR_GROUP_NORM_DW] = { "group_norm_dw",
        { "R R R -> R R", "Sb Sb Sb -> Sb Sb", "St St R -> Pb Pb", "Sc Sc Sc -> Sr Sr" }, false },
    [TR_GROUP_NORM_DX] = { "group_norm_dx",
        { "R R R R R R -> R", "Sb Sb Sb R Sb Sb -> Sb", "St St R R R R -> St", "Sc Sc Sc Sr Sr Sr -> Sc" },
        true },
    [TR_EMBED_LEAVES] = { "embed_dw", { "R R -> R", "Sb Sb -> Sb", "St St -> Pb", "R R -> Sr" }, false },
    [TR_FOLD] = { "fold", { "R -> R", "Sb -> Ps", "Sr -> Sr", "Hz -> R" }, false },
    [TR_GATE] = { "gate", { "R -> R R", "Sb -> Sb Sb" }, false },
    [TR_WANTED] = { "wanted", { "R -> R", "Sb -> Sb" }, false },
    [TR_ADMIT] = { "admit", { "R R -> R", "Sb Gb -> Sb" }, false },
    [TR_DISPATCH] = { "dispatch", { "R R -> R R", "Sb Sb -> Sb Sb" }, false },
    [TR_EXPERT_UP] = { "expert_up", { "R R R R -> R", "Sb Sb R R -> Sb", "E E Sr Sr -> E" }, false },
    [TR_EXPERT_DOWN] = { "expert_down", { "R R R R -> R", "Sb Sb R R -> Sb", "E E Sr Sr -> E" }, false },
    [TR_COMBINE] = { "combine", { "R R R -> R", "Sb Sb Sb -> Sb" }, false },
    [TR_COMBINE_DX] = { "combine_dx", { "R R R R R -> R R", "Sb Sb Sb Sb Sb -> Sb Sb" }, false },
    [TR_EXPERT_DOWN_DX] = { "expert_down_dx", { "R R R R -> R", "Sb Sb Sb R -> Sb", "E E E Sr -> E" },
        false },
    [TR_EXPERT_DOWN_DW] = { "expert_down_dw", { "R R R -> R R", "Sb Sb Sb -> Ps Ps", "E E E -> Sr Sr" },
        false },
    [TR_EXPERT_UP_DX] = { "expert_up_dx", { "R R R -> R", "Sb Sb R -> Sb", "E E Sr -> E" }, false },
    [TR_EXPERT_UP_DW] = { "expert_up_dw", { "R R R -> R R", "Sb Sb Sb -> Ps Ps", "E E E -> Sr Sr" }, false },
    [TR_DISPATCH_DX] = { "dispatch_dx", { "R R -> R", "Sb Sb -> Sb" }, false },
    [TR_GATE_DX] = { "gate_dx", { "R R R -> R", "Sb Sb Sb -> Sb" }, false },
    [TR_BALANCE_DX] = { "balance_dx", { "R R R R -> R", "Sb Sb Sb Gb -> Sb" }, false },
    [TR_PACK] = { "pack", { "R -> R", "Sb -> Sb", "St -> Xc", "Sc -> Sc", "P+ -> Pc" }, false },
    [TR_UNPACK] = { "unpack", { "R -> R", "Sb -> Sb", "Xc -> St", "Sc -> Sc", "Yc -> R" }, false },
    [TR_ARRANGE] = { "arrange", { "R -> R", "Sb -> Sb", "Yt -> R", "Sc -> Sc" }, false },
    [TR_DEAL] = { "deal", { "R -> R", "Sb -> Sb", "Pz -> Pq", "Sc -> Sc" }, false },
    [TR_HALVES] = { "halves", { "R -> R", "Sb -> Sb", "Hs -> Zt", "Sc -> Sc" }, false },
    [TR_SLICE] = { "slice", { "R -> Sc" }, false },
    [TR_ROUND] = { "round", { "R -> R", "Sb -> Sb", "St -> St", "Sc -> Sc", "Sr -> Sr", "F -> F" }, true },
};

const struct tr_op_row *tr_op(int op)
{
    return &tr_ops[op];
}

static const char *placement(const char *s, int turn, struct tr_placement *to)
{
    while (*s == ' ')
        s++;
    *to = tr_placement_of(s, turn);
    while (*s && *s != ' ')
        s++;
    return s;
}

bool tr_rule_parse(const char *rule, int turn, struct tr_placement in[TR_INS], int *ins,
    struct tr_placement out[TR_OUTS], int *outs)
{
    const char *arrow = rule ? strstr(rule, " -> ") : NULL;
    *ins = *outs = 0;
    if (!arrow)
        return false;
    while (rule < arrow)
        rule = placement(rule, turn, &in[(*ins)++]);
    rule = arrow + 4;
    while (*rule)
        rule = placement(rule, turn, &out[(*outs)++]);
    return true;
}

int tr_place_matters(int op)
{
    switch (op) {
    case TR_POSITION:
    case TR_POSITION_DW:
    case TR_ATTENTION:
    case TR_ATTEND:
    case TR_ATTEND_PART:
    case TR_ATTEND_SCORES:
        return 0;
    case TR_ATTENTION_DX:
    case TR_ATTEND_DX:
    case TR_ATTEND_PART_DX:
    case TR_ATTEND_SCORES_DX:
        return 3;
    default:
        return -1;
    }
}

static double elements(const struct tr_tensor *t)
{
    double n = 1;
    for (int i = 0; i < t->dims; i++)
        n *= (double)t->size[i];
    return n;
}

double tr_flops(const struct tr_graph *g, const struct tr_node *n)
{
    const struct tr_tensor *x = &g->tensors[n->in[0]], *w = n->ins > 1 ? &g->tensors[n->in[1]] : NULL;
    double t = x->letter[1] == 't' ? (double)x->size[1] : (double)g->context, c = (double)g->channels;
    switch (n->op) {
    case TR_COLUMN:
    case TR_ROW:
    case TR_COLUMN_DX:
    case TR_ROW_DX:
    case TR_FILTERS:
    case TR_CHANNELS:
    case TR_FILTERS_DX:
    case TR_CHANNELS_DX:
        return 2 * t * elements(w);
    case TR_COLUMN_DW:
    case TR_ROW_DW:
    case TR_FILTERS_DW:
    case TR_CHANNELS_DW:
    case TR_COLUMN_LEAVES:
    case TR_ROW_LEAVES:
    case TR_FILTERS_LEAVES:
    case TR_CHANNELS_LEAVES:
        return 2 * t * elements(&g->tensors[n->out[0]]);
    case TR_ATTENTION:
    case TR_ATTEND:
        return 2 * t * (t + 1) * c;
    case TR_ATTENTION_DX:
    case TR_ATTEND_DX:
        return 5 * t * (t + 1) * c;
    case TR_ATTEND_WINDOW:
        return 2 * t * (t / g->windows + 1) * c;
    case TR_ATTEND_WINDOW_DX:
        return 5 * t * (t / g->windows + 1) * c;
    case TR_ATTEND_SCORES_DX: /* no scores are made */
        return 4 * t * (t + 1) * c / g->parts;
    case TR_ATTEND_SCORES:
    case TR_ATTEND_PART:
        return 2 * t * (t + 1) * c / g->parts;
    case TR_ATTEND_PART_DX:
        return 5 * t * (t + 1) * c / g->parts;
    case TR_EXPERT_UP: /* as the rows of all experts together */
    case TR_EXPERT_DOWN:
    case TR_EXPERT_DOWN_DX:
    case TR_EXPERT_UP_DX:
        return 2 * t * elements(&g->tensors[n->in[n->op == TR_EXPERT_DOWN_DX ? 3 : 2]]) / (double)g->experts;
    case TR_EXPERT_DOWN_DW:
    case TR_EXPERT_UP_DW:
        return 2 * t * elements(&g->tensors[n->out[0]]) / (double)g->experts;
    default:
        return elements(x);
    }
}
