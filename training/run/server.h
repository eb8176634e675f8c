/* SPDX-License-Identifier: BSD-3-Clause */
/* server.h: messages between workers and parameter servers, and what an asynchronous server
 * does.
 *
 * A worker's clock is the number of its pushes that were taken. With a bound of K (stale synchronous
 * parallel: Ho et al. 2013) a worker is given values only while its clock is no more than K before the
 * slowest worker's; until then it waits. */
#ifndef TRAINING_RUN_SERVER_H
#define TRAINING_RUN_SERVER_H

#include "training/data/push_order.h"
#include "training/run/traffic.h"

/* A push or a pull, on either side. */
bool tr_server_message(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e);

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
