/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.h: the memory of a step: an arena on the device, and one on the host, each taken once. */
#ifndef TRAINING_RUN_ARENA_H
#define TRAINING_RUN_ARENA_H

#include "training/backend/backend.h"
#include "training/tape/tape.h"

struct tr_arenas {
    const struct tr_backend *b;
    struct tr_context *x;
    unsigned char *at[2]; /* on the device, and on the host: NULL where nothing is there */
};

/* As much as the tape says, poisoned, so that what is read before it is written shows as NaN. */
bool tr_arenas_take(struct tr_arenas *a, const struct tr_backend *b, struct tr_context *x,
    const struct tr_tape *t, struct tr_error *e);
void tr_arenas_release(struct tr_arenas *a);

/* Of one of them: so many bytes from `offset` on come to `to`, or become `byte`. */
void tr_arenas_read(const struct tr_arenas *a, bool host, int64_t offset, int64_t bytes, void *to);
void tr_arenas_clear(const struct tr_arenas *a, bool host, int64_t offset, int byte, int64_t bytes);

#endif
