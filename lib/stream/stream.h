/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.h: calls that run later, in order, on the thread of a stream.
 *
 * An item is what starts together: one call, a group, a start of a program. It stands in the queue of one
 * stream; each other stream of a group gets a follower, which runs nothing and ends when the item does. A
 * stream and the number of an item in it are a ticket, which others wait for.
 *
 * One communicator's calls form one order, that of the calls: each communicator remembers the ticket of the
 * last item that has a call on it, and the next one waits for that. All items are queued under one lock,
 * and an item waits only for items that were queued before it; so waits never form a circle, however
 * streams, communicators and groups cross.
 *
 * Items are pooled and keep their memory, so that calls of one kind, repeated, allocate nothing. Streams
 * are pooled, too, and their numbers go on when they are used again: a ticket stays valid for ever. */
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

struct tt_item {
    struct tt_batch own; /* calls of its own, or none */
    struct tt_batch *batch; /* what runs: `own`, or the calls of a program, which may be queued again */
    struct tt_report *report; /* written before the item is over; NULL: nobody asks */
    struct tt_item **home; /* the list of idle items that it goes back to */

    /* The streams' own. */
    struct tt_item *next; /* in the queue, or among the idle */
    struct tt_item *followers, *next_follower;
    struct tt_stream *stream;
    struct tt_ticket *waits;
    int nwaits, room;
    struct tt_entry **entries; /* of a program's calls, this time */
    int entry_room;
    uint64_t number;
    struct tt_report outcome;
};

/* What the worker of a stream does beside its items. */
struct tt_aside {
    bool (*serve)(void *context); /* do what is there to do now; false: nothing. While no item runs */
    bool (*may_begin)(void *context, const struct tt_batch *next);
    void *context;
};

/* With a worker of its own, which has this to do aside, or NULL. The second makes the handle as well. */
tutti_status tt_stream_open(const struct tt_aside *aside, struct tt_stream **stream);
tutti_status tt_stream_make(const struct tt_aside *aside, tutti_stream *stream);
/* Waits for what is queued, and ends the stream. */
void tt_stream_close(struct tt_stream *stream);
/* The same of a stream that tt_stream_make made; its handle is dead from then on. */
tutti_status tt_stream_unmake(tutti_stream stream);
/* There is something to serve: from any thread, also when the stream is closed. */
void tt_stream_wake(struct tt_stream *stream);
/* Numbers of items: how many were queued so far; and how those up to `number`, which are over, ended: the
 * first failure, else TUTTI_OK. */
uint64_t tt_stream_last(const struct tt_stream *stream);
tutti_status tt_stream_outcome(const struct tt_stream *stream, uint64_t number);
bool tt_ticket_over(struct tt_ticket ticket);

/* An empty item: the first of `idle`, else one from the pool. NULL, with the last error set: no memory. */
struct tt_item *tt_item_take(struct tt_item **idle);
/* `count` items in `idle`, with room for so many calls of a program on so many streams. */
tutti_status tt_item_reserve(struct tt_item **idle, int count, int calls);
void tt_item_free_all(struct tt_item **idle);
/* One more call of its own. */
tutti_status tt_item_add(struct tt_item *item, const struct tt_call *call);
/* Give it back; calls that have not run never will. */
void tt_item_drop(struct tt_item *item);

/* Queue the item on the streams of its calls; those without a stream go with the others. It belongs to the
 * queue from then on; after an error, which says why, it is still the caller's. */
tutti_status tt_item_submit(struct tt_item *item, struct tt_ticket *ticket);
/* Queue an item without calls on this stream; it waits for `earlier`. */
tutti_status tt_item_submit_after(struct tt_item *item, tutti_stream stream, struct tt_ticket earlier);

/* True when the item is over, false if it is not when the time has passed (-1: never). */
bool tt_ticket_wait(struct tt_ticket ticket, int64_t timeout_ms);

/* Until the item is over; this communicator's on_wait is run meanwhile. */
void tt_ticket_await(struct tt_ticket ticket, struct tt_comm *comm);

/* The stream of a handle; NULL with the last error set, *status says which: it is none, or of a kind that
 * this library does not have. `name` is the caller's. */
struct tt_stream *tt_stream_find(const char *name, tutti_stream handle, tutti_status *status);

#endif
