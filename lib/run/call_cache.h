/* SPDX-License-Identifier: BSD-3-Clause */
/* call_cache.h: the cache of calls that were made before.
 *
 * A program calls the same collective with the same count again and again. The first such call takes the slow
 * path: check, plan, bind. The cache keeps the result, so that the next call has only its pointers checked
 * and put in. An entry has the checked call, for a v-form with copies of the arrays, and the prepared call
 * that was bound to it. The executor starts from there. If the call is small as well
 * (one slice, and each message is copied, lent or stored where it goes), the entry is compiled: a list of
 * moves, each with its peer, its bytes and its offsets, which fast_path.c runs. */
#ifndef TT_CALL_CACHE_H
#define TT_CALL_CACHE_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "run/run.h"

enum { TT_CACHED_CALLS = 64 };

struct tt_fast_msg { /* a message of a move */
    struct tt_link *link;
    const uint64_t *next; /* the number of the call's first message that way */
    uint32_t ordinal;
    int32_t peer;
};

struct tt_move { /* a unit of the schedule, compiled: pointers and bytes in place of cells */
    uint8_t verb; /* enum tt_verb */
    uint8_t
        own; /* a move that combines: the index of this rank's operand; all others are messages, in order */
    uint8_t operands;
    uint8_t buffer[3]; /* enum tt_buffer: dst, src, right */
    uint32_t step; /* of the schedule */
    uint32_t bytes, elements;
    int64_t at[3]; /* from the pointers of the call, or from TMP */
    tt_fold_fn fold;
    tt_spread_fn spread; /* or NULL */
    tt_few_fn few; /* the kernel for a short sum of two operands; or NULL */
    uint32_t divisor;
    bool lends; /* the receiver reads the source in place, if that lies in shared memory */
    bool answered; /* the peer's reply says that it has read the source: nothing else need be awaited */
    bool spreads; /* its result is also stored at each peer that sent an operand */
    bool grants; /* the peer may store what it sends in the destination, if that is shared memory */
    uint8_t
        result; /* it sends a result that was stored at the peers: 1 + the index of the operand's message */
    bool chooses; /* lends, or sends a result: the call's pointers decide how it is sent */
    bool alone; /* it receives one message */
    bool watched; /* it copies what it would lend if the program rewrites the source between calls */
    uint64_t fingerprint; /* of the source at the last call */
    struct tt_layout one_run; /* of its elements */
    const struct tt_fast_msg *msgs;
};

struct tt_msg_count { /* how many messages one call exchanges with a peer */
    uint64_t *next_send, *next_recv;
    uint32_t sends, recvs;
    int32_t peer;
};

struct tt_cached { /* an entry of the cache */
    uint64_t key, count; /* which call it is; key 0: the entry is empty */
    uint64_t bytes[2]; /* that the call reads at send and writes at recv */
    uintptr_t seen[2]; /* send and recv of the last call, which were checked */
    uint8_t class; /* enum tt_class */
    bool enters; /* it lends or pushes: ranks use each other's memory, and must not leave meanwhile */
    bool pushes; /* a two-shot all_reduce: sums are stored at the peers that want them */
    bool exceeds_post; /* pushes only: a message is longer than post takes, so both buffers must be
                          shared memory */
    bool nowait; /* every send is a plain post and every receive has one message: try_nowait() may run it */
    int64_t in_place_offset; /* in place: recv - send */
    uint32_t alignment; /* the call's pointers must be multiples of it */
    bool own_counts; /* each message is marked with its length, too: ranks know only their own counts */
    uint64_t fast_calls; /* calls that took the fast path */
    struct tt_cost cost; /* of each of them */
    uint32_t signature; /* marks the messages of a call; of a collective, of the one that is made now */
    uint64_t hash, history; /* of a collective that is made now: of the communicator's with it */
    bool long_messages; /* some message is too long to be copied if it lies in shared memory */
    bool lends; /* all long messages are lent */
    bool watches; /* this rank only sends, and all its long messages are watched */
    struct tt_call call; /* with the pointers of the first one */
    struct tt_prepared *prepared; /* that was bound to it last, and may have been to others since; or NULL */
    struct tt_call_record record;
    uint32_t nmoves, nmsg_counts;
    struct tt_move *moves; /* one allocation with msgs and msg_counts. NULL: the executor runs the call */
    struct tt_fast_msg *msgs;
    struct tt_msg_count *msg_counts;
    struct tt_arrays arrays; /* of call.blocks */
};

