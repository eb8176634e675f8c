/* SPDX-License-Identifier: BSD-3-Clause */
/* cnn.c: the convolutional network of training/reference/cnn.c as a graph. It knows nothing of ranks.
 *
 * A picture is a sequence whose tokens are the cells of a grid, row after row; each cell has 2 x 2 pixels.
 * Or they are column after column, and then so are the taps of a convolution: who cuts the tokens of a
 * sequence cuts the rows of the grid in the one case, and the columns in the other. The layers go in pairs:
 *
 *   conv1   each row of the weight is one filter, [tap][in]: y = GELU(convolution + b)
 *   conv2   each row of the weight is one input channel, [tap][out]
 *   conv    conv1 without a partner, where there is an odd number of layers
 *
 * Or all layers are convf, as conv1, or all but the first, whose input every rank has, convc, as conv2:
 * then what follows a layer is a sum over ranks, or is gathered (convolution.c).
 *
 * With group norm each bias is followed by one: NAME.weight and NAME.bias of gn1, gn2 or gn.
 *
 * As with fc1 and fc2 of the mlp the tables cut the rows of both, and one sum over ranks is due after each
 * pair. The mean over the grid leaves one row of a picture, which the head scores. */
#include "training/model/build.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIXELS = 4, CLASSES = 256 };

static bool legal(const struct tr_model_options *o, struct tr_error *e)
{
    if (o->vocabulary < 2 || o->vocabulary > CLASSES)
        return tr_fail(e, "%lld classes of pictures: legal are 2 to %d", (long long)o->vocabulary, CLASSES);
    if (o->grid < 8 || o->grid % 8 || o->grid > 256)
        return tr_fail(
            e, "a grid of %lld cells a side: legal are multiples of 8 up to 256", (long long)o->grid);
    if (!tr_build_legal(o, e))
        return false;
    return !o->groups || (o->groups < 1 << 16 && o->channels % o->groups == 0) ||
           tr_fail(e, "--norm-groups %lld: legal are numbers below 65536 that divide %lld channels",
               (long long)o->groups, (long long)o->channels);
}

/* Whether each row of layer l's weight is an input channel, and not a filter. */
static bool by_channels(const struct tr_graph *g, int64_t l)
{
    return g->cut.split == TR_CONV_PAIRS ? tr_build_is_second(l) : g->cut.split == TR_CONV_CHANNELS && l > 0;
}

/* The parameters of layer l. Those of its norm are for each channel that the convolution gives. */
static void parameters(struct tr_builder *b, int64_t l)
{
    bool pairs = b->g->cut.split == TR_CONV_PAIRS, second = pairs && tr_build_is_second(l),
         alone = pairs && !second && l == b->g->layers - 1;
    char name[16];
    if (pairs)
        tr_build_layer_of_pair(b, l, "conv", TR_TAPS);
    else
        tr_build_layer(b, l, by_channels(b->g, l) ? "convc" : "convf", by_channels(b->g, l), TR_TAPS);
    for (int shift = 0; b->g->groups && shift < 2; shift++) {
        snprintf(name, sizeof name, "gn%s.%s", second ? "2" : alone ? "" : "1", shift ? "bias" : "weight");
        tr_build_parameter(b, name, b->g->channels, 1, 0, (float)!shift);
    }
}

/* Over the cells of each picture two sums for each channel: of what comes in, and of the squares of what is
 * left when the mean is taken from it. */
static int norm(struct tr_builder *b, int x, int w)
{
    int64_t c = b->g->channels, cells = b->tokens;
    b->tokens = 1;
    int sums = tr_build_apply(b, TR_SUM_CELLS, x, -1, "sums", c, false);
    b->tokens = cells;
    x = tr_build_apply(b, TR_CENTRE, x, sums, "centred", c, true);
    b->tokens = 1;
    int squares = tr_build_apply(b, TR_SUM_SQUARES, x, -1, "squares", c, false);
    b->tokens = cells;
    b->g->tensors[sums].wide = b->g->tensors[squares].wide = true;
    int y = tr_build_activation(b, "before", c, true);
    tr_build_node(b, TR_GROUP_NORM, (int[]){ x, squares, w, w + 1 }, 4, &y, 1);
    return y;
}

static int layer(struct tr_builder *b, int64_t l, int x)
{
    int64_t c = b->g->channels;
    bool normed = b->g->groups > 0;
    int w = (int)(l * (normed ? 4 : 2));
    tr_build_in_layer(b, l);
    x = tr_build_apply(b, by_channels(b->g, l) ? TR_CHANNELS : TR_FILTERS, x, w, "sum", c, true);
    x = tr_build_apply(b, TR_BIAS, x, w + 1, normed ? "biased" : "before", c, true);
    if (normed)
        x = norm(b, x, w + 2);
    return tr_build_apply(b, TR_GELU, x, -1, "after", c, true);
}

bool tr_model_cnn(struct tr_graph *g, const struct tr_model_options *o, struct tr_error *e)
{
    if (!legal(o, e))
        return false;
    *g = (struct tr_graph){ .layers = o->layers,
        .channels = o->channels,
        .context = o->grid * o->grid,
        .grid = o->grid,
        .groups = o->groups,
        .cut = { o->split, o->columns },
        .leaves = o->leaves,
        .vocabulary = o->vocabulary,
        .inputs = PIXELS * o->planes,
        .units = (int)o->layers + 2 };
    /* a checkpoint fits one of them, and no parameter shows how many groups there are */
    strcpy(g->model, o->columns ? "cnn by columns" : "cnn");
    if (o->groups)
        snprintf(g->model, sizeof g->model, "cnn%s norm %u", o->columns ? " columns" : "",
            (unsigned)o->groups & 0xFFFF);
    struct tr_builder b = { .g = g, .tokens = 1 };
    for (int64_t l = 0; l < o->layers; l++)
        parameters(&b, l);
    tr_build_in_unit(&b, g->units - 1);
    int head =
        tr_build_parameter(&b, "head.weight", o->vocabulary, o->channels, sqrt(1.0 / (double)o->channels), 0);
    g->targets = tr_build_input(&b, "targets", 0);
    tr_build_in_unit(&b, 1); /* the first layer */
    b.tokens = g->context;
    int x = g->tokens = tr_build_input(&b, "pictures", g->inputs);
    for (int64_t l = 0; l < o->layers; l++)
        x = layer(&b, l, x);
    tr_build_in_unit(&b, g->units - 1);
    b.tokens = 1;
    x = tr_build_apply(&b, TR_SUM_CELLS, x, -1, "pooled", o->channels, false);
    x = tr_build_apply(&b, TR_MEAN, x, -1, "mean", o->channels, false);
    tr_build_cross_entropy(&b, x, head);
    g->n_forward = g->n_nodes;
    tr_autodiff(g);
    return true;
}
