/* SPDX-License-Identifier: BSD-3-Clause */
/* measure_layers.h: `--balance measured`: layers are cut by the times that they take on this machine. */
#ifndef TRAINING_COMMANDS_MEASURE_LAYERS_H
#define TRAINING_COMMANDS_MEASURE_LAYERS_H

#include "training/options.h"

/* If it is asked for, runs the model on one rank for a few steps, and puts what follows from the times into
 * `stage_layers`, so that all ranks have it, and other runs can. Says what it found on stdout, unless the
 * options want no such lines. */
bool tr_warm_up(struct tr_options *o, struct tr_error *e);

#endif
