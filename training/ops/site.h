/* SPDX-License-Identifier: BSD-3-Clause */
/* site.h: an operation as it stands on one rank: its operands, with their sizes there. What it needs of
 * scratch, what it costs and what it does follow from that alone: no operation knows a plan, a tape or an
 * executor.
 *
 * Rows are independent, so what has no sum over tokens runs on all sequences of the micro-batch at once. What
 * sums over tokens says how many sequences there are: each has a sum, and these enter the tree over
 * sequences. */
#ifndef TRAINING_OPS_SITE_H
#define TRAINING_OPS_SITE_H

#include "training/kernels/kernels.h"
#include "training/model/op.h"
#include "training/parallel/map.h"

/* p: its memory; NULL where it is planned, and not run. */
struct tr_operand {
    float *p;
    int64_t d[TR_DIMS]; /* local sizes; of b: 1 */
    int64_t count; /* elements that are here, of the whole micro-batch */
    const struct tr_tensor *of; /* of which it is a part */
};

struct tr_call {
    const struct tr_kernels *k; /* that run it, or that it is planned for */
    struct tr_context *x; /* where it runs; NULL where it is planned, and not run */
    const struct tr_graph *g;
    int op;
    int part; /* of attention in parts: keys of the rank so many before; of dropout: its site */
    int64_t n, block; /* sequences; tokens of a block */
    struct tr_map map;
    int64_t runs; /* of neighbouring tokens in the part of a sequence that a rank of cp has */
    int cp_rank, tp_rank;
    int ranks; /* of layouts: of the axis that they stand beside */
    int data_ranks, micros; /* ranks that share a micro-batch; micro-batches of a step */
    int64_t first, second; /* what must know its tokens' places: of the first one, and of the second half */
    bool striped; /* those places are in stripes */
    int64_t valid; /* of the vocabulary: columns that are no padding */
    int64_t head; /* attention: the first of the model's that is here */
    int64_t earlier; /* ADMIT: sequences of the micro-batch that other ranks have before these */
    double scale; /* SOFTMAX_DX: of the loss's mean */
    struct tr_operand in[TR_INS], out[TR_OUTS];
    float *scratch;
};

/* The levels of the tree over sequences: they lie behind the scratch of the kernel that makes its leaves. */
void tr_levels_of(const struct tr_call *c, int64_t kernel_floats, int64_t count, float *level[32]);

enum { TR_FLOAT_BYTES = sizeof(float) };

/* Pieces go from one array to the other, or `back`, by the same strides. */
void tr_carry(const struct tr_call *c, float *to, float *from, const struct tr_copy *pieces, bool back);

/* The rows of the first operand, for sums over tokens; each of the runs of a sequence's tokens is as if it
 * were one. */
struct tr_tokens tr_tokens_of(const struct tr_call *c, int64_t runs);

/* Of a weight: how many of its chunks of rows are in `local` rows, and the rows of one. */
void tr_chunks_of(const struct tr_tensor *w, int64_t local, int64_t *chunks, int64_t *chunk);
/* Of a tensor whose rows an axis may cut: the first that this rank of tp has. */
int64_t tr_first_row(const struct tr_call *c, const struct tr_tensor *whole, int64_t local);

/* Tokens, choices and counts are integers. */
static inline const uint16_t *tr_token_numbers(const struct tr_operand *o)
{
    return (const uint16_t *)(const void *)o->p;
}

static inline int32_t *tr_integers(const struct tr_operand *o)
{
    return (int32_t *)(void *)o->p;
}

#endif
