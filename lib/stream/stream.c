/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.c: host streams: their workers, how they begin and end, and the waits for positions in them. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/thread.h"
#include "base/handle.h"
#include "stream/stream_internal.h"

static struct {
    struct tt_stream *spare, *made; /* not in use; all */
    int open;
} streams;

/* --- Positions */

bool tt_position_passed(struct tt_position p)
{
    return p.stream == NULL || atomic_load_explicit(&p.stream->done, memory_order_acquire) >= p.number;
}

bool tt_position_wait(struct tt_position p, int64_t timeout_ms)
{
    struct tt_wait w;
    if (tt_position_passed(p) || p.stream->lost)
        return true;
    struct tt_doorbell *bell = &p.stream->moved;
    int64_t deadline_ns = tt_deadline_ns(timeout_ms);
    bool over = false;
    tt_wait_begin(&w, p.stream->policy, &bell, 1);
    tt_wait_until(&w, deadline_ns);
    while (!over && (timeout_ms < 0 || tt_now_ns() < deadline_ns)) {
        tt_wait_idle(&w);
        over = tt_position_passed(p);
    }
    if (!over)
        tt_doorbell_ring_always(bell); /* this wait ends for another reason than a ring */
    tt_wait_awake(&w);
    return over;
}

bool tt_position_await(struct tt_position p, struct tt_comm *comm, int64_t timeout_ms)
{
    enum { SERVE_MS = 10 };
    bool serves = comm->waiting.on_wait != NULL;
    int64_t until_ns = tt_deadline_ns(timeout_ms), left_ms = tt_left_ms(until_ns);
    while (!tt_position_wait(p, serves && (left_ms < 0 || left_ms > SERVE_MS) ? SERVE_MS : left_ms)) {
        left_ms = tt_left_ms(until_ns);
        if (left_ms == 0)
            return false;
        serves = serves && tt_comm_serve(comm) == TUTTI_OK;
    }
    return true;
}

/* --- The worker */

static void fail_item(struct tt_work_item *item, tutti_status status)
{
    if (item->outcome.status != TUTTI_OK)
        return;
    item->outcome.status = status;
    snprintf(item->outcome.text, sizeof item->outcome.text, "%s", tt_last_error());
}

/* Serves the hook, or idles. */
static void idle(struct tt_stream *s, struct tt_wait *w)
{
    if (s->idle_hook != NULL && s->idle_hook->serve(s->idle_hook->context))
        tt_wait_awake(w);
    else
        tt_wait_idle(w);
}

/* Whether there is anything for the hook to look for. That may change while it waits, and the bell rings. */
static void look(const struct tt_stream *s, struct tt_wait *w)
{
    if (s->idle_hook != NULL && tt_wait_is_long(w))
        tt_wait_look(w, s->idle_hook->looks(s->idle_hook->context));
}

/* Waits until the hook lets the item begin. That it may, a device's word tells, for which nobody rings, or
 * the end of the last graph that it waited for. */
static void await_turn(struct tt_stream *s, const struct tt_work_item *item)
{
    struct tt_doorbell *bell = &s->fed;
    struct tt_wait w;
    if (s->idle_hook == NULL)
        return;
    tt_wait_begin(&w, s->policy, &bell, 1);
    tt_wait_look(&w, true);
    while (!s->idle_hook->may_begin(s->idle_hook->context, item->batch))
        idle(s, &w);
    tt_wait_awake(&w);
}

/* Waits for the next item. NULL: the stream is closed, and its queue is empty. */
static struct tt_work_item *next_item(struct tt_stream *s)
{
    struct tt_doorbell *bell = &s->fed;
    uint64_t done = atomic_load_explicit(&s->done, memory_order_relaxed);
    struct tt_wait w;
    tt_wait_begin(&w, s->policy, &bell, 1);
    while (atomic_load_explicit(&s->last, memory_order_acquire) == done &&
           !atomic_load_explicit(&s->leaving, memory_order_acquire)) {
        look(s, &w);
        idle(s, &w);
    }
    tt_wait_awake(&w);
    pthread_mutex_lock(&tt_streams_lock);
    struct tt_work_item *item = tt_work_item_pop(&s->first);
    if (s->first == NULL)
        s->end = &s->first;
    pthread_mutex_unlock(&tt_streams_lock);
    return item;
}

/* Prepares the calls of an item to run. A call on a communicator that has ended is over at once: who
 * destroyed the communicator has its buffers back. */
