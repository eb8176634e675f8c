/* SPDX-License-Identifier: BSD-3-Clause */
/* replicas.h: what several ranks have alike is alike.
 *
 * Parameters that a mesh replicates are computed by each of their ranks; nothing sends them. If one rank
 * computes something else, by a faulty machine say, training goes on and is wrong. So the ranks compare
 * hashes now and then. */
#ifndef TRAINING_CHECKPOINT_REPLICAS_H
#define TRAINING_CHECKPOINT_REPLICAS_H

#include "training/checkpoint/pieces.h"

struct tr_replicas {
    int64_t count; /* of pieces that ranks may have alike: parameter, kind, part over tp, part over dp */
    uint64_t *least, *most; /* hashes of each piece over the ranks that have it */
};

void tr_replicas_open(struct tr_replicas *s, const struct tr_runner *r);
/* How many pieces several ranks have: those that are compared. Collective over `ranks`. */
bool tr_replicas_count(struct tr_replicas *s, const struct tr_runner *r, tutti_comm *ranks, int64_t *several,
    struct tr_error *e);
/* Collective over `ranks`, all ranks of the run. The first piece that differs is named, with its ranks. */
bool tr_replicas_check(
    struct tr_replicas *s, const struct tr_runner *r, tutti_comm *ranks, struct tr_error *e);
void tr_replicas_close(struct tr_replicas *s);

#endif
