/* SPDX-License-Identifier: BSD-3-Clause */
/* backend.h: where values lie: whose memory it is, how bytes come into it and out of it, and what waits for
 * what was begun there.
 *
 * A set of kernels says whose memory its kernels work in. For the processor that is the host's, where all is
 * over as soon as it returns. On a device, what is begun in a context is done in that order, later; only sync
 * waits for it, and so does `copy`. A failure stays in the context, as that of a kernel does. */
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
    /* Another thread of this process will use the streams of a context, in a copy of it with a status of its
     * own. NULL: any may. */
    void (*enter)(struct tr_context *x);
    /* Aligned to 64 bytes; NULL: there is not so much. on_host: the host's memory, from which this back end
     * copies fast. */
    void *(*alloc)(struct tr_context *x, int64_t bytes, bool on_host);
    void (*release)(struct tr_context *x, void *memory, bool on_host);
    /* Between any two places of either memory. It is over when this returns. */
    void (*copy)(struct tr_context *x, void *to, const void *from, int64_t bytes);
    /* The same between memory of this back end, on one of its streams: what is read must lie still until it
     * is over. */
    void (*copy_later)(struct tr_context *x, tutti_stream on, void *to, const void *from, int64_t bytes);
    void (*clear)(struct tr_context *x, void *to, int byte, int64_t bytes); /* all bytes become this one */
    void (*sync)(struct tr_context *x); /* until all that was begun in the context's order is over */

    /* Streams for calls of Tutti and for copies: that of the context, on which they are in one order with its
     * kernels; and others, which are beside it. */
    tutti_stream (*stream)(struct tr_context *x);
    bool (*make_stream)(struct tr_context *x, tutti_stream *made, struct tr_error *e);
    void (*end_stream)(struct tr_context *x, tutti_stream stream);
    /* What was given to a stream so far; and what comes on `later` from now on waits for that of `earlier`.
     * What failed before such a point is told, if it is known by then. */
    tutti_status (*record)(struct tr_context *x, tutti_stream stream, uint64_t *point);
    tutti_status (*after)(struct tr_context *x, tutti_stream later, tutti_stream earlier, uint64_t point);
    tutti_status (*wait)(struct tr_context *x, tutti_stream earlier, uint64_t point); /* the processor does */

    /* A graph: what is begun between `keep` and `kept`, on any stream, is not done, but kept, and each replay
     * begins all of it, behind what the context's own stream has. What comes later waits for it there. NULL:
     * this back end keeps nothing; kept: it failed. */
    bool (*keep)(struct tr_context *x, struct tr_error *e);
    void *(*kept)(struct tr_context *x, struct tr_error *e);
    void (*replay)(struct tr_context *x, void *graph);
    void (*drop)(struct tr_context *x, void *graph);

    /* Times by a clock of its own; NULL: things are over when they return, and the processor's tells. A mark
     * is when what was given to the stream so far is over. `times` waits for all that were set since the last
     * time, and gives each in ns after mark 0, which was one of them; -1: it was not set. */
    bool (*make_marks)(struct tr_context *x, int marks, struct tr_error *e);
    void (*mark)(struct tr_context *x, int mark, tutti_stream on);
    bool (*times)(struct tr_context *x, int64_t *ns, struct tr_error *e);

    /* For profilers: what is begun up to the end of as many ranges is what this one does, of what it names.
     * NULL: nobody sees them. */
    void (*begin_range)(struct tr_context *x, const char *does, const char *name);
    void (*end_range)(struct tr_context *x);
};

extern const struct tr_backend tr_backend_host;
/* That of a set of kernels. */
const struct tr_backend *tr_backend_of(const struct tr_kernels *k);

#endif
