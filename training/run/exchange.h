/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange.h: rows of tokens on their way to the ranks of their experts, and back.
 *
 * How many rows go where is what a router has decided in this step. The ranks of ep exchange their counts
 * first, as a value like any other; with those of the tokens that are here (Sb) and those of the experts that
 * are here (E), both sides of an all_to_all_v know what to send and what comes. Such values have room for the
 * most rows that there may be. What of it is used, the run notes, and only that is sent, looked at and
 * compared. */
#ifndef TRAINING_RUN_EXCHANGE_H
#define TRAINING_RUN_EXCHANGE_H

#include "training/run/run.h"

bool tr_run_exchange(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e);
/* What the run's counts say of the bytes is not known before: the prediction of a step begins without. */
void tr_exchange_begin(struct tr_ledger *predicted);
/* After an instruction: how many bytes of its results are used. */
void tr_note_used(struct tr_runner *r, const struct tr_instr *i);

#endif
