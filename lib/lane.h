/* SPDX-License-Identifier: BSD-3-Clause */
/* lane.h: calls that were made before.
 *
 * A program calls the same collective with the same count again and again. The first such call goes the whole
 * way: check, plan, bind. What it came to is kept, so that the next one has only its pointers looked at and
 * put in. A call with a built-in operator keeps the checked call and the plan that was bound to it, and a
 * v-form copies of its arrays, which its caller may have given back; the executor starts from there. What is
 * small as well (one slice, messages that are copied, lent or stored where they go) is worked out down to the
 * bytes: a list of moves, each with its peer, its bytes and its offsets, which straight.c runs. */
#ifndef TT_LANE_H
#define TT_LANE_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "call.h"

enum { TT_LANES = 64 };

struct tt_hop { /* a message of a move */
    struct tt_link *link;
    const uint64_t *next; /* the number of the call's first message that way */
    uint32_t ordinal;
    int32_t peer;
};

struct tt_move { /* a unit of the schedule */
    uint8_t verb; /* enum tt_verb */
    uint8_t own; /* of what combines: which operand is this rank's; all others are messages, in order */
    uint8_t operands;
    uint8_t buffer[3]; /* enum tt_buffer: dst, src, right */
    uint32_t step; /* of the schedule */
    uint32_t bytes, elements;
    int64_t at[3]; /* from the pointers of the call, or from TMP */
    tt_fold_fn fold;
    tt_spread_fn spread; /* or NULL */
    tt_few_fn few; /* of a sum of two that is short; or NULL */
    uint32_t divisor;
    bool lends; /* what it sends, if that lies in shared memory */
    bool answered; /* who answers that has read it */
    bool spreads; /* its result goes to all that it hears from */
    bool offers; /* if that is shared memory, where it receives: what comes may be stored there */
    uint8_t result; /* it sends what was spread: 1 + which of the messages it answers */
    bool chooses; /* one of these: how it is sent depends on the call */
    bool alone; /* it receives one message */
    bool watched; /* what it sends is copied, not lent, by who rewrites it between calls */
    uint64_t print; /* of what it sent last */
    const struct tt_hop *hops;
};

struct tt_toll { /* how many messages a peer and this rank exchange */
    uint64_t *next_send, *next_recv;
    uint32_t sends, recvs;
    int32_t peer;
};

struct tt_lane {
    uint64_t what, count; /* which call it is; what is never 0 */
    uint64_t bytes[2]; /* that the call reads at send and writes at recv */
    uintptr_t seen[2]; /* send and recv of the last call, which were looked at */
    uint8_t class; /* enum tt_class */
    bool visits; /* it lends or pushes: it uses peers' memory, or they this rank's */
    bool pushes; /* it is an all_reduce by two shots: sums may be stored where peers want them */
    bool beyond; /* and too long to be copied */
    bool hurries; /* nothing is chosen, and each message is awaited alone */
    int64_t apart; /* in place: recv - send */
    uint32_t grain; /* pointers are multiples of it */
    bool own_counts; /* all_to_all_v and its like: each message is marked with its length, too */
    uint64_t passed; /* calls that went the short way */
    struct tt_cost cost; /* of each of them */
    uint32_t signature; /* marks the messages of a call; of a collective, of the one that is made now */
    uint64_t hash, history; /* of a collective that is made now: of the communicator's with it */
    bool long_messages; /* which are not to be copied in registered memory */
    bool lends; /* of all that is long, the peers read the source in place */
    bool watches; /* it only sends, and what is long is watched */
    struct tt_call call; /* with the pointers of the first one */
    struct tt_op *op; /* where it was bound last; still is if that names this lane. NULL: nowhere yet */
    uintptr_t origin[2]; /* where the bound spaces of send and recv begin, from the pointers of the call */
    struct tt_call_record record;
    uint32_t nmoves, ntolls;
    struct tt_move *moves; /* hops and tolls lie behind. NULL: the executor runs it */
    struct tt_hop *hops;
    struct tt_toll *tolls;
    struct tt_tables tables; /* of a v-form: of the bound layouts */
    void *arrays; /* what those and call.blocks point to; NULL: no v-form was here yet */
};

/* The arguments of a call, but its stream: only calls without one are quick. Type and operation do not stand
 * as in struct tt_call, nor operation and root: compared two at once, as compilers like to, they would be
 * read in another width than they were just written in, for which the processor stops. And they fill a line,
 * wherever the stack stands: cleared by stores of which one lies across two pages, which in a thread is the
 * same one at every call, they take 6 ns. */