static void begin(struct tt_work_item *item)
{
    pthread_mutex_lock(&tt_streams_lock);
    for (int i = 0; i < item->batch->count; i++) {
        struct tt_pending *p = &item->batch->calls[i];
        tutti_status status = tt_comm_check(p->call.comm);
        if (item->batch != &item->own)
            p->call.entry = item->entries[i];
        tt_pending_renew(p);
        p->over = status != TUTTI_OK;
        if (status != TUTTI_OK)
            fail_item(item, status);
        else
            p->call.comm->streams.now = (struct tt_position){ item->stream, item->number };
    }
    pthread_mutex_unlock(&tt_streams_lock);
}

static void run(struct tt_work_item *item)
{
    if (item->batch->count == 0)
        return;
    tutti_status status = tt_run_on_worker(item->batch->calls, item->batch->count);
    if (status != TUTTI_OK)
        fail_item(item, status);
}

static void let_go(const struct tt_call *call)
{
    struct tt_comm *comm = call->comm;
    comm->streams.now = (struct tt_position){ 0 };
    if (atomic_load_explicit(&comm->streams.queued, memory_order_relaxed) == 1)
        tt_refusals_tell(comm);
    atomic_fetch_sub_explicit(&comm->streams.elsewhere, call->staging == NULL, memory_order_relaxed);
    if (atomic_fetch_sub_explicit(&comm->streams.queued, 1, memory_order_release) == 1 &&
        comm->streams.orphan != NULL)
        comm->streams.orphan(comm);
}

/* Opens the gate of a call on a device that did not end well: the stream there goes on. Else the gate has
 * been told, or a kernel has passed it by, and the next call may count on from where it is. */
static void open_gate(const struct tt_pending *p)
{
    if (p->call.staging != NULL && !p->done)
        tt_gate_tell(&p->call.staging->gate, p->call.staging->gate.slices);
}

/* If a communicator has ended, a leader's kernel may still store into this rank's memory. */
static void leave_meeting(const struct tt_call *call)
{
    struct tt_meeting *meeting = call->staging != NULL ? call->staging->gate.led.meeting : NULL;
    if (meeting != NULL)
        meeting->leave(meeting, &call->staging->gate);
}

static void finish(struct tt_stream *s, struct tt_work_item *item)
{
    uint64_t done = item->number;
    if (item->outcome.status != TUTTI_OK && atomic_load_explicit(&s->failed, memory_order_relaxed) == 0) {
        s->failure = item->outcome;
        atomic_store_explicit(&s->failed, done, memory_order_release);
    }
    if (item->report != NULL)
        *item->report = item->outcome;
    for (struct tt_work_item *p = item->placeholders; p != NULL; p = p->next_placeholder)
        p->outcome = item->outcome;
    tt_work_item_forget(item);
    for (int i = 0; i < item->batch->count; i++)
        leave_meeting(&item->batch->calls[i].call);
    pthread_mutex_lock(&tt_streams_lock);
    for (int i = 0; i < item->batch->count; i++)
        open_gate(&item->batch->calls[i]);
    for (int i = 0; i < item->batch->count; i++)
        let_go(&item->batch->calls[i].call);
    tt_work_item_give(item);
    pthread_mutex_unlock(&tt_streams_lock);
    atomic_store_explicit(&s->done, done, memory_order_release);
    tt_doorbell_ring(&s->moved);
}

static void *work(void *argument)
{
    struct tt_stream *s = argument;
    struct tt_work_item *item;
    if (s->idle_hook != NULL) /* a device's worker, which looks for its words */
        tt_wait_be_prompt();
    while ((item = next_item(s)) != NULL) {
        for (int i = 0; i < item->nwaits; i++)
            tt_position_wait(item->waits[i], -1);
        await_turn(s, item);
        begin(item);
        run(item);
        finish(s, item);
    }
    return NULL;
}

/* --- Streams */

/* Marks the streams of the parent in a child: it has none of their workers, so nothing that is queued
 * there will ever run. */
static void after_fork_in_child(void)
{
    for (struct tt_stream *s = streams.made; s != NULL; s = s->next_made)
        s->lost = true;
    streams.spare = NULL;
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_STREAMS, &tt_streams_lock, after_fork_in_child);
}

