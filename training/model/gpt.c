/* SPDX-License-Identifier: BSD-3-Clause */
/* gpt.c: the GPT of training/reference/gpt.c as a graph. It knows nothing of ranks. */
#include "training/model/moe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int layer_norm(struct tr_builder *b, int x, int w, int bias, const char *name)
{
    char text[TR_NAME];
    int out[3] = { tr_build_activation(b, name, b->g->channels, true) };
    snprintf(text, sizeof text, "%s.mean", name);
    out[1] = tr_build_activation(b, text, 0, true);
    snprintf(text, sizeof text, "%s.scale", name);
    out[2] = tr_build_activation(b, text, 0, true);
    tr_build_node(b, TR_LAYER_NORM, (int[]){ x, w, bias }, 3, out, 3);
    return out[0];
}

enum { LN1_W, LN1_B, QKV_W, QKV_B, PROJ_W, PROJ_B, LN2_W, LN2_B, FC1_W, FC1_B, FC2_W, FC2_B };
enum { EXPERTS = FC1_W, OF_LAYER = EXPERTS + TR_MOE_PARAMETERS };

static int feed_forward(struct tr_builder *b, int x, const int *w)
{
    int64_t c = b->g->channels;
    int y = tr_build_apply(b, TR_COLUMN, x, w[FC1_W], "fc1.sum", 4 * c, false);
    y = tr_build_apply(b, TR_BIAS, y, w[FC1_B], "fc1", 4 * c, false);
    y = tr_build_apply(b, TR_GELU, y, -1, "gelu", 4 * c, false);
    y = tr_build_apply(b, TR_ROW, y, w[FC2_W], "fc2.sum", c, false);
    return tr_build_apply(b, TR_BIAS, y, w[FC2_B], "fc2", c, true);
}

static int layer(struct tr_builder *b, int x, const int *w, int l, const struct tr_model_options *o)
{
    int64_t c = b->g->channels;
    int n = layer_norm(b, x, w[LN1_W], w[LN1_B], "ln1");
    int qkv = tr_build_apply(b, TR_COLUMN, n, w[QKV_W], "qkv.sum", 3 * c, false);
    qkv = tr_build_apply(b, TR_BIAS, qkv, w[QKV_B], "qkv", 3 * c, false);
    int y = tr_build_apply(b, TR_ROW, tr_build_attention(b, qkv, o), w[PROJ_W], "proj.sum", c, false);
    y = tr_build_apply(b, TR_BIAS, y, w[PROJ_B], "proj", c, true);
    y = tr_build_dropout(b, y, TR_DROP_ATTENTION + TR_DROPS_OF_LAYER * l, "proj.dropped");
    x = tr_build_apply(b, TR_ADD, y, x, "middle", c, true);
    n = layer_norm(b, x, w[LN2_W], w[LN2_B], "ln2");
    y = o->experts ? tr_moe_forward(b, n, &w[EXPERTS]) : feed_forward(b, n, w);
    y = tr_build_dropout(b, y, TR_DROP_FORWARD + TR_DROPS_OF_LAYER * l, "fc2.dropped");
    return tr_build_apply(b, TR_ADD, y, x, "out", c, true);
}

static void layer_parameters(struct tr_builder *b, int *w)
{
    int64_t c = b->g->channels;
    double project = 0.02 / sqrt(2.0 * (double)b->g->layers);
    w[LN1_W] = tr_build_parameter(b, "ln1.weight", c, 1, 0, 1);
    w[LN1_B] = tr_build_parameter(b, "ln1.bias", c, 1, 0, 0);
    w[QKV_W] = tr_build_parameter(b, "qkv.weight", 3 * c, c, 0.02, 0);
    w[QKV_B] = tr_build_parameter(b, "qkv.bias", 3 * c, 1, 0, 0);
    w[PROJ_W] = tr_build_parameter(b, "proj.weight", c, c, project, 0);
    w[PROJ_B] = tr_build_parameter(b, "proj.bias", c, 1, 0, 0);
    w[LN2_W] = tr_build_parameter(b, "ln2.weight", c, 1, 0, 1);
    w[LN2_B] = tr_build_parameter(b, "ln2.bias", c, 1, 0, 0);
    if (b->g->experts) {
        tr_moe_parameters(b, &w[EXPERTS], project);
        return;
    }
    w[FC1_W] = tr_build_parameter(b, "fc1.weight", 4 * c, c, 0.02, 0);
    w[FC1_B] = tr_build_parameter(b, "fc1.bias", 4 * c, 1, 0, 0);
    w[FC2_W] = tr_build_parameter(b, "fc2.weight", 4 * c, c, project, 0);
    w[FC2_B] = tr_build_parameter(b, "fc2.bias", c, 1, 0, 0);
}

static bool legal(const struct tr_model_options *o, struct tr_error *e)
{
    return tr_build_text_legal(o, e) && (!o->experts || tr_moe_legal(o, e));
}

bool tr_model_gpt(struct tr_graph *g, const struct tr_model_options *o, struct tr_error *e)
{
    if (!legal(o, e))
        return false;
    *g = (struct tr_graph){ .layers = o->layers,
        .channels = o->channels,
        .heads = o->heads,
        .experts = o->experts,
        .choices = o->choices,
        .capacity = o->capacity,
        .balance = o->balance,
        .leaves = o->leaves,
        .attention = { .parts = o->parts, .windows = o->windows, .scores = o->scores },
        .context = o->context,
        .vocabulary = o->vocabulary,
        .units = (int)o->layers + 2,
        .forward = o->forward };
    snprintf(g->model, sizeof g->model, "%s", o->experts ? "moe" : "gpt");
    struct tr_builder b = { .g = g };
    int(*w)[OF_LAYER] = tr_new((size_t)o->layers, sizeof *w);
    int wte = tr_build_parameter(&b, "wte", o->vocabulary, o->channels, 0.02, 0);
    int wpe = tr_build_parameter(&b, "wpe", o->context, o->channels, 0.02, 0);
    for (int l = 0; l < o->layers; l++) {
        tr_build_in_layer(&b, l);
        layer_parameters(&b, w[l]);
    }
    tr_build_in_unit(&b, g->units - 1);
    int lnf_w = tr_build_parameter(&b, "lnf.weight", o->channels, 1, 0, 1);
    int lnf_b = tr_build_parameter(&b, "lnf.bias", o->channels, 1, 0, 0);
    int project = tr_build_parameter(&b, "head.weight", o->vocabulary, o->channels, 0.02, 0);
    if (!o->untied)
        g->tensors[project].values_of = wte;

    g->targets = tr_build_input(&b, "targets", 0);
    tr_build_in_unit(&b, 0);
    g->tokens = tr_build_input(&b, "tokens", 0);
    int x = tr_build_activation(&b, "embedded.sum", o->channels, false);
    tr_build_node(&b, TR_EMBED, (int[]){ wte, g->tokens }, 2, &x, 1);
    x = tr_build_apply(&b, TR_POSITION, x, wpe, "embedded", o->channels, true);
    tr_build_draws(&b, o->dropout);
    x = tr_build_dropout(&b, x, TR_DROP_EMBEDDED, "embedded.dropped");
    for (int l = 0; l < o->layers; l++) {
        tr_build_in_layer(&b, l);
        x = layer(&b, x, w[l], l, o);
    }
    tr_build_in_unit(&b, g->units - 1);
    tr_build_cross_entropy(&b, layer_norm(&b, x, lnf_w, lnf_b, "lnf"), project);
    free(w);
    g->n_forward = g->n_nodes;
    tr_autodiff(g);
    return true;
}
