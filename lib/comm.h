/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.h: a communicator from inside: one rank's endpoint, its counters, its plans.
 *
 * One thread uses a communicator at a time; only `aborted` style questions (state, get_error, abort) come
 * from others, and those go through the transport's control plane, which is safe for that. Nothing here is
 * global. */
#ifndef TT_COMM_H
#define TT_COMM_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/config.h"
#include "base/topology.h"
#include "base/wait.h"
#include "choose.h"
#include "exec.h"
#include "op.h"
#include "plan.h"
#include "traffic.h"
#include "transports/transport.h"
#include "tutti.h"

enum { TT_NAME_BYTES = 64 };

struct tt_device;
struct tt_cached;
struct tt_recorder;
struct tt_trace;

struct tt_point { /* sends to, or receives from, one peer */
    struct tt_schedule schedule;
    struct tt_point_op *idle;
};

struct tt_point_op {
    struct tt_op op; /* first */
    struct tt_point *point;
    struct tt_point_op *next;
};

struct tt_stream;
struct tt_ticket { /* an item in the queue of a stream (stream.h); {0}: none */
    struct tt_stream *stream;
    uint64_t number;
};

struct tt_tables { /* room for what v-forms derive from their arrays; n entries each */
    uint64_t *starts[2]; /* packed starts of the blocks, in send and in recv */
    size_t *own_counts; /* elements of those blocks, where a user's operator counts its own, or where this
                         * rank knows only its own */
};
tutti_status tt_tables_create(struct tt_tables *tables, int n);
void tt_tables_free(struct tt_tables *tables);

/* Of one kind of calls: collectives, or messages one way between this rank and another one. */
struct tt_refused {
    bool waits; /* one was refused that the peers are to be told of */
    uint64_t last; /* 1 + the number of the last one that they were told of; 0: none */
};
struct tt_refusals { /* what this rank refused; behind the lock of streams (refuse.c) */
    bool told; /* its peers know of it, and it has started no call since */
    bool waits; /* something is to be told as soon as its streams have nothing to run */
    struct tt_refused *calls; /* [1 + 2n]: collectives, messages from, and to, each rank */
    char text[TT_REFUSAL_TEXT];
};

/* A member of a circle of waits: which wait it was in, and how many looks it had taken (fault_wait.c). */
struct tt_mark {
    int32_t rank;
    uint32_t wait, looks;
};

struct tt_comm {
    uint64_t serial; /* no other communicator of this process has or had it */
    uint64_t id; /* the same on all ranks */
    struct tt_device *device; /* NULL: host memory only */
    tutti_comm *handle;
    int n, rank;
    char name[TT_NAME_BYTES];
    uint32_t splits; /* of it */
    int32_t *world; /* of each rank: its number in the first communicator, whence all was split; NULL: this */
    struct tt_settings settings;
    bool exact, finalized;
    bool known; /* a call that was made before may start as it did then (call_cache.h) */
    bool wary; /* it has no device, in a process that uses some: a pointer may be of those */
    struct tt_topology topology; /* cache domains of its ranks */
    int64_t timeout_ms; /* -1: never */
    int (*on_wait)(void *context); /* NULL: none */
    void *on_wait_context;
    const struct tt_transport *transport;
    struct tt_endpoint *endpoint;
    struct tt_wait_policy wait_policy;

    uint64_t sequence; /* of the next collective */
    uint64_t history; /* a hash of all collectives before that; see tt_call_history */
    uint64_t *next_send[TT_CLASSES]; /* n message numbers each */
    uint64_t *next_recv[TT_CLASSES];
    uint64_t *next_post; /* n: of p2p sends */
    struct tt_tables tables;
    struct tt_plan_cache plans;
    struct tt_cached *cached_calls; /* call_cache.h */
    struct tt_cached *cached_last; /* of the last call, never NULL */
    struct tt_traffic traffic;
    struct tt_choices *choices;
    struct tt_operator_table operators;
    struct tt_point **points[2]; /* [0] sends, [1] receives; n each, made on first use */

