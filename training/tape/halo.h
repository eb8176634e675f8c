/* SPDX-License-Identifier: BSD-3-Clause */
/* halo.h: the exchange of halos, from the tape to the wire. An instruction has in `count` the elements of a
 * row of one picture, in `times` the pictures, and in `first` and `second` whether there is a rank before
 * this one and one behind. */
#ifndef TRAINING_TAPE_HALO_H
#define TRAINING_TAPE_HALO_H

#include "training/tape/checking.h"
#include "training/tape/run.h"

void tr_lower_halo(const struct tr_tape *t, struct tr_instr *i, enum tr_axis axis);
bool tr_check_halo(const struct tr_checking *c, int n, enum tr_axis axis, struct tr_error *e);
bool tr_run_halo(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e);

#endif
