/* SPDX-License-Identifier: BSD-3-Clause */
/* simulation.h: the state of schedules in virtual time, which simulate.c runs and simulate_open.c makes.
 * Nobody else includes this. */
#ifndef TT_SIMULATION_H
#define TT_SIMULATION_H
#include "select/simulate.h"
#include "base/heap.h"
#include "base/ready.h"

enum { TT_NOBODY = -1, TT_NO_WORK = -1 };
enum { TT_DUE = 32, TT_ALL_DUE };

struct tt_simulated_slice {
    uint32_t index;
    struct tt_ready_list ready;
    uint32_t *place; /* of each unit that is ready: where it stands in that list */
    uint32_t *heard; /* of each step with a message: how many of this window's slices came, or were read */
    /* The units that may have become able to do something since all were tried, by their first step; so many
     * of them, or TT_ALL_DUE. */
    uint32_t due[TT_DUE], ndue;
};

/* A unit may have become able to do something. */
static inline void tt_due_add(struct tt_simulated_slice *slice, uint32_t step)
{
    if (slice->ndue < TT_DUE)
        slice->due[slice->ndue++] = step;
    else
        slice->ndue = TT_ALL_DUE;
}

/* Notes where the units stand that are ready, from a place of their list on. */
static inline void tt_due_index(struct tt_simulated_slice *slice, uint32_t from)
{
    for (uint32_t at = from; at < slice->ready.nactive; at++)
        slice->place[slice->ready.active[at].step] = at;
}

/* Takes the due unit that stands first in the list out of those that are due; those that are not ready are
 * tried when they are. Returns where it stands, or how many units are ready if none is due. */
static inline uint32_t tt_due_take(struct tt_simulated_slice *slice)
{
    uint32_t least = slice->ready.nactive, chosen = 0;
    for (uint32_t i = 0; i < slice->ndue;) {
        uint32_t step = slice->due[i], at = slice->place[step];
        if (at >= slice->ready.nactive || slice->ready.active[at].step != step) {
            slice->due[i] = slice->due[--slice->ndue];
            continue;
        }
        if (at < least) {
            least = at;
            chosen = i;
        }
        i++;
    }
    if (slice->ndue > 0)
        slice->due[chosen] = slice->due[--slice->ndue];
    return least;
}

struct tt_parcels { /* a list of them: places */
    uint32_t first, last;
};

struct tt_simulated_rank {
    const struct tt_schedule *s;
    struct tt_ready_order order;
    uint32_t slices_left;
    uint32_t *mate; /* the step at the other end of a message */
    struct tt_simulated_slice slices[TT_WINDOW];
    bool called; /* an event is under way that lets it go on */
    uint64_t way_out; /* to other hosts: until when it is taken */
    bool way_is_awaited; /* an event is under way that tells that it is free */
    uint64_t began; /* when it last began to write or read one */
    struct tt_parcels out, in; /* what waits for the way, and what came from other hosts and is not read */
    int64_t last_work; /* of the log */
    uint64_t end, parts[TT_COST_PARTS];
};

struct tt_simulated_core {
    uint64_t free;
    int last; /* rank that ran here */
};

/* A rank goes on; before that, if there is a step, its message of this window is heard. Or its next message
 * may go to another host. Or a message that this step receives comes to a link, of its sender's host or of
 * this one. */
enum tt_simulated_kind { TT_GOES_ON, TT_WAY_IS_FREE, TT_AT_LINK_OUT, TT_AT_LINK_IN };
struct tt_simulated_event {
    uint64_t time, order;
    int rank;
    uint32_t step, count;
    uint16_t kind, window;
    int64_t work; /* of the log: what it comes from */
};
TT_HEAP_HOLDS(struct tt_simulated_event);

enum { TT_NO_PARCEL = UINT32_MAX };
struct tt_parcel { /* a message to or from another host, in a list */
    struct tt_simulated_event event; /* that is to come of it, or came */
    uint64_t since, bytes; /* since: when it was sent, or when what it waited for began to be read */
    uint32_t step, slice; /* for the log */
    uint32_t next;
};

struct tt_simulation {
    const struct tt_simulation_params *params;
    const struct tt_costs *costs;
    bool representative; /* of all, or of a class */
    uint64_t share; /* of a representative: how many share its core ... */
    uint64_t round; /* ... and the time until each of them has run there */
    struct tt_simulated_rank *ranks;
    struct tt_simulated_core *cores;
    int ncores;
    uint64_t *links; /* of each host two, out and in: until when it is taken; NULL: none is shared */
    uint64_t now;
    int running; /* ranks that have not ended */
    struct tt_heap events;
    struct tt_parcel *parcels; /* of all ranks, and free ones */
    uint32_t parcels_count, parcels_free;
    bool moved, failed; /* failed: no memory */
    uint32_t step, slice; /* what a rank tries, for the log */
    int64_t news; /* of the log: what the message comes from that lets a rank go on */
    struct tt_simulation_result *result;
    void *memory;
};

/* Makes the state of a simulation whose params, costs and `representative` are set, in one piece of memory,
 * which the caller frees. Fails with OUT_OF_MEMORY. */
tutti_status tt_simulation_open(struct tt_simulation *sim, const struct tt_simulation_params *params);

#endif
