/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_worker.h: the one worker that a process has, which all its carriers share.
 *
 *     carrier of a communicator  \                      / end: to another process's worker
 *     carrier of another one      >--- lock --- worker <
 *     carrier of a third one     /                      \ end: to a third process's
 *
 * Whoever has the lock drives the worker, and UCX calls back. What concerns the carrier that drives is done
 * at once. What concerns another one waits as work until that one has its turn, and its endpoint is woken:
 * what belongs to an endpoint is touched only by who drives that endpoint.
 *
 * Two processes have one end to each other, and it stays while both have their workers: UCX pairs the ends of
 * two workers in the order in which they were made, so an end that came and went with a communicator would be
 * half of another one's pair. It is closed when the other process has died, or has another worker. */
#ifndef TT_UCX_WORKER_H
#define TT_UCX_WORKER_H
#include <pthread.h>
#include <stdatomic.h>

#include <ucp/api/ucp.h>

#include "transports/carrier.h"

enum { UCX_AM_MESSAGE = 1, UCX_CARRIERS = 64 /* lists of open carriers, by token */ };
enum { UCX_PATIENCE_MS = 1000 }; /* the time that what should end at once may take */

/* An end has two connections of UCX, so that a short message does not wait until long ones have gone, be they
 * another communicator's. */
enum { UCX_SHORT, UCX_LONG, UCX_LANES, UCX_SHORT_BYTES = 8 << 10 };
/* So few bytes are copied behind their head, and go as one part: of a message with a head of its own UCX 1.13
 * makes a request and writes four parts, which takes longer. */
enum { UCX_FEW_BYTES = 512 };

struct ucx_end {
    struct ucx_end *next;
    ucp_ep_h lanes[UCX_LANES]; /* NULL: it is closed */
    int users; /* peers of carriers */
    bool failed; /* it is closed later: not from within UCX */
    struct tt_carrier_address address;
};

/* A send or a fetch that is under way; later that, or a message, which waits for its carrier's turn. */
enum ucx_work_kind { UCX_MESSAGE, UCX_FETCH, UCX_SEND };
struct ucx_work {
    struct ucx_work *next;
    struct tt_carrier *carrier;
    enum ucx_work_kind kind;
    bool rendezvous, failed;
    void *send; /* of a send: what its endpoint calls it */
    struct tt_carrier_head head;
    uint64_t bytes;
    void *data; /* of a message: UCX's, or `copy` */
    void *place; /* of a fetch */
    uint8_t copy[]; /* of a short message; of a send of few bytes, behind their head */
};

struct tt_carrier {
    struct tt_carrier *next; /* of those whose tokens share a list */
    struct tt_carrier_params params;
    struct ucx_end **ends; /* [n]; NULL: not connected */
    bool *dropped; /* [n] */
    struct ucx_work *first, **last; /* what waits for its turn */
    _Atomic bool waiting; /* something does */
    int fetches, sends; /* under way */
    bool closing; /* nothing is told any more */
};

/* All functions but join want the lock. */
struct ucx_process { /* all of it with the lock that carriers are given */
    _Atomic int waiting; /* threads that wait for the lock */
    ucp_context_h context; /* never freed: UCX's threads may still be at it when the process ends */
    ucp_worker_h worker; /* NULL: no carrier is open */
    int descriptor;
    uint64_t id; /* drawn by chance, with the context */
    struct ucx_end *ends;
    struct tt_carrier *carriers[UCX_CARRIERS];
    int open;
    struct ucx_work *spare;
    struct tt_carrier *driver; /* who has the lock */
    struct tt_carrier *watcher; /* whose endpoint's thread looks at the descriptor when it sleeps */
};
extern struct ucx_process tt_ucx;

/* Adds a carrier; the first one makes the worker. False if it cannot: `why` says why. */
bool tt_ucx_worker_join(struct tt_carrier *c, char *why, size_t bytes);
/* Returns the carrier of this token; NULL: there is none. */
struct tt_carrier *tt_ucx_worker_find(uint64_t token);
/* Messages for this carrier are dropped from now on. */
void tt_ucx_worker_forget(struct tt_carrier *c);
/* The last thing that a carrier does; the worker goes with the last carrier. */
void tt_ucx_worker_leave(struct tt_carrier *c);
/* Returns how long the worker's address is; it is written if there is room. */
size_t tt_ucx_worker_address(struct tt_carrier_address *address);

/* Returns the end to the worker at this address, with one user more; NULL: UCX cannot make it. */
struct ucx_end *tt_ucx_end_to(
    const struct tt_carrier_address *address, const struct tt_carrier_params *params);
/* What is under way there ends. */
void tt_ucx_end_close(struct ucx_end *end, const struct tt_carrier_params *params);

/* A piece of work for a send or a fetch; NULL: there is no memory. */
struct ucx_work *tt_ucx_work_new(struct tt_carrier *c, enum ucx_work_kind kind);
void tt_ucx_work_free(struct ucx_work *w);

/* What the worker does with a message: ucx_carrier.c. */
ucs_status_t tt_ucx_receive(void *unused, const void *header, size_t header_bytes, void *data, size_t bytes,
    const ucp_am_recv_param_t *params);

#endif
