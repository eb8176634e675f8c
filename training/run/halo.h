/* SPDX-License-Identifier: BSD-3-Clause */
/* halo.h: the exchange of halos, from the tape to the wire. An instruction has in `count` the elements of a
 * row of one picture, in `times` the pictures, and in `first` and `second` whether there is a rank before
 * this one and one behind. */
#ifndef TRAINING_RUN_HALO_H
#define TRAINING_RUN_HALO_H

#include "training/run/run.h"

bool tr_run_halo(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e);

#endif
