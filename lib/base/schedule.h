/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule.h: an algorithm as data.
 *
 * A schedule is what one rank does in one collective: a list of steps with five verbs. A step names cells
 * (a buffer and a range of chunks), never a pointer, a byte count or a type, so one schedule serves every
 * size and type, can be printed, proven, simulated, predicted in time and copied to a GPU. Rejected: pointers
 * in steps (libNBC), one opcode per fused combination (MSCCL++), dependencies written by hand (MPICH).
 *
 * The builder derives dependencies from hazards (last writer, readers since), numbers the messages of each
 * (peer, direction), and keeps the first error until tt_schedule_end, so that a generator reads as prose.
 *
 * A schedule fixes the expression: operands, order, roundings. An executor chooses only how bytes move. */
#ifndef TT_BASE_SCHEDULE_H
#define TT_BASE_SCHEDULE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "base/topology.h"
#include "tutti.h"

enum tt_verb {
    TT_VERB_SEND, /* send(peer, src) */
    TT_VERB_RECV, /* recv(peer, dst) */
    TT_VERB_RECV_REDUCE, /* dst = src (+) incoming, or incoming (+) src with TT_LEFT */
    TT_VERB_REDUCE, /* dst = left (+) right */
    TT_VERB_COPY, /* dst = src */
    TT_VERBS
};

enum tt_buffer { TT_IN, TT_OUT, TT_TMP, TT_BUFFERS };

/* Flags of a step. Bits 4 to 7 are the queue: the steps of a queue may run in program order, as on a stream
 * of a GPU. */
enum {
    TT_LEFT = 1, /* the incoming value is the left operand */
    TT_FINAL = 2, /* completes the result of these chunks: an average divides here, once */
    TT_FOLD_TREE =
        4, /* the fold is the canonical tree, every node rounded; else a chain, rounded once at the store */
    TT_QUEUE_SHIFT = 4,
};

enum {
    TT_FOLD_MAX = 8, /* recv_reduces in one fold */
    TT_STEPS_MAX = 1 << 22, /* a schedule longer than this is refused */
    TT_NONE = 0x7fffffff, /* "no rank" */
    TT_TEXT_VERSION = 1,
};

/* One step: 32 bytes, no pointer (a GPU reads the same array). `ordinal` is the number of this message
 * among those of this schedule to (or from) this peer. TT_VERB_REDUCE has no peer and no message: `peer`
 * is TT_NONE, `right_chunk` and `right_buffer` name the right operand and src the left one. A fold is
 * `fold_count` consecutive recv_reduces with the same dst and src. Its operands, in order: the incoming
 * values of the steps marked TT_LEFT, src, the incoming values of the others. The first step carries the
 * dependencies of all. */
struct tt_step {
    uint8_t verb;
    uint8_t flags;
    uint8_t dst_buffer;
    uint8_t src_buffer : 4;
    uint8_t right_buffer : 4;
    int32_t peer; /* rank in the communicator */
    uint32_t dst_chunk;
    uint32_t src_chunk;
    uint32_t nchunks;
    union {
        uint32_t ordinal;
        uint32_t right_chunk;
    };
    uint32_t dep_first; /* deps[dep_first .. dep_first + dep_count) are indices of earlier steps */
    uint16_t dep_count;
    uint8_t fold_index;
    uint8_t fold_count; /* 1 when not in a fold */
};
_Static_assert(sizeof(struct tt_step) == 32, "a step is at most 32 bytes");

/* A range of `count` consecutive chunks of one buffer. TMP(i) is scratch for chunk i mod chunks. */
struct tt_cells {
    enum tt_buffer buffer;
    uint32_t chunk;
    uint32_t count;
};

static inline struct tt_cells tt_in(uint32_t chunk)
{
    return (struct tt_cells){ TT_IN, chunk, 1 };
}
static inline struct tt_cells tt_out(uint32_t chunk)
{
    return (struct tt_cells){ TT_OUT, chunk, 1 };
}
static inline struct tt_cells tt_tmp(uint32_t cell)
{
    return (struct tt_cells){ TT_TMP, cell, 1 };
}
static inline struct tt_cells tt_range(enum tt_buffer buffer, uint32_t chunk, uint32_t count)
{
    return (struct tt_cells){ buffer, chunk, count };
}

struct tt_schedule;

/* An ordered subset of the ranks of a communicator, seen from one member. ranks NULL: all, in order. */
struct tt_team {
    int n;
    int me; /* index in the team */
    const int *ranks;
};
/* Writes the steps of the team's member `me`; root is an index in the team. */
typedef void (*tt_generator)(struct tt_schedule *s, const struct tt_team *team, int root);

/* The communicator rank of team member `index`; indices wrap modulo n, also below zero. */
int tt_team_rank(const struct tt_team *team, int index);

/* All that a schedule depends on. It is shared by the ranks but for `me` and `in_place`. */
struct tt_key {
    uint8_t collective; /* enum tt_collective */
    uint8_t algorithm; /* index in the registry */
    uint8_t in_place;
    uint8_t exact;
    int32_t n;
    int32_t me;
    int32_t root; /* of p2p: the peer; 0 where there is no root */
    const struct tt_topology *topology; /* of the communicator; NULL: one domain */
};

