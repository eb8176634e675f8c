/* SPDX-License-Identifier: BSD-3-Clause */
/* autodiff.c: appends the backward part of a graph: the rule of each operation, in reverse order.
 *
 * The gradient of a weight is a node of its own, after that of the input: ZB-H1 and offload move it. What
 * sums over tokens alone and is small (biases, layer norms, positions) comes as leaves, one for each
 * sequence, and a fold: an axis that cuts the tokens must complete the leaves before they enter the tree
 * over sequences. */
#include "training/model/autodiff.h"

#include <stdlib.h>
#include <string.h>

int tr_gradient_of(struct tr_pass *p, int t)
{
    struct tr_tensor of = p->g->tensors[t];
    int d = tr_add_tensor(p->g, TR_D_ACTIVATION, of.unit, of.letter, of.size, "d.%s", of.name);
    p->g->tensors[d].stream = of.stream;
    p->g->tensors[d].counts = of.counts;
    return d;
}

void tr_give(struct tr_pass *p, int t, int d, int unit)
{
    if (p->d[t] >= 0) {
        int sum = tr_gradient_of(p, t);
        tr_add_node(p->g, TR_ADD, TR_BACKWARD, unit, (int[]){ p->d[t], d }, 2, &sum, 1);
        d = sum;
    }
    p->d[t] = d;
}

int tr_gradient_of_parameter(struct tr_pass *p, enum tr_role role, int w)
{
    struct tr_tensor of = p->g->tensors[w];
    char letters[TR_DIMS + 2] = "b";
    int64_t size[TR_DIMS + 1] = { 1, of.rows, of.size[1] };
    int t;
    strcat(letters, of.letter);
    if (role == TR_LEAVES)
        t = tr_add_tensor(p->g, role, of.unit, letters, size, "leaves.%s", of.name);
    else
        t = tr_add_tensor(p->g, role, of.unit, of.letter, size + 1, "d.%s", of.name);
    p->g->tensors[t].of = w;
    return t;
}

static void weight(struct tr_pass *p, int op, int unit, const int *in, int ins, int w)
{
    int dw = tr_gradient_of_parameter(p, TR_D_PARAMETER, w);
    tr_add_node(p->g, op, TR_WEIGHT, unit, in, ins, &dw, 1);
}

static void weight_leaves(
    struct tr_pass *p, int op, int unit, const int *in, int ins, const int *w, int count)
{
    int leaves[TR_OUTS] = { 0 };
    for (int i = 0; i < count; i++)
        leaves[i] = tr_gradient_of_parameter(p, TR_LEAVES, w[i]);
    tr_add_node(p->g, op, TR_WEIGHT, unit, in, ins, leaves, count);
    for (int i = 0; i < count; i++)
        weight(p, TR_FOLD, unit, &leaves[i], 1, w[i]);
}

/* The gradient of a matrix is a sum over tokens and sequences. Where an axis cuts the tokens, the tokens must
 * come first: then it is made as leaves. */
static void matrix_gradient(struct tr_pass *p, int op, int leaves_op, int unit, const int *in, int ins, int w)
{
    if (p->g->leaves)
        weight_leaves(p, leaves_op, unit, in, ins, &w, 1);
    else
        weight(p, op, unit, in, ins, w);
}

static int input(struct tr_pass *p, int op, int unit, const int *in, int ins, int x)
{
    int dx = tr_gradient_of(p, x);
    tr_add_node(p->g, op, TR_BACKWARD, unit, in, ins, &dx, 1);
    return dx;
}

/* The gradient of a bias comes after that of the matrix before it: one gathering of dy serves both. */
static void pending_bias(struct tr_pass *p)
{
    const struct tr_node *n = p->bias;
    if (n)
        weight_leaves(p, TR_BIAS_DW, n->unit, &p->d[n->out[0]], 1, &n->in[1], 1);
    p->bias = NULL;
}

static void matmul(struct tr_pass *p, const struct tr_node *n, int dy, int dx_op, int dw_op, int leaves_op)
{
    int x = n->in[0], w = n->in[1];
    if (p->g->tensors[x].role != TR_INPUT)
        tr_give(p, x, input(p, dx_op, n->unit, (int[]){ dy, w }, 2, x), n->unit);
    matrix_gradient(p, dw_op, leaves_op, n->unit, (int[]){ dy, x }, 2, w);
    pending_bias(p);
}

static void layer_norm(struct tr_pass *p, const struct tr_node *n, int dy)
{
    int x = n->in[0], mean = n->out[1], scale = n->out[2];
    int in[] = { dy, x, n->in[1], mean, scale };
    tr_give(p, x, input(p, TR_LAYER_NORM_DX, n->unit, in, 5, x), n->unit);
    weight_leaves(p, TR_LAYER_NORM_DW, n->unit, (int[]){ dy, x, mean, scale }, 4, &n->in[1], 2);
}

static void attend(struct tr_pass *p, const struct tr_node *n, int dy)
{
    int in[] = { dy, n->out[0], n->out[1], n->in[0], n->in[1] };
    int out[] = { tr_gradient_of(p, n->in[0]), tr_gradient_of(p, n->in[1]) };
    tr_add_node(p->g, TR_ATTEND_DX, TR_BACKWARD, n->unit, in, 5, out, 2);
    tr_give(p, n->in[0], out[0], n->unit);
    tr_give(p, n->in[1], out[1], n->unit);
}

/* The gradient of tensor t that part j of the keys gives. */
static int part_of(struct tr_pass *p, int t, int j)
{
    struct tr_tensor of = p->g->tensors[t];
    return tr_add_tensor(p->g, TR_D_ACTIVATION, of.unit, of.letter, of.size, "d%d.%s", j, of.name);
}

