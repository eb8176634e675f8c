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
    int *values; /* [state][buffer]: values of the tape; NULL: they are in no tape */
};

/* From a stage's parts in their order. */
void tr_versions_make(struct tr_versions *v, const struct tr_plan *p, const struct tr_slot *slots, int n);
void tr_versions_free(struct tr_versions *v);
/* How many updates behind the newest version the one is that a stage's forward parts read, at most. */
int tr_staleness(const struct tr_plan *p, int stage);

#endif
