/* SPDX-License-Identifier: BSD-3-Clause */
/* server.h: messages between workers and parameter servers, what an asynchronous server does, and in which
 * order it takes the workers' pushes.
 *
 * A worker's clock is the number of its pushes that were taken. With a bound of K (stale synchronous
 * parallel: Ho et al. 2013) a worker is given values only while its clock is no more than K before the
 * slowest worker's; until then it waits. */
#ifndef TRAINING_RUN_SERVER_H
#define TRAINING_RUN_SERVER_H

#include "training/run/traffic.h"

/* A push or a pull, on either side. */
bool tr_server_message(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e);

/* ---- push_order.c ---- */

struct tr_push_order {
    int workers, servers;
    long steps; /* of each worker */
    int **order; /* of each server: the worker of each push; NULL: live, whoever comes first */
};

/* text: "live", "seed:N", or a file: on each line a worker, and what follows is not read. Of several servers
 * each may have a file of its own, whose name ends with a point and its number. An order that would have a
 * worker push while it waits, as it is more than `staleness` ahead, is an error. */
bool tr_push_order_make(struct tr_push_order *a, const char *text, const struct tr_mesh *m, long staleness,
    long steps, struct tr_error *e);
void tr_push_order_free(struct tr_push_order *a);

/* By how many steps a worker is ahead of the slowest one. */
long tr_ahead(const long *clocks, int workers, int worker);
/* "FILE.1", or with one server "FILE". */
void tr_push_order_name(char *to, size_t room, const char *file, int server, int servers);

/* ---- server.c ---- */

/* A push that was applied. */
struct tr_push {
    long number; /* of all that this server took */
    int worker;
    long clock; /* of the worker's pushes */
    long behind; /* updates that the server has made since the worker was given its values */
    long ahead; /* steps before the slowest worker */
    double loss, norm; /* the mean over the worker's sequences; of its own gradient */
};

struct tr_server {
    struct tr_runner *r;
    const int *order; /* the worker of each push; NULL: whoever comes first */
    long steps; /* of each worker */
    int workers, last;
    long *clocks, *given; /* of each worker: pushes; updates that its values have */
    bool *waits;
    tutti_stream *streams; /* live: for each worker, what it will send first is received on one */
    uint64_t *points;
    bool *posted;
    struct tr_traffic before;
};

/* The runner is that of an asynchronous server. */
bool tr_server_open(
    struct tr_server *s, struct tr_runner *r, const int *order, long steps, struct tr_error *e);
/* Takes a push, applies it, and gives values to each worker that may go on. */
bool tr_server_next(struct tr_server *s, struct tr_push *push, struct tr_error *e);
/* After the last push: the messages were those that the tape foresees. */
bool tr_server_end(struct tr_server *s, struct tr_error *e);
/* After that. A server that failed ends with its process: closed, it would end its workers before it has told
 * the cause. */
void tr_server_close(struct tr_server *s);

#endif
