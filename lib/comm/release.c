/* SPDX-License-Identifier: BSD-3-Clause */
/* release.c: the thread that keeps ends of communicators for their peers.
 *
 * A rank whose calls are over has given its peers all that it owes them. But what it sent may still be on its
 * way, a peer of another host may not have met it yet, and who finds it gone does not know whether anything
 * is missing. So its end stays until each peer has said that it makes no more calls either, or is gone
 * itself. A rank says so by what it has completed: operations of all numbers (TT_ALL_OVER).
 *
 * Peers that finalize wait for all ranks in a barrier. An end that was released takes part in that, when all
 * are there that make calls.
 *
 * One thread serves all ends of the process; it looks at them by turns, and ends with the last. */
#include "comm/release.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/fork.h"
#include "base/handle.h"
#include "base/status.h"
#include "base/thread.h"
#include "base/wait.h"
#include "comm/lifecycle.h"
#include "run/run.h"
#include "stream/stream.h"

enum { NAP_MS = 2, LONGEST_NAP_MS = 50, EXIT_MS = 2000, CLOSE_MS = 3000 };

struct released {
    struct released *next;
    struct tt_comm *comm;
    int64_t linger_ms, until_ns; /* until: once it has told its peers */
    bool told; /* that it makes no calls any more */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct released *first;
    bool served; /* the thread runs */
    _Atomic int64_t exit_ns; /* then nobody lingers any more, for the process ends; 0: it does not */
} ends;

static void after_fork_in_child(void)
{
    ends.first = NULL; /* the parent's; there is no thread here */
    ends.served = false;
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_RELEASED, &lock, after_fork_in_child);
}

static bool needs_no_more(const struct tt_comm *comm, int peer)
{
    const struct tt_control_ops *control = comm->endpoint->control;
    struct tt_peer_place place;
    return peer == comm->rank || control->completed_by(comm->endpoint, peer) >= TT_ALL_OVER ||
           control->peer_state(comm->endpoint, peer, &place) != TT_PEER_ALIVE;
}

/* True if this peer is in a barrier, as it would be this rank's next call. */
static bool is_in_barrier(const struct tt_comm *comm, int peer)
{
    struct tt_call_record call;
    return comm->endpoint->control->call_of(comm->endpoint, peer, comm->numbers.sequence, &call) &&
           call.collective == TT_BARRIER;
}

static void tell(struct released *r)
{
    r->comm->endpoint->control->publish(r->comm->endpoint, NULL, TT_ALL_OVER - 1);
    r->told = true;
}

/* Takes part in a barrier of the others, on a stream of its own: other ends of this process may be in it. */
static void join_barrier(struct released *r)
{
    struct tt_comm *comm = r->comm;
    struct tt_work_item *item = tt_work_item_take(NULL);
    struct tt_position position;
    tutti_status status = item != NULL ? TUTTI_OK : TUTTI_OUT_OF_MEMORY;
    if (status == TUTTI_OK && comm->streams.finalizes.kind == TUTTI_STREAM_NONE)
        status = tt_stream_make(NULL, &comm->streams.finalizes);
    struct tt_call barrier = { .collective = TT_BARRIER, /* as tutti_barrier makes it */
        .comm = comm,
        .send = tt_barrier_token(),
        .count = 1,
        .type = TUTTI_INT32,
        .op = TUTTI_MAX,
        .stream = comm->streams.finalizes };
    comm->finalized = false;
    if (status == TUTTI_OK)
        status = tt_call_check(&barrier);
    if (status == TUTTI_OK)
        status = tt_work_item_add(item, &barrier);
    if (status == TUTTI_OK)
        status = tt_work_item_submit(item, &position);
    if (status != TUTTI_OK && item != NULL)
        tt_work_item_drop(item); /* the next look tries again */
    r->told = status != TUTTI_OK;
}

/* True if this end is kept no longer. */
static bool is_through(struct released *r)
{
    struct tt_comm *comm = r->comm;
    if (tt_comm_check(comm) != TUTTI_OK)
        return true;
    if (!r->told && !tt_comm_is_over(comm, 0))
        return false;
    if (!r->told)
        tell(r);
    if (r->until_ns == 0)
        r->until_ns = tt_deadline_ns(r->linger_ms);
    int peers = 0, in_barrier = 0;
    for (int peer = 0; peer < comm->n && peers == in_barrier; peer++) {
        bool needs = !needs_no_more(comm, peer);
        peers += needs;
        in_barrier += needs && is_in_barrier(comm, peer);
    }
    if (peers > 0 && peers == in_barrier)
        join_barrier(r);
    int64_t now_ns = tt_now_ns(), exit_ns = atomic_load(&ends.exit_ns);
    return peers == 0 || now_ns >= r->until_ns || (exit_ns != 0 && now_ns >= exit_ns);
}

/* Takes an end that is through out of the list. */
static struct released *take_one(void)
{
    struct released **at = &ends.first;
    while (*at != NULL && !is_through(*at))
        at = &(*at)->next;
    struct released *one = *at;
    if (one != NULL)
        *at = one->next;
    return one;
}

static void *serve(void *unused)
{
    int nap_ms = NAP_MS;
    (void)unused;
    for (bool more = true; more;) {
        pthread_mutex_lock(&lock);
        struct released *one = take_one();
        more = one != NULL || ends.first != NULL;
        ends.served = more;
        pthread_mutex_unlock(&lock);
        if (one != NULL) {
            tt_comm_let_go(one->comm);
            free(one);
            nap_ms = NAP_MS;
        } else if (more) {
            tt_sleep_ms(nap_ms);
            nap_ms = 2 * nap_ms < LONGEST_NAP_MS ? 2 * nap_ms : LONGEST_NAP_MS;
        }
    }
    return NULL;
}

/* Peers that end soon find this rank; and what has been sent goes out, for closing an end sees to that. */
static void end_process(void)
{
    int64_t until_ns = tt_deadline_ns(EXIT_MS + CLOSE_MS);
    atomic_store(&ends.exit_ns, tt_deadline_ns(EXIT_MS));
    for (bool left = true; left && tt_now_ns() < until_ns;) {
        pthread_mutex_lock(&lock);
        left = ends.served;
        pthread_mutex_unlock(&lock);
        if (left)
            tt_sleep_ms(1);
    }
}

/* What is asked for last is done first at an exit: so for ends on a device this is asked for when the runtime
 * is there, which has asked for its own. */
static void await_exit(void)
{
    atexit(end_process);
}

tutti_status tt_release(struct tt_comm *comm, int64_t linger_ms)
{
    static pthread_once_t once[2] = { PTHREAD_ONCE_INIT, PTHREAD_ONCE_INIT };
    struct released *one = malloc(sizeof *one);
    tutti_status status = one != NULL ? TUTTI_OK : tt_fail(TUTTI_OUT_OF_MEMORY, "release: no memory");
    pthread_t thread;
    if (status != TUTTI_OK)
        return status;
    pthread_once(&once[comm->device != NULL], await_exit);
    *one = (struct released){ .comm = comm, .linger_ms = linger_ms };
    pthread_mutex_lock(&lock);
    if (!ends.served)
        status = tt_thread_start("that keeps released communicators", serve, NULL, &thread);
    if (status == TUTTI_OK) {
        if (!ends.served)
            pthread_detach(thread);
        ends.served = true;
        tt_comm_take(comm->handle);
        comm->waiting.on_wait = NULL; /* it is for the thread of a caller */
        one->next = ends.first;
        ends.first = one;
    }
    pthread_mutex_unlock(&lock);
    if (status != TUTTI_OK)
        free(one);
    return status;
}
