/* SPDX-License-Identifier: BSD-3-Clause */
/* llama.c: the Llama of training/reference/llama.c as a graph. It knows nothing of ranks.
 *
 * Parameters are called as those of the GPT that stand in the same places, so that the tables of paradigms
 * speak of both. */
#include "training/model/build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { LN1, QKV, PROJ, LN2, FC1, FC2, OF_LAYER };

static int rms_norm(struct tr_builder *b, int x, int w, const char *name)
{
    char text[TR_NAME];
    int out[2] = { tr_build_activation(b, name, b->g->channels, true) };
    snprintf(text, sizeof text, "%s.scale", name);
    out[1] = tr_build_activation(b, text, 0, true);
    tr_build_node(b, TR_RMS_NORM, (int[]){ x, w }, 2, out, 2);
    return out[0];
}

static int layer(struct tr_builder *b, int x, const int *w, int l, const struct tr_model_options *o)
{
    const struct tr_graph *g = b->g;
    int64_t c = g->channels;
    int y = tr_build_apply(
        b, TR_COLUMN, rms_norm(b, x, w[LN1], "ln1"), w[QKV], "qkv.grouped", g->tensors[w[QKV]].rows, false);
    y = tr_build_apply(b, TR_ROPE, y, -1, "qkv", 3 * c, false);
    y = tr_build_apply(b, TR_ROW, tr_build_attention(b, y, o), w[PROJ], "proj", c, true);
    y = tr_build_dropout(b, y, TR_DROP_ATTENTION + TR_DROPS_OF_LAYER * l, "proj.dropped");
    x = tr_build_apply(b, TR_ADD, y, x, "middle", c, true);
    y = tr_build_apply(b, TR_COLUMN, rms_norm(b, x, w[LN2], "ln2"), w[FC1], "fc1", 2 * o->hidden, false);
    y = tr_build_apply(b, TR_SWIGLU, y, -1, "swiglu", o->hidden, false);
    y = tr_build_apply(b, TR_ROW, y, w[FC2], "fc2", c, true);
    y = tr_build_dropout(b, y, TR_DROP_FORWARD + TR_DROPS_OF_LAYER * l, "fc2.dropped");
    return tr_build_apply(b, TR_ADD, y, x, "out", c, true);
}

static void layer_parameters(struct tr_builder *b, int *w, const struct tr_model_options *o)
{
    int64_t c = o->channels;
    double project = 0.02 / sqrt(2.0 * (double)o->layers);
    w[LN1] = tr_build_parameter(b, "ln1.weight", c, 1, 0, 1);
    w[QKV] = tr_build_parameter(b, "qkv.weight", c + 2 * o->kv_heads * (c / o->heads), c, 0.02, 0);
    w[PROJ] = tr_build_parameter(b, "proj.weight", c, c, project, 0);
    w[LN2] = tr_build_parameter(b, "ln2.weight", c, 1, 0, 1);
    w[FC1] = tr_build_parameter(b, "fc1.weight", 2 * o->hidden, c, 0.02, 0);
    w[FC2] = tr_build_parameter(b, "fc2.weight", o->hidden, c, project, 0);
}

/* Tensor parallelism cuts rows in multiples of 64, and there must be no padding between groups of heads. */
static bool legal(const struct tr_model_options *o, struct tr_error *e)
{
    if (!tr_build_text_legal(o, e))
        return false;
    if (o->channels / o->heads % 2)
        return tr_fail(e,
            "%lld heads of %lld channels each, which RoPE turns in pairs: legal is an even number",
            (long long)o->heads, (long long)(o->channels / o->heads));
    if (o->kv_heads < 1 || o->heads % o->kv_heads)
        return tr_fail(e, "%lld heads of keys and values: legal is what divides the %lld heads",
            (long long)o->kv_heads, (long long)o->heads);
    if (2 * o->kv_heads * (o->channels / o->heads) % TR_PAD)
        return tr_fail(e,
            "%lld heads of keys and values, of %lld channels each: legal are as many as have a multiple of "
            "%d "
            "channels",
            (long long)o->kv_heads, (long long)(o->channels / o->heads), TR_PAD / 2);
    return (o->hidden >= TR_PAD && o->hidden % TR_PAD == 0 && o->hidden <= 1 << 22) ||
           tr_fail(e, "%lld hidden channels: legal are multiples of %d up to %d", (long long)o->hidden,
               TR_PAD, 1 << 22);
}

bool tr_model_llama(struct tr_graph *g, const struct tr_model_options *o, struct tr_error *e)
{
    if (!legal(o, e))
        return false;
    *g = (struct tr_graph){ .layers = o->layers,
        .channels = o->channels,
        .heads = o->heads,
        .leaves = o->leaves,
        .attention = { .parts = o->parts,
            .windows = o->windows,
            .scores = o->scores,
            .kv_heads = o->kv_heads },
        .context = o->context,
        .vocabulary = o->vocabulary,
        .units = (int)o->layers + 2,
        .forward = o->forward };
    snprintf(g->model, sizeof g->model, "llama");
    struct tr_builder b = { .g = g };
    int(*w)[OF_LAYER] = tr_new((size_t)o->layers, sizeof *w);
    int wte = tr_build_parameter(&b, "wte", o->vocabulary, o->channels, 0.02, 0);
    for (int l = 0; l < o->layers; l++) {
        tr_build_in_layer(&b, l);
        layer_parameters(&b, w[l], o);
    }
    tr_build_in_unit(&b, g->units - 1);
    int lnf = tr_build_parameter(&b, "lnf.weight", o->channels, 1, 0, 1);
    int project = tr_build_parameter(&b, "head.weight", o->vocabulary, o->channels, 0.02, 0);

    g->targets = tr_build_input(&b, "targets", 0);
    tr_build_in_unit(&b, 0);
    g->tokens = tr_build_input(&b, "tokens", 0);
    int x = tr_build_apply(&b, TR_EMBED, wte, g->tokens, "embedded", o->channels, true);
    tr_build_draws(&b, o->dropout);
    x = tr_build_dropout(&b, x, TR_DROP_EMBEDDED, "embedded.dropped");
    for (int l = 0; l < o->layers; l++) {
        tr_build_in_layer(&b, l);
        x = layer(&b, x, w[l], l, o);
    }
    tr_build_in_unit(&b, g->units - 1);
    tr_build_cross_entropy(&b, rms_norm(&b, x, lnf, "lnf"), project);
    free(w);
    g->n_forward = g->n_nodes;
    tr_autodiff(g);
    return true;
}
