/* SPDX-License-Identifier: BSD-3-Clause */
/* classes.h: ranks that do the same at the same time, so that one of each class is simulated for all.
 *
 * Two ranks are of one class if their schedules look alike (verbs, lengths, levels, dependencies) and if,
 * step by step, the other ends of their messages are of one class, too, and stand at the same step. By
 * induction over time, all of a class then do the same at the same moment, but for the order of what comes to
 * them at one moment. The classes are found by refinement: all begin in the class of how they look, and are
 * told apart by their peers until nothing new is told (Paige, Tarjan 1987, with hashes of 64 bits in place of
 * lists). Of a ring there is one class, of a doubling on any number of ranks a few; in a tree nearly each
 * rank is its own, but there they have few steps. */
#ifndef TT_CLASSES_H
#define TT_CLASSES_H
#include <stdint.h>

#include "select/cost_model.h"

struct tt_classes {
    int32_t *class_of; /* of each rank */
    int32_t *first; /* of each class: its first rank, which stands for all */
    uint32_t *on_host; /* of each class: how many of it are in the first one's domain, itself included */
    uint32_t **mates; /* of each class, by step: the step at the other end of its message, or TT_NO_STEP */
    int count;
    uint32_t *counts; /* for schedules, see tt_schedule_begin_lent */
};

/* Builds the schedule of one rank; `counts`: see tt_schedule_begin_lent. */
tutti_status tt_cost_build(const struct tt_cost_query *query, int algorithm, int rank, uint32_t *counts,
    struct tt_schedule *schedule);
/* Returns the level of the way between two ranks. */
enum tt_level tt_cost_level(const struct tt_cost_query *query, int rank, int peer);
/* Finds the classes of all ranks of a call by this algorithm. Fails with OUT_OF_MEMORY. */
tutti_status tt_classes_find(const struct tt_cost_query *query, int algorithm, struct tt_classes *classes);
void tt_classes_free(struct tt_classes *classes);

#endif
