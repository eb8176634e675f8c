/* SPDX-License-Identifier: BSD-3-Clause */
/* offload.h: a second memory, "host", takes what the device's memory has no room for. */
#ifndef TRAINING_PASSES_OFFLOAD_H
#define TRAINING_PASSES_OFFLOAD_H

#include "training/tape/tape.h"

/* What the host keeps of a parameter that this rank updates. */
void tr_offload_hold(struct tr_tape *t, struct tr_param_state *h);
/* The update on the host, with its copies. */
void tr_offload_update(struct tr_tape *t, struct tr_param_state *h);
/* A pass over the list: activations go down, and come up again. */
void tr_offload_activations(struct tr_tape *t);

#endif