/* Each part of the keys once more; its gradients are parts of two sums. */
static void attend_in_parts(struct tr_pass *p, const struct tr_node *n, int dy)
{
    int first = 0, dq[TR_INS] = { 0 }, dkv[TR_INS] = { 0 };
    while (p->g->nodes[first].out[0] != n->in[0])
        first++;
    int q = p->g->nodes[first].in[0], kv = p->g->nodes[first].in[1];
    for (int j = 0; j < n->ins; j++) {
        bool scores = p->g->nodes[first + j].op == TR_ATTEND_SCORES;
        int in[] = { dy, n->out[0], n->out[1], q, kv, scores ? p->g->nodes[first + j].out[1] : -1 };
        int out[] = { dq[j] = part_of(p, q, j), dkv[j] = part_of(p, kv, j) };
        tr_add_node(p->g, scores ? TR_ATTEND_SCORES_DX : TR_ATTEND_PART_DX, TR_BACKWARD, n->unit, in,
            scores ? 6 : 5, out, 2)
            ->turn = j;
    }
    int sum[] = { tr_gradient_of(p, q), tr_gradient_of(p, kv) };
    tr_add_node(p->g, TR_SUM_KEYS, TR_BACKWARD, n->unit, dq, n->ins, &sum[0], 1);
    tr_add_node(p->g, TR_SUM_QUERIES, TR_BACKWARD, n->unit, dkv, n->ins, &sum[1], 1);
    tr_give(p, q, sum[0], n->unit);
    tr_give(p, kv, sum[1], n->unit);
}

static void backward(struct tr_pass *p, const struct tr_node *n)
{
    int dy = p->d[n->out[0]];
    switch (n->op) {
    case TR_COLUMN:
        matmul(p, n, dy, TR_COLUMN_DX, TR_COLUMN_DW, TR_COLUMN_LEAVES);
        break;
    case TR_ROW:
        matmul(p, n, dy, TR_ROW_DX, TR_ROW_DW, TR_ROW_LEAVES);
        break;
    case TR_FILTERS:
        matmul(p, n, dy, TR_FILTERS_DX, TR_FILTERS_DW, TR_FILTERS_LEAVES);
        break;
    case TR_CHANNELS:
        matmul(p, n, dy, TR_CHANNELS_DX, TR_CHANNELS_DW, TR_CHANNELS_LEAVES);
        break;
    case TR_BIAS:
        p->d[n->in[0]] = dy;
        p->bias = n;
        break;
    case TR_GELU:
        tr_give(p, n->in[0], input(p, TR_GELU_DX, n->unit, (int[]){ dy, n->in[0] }, 2, n->in[0]), n->unit);
        break;
    case TR_ATTENTION:
    case TR_ATTEND_WINDOW: {
        int in[] = { dy, n->out[0], n->out[1], n->in[0] };
        int op = n->op == TR_ATTENTION ? TR_ATTENTION_DX : TR_ATTEND_WINDOW_DX;
        tr_give(p, n->in[0], input(p, op, n->unit, in, 4, n->in[0]), n->unit);
        break;
    }
    case TR_ATTEND:
        attend(p, n, dy);
        break;
    case TR_ATTEND_MERGE:
        attend_in_parts(p, n, dy);
        break;
    case TR_SPLIT:
        tr_give(
            p, n->in[0], input(p, TR_JOIN, n->unit, (int[]){ dy, p->d[n->out[1]] }, 2, n->in[0]), n->unit);
        break;
    case TR_ADD:
        tr_give(p, n->in[0], dy, n->unit);
        tr_give(p, n->in[1], dy, n->unit);
        break;
    case TR_LAYER_NORM:
        layer_norm(p, n, dy);
        break;
    case TR_POSITION:
        p->d[n->in[0]] = dy;
        weight_leaves(p, TR_POSITION_DW, n->unit, &dy, 1, &n->in[1], 1);
        break;
    case TR_EMBED:
        matrix_gradient(p, TR_EMBED_DW, TR_EMBED_LEAVES, n->unit, (int[]){ dy, n->in[1] }, 2, n->in[0]);
        break;
    case TR_GATE:
    case TR_DISPATCH:
    case TR_EXPERT_UP:
    case TR_EXPERT_DOWN:
    case TR_COMBINE:
        tr_moe_backward(p, n);
        break;
    case TR_MEAN:
    case TR_SUM_CELLS:
    case TR_CENTRE:
    case TR_GROUP_NORM:
        tr_cells_backward(p, n);
        break;
    default: /* the softmax gives the gradient of the logits itself */
        break;
    }
}

void tr_autodiff(struct tr_graph *g)
{
    struct tr_node bias; /* a copy: the list of nodes grows */
    struct tr_pass p = { g, tr_new((size_t)g->n_tensors, sizeof *p.d), NULL };
    for (int i = 0; i < g->n_tensors; i++)
        p.d[i] = -1;
    int forward = g->n_nodes;
    for (int i = forward - 1; i >= 0; i--) {
        struct tr_node n = g->nodes[i];
        if (n.op == TR_SOFTMAX_DX) {
            for (int k = 0; k < forward; k++)
                if (g->nodes[k].op == TR_SOFTMAX)
                    p.d[g->nodes[k].in[0]] = n.out[0];
        } else
            backward(&p, &n);
        if (p.bias == &n) {
            bias = n;
            p.bias = &bias;
        }
    }
    free(p.d);
}
