/* SPDX-License-Identifier: BSD-3-Clause */
/* device_capture.c: calls that are captured, and what a replay of their graph does.
 *
 *     stream:  wait for the last event | name 7 | in | ready 1 | wait done 1 | out | done 0 | event
 *     worker:          sees 7, name 0, takes it up ... slice 0 with the peers' workers ... ready 0, done 1
 *
 * A replay cannot take a place in the worker's queue: nobody calls Tutti when a graph is launched. So the
 * stream writes the name of the captured calls where the worker looks while graphs live. The calls of a
 * communicator are a chain on the device, replays and others alike; so the device has reached one of them at
 * most, and one word and one set of gates are enough for all of them, however many graphs hold. A replay
 * cannot count on from the last one, so these gates begin at 0 each time. Who waits for a word clears it:
 * the worker clears `name` when it has seen it, and `ready` when a call is over, both before it tells the
 * last slice; the stream clears `done` when it has passed that. Any other order loses a word that is being
 * written (tests/proof).
 *
 * A graph that was launched first may come before what was queued first: while graphs have calls of a
 * communicator, its worker begins an item only when the device has reached that, too; or when some rank is
 * overdue that was to call the same.
 *
 * What a graph has of a communicator stays until graph and runnables are gone, also if the communicator goes
 * first: then the worker stays as well, which calls no CUDA and so can be waited for by any stream, and opens
 * the gates; the replay runs through without effect. The runtime tells the end of a graph on a thread that
 * may not call CUDA; so what was left is freed when communicators are made or destroyed later. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/status.h"
#include "device/device.h"
#include "device/device_led.h"
#include "device/device_names.h"
#include "base/handle.h"
#include "observe/recorder.h"
#include "stream/stream.h"
#include "transports/arena.h"

enum { DESCRIPTION = 128 };

struct tt_captured { /* the calls of one communicator that are captured together */
    struct tt_captured *next;
    struct tt_replays *home;
    struct tt_batch batch; /* each owns a prepared call */
    uint64_t capture;
    uint32_t name; /* TT_NO_NAME: it has none any more */
    _Atomic bool released; /* the graph is gone */
};

struct tt_replays { /* of a communicator */
    const struct tt_dev *dev;
    struct tt_idle_hook idle_hook;
    tutti_stream worker;
    struct tt_stream *stream; /* the same */
    struct tt_device_words *words; /* of the gates that all captured calls use */
    uint32_t *slices; /* per gate: of the calls that are being captured together */
    _Atomic uint32_t *name; /* of the calls that the device has reached, and that are not yet taken up */
    struct tt_names names;
    struct tt_captured *first;
    _Atomic int live; /* how many there are */
    _Atomic int released; /* of those */
    _Atomic(struct tt_captured *) running;
    _Atomic bool closed; /* the communicator is gone */
    const struct tt_batch *held; /* calls that may not begin yet, on which ranks have not decided */
    int64_t held_ns; /* since when */
    bool told; /* the log has said so */

    /* Once it is. */
    struct tt_replays *next;
    uint8_t *pinned;
    struct tt_arena_share *share; /* the graphs' part of that */
    void *order_event;
    struct tt_led *led; /* NULL: none */
    struct tt_spin *spin; /* likewise */
};

static struct {
    pthread_mutex_t lock;
    struct tt_replays *first;
} left = { .lock = PTHREAD_MUTEX_INITIALIZER }; /* their communicators are gone, some graph is not */

/* --- A replay */

static void open_gates(const struct tt_captured *c)
{
    for (int i = 0; i < c->batch.count; i++)
        tt_gate_open(&c->batch.calls[i].call.staging->gate);
}

/* The call that is under way without a stream of the device; false: none is. A collective that has begun is
 * known by name. */
static bool find_other(const struct tt_comm *comm, uint64_t sequence, char called[DESCRIPTION])
{
    struct tt_call_record other;
    if (!comm->endpoint->control->call_of(comm->endpoint, comm->rank, sequence, &other)) {
        snprintf(called, DESCRIPTION, "a send, a receive, or a call on a stream of the host");
        return tt_endpoint_inside(comm->endpoint) || atomic_load(&comm->streams.elsewhere) > 0;
    }
    int length = snprintf(called, DESCRIPTION, "operation %llu, ", (unsigned long long)sequence);
    tt_record_describe(&other, called + length, DESCRIPTION - (size_t)length);
    return true;
}

