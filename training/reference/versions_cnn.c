/* SPDX-License-Identifier: BSD-3-Clause */
/* versions_cnn.c: the golden CNN with weights of several versions: see versions.h. */
#include "training/reference/cnn.c"

#include "training/reference/versions.h"

static int set_up(void)
{
    if (*data_path && !read_pictures())
        return 2;
    make_model();
    return 0;
}

static long stage_of(long t)
{
    return t < of_layer(L, 0) ? t / of_layer(1, 0) / (L / stages) : stages - 1;
}

static double loss_of(long step)
{
    double loss = 0;
    for (long number = 0; number < B; number++) {
        grad = grads + number * n_elements;
        draw(step, number);
        parameter = forward;
        for (long l = 0; l < L; l++)
            layer_forward(l);
        loss += head_forward();
        parameter = backward;
        head_backward();
        for (long l = L - 1; l >= 0; l--)
            layer_backward(l);
    }
    grad = grads;
    tree(grads, B, n_elements);
    return loss / (double)B;
}
