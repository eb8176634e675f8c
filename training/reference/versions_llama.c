/* SPDX-License-Identifier: BSD-3-Clause */
/* versions_llama.c: the golden Llama with weights of several versions: see versions.h. */
#include "training/reference/llama.c"

#include "training/reference/versions.h"

static int set_up(void)
{
    make_model();
    open_corpus();
    return 0;
}

static long stage_of(long t)
{
    if (t < FIRST_LAYER)
        return 0;
    return t >= final_norm() ? stages - 1 : (t - FIRST_LAYER) / OF_LAYER / (L / stages);
}

static double loss_of(long step)
{
    double *leaf = calloc((size_t)(B * CHUNKS), sizeof *leaf), sum = 0;
    for (long i = 0; i < B; i++) {
        const uint16_t *token = sequence_of(step, i);
        grad = grads + i * n_elements;
        parameter = forward;
        embed(token);
        for (long l = 0; l < L; l++)
            layer_forward(l);
        head_forward(leaf + i * CHUNKS, token + 1);
        parameter = backward;
        head_backward();
        for (long l = L - 1; l >= 0; l--)
            layer_backward(l);
        embed_backward(token);
    }
    grad = grads;
    tree(grads, B, n_elements);
    for (long i = 0; i < B * CHUNKS; i++)
        sum += leaf[i];
    free(leaf);
    return sum / (double)(B * T);
}
