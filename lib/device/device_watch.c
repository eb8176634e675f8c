/* SPDX-License-Identifier: BSD-3-Clause */
/* device_watch.c: what no word tells: that a device has failed, and that memory is gone.
 *
 * A device that meets an address without memory gives up all its work: a gate is then never opened, and the
 * worker behind it, which must not ask CUDA, would wait for as long as the device might need. So one thread
 * of the process, which nobody waits for, asks each device that has calls under way, ten times a second. The
 * questions are such as neither wait nor disturb a capture: what a stream's capture is, which may tell of a
 * failure, and whether an event has passed, for which the runtime must look at the device. What it finds ends
 * the communicator, on all ranks; their gates are opened as ever. The exit of the process ends the thread
 * first, for the runtime's own exit comes soon after, and nothing may be asked then. A fork does not wait for
 * the lock, which is held while CUDA is asked, and a child never does: it can end none of the communicators
 * that are watched, and has no device.
 *
 * Host memory is used where it lies, by the worker, whom a page that is gone would kill. It is looked at when
 * the call begins, which for a replay is when the device has reached it. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/wait.h"
#include "device/device_led.h"

/* Each communicator has a stream that waits, which takes some 0.7 us of every launch on the device: measured
 * on one H200. */
enum { MANY = 16 };

enum { DEVICES = 64, LOOK_MS = 100, DESCRIPTION = 128, EXIT_MS = 1000 };

static struct {
    pthread_mutex_t lock;
    struct tt_device *first;
    pthread_t thread;
    _Atomic uint64_t number; /* of the thread: one of another number ends */
    struct tt_doorbell bell;
    pid_t process; /* whose exit ends the thread */
    _Atomic uint32_t places[DEVICES]; /* that kernels have which wait on a device */
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* --- Devices */

/* The collective that is under way, or comes next. */
static void describe(const struct tt_comm *comm, uint64_t sequence, char *text, size_t bytes)
{
    struct tt_call_record record;
    char called[DESCRIPTION];
    text[0] = '\0';
    if (!comm->endpoint->control->call_of(comm->endpoint, comm->rank, sequence, &record))
        return;
    tt_record_describe(&record, called, sizeof called);
    snprintf(text, bytes, "operation %llu, %s: ", (unsigned long long)sequence, called);
}

tutti_status tt_device_broken(const struct tt_device *d)
{
    struct tt_comm *comm = d->comm;
    struct tt_cause cause = { .status = TUTTI_DEVICE_ERROR, .rank = comm->rank, .peer = TT_NONE };
    char call[DESCRIPTION + 32];
    if (d->led != NULL)
        atomic_store(&d->led->reach->broken, true);
    cause.sequence = comm->endpoint->control->completed_by(comm->endpoint, comm->rank);
    snprintf(cause.operation, sizeof cause.operation, "device");
    describe(comm, cause.sequence, call, sizeof call);
    tt_cause_say(&cause,
        "%s, rank %d: %sdevice %d has failed (%s), as one does that is told to copy what was freed; legal: "
        "buffers stay until the stream has passed the call, those of a graph until that is destroyed",
        comm->identity.name, comm->rank, call, d->number, d->dev->why());
    return tt_comm_fail(comm, &cause);
}

static void look_at(const struct tt_device *d)
{
    struct tt_comm *comm = d->comm;
    struct tt_dev_capture capture;
    bool busy = atomic_load(&comm->streams.queued) > 0 || tt_replays_live(d);
    if (d->watch.spin != NULL)
        tt_spin_watch(d->watch.spin);
    if (!busy || atomic_load(&comm->status) != TUTTI_OK || d->dev->use(d->number) != TT_DEV_OK)
        return;
    if (d->dev->stream.capture(TT_DEV_STREAM_PER_THREAD, &capture) == TT_DEV_BROKEN ||
        d->dev->event.query(d->order_event) == TT_DEV_BROKEN)
        tt_device_broken(d);
}

/* Sleeps until it is time to look again, or to end. */
static void nap(uint64_t number)
{
    struct tt_doorbell *bell = &watch.bell;
    struct tt_wait w;
    int64_t until = tt_deadline_ns(LOOK_MS);
    tt_wait_begin(&w, (struct tt_wait_policy){ 0 }, &bell, 1);
    tt_wait_until(&w, until);
    while (tt_now_ns() < until && atomic_load(&watch.number) == number)
        tt_wait_idle(&w);
    tt_doorbell_ring_always(bell); /* this wait ends for another reason than a ring */
    tt_wait_awake(&w);
}

static void *run(void *argument)
{
    uint64_t number = (uint64_t)(uintptr_t)argument;
    while (atomic_load(&watch.number) == number) {
        pthread_mutex_lock(&watch.lock);
        for (struct tt_device *d = watch.first; d != NULL && atomic_load(&watch.number) == number;
             d = d->watch.next)
            look_at(d);
        pthread_mutex_unlock(&watch.lock);
        nap(number);
    }
    return NULL;
}

/* --- Who is watched */

/* The process exits: from here on no device is asked. A look that is under way is waited for, but not for
 * good, since a driver may have stopped to answer. A child of fork has none of this. */
static void end_with_process(void)
{
    if (getpid() != watch.process)
        return;
    atomic_fetch_add(&watch.number, 1);
    for (int ms = 0; ms < EXIT_MS; ms++) {
        if (pthread_mutex_trylock(&watch.lock) == 0) {
            pthread_mutex_unlock(&watch.lock);
            return;
        }
        tt_sleep_ms(1);
    }
}

/* What is asked for last is done first at an exit: so this is asked for when the runtime is there, which has
 * asked for its own. */
static void await_exit(void)
{
    watch.process = getpid();
    atexit(end_with_process);
}

/* Told once, when there are too many for the first time. */
static void warn_of_many(void)
{
    tt_log(TT_LOG_WARN,
        "more than %d communicators of this process have a device; streams that wait make launches slower, "
        "unless each has a queue of its own: CUDA_DEVICE_MAX_CONNECTIONS=32",
        MANY);
}

tutti_status tt_watch_begin(struct tt_device *d)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT, warned = PTHREAD_ONCE_INIT;
    tutti_status status = TUTTI_OK;
    int others = 0;
    pthread_once(&once, await_exit);
    pthread_mutex_lock(&watch.lock);
    if (watch.first == NULL)
        status = tt_thread_start(
            "that watches devices", run, (void *)(uintptr_t)atomic_load(&watch.number), &watch.thread);
    if (status == TUTTI_OK) {
        for (const struct tt_device *x = watch.first; x != NULL; x = x->watch.next)
            others++;
        d->watch.next = watch.first;
        watch.first = d;
    }
    pthread_mutex_unlock(&watch.lock);
    if (others >= MANY)
        pthread_once(&warned, warn_of_many);
    return status;
}

