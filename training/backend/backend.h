/* SPDX-License-Identifier: BSD-3-Clause */
/* backend.h: where values lie: whose memory it is, how bytes come into it and out of it, and what waits for
 * what was begun there.
 *
 * A set of kernels says whose memory its kernels work in. For the processor that is the host's, where all is
 * over as soon as it returns. On a device, what is begun in a context is done in that order, later; only sync
 * waits for it, and so does a copy to the host's memory. A failure stays in the context, as that of a kernel
 * does. */
#ifndef TRAINING_BACKEND_BACKEND_H
#define TRAINING_BACKEND_BACKEND_H

#include "lib/tutti.h"
#include "training/error.h"
#include "training/kernels/kernels.h"

struct tr_backend {
    const char *name;
    bool apart; /* the processor can neither read nor write this memory */
    /* What the context's `self` needs; and its end. */
    bool (*open)(struct tr_context *x, struct tr_error *e);
    void (*close)(struct tr_context *x);
    /* Aligned to 64 bytes; NULL: there is not so much. on_host: the host's memory, from which this back end
     * copies fast. */
    void *(*alloc)(struct tr_context *x, int64_t bytes, bool on_host);
    void (*release)(struct tr_context *x, void *memory, bool on_host);
    /* Between any two places of either memory. What comes from the host's is read, and what goes there is
     * there, when this returns. */
    void (*copy)(struct tr_context *x, void *to, const void *from, int64_t bytes);
    void (*clear)(struct tr_context *x, void *to, int byte, int64_t bytes); /* all bytes become this one */
    /* What was begun so far; and what `stream` does from now on waits for that. */
    uint64_t (*record)(struct tr_context *x);
    void (*after)(struct tr_context *x, tutti_stream stream, uint64_t point);
    void (*sync)(struct tr_context *x); /* until all is over */
};

extern const struct tr_backend tr_backend_host;
/* That of a set of kernels. */
const struct tr_backend *tr_backend_of(const struct tr_kernels *k);

#endif
