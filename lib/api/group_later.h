/* SPDX-License-Identifier: BSD-3-Clause */
/* group_later.h: what a group puts off to its end, because it waits for other ranks, who may be this
 * thread's: split, shrink, grow and finalize.
 *
 * At the end of the group those of a communicator run in the order of their calls, and communicators side by
 * side: the first one's on the caller's thread, each other one's on a thread of its own. */
#ifndef TT_GROUP_LATER_H
#define TT_GROUP_LATER_H
#include <pthread.h>
#include <stdbool.h>

#include "api/group_joins.h"
#include "base/status.h"
#include "tutti.h"

struct tt_later {
    tutti_comm *comm; /* whose call it is; NULL: of a new rank */
    tutti_status (*run)(struct tt_later *later); /* the call, outside of the group; sets `made` */
    tutti_comm **out, *made; /* out NULL: it makes none */
    const tutti_config *config;
    int device; /* that is current as the call is made, if its config asks for that; -1 */
    bool collective; /* on comm, so its peers may wait in it */
    /* What else it was called with. */
    int color, key; /* of split */
    int *excluded, count; /* of shrink: a copy, which is freed with this */
    uint64_t flags;
    int n, rank; /* of grow */
    bool has_id;
    tutti_id id;
    /* For tt_laters_run. */
    struct tt_join join, *joins; /* of grow; joins NULL: it is none */
    struct tt_later *next;
    bool leads; /* it is the first one of its communicator, on a thread */
    pthread_t thread;
    tutti_status status;
    char text[TT_ERROR_TEXT];
};

/* A copy, with what the call needs of this thread; NULL, with the thread's last error set, if there is no
 * memory: then `excluded` is freed. */
struct tt_later *tt_later_copy(const struct tt_later *later);
/* Runs all in this list. Outputs are set if all of them did well, else what was made is destroyed. */
tutti_status tt_laters_run(struct tt_later *first);
/* They will not run: peers that wait for this rank in them are told. */
void tt_laters_refuse(const struct tt_later *first, tutti_status status);
void tt_laters_free(struct tt_later *first);

#endif