/* Another thread runs a call that no stream orders: it must not be joined there. */
static tutti_status check_alone(struct tt_comm *comm)
{
    char called[DESCRIPTION];
    struct tt_cause cause = { .status = TUTTI_INVALID_USAGE, .rank = comm->rank, .peer = TT_NONE };
    cause.sequence = comm->endpoint->control->completed_by(comm->endpoint, comm->rank);
    if (!find_other(comm, cause.sequence, called))
        return TUTTI_OK;
    snprintf(cause.operation, sizeof cause.operation, "replay");
    tt_cause_say(&cause,
        "%s, rank %d: %s, was not on a CUDA stream, and not over, when device %d reached a replay of this "
        "communicator's calls; legal: the one after the other",
        comm->identity.name, comm->rank, called, comm->device->number);
    return tt_comm_fail(comm, &cause);
}

/* Runs calls that the device has reached. One that ended well has told its gate all slices; the stream may
 * have gone on, and must not be told again. */
static void run(struct tt_captured *c)
{
    struct tt_pending *calls = c->batch.calls;
    int count = c->batch.count;
    for (int i = 0; i < count; i++)
        tt_pending_renew(&calls[i]);
    tutti_status status = tt_comm_check(calls[0].call.comm);
    if (status == TUTTI_OK)
        status = check_alone(calls[0].call.comm);
    if (status == TUTTI_OK)
        status = tt_watch_memory(&c->batch);
    if (status == TUTTI_OK)
        status = tt_run_on_worker(calls, count);
    for (int i = 0; i < count && status != TUTTI_OK; i++) {
        if (calls[i].op == NULL || calls[i].op->result.state != TT_DONE)
            tt_gate_open(&calls[i].call.staging->gate);
    }
}

/* Finds the calls that the device has reached, and takes them up. Where the communicator has failed, a stream
 * may be past calls that are named here, and their graph gone: who frees them takes the name away and then
 * looks at what runs; here it is the other way round. */
static struct tt_captured *take_up(struct tt_replays *home, uint32_t name)
{
    struct tt_captured *c = tt_names_find(&home->names, name);
    atomic_store(&home->running, c); /* first: name or running, one is always there to be seen */
    if (c != tt_names_find(&home->names, name)) {
        atomic_store(&home->running, NULL);
        c = NULL;
    }
    atomic_store(home->name, TT_NO_NAME);
    return c;
}

static bool serve(void *context)
{
    struct tt_replays *home = context;
    uint32_t name = atomic_load_explicit(home->name, memory_order_acquire);
    if (name == TT_NO_NAME)
        return false;
    struct tt_captured *c = take_up(home, name);
    if (c != NULL && atomic_load(&home->closed))
        open_gates(c);
    else if (c != NULL)
        run(c);
    atomic_store(&home->running, NULL);
    return true;
}

static bool looks(void *context)
{
    const struct tt_replays *home = context;
    return atomic_load_explicit(&home->live, memory_order_relaxed) > 0;
}

/* True if the worker may begin these calls: the device has reached one of them, no captured call is live, or
 * the communicator has ended. */
static bool is_their_turn(const struct tt_replays *home, const struct tt_batch *next)
{
    if (next->count == 0 || atomic_load_explicit(&home->live, memory_order_relaxed) == 0)
        return true;
    for (int i = 0; i < next->count; i++) {
        const struct tt_staging *staging = next->calls[i].call.staging;
        if (staging == NULL || tt_gate_is_open(&staging->gate, 0) || tt_gate_is_over(&staging->gate))
            return true;
    }
    return tt_comm_check(next->calls[0].call.comm) != TUTTI_OK;
}

