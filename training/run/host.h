/* SPDX-License-Identifier: BSD-3-Clause */
/* host.h: what the executor does in the second memory, "host", and between it and the device's; and how the
 * processor comes to the elements of values in either. */
#ifndef TRAINING_RUN_HOST_H
#define TRAINING_RUN_HOST_H

#include "training/run/run.h"

/* Of a value, `count` elements from `from` on, as they are stored: to the processor's array, or from there.
 * Who is no kernel reads and writes values in no other way. */
void tr_fetch(const struct tr_runner *r, int value, int64_t from, int64_t count, void *to);
void tr_store(const struct tr_runner *r, int value, int64_t from, int64_t count, const void *elements);
/* The same as numbers, of whatever element but tokens. */
void tr_fetch_numbers(const struct tr_runner *r, int value, int64_t from, int64_t count, double *to);

/* TR_DOWN and TR_UP; each is counted. */
void tr_host_copy(struct tr_runner *r, const struct tr_instr *i);
/* The host's copies of parameters become what the device has: before the first step, and after a load. */
void tr_host_follow(struct tr_runner *r);
/* The golden program's initial values of what this rank has of a parameter, its masters and its optimizer. */
void tr_initialise(struct tr_runner *r, const struct tr_param_state *h);

#endif
