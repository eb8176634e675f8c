/* SPDX-License-Identifier: BSD-3-Clause */
/* op.h: operations: what each may be given in pieces, and what it then gives; and where all else about it is.
 *
 * An operation is a row. The file of ops/ that defines the row has all there is to know of it, and the table
 * of ops/table.c says which row is whose. Models, tapes and executors ask the row.
 *
 * A rule says for one axis of the mesh which placements of the inputs give which placements of the outputs,
 * "Sc Sr -> P+" (placement.h). The axes of a mesh are independent, so one rule is chosen for each: the first
 * that fits. They stand in this order: for an axis that cuts nothing, sequences, tokens, channels.
 *
 * A partial result enters nothing but its own fold. So whatever a paradigm or a pass forgets, doubles or
 * puts in the wrong place is a placement that no rule has, and the check names it before anything has run. */
#ifndef TRAINING_MODEL_OP_H
#define TRAINING_MODEL_OP_H

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
    TR_WANTED, /* choices -> of each block of a sequence, how many tokens chose each expert */
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
    TR_EXPERT_DOWN_LEAVES, /* d.down, up, counts -> leaves of dw, of db */
    TR_EXPERT_UP_LEAVES, /* d.up, rows, counts -> leaves of dw, of db */
    TR_RMS_NORM, /* x, w -> y, scale */
    TR_RMS_NORM_DX, /* dy, x, w, scale -> dx */
    TR_RMS_NORM_DW, /* dy, x, scale -> leaves of dw */
    TR_ROPE, /* qkv of groups of heads -> qkv of each head, queries and keys turned by their places */
    TR_ROPE_DX, /* dqkv of each head -> that of groups */
    TR_SWIGLU, /* x -> y: of each chunk of channels, gates and what they let through */
    TR_SWIGLU_DX, /* dy, x -> dx */
    TR_DROPOUT, /* x, draws -> y */
    TR_DROPOUT_DX, /* dy, draws -> dx */
    TR_OPS
};

enum { TR_RULES = 6 };

/* Which activations are computed again in the backward pass, and not kept for it: recompute.c. */
enum tr_recompute {
    TR_RECOMPUTE_NONE,
    TR_RECOMPUTE_GELU,
    TR_RECOMPUTE_SELECTIVE,
    TR_RECOMPUTE_FULL,
    TR_RECOMPUTES
};

struct tr_backward; /* autodiff.h */
struct tr_call; /* ops/site.h */

struct tr_op_row {
    const char *name;
    const char *rules[TR_RULES];
    bool in_place; /* the first output may lie where the first input does */
    bool as_stored; /* it takes and gives elements as they lie in memory; others take and give float32 */
    bool on_host; /* its function reads and writes elements itself: they must be in the host's memory */
    bool masked; /* attention: what the mask hides is no work, so ranks of cp differ */
    int tokens_of; /* the input, counted from 1, of whose tokens it must know the places; 0: of none */
    enum tr_recompute again; /* from which form on its results are computed again; of NONE, with FULL alone */
    /* Appends the backward nodes, of the gradient dy of the first result; -1: nobody has given one. NULL: it
     * has none. */
    void (*gradient)(struct tr_backward *p, const struct tr_node *n, int dy);
    int64_t (*scratch)(const struct tr_call *c); /* floats, of the local sizes; NULL: it needs none */
    double (*work)(const struct tr_call *c); /* floating-point operations; NULL: one for each element of the
                                                first input */
    void (*run)(const struct tr_call *c);
};

extern const struct tr_op_row tr_op_embed, tr_op_position, tr_op_layer_norm, tr_op_column, tr_op_row_parallel,
    tr_op_bias, tr_op_gelu, tr_op_attention, tr_op_split, tr_op_attend, tr_op_attend_part,
    tr_op_attend_scores, tr_op_attend_merge, tr_op_attend_window, tr_op_add, tr_op_row_max, tr_op_softmax,
    tr_op_loss, tr_op_softmax_dx, tr_op_column_dx, tr_op_column_dw, tr_op_column_leaves, tr_op_row_dx,
    tr_op_row_dw, tr_op_row_leaves, tr_op_bias_dw, tr_op_gelu_dx, tr_op_attention_dx, tr_op_attend_dx,
    tr_op_attend_part_dx, tr_op_attend_scores_dx, tr_op_attend_window_dx, tr_op_sum_keys, tr_op_sum_queries,
    tr_op_join, tr_op_layer_norm_dx, tr_op_layer_norm_dw, tr_op_position_dw, tr_op_embed_dw, tr_op_filters,
    tr_op_channels, tr_op_filters_dx, tr_op_filters_dw, tr_op_channels_dx, tr_op_channels_dw,
    tr_op_filters_leaves, tr_op_channels_leaves, tr_op_sum_cells, tr_op_mean, tr_op_mean_dx, tr_op_centre,
    tr_op_sum_squares, tr_op_group_norm, tr_op_group_norm_dw, tr_op_group_norm_dx, tr_op_embed_leaves,
    tr_op_gate, tr_op_wanted, tr_op_admit, tr_op_dispatch, tr_op_expert_up, tr_op_expert_down, tr_op_combine,
    tr_op_combine_dx, tr_op_expert_down_dx, tr_op_expert_down_dw, tr_op_expert_up_dx, tr_op_expert_up_dw,
    tr_op_dispatch_dx, tr_op_gate_dx, tr_op_balance_dx, tr_op_fold, tr_op_pack, tr_op_unpack, tr_op_arrange,
    tr_op_deal, tr_op_halves, tr_op_slice, tr_op_round, tr_op_expert_down_leaves, tr_op_expert_up_leaves,
    tr_op_rms_norm, tr_op_rms_norm_dx, tr_op_rms_norm_dw, tr_op_rope, tr_op_rope_dx, tr_op_swiglu,
    tr_op_swiglu_dx, tr_op_dropout, tr_op_dropout_dx;

const struct tr_op_row *tr_op(int op);

/* The placements of a rule "in.. -> out.." for a node of this shift. */
bool tr_rule_parse(const char *rule, int shift, struct tr_placement in[TR_INS], int *ins,
    struct tr_placement out[TR_OUTS], int *outs);

/* Floating-point operations of a node on one sequence of whole tensors. */
double tr_flops(const struct tr_graph *g, const struct tr_node *n);

#endif
