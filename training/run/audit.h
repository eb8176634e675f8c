/* SPDX-License-Identifier: BSD-3-Clause */
/* audit.h: the memory that a step really touches, by kind, against what memory.c predicts.
 *
 * Memory is given in lines of 64 bytes. In an audited step, all that no value has is filled with 0xFF, and is
 * so again when a value's life ends. What has changed when it ends was touched; what has changed before a
 * value's life began was written by somebody to whom it does not belong. Kinds are equal to the byte, but for
 * the kernels' scratch, of which the plan is the most that any set of kernels needs. */
#ifndef TRAINING_RUN_AUDIT_H
#define TRAINING_RUN_AUDIT_H

#include "training/run/arena.h"

struct tr_audit {
    int64_t peak[TR_MEMORIES], peak_total; /* measured in the device's memory, after tr_audit_end */
    int64_t host_peak[TR_MEMORIES]; /* and in the host's */
    /* inside */
    const int64_t *used; /* bytes of each value, of those with room for more; -1: all */
    int64_t *touched; /* bytes of each value's place; they stay until the next audit */
    uint64_t *rest; /* of each value that takes a larger place: a sum of what it does not take */
    int64_t *scratch; /* for adding up */
    int bad; /* the first value of which an element was not written; -1: none */
    int64_t missing; /* bytes of it */
    int64_t outside; /* bytes that changed outside of all values */
};

/* Allocates; free it with tr_audit_free. used: of each value, as the run notes it. */
void tr_audit_make(struct tr_audit *a, const struct tr_tape *t, const int64_t *used);
void tr_audit_free(struct tr_audit *a);

/* Around a step: begin, then before and after each instruction, then end, which says what is not as
 * predicted. Afterwards nothing is left of what does not outlive the step: no gradient can be
 * read. */
void tr_audit_begin(struct tr_audit *a, const struct tr_tape *t, const struct tr_arenas *m);
void tr_audit_before(struct tr_audit *a, const struct tr_tape *t, const struct tr_arenas *m, int instr);
void tr_audit_after(struct tr_audit *a, const struct tr_tape *t, const struct tr_arenas *m, int instr);
bool tr_audit_end(struct tr_audit *a, const struct tr_tape *t, const struct tr_arenas *m, struct tr_error *e);

#endif
