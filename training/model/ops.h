/* SPDX-License-Identifier: BSD-3-Clause */
/* ops.h: the table of operations: what each may be given in pieces, and what it then gives.
 *
 * A rule says for one axis of the mesh which placements of the inputs give which placements of the outputs,
 * "Sc Sr -> P+" (placement.h). The axes of a mesh are independent, so one rule is chosen for each.
 *
 * A partial result enters nothing but its own fold. So whatever a paradigm or a pass forgets, doubles or
 * puts in the wrong place is a placement that no rule has, and the check names it before anything has run. */
#ifndef TRAINING_MODEL_OPS_H
#define TRAINING_MODEL_OPS_H

#include "training/model/graph.h"
#include "training/model/placement.h"

enum tr_op {
    TR_EMBED, /* w, tokens -> x */
    TR_POSITION, /* x, w -> y */
    TR_LAYER_NORM, /* x, w, b -> y, mean, scale */
    TR_COLUMN, /* x, w[r][k] -> y: each row of w is one element of y */
    TR_ROW, /* x, w[r][k] -> y: the sum over the rows of w */
    TR_BIAS, /* x, b -> y */
    TR_GELU, /* x -> y */
    TR_ATTENTION, /* qkv -> y, lse */
    TR_SPLIT, /* qkv -> q, kv */
    TR_ATTEND, /* q, kv -> y, lse: the same attention, of the queries that are here to all keys */
    TR_ATTEND_PART, /* q, kv -> part: what a part of the keys gives */
    TR_ATTEND_SCORES, /* q, kv -> part, scores: that, and the products of q and k are kept */
    TR_ATTEND_MERGE, /* parts -> y, lse */
    TR_ATTEND_WINDOW, /* qkv -> y, lse: within parts of the sequence, each as if it were all there is */
    TR_ADD, /* a, b -> y */
    TR_ROW_MAX, /* logits -> max */
    TR_SOFTMAX, /* logits, max, targets -> exp, sum, wanted */
    TR_LOSS_LEAVES, /* sum, max, wanted -> loss */
    TR_SOFTMAX_DX, /* exp, sum, targets -> the gradient of logits */
    TR_COLUMN_DX, /* dy, w -> dx */
    TR_COLUMN_DW, /* dy, x -> dw */
    TR_COLUMN_LEAVES, /* dy, x -> leaves of dw */
    TR_ROW_DX, /* dy, w -> dx */
    TR_ROW_DW, /* dy, x -> dw */
    TR_ROW_LEAVES, /* dy, x -> leaves of dw */
    TR_BIAS_DW, /* dy -> leaves of db */
    TR_GELU_DX, /* dy, x -> dx */
    TR_ATTENTION_DX, /* dy, y, lse, qkv -> dqkv */
    TR_ATTEND_DX, /* dy, y, lse, q, kv -> dq, dkv */
    TR_ATTEND_PART_DX, /* dy, y, lse, q, kv -> parts of dq, of dkv */
    TR_ATTEND_SCORES_DX, /* dy, y, lse, q, kv, scores -> parts of dq, of dkv */
    TR_ATTEND_WINDOW_DX, /* dy, y, lse, qkv -> dqkv */
    TR_SUM_KEYS, /* parts of dq -> dq */
    TR_SUM_QUERIES, /* parts of dkv -> dkv */
    TR_JOIN, /* dq, dkv -> dqkv */
    TR_LAYER_NORM_DX, /* dy, x, w, mean, scale -> dx */
    TR_LAYER_NORM_DW, /* dy, x, mean, scale -> leaves of dw, of db */
    TR_POSITION_DW, /* dy -> leaves of dw */
    TR_EMBED_DW, /* dy, tokens -> dw */
    TR_FILTERS, /* x, w[r][k] -> y: a convolution; a row of w is a filter, [tap][in] */
    TR_CHANNELS, /* x, w[r][k] -> y: the same; a row of w is an input channel, [tap][out] */
    TR_FILTERS_DX, /* dy, w -> dx */
    TR_FILTERS_DW, /* dy, x -> dw */
    TR_CHANNELS_DX, /* dy, w -> dx */
    TR_CHANNELS_DW, /* dy, x -> dw */
    TR_FILTERS_LEAVES, /* dy, x -> leaves of dw */
    TR_CHANNELS_LEAVES, /* dy, x -> leaves of dw */
    TR_SUM_CELLS, /* x -> y: the sum over the tokens */
    TR_MEAN, /* x -> y: that, over their number */
    TR_MEAN_DX, /* dy -> dx */
    TR_CENTRE, /* x, sums over the tokens -> x less the mean of its group */
    TR_SUM_SQUARES, /* centred -> y: the sum of the squares over the tokens */
    TR_GROUP_NORM, /* centred, squares, w, b -> y */
    TR_GROUP_NORM_DW, /* dy, centred, squares -> leaves of dw, of db */
    TR_GROUP_NORM_DX, /* dy, centred, squares, w, leaves of dw, of db -> dx */
    TR_EMBED_LEAVES, /* dy, tokens -> leaves of dw */
    TR_GATE, /* logits -> probabilities, choices: of each token the experts of the highest */
    TR_WANTED, /* choices -> of each sequence, how many tokens chose each expert */
    TR_ADMIT, /* choices, wanted by all -> choices: those that a full expert refuses are E */
    TR_DISPATCH, /* x, choices -> rows in the order of experts and tokens, counts of them */
    TR_EXPERT_UP, /* rows, counts, w, b -> up: each expert's rows by its own w */
    TR_EXPERT_DOWN, /* up, counts, w, b -> down: gelu, and the same */
    TR_COMBINE, /* down, probabilities, choices -> y */
    TR_COMBINE_DX, /* dy, down, probabilities, choices, counts -> d.down, gradients of the chosen
                      probabilities */
    TR_EXPERT_DOWN_DX, /* d.down, up, counts, w -> d.up */
    TR_EXPERT_DOWN_DW, /* d.down, up, counts -> dw, db */
    TR_EXPERT_UP_DX, /* d.up, counts, w -> d.rows */
    TR_EXPERT_UP_DW, /* d.up, rows, counts -> dw, db */
    TR_DISPATCH_DX, /* d.rows, choices -> dx */
    TR_GATE_DX, /* gradients of the chosen, probabilities, choices -> the gradient of logits */
    TR_BALANCE_DX, /* the same, and wanted by all: with that of the loss of balance */
    TR_FOLD, /* leaves -> dw: the tree over the sequences of the micro-batch */
    TR_PACK, /* x -> x, before an all-to-all */
    TR_UNPACK, /* x -> x, after one */
    TR_ARRANGE, /* x -> x: tokens in the order of ranks come into that of the sequence */
    TR_DEAL, /* dx -> dx: and the other way, for a reduce-scatter */
    TR_HALVES, /* dx -> dx: what the two halves of the sequence give is added */
    TR_SLICE, /* x -> x: of all channels those of this rank */
    TR_ROUND, /* x -> x: a whole sum in float32 becomes bfloat16 */
    TR_OPS
};

enum { TR_RULES = 6 };

struct tr_op_row {
    const char *name;
    const char *rules[TR_RULES];
    bool in_place; /* the first output may lie where the first input does */
};

const struct tr_op_row *tr_op(int op);

/* The placements of a rule "in.. -> out.." for a node of this turn. */
bool tr_rule_parse(const char *rule, int turn, struct tr_placement in[TR_INS], int *ins,
    struct tr_placement out[TR_OUTS], int *outs);

/* The input that tells which tokens an operation works on, where it must know their places in the sequence;
 * -1: it need not. */
int tr_place_matters(int op);

/* Floating-point operations of a node on one sequence of whole tensors. */
double tr_flops(const struct tr_graph *g, const struct tr_node *n);

#endif
