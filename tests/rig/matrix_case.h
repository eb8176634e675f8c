/* SPDX-License-Identifier: BSD-3-Clause */
/* matrix_case.h: one call of any collective at one rank, for the matrix of the public API: what it sends from
 * where, what it must find afterwards, and what must be as it was.
 *
 * A buffer has no block, one (a vector, or the own block) or one of each rank; blocks may be of different
 * length, and apart. Everything follows from the case alone, so each rank knows what all others gave. */
#ifndef TT_TESTS_MATRIX_CASE_H
#define TT_TESTS_MATRIX_CASE_H
#include "ranks.h"
#include "ranks_values.h"

enum matrix_collective {
    ALL_REDUCE,
    REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALL_GATHER,
    ALL_GATHER_V,
    ALL_TO_ALL,
    GATHER,
    SCATTER,
    REDUCE_SCATTER_V,
    ALL_TO_ALL_V,
    GATHER_V,
    SCATTER_V,
    SHIFT, /* a send to the next rank and a receive from the one before, in a group */
    BARRIER,
    COLLECTIVES
};

/* What a rank has in a buffer. */
enum matrix_holds {
    HOLDS_NONE,
    HOLDS_VECTOR,
    HOLDS_OWN, /* its block */
    HOLDS_ALL, /* a block of each rank */
};

struct matrix_shape {
    const char *name;
    uint8_t send, recv; /* enum matrix_holds */
    bool send_at_root, recv_at_root; /* and nowhere else */
    bool reduces, v;
    bool send_displs, recv_displs; /* the call takes them */
    bool in_place;
};
extern const struct matrix_shape matrix_shapes[COLLECTIVES];

enum { SENT, RECEIVED, SIDES };

struct matrix_side { /* of a buffer at this rank */
    int blocks;
    size_t counts[RANKS_MAX], displs[RANKS_MAX], extent; /* elements */
    bool gaps; /* blocks are out of order, with gaps behind each */
    uint8_t *data;
    struct ranks_buffer *buffer; /* in place both sides have one */
};

struct matrix_case {
    enum matrix_collective collective;
    struct ranks_vector vector;
    size_t count, offset; /* elements; bytes behind an aligned address */
    int root, n, rank;
    bool in_place, registered;
    tutti_stream stream;
    struct matrix_side sides[SIDES];
};

/* With the fields up to `registered` set: how the buffers are cut. */
void matrix_cut(struct matrix_case *c);
/* Place both buffers, guards and poison, and fill what is sent. [send, recv][malloc, mem_alloc] */
void matrix_prepare(struct matrix_case *c, struct ranks_buffer (*buffers)[2]);
tutti_status matrix_call(const struct matrix_case *c, tutti_comm *comm);
/* All that must be there, and that nothing else was touched; `expected` is room for the longest block. */
void matrix_verify(struct ranks_me *me, const struct matrix_case *c, uint8_t *expected);

#endif