/* True if a rank has not called for as long as a call may wait. Then the worker begins, to find that out. */
static bool is_overdue(struct tt_replays *home, const struct tt_batch *next)
{
    const struct tt_comm *comm = next->calls[0].call.comm;
    bool decided = true;
    for (int i = 0; i < next->count; i++)
        decided = decided && tt_gate_is_decided(&next->calls[i].call.staging->gate);
    if (decided) {
        home->held = NULL;
        return false;
    }
    if (home->held != next) {
        home->held_ns = tt_now_ns();
        home->told = false;
    }
    home->held = next;
    int64_t ms = (tt_now_ns() - home->held_ns) / 1000000;
    if (!home->told && tt_fault_is_slow(comm, ms)) {
        home->told = true;
        tt_fault_tell_undecided(&next->calls[0].call, ms);
    }
    return comm->waiting.timeout_ms >= 0 && ms > comm->waiting.timeout_ms;
}

/* Calls whose memory is gone have no communicator any more that runs them. */
static bool may_begin(void *context, const struct tt_batch *next)
{
    struct tt_replays *home = context;
    if (!is_their_turn(home, next) && !is_overdue(home, next))
        return false;
    home->held = NULL;
    tt_watch_memory(next);
    return true;
}

bool tt_replays_run(const struct tt_device *d)
{
    const struct tt_replays *home = d->replays;
    return atomic_load(home->name) != TT_NO_NAME || atomic_load(&home->running) != NULL;
}

void tt_replays_await(const struct tt_device *d)
{
    struct tt_wait w;
    if (!tt_replays_run(d))
        return;
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    while (tt_replays_run(d))
        tt_wait_idle(&w);
    tt_wait_awake(&w);
}

bool tt_replays_live(const struct tt_device *d)
{
    return atomic_load_explicit(&d->replays->live, memory_order_relaxed) > 0;
}

/* --- Life */

static void free_captured(struct tt_captured *c)
{
    struct tt_replays *home = c->home;
    if (c->name != TT_NO_NAME)
        tt_names_drop(&home->names, c->name);
    for (int i = 0; i < c->batch.count; i++) {
        const struct tt_call *call = &c->batch.calls[i].call;
        if (tt_call_is_led(call))
            tt_led_release(&call->staging->gate);
        tt_call_release(&c->batch.calls[i].call);
    }
    tt_batch_free(&c->batch);
    free(c);
    atomic_fetch_sub(&home->live, 1);
}

/* Free what no graph has any more. The worker may still be at the end of the last replay. */
static void reap(struct tt_replays *home)
{
    if (atomic_load(&home->released) == 0)
        return;
    for (struct tt_captured **at = &home->first, *c; (c = *at) != NULL;) {
        bool gone = atomic_load(&c->released);
        if (gone && c->name != TT_NO_NAME) {
            tt_names_drop(&home->names, c->name);
            c->name = TT_NO_NAME;
        }
        if (!gone || atomic_load(&home->running) == c) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        atomic_fetch_sub(&home->released, 1);
        free_captured(c);
    }
}

static void free_home(struct tt_replays *home)
{
    if (home->worker.handle != NULL)
        tt_stream_unmake(home->worker);
    tt_names_free(&home->names);
    free(home->slices);
    free(home);
}

static void sweep(void)
{
    pthread_mutex_lock(&left.lock);
    for (struct tt_replays **at = &left.first, *home; (home = *at) != NULL;) {
        reap(home);
        if (home->first != NULL || home->dev->event.query(home->order_event) == TT_DEV_NOT_READY) {
            at = &home->next;
            continue;
        }
        *at = home->next;
        home->dev->event.destroy(home->order_event);
        if (home->led != NULL)
            tt_led_free(home->led, true);
        if (home->spin != NULL)
            tt_spin_free(home->spin, true);
        home->dev->memory.unpin(home->pinned);
        tt_arena_drop_share(home->share);
        free_home(home);
    }
    pthread_mutex_unlock(&left.lock);
}

tutti_status tt_replays_open(struct tt_device *d)
{
    sweep();
    struct tt_replays *home = calloc(1, sizeof *home);
    uint32_t *slices = calloc(d->ngates, sizeof *slices);
    if (home == NULL || slices == NULL) {
        free(home);
        free(slices);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the captured calls of a communicator");
    }
    home->dev = d->dev;
    home->idle_hook = (struct tt_idle_hook){ serve, looks, may_begin, home };
    home->words = d->words + d->ngates;
    home->name = &home->words[d->ngates].ready;
    home->slices = slices;
    d->replays = home;
    tutti_status status = tt_stream_make(&home->idle_hook, &home->worker);
    if (status == TUTTI_OK)
        home->stream = tt_handle_find(TT_HANDLE_STREAM, home->worker.handle);
    d->worker = home->worker;
    return status;
}

