/* SPDX-License-Identifier: BSD-3-Clause */
/* stream_queue.c: work items, and their positions in the queues of the streams. */
#include <pthread.h>
#include <stdlib.h>

#include "run/comm.h"
#include "observe/recorder.h"
#include "stream/stream_internal.h"

static struct { /* behind the lock */
    struct tt_work_item *idle;
    uint64_t last_mark;
} items;

/* --- Items */

struct tt_work_item *tt_work_item_pop(struct tt_work_item **idle)
{
    struct tt_work_item *item = *idle;
    if (item != NULL)
        *idle = item->next;
    return item;
}

static struct tt_work_item *make(struct tt_work_item **home)
{
    struct tt_work_item *item = calloc(1, sizeof *item);
    if (item == NULL) {
        tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to queue a call");
        return NULL;
    }
    item->home = home;
    item->batch = &item->own;
    return item;
}

static struct tt_work_item *take(struct tt_work_item **idle)
{
    struct tt_work_item *item = idle != NULL ? tt_work_item_pop(idle) : NULL;
    if (item == NULL)
        item = tt_work_item_pop(&items.idle);
    return item != NULL ? item : make(&items.idle);
}

void tt_work_item_give(struct tt_work_item *item)
{
    item->own.count = 0;
    item->batch = &item->own;
    item->report = NULL;
    item->stream = NULL;
    item->placeholders = NULL;
    item->nwaits = 0;
    item->outcome.status = TUTTI_OK;
    item->next = *item->home;
    *item->home = item;
}

struct tt_work_item *tt_work_item_take(struct tt_work_item **idle)
{
    pthread_mutex_lock(&tt_streams_lock);
    struct tt_work_item *item = take(idle);
    pthread_mutex_unlock(&tt_streams_lock);
    return item;
}

tutti_status tt_work_item_add(struct tt_work_item *item, const struct tt_call *call)
{
    struct tt_batch *own = &item->own;
    tutti_status status = tt_batch_add(own, call);
    if (status == TUTTI_OK && call->stream.kind != TUTTI_STREAM_CUDA) /* that becomes another item's */
        own->calls[own->count - 1].call.entry = tt_recorder_queue(call->comm->recorder, call);
    return status;
}

void tt_work_item_forget(struct tt_work_item *item)
{
    for (int i = 0; i < item->batch->count; i++)
        if (item->batch->calls[i].op == NULL && item->batch->calls[i].call.entry != NULL)
            tt_entry_drop(item->batch->calls[i].call.entry);
}

void tt_work_item_drop(struct tt_work_item *item)
{
    if (item->batch == &item->own)
        tt_work_item_forget(item);
    pthread_mutex_lock(&tt_streams_lock);
    tt_work_item_give(item);
    pthread_mutex_unlock(&tt_streams_lock);
}

