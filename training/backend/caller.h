/* SPDX-License-Identifier: BSD-3-Clause */
/* caller.h: a thread that makes calls one after the other, for a rank that is not to wait for them. */
#ifndef TRAINING_BACKEND_CALLER_H
#define TRAINING_BACKEND_CALLER_H

#include "training/error.h"

#include <stdint.h>

struct tr_caller;

/* Calls have `bytes` each of what they are made of; `begin` is called first, on the thread. */
struct tr_caller *tr_caller_start(void (*begin)(void *context), void (*call)(void *context, void *what),
    void *context, int64_t bytes, struct tr_error *e);
/* What is copied. Returns the call's number, from 1 on. It waits only if very many are to be made. */
uint64_t tr_caller_give(struct tr_caller *c, const void *what);
/* Until the call of this number, and those before, have been made. */
void tr_caller_wait(struct tr_caller *c, uint64_t number);
/* When all are made. NULL: there is none. */
void tr_caller_stop(struct tr_caller *c);

#endif