/* Waits until the worker is done with the communicator: then it only opens gates. */
static void detach(struct tt_replays *home)
{
    tutti_status status;
    struct tt_wait w;
    atomic_store(&home->closed, true);
    if (home->stream == NULL || tt_stream_find("destroy", home->worker, &status) == NULL)
        return; /* there is none, as in a child of a fork */
    tt_position_wait((struct tt_position){ home->stream, tt_stream_last(home->stream) }, -1);
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    while (atomic_load(&home->running) != NULL)
        tt_wait_idle(&w);
    tt_wait_awake(&w);
}

bool tt_replays_close(struct tt_device *d, struct tt_arena_share *pinned)
{
    struct tt_replays *home = d->replays;
    if (home != NULL)
        detach(home);
    sweep();
    if (home == NULL)
        return false;
    d->replays = NULL;
    reap(home);
    if (home->first == NULL) {
        free_home(home);
        return false;
    }
    for (struct tt_captured *c = home->first; c != NULL; c = c->next)
        for (int i = 0; i < c->batch.count; i++)
            tt_call_release(&c->batch.calls[i].call);
    home->pinned = d->pinned;
    home->share = pinned;
    home->order_event = d->order_event;
    home->led = d->led;
    home->spin = d->spin;
    pthread_mutex_lock(&left.lock);
    home->next = left.first;
    left.first = home;
    pthread_mutex_unlock(&left.lock);
    return true;
}

/* --- A capture */

/* Fails if the communicator is in another capture meanwhile: within a graph the calls would have no order. */
static tutti_status check_turns(const struct tt_comm *comm, uint64_t capture)
{
    const struct tt_device *d = comm->device;
    bool before = false;
    if (d->capture.id == capture)
        return TUTTI_OK;
    for (const struct tt_captured *c = d->replays->first; c != NULL; c = c->next)
        before = before || c->capture == capture;
    if (!before)
        return TUTTI_OK;
    return tt_fail(TUTTI_INVALID_USAGE,
        "%s: rank %d: captured in another graph since this capture's last call; legal: one capture after the "
        "other",
        comm->identity.name, comm->rank);
}

tutti_status tt_captured_create(struct tt_comm *comm, uint64_t capture, struct tt_captured **captured)
{
    struct tt_replays *home = comm->device->replays;
    reap(home);
    tutti_status status = check_turns(comm, capture);
    if (status != TUTTI_OK)
        return status;
    struct tt_captured *c = calloc(1, sizeof *c);
    if (c != NULL)
        c->name = tt_names_add(&home->names, c);
    if (c == NULL || c->name == TT_NO_NAME) {
        free(c);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to capture a call");
    }
    c->home = home;
    c->capture = capture;
    memset(home->slices, 0, comm->device->ngates * sizeof *home->slices);
    tt_recorder_share(comm->recorder);
    if (atomic_fetch_add(&home->live, 1) == 0)
        tt_stream_wake(home->stream);
    *captured = c;
    return TUTTI_OK;
}

void tt_captured_drop(struct tt_captured *c)
{
    free_captured(c);
}

struct tt_gate tt_captured_gate(struct tt_captured *c, uint32_t gate, uint32_t slices)
{
    struct tt_device_words *words = &c->home->words[gate];
    uint32_t base = c->home->slices[gate];
    c->home->slices[gate] += slices;
    return (struct tt_gate){ .ready = &words->ready,
        .done = &words->done,
        .factor = words->factor,
        .base = base,
        .slices = slices,
        .captured = true };
}

bool tt_captured_ends(const struct tt_captured *c, uint32_t gate, uint32_t slices)
{
    return slices == c->home->slices[gate];
}

tutti_status tt_captured_add(struct tt_captured *c, const struct tt_call *call)
{
    struct tt_call own = *call;
    own.prepared = NULL;
    tutti_status status = tt_call_own(&own);
    if (status == TUTTI_OK)
        status = tt_batch_add(&c->batch, &own);
    if (status != TUTTI_OK)
        tt_call_release(&own);
    return status;
}

