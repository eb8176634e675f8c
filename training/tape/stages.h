/* SPDX-License-Identifier: BSD-3-Clause */
/* stages.h: what each stage of a pipeline holds: how many micro-batches, and bytes of activations.
 *
 * A rank with several stages has the peaks of each at other times, so that they add up to more than its own.
 * Bytes are of the device's memory; what waits on the host is not here. */
#ifndef TRAINING_TAPE_STAGES_H
#define TRAINING_TAPE_STAGES_H

#include "training/tape/tape.h"

/* The most micro-batches of a stage that ran forward, and backward not to the end. */
int tr_stage_in_flight(const struct tr_schedule *s, int stage);

/* Bytes of activations of a stage on one of its ranks. */
struct tr_stage_room {
    int64_t kept; /* by the first micro-batch, from its forward part for its backward part */
    int64_t most; /* at a time, of all micro-batches */
};
/* bytes: of each value, as the audit found it; NULL: as planned. */
struct tr_stage_room tr_stage_room(const struct tr_tape *t, int stage, const int64_t *bytes);

/* Whether the stages of this rank touched what was planned. scratch: so many numbers. */
size_t tr_stages_scratch(const struct tr_tape *t);
bool tr_stages_as_planned(
    const struct tr_tape *t, const int64_t *touched, int64_t *scratch, struct tr_error *e);

#endif
