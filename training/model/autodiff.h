/* SPDX-License-Identifier: BSD-3-Clause */
/* autodiff.h: what the backward rules of operations are written with. */
#ifndef TRAINING_MODEL_AUTODIFF_H
#define TRAINING_MODEL_AUTODIFF_H

#include "training/model/op.h"

struct tr_backward {
    struct tr_graph *g;
    int *d; /* of each tensor of the forward part: its gradient so far, or -1 */
    const struct tr_node *bias; /* whose own gradient is still to come */
};

/* A new tensor for a gradient of tensor t; of parameter w, over one micro-batch or as leaves. */
int tr_gradient_of(struct tr_backward *p, int t);
int tr_gradient_of_parameter(struct tr_backward *p, enum tr_role role, int w);
/* d is a gradient of t. A second one is added to the first. */
void tr_give(struct tr_backward *p, int t, int d, int unit);

/* Appends the node that makes a gradient of x, and returns that. */
int tr_input_gradient(struct tr_backward *p, int op, int unit, const int *in, int ins, int x);
/* Of a matrix, which sums over tokens and sequences: as leaves where an axis cuts the tokens. */
void tr_matrix_gradient(
    struct tr_backward *p, int op, int leaves_op, int unit, const int *in, int ins, int w);
/* Of parameters w[count]: leaves, one for each sequence, and their folds. */
void tr_weight_leaves(
    struct tr_backward *p, int op, int unit, const int *in, int ins, const int *w, int count);
/* Of a product with a weight: dx, dw or its leaves, and that of the bias behind it. */
void tr_product_gradient(
    struct tr_backward *p, const struct tr_node *n, int dy, int dx_op, int dw_op, int leaves_op);

#endif
