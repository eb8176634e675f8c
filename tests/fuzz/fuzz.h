/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz.h: public calls at random, by one rank or by several threads, beside a plain reference.
 *
 * All follows from a seed. Steps are numbered; a few dozen of them are an episode, which begins with nothing
 * and leaves nothing: so a failure is repeated from its own episode on. A step has a number that all its
 * ranks share, from which each draws alike what is called, and one of its own, from which it draws where its
 * buffers lie. Each rank has two pools of memory, and a shadow of each that only the reference writes: when
 * nothing is under way the two are equal, byte for byte, whatever was called. */
#ifndef TT_TESTS_FUZZ_H
#define TT_TESTS_FUZZ_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/rig/ranks_values.h"
#include "tutti.h"

enum {
    FUZZ_RANKS = 4,
    FUZZ_POOLS = 2, /* of malloc; of tutti_mem_alloc */
    FUZZ_ENDS = 3, /* the communicator, and children of it */
    FUZZ_OPS = 3, /* created ones, of each communicator */
    FUZZ_STREAMS = 3,
    FUZZ_DEAD = 8, /* handles that were closed */
    FUZZ_NAMES = 64,
};

/* Statuses that a call may return, as a set. */
#define FUZZ_MAY(status) (1u << ((status) > 0 ? 12 : -(int)(status)))
enum {
    FUZZ_OK = FUZZ_MAY(TUTTI_OK),
    FUZZ_ARGUMENT = FUZZ_MAY(TUTTI_INVALID_ARGUMENT),
    FUZZ_USAGE = FUZZ_MAY(TUTTI_INVALID_USAGE),
    FUZZ_UNSUPPORTED = FUZZ_MAY(TUTTI_UNSUPPORTED),
    FUZZ_GOING_ON = FUZZ_MAY(TUTTI_IN_PROGRESS),
};

struct fuzz_pool {
    uint8_t *data, *shadow;
    size_t room, used;
};

enum fuzz_op_kind { FUZZ_BUILT_IN, FUZZ_LEFT, FUZZ_RIGHT, FUZZ_BYTES, FUZZ_FACTOR };
struct fuzz_op {
    enum fuzz_op_kind kind;
    tutti_op id;
    tutti_type type; /* of the factor */
    uint32_t element_bytes;
    int factors[FUZZ_RANKS]; /* of each rank */
};

struct fuzz_end { /* one rank's end of a communicator; n 0: there is none; comm NULL: not for this rank */
    tutti_comm *comm;
    int n, rank;
    struct fuzz_op ops[FUZZ_OPS];
    int op_count;
};

struct fuzz_tally { /* how often each function was called */
    const char *names[FUZZ_NAMES];
    uint64_t counts[FUZZ_NAMES];
};

struct fuzz_rank {
    int n, rank;
    uint64_t step;
    struct fuzz_episode *episode;
    uint64_t random; /* this rank's own */
    struct fuzz_pool pools[FUZZ_POOLS];
    struct fuzz_end ends[FUZZ_ENDS];
    tutti_stream streams[FUZZ_STREAMS];
    int stream_count, in_streams; /* calls that streams have and nobody waited for */
    void *dead[FUZZ_DEAD]; /* handles that were closed, of any kind */
    uint32_t dead_count;
    char at[1024]; /* what it does */
    struct fuzz_tally tally;
};

struct fuzz_episode {
    uint64_t seed, number;
    int n;
    bool one_thread; /* has all ranks, and groups their calls */
    bool forced; /* an algorithm is */
    tutti_config config;
    char options[256];
    pthread_barrier_t meeting;
    tutti_id id;
    tutti_error errors[FUZZ_RANKS];
    struct fuzz_rank ranks[FUZZ_RANKS];
};

/* --- api.c */

