/* SPDX-License-Identifier: BSD-3-Clause */
/* call_cache.h: the cache of calls that were made before.
 *
 * A program calls the same collective with the same count again and again. The first such call takes the slow
 * path: check, prepare, bind. The cache keeps the result, so that the next call has only its pointers checked
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

enum {
    TT_CACHED_CALLS = 64,
    TT_LOAN_BYTES = 4 << 10, /* from here on a wait for the reader costs less than two copies in caches */
    TT_PUSH_BYTES = 1 << 10 /* two shots, where nobody need wait for that: what is longer is lent */
};

/* How a move sends its message: set by compile.c, read by send() and await_readers() of
 * fast_path.c. What is lent lies in shared memory, and its receiver reads it in place; what lies elsewhere is
 * posted in each case. */
enum tt_sending {
    TT_POST, /* it is copied */
    TT_LEND_OPERAND, /* two shots: lent; the sum that comes back says that it was read */
    TT_LEND, /* lent, and the sender waits until it was read */
    TT_LEND_OR_POST, /* the same, but posted if the program has rewritten the source since the last call */
    TT_SEND_RESULT, /* two shots: at the peer already, or else lent if it is long */
};

/* The calls that the fast path may run, by where their buffers lie: set by compile.c, read at each call by
 * tt_cached_is_fast(). A message is long if to read it in place, out of shared memory, takes less time than
 * to copy it. */
enum tt_fast_memory {
    TT_FAST_NEVER, /* the call is not compiled */
    TT_FAST_ANYWHERE, /* no message is long */
    TT_FAST_PRIVATE, /* neither buffer is shared */
    TT_FAST_LENT, /* send is shared, and all long messages are lent from there; or neither is */
    TT_FAST_REWRITTEN, /* neither is shared, or this rank only sends, and all sources have been rewritten */
    TT_FAST_SHARED, /* both are: two shots with messages that are longer than post takes */
};

/* The parts of the fast path that a call takes: set by compile.c, read by tt_fast_run() and what runs below
 * it. */
enum tt_fast_way {
    TT_FAST_NOWAIT, /* posts, and receives of one message each: try_nowait() may run it */
    TT_FAST_COPIES, /* no rank uses another's memory */
    TT_FAST_LENDS, /* ranks read each other's memory, and must not leave meanwhile */
    TT_FAST_PUSHES, /* an all_reduce by two shots: and sums are stored at the peers that want them */
};

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
    uint8_t sending; /* enum tt_sending */
    uint8_t reply_to; /* TT_SEND_RESULT: the index of the message that brought the receiver's operand */
    bool alone; /* it receives one message */
    uint64_t fingerprint; /* of the source at the last call, where it matters whether that was rewritten */
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
    uint8_t memory; /* enum tt_fast_memory */
    uint8_t way; /* enum tt_fast_way */
    int64_t in_place_offset; /* in place: recv - send */
    uint32_t alignment; /* the call's pointers must be multiples of it */
    bool own_counts; /* each message is marked with its length, too: ranks know only their own counts */
    uint64_t fast_calls; /* calls that took the fast path */
    struct tt_call_traffic cost; /* of each of them */
    uint32_t signature; /* marks the messages of a call; of a collective, of the one that is made now */
    uint64_t hash, history; /* of a collective that is made now: of the communicator's with it */
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
 * one cache line. Otherwise a store that clears it may lie across two pages, at every call of a thread whose
 * stack stands so (perf/results/README.md, "Read as it was written"). */
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
    return &comm->calls.cached[hash >> 58];
}
_Static_assert(TT_CACHED_CALLS == 1 << 6, "six bits of the hash choose an entry");

/* True if a call may start at once: nothing has ended, no refusal is pending, and nothing is
 * queued before it. */
static inline bool tt_cached_may_start(const struct tt_comm *comm)
{
    return atomic_load_explicit(&comm->streams.queued, memory_order_acquire) == 0 && comm->known &&
           tt_endpoint_is_calm(comm->endpoint);
}

static inline bool tt_cached_is_shared(const struct tt_cached *cached, const void *pointer)
{
    const struct tt_endpoint *e = cached->call.comm->endpoint;
    return (uintptr_t)pointer - e->shared_from < e->shared_bytes;
}

/* True if the source of a move has changed since its last call: the program rewrites it between calls, as
 * most do. It compares a few words. */
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

/* True if the program has rewritten the sources of all messages that are long enough to be lent. */
bool tt_cached_is_rewritten(const struct tt_cached *cached, const struct tt_call_args *args);

/* True if the fast path may run this call with these pointers. */
static inline bool tt_cached_is_fast(const struct tt_cached *cached, const struct tt_call_args *args)
{
    if (cached->memory == TT_FAST_ANYWHERE)
        return true;
    bool send = tt_cached_is_shared(cached, args->send), recv = tt_cached_is_shared(cached, args->recv);
    switch ((enum tt_fast_memory)cached->memory) {
    case TT_FAST_PRIVATE:
        return !send && !recv;
    case TT_FAST_LENT:
        return send || !recv;
    case TT_FAST_REWRITTEN:
        return (!send && !recv) || tt_cached_is_rewritten(cached, args);
    case TT_FAST_SHARED:
        return send && recv;
    default:
        return false;
    }
}

/* Advances the signature of a collective to the call that starts now. */
static inline void tt_cached_renew(struct tt_cached *cached)
{
    cached->history = tt_call_history(cached->call.comm, cached->hash);
    cached->signature = tt_hash_short(cached->history);
}

/* Compiles a call to moves, if it is small (compile.c). It gets none if there is no memory, or if some cells
 * are not contiguous. */
void tt_cached_compile(const struct tt_call *call, const struct tt_op *op, struct tt_cached *cached);

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
