/* SPDX-License-Identifier: BSD-3-Clause */
/* device_names.h: numbers that fit into a word of a device, for what a graph may name later.
 *
 * A table of pointers that grows and never moves: one thread at a time adds and drops, and any other one may
 * find meanwhile, without a lock. Block k has 64 << k entries, so 26 blocks are enough for all names. */
#ifndef TT_DEVICE_NAMES_H
#define TT_DEVICE_NAMES_H
#include <stdatomic.h>
#include <stdint.h>

enum { TT_NAME_BLOCKS = 26, TT_NO_NAME = 0 };

struct tt_names {
    _Atomic(struct tt_named *) blocks[TT_NAME_BLOCKS];
    uint32_t used; /* names that were ever given */
    uint32_t idle; /* the first of those that were dropped; TT_NO_NAME: none */
};

/* Gives this a name, from 1 on. TT_NO_NAME: there is no memory. */
uint32_t tt_names_add(struct tt_names *names, void *what);
/* Returns what has the name; NULL: nothing has. */
void *tt_names_find(struct tt_names *names, uint32_t name);
/* Nothing has the name any more, and another thing may get it. */
void tt_names_drop(struct tt_names *names, uint32_t name);
void tt_names_free(struct tt_names *names);

#endif
