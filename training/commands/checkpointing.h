/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpointing.h: what a run does between its steps: it begins with a checkpoint, writes some, and ends
 * early if it is asked to. */
#ifndef TRAINING_COMMANDS_CHECKPOINTING_H
#define TRAINING_COMMANDS_CHECKPOINTING_H

#include "training/checkpoint/replicas.h"
#include "training/options.h"
#include "training/run/run.h"

struct tr_checkpointing {
    const struct tr_options *options;
    struct tr_runner *runner;
    tutti_comm *ranks; /* all ranks, beside the communicators of the steps; NULL: one rank */
    struct tr_replicas replicas;
};

/* Before ranks are there: whether --load fits the run, and --save can be written. */
bool tr_checkpointing_check(const struct tr_options *o, const struct tr_run *run, struct tr_error *e);
/* Collective over world (NULL: one rank). The runner has then the step of --load. */
bool tr_checkpointing_open(struct tr_checkpointing *k, const struct tr_options *o, struct tr_runner *r,
    tutti_comm *world, struct tr_error *e);
/* Writes --save, by all ranks. */
bool tr_checkpointing_save(struct tr_checkpointing *k, struct tr_error *e);
/* After each step, by all ranks. *stop: the run ends here. */
bool tr_checkpointing_after(struct tr_checkpointing *k, bool *stop, struct tr_error *e);
void tr_checkpointing_close(struct tr_checkpointing *k);

#endif