    uint8_t *tmp; /* in memory that peers can map; grows when a plan needs more */
    uint64_t tmp_bytes;
    struct tt_bounce_probe probe; /* whether readers of the bounce buffer claim its lines */
    int64_t tidy_ns; /* not before, tt_comm_tidy does anything */
    uint64_t cached_bytes; /* what the last cache holds, of all ranks together */
    uint64_t bounce_from; /* messages of so many bytes leave private memory by the bounce buffer */

    struct tt_refusals refusals;
    uint32_t wait, looks; /* waits of messages so far that have become long, and looks in them */
    struct tt_mark *circle; /* n */
    struct tt_recorder *recorder;
    struct tt_trace *trace; /* NULL: none */

    _Atomic int status; /* the sticky error, once seen here */

    /* What streams have to do for this communicator; written behind their lock (stream.c). */
    _Atomic uint32_t queued; /* calls that are not over; 0: the caller may go on */
    _Atomic uint32_t elsewhere; /* of those: not on streams of its device */
    struct tt_ticket last; /* the last item that has one of them */
    struct tt_ticket now; /* the item that is running; {0}: none */
    bool orphan; /* destroyed: the last item frees it */
};

/* Open an endpoint; the address is for the others. `settings` must hold rank 0's shared ones already. */
tutti_status tt_comm_open(int n, int rank, const struct tt_settings *settings, const tutti_config *config,
    uint8_t *address, struct tt_comm **comm);
/* With everybody's addresses and domains. On failure the caller destroys. */
tutti_status tt_comm_connect(struct tt_comm *comm, const uint8_t *addresses, const int32_t *domain_of);
void tt_comm_destroy(struct tt_comm *comm);

/* Hand `mine` in and get everybody's, in rank order; the bytes are the same on all ranks. */
typedef tutti_status (*tt_exchange_fn)(void *context, const void *mine, uint64_t bytes, void *all);
enum { TT_JOINING_BYTES = TT_ADDRESS_MAX + 16 };
/* Room for the words of n ranks, to be taken before the first exchange: between two exchanges nobody may
 * fail alone. NULL, with the thread's last error set, if there is none. */
void *tt_comm_room(int n);
/* Open, exchange (TT_JOINING_BYTES), connect, exchange (4 bytes): always two exchanges, also by a rank
 * that fails, so that nobody waits for it. One rank's failure is everybody's. `domain`: this rank's cache
 * domain; NULL: as the settings say. */
tutti_status tt_comm_establish(int n, int rank, const struct tt_settings *settings,
    const tutti_config *config, const int32_t *domain, tt_exchange_fn exchange, void *context, void *room,
    tutti_comm **comm);
/* The cache domain of a rank of n, as the settings say: by a text, or by where this process is bound. */
tutti_status tt_comm_domain(const struct tt_settings *settings, int n, int rank, int32_t *domain);
/* Everybody's status by one exchange of 4 bytes: the own failure, else the first of another rank. */
tutti_status tt_comm_agree(
    tt_exchange_fn exchange, void *context, int n, int rank, tutti_status mine, void *room);

/* The config as this library knows it: absent fields are zero. */
tutti_status tt_comm_config(const tutti_config *config, tutti_config *known);
bool tt_comm_nonblocking(const tutti_config *config);
/* The settings of a call to init: environment, then config. Checks the config. */
tutti_status tt_comm_settings(const tutti_config *config, struct tt_settings *settings);

/* The longest message among n ranks. */
uint64_t tt_comm_slot_bytes(const struct tt_settings *settings, int n);

/* How long this communicator waits; -1: for ever. config may be NULL. */
int64_t tt_comm_timeout(const struct tt_settings *settings, const tutti_config *config);
/* How long to wait for ranks that have not come, -1: for ever. */
int64_t tt_comm_init_timeout(const struct tt_settings *settings, const tutti_config *config);

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

/* A call of this communicator, which has an on_wait, waits: run that. Not TUTTI_OK if it ends the
 * communicator. */
tutti_status tt_comm_serve(struct tt_comm *comm);

/* Set the text of a cause. */
void tt_cause_say(struct tt_cause *cause, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes the handle of a communicator (handle.h), and tells it that. */
tutti_status tt_handle_create(struct tt_comm *comm, tutti_comm **handle);

#endif
