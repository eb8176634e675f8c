/* SPDX-License-Identifier: BSD-3-Clause */
/* network.h: how long a call takes on a machine: messages one after the other, each with its latency, and
 * bytes by the rate of what they go over.
 *
 * Tutti's own predictions are of the machine that the process runs on, and a query takes no other. So this is
 * the closed form of what they come to where vectors are long: rings; and of a group on several hosts a ring
 * among those of each host, and then rings across, of each rank's part with its like of the other hosts, so
 * that all cards of a host are used. */
#ifndef TRAINING_ADVICE_NETWORK_H
#define TRAINING_ADVICE_NETWORK_H

#include "training/advice/machine.h"
#include "training/place/place.h"

/* How the ranks of a group lie: so many on a host, on so many hosts. */
struct tr_spread {
    int near, hosts;
};
struct tr_spread tr_spread_of(const struct tr_mesh *mesh, const struct tr_machine *m, int rank, int axes);
/* Of a message to the next stage. */
enum tr_reach tr_reach_of_stage(const struct tr_mesh *mesh, const struct tr_machine *m);

/* Seconds of one call of a collective on a vector of so many bytes: the whole one. */
double tr_call_seconds(const struct tr_machine *m, enum tr_code code, double bytes, struct tr_spread spread);
double tr_message_seconds(const struct tr_machine *m, double bytes, enum tr_reach reach);

#endif
