/* SPDX-License-Identifier: BSD-3-Clause */
/* waits.h: what copies between the memories wait for, and what waits for them, where they run beside the
 * list.
 *
 * A copy has its place in the list, and so has the memory that it reads and writes. Run beside, it may begin
 * as soon as all instructions before it that use the same places are over, and be over as late as just before
 * the first one behind it that uses them. So what runs beside it is what the plan of memory allows. */
#ifndef TRAINING_TAPE_WAITS_H
#define TRAINING_TAPE_WAITS_H

#include "training/tape/tape.h"

/* Of each instruction. What is not named is of the step before, or needs no wait: copies come in the order of
 * the list. */
struct tr_waits {
    int *after; /* of a copy: the last instruction that must be over before it begins; -1 */
    int *copy; /* the last copy that must be over before the instruction begins; -1 */
    bool *awaited; /* the instruction is some copy's `after` */
};

/* The tape's memory is planned. */
void tr_waits_make(struct tr_waits *w, const struct tr_tape *t);
void tr_waits_free(struct tr_waits *w);

#endif