/* The arguments of a call without a stream.
 *
 * The order of the members prevents store-forwarding stalls: a compiler merges compares of two adjacent words
 * into one 8-byte load, which the processor cannot forward from the two 4-byte stores just before. So type
 * and op, and op and root, are not adjacent in the order of struct tt_call. The alignment keeps the struct in
 * one cache line. Otherwise a store that clears it may lie across two pages, which costs 6 ns at every call
 * of a thread whose stack stands so. */
struct tt_call_args {
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
_Static_assert(sizeof(struct tt_call_args) == 64, "the arguments of a call fill a line");

/* The key of a call: root or peer, operation, type, collective, and whether it is in place. 0: such a call is
 * never cached. */
static inline uint64_t tt_cached_key(const struct tt_call_args *args)
{
    bool plain = args->op < 256 && (unsigned)args->type < 256 && args->root >= 0;
    uint32_t low = args->op << 16 | (uint32_t)args->type << 8 | (uint32_t)args->collective;
    return plain ? (uint64_t)args->root << 32 | low | (args->send == args->recv ? 3u << 30 : 1u << 31) : 0;
}

/* The one entry that may hold this call. */
static inline struct tt_cached *tt_cached_at(const struct tt_comm *comm, uint64_t key, uint64_t count)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u ^ count * 0xc2b2ae3d27d4eb4fu;
    hash = (hash ^ hash >> 32) * 0x9e3779b97f4a7c15u;
    return &comm->cached_calls[hash >> 58];
}
_Static_assert(TT_CACHED_CALLS == 1 << 6, "six bits of the hash choose an entry");

/* True if a call may start at once: the communicator has not ended, no refusal is pending, and nothing is
 * queued before it. */
static inline bool tt_cached_may_start(const struct tt_comm *comm)
{
    return atomic_load_explicit(&comm->queued, memory_order_acquire) == 0 && comm->known &&
           atomic_load_explicit(comm->endpoint->ended, memory_order_acquire) == 0;
}

static inline bool tt_cached_is_shared(const struct tt_cached *cached, const void *pointer)
{
    const struct tt_endpoint *e = cached->call.comm->endpoint;
    return (uintptr_t)pointer - e->shared_from < e->shared_bytes;
}

/* True if the source of a watched move has changed since its last call: the program rewrites it between
 * calls, as most do. It compares a few words. */
static inline bool tt_move_is_rewritten(struct tt_move *m, const uint8_t *src)
{
    enum { WORDS = 4 };
    uint64_t fingerprint = 0, word, before = m->fingerprint, gap = (m->bytes - sizeof word) / (WORDS - 1);
    for (uint64_t i = 0; i < WORDS; i++) {
        memcpy(&word, src + i * gap, sizeof word);
        fingerprint = (fingerprint << 7 | fingerprint >> 57) + word;
    }
    m->fingerprint = fingerprint;
    return fingerprint != before;
}

/* True if all watched moves are to be copied, since the program has rewritten their sources. */
bool tt_cached_copies(const struct tt_cached *cached, const struct tt_call_args *args);

/* True if the fast path may run this call with these pointers. */
static inline bool tt_cached_is_fast(const struct tt_cached *cached, const struct tt_call_args *args)
{
    bool shares = tt_cached_is_shared(cached, args->send);
    if (cached->pushes)
        return !cached->exceeds_post || (shares && tt_cached_is_shared(cached, args->recv));
    return cached->moves != NULL && (!cached->long_messages || (cached->lends && shares) ||
                                        !(shares || tt_cached_is_shared(cached, args->recv)) ||
                                        (cached->watches && tt_cached_copies(cached, args)));
}

/* Advances the signature of a collective to the call that starts now. */
static inline void tt_cached_renew(struct tt_cached *cached)
{
    cached->history = tt_call_history(cached->call.comm, cached->hash);
    cached->signature = tt_hash_short(cached->history);
}

/* Stores a call that has run as this operation, alone and on no stream, if such a call may be cached. Without
 * memory for it nothing is stored. */
void tt_cache_store(const struct tt_call *call, const struct tt_op *op);
/* The entry of this call; NULL if there is none, or if anything is out of the ordinary: then the call takes
 * the slow path, which says what is wrong. */
struct tt_cached *tt_cache_find(const struct tt_call_args *args);
void tt_cache_free(struct tt_comm *comm);

/* Runs a call on the fast path (fast_path.c). */
tutti_status tt_fast_run(const struct tt_call_args *args, struct tt_cached *cached);
/* Sends or receives one message of a group. A send does not wait. False if it cannot be done now; then
 * nothing is done. */
bool tt_fast_message(const struct tt_call_args *args, struct tt_cached *cached);
/* Writes the whole call: the cached one with the pointers of args. */
void tt_cached_call_with(
    const struct tt_call_args *args, const struct tt_cached *cached, struct tt_call *call);

#endif
