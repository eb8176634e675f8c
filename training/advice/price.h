/* SPDX-License-Identifier: BSD-3-Clause */
/* price.h: what a step takes on a machine, by the tapes of a few ranks.
 *
 * Of each instruction the tape knows the operations, and of each message the bytes and the group. A part of a
 * schedule (forward, or one of backward) takes what its instructions take; of those that run beside the list
 * only what the part's operations do not cover. The schedule's own timing then tells how long the pipeline
 * takes, and what is after it (reductions, the update) comes on top. */
#ifndef TRAINING_ADVICE_PRICE_H
#define TRAINING_ADVICE_PRICE_H

#include "training/advice/network.h"
#include "training/tape/tape.h"

/* Seconds of a part in a step, all its micro-batches together. */
struct tr_part_price {
    double compute, messages, beside;
};
double tr_part_seconds(const struct tr_part_price *x);

struct tr_tape_price {
    struct tr_part_price parts[TR_PARTS]; /* of all stages of the rank */
    struct tr_part_price end; /* before the first part and after the last */
};
void tr_price_tape(struct tr_tape_price *p, const struct tr_tape *t, const struct tr_machine *m);
/* The bytes of the whole vector, and how many calls there are of it. */
double tr_bytes_of_call(const struct tr_tape *t, const struct tr_instr *i);

struct tr_price {
    double step; /* seconds */
    /* What the rank that works longest does of it: operations, messages that nothing covers; the rest it
     * waits for other stages. */
    double compute, messages, waits;
    double bubble; /* the part of the pipeline's time that ranks idle, their mean */
};
/* `first`, `middle` and `last` are tapes of those ranks of a pipeline, or the same one. */
bool tr_price_step(struct tr_price *p, const struct tr_schedule *s, const struct tr_tape *const of[3],
    const struct tr_machine *m, struct tr_error *e);

#endif
