/* SPDX-License-Identifier: BSD-3-Clause */
/* gpt.c: the GPT of training/reference/gpt.c as a graph. It knows nothing of ranks.
 *
 * Tensors are made in the golden program's order, so that the n-th parameter here is its n-th, with the same
 * initial values and the same place in the flat array of a checkpoint. */
#include "training/model/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* What is built so far, and where the next operation goes. */
struct builder {
    struct tr_graph *g;
    int unit;
    char prefix[24];
};

static int parameter(
    struct builder *b, const char *name, int64_t rows, int64_t columns, double deviation, float first)
{
    int64_t size[] = { rows, columns };
    int t =
        tr_add_tensor(b->g, TR_PARAMETER, b->unit, columns > 1 ? "rk" : "r", size, "%s%s", b->prefix, name);
    b->g->tensors[t].deviation = deviation;
    b->g->tensors[t].first = first;
    return t;
}

/* An activation [b][t][c], or with c = 0 one number for each token. */
static int activation(struct builder *b, const char *name, int64_t c, bool stream)
{
    int64_t size[] = { 1, b->g->context, c };
    int t = tr_add_tensor(b->g, TR_ACTIVATION, b->unit, c > 0 ? "btc" : "bt", size, "%s%s", b->prefix, name);
    b->g->tensors[t].stream = stream;
    return t;
}

static void node(struct builder *b, int op, const int *in, int ins, const int *out, int outs)
{
    tr_add_node(b->g, op, TR_FORWARD, b->unit, in, ins, out, outs);
}

/* One input and one parameter, one result. */
static int apply(struct builder *b, int op, int x, int w, const char *name, int64_t c, bool stream)
{
    int y = activation(b, name, c, stream);
    node(b, op, (int[]){ x, w }, w < 0 ? 1 : 2, &y, 1);
    return y;
}

static int layer_norm(struct builder *b, int x, int w, int bias, const char *name)
{
    char text[TR_NAME];
    int out[3] = { activation(b, name, b->g->channels, true) };
    snprintf(text, sizeof text, "%s.mean", name);
    out[1] = activation(b, text, 0, true);
    snprintf(text, sizeof text, "%s.scale", name);
    out[2] = activation(b, text, 0, true);
    node(b, TR_LAYER_NORM, (int[]){ x, w, bias }, 3, out, 3);
    return out[0];
}

enum { LN1_W, LN1_B, QKV_W, QKV_B, PROJ_W, PROJ_B, LN2_W, LN2_B, FC1_W, FC1_B, FC2_W, FC2_B, OF_LAYER };

static int layer(struct builder *b, int x, const int *w)
{
    int64_t c = b->g->channels;
    int n = layer_norm(b, x, w[LN1_W], w[LN1_B], "ln1");
    int qkv = apply(b, TR_COLUMN, n, w[QKV_W], "qkv.sum", 3 * c, false);
    qkv = apply(b, TR_BIAS, qkv, w[QKV_B], "qkv", 3 * c, false);
    int out[2] = { activation(b, "attention", c, false) };
    int64_t size[] = { 1, b->g->heads, b->g->context };
    out[1] = tr_add_tensor(b->g, TR_ACTIVATION, b->unit, "bct", size, "%slse", b->prefix);
    node(b, TR_ATTENTION, &qkv, 1, out, 2);
    int y = apply(b, TR_ROW, out[0], w[PROJ_W], "proj.sum", c, false);
    y = apply(b, TR_BIAS, y, w[PROJ_B], "proj", c, true);
    x = apply(b, TR_ADD, y, x, "middle", c, true);
    n = layer_norm(b, x, w[LN2_W], w[LN2_B], "ln2");
    y = apply(b, TR_COLUMN, n, w[FC1_W], "fc1.sum", 4 * c, false);
    y = apply(b, TR_BIAS, y, w[FC1_B], "fc1", 4 * c, false);
    y = apply(b, TR_GELU, y, -1, "gelu", 4 * c, false);
    y = apply(b, TR_ROW, y, w[FC2_W], "fc2.sum", c, false);
    y = apply(b, TR_BIAS, y, w[FC2_B], "fc2", c, true);
    return apply(b, TR_ADD, y, x, "out", c, true);
}

static void layer_parameters(struct builder *b, int *w)
{
    int64_t c = b->g->channels;
    double project = 0.02 / sqrt(2.0 * (double)b->g->layers);
    w[LN1_W] = parameter(b, "ln1.weight", c, 1, 0, 1);
    w[LN1_B] = parameter(b, "ln1.bias", c, 1, 0, 0);
    w[QKV_W] = parameter(b, "qkv.weight", 3 * c, c, 0.02, 0);
    w[QKV_B] = parameter(b, "qkv.bias", 3 * c, 1, 0, 0);
    w[PROJ_W] = parameter(b, "proj.weight", c, c, project, 0);
    w[PROJ_B] = parameter(b, "proj.bias", c, 1, 0, 0);
    w[LN2_W] = parameter(b, "ln2.weight", c, 1, 0, 1);
    w[LN2_B] = parameter(b, "ln2.bias", c, 1, 0, 0);
    w[FC1_W] = parameter(b, "fc1.weight", 4 * c, c, 0.02, 0);
    w[FC1_B] = parameter(b, "fc1.bias", 4 * c, 1, 0, 0);
    w[FC2_W] = parameter(b, "fc2.weight", 4 * c, c, project, 0);
    w[FC2_B] = parameter(b, "fc2.bias", c, 1, 0, 0);
}

