/* SPDX-License-Identifier: BSD-3-Clause */
/* traffic.h: the ledger against what Tutti itself tells, group by group. */
#ifndef TRAINING_RUN_TRAFFIC_H
#define TRAINING_RUN_TRAFFIC_H

#include "training/run/run.h"

/* The groups of a mesh by mask, and its pipeline edges behind them. */
enum { TR_TRAFFICS = TR_WORLD + TR_EDGES };

struct tr_traffic {
    int64_t calls[TR_TRAFFICS], called[TR_TRAFFICS], sent[TR_TRAFFICS], received[TR_TRAFFICS];
};

/* Fills in the bytes on the wire of the runner's prediction. Its groups are there, and nothing was sent. */
bool tr_traffic_foresee(struct tr_ledger *predicted, const struct tr_runner *r, struct tr_error *e);

/* What this rank's communicators have done so far. */
bool tr_traffic_read(struct tr_traffic *to, const struct tr_groups *g, struct tr_error *e);
/* After a step that began with `before`: calls, the bytes that they were called with, and those on the wire
 * must be as predicted. */
bool tr_traffic_equal(const struct tr_traffic *before, const struct tr_groups *g,
    const struct tr_ledger *predicted, int rank, struct tr_error *e);

#endif
