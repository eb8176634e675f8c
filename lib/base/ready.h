/* SPDX-License-Identifier: BSD-3-Clause */
/* ready.h: the ready list: which units of a slice may run, and in which order they are tried.
 *
 * The executor (lib/exec/exec.c) runs schedules by it, and the cost model (lib/select/simulate.c) runs
 * them in virtual time by it, so a prediction follows the order of the real run by construction.
 *
 * A unit is a fold, or a step outside of folds. Per slice in flight there is a count of open dependencies
 * for each step, and a list of units that are ready or under way. A unit is ready when the units before it
 * are done and, if it has messages, their slots are free. The order of slots: of the messages of one slice
 * between two ranks in one direction, each waits until the message TT_SLOTS_AHEAD before it, which has its
 * slot, is done. So no message is posted before one that needs the same slot, as the proof of the slots
 * assumes, and few receives are polled, however long the ring.
 *
 * Inline, because the executor starts a slice in each call and retires each of its units. */
#ifndef TT_BASE_READY_H
#define TT_BASE_READY_H
#include <stdbool.h>
#include <stdint.h>

#include "base/few.h"
#include "base/schedule.h"

enum {
    TT_WINDOW = 2, /* slices in flight: what the proof covers */
    TT_SLOTS_AHEAD = 4, /* slots that each slice in flight has, for a pair of ranks and a direction */
};
enum { TT_NO_STEP = UINT32_MAX };

/* The order of steps, which all slices of a schedule have in common. */
struct tt_ready_order {
    const struct tt_schedule *schedule;
    uint32_t units;
    uint32_t *opening; /* per step: how many others it waits for when a slice begins */
    uint32_t *next_in_slot; /* per step with a message: the unit that waits for its slot, or TT_NO_STEP */
    bool slots_wait; /* some unit waits for a slot */
};

struct tt_active { /* a unit that is ready, or under way */
    uint32_t step; /* its first */
    bool posted; /* of a send */
    bool granted; /* of a receive; this and the rest are the executor's alone */
    uint8_t path; /* of a send, where it is traced */
    uint64_t cursor; /* elements done */
    int64_t began_ns; /* where it is traced */
};

struct tt_ready_list { /* of one slice in flight */
    uint32_t left; /* units that are not done */
    uint32_t nactive;
    struct tt_active *active; /* room for all units */
    uint32_t *waiting; /* per step: how many others it still waits for */
};

/* Fills `order`, whose arrays have an entry for each step. `recent` has room for TT_SLOTS_AHEAD steps for
 * each rank and direction. */
void tt_ready_order(struct tt_ready_order *order, const struct tt_schedule *schedule, uint32_t *recent);

/* One of the others that a step waits for is done. */
TT_INLINE void tt_ready_release(struct tt_ready_list *list, uint32_t step)
{
    if (--list->waiting[step] == 0)
        list->active[list->nactive++] = (struct tt_active){ .step = step };
}

/* A slice begins: lists the units that wait for nothing. */
TT_INLINE void tt_ready_start(const struct tt_ready_order *order, struct tt_ready_list *list)
{
    const struct tt_schedule *s = order->schedule;
    uint32_t nactive = 0;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        list->waiting[i] = order->opening[i];
        if (order->opening[i] == 0 && s->steps[i].fold_index == 0)
            list->active[nactive++] = (struct tt_active){ .step = i };
    }
    list->left = order->units;
    list->nactive = nactive;
}

/* The unit at this position of the list is done: the last one takes its place, and the units that waited for
 * nothing else follow at the end. Returns the position of the first of those. */
TT_INLINE uint32_t tt_ready_retire(
    const struct tt_ready_order *order, struct tt_ready_list *list, uint32_t position)
{
    const struct tt_schedule *s = order->schedule;
    uint32_t step = list->active[position].step, first = --list->nactive;
    if (position < first)
        list->active[position] = list->active[first];
    list->left--;
    uint32_t end = s->follower_first[step + 1];
    for (uint32_t f = s->follower_first[step]; f < end; f++)
        tt_ready_release(list, s->followers[f]);
    if (!order->slots_wait)
        return first;
    for (uint32_t i = step; i < step + s->steps[step].fold_count; i++)
        if (order->next_in_slot[i] != TT_NO_STEP)
            tt_ready_release(list, order->next_in_slot[i]);
    return first;
}

#endif
