/* SPDX-License-Identifier: BSD-3-Clause */
/* plant.h: what planted errors are made of, and those of context parallelism (inject_context.c). */
#ifndef TRAINING_TAPE_PLANT_H
#define TRAINING_TAPE_PLANT_H

#include "training/tape/tape.h"

/* The first instruction of this kind that is about a tensor whose name ends so; -1. */
int tr_plant_find(const struct tr_tape *t, enum tr_code code, int op, const char *tail, int axis);
/* The instruction is left out: who reads its result reads what it was to change. */
void tr_plant_bypass(struct tr_tape *t, int n);
/* That, on each rank, of the first one of this kind. */
bool tr_plant_leave_out(struct tr_tape *tapes, int n, enum tr_code code, const char *tail, int axis);

bool tr_plant_tokens_not_reduced(struct tr_tape *tapes, int n);
bool tr_plant_keys_not_gathered(struct tr_tape *tapes, int n);
bool tr_plant_heads_not_exchanged(struct tr_tape *tapes, int n);
bool tr_plant_ring_not_turned(struct tr_tape *tapes, int n);
bool tr_plant_ring_rotated(struct tr_tape *tapes, int n);
bool tr_plant_ring_goes_on(struct tr_tape *tapes, int n);
bool tr_plant_heads_not_unpacked(struct tr_tape *tapes, int n);
bool tr_plant_positions_begin_at_zero(struct tr_tape *tapes, int n);
bool tr_plant_mask_of_the_first_rank(struct tr_tape *tapes, int n);
bool tr_plant_outer_axis_first(struct tr_tape *tapes, int n);

#endif
