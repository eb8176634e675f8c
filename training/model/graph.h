/* SPDX-License-Identifier: BSD-3-Clause */
/* graph.h: a model as a graph of operations on whole tensors.
 *
 * The graph is that of one micro-batch. It knows nothing of ranks: a tensor has its whole size, and a letter
 * for each dimension, which the tables of paradigms and the rules of operations speak of:
 *
 *   b  sequences of the micro-batch      t  tokens of a sequence      c  channels, heads, or the vocabulary
 *   r  rows of a parameter (the dimension that tensor parallelism cuts)      k  its columns, which nobody
 *      cuts
 *
 * A model writes the forward part; autodiff.c appends the backward part. Both are in the order in which they
 * may run. A unit is a layer, or an end: what a pipeline cuts between, what ZeRO gathers. */
#ifndef TRAINING_MODEL_GRAPH_H
#define TRAINING_MODEL_GRAPH_H

#include "training/error.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_DIMS = 3, TR_INS = 8, TR_OUTS = 3, TR_NAME = 40 };

enum tr_role {
    TR_INPUT, /* tokens and targets; of three dimensions: rows of float32; of k: words for dropout */
    TR_PARAMETER,
    TR_ACTIVATION,
    TR_D_ACTIVATION, /* the gradient of an activation */
    TR_D_PARAMETER, /* the gradient of a parameter, summed over one micro-batch */
    TR_LEAVES, /* the same, one for each sequence */
    TR_LOSS /* float64, one for each sequence and block */
};

enum { TR_BLOCKS = 8, TR_CUT = 8, TR_NORM_LEAVES = 64, TR_PAD = 64, TR_TAPS = 9, TR_HALOS = 2 };
enum { TR_LAYERS_MAX = 4096, TR_DRAWS = 4 };

struct tr_tensor {
    char name[TR_NAME];
    enum tr_role role;
    int unit;
    int dims;
    char letter[TR_DIMS + 1];
    /* of b: 1, the micro-batch multiplies it; of r: as if padded to a multiple of 64 */
    int64_t size[TR_DIMS];
    int64_t rows; /* of r, without padding */
    bool stream; /* on the residual stream: its placement is in the tables of paradigms */
    bool wide; /* float32 in mixed precision, too */
    int of; /* D_PARAMETER, LEAVES: the parameter */
    int counts; /* rows for experts: the tensor that tells how many; -1: as many as the sizes say */
    double deviation; /* parameters: of the initial values; 0: all are `first` */
    float first;
    int values_of; /* parameters: itself, or the one whose values it shares (a tied head) */
};

enum tr_phase { TR_FORWARD, TR_BACKWARD, TR_WEIGHT }; /* TR_WEIGHT: gradients of weights, which may wait */

struct tr_node {
    int op; /* of op.h */
    enum tr_phase phase;
    int unit;
    int ins, outs;
    int in[TR_INS], out[TR_OUTS];
    int shift; /* of attention in parts: which part, by how many ranks its keys come round the ring; of
                  dropout: its site */
};

/* Which gradients of matrices come as leaves, one for each sequence: those that are sums over tokens of which
 * a rank has a part. */
enum tr_as_leaves { TR_NONE_AS_LEAVES, TR_ALL_AS_LEAVES, TR_EXPERTS_AS_LEAVES };

