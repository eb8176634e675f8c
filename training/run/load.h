/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h: the instructions that read the data, and give what the model says of it. */
#ifndef TRAINING_RUN_LOAD_H
#define TRAINING_RUN_LOAD_H

#include "training/run/run.h"

/* Begins to write the inputs or the targets of a micro-batch, as far as this rank has them, to the value
 * i->out[0]. The next loads use other places of the runner's `staged`. */
void tr_run_load(struct tr_runner *r, const struct tr_instr *i);
/* The same without the copy from there, which a graph does. */
void *tr_stage_load(struct tr_runner *r, const struct tr_instr *i);
/* What it takes of that. */
int64_t tr_staged_bytes(const struct tr_tape *t, const struct tr_instr *i);
/* Copies the scores behind the token that the runner asks for, as far as they are here, to where it wants
 * them: each column to its place in the vocabulary. */
void tr_run_scores(struct tr_runner *r, const struct tr_instr *i);

#endif
