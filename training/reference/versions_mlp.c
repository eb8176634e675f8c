/* SPDX-License-Identifier: BSD-3-Clause */
/* versions_mlp.c: the golden MLP with weights of several versions: see versions.h. */
#include "training/reference/mlp.c"

#include "training/reference/versions.h"

static int set_up(void)
{
    make_model();
    return 0;
}

static long stage_of(long t)
{
    return t / 2 < L ? t / 2 / (L / stages) : stages - 1;
}

static double loss_of(long step)
{
    double loss = 0;
    for (long slot = 0; slot < B; slot++) {
        grad = grads + slot * n_elements;
        make_rows(step, slot);
        parameter = forward;
        for (long l = 0; l < L; l++)
            layer_forward(l);
        product(L);
        cross_entropy(&loss);
        parameter = backward;
        product_backward(L, sum[L]);
        for (long l = L - 1; l >= 0; l--)
            layer_backward(l);
    }
    grad = grads;
    tree(grads, B, n_elements);
    return loss / (double)(B * T);
}
