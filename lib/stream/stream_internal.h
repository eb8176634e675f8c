/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_internal.h: what the files of the streams share: what a stream is. */
#ifndef TT_STREAM_INTERNAL_H
#define TT_STREAM_INTERNAL_H
#include <pthread.h>

#include "base/wait.h"
#include "stream/stream.h"

struct tt_stream {
    struct tt_doorbell fed; /* its worker sleeps here */
    struct tt_doorbell moved; /* and here who waits for its items */
    _Atomic uint64_t last, done; /* numbers of items: queued, over */
    _Atomic uint64_t failed; /* the first item that did not end well; 0: none */
    struct tt_report failure; /* of that */
    _Atomic bool leaving; /* closed: the worker ends when its queue is empty */
    const struct tt_aside *aside; /* NULL: nothing */
    bool lost; /* its worker is in the process that forked this one */
    struct tt_wait_policy policy;
    pthread_t worker;

    /* Behind the lock. */
    struct tt_item *first, **end;
    uint64_t mark; /* of the last group that was queued here */
    struct tt_stream *next_spare, *next_made;
};

/* The first of a list; NULL: there is none. */
struct tt_item *tt_item_pop(struct tt_item **list);
/* An item that has run, or never will, goes back to its home. */
void tt_item_give(struct tt_item *item);
/* The recorder does not wait for calls that will not run. Without the lock. */
void tt_item_forget(struct tt_item *item);

#endif
