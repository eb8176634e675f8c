/* SPDX-License-Identifier: BSD-3-Clause */
/* versions.h: an asynchronous pipeline: each stage updates its weights as soon as a mini-batch's backward
 * part is done, so several versions of the weights are in use at a time. */
#ifndef TRAINING_PASSES_VERSIONS_H
#define TRAINING_PASSES_VERSIONS_H

#include "training/tape/tape.h"

/* Which version of its weights each part of a stage reads, and in which buffer a version lies. Version 0 is
 * that which the step begins with; update u reads version u and writes version u + 1. The first buffer is
 * where parameters lie from step to step, and the last version ends there. */
struct tr_versions {
    int updates, buffers;
    int *forward, *backward; /* of each micro-batch: the version that its part reads */
    int *buffer; /* of each version */
    int *values; /* [state][buffer]: values of the tape; NULL before tr_versions_hold */
};

/* From a stage's parts in their order. */
void tr_versions_make(struct tr_versions *v, const struct tr_plan *p, const struct tr_slot *slots, int n);
void tr_versions_free(struct tr_versions *v);
/* How many updates behind the newest version the one is that a stage's forward parts read, at most. */
int tr_staleness(const struct tr_plan *p, int stage);

/* Into the tape: the buffers; the parameter as a part reads it; what follows the last part of an update. */
void tr_versions_hold(struct tr_versions *v, struct tr_tape *t);
int tr_version_read(const struct tr_versions *v, const struct tr_tape *t, const struct tr_param_state *h,
    const struct tr_slot *slot);
struct tr_lowering;
void tr_version_write(struct tr_lowering *l, const struct tr_slot *slot);

#endif
