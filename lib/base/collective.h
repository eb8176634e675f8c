/* SPDX-License-Identifier: BSD-3-Clause */
/* collective.h: what each collective means, one table row each.
 *
 * The row is read by the argument checks, by bind (which cells exist at this rank), by the verifier (what
 * must be true at the end) and by the selection. Everything a collective *is* stands here; everything an
 * algorithm *does* stands in a schedule.
 *
 * Chunk spaces. A schedule has `chunks` chunks, numbered alike on all ranks. IN(c) and OUT(c) are the same
 * chunk before and after, but for exchanges: there IN(c) is what this rank gives rank c, and OUT(c) what it
 * gets from rank c. "In place" always means that IN(c) and OUT(c) are the same memory. */
#ifndef TT_BASE_COLLECTIVE_H
#define TT_BASE_COLLECTIVE_H
#include <stdbool.h>
#include <stdint.h>

enum tt_collective {
    TT_ALL_REDUCE,
    TT_REDUCE_SCATTER,
    TT_ALL_GATHER,
    TT_BROADCAST,
    TT_REDUCE,
    TT_BARRIER, /* IN(0) is a token that the library supplies */
    TT_ALL_GATHER_V,
    TT_ALL_TO_ALL,
    TT_GATHER,
    TT_SCATTER,
    TT_REDUCE_SCATTER_V,
    TT_ALL_TO_ALL_V,
    TT_GATHER_V,
    TT_SCATTER_V,
    TT_P2P_SEND, /* one step; key.root is the peer */
    TT_P2P_RECV,
    TT_COLLECTIVES
};

/* Which chunks of a buffer a rank may touch. */
enum tt_reach {
    TT_REACH_NONE,
    TT_REACH_OWN, /* the chunks of this rank's block: chunk c belongs to rank c * n / chunks */
    TT_REACH_ALL,
    TT_REACH_ROOT, /* all chunks at the root, none elsewhere */
};

/* The content that OUT(c) must have at the end, wherever OUT(c) exists. */
enum tt_result {
    TT_RESULT_NONE,
    TT_RESULT_REDUCED, /* every rank's IN(c), each once */
    TT_RESULT_OWNER, /* IN(c) of the rank that owns chunk c */
    TT_RESULT_ROOT, /* IN(c) of the root (for receive: of the peer) */
    TT_RESULT_EXCHANGED, /* at rank r: IN(r) of rank c; there are n chunks */
};

/* How long the blocks are. */
enum tt_counts {
    TT_COUNTS_EVEN, /* one vector, or n blocks of one length */
    TT_COUNTS_SHARED, /* one count per rank, known to all ranks */
    TT_COUNTS_OWN, /* a rank knows only the counts of what it sends and receives */
};

/* How the pointers of an in-place call relate. */
enum tt_in_place {
    TT_IN_PLACE_NEVER,
    TT_IN_PLACE_SAME, /* recv == send */
    TT_IN_PLACE_OWN_BLOCK, /* the smaller buffer is the own block of the larger one */
};

/* busbw = algbw * factor; n ranks (the definition of nccl-tests' PERFORMANCE.md). */
enum tt_bus { TT_BUS_ONE, TT_BUS_SHARE /* (n-1)/n */, TT_BUS_TWO_SHARES /* 2(n-1)/n */ };

struct tt_collective_row {
    const char *name;
    uint8_t in, out; /* enum tt_reach */
    uint8_t result; /* enum tt_result */
    uint8_t counts; /* enum tt_counts */
    uint8_t in_place; /* enum tt_in_place */
    uint8_t bus; /* enum tt_bus */
    bool rooted; /* key.root means something */
    bool blocks; /* the vector is n blocks, one per rank: chunks is a multiple of n */
    bool p2p; /* numbered per pair, not per communicator */
};

extern const struct tt_collective_row tt_collectives[TT_COLLECTIVES];

/* TT_COLLECTIVES when there is none of that name. */
enum tt_collective tt_collective_find(const char *name);
/* The name that is most like this one. */
const char *tt_collective_nearest(const char *name);

/* May rank `me` touch chunk `chunk` of a buffer with this reach? */
bool tt_reach_has(enum tt_reach reach, int n, int me, int root, uint32_t chunks, uint32_t chunk);

#endif
