/* SPDX-License-Identifier: BSD-3-Clause */
/* sim_world.h: what the two halves of the simulator share: sim.c, the world in which events happen, and
 * sim_link.c, the transport that its ranks see. Nobody else includes this. */
#ifndef TT_TRANSPORTS_SIM_WORLD_H
#define TT_TRANSPORTS_SIM_WORLD_H
#include "base/heap.h"
#include "base/schedule.h"
#include "transports/sim/sim.h"

enum tt_sim_happening {
    TT_SIM_ARRIVAL, /* more of a message from src can be read at dst */
    TT_SIM_RETURN, /* src sees that dst has released */
    TT_SIM_WAKE, /* dst goes on by itself */
    TT_SIM_POST, /* not an event, but in the trace */
    TT_SIM_WAY_IS_FREE, /* the next message of dst may go to another host */
    TT_SIM_LINK_OUT, /* a message from src is at the link of its host */
    TT_SIM_LINK_IN, /* and at the link of the host of dst */
};

struct tt_sim_event {
    uint64_t time, order;
    uint64_t number, available;
    int32_t src, dst;
    uint8_t what, class;
};
TT_HEAP_HOLDS(struct tt_sim_event);

enum tt_sim_state { TT_SIM_FREE, TT_SIM_POSTED, TT_SIM_RELEASED };

struct tt_sim_reply;

struct tt_sim_letter { /* what lies in a slot */
    uint64_t number, bytes, available;
    uint32_t signature;
    uint8_t state, path;
    bool packed, seen_in_part, single_reader;
    uintptr_t base;
    struct tt_view source;
    uint8_t *copy; /* inline and copied messages */
    uint64_t room;
    struct tt_sim_reply *reply; /* whose message is stored in the copy; NULL: nobody's */
};

struct tt_sim_reply { /* for a message of a slot, by its sender */
    uint64_t number; /* 1 + the message's, which lies where another one came; 0: none */
    uint8_t *copy; /* that place, once the other one was released */
    uint64_t room;
};

struct tt_sim_grant { /* for a message of a slot, by its receiver */
    uint64_t number; /* 1 + the message's; 0: none */
    uint64_t visible; /* from when on */
    uint64_t bytes;
    uint32_t signature;
    bool packed;
    uintptr_t base;
    struct tt_view place;
};

struct tt_sim_channel { /* one class, pair and direction */
    struct tt_sim_grant grants[TT_SLOTS];
    struct tt_sim_reply replies[TT_SLOTS];
    uint64_t last_arrival, highest; /* highest: number arrived so far, plus 1 */
    struct tt_sim_letter letters[];
};

struct tt_sim_endpoint;

struct tt_sim_end { /* a link, as one rank has it */
    struct tt_link head; /* first */
    uint8_t class;
    struct tt_sim_endpoint *mine;
};

struct tt_sim_parcel { /* a message to or from another host that its rank has to write, or to read */
    struct tt_sim_event event; /* that is to come of it, or came */
    uint64_t since; /* when it was sent, or when the work began that made it ready */
    struct tt_sim_parcel *next;
};
struct tt_sim_parcels { /* a list of them */
    struct tt_sim_parcel *first, *last;
};

struct tt_sim_endpoint {
    struct tt_endpoint head; /* first */
    struct tt_sim_end *ends; /* [class][n] */
    struct tt_sim *sim;
    struct tt_endpoint_params params;
    enum tt_peer_state state;
    uint64_t frozen_until; /* 0: awake */
    /* With costs, of what goes to other hosts and comes from there: until when the way out is taken, whether
     * an event is under way that tells that it is free, since when the rank works, and what waits for it. */
    uint64_t way_out, began;
    bool way_is_awaited;
    struct tt_sim_parcels out, in;
    bool called; /* with costs: an event is under way that lets it go on */
    uint64_t completed;
    _Atomic uint32_t ended, inside, local_aborts; /* ended: never; local_aborts: none */
    struct tt_call_record calls[TT_CALLS_KEPT];
};

struct tt_sim_core {
    uint64_t free;
    int last; /* rank that worked here */
};

struct tt_sim {
    struct tt_sim_params params;
    struct tt_sim_core *cores; /* with costs: so many as there are ranks, or cores */
    int ncores, named; /* the rank that was named last, which goes on when its work is done */
    uint64_t *links; /* with costs: of each domain two, out and in: the time until which it is taken */
    uint64_t now, random, hash;
    struct tt_heap events;
    struct tt_sim_channel **channels; /* by class, src, dst; made on first use */
    struct tt_sim_endpoint *ranks;
    struct tt_sim_counts counts;
    bool aborted, mail_dies; /* mail_dies: what a dying rank has under way is lost */
    struct tt_cause cause;
    char error[160];
};

/* By chance: less than `limit` (0 if that is 0); true in so many of 100 cases. */
uint64_t tt_sim_below(struct tt_sim *sim, uint64_t limit);
bool tt_sim_chance(struct tt_sim *sim, unsigned percent);

/* Frees what connect gave an endpoint; it lasts as long as the world, so that late questions have answers. */
void tt_sim_free_ends(struct tt_sim_endpoint *e);
void tt_sim_push(struct tt_sim *sim, struct tt_sim_event event);
void tt_sim_trace(struct tt_sim *sim, const struct tt_sim_event *event);
enum tt_level tt_sim_level(const struct tt_sim *sim, int rank, int peer);
/* With costs: when what src tells now can be seen by dst. */
uint64_t tt_sim_seen(const struct tt_sim *sim, int src, int dst);
/* With costs: the rank reads a message of this level. */
void tt_sim_read(struct tt_sim *sim, int rank, enum tt_level level, uint64_t bytes);
/* With costs: the message that this event is to tell of is on its way, or waits for its turn. */
void tt_sim_post(struct tt_sim *sim, struct tt_sim_event message);
/* With costs: the rank works so long. Folds and copies come by tt_sim_spend, which notes when they began. */
void tt_sim_work(struct tt_sim *sim, int rank, uint64_t time);
/* NULL if nothing was ever sent on this link. */
struct tt_sim_letter *tt_sim_letter_at(
    const struct tt_sim *sim, unsigned class, int src, int dst, uint64_t number);
struct tt_sim_channel **tt_sim_channel_place(const struct tt_sim *sim, unsigned class, int src, int dst);
struct tt_sim *tt_sim_joined(void);

#endif