struct tr_graph {
    int64_t layers, channels, heads, context, vocabulary;
    int64_t inputs; /* numbers of a row: mlp, whose sequences are `context` rows, and cnn; else 0 */
    int64_t grid; /* cnn, whose sequences are grid x grid cells; else 0 */
    int64_t groups; /* cnn: of the channels, for group norm; 0: there is none */
    int64_t experts, choices; /* moe: how many there are, and how many a token has; else 0 */
    double capacity, balance; /* moe: 0: an expert takes all tokens; the weight of the loss of balance */
    struct {
        double part; /* of the elements that become +0, where they enter the residual stream, and of
                        attention's probabilities; 0: none */
        int draws; /* a tensor: what each sequence draws by */
    } dropout;
    struct { /* cnn */
        int split; /* which layers have filters as rows, and which channels: tr_conv_split */
        bool columns; /* the tokens are the cells column after column, not row after row */
    } cut;
    char model[24];
    enum tr_as_leaves leaves;
    struct {
        int parts; /* of the keys, which it takes one after the other; 0: all at once */
        bool scores; /* of the queries with each part of the keys are kept for the backward pass */
        int windows; /* of a sequence: it sees no token of another; 0: it sees all before */
        int64_t kv_heads; /* llama: heads of keys and values; else 0: as many as of queries */
    } attention;
    struct tr_tensor *tensors;
    struct tr_node *nodes;
    int n_tensors, n_nodes, room_tensors, room_nodes;
    int n_forward; /* nodes of the forward part, which come first */
    int units;
    int tokens, targets, loss; /* tensors; of the mlp, `tokens` are rows */
    bool forward; /* it ends with the scores of what comes next: no loss, and no backward part */
    int scores;
};

int tr_add_tensor(struct tr_graph *g, enum tr_role role, int unit, const char *letters, const int64_t *size,
    const char *format, ...) __attribute__((format(printf, 6, 7)));
/* outs are made before; -1 ends both lists. */
struct tr_node *tr_add_node(struct tr_graph *g, int op, enum tr_phase phase, int unit, const int *in, int ins,
    const int *out, int outs);
void tr_graph_free(struct tr_graph *g);
/* How many targets a sequence has: the loss is the mean over those of the batch. */
int64_t tr_targets(const struct tr_graph *g);

/* Of a cnn's weights each row is a filter or an input channel, in pairs by turns: what tensor parallelism
 * cuts. convolution.c */
enum tr_conv_split { TR_CONV_PAIRS, TR_CONV_FILTERS, TR_CONV_CHANNELS, TR_CONV_SPLITS };
extern const char *const tr_conv_split_names[TR_CONV_SPLITS];

/* The models. Each fills an empty graph, forward and backward, or says which size is illegal. */
struct tr_model_options {
    int64_t layers, channels, vocabulary;
    int64_t heads, context; /* gpt */
    double dropout; /* text */
    bool untied; /* gpt */
    int64_t kv_heads, hidden; /* llama: heads of keys and values; channels of the feed-forward part */
    int64_t experts, choices; /* gpt with experts: moe */
    double capacity, balance;
    int64_t inputs; /* mlp */
    int64_t grid; /* cnn */
    int64_t planes; /* cnn: numbers of a pixel */
    int64_t groups; /* cnn: of channels, in group norm; 0: no norm */
    bool columns; /* cnn */
    int split; /* cnn: tr_conv_split */
    /* for who cuts the tokens of a sequence; gpt: keys and values are a tensor of their own, and attention
     * takes them in parts */
    enum tr_as_leaves leaves;
    bool separate_kv;
    int parts; /* 0: all at once; 2, 4, 8 */
    bool scores; /* gpt: with parts: the scores of attention are kept for the backward pass */
    int windows; /* gpt: attention stays within each of so many parts; 0: one */
    bool forward; /* text: of the graph no more than the forward part, up to the scores */
};
bool tr_model_gpt(struct tr_graph *g, const struct tr_model_options *o, struct tr_error *e);
bool tr_model_llama(struct tr_graph *g, const struct tr_model_options *o, struct tr_error *e);
bool tr_model_mlp(struct tr_graph *g, const struct tr_model_options *o, struct tr_error *e);
bool tr_model_cnn(struct tr_graph *g, const struct tr_model_options *o, struct tr_error *e);

/* Appends the backward part to a forward part whose last node gives the gradient of the logits. */
void tr_autodiff(struct tr_graph *g);

#endif