static void release(void *argument)
{
    struct tt_captured *c = argument;
    atomic_fetch_add(&c->home->released, 1);
    atomic_store(&c->released, true); /* the last look at either: both may be freed from here on */
}

enum tt_dev_error tt_captured_retain(struct tt_captured *c, void *graph)
{
    enum tt_dev_error error = c->home->dev->graph.retain(graph, release, c);
    if (error != TT_DEV_OK)
        return error;
    c->next = c->home->first;
    c->home->first = c;
    return TT_DEV_OK;
}

enum tt_dev_error tt_captured_enter(struct tt_captured *c, struct tt_device *d, void *stream)
{
    bool again = d->capture.id == c->capture; /* external events order graphs, not the parts of one */
    enum tt_dev_error error = again ? d->dev->event.wait(d->capture.last, stream, false)
                                    : d->dev->event.wait(d->order_event, stream, true);
    if (error != TT_DEV_OK || c->batch.count == 0) /* kernels do all of them, and nobody has to know */
        return error;
    return d->dev->write_word(stream, tt_device_seen(d, c->home->name), c->name);
}

enum tt_dev_error tt_captured_leave(struct tt_captured *c, struct tt_device *d, void *stream)
{
    enum tt_dev_error error = d->dev->event.record(d->order_event, stream, true);
    d->capture.id = c->capture;
    return error == TT_DEV_OK ? d->dev->event.record(d->capture.last, stream, false) : error;
}

/* --- Whether the streams of a submission are being captured, all in one capture, and its calls may be */

static const struct tt_call *call_of(const struct tt_batch *batch, int i)
{
    return &batch->calls[i].call;
}

static bool has_rank(const struct tt_batch *batch, uint64_t id, int rank)
{
    for (int i = 0; i < batch->count; i++)
        if (call_of(batch, i)->comm->identity.id == id && call_of(batch, i)->comm->rank == rank)
            return true;
    return false;
}

/* Ranks of one process and device need each other's operands before they wait, and replays of two graphs do
 * not meet for that. */
static tutti_status check_local_peers(const struct tt_batch *batch, const struct tt_call *call)
{
    const struct tt_comm *comm = call->comm;
    for (int rank = 0; rank < comm->n; rank++) {
        if (rank == comm->rank || (tt_collectives[call->collective].p2p && call->root != rank) ||
            !tt_local_peers_share(comm, rank) || has_rank(batch, comm->identity.id, rank))
            continue;
        return tt_fail(TUTTI_INVALID_USAGE,
            "%s: captured for rank %d alone; rank %d is in this process and on device %d, too: legal: both "
            "in one group, on streams of one capture",
            tt_collectives[call->collective].name, comm->rank, rank, comm->device->number);
    }
    return TUTTI_OK;
}

static tutti_status ask_capture(const struct tt_call *call, struct tt_dev_capture *capture)
{
    const struct tt_device *d = call->comm->device;
    int before;
    tutti_status status = tt_device_enter(d, &before);
    if (status != TUTTI_OK)
        return status;
    if (d->dev->stream.capture(call->stream.handle, capture) != TT_DEV_OK)
        status = tt_fail(
            TUTTI_INVALID_ARGUMENT, "%s: stream: %s", tt_collectives[call->collective].name, d->dev->why());
    tt_device_leave(d, before);
    return status;
}

tutti_status tt_device_find_capture(const struct tt_batch *batch, struct tt_dev_capture *capture)
{
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < batch->count && status == TUTTI_OK; i++) {
        const struct tt_call *call = call_of(batch, i);
        const char *name = tt_collectives[call->collective].name;
        struct tt_dev_capture this;
        status = ask_capture(call, &this);
        if (status != TUTTI_OK)
            return status;
        if (this.broken)
            return tt_fail(TUTTI_INVALID_USAGE,
                "%s: the capture of its stream is broken: meanwhile something was done that cannot be "
                "captured",
                name);
        if (i == 0)
            *capture = this;
        if (this.active != capture->active || (this.active && this.id != capture->id))
            return tt_fail(TUTTI_INVALID_USAGE,
                "group: the streams of some calls are being captured; legal: all of them, in one capture, or "
                "none");
        if (this.active)
            status = check_local_peers(batch, call);
    }
    return status;
}
