/* SPDX-License-Identifier: BSD-3-Clause */
/* group_joins.h: ranks of one group that meet others at ids. If one of them cannot, the group fails; but
 * those that wait at their ids, maybe for that very rank, would wait as long as they may, and their thread
 * with them. So who failed gives the others a moment, and then tells those they wait for, and them, that
 * nobody comes. */
#ifndef TT_GROUP_JOINS_H
#define TT_GROUP_JOINS_H
#include <stdatomic.h>
#include <stdbool.h>

#include "tutti.h"

struct tt_join {
    struct tt_join *next; /* of the group */
    int n, rank;
    tutti_id id;
    bool known; /* the id is */
    _Atomic bool over; /* it waits at the id no more */
};

/* This one of the list has failed, by `status` and the thread's last error, which stays. */
void tt_joins_give_up(struct tt_join *first, struct tt_join *failed, tutti_status status);

#endif
