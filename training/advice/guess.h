/* SPDX-License-Identifier: BSD-3-Clause */
/* guess.h: the choices that a plan has, and of each a quick price and the least memory it needs, by formula.
 *
 * There are tens of thousands for thousands of ranks. So tapes are made of the best of them alone, and of
 * those that need no more memory than there is by what must be in it: parameters, gradients, sums of
 * micro-batches that wait, the optimizer's state, and what a pipeline keeps. The bound is never above what
 * the tape needs (tests/training/test_advice.c). */
#ifndef TRAINING_ADVICE_GUESS_H
#define TRAINING_ADVICE_GUESS_H

#include "training/advice/machine.h"
#include "training/options.h"

/* Bytes of gradients that are reduced together, as PyTorch's DistributedDataParallel has it. */
enum { TR_BUCKET = 25 << 20 };

enum tr_order { TR_ORDER_1F1B, TR_ORDER_INTERLEAVED, TR_ORDER_ZB_H1, TR_ORDERS };
extern const char *const tr_order_names[TR_ORDERS];

struct tr_choice {
    short pp, cp, ep, tp;
    int dp, micros;
    unsigned char zero, recompute, order;
    bool sp, overlap;
    double seconds; /* of a step, guessed */
    int64_t least; /* bytes that a rank needs at least */
};

/* What formulas need to know of a model: of one sequence on one device. */
struct tr_sketch {
    int64_t layers, channels, heads, context, experts, batch;
    bool narrow, sgd, free_order; /* bfloat16; else AdamW; else sums are canonical */
    double layer[3], ends[3]; /* operations of F, I and W: of a layer, of both ends together */
    double attention; /* of a layer, forward */
    int64_t in_layer, in_experts, outside; /* parameters: matrices of a layer, experts among them; the rest */
};
bool tr_sketch_make(struct tr_sketch *s, const struct tr_options *o, struct tr_error *e);

void tr_guess(struct tr_choice *c, const struct tr_sketch *s, const struct tr_machine *m);

/* Whether sizes divide what they cut; the trainer's own checks say the rest. */
bool tr_choice_divides(const struct tr_choice *c, const struct tr_sketch *s);
/* The options of a run with it. */
void tr_choice_options(struct tr_options *to, const struct tr_options *base, const struct tr_choice *c);
/* "--dp 8 --tp 2 --micro 4" */
const char *tr_choice_text(const struct tr_choice *c, char text[160]);

#endif
