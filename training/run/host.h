/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h: what the executor does in the second memory, "host", and between it and the device's. */
#ifndef TRAINING_RUN_HOST_H
#define TRAINING_RUN_HOST_H

#include "training/run/run.h"

/* TR_DOWN and TR_UP; each is counted. */
void tr_host_copy(struct tr_runner *r, const struct tr_instr *i);
/* The host's copies of parameters become what the device has: before the first step, and after a load. */
void tr_host_follow(struct tr_runner *r);

#endif
