/* SPDX-License-Identifier: BSD-3-Clause */
/* gradients.h: the gradients of a step, in a file that other programs read. */
#ifndef TRAINING_WEIGHTS_GRADIENTS_H
#define TRAINING_WEIGHTS_GRADIENTS_H

#include "training/run/run.h"

/* Of the last step, before they were clipped, as safetensors, with the names and layouts that export gives
 * the parameters. Collective over `ranks` (NULL: one rank). The file has its name when it is whole. */
bool tr_gradients_write(const struct tr_runner *r, const char *path, tutti_comm *ranks, struct tr_error *e);
/* Whether they outlive the updates of a run of this plan. */
bool tr_gradients_last(const struct tr_plan *p, struct tr_error *e);

#endif