/* Cross entropy: three partial results over the vocabulary stand between logits and loss. */
static void head(struct builder *b, int x, int lnf_w, int lnf_b, int w)
{
    struct tr_graph *g = b->g;
    int n = layer_norm(b, x, lnf_w, lnf_b, "lnf");
    int64_t padded = g->tensors[w].size[0];
    int logits = apply(b, TR_COLUMN, n, w, "logits", padded, false);
    int max = apply(b, TR_ROW_MAX, logits, -1, "max", 0, false);
    int out[3] = { activation(b, "exp", padded, false), activation(b, "sum", 0, false),
        activation(b, "wanted", 0, false) };
    node(b, TR_SOFTMAX, (int[]){ logits, max, g->targets }, 3, out, 3);
    int64_t size[] = { 1, TR_BLOCKS };
    g->loss = tr_add_tensor(g, TR_LOSS, b->unit, "bt", size, "loss");
    node(b, TR_LOSS_LEAVES, (int[]){ out[1], max, out[2] }, 3, &g->loss, 1);
    int64_t d_size[] = { 1, g->context, padded };
    int d = tr_add_tensor(g, TR_D_ACTIVATION, b->unit, "btc", d_size, "d.logits");
    tr_add_node(g, TR_SOFTMAX_DX, TR_FORWARD, b->unit, (int[]){ out[0], out[1], g->targets }, 3, &d, 1);
}

static bool legal(const struct tr_model_options *o, struct tr_error *e)
{
    if (o->layers < 1 || o->layers > 4096)
        return tr_fail(e, "%lld layers: legal are 1 to 4096", (long long)o->layers);
    if (o->channels < 64 || o->channels % 64 || o->channels > 1 << 20)
        return tr_fail(e, "%lld channels: legal are multiples of 64", (long long)o->channels);
    if (o->heads < 1 || o->channels % o->heads)
        return tr_fail(e, "%lld heads: legal is what divides the %lld channels", (long long)o->heads,
            (long long)o->channels);
    if (o->context < TR_BLOCKS || o->context % TR_BLOCKS || o->context > 1 << 20)
        return tr_fail(e, "a context of %lld tokens: legal are multiples of 8", (long long)o->context);
    if (o->vocabulary < 2 || o->vocabulary > 65536)
        return tr_fail(e, "a vocabulary of %lld: legal are 2 to 65536", (long long)o->vocabulary);
    return true;
}

bool tr_model_gpt(struct tr_graph *g, const struct tr_model_options *o, struct tr_error *e)
{
    if (!legal(o, e))
        return false;
    *g = (struct tr_graph){ .layers = o->layers,
        .channels = o->channels,
        .heads = o->heads,
        .model = "gpt",
        .context = o->context,
        .vocabulary = o->vocabulary,
        .units = (int)o->layers + 2 };
    struct builder b = { .g = g };
    int(*w)[OF_LAYER] = tr_new((size_t)o->layers, sizeof *w);
    int wte = parameter(&b, "wte", o->vocabulary, o->channels, 0.02, 0);
    int wpe = parameter(&b, "wpe", o->context, o->channels, 0.02, 0);
    for (int l = 0; l < o->layers; l++) {
        b.unit = l + 1;
        snprintf(b.prefix, sizeof b.prefix, "layer%d.", l);
        layer_parameters(&b, w[l]);
    }
    b.unit = g->units - 1, b.prefix[0] = 0;
    int lnf_w = parameter(&b, "lnf.weight", o->channels, 1, 0, 1);
    int lnf_b = parameter(&b, "lnf.bias", o->channels, 1, 0, 0);
    int project = parameter(&b, "head.weight", o->vocabulary, o->channels, 0.02, 0);
    if (!o->untied)
        g->tensors[project].values_of = wte;

    int64_t size[] = { 1, o->context };
    g->tokens = tr_add_tensor(g, TR_INPUT, 0, "bt", size, "tokens");
    g->targets = tr_add_tensor(g, TR_INPUT, b.unit, "bt", size, "targets");
    b.unit = 0;
    int x = activation(&b, "embedded.sum", o->channels, false);
    node(&b, TR_EMBED, (int[]){ wte, g->tokens }, 2, &x, 1);
    x = apply(&b, TR_POSITION, x, wpe, "embedded", o->channels, true);
    for (int l = 0; l < o->layers; l++) {
        b.unit = l + 1;
        snprintf(b.prefix, sizeof b.prefix, "layer%d.", l);
        x = layer(&b, x, w[l]);
    }
    b.unit = g->units - 1, b.prefix[0] = 0;
    head(&b, x, lnf_w, lnf_b, project);
    free(w);
    g->n_forward = g->n_nodes;
    tr_autodiff(g);
    return true;
}
