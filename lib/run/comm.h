/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h: a communicator from inside: one rank's endpoint, its counters, its prepared calls; and what a call
 * that runs asks of it. How it is made and ended is in lifecycle.h.
 *
 * One thread uses a communicator at a time; only `aborted` style questions (state, get_error, abort) come
 * from others, and those go through the transport's control plane, which is safe for that. Nothing here is
 * global. */
#ifndef TT_COMM_H
#define TT_COMM_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/config.h"
#include "base/topology.h"
#include "base/wait.h"
#include "select/choose.h"
#include "exec/exec.h"
#include "call/op.h"
#include "exec/prepared.h"
#include "run/traffic.h"
#include "transports/transport.h"
#include "tutti.h"

enum { TT_NAME_BYTES = 64 };

struct tt_device;
struct tt_cached;
struct tt_pending;
struct tt_recorder;
struct tt_registration;
struct tt_trace;

struct tt_stream;
struct tt_position { /* of a work item in the queue of a stream (stream.h); {0}: none */
    struct tt_stream *stream;
    uint64_t number;
};

/* The refusals of one kind of calls: collectives, or messages one way between this rank and another one. */
struct tt_refused {
    bool waits; /* one was refused that the peers are to be told of */
    uint64_t last; /* 1 + the number of the last one that they were told of; 0: none */
};
struct tt_refusals { /* what this rank refused; behind the lock of streams (refuse.c) */
    bool told; /* its peers know of it, and it has started no call since */
    bool waits; /* something is to be told as soon as its streams have nothing to run */
    struct tt_refused *calls; /* [1 + 2n]: of each kind (tt_call_kind) */
    char text[TT_REFUSAL_TEXT];
};

/* The calls of one kind that run together: how many are polled at a time, and the others, in their order. */
struct tt_turns {
    int polled;
    struct tt_pending *waiting, **end;
};

/* A member of a circle of waits: which wait it was in, and how many looks it had taken (fault_wait.c). */
struct tt_mark {
    int32_t rank;
    uint32_t wait, looks;
};

/* Guards all queues of streams and their idle items (stream_internal.h), and what streams and refusals write
 * in a communicator. */
extern pthread_mutex_t tt_streams_lock;

struct tt_comm {
    /* Who it is: written while the communicator is made; each split counts `splits` up. */
    struct {
        uint64_t serial; /* no other communicator of this process has or had it */
        uint64_t id; /* the same on all ranks */
        char name[TT_NAME_BYTES];
        bool unnamed; /* by its config */
        uint32_t splits; /* of it */
        uint32_t grown; /* so often */
        tutti_id met; /* of the last note that this rank has followed (regroup.c) */
        int32_t *world; /* of each rank: its number in the first communicator; NULL: this is the first */
        int32_t *host; /* of each rank; NULL: all are on one */
        int hosts;
    } identity;
    struct tt_device *device; /* NULL: host memory only */
    tutti_comm *handle;
    int n, rank;
    struct tt_settings settings;
    bool exact, finalized;
    bool known; /* a call that was made before may start as it did then (call_cache.h) */
    bool wary; /* it has no device, in a process that uses some: a pointer may be of those */
    struct tt_topology topology; /* cache domains of its ranks */
    const struct tt_transport *transport;
    struct tt_endpoint *endpoint;

    /* How its calls wait. The limits are written while it is made, the rest by the call that waits
     * (fault_wait.c). */
    struct {
        int64_t timeout_ms; /* -1: never */
        int (*on_wait)(void *context); /* NULL: none */
        void *on_wait_context;
        struct tt_wait_policy policy;
        uint32_t waits, looks; /* waits of messages so far that have become long, and looks in them */
        struct tt_mark *circle; /* n */
        bool settled; /* it has ended, and this run has waited until its buffers are left alone */
    } waiting;

    /* The next numbers of calls and messages: each call advances them when it starts, or the executor
     * when it sends. */
    struct {
        uint64_t sequence; /* of the next collective */
        uint64_t history; /* a hash of all collectives before that; see tt_call_history */
        uint64_t *next_send[TT_CLASSES]; /* n message numbers each */
        uint64_t *next_recv[TT_CLASSES];
        uint64_t *next_post; /* n: of p2p sends */
    } numbers;

    /* Calls that were made before: a call that has run leaves itself here, until the communicator is
     * freed. */
    struct {
        struct tt_prepared_cache prepared; /* of collectives */
        struct tt_prepared **idle[2]; /* of messages, by peer: [0] sends, [1] receives; lists */
        struct tt_cached *cached; /* call_cache.h */
        struct tt_cached *last; /* of the last call, never NULL */
        uint64_t last_id; /* of a cached call */
        struct tt_turns *turns; /* [1 + 2n]: of each kind (tt_call_kind), of those that run */
    } calls;
    struct tt_traffic traffic;
    struct tt_choice_cache *choice_cache;
    struct tt_operator_table operators;
    struct tt_registration *registrations; /* of memory (comm/registration.h) */

    /* TMP, and how bytes move. Written while it is made; calls write `tmp` and `probe`, and tt_comm_tidy
     * `tidy_ns`. */
    struct {
        uint8_t *tmp; /* in memory that peers can map; grows when a call needs more */
        uint64_t tmp_bytes;
        struct tt_bounce_probe probe; /* whether readers of the bounce buffer claim its lines */
        int64_t tidy_ns; /* not before, tt_comm_tidy does anything */
        uint64_t cached_bytes; /* what the last cache holds, of all ranks together */
        uint64_t bounce_from; /* messages of so many bytes leave private memory by the bounce buffer */
    } memory;

    struct tt_refusals refusals;
    struct tt_recorder *recorder;
    struct tt_trace *trace; /* NULL: none */
    _Atomic int status; /* the sticky error, once seen here */

    /* What streams have to do for this communicator: written behind their lock (stream.c). */
    struct {
        _Atomic uint32_t queued; /* calls that are not over; 0: the caller may go on */
        _Atomic uint32_t elsewhere; /* of those: not on streams of its device */
        struct tt_position last; /* the last work item that has one of these calls */
        struct tt_position now; /* the work item that is running; {0}: none */
        tutti_stream finalizes; /* of its own, for that alone; of kind NONE: there is none */
        struct tt_position finalized;
        /* The last work item calls it if the handle is dead; NULL: it is not. */
        void (*orphan)(struct tt_comm *comm);
    } streams;
};

/* TMP of at least this many bytes (its content is lost). */
tutti_status tt_comm_grow_tmp(struct tt_comm *comm, uint64_t bytes);

/* A wait came to be long at this moment. Once in a while, what was not used since the last time returns to
 * the system. */
void tt_comm_tidy(struct tt_comm *comm, int64_t now_ns);

/* The sticky error of this communicator: TUTTI_OK, or the status that every rank gets. Sets the thread's
 * last error. */
tutti_status tt_comm_check(struct tt_comm *comm);
/* End this communicator on all ranks. The first cause wins; returns the winner's status. */
tutti_status tt_comm_fail(struct tt_comm *comm, const struct tt_cause *cause);

/* End it at this rank alone, unless it has ended; where the transport cannot, on all ranks. */
void tt_comm_fail_local(struct tt_comm *comm, const struct tt_cause *cause);

/* A call of this communicator, which has an on_wait, waits: run that. Not TUTTI_OK if it ends the
 * communicator. */
tutti_status tt_comm_serve(struct tt_comm *comm);

/* Set the text of a cause. */
void tt_cause_say(struct tt_cause *cause, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