static tutti_status reserve_entries(struct tt_work_item *item, int calls)
{
    if (calls <= item->entry_room)
        return TUTTI_OK;
    struct tt_entry **more = realloc(item->entries, (size_t)calls * sizeof *more);
    if (more == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to queue a program");
    item->entries = more;
    item->entry_room = calls;
    return TUTTI_OK;
}

static tutti_status reserve_waits(struct tt_work_item *item, int waits)
{
    if (waits <= item->room)
        return TUTTI_OK;
    struct tt_position *more = realloc(item->waits, (size_t)waits * sizeof *more);
    if (more == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to queue a call");
    item->waits = more;
    item->room = waits;
    return TUTTI_OK;
}

tutti_status tt_work_item_reserve(struct tt_work_item **idle, int count, int calls)
{
    for (int i = 0; i < count; i++) {
        struct tt_work_item *item = make(idle);
        if (item == NULL)
            return TUTTI_OUT_OF_MEMORY;
        tt_work_item_give(item);
        tutti_status status = reserve_waits(item, calls + count);
        if (status == TUTTI_OK)
            status = reserve_entries(item, calls);
        if (status != TUTTI_OK)
            return status;
    }
    return TUTTI_OK;
}

void tt_work_item_free_all(struct tt_work_item **idle)
{
    for (struct tt_work_item *item; (item = tt_work_item_pop(idle)) != NULL; free(item)) {
        tt_batch_free(&item->own);
        free(item->waits);
        free(item->entries);
    }
}
/* --- Queueing. All behind the lock. */

/* Finds the streams of an item: the first one gets the item, each other one a placeholder. Only this part
 * of queueing can fail. */
static tutti_status find_streams(struct tt_work_item *item)
{
    uint64_t mark = ++items.last_mark;
    int count = item->batch->count, placeholders = 0;
    for (int i = 0; i < count; i++) {
        const struct tt_call *call = &item->batch->calls[i].call;
        tutti_status status;
        if (call->stream.kind == TUTTI_STREAM_NONE)
            continue;
        struct tt_stream *s = tt_stream_find(tt_collectives[call->collective].name, call->stream, &status);
        if (s == NULL)
            return status;
        if (s->mark == mark)
            continue;
        s->mark = mark;
        if (item->stream == NULL) {
            item->stream = s;
            continue;
        }
        struct tt_work_item *placeholder = take(item->home);
        if (placeholder == NULL || reserve_waits(placeholder, 1) != TUTTI_OK)
            return TUTTI_OUT_OF_MEMORY;
        placeholder->stream = s;
        placeholder->next_placeholder = item->placeholders;
        item->placeholders = placeholder;
        placeholders++;
    }
    tutti_status status = reserve_waits(item, count + placeholders);
    return status == TUTTI_OK && item->batch != &item->own ? reserve_entries(item, count) : status;
}

static void wait_for(struct tt_work_item *item, struct tt_position p)
{
    if (p.stream != item->stream && !tt_position_passed(p))
        item->waits[item->nwaits++] = p;
}
/* Queues the item behind the last call of each of its communicators. */
static void take_turns(struct tt_work_item *item)
{
    struct tt_position mine = { item->stream, item->number };
    for (int i = 0; i < item->batch->count; i++) {
        const struct tt_call *call = &item->batch->calls[i].call;
        struct tt_comm *comm = call->comm;
        tt_refusals_drop(comm);
        if (item->batch != &item->own)
            item->entries[i] = tt_recorder_queue(comm->recorder, call);
        if (comm->streams.last.stream != mine.stream || comm->streams.last.number != mine.number) {
            wait_for(item, comm->streams.last);
            comm->streams.last = mine;
        }
        atomic_fetch_add_explicit(&comm->streams.queued, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&comm->streams.elsewhere, call->staging == NULL, memory_order_relaxed);
    }
}

static void append(struct tt_work_item *item)
{
    struct tt_stream *s = item->stream;
    item->next = NULL;
    *s->end = item;
    s->end = &item->next;
    atomic_store_explicit(&s->last, item->number, memory_order_release);
}

static void number(struct tt_work_item *item)
{
    item->number = atomic_load_explicit(&item->stream->last, memory_order_relaxed) + 1;
}

static void line_up(struct tt_work_item *item)
{
    number(item);
    take_turns(item);
    for (struct tt_work_item *p = item->placeholders; p != NULL; p = p->next_placeholder) {
        number(p);
        wait_for(item, (struct tt_position){ p->stream, p->number - 1 });
        p->waits[p->nwaits++] = (struct tt_position){ item->stream, item->number };
        append(p);
        tt_doorbell_ring(&p->stream->fed);
    }
    append(item);
}

static void dissolve(struct tt_work_item *item)
{
    while (item->placeholders != NULL) {
        struct tt_work_item *placeholder = item->placeholders;
        item->placeholders = placeholder->next_placeholder;
        tt_work_item_give(placeholder);
    }
    item->stream = NULL;
}

tutti_status tt_work_item_submit(struct tt_work_item *item, struct tt_position *position)
{
    pthread_mutex_lock(&tt_streams_lock);
    tutti_status status = find_streams(item);
    if (status == TUTTI_OK) {
        line_up(item);
        *position = (struct tt_position){ item->stream, item->number };
    } else {
        dissolve(item);
    }
    pthread_mutex_unlock(&tt_streams_lock);
    if (status == TUTTI_OK)
        tt_doorbell_ring(&position->stream->fed);
    return status;
}

tutti_status tt_work_item_submit_after(
    struct tt_work_item *item, tutti_stream stream, struct tt_position earlier)
{
    tutti_status status = reserve_waits(item, 1);
    if (status != TUTTI_OK)
        return status;
    pthread_mutex_lock(&tt_streams_lock);
    struct tt_stream *s = item->stream = tt_stream_find("stream_after", stream, &status);
    if (s != NULL) {
        number(item);
        wait_for(item, earlier);
        append(item);
    }
    pthread_mutex_unlock(&tt_streams_lock);
    if (s == NULL)
        return status;
    tt_doorbell_ring(&s->fed);
    return TUTTI_OK;
}
