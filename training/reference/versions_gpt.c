/* SPDX-License-Identifier: BSD-3-Clause */
/* versions_gpt.c: the golden GPT with weights of several versions: see versions.h. */
#include "training/reference/gpt.c"

#include "training/reference/versions.h"

static int set_up(void)
{
    head_size = C / H, block = T / CHUNKS, score_scale = 1 / ROOT((real)head_size);
    list_tensors();
    allocate();
    initialise();
    if (data_path)
        read_corpus(data_path);
    else
        make_corpus();
    n_learned = n_tokens;
    return tied && stages > 1; /* both homes would need one version */
}

static long stage_of(long t)
{
    if (t < FIRST_LAYER)
        return 0;
    return t >= final_weight() ? stages - 1 : (t - FIRST_LAYER) / OF_LAYER / (L / stages);
}

static double loss_of(long step)
{
    double *leaf = calloc((size_t)(B * CHUNKS), sizeof *leaf), sum = 0;
    for (long i = 0; i < B; i++) {
        const uint16_t *token = sequence_of(step, i);
        parameter = forward;
        embed(token);
        for (long l = 0; l < L; l++)
            layer_forward(l ? layers[l - 1].out : embedded, &layers[l], l);
        head_forward(leaf + i * CHUNKS, layers[L - 1].out, token + 1);
        parameter = backward;
        head_backward(layers[L - 1].out);
        for (long l = L - 1; l >= 0; l--)
            layer_backward(l ? layers[l - 1].out : embedded, &layers[l], l);
        embed_backward(token);
        count_in(i);
    }
    count_out();
    for (long i = 0; i < B * CHUNKS; i++)
        sum += leaf[i];
    free(leaf);
    return sum / (double)(B * T);
}