/* Say what comes next. */
void fuzz_at(struct fuzz_rank *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the program, with words that say how to repeat it. */
_Noreturn void fuzz_fail(struct fuzz_rank *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Notes that `name` was called; the same status, which must be one of `may`, with words if it refuses. */
tutti_status fuzz_expect(struct fuzz_rank *me, const char *name, tutti_status status, uint32_t may);
/* Notes that `name` was called; it must be so. */
void fuzz_right(struct fuzz_rank *me, const char *name, bool right);
/* Wait for the other ranks, not through the library. */
void fuzz_meet(struct fuzz_rank *me);

/* --- memory.c */

void fuzz_pools_create(struct fuzz_rank *me, size_t room);
void fuzz_pools_free(struct fuzz_rank *me);
/* Bytes of a pool that nobody uses, behind a gap; reduced elements lie at a multiple of `align`. */
void *fuzz_place(struct fuzz_rank *me, struct fuzz_pool *pool, size_t bytes, size_t align);
/* Where the reference keeps what belongs there. */
void *fuzz_shadow(struct fuzz_rank *me, const void *at);
/* Nothing is under way: all memory is as the reference says. */
void fuzz_compare(struct fuzz_rank *me);
/* Wait for the streams, compare, and forget where buffers were, so that each pool has its room again. */
void fuzz_settle(struct fuzz_rank *me);

/* --- call.c */

enum fuzz_what {
    FUZZ_BARRIER,
    FUZZ_ALL_REDUCE,
    FUZZ_REDUCE,
    FUZZ_BROADCAST,
    FUZZ_REDUCE_SCATTER,
    FUZZ_ALL_GATHER,
    FUZZ_ALL_TO_ALL,
    FUZZ_GATHER,
    FUZZ_SCATTER,
    FUZZ_REDUCE_SCATTER_V,
    FUZZ_ALL_GATHER_V,
    FUZZ_ALL_TO_ALL_V,
    FUZZ_GATHER_V,
    FUZZ_SCATTER_V,
    FUZZ_COLLECTIVES,
    FUZZ_SEND = FUZZ_COLLECTIVES,
    FUZZ_RECV,
    FUZZ_CALLS
};
enum fuzz_part { FUZZ_NONE, FUZZ_VECTOR, FUZZ_OWN, FUZZ_ALL };
struct fuzz_row {
    const char *name;
    enum fuzz_part in, out;
    bool in_at_root, out_at_root, reduced, rooted, blocks; /* blocks: a v-form */
    bool in_place;
};
extern const struct fuzz_row fuzz_rows[FUZZ_CALLS];

struct fuzz_call {
    enum fuzz_what what;
    const struct fuzz_end *end;
    const struct fuzz_op *created; /* NULL: built in */
    tutti_comm *comm;
    tutti_type type;
    tutti_op op;
    int root; /* or the peer */
    size_t count;
    const uint8_t *send;
    uint8_t *recv;
    const size_t *send_counts, *send_displs, *recv_counts, *recv_displs; /* what is passed */
    tutti_stream stream;
    size_t counts[FUZZ_RANKS][FUZZ_RANKS]; /* elements from rank to rank; v-forms with shared ones: [0] */
    size_t arrays[4][FUZZ_RANKS];
    uint64_t data; /* seed of its values */
};
tutti_status fuzz_make(struct fuzz_rank *me, const struct fuzz_call *call);
/* The call in words. */
void fuzz_describe(struct fuzz_rank *me, const struct fuzz_call *call, const char *where);
bool fuzz_has(const struct fuzz_call *call, bool out); /* this rank has such a buffer */

/* --- legal.c */

/* A legal call of all ranks of an end, of at most `limit` bytes in each buffer. Drawn from `common`, but for
 * where the buffers lie. */
void fuzz_draw(
    struct fuzz_rank *me, const struct fuzz_end *end, uint64_t common, size_t limit, struct fuzz_call *call);
/* A message, from this rank or to it. */
void fuzz_draw_message(struct fuzz_rank *me, const struct fuzz_end *end, uint64_t common, size_t limit,
    bool out, int peer, struct fuzz_call *call);
/* Buffers get their values, and the shadow what must come of them. */
void fuzz_fill(struct fuzz_rank *me, const struct fuzz_call *call);

/* --- wrong.c */

/* Makes a legal call illegal; returns the statuses that it may have, 0 if it found no way to. */
uint32_t fuzz_spoil(struct fuzz_rank *me, struct fuzz_call *call);
/* A refused call, alone or among legal ones in a group; nothing was done. */
void fuzz_refusal(struct fuzz_rank *me, const struct fuzz_end *end);
/* Arguments from a dictionary, by a rank that is alone: whatever it says, it ends, and tells the truth. */
void fuzz_wild(struct fuzz_rank *me);
/* What is no communicator, stream or program. */
void *fuzz_junk(struct fuzz_rank *me);
/* What is no stream, and what it may be refused with. */
tutti_stream fuzz_junk_stream(struct fuzz_rank *me, uint32_t *may);

/* --- own.c: what a rank does by itself; nothing that others wait for */

void fuzz_own_step(struct fuzz_rank *me);

/* --- objects.c: streams, operators, memory, communicators of one rank */

void fuzz_streams(struct fuzz_rank *me);
void fuzz_memory(struct fuzz_rank *me);
void fuzz_operators(struct fuzz_rank *me);
void fuzz_communicators(struct fuzz_rank *me);
void fuzz_programs(struct fuzz_rank *me);
/* All ranks of an end make an operator, or destroy one. */
void fuzz_op_step(struct fuzz_rank *me, struct fuzz_end *end, uint64_t common);
void fuzz_bury(struct fuzz_rank *me, void *handle);

/* --- steps.c: what all ranks do together */

void fuzz_common_step(struct fuzz_rank *me, uint64_t common);
/* One thread has all ranks. */
void fuzz_one_thread_step(struct fuzz_episode *episode, uint64_t common);

/* --- ends.c: how communicators begin and end */

void fuzz_split(struct fuzz_rank *me, uint64_t common);
/* A child ends well, or the communicator by one of several ways. */
void fuzz_part(struct fuzz_rank *me, struct fuzz_end *end, uint64_t common);
void fuzz_finish(struct fuzz_rank *me, uint64_t common);
/* Memory, and the communicator, unless this rank has it already. */
void fuzz_begin(struct fuzz_rank *me, uint64_t common);

#endif
