/* SPDX-License-Identifier: BSD-3-Clause */
/* mlp.c: the deep MLP of training/reference/mlp.c as a graph. It knows nothing of ranks.
 *
 * Its layers go in pairs, as the feed-forward part of a transformer does, and are named as that is:
 *
 *   fc1   each row of the weight is one output: y = GELU(x W' + b)
 *   fc2   each row of the weight is one input:  y = GELU(x W + b)
 *   fc    fc1 without a partner, where there is an odd number of layers
 *
 * So the tables of tensor parallelism hold here, too: they cut the rows of fc1 and fc2, and one sum over
 * ranks is due after each pair. What they do not name, fc, is whole on every rank: the head that follows
 * needs all of its result. What follows fc2 is the stream, which sequence parallelism cuts. */
#include "training/model/build.h"

#include <math.h>

static bool legal(const struct tr_model_options *o, struct tr_error *e)
{
    if (o->inputs < 2 || o->inputs > 65536)
        return tr_fail(e, "%lld inputs of a row: legal are 2 to 65536", (long long)o->inputs);
    return tr_build_legal(o, e);
}

static int layer(struct tr_builder *b, int64_t l, int x)
{
    int64_t c = b->g->channels;
    int w = (int)(2 * l);
    tr_build_in_layer(b, l);
    x = tr_build_apply(b, tr_build_is_second(l) ? TR_ROW : TR_COLUMN, x, w, "sum", c, false);
    x = tr_build_apply(b, TR_BIAS, x, w + 1, "before", c, tr_build_is_second(l));
    return tr_build_apply(b, TR_GELU, x, -1, "after", c, tr_build_is_second(l));
}

bool tr_model_mlp(struct tr_graph *g, const struct tr_model_options *o, struct tr_error *e)
{
    if (!legal(o, e))
        return false;
    *g = (struct tr_graph){ .layers = o->layers,
        .channels = o->channels,
        .model = "mlp",
        .context = TR_BLOCKS,
        .vocabulary = o->vocabulary,
        .inputs = o->inputs,
        .leaves = o->leaves,
        .units = (int)o->layers + 2 };
    struct tr_builder b = { .g = g };
    for (int64_t l = 0; l < o->layers; l++)
        tr_build_layer_of_pair(&b, l, "fc", 1);
    tr_build_in_unit(&b, g->units - 1);
    int head =
        tr_build_parameter(&b, "head.weight", o->vocabulary, o->channels, sqrt(1.0 / (double)o->channels), 0);
    g->targets = tr_build_input(&b, "targets", 0);
    tr_build_in_unit(&b, 1); /* the first layer */
    int x = g->tokens = tr_build_input(&b, "rows", o->inputs);
    for (int64_t l = 0; l < o->layers; l++)
        x = layer(&b, l, x);
    tr_build_in_unit(&b, g->units - 1);
    tr_build_cross_entropy(&b, x, head);
    g->n_forward = g->n_nodes;
    tr_autodiff(g);
    return true;
}
