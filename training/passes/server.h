/* SPDX-License-Identifier: BSD-3-Clause */
/* server.h: parameter servers: what workers and servers do instead of reducing gradients and updating. */
#ifndef TRAINING_PASSES_SERVER_H
#define TRAINING_PASSES_SERVER_H

#include "training/tape/tape.h"

/* A worker's end of a step: its gradients go to the servers, and new values come from them. */
void tr_push(struct tr_tape *t);
void tr_pull(struct tr_tape *t);
/* Both, of an asynchronous worker, with the leaves of its loss and norm. */
void tr_exchange(struct tr_tape *t);
/* The whole tape of a server. */
struct tr_lowering;
void tr_lower_server(struct tr_lowering *l);

#endif