static struct tt_stream *take_spare(void)
{
    pthread_mutex_lock(&tt_streams_lock);
    struct tt_stream *s = streams.spare;
    if (s != NULL) {
        streams.spare = s->next_spare;
    } else if ((s = aligned_alloc(_Alignof(struct tt_stream), sizeof *s)) != NULL) {
        *s = (struct tt_stream){ .next_made = streams.made };
        streams.made = s;
    }
    if (s != NULL)
        s->policy = tt_wait_policy_for(1 + ++streams.open); /* the caller has a core, too */
    pthread_mutex_unlock(&tt_streams_lock);
    return s;
}

static void give_spare(struct tt_stream *s)
{
    pthread_mutex_lock(&tt_streams_lock);
    s->next_spare = streams.spare;
    streams.spare = s;
    streams.open--;
    pthread_mutex_unlock(&tt_streams_lock);
}

tutti_status tt_stream_open(const struct tt_idle_hook *idle_hook, struct tt_stream **stream)
{
    struct tt_stream *s = take_spare();
    if (s == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a stream");
    s->first = NULL;
    s->end = &s->first;
    atomic_store_explicit(&s->leaving, false, memory_order_relaxed);
    s->idle_hook = idle_hook;
    atomic_store_explicit(&s->failed, 0, memory_order_relaxed);
    tutti_status status = tt_thread_start("of a stream", work, s, &s->worker);
    if (status == TUTTI_OK)
        *stream = s;
    else
        give_spare(s);
    return status;
}

void tt_stream_close(struct tt_stream *s)
{
    if (s->lost)
        return;
    pthread_mutex_lock(&tt_streams_lock);
    atomic_store_explicit(&s->leaving, true, memory_order_release);
    pthread_mutex_unlock(&tt_streams_lock);
    tt_doorbell_ring(&s->fed);
    pthread_join(s->worker, NULL);
    give_spare(s);
}

tutti_status tt_stream_make(const struct tt_idle_hook *idle_hook, tutti_stream *stream)
{
    struct tt_stream *made;
    void *handle;
    tutti_status status = tt_stream_open(idle_hook, &made);
    if (status != TUTTI_OK)
        return status;
    status = tt_handle_create(TT_HANDLE_STREAM, made, &handle);
    if (status == TUTTI_OK)
        *stream = (tutti_stream){ .handle = handle, .kind = TUTTI_STREAM_HOST, .device = -1 };
    else
        tt_stream_close(made);
    return status;
}

void tt_stream_wake(struct tt_stream *s)
{
    tt_doorbell_ring(&s->fed);
}

uint64_t tt_stream_last(const struct tt_stream *s)
{
    return atomic_load_explicit(&s->last, memory_order_acquire);
}

tutti_status tt_stream_outcome(const struct tt_stream *s, uint64_t last)
{
    uint64_t failed = atomic_load_explicit(&s->failed, memory_order_acquire);
    if (failed == 0 || failed > last)
        return TUTTI_OK;
    tt_set_last_error(s->failure.text);
    return s->failure.status;
}

struct tt_stream *tt_stream_find(const char *name, tutti_stream handle, tutti_status *status)
{
    *status = TUTTI_INVALID_ARGUMENT;
    if (handle.kind == TUTTI_STREAM_NONE) {
        tt_fail(*status, "%s: stream is tutti_no_stream(); pass one of tutti_stream_create", name);
        return NULL;
    }
    if (handle.kind != TUTTI_STREAM_HOST) {
        *status = tt_fail(TUTTI_UNSUPPORTED,
            "%s: stream has kind %d; legal: a stream of tutti_stream_create, of kind 1", name, handle.kind);
        return NULL;
    }
    struct tt_stream *s = tt_handle_find(TT_HANDLE_STREAM, handle.handle);
    if (s == NULL)
        tt_fail(*status, "%s: %s", name, tt_last_error());
    if (s != NULL && (s->lost || atomic_load_explicit(&s->leaving, memory_order_relaxed))) {
        *status = tt_fail(TUTTI_INVALID_USAGE, "%s: the stream %s", name,
            s->lost ? "was made before this process was forked; its worker is in the parent"
                    : "is being destroyed by another thread");
        return NULL;
    }
    return s;
}

tutti_status tt_stream_unmake(tutti_stream stream)
{
    tutti_status status;
    struct tt_stream *s = tt_stream_find("stream_destroy", stream, &status);
    if (s == NULL)
        return status;
    s = tt_handle_take(TT_HANDLE_STREAM, stream.handle);
    if (s == NULL)
        return TUTTI_INVALID_ARGUMENT;
    tt_stream_close(s);
    return TUTTI_OK;
}
