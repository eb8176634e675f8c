/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.h: calls that run later, in order, on the thread of a stream.
 *
 * A work item is what starts together: one call, a group, a start of a program. It stands in the queue of
 * one stream. Each other stream of a group gets a placeholder, a work item that runs nothing and ends when
 * the group's does. A stream and the number of a work item in it are a position, and others can wait until
 * it is passed.
 *
 * The calls of one communicator run in the order in which they were made: the communicator remembers the
 * position of the last work item that has a call on it, and the next one waits for that. All items are
 * queued under one lock, and an item waits only for items that were queued before it. So waits never form
 * a circle, however streams, communicators and groups cross.
 *
 * Items are pooled and keep their memory, so that calls of one kind, repeated, allocate nothing. Streams
 * are pooled, too, and their numbers go on when they are used again, so a position stays valid for ever. */
#ifndef TT_STREAM_H
#define TT_STREAM_H
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "run/run.h"

struct tt_stream;

struct tt_report { /* how an item ended */
    tutti_status status;
    char text[TT_ERROR_TEXT];
};

struct tt_work_item {
    struct tt_batch own; /* calls of its own, or none */
    struct tt_batch *batch; /* what runs: `own`, or the calls of a program, which may be queued again */
    struct tt_report *report; /* written before the item is over; NULL: nobody asks */
    struct tt_work_item **home; /* the list of idle items to which it goes back */

    /* For the files of this room. */
    struct tt_work_item *next; /* in the queue, or in the list of idle items */
    struct tt_work_item *placeholders, *next_placeholder;
    struct tt_stream *stream;
    struct tt_position *waits;
    int nwaits, room;
    struct tt_entry **entries; /* the recorder's, of a program's calls, for this start */
    int entry_room;
    uint64_t number;
    struct tt_report outcome;
};

/* A hook for the worker of a stream while it has no item to run. */
struct tt_idle_hook {
    bool (*serve)(void *context); /* does what there is to do now; false: nothing */
    bool (*looks)(void *context); /* there may be something to serve, and no bell rings for it */
    bool (*may_begin)(void *context, const struct tt_batch *next); /* the worker waits until it may */
    void *context;
};

/* Opens a stream with a worker of its own, which calls the hook while it is idle (NULL: there is no hook).
 * tt_stream_make makes a handle, too. */
tutti_status tt_stream_open(const struct tt_idle_hook *idle_hook, struct tt_stream **stream);
tutti_status tt_stream_make(const struct tt_idle_hook *idle_hook, tutti_stream *stream);
/* Waits until all that is queued is over, and ends the stream. */
void tt_stream_close(struct tt_stream *stream);
/* Closes a stream that tt_stream_make made. Its handle is dead from the beginning of this call. */
tutti_status tt_stream_unmake(tutti_stream stream);
/* Wakes the worker, since the hook looks from now on. Any thread may call this. */
void tt_stream_wake(struct tt_stream *stream);
/* Returns the number of the last item that was queued. */
uint64_t tt_stream_last(const struct tt_stream *stream);
/* Returns how the items up to `number`, which are over, ended: the first failure, else TUTTI_OK. */
tutti_status tt_stream_outcome(const struct tt_stream *stream, uint64_t number);
/* True if the item at this position is over. */
bool tt_position_passed(struct tt_position position);

/* Takes an empty item: the first of `idle`, else one of the pool. NULL, with the last error set: no
 * memory. */
struct tt_work_item *tt_work_item_take(struct tt_work_item **idle);
/* Adds `count` items to `idle`, each with room for `calls` calls of a program on so many streams. */
tutti_status tt_work_item_reserve(struct tt_work_item **idle, int count, int calls);
void tt_work_item_free_all(struct tt_work_item **idle);
/* Adds a call to the item itself. */
tutti_status tt_work_item_add(struct tt_work_item *item, const struct tt_call *call);
/* Gives the item back. Its calls, if they have not run, never will. */
void tt_work_item_drop(struct tt_work_item *item);

/* Queues the item on the streams of its calls; calls without a stream go with the others. *position is
 * what others wait for. The item belongs to the queue from then on; after an error, which says why, it is
 * still the caller's. */
tutti_status tt_work_item_submit(struct tt_work_item *item, struct tt_position *position);
/* Queues an item without calls on this stream; it waits until `earlier` is passed. */
tutti_status tt_work_item_submit_after(
    struct tt_work_item *item, tutti_stream stream, struct tt_position earlier);

/* Waits until the position is passed, which is true; false if the time has passed first (-1: never). */
bool tt_position_wait(struct tt_position position, int64_t timeout_ms);

/* Waits likewise, and runs this communicator's on_wait meanwhile. */
bool tt_position_await(struct tt_position position, struct tt_comm *comm, int64_t timeout_ms);

/* Returns the stream of a handle. NULL, with the last error set, if the handle is none, or of a kind that
 * this library does not have; *status says which. `name` is the caller's, for the error. */
struct tt_stream *tt_stream_find(const char *name, tutti_stream handle, tutti_status *status);

#endif
