/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_thread.h: the thread of a process that serves its endpoints: what it has of each, what it waits for,
 * and what it alone does: make connections, and take them.
 *
 *     tcp_server.c    the thread, which visits endpoints, and its epoll set
 *     tcp_thread.c    a visit; and what callers do by themselves
 *     tcp_connect.c   connections */
#ifndef TT_TRANSPORTS_TCP_THREAD_H
#define TT_TRANSPORTS_TCP_THREAD_H
#include "transports/tcp.h"

enum {
    TCP_STRANGERS = 32,
    TCP_TICK_MS = 50, /* looks at what has a time limit */
};

struct tcp_stranger { /* who has connected and not said who he is */
    int fd; /* -1: nobody */
    int64_t since_ns;
    struct tcp_heard heard;
};

struct tcp_spot { /* what the thread has of a peer; of this rank itself: of all who knock */
    struct tcp_endpoint *endpoint;
    int rank;
    uint32_t events; /* of its connection, that the set tells of; 0: it is not there. With `driving` */
    bool fired, ready; /* the set has told of it, which it does once; it is to be looked at */
};

/* Of the thread alone, but for `next` until it has taken the endpoint in, and `over`. */
struct tcp_watch {
    struct tcp_stranger strangers[TCP_STRANGERS];
    uint32_t sets; /* the set that connections are in; tcp_server.sets */
    bool blind; /* something could not be put there: all is looked at each TCP_TICK_MS */
    bool knocked; /* somebody connects, or a stranger speaks, or the carrier has something */
    struct tcp_spot *spots; /* n */
    int *ready; /* [n] peers to be looked at */
    int count; /* of them */
    int spoken; /* where speaking goes on: of tt_tcp_next */
    bool more; /* there is more to do than a visit lasts */

    bool gives_way; /* to a caller that drives: it is visited when a nap is over */
    int naps; /* in a row */
    int64_t nap_ns; /* the next one; 0: the shortest */
    int64_t nap_over_ns, due_ns; /* when the nap is over; when there is something to be looked at */
    bool waits; /* for its turn: a caller drives */

    struct tcp_endpoint *next;
    bool over; /* with the server's lock: the thread has nothing to do with it any more */
};

struct tcp_server {
    _Atomic int set; /* epoll; -1: its descriptor is lent */
    int wake; /* an eventfd */
    uint32_t sets; /* how many there have been */
    struct {
        const struct tcp_endpoint *whose; /* that has the set's descriptor; NULL: nobody */
        int number; /* what the system said: EMFILE, ENFILE */
        int64_t since_ns;
    } lack;
    int carrier; /* the descriptor of the worker, which all carriers share */
    const struct tcp_endpoint *carried; /* that looks at it; NULL: none does */
    struct tcp_endpoint *first; /* that is served */

    /* With the lock. */
    struct tcp_endpoint *_Atomic coming; /* to be served */
    int users; /* endpoints that are open */
    bool runs; /* the thread does */
    pthread_t thread;
    pthread_cond_t over; /* one endpoint more */
    _Atomic bool ends;
};

/* By the thread: serves this endpoint, if there is something to do. Returns when it is to be visited again,
 * at the latest; -1: it is over. */
int64_t tt_tcp_visit(struct tcp_endpoint *e);
/* This peer is to be looked at. */
static inline void tt_tcp_note(struct tcp_spot *spot)
{
    struct tcp_watch *w = spot->endpoint->watch;
    if (!spot->ready)
        w->ready[w->count++] = spot->rank;
    spot->ready = true;
}

/* By the thread: the set tells of these events of a descriptor, in place of those `before`. Returns what it
 * tells of now; 0: the descriptor is not there. */
uint32_t tt_tcp_set_watch(struct tcp_spot *spot, int fd, uint32_t before, uint32_t events);
/* It tells of this descriptor no more; before that is closed. */
void tt_tcp_set_forget(const struct tcp_endpoint *e, int fd);
/* Nor of the connection with this peer. */
void tt_tcp_set_leave(struct tcp_spot *spot);
void tt_tcp_set_watch_carrier(struct tcp_endpoint *e, int fd);
/* Lends the descriptor of the set to this endpoint, for the system has no other one, as its error `number`
 * says. False: it is lent already. */
bool tt_tcp_set_lend(struct tcp_endpoint *e, int number);
/* True if there is a set, again. */
bool tt_tcp_set_is_there(struct tcp_endpoint *e);
/* If this endpoint has had the set's descriptor for long: what the system said; else 0. */
int tt_tcp_lacks_long(const struct tcp_endpoint *e);

/* With `driving`, by the thread. */
void tt_tcp_dial(struct tcp_endpoint *e, int rank);
/* If the connection is there: says who this rank is. */
void tt_tcp_greet(struct tcp_endpoint *e, int rank);
void tt_tcp_hear_answer(struct tcp_endpoint *e, int rank);
void tt_tcp_accept(struct tcp_endpoint *e);
void tt_tcp_hear_strangers(struct tcp_endpoint *e);
void tt_tcp_keep_spare(struct tcp_endpoint *e);

#endif