struct tt_quick {
    _Alignas(64) enum tt_collective collective;
    tutti_op op;
    tutti_type type;
    int root;
    const void *send;
    void *recv;
    size_t count;
    const struct tt_blocks *blocks; /* [TT_IN], [TT_OUT]; NULL: even ones */
    bool count_in_blocks; /* as in struct tt_call */
    tutti_comm *comm;
};
_Static_assert(sizeof(struct tt_quick) == 64, "the arguments of a call fill a line");

/* Which call it is: root or peer, operation, type, collective, same pointers; 0 for one that has no lane. */
static inline uint64_t tt_lane_what(const struct tt_quick *q)
{
    bool plain = q->op < 256 && (unsigned)q->type < 256 && q->root >= 0;
    uint32_t low = q->op << 16 | (uint32_t)q->type << 8 | (uint32_t)q->collective;
    return plain ? (uint64_t)q->root << 32 | low | (q->send == q->recv ? 3u << 30 : 1u << 31) : 0;
}

/* The lane where it is, or would be. */
static inline struct tt_lane *tt_lane_at(const struct tt_comm *comm, uint64_t what, uint64_t count)
{
    uint64_t hash = what * 0x9e3779b97f4a7c15u ^ count * 0xc2b2ae3d27d4eb4fu;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    return &comm->lanes[hash >> 58];
}
_Static_assert(TT_LANES == 1 << 6, "six bits of the hash choose a lane");

/* Nothing has ended or comes before a call of now. */
static inline bool tt_lane_is_open(const struct tt_comm *comm)
{
    return atomic_load_explicit(&comm->queued, memory_order_acquire) == 0 && comm->known &&
           atomic_load_explicit(comm->endpoint->ended, memory_order_acquire) == 0;
}

static inline bool tt_lane_is_shared(const struct tt_lane *lane, const void *pointer)
{
    const struct tt_endpoint *e = lane->call.comm->endpoint;
    return (uintptr_t)pointer - e->shared_from < e->shared_bytes;
}

/* Do a few words of what a watched move sends differ from what they were at its last call? Then the program
 * writes there between calls, as most do. */
static inline bool tt_lane_is_rewritten(struct tt_move *m, const uint8_t *src)
{
    enum { WORDS = 4 };
    uint64_t print = 0, word, before = m->print, apart = (m->bytes - sizeof word) / (WORDS - 1);
    for (uint64_t i = 0; i < WORDS; i++) {
        memcpy(&word, src + i * apart, sizeof word);
        print = (print << 7 | print >> 57) + word;
    }
    m->print = print;
    return print != before;
}

/* It watches: is all that it sends to be copied? */
bool tt_lane_copies(const struct tt_lane *lane, const struct tt_quick *q);

/* May this call go by the moves of its lane? */
static inline bool tt_lane_is_straight(const struct tt_lane *lane, const struct tt_quick *q)
{
    bool shares = tt_lane_is_shared(lane, q->send);
    if (lane->pushes)
        return !lane->beyond || (shares && tt_lane_is_shared(lane, q->recv));
    return lane->moves != NULL &&
           (!lane->long_messages || (lane->lends && shares) ||
               !(shares || tt_lane_is_shared(lane, q->recv)) || (lane->watches && tt_lane_copies(lane, q)));
}

/* The collective is made now. */
static inline void tt_lane_renew(struct tt_lane *lane)
{
    lane->history = tt_call_history(lane->call.comm, lane->hash);
    lane->signature = tt_hash_short(lane->history);
}

/* This call has run as this operation, alone and on no stream: keep it, if it may have a lane. No memory: no
 * lane. */
void tt_lane_learn(const struct tt_call *call, const struct tt_op *op);
/* Of this call; NULL if it has none, or if anything about it is out of the ordinary: then it goes the long
 * way. */
struct tt_lane *tt_lane_find(const struct tt_quick *quick);
void tt_lanes_free(struct tt_comm *comm);

/* Run a call by the moves of its lane (straight.c). */
tutti_status tt_straight_run(const struct tt_quick *quick, struct tt_lane *lane);
/* A message of a group that ends. A send does not wait. False, and nothing is done, if it cannot be done
 * now. */
bool tt_straight_point(const struct tt_quick *quick, struct tt_lane *lane);
/* The call as the long way has it. */
void tt_lane_call(const struct tt_quick *quick, const struct tt_lane *lane, struct tt_call *call);

#endif
