/* SPDX-License-Identifier: BSD-3-Clause */
/* autodiff.h: what the backward rules of operations are written with. */
#ifndef TRAINING_MODEL_AUTODIFF_H
#define TRAINING_MODEL_AUTODIFF_H

#include "training/model/ops.h"

struct tr_pass {
    struct tr_graph *g;
    int *d; /* of each tensor of the forward part: its gradient so far, or -1 */
    const struct tr_node *bias; /* whose own gradient is still to come */
};

/* A new tensor for a gradient of tensor t; of parameter w, over one micro-batch or as leaves. */
int tr_gradient_of(struct tr_pass *p, int t);
int tr_gradient_of_parameter(struct tr_pass *p, enum tr_role role, int w);
/* d is a gradient of t. A second one is added to the first. */
void tr_give(struct tr_pass *p, int t, int d, int unit);

/* autodiff_cnn.c: the rules of the mean over cells and of group norm. */
void tr_cells_backward(struct tr_pass *p, const struct tr_node *n);

/* moe.c: the rules of router and experts. */
void tr_moe_backward(struct tr_pass *p, const struct tr_node *n);

#endif
