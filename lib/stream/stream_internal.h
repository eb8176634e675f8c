/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_internal.h: the stream itself, for the files of this room. */
#ifndef TT_STREAM_INTERNAL_H
#define TT_STREAM_INTERNAL_H
#include <pthread.h>

#include "base/wait.h"
#include "stream/stream.h"

struct tt_stream {
    struct tt_doorbell fed; /* the worker sleeps here */
    struct tt_doorbell moved; /* threads that wait for a position sleep here */
    _Atomic uint64_t last, done; /* the numbers of the last item that was queued, and that is over */
    _Atomic uint64_t failed; /* the first item that did not end well; 0: none */
    struct tt_report failure; /* how that one ended */
    _Atomic bool leaving; /* closed: the worker ends when its queue is empty */
    const struct tt_idle_hook *idle_hook; /* NULL: there is none */
    bool lost; /* the worker is in the process that forked this one */
    struct tt_wait_policy policy;
    pthread_t worker;

    /* Behind the lock. */
    struct tt_work_item *first, **end;
    uint64_t mark; /* the mark of the last group that was queued here */
    struct tt_stream *next_spare, *next_made;
};

/* Takes the first item off a list; NULL: the list is empty. */
struct tt_work_item *tt_work_item_pop(struct tt_work_item **list);
/* Puts an item that has run, or never will, back into the list that is its home. */
void tt_work_item_give(struct tt_work_item *item);
/* Tells the recorder that calls of this item that have not run will not. Without the lock. */
void tt_work_item_forget(struct tt_work_item *item);

#endif
