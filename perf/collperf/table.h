/* SPDX-License-Identifier: BSD-3-Clause */
/* table.h: the collectives that collperf knows, one row each.
 *
 * A row says how sizes relate (nccl-tests' meaning: `bytes` is the larger of what a rank sends and receives),
 * how the pointers of an in-place call relate, where each element of the result comes from, and which call to
 * make. Everything else in perf/ is written once over these rows. */
#ifndef PERF_TABLE_H
#define PERF_TABLE_H
#include <stdbool.h>
#include <stdint.h>

#include "tutti.h"
#include "values.h"

enum perf_in_place {
    PERF_IN_PLACE_NEVER,
    PERF_IN_PLACE_SAME, /* recv == send */
    PERF_IN_PLACE_SEND_IN_RECV, /* send is the own block of recv */
    PERF_IN_PLACE_RECV_IN_SEND, /* recv is the own block of send */
};

/* The places of the result: as a whole it is at one rank or spread over all, is at every rank, or is another
 * one at every rank. From it follows what must move, see perf_point_pass. */
enum perf_result_at { PERF_RESULT_NONE, PERF_RESULT_ONCE, PERF_RESULT_EVERYWHERE, PERF_RESULT_EACH };

/* A share of an operation's work: `ways` streams of `bytes` are read, combined and stored `targets` times. */
struct perf_pass {
    int ways, targets;
    uint64_t bytes;
    bool in_place; /* all in one buffer; the targets are the sources, */
    bool behind; /* or lie behind them */
};

struct perf_collective;

/* One call, seen from one rank. */
struct perf_point {
    const struct perf_collective *collective;
    const struct perf_type *type;
    const struct perf_op *op; /* NULL where nothing is reduced */
    tutti_op code; /* of it, as the call takes it */
    int root; /* -1 where there is none */
    tutti_stream stream; /* of the call */
    int n, rank;
    uint64_t count; /* the count argument of the call: elements; of the v-form, all of them */
    uint64_t send_count; /* elements read from `send` */
    uint64_t recv_count; /* elements written to `recv`; 0 where this rank has no result */
    uint64_t bytes; /* as printed */
    uint64_t own_first; /* where the own block starts in the larger buffer, in elements */
    const size_t *counts; /* of all ranks, for the v-forms; twice, to begin at any rank */
};

/* `count` elements of the result come from elements first.. of what `rank` gave, or, with rank -1, of the
 * reduction. */
struct perf_run {
    int rank;
    uint64_t first, count;
};

struct perf_collective {
    const char *name;
    bool reduces, rooted, moves; /* moves: it carries data, so that sizes and types mean something */
    bool algorithms; /* the library has some to choose from */
    uint8_t in_place; /* enum perf_in_place */
    uint8_t least_ranks;
    uint8_t result_at; /* enum perf_result_at */
    double (*factor)(int n); /* busbw = algbw * factor */
    void (*shape)(struct perf_point *p, uint64_t elements);
    struct perf_run (*source)(const struct perf_point *p, int block); /* block 0 .. n - 1; count 0: none */
    tutti_status (*call)(const struct perf_point *p, const void *send, void *recv, tutti_comm *comm);
};

/* After the collectives: an all_reduce that is made of two of them, as a program could make it. No library
 * should be slower than that (Hunold and Carpen-Amarie, "Autotuning MPI Collectives using Performance
 * Guidelines", 2018), and `make bench` asks. */
enum { PERF_COLLECTIVES = 15, PERF_COMPOSED = 2 };
extern const struct perf_collective perf_collectives[PERF_COLLECTIVES + PERF_COMPOSED];

/* Finds a collective by its name, or one of elsewhere (suggest.h); NULL if there is none. */
const struct perf_collective *perf_collective_find(const char *name);

/* Fill the counts of `p` (whose other fields are set) for a size in bytes; never less than one element,
 * unless 0 is asked. `counts` has room for 2n entries and must live as long as the point. */
void perf_point_shape(struct perf_point *p, uint64_t bytes, size_t *counts);

/* Bytes of the input that this rank gives: they lie at `send`. */
uint64_t perf_point_input(const struct perf_point *p);

/* Returns what each of the n ranks must read and write at least, when every rank reaches all memory and the
 * work is shared evenly: each element of an input is read once, each element of a result is written once. */
struct perf_pass perf_point_pass(const struct perf_point *p, bool in_place);

#endif
