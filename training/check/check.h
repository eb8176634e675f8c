/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h: what is wrong with the tapes of all ranks, before a step has run. */
#ifndef TRAINING_CHECK_CHECK_H
#define TRAINING_CHECK_CHECK_H

#include "training/tape/tape.h"

/* The types of one rank's tape, derived from its instructions and from what the tables declare alone: every
 * operation gets what one of its rules asks for, every partial result enters its own fold, every gradient
 * has all its leaves once, nothing is read before it was written or after its place was given away. The
 * message names tensor, operation, and axis. */
bool tr_check_types(const struct tr_tape *t, struct tr_error *e);

/* All ranks together: each group's calls in one order, each send with its receive, and no circle of waits; in
 * an asynchronous pipeline, each part with the version of its weights that is due. */
bool tr_check_order(struct tr_tape *tapes, int n, struct tr_error *e);
/* The last of these, of one rank. */
bool tr_check_versions(const struct tr_tape *t, struct tr_error *e);

#endif
