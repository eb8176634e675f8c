/* SPDX-License-Identifier: BSD-3-Clause */
/* serve.h: messages between workers and parameter servers. */
#ifndef TRAINING_TAPE_SERVE_H
#define TRAINING_TAPE_SERVE_H

#include "training/tape/run.h"

/* A push or a pull, on either side. */
bool tr_server_message(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e);

#endif
