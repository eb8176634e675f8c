/* SPDX-License-Identifier: BSD-3-Clause */
/* build.h: what the models' graphs are built from: parameters, activations, operations, and the loss.
 *
 * A builder stands at one unit of the model: what is made goes there, and its name begins with the unit's
 * prefix. Parameters are made before all other tensors and in the golden program's order, so that the n-th
 * here is its n-th, with the same initial values and the same place in the flat array of a checkpoint. */
#ifndef TRAINING_MODEL_BUILD_H
#define TRAINING_MODEL_BUILD_H

#include "training/model/op.h"

struct tr_builder {
    struct tr_graph *g;
    int unit;
    int64_t tokens; /* of a sequence; 0: the graph's context */
    char prefix[28];
};

/* To layer l, which is unit l + 1; to another unit, whose names have no prefix. */
void tr_build_in_layer(struct tr_builder *b, int64_t l);
void tr_build_in_unit(struct tr_builder *b, int unit);

/* columns 1: a vector. deviation 0: all elements are `first`. */
int tr_build_parameter(
    struct tr_builder *b, const char *name, int64_t rows, int64_t columns, double deviation, float first);
/* Models of layers that come in pairs, of which the second closes with the transposed matrix: the weight and
 * the bias of layer l, called NAME1, NAME2, or NAME where the last layer has no partner. A weight has one row
 * for each output, or of a second layer for each input, and `taps` numbers for each of the others. */
bool tr_build_is_second(int64_t l);
void tr_build_layer(struct tr_builder *b, int64_t l, const char *name, bool by_inputs, int64_t taps);
void tr_build_layer_of_pair(struct tr_builder *b, int64_t l, const char *name, int64_t taps);
/* An activation [b][t][c], or with c = 0 one number for each token. */
int tr_build_activation(struct tr_builder *b, const char *name, int64_t c, bool stream);
/* Dropout of this part, in a graph that learns: first what each sequence draws by. */
void tr_build_draws(struct tr_builder *b, double part);
bool tr_build_drops(const struct tr_builder *b);
/* What dropout leaves of x. Sites are behind the embedding, and in each layer before its two sums. */
enum { TR_DROP_EMBEDDED, TR_DROP_ATTENTION, TR_DROP_FORWARD, TR_DROPS_OF_LAYER = 2 };
int tr_build_dropout(struct tr_builder *b, int x, int site, const char *name);
/* An input [b][t] of tokens or targets, or with c > 0 [b][t][c] of float32. */
int tr_build_input(struct tr_builder *b, const char *name, int64_t c);

void tr_build_node(struct tr_builder *b, int op, const int *in, int ins, const int *out, int outs);
/* An operation with one input and at most one parameter (w -1: none): its result. */
int tr_build_apply(struct tr_builder *b, int op, int x, int w, const char *name, int64_t c, bool stream);
/* Causal attention, of each token's queries, keys and values qkv[head][3][size], in the form that is asked
 * for. Keys and values may be a tensor of their own: then who has a part of the queries can have all of them.
 */
int tr_build_attention(struct tr_builder *b, int qkv, const struct tr_model_options *o);
/* The end of a model: scores by the rows of w, and, if it is more than a forward part, softmax, cross entropy
 * against g->targets, and the gradient of the scores. */
void tr_build_cross_entropy(struct tr_builder *b, int x, int w);

/* The sizes that all models have; and those of all that learn text. */
bool tr_build_legal(const struct tr_model_options *o, struct tr_error *e);
bool tr_build_text_legal(const struct tr_model_options *o, struct tr_error *e);

#endif
