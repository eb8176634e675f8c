/* SPDX-License-Identifier: BSD-3-Clause */
/* autodiff_cnn.c: the backward part of what sums over the cells of a picture: the mean, and group norm. */
#include "training/model/autodiff.h"

/* The gradient of the input takes the sums of those of scale and shift over the cells of each picture, which
 * are their leaves: so these come first, and then the tree over pictures, which uses them up. */
static void group_norm(struct tr_pass *p, const struct tr_node *n, int dy)
{
    int x = n->in[0], squares = n->in[1], w = n->in[2], leaves[2];
    for (int i = 0; i < 2; i++)
        leaves[i] = tr_gradient_of_parameter(p, TR_LEAVES, n->in[2 + i]);
    tr_add_node(p->g, TR_GROUP_NORM_DW, TR_BACKWARD, n->unit, (int[]){ dy, x, squares }, 3, leaves, 2);
    int in[] = { dy, x, squares, w, leaves[0], leaves[1] }, dx = tr_gradient_of(p, x);
    tr_add_node(p->g, TR_GROUP_NORM_DX, TR_BACKWARD, n->unit, in, 6, &dx, 1);
    tr_give(p, x, dx, n->unit);
    for (int i = 0; i < 2; i++) {
        int dw = tr_gradient_of_parameter(p, TR_D_PARAMETER, n->in[2 + i]);
        tr_add_node(p->g, TR_FOLD, TR_WEIGHT, n->unit, &leaves[i], 1, &dw, 1);
    }
}

void tr_cells_backward(struct tr_pass *p, const struct tr_node *n)
{
    int dy = p->d[n->out[0]], x = n->in[0], dx;
    switch (n->op) {
    case TR_GROUP_NORM:
        group_norm(p, n, dy);
        break;
    case TR_MEAN: /* mean_dx is of the sum and the division */
    case TR_CENTRE: /* and group_norm_dx of the sums that are taken off, too */
        p->d[x] = dy;
        break;
    default: /* TR_SUM_CELLS */
        if (dy < 0) /* of a norm */
            break;
        dx = tr_gradient_of(p, x);
        tr_add_node(p->g, TR_MEAN_DX, TR_BACKWARD, n->unit, &dy, 1, &dx, 1);
        tr_give(p, x, dx, n->unit);
        break;
    }
}
