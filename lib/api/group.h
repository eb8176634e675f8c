/* SPDX-License-Identifier: BSD-3-Clause */
/* group.h: calls that start together.
 *
 * The state is per thread. Calls are checked when they are made and queued; the end of the outermost group
 * runs all of them, or none if one was wrong. Initialisations come first, each on a thread of its own, for
 * they wait for each other; last what makes communicators of others, or ends them (group_later.h). */
#ifndef TT_GROUP_H
#define TT_GROUP_H
#include <stdbool.h>

#include "api/group_later.h"
#include "run/call_cache.h"
#include "stream/stream.h"
#include "tutti.h"

/* True if this thread is inside a group. */
bool tt_group_open(void);
/* Keeps the first error of the group, if this thread is in one; returns it. */
tutti_status tt_group_note(tutti_status status);
/* Fails with the error of a call that may not be in a group; the group fails, too. */
tutti_status tt_group_refuse(const char *call);
/* Queues a checked call. Its arrays are copied. */
tutti_status tt_group_add(const struct tt_call *call);
/* Queues a message that is cached in this entry, which stays until the group has run; false if this group
 * takes only whole calls. */
bool tt_group_add_message(const struct tt_call_args *messages, struct tt_cached *cached);
/* Runs the calls of an item, here or on their streams; *position is what others wait for. The item belongs
 * to this function from then on. */
tutti_status tt_group_run(struct tt_work_item *item, struct tt_position *position);
/* Ends the group and hands out its calls instead of running them. */
tutti_status tt_group_take(struct tt_work_item **item);
/* Queues an initialisation; id is copied, config and comm must stay until the end of the group. */
tutti_status tt_group_add_init(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm);
/* What the calls of this thread's group so far are predicted to take, one after the other, in femtoseconds;
 * false if there is no group. */
bool tt_group_price(uint64_t *price);
/* Queues a copy of what waits for other ranks. */
tutti_status tt_group_add_later(const struct tt_later *later);

#endif
