/* SPDX-License-Identifier: BSD-3-Clause */
/* tapes.h: the tapes of all ranks of a mesh, of which few are made.
 *
 * Every rank checks the tapes of all, so that all refuse alike, before a message was sent. Of many ranks most
 * do alike. Two ranks of one place on pp are of one class if on each other axis both are the first, or
 * neither is: then their tapes differ in where the tokens, sequences and leaves lie, and in nothing else. So
 * one tape of each class is checked, and the order of calls among the ranks that stand first or second on
 * each axis: a group's ranks beyond the second do what the second does.
 *
 * Up to TR_WALKED ranks, with parameter servers, or where an error was planted in one rank's tape, all tapes
 * are made and walked. */
#ifndef TRAINING_PLANNING_TAPES_H
#define TRAINING_PLANNING_TAPES_H

#include "training/tape/tape.h"

enum { TR_WALKED = 16 };

struct tr_tapes {
    const struct tr_placed *placed;
    const struct tr_schedule *schedule;
    int n; /* ranks */
    bool by_class; /* tapes are made as they are asked for */
    struct tr_tape *of; /* of each rank; placed is NULL in one that is not made */
    int64_t instructions; /* of all ranks */
    struct tr_needed needed; /* by any rank */
};

/* Those of all ranks, where they are walked. `placed` and `schedule` stay where they are. */
bool tr_tapes_make(struct tr_tapes *t, const struct tr_placed *placed, const struct tr_schedule *schedule,
    bool whole, struct tr_error *e);
/* *by_types: whether the types of one rank's tape were wrong, and not the order of all. */
bool tr_tapes_check(struct tr_tapes *t, bool *by_types, struct tr_error *e);
/* The tape of a rank, made if it is not there. */
const struct tr_tape *tr_tapes_of(struct tr_tapes *t, int rank);
/* That of its class, for who adds up what all of a class have alike: bytes, counts, memory. */
const struct tr_tape *tr_tapes_like(struct tr_tapes *t, int rank);
/* Whether it is made; and that nobody needs it any more, which only who had it made can say. */
bool tr_tapes_has(const struct tr_tapes *t, int rank);
void tr_tapes_forget(struct tr_tapes *t, int rank);
void tr_tapes_free(struct tr_tapes *t);

/* The first rank of a rank's class. */
int tr_class_of(const struct tr_mesh *m, int rank);

#endif
