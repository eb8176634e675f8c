/* SPDX-License-Identifier: BSD-3-Clause */
/* walk.h: the one walk over a schedule that follows its waits. The check asks whether it comes to an end, the
 * simulation when. */
#ifndef TRAINING_SCHEDULE_WALK_H
#define TRAINING_SCHEDULE_WALK_H

#include "training/schedule/schedule.h"

/* What a part makes: outputs, the gradient of the input, the gradient of the weights. B makes both. */
enum tr_makes { TR_OUTPUT, TR_INPUT_GRADIENT, TR_WEIGHT_GRADIENT };

/* Where a (stage, micro-batch) lies in an array of all of them. */
size_t tr_cell(const struct tr_schedule *s, int stage, int micro);

/* The neighbouring stage whose output (for F) or input gradient (for B and I) the part needs, or -1. */
int tr_waits_for(const struct tr_schedule *s, struct tr_slot slot);

/* Runs each rank as far as its waits allow; true if all came to their ends. next: of each rank, the slot
 * that it stands at; start: of each slot, unless NULL. Slots must be within the schedule's sizes. */
bool tr_schedule_walk(const struct tr_schedule *s, const struct tr_costs *c, int *next, double **start);

double tr_slot_cost(const struct tr_costs *c, struct tr_slot slot);

/* dualpipe.c: the slots of a rank. */
void tr_fill_dualpipev(struct tr_schedule *s, int rank);

/* Whether the sizes are ones that a schedule can have. */
bool tr_schedule_sizes(int ranks, int chunks, int micros, struct tr_error *e);

#endif
