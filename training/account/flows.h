/* SPDX-License-Identifier: BSD-3-Clause */
/* flows.h: who sends to whom, by the tapes.
 *
 * A send names its receiver. Of a collective the tape knows what a rank must send at least and not by which
 * way: here it is shared out equally among the others of the group, but for a reduce and a broadcast, which
 * go along a chain. What one rank sends in all is what its ledger says. */
#ifndef TRAINING_ACCOUNT_FLOWS_H
#define TRAINING_ACCOUNT_FLOWS_H

#include "training/account/ledger.h"

/* Whether two ranks are in one group of these axes. */
bool tr_in_group(const struct tr_mesh *m, int a, int b, int axes);
/* The rank at the other end of an instruction's edge. */
int tr_peer_of(const struct tr_tape *t, const struct tr_instr *i);
/* Adds what this rank sends in a step to its row: of[from * n + to], of a mesh of n ranks. */
void tr_flows_add(double *of, const struct tr_tape *t);

#endif
