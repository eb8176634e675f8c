/* SPDX-License-Identifier: BSD-3-Clause */
/* build.c: tensors and nodes of the unit at hand, layers in pairs, and the end that all models have. */
#include "training/model/build.h"

#include <math.h>
#include <stdio.h>

static int64_t tokens(const struct tr_builder *b)
{
    return b->tokens ? b->tokens : b->g->context;
}

void tr_build_in_layer(struct tr_builder *b, int64_t l)
{
    b->unit = (int)l + 1;
    snprintf(b->prefix, sizeof b->prefix, "layer%lld.", (long long)l);
}

void tr_build_in_unit(struct tr_builder *b, int unit)
{
    b->unit = unit;
    b->prefix[0] = 0;
}

int tr_build_parameter(
    struct tr_builder *b, const char *name, int64_t rows, int64_t columns, double deviation, float first)
{
    int64_t size[] = { rows, columns };
    int t =
        tr_add_tensor(b->g, TR_PARAMETER, b->unit, columns > 1 ? "rk" : "r", size, "%s%s", b->prefix, name);
    b->g->tensors[t].deviation = deviation;
    b->g->tensors[t].first = first;
    return t;
}

int tr_build_activation(struct tr_builder *b, const char *name, int64_t c, bool stream)
{
    int64_t size[] = { 1, tokens(b), c };
    int t = tr_add_tensor(b->g, TR_ACTIVATION, b->unit, c > 0 ? "btc" : "bt", size, "%s%s", b->prefix, name);
    b->g->tensors[t].stream = stream;
    return t;
}

int tr_build_input(struct tr_builder *b, const char *name, int64_t c)
{
    int64_t size[] = { 1, tokens(b), c };
    return tr_add_tensor(b->g, TR_INPUT, b->unit, c > 0 ? "btc" : "bt", size, "%s", name);
}

void tr_build_node(struct tr_builder *b, int op, const int *in, int ins, const int *out, int outs)
{
    tr_add_node(b->g, op, TR_FORWARD, b->unit, in, ins, out, outs);
}

int tr_build_apply(struct tr_builder *b, int op, int x, int w, const char *name, int64_t c, bool stream)
{
    int y = tr_build_activation(b, name, c, stream);
    tr_build_node(b, op, (int[]){ x, w }, w < 0 ? 1 : 2, &y, 1);
    return y;
}

void tr_build_draws(struct tr_builder *b, double part)
{
    b->g->dropout.part = part;
    if (tr_build_drops(b))
        b->g->dropout.draws =
            tr_add_tensor(b->g, TR_INPUT, b->unit, "bk", (int64_t[]){ 1, TR_DRAWS }, "draws");
}

bool tr_build_drops(const struct tr_builder *b)
{
    return b->g->dropout.part > 0 && !b->g->forward;
}

int tr_build_dropout(struct tr_builder *b, int x, int site, const char *name)
{
    struct tr_graph *g = b->g;
    if (!tr_build_drops(b))
        return x;
    int y = tr_build_activation(b, name, g->channels, true);
    tr_add_node(g, TR_DROPOUT, TR_FORWARD, b->unit, (int[]){ x, g->dropout.draws }, 2, &y, 1)->shift = site;
    return y;
}

/* Three partial results over the vocabulary stand between logits and loss. */
void tr_build_cross_entropy(struct tr_builder *b, int x, int w)
{
    struct tr_graph *g = b->g;
    int64_t padded = g->tensors[w].size[0];
    int logits = g->scores = tr_build_apply(b, TR_COLUMN, x, w, "logits", padded, false);
    if (g->forward)
        return;
    int max = tr_build_apply(b, TR_ROW_MAX, logits, -1, "max", 0, false);
    int out[3] = { tr_build_activation(b, "exp", padded, false), tr_build_activation(b, "sum", 0, false),
        tr_build_activation(b, "wanted", 0, false) };
    g->tensors[out[0]].wide = true; /* 1 is taken from what is near 1 */
    tr_build_node(b, TR_SOFTMAX, (int[]){ logits, max, g->targets }, 3, out, 3);
    int64_t size[] = { 1, TR_BLOCKS };
    g->loss = tr_add_tensor(g, TR_LOSS, b->unit, "bt", size, "loss");
    tr_build_node(b, TR_LOSS_LEAVES, (int[]){ out[1], max, out[2] }, 3, &g->loss, 1);
    int64_t d_size[] = { 1, tokens(b), padded };
    int d = tr_add_tensor(g, TR_D_ACTIVATION, b->unit, "btc", d_size, "d.logits");
    tr_build_node(b, TR_SOFTMAX_DX, (int[]){ out[0], out[1], g->targets }, 3, &d, 1);
}

bool tr_build_legal(const struct tr_model_options *o, struct tr_error *e)
{
    if (o->layers < 1 || o->layers > TR_LAYERS_MAX)
        return tr_fail(e, "%lld layers: legal are 1 to %d", (long long)o->layers, TR_LAYERS_MAX);
    if (o->channels < 64 || o->channels % 64 || o->channels > 1 << 20)
        return tr_fail(e, "%lld channels: legal are multiples of 64 up to 1048576", (long long)o->channels);
    if (o->vocabulary < 2 || o->vocabulary > 65536)
        return tr_fail(e, "a vocabulary of %lld: legal are 2 to 65536", (long long)o->vocabulary);
    return true;
}

bool tr_build_text_legal(const struct tr_model_options *o, struct tr_error *e)
{
    if (!tr_build_legal(o, e))
        return false;
    if (o->heads < 1 || o->channels % o->heads)
        return tr_fail(e, "%lld heads: legal is what divides the %lld channels", (long long)o->heads,
            (long long)o->channels);
    if (!(o->dropout >= 0 && o->dropout < 1))
        return tr_fail(e, "--dropout %g: legal are 0, for none, and what is below 1", o->dropout);
    return (o->context >= TR_BLOCKS && o->context % TR_BLOCKS == 0 && o->context <= 1 << 20) ||
           tr_fail(
               e, "a context of %lld tokens: legal are multiples of 8 up to 1048576", (long long)o->context);
}

bool tr_build_is_second(int64_t l)
{
    return l % 2 == 1;
}

void tr_build_layer(struct tr_builder *b, int64_t l, const char *name, bool by_inputs, int64_t taps)
{
    int64_t c = b->g->channels, in = l ? c : b->g->inputs;
    char weight[32], bias[32];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    tr_build_in_layer(b, l);
    tr_build_parameter(
        b, weight, by_inputs ? in : c, taps * (by_inputs ? c : in), sqrt(2.0 / (double)(taps * in)), 0);
    tr_build_parameter(b, bias, c, 1, 0, 0);
}

void tr_build_layer_of_pair(struct tr_builder *b, int64_t l, const char *name, int64_t taps)
{
    bool second = tr_build_is_second(l), alone = !second && l == b->g->layers - 1;
    char numbered[24];
    snprintf(numbered, sizeof numbered, "%s%s", name, second ? "2" : alone ? "" : "1");
    tr_build_layer(b, l, numbered, second, taps);
}