struct tt_schedule {
    struct tt_key key;
    const char *algorithm; /* name, for texts */
    uint32_t chunks; /* set by the generator before its first step */
    uint32_t max_chunks; /* the longest message of any rank, in chunks: 1, or what the generator says */
    uint32_t tmp_cells; /* cells TMP(0 .. tmp_cells) exist */
    uint32_t nsteps, ndeps;
    struct tt_step *steps;
    uint32_t *deps;
    uint32_t *followers; /* steps that wait for i: followers[follower_first[i] .. follower_first[i + 1]) */
    uint32_t *follower_first; /* nsteps + 1 entries */
    uint32_t *sends, *recvs; /* messages per slice to and from each of the n ranks */
    bool lent; /* those are the caller's, and NULL once ended */
    struct tt_builder *builder; /* NULL once ended */
};

/* Begin an empty schedule; on failure *schedule is untouched. The generator calls tt_chunks first. */
tutti_status tt_schedule_begin(struct tt_schedule *schedule, const struct tt_key *key, const char *algorithm);
/* The same with memory for `sends` and `recvs` that the caller lends: 2n zeros, which are zeros again at the
 * end, when the schedule loses them. To have it anew for each schedule would take most of the time, and of
 * the memory, where those of very many ranks are built. */
tutti_status tt_schedule_begin_lent(
    struct tt_schedule *schedule, const struct tt_key *key, const char *algorithm, uint32_t *counts);
/* End it: returns the first error of the whole build (a bad range, no memory, more than TT_STEPS_MAX
 * steps). On error the schedule is already empty. */
tutti_status tt_schedule_end(struct tt_schedule *schedule);
void tt_schedule_free(struct tt_schedule *schedule);

void tt_chunks(struct tt_schedule *s, uint32_t chunks);
/* The longest message that any rank sends, in chunks; ranks size slices by it, so all must say the same. A
 * longer one is an error. In a sub-schedule it says nothing: the whole has said it. */
void tt_max_chunks(struct tt_schedule *s, uint32_t max_chunks);
void tt_queue(struct tt_schedule *s, int queue); /* queue of the steps to come; 0 at first */
void tt_order_edge(
    struct tt_schedule *s); /* the next step waits for the last one, though they share no cell */
/* Each send to come waits for the last one to the same peer, unless that is the step before it: where the
 * receiver needs that first, though this rank has both. */
void tt_in_turn(struct tt_schedule *s, bool in_turn);
void tt_final(struct tt_schedule *s, bool final); /* the reducing steps to come complete their chunks */

void tt_send(struct tt_schedule *s, int peer, struct tt_cells src);
void tt_recv(struct tt_schedule *s, int peer, struct tt_cells dst);
/* dst = combination of src and what comes from peer; `left`: the incoming value is the left operand. dst
 * may be src. */
void tt_recv_reduce(struct tt_schedule *s, int peer, struct tt_cells dst, struct tt_cells src, bool left);
void tt_reduce(struct tt_schedule *s, struct tt_cells dst, struct tt_cells left, struct tt_cells right);
void tt_copy(
    struct tt_schedule *s, struct tt_cells dst, struct tt_cells src); /* nothing where dst is src in place */

/* The recv_reduces between begin and end become one n-way pass; all must have the same dst and src, at
 * most TT_FOLD_MAX. */
void tt_fold_begin(struct tt_schedule *s, bool tree);
void tt_fold_end(struct tt_schedule *s);

/* The reduction that undoes what `generate` spreads, a broadcast or an all_gather in which each chunk
 * comes to each rank once: sends become recv_reduces, receives sends, the last step comes first. Begins
 * with tt_chunks. */
void tt_reverse(struct tt_schedule *s, const struct tt_team *team, int root, enum tt_collective spreads,
    tt_generator generate);

/* A part of a schedule that a generator writes for a team of its own, as in a composition: to it, these
 * cells are its IN, its OUT and all its chunks. */
struct tt_sub_schedule {
    enum tt_collective collective; /* what the part is to its generator */
    struct tt_cells in, out; /* of one count, which the generator's tt_chunks divides */
    const int *map; /* if not NULL: its chunk c is chunk map[c] of these cells, whatever their count */
    uint32_t tmp; /* where its TMP begins, a multiple of the chunks of the whole */
    bool completes; /* what it reduces is complete; else its tt_final says nothing */
};
void tt_run_sub_schedule(struct tt_schedule *s, const struct tt_sub_schedule *sub, const struct tt_team *team,
    int root, tt_generator generate);

/* The build has failed; the first reason stays until tt_schedule_end tells it. */
void tt_spoil(struct tt_schedule *s, tutti_status status, const char *why);

/* The cell index under which hazards of (buffer, chunk) are kept: IN and OUT share one in place. Also the
 * verifier's. */
static inline bool tt_same_memory(const struct tt_key *key, unsigned a, unsigned b)
{
    return a == b || (key->in_place && a != TT_TMP && b != TT_TMP);
}

/* Text form, as snprintf: returns the bytes needed without the final 0. First line: "schedule VERSION
 * collective algorithm n N rank R root R chunks C in_place|out_of_place [domains TOPOLOGY]". */
size_t tt_schedule_print(const struct tt_schedule *s, char *text, size_t bytes);

#endif
