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

int tr_gradient_of(struct tr_backward *p, int t)
{
    struct tr_tensor of = p->g->tensors[t];
    int d = tr_add_tensor(p->g, TR_D_ACTIVATION, of.unit, of.letter, of.size, "d.%s", of.name);
    p->g->tensors[d].stream = of.stream;
    p->g->tensors[d].counts = of.counts;
    return d;
}

void tr_give(struct tr_backward *p, int t, int d, int unit)
{
    if (p->d[t] >= 0) {
        int sum = tr_gradient_of(p, t);
        tr_add_node(p->g, TR_ADD, TR_BACKWARD, unit, (int[]){ p->d[t], d }, 2, &sum, 1);
        d = sum;
    }
    p->d[t] = d;
}

int tr_gradient_of_parameter(struct tr_backward *p, enum tr_role role, int w)
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

static void weight(struct tr_backward *p, int op, int unit, const int *in, int ins, int w)
{
    int dw = tr_gradient_of_parameter(p, TR_D_PARAMETER, w);
    tr_add_node(p->g, op, TR_WEIGHT, unit, in, ins, &dw, 1);
}

void tr_weight_leaves(
    struct tr_backward *p, int op, int unit, const int *in, int ins, const int *w, int count)
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
void tr_matrix_gradient(struct tr_backward *p, int op, int leaves_op, int unit, const int *in, int ins, int w)
{
    if (p->g->leaves == TR_ALL_AS_LEAVES)
        tr_weight_leaves(p, leaves_op, unit, in, ins, &w, 1);
    else
        weight(p, op, unit, in, ins, w);
}

int tr_input_gradient(struct tr_backward *p, int op, int unit, const int *in, int ins, int x)
{
    int dx = tr_gradient_of(p, x);
    tr_add_node(p->g, op, TR_BACKWARD, unit, in, ins, &dx, 1);
    return dx;
}

/* The gradient of a bias comes after that of the matrix before it: one gathering of dy serves both. */
static void pending_bias(struct tr_backward *p)
{
    const struct tr_node *n = p->bias;
    if (n)
        tr_weight_leaves(p, TR_BIAS_DW, n->unit, &p->d[n->out[0]], 1, &n->in[1], 1);
    p->bias = NULL;
}

void tr_product_gradient(
    struct tr_backward *p, const struct tr_node *n, int dy, int dx_op, int dw_op, int leaves_op)
{
    int x = n->in[0], w = n->in[1];
    if (p->g->tensors[x].role != TR_INPUT)
        tr_give(p, x, tr_input_gradient(p, dx_op, n->unit, (int[]){ dy, w }, 2, x), n->unit);
    tr_matrix_gradient(p, dw_op, leaves_op, n->unit, (int[]){ dy, x }, 2, w);
    pending_bias(p);
}

static void give(struct tr_backward *p, const struct tr_node *n)
{
    if (tr_op(n->op)->gradient)
        tr_op(n->op)->gradient(p, n, p->d[n->out[0]]);
}

void tr_autodiff(struct tr_graph *g)
{
    if (g->forward)
        return;
    struct tr_node bias; /* a copy: the list of nodes grows */
    struct tr_backward p = { g, tr_new((size_t)g->n_tensors, sizeof *p.d), NULL };
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
            give(&p, &n);
        if (p.bias == &n) {
            bias = n;
            p.bias = &bias;
        }
    }
    free(p.d);
}
