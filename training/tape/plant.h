/* SPDX-License-Identifier: BSD-3-Clause */
/* plant.h: what planted errors are made of, and the list of each paradigm. */
#ifndef TRAINING_TAPE_PLANT_H
#define TRAINING_TAPE_PLANT_H

#include "training/tape/inject.h"

/* The first instruction of this kind that is about a tensor whose name ends so; -1. */
int tr_plant_find(const struct tr_tape *t, enum tr_code code, int op, const char *tail, int axis);
/* The instruction is left out: who reads its result reads what it was to change. */
void tr_plant_bypass(struct tr_tape *t, int n);
/* That, on each rank, of the first one of this kind. */
bool tr_plant_leave_out(struct tr_tape *tapes, int n, enum tr_code code, const char *tail, int axis);

/* A paradigm's errors; inject.c lists all of them. */
struct tr_injections {
    const struct tr_injection *list;
    int n;
};
extern const struct tr_injections tr_injections_step, tr_injections_context, tr_injections_recompute,
    tr_injections_server, tr_injections_offload, tr_injections_pipeline, tr_injections_mixed,
    tr_injections_async, tr_injections_space, tr_injections_norm, tr_injections_experts;

#endif
