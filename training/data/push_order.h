/* SPDX-License-Identifier: BSD-3-Clause */
/* push_order.h: in which order an asynchronous server takes the workers' pushes. */
#ifndef TRAINING_DATA_PUSH_ORDER_H
#define TRAINING_DATA_PUSH_ORDER_H

#include "training/mesh.h"

#include <stddef.h>

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

#endif