void tt_watch_spin(struct tt_device *d)
{
    pthread_mutex_lock(&watch.lock);
    d->watch.spin = d->spin;
    pthread_mutex_unlock(&watch.lock);
}

/* The last one takes the thread with it. */
void tt_watch_end(struct tt_device *d)
{
    pthread_mutex_lock(&watch.lock);
    struct tt_device **at = &watch.first;
    while (*at != NULL && *at != d)
        at = &(*at)->watch.next;
    bool found = *at == d;
    if (found)
        *at = d->watch.next;
    bool last = found && watch.first == NULL;
    pthread_t thread = watch.thread;
    if (last)
        atomic_fetch_add(&watch.number, 1);
    pthread_mutex_unlock(&watch.lock);
    if (!last)
        return;
    tt_doorbell_ring_always(&watch.bell);
    pthread_join(thread, NULL);
}

_Atomic uint32_t *tt_watch_places(int device)
{
    return device >= 0 && device < DEVICES ? &watch.places[device] : NULL;
}

/* --- Memory of the host */

/* Pages of a range that is unmapped are named by this, and nothing is done to the others. */
static bool is_mapped(const void *pointer, uint64_t bytes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)pointer / page * page;
    return msync((void *)begin, (uintptr_t)pointer + bytes - begin, MS_ASYNC) == 0 || errno != ENOMEM;
}

/* Addresses of a device's memory that was freed are still reserved, and nobody may read there: asked of both
 * ends. Who may not ask is told nothing. */
bool tt_watch_is_readable(const void *pointer, uint64_t bytes)
{
    uint8_t ends[2];
    struct iovec to = { ends, sizeof ends };
    struct iovec from[2] = { { (void *)(uintptr_t)pointer, 1 },
        { (void *)((uintptr_t)pointer + bytes - 1), 1 } };
    ssize_t got = process_vm_readv(getpid(), &to, 1, from, 2, 0);
    return got == sizeof ends || (got < 0 && errno != EFAULT);
}

static tutti_status lose_memory(const struct tt_call *call, int side, const void *pointer, uint64_t bytes)
{
    struct tt_cause cause = { .status = TUTTI_INVALID_USAGE, .rank = call->comm->rank, .peer = TT_NONE };
    char called[DESCRIPTION];
    cause.sequence = call->comm->numbers.sequence;
    snprintf(cause.operation, sizeof cause.operation, "%s", tt_collectives[call->collective].name);
    tt_call_describe(call, called, sizeof called);
    tt_cause_say(&cause,
        "%s, rank %d: %s: %s is %p, and its %llu bytes are not mapped, or may not be read; legal: memory of "
        "the host stays until the stream has passed the call, that of a graph until the graph is destroyed",
        call->comm->identity.name, call->comm->rank, called, side == TT_IN ? "send" : "recv", pointer,
        (unsigned long long)bytes);
    return tt_comm_fail(call->comm, &cause);
}

tutti_status tt_watch_memory(const struct tt_batch *batch)
{
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < batch->count && status == TUTTI_OK; i++) {
        const struct tt_call *call = &batch->calls[i].call;
        bool bare = call->collective == TT_BARRIER || (call->collective == TT_P2P_SEND && call->met);
        for (int side = 0; side < 2 && status == TUTTI_OK && !bare; side++) { /* met: the receive has it */
            const void *pointer = side == TT_IN ? call->send : call->recv;
            uint64_t bytes = call->staged[side] ? 0 : tt_call_bytes(call, side);
            bool gone = pointer != NULL && bytes > 0 &&
                        !(is_mapped(pointer, bytes) && tt_watch_is_readable(pointer, bytes));
            if (gone)
                status = lose_memory(call, side, pointer, bytes);
        }
    }
    return status;
}
