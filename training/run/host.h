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

/* TR_DOWN and TR_UP; each is counted. On a device they have a stream of their own, beside the list; in an
 * audited step they are in its order. */
void tr_host_copy(struct tr_runner *r, const struct tr_instr *i);
bool tr_copies_open(struct tr_runner *r, struct tr_error *e);
void tr_copies_close(struct tr_runner *r);
/* Around each instruction: what waits for copies, and what these wait for. */
void tr_copies_before(struct tr_runner *r, int n);
void tr_copies_after(struct tr_runner *r, int n);
/* The instruction is the processor's: it waits until the copies are over whose places it uses. */
void tr_copies_wait(struct tr_runner *r, const struct tr_instr *i);
/* The host's copies of parameters become what the device has: before the first step, and after a load. */
void tr_host_follow(struct tr_runner *r);
/* The golden program's initial values of what this rank has of a parameter, its masters and its optimizer. */
void tr_initialise(struct tr_runner *r, const struct tr_param_state *h);

#endif
