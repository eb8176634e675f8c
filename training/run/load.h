/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h: the instruction that reads the data. */
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

#endif
