/* SPDX-License-Identifier: BSD-3-Clause */
/* verify.h: the proof of a schedule.
 *
 * Nothing the builder derived is trusted: hazards are found again from the cells each step names, and the
 * verifier demands a dependency path for each conflict. Race-free and acyclic together mean that every
 * interleaving gives the same values, so one symbolic run in any legal order decides what the schedule
 * computes; symbols are ordered trees, hash-consed.
 *
 * A message that its receiver may overwrite (single_reader.h) is read by nobody else, and its cells are
 * written again before the next use.
 *
 * Acyclic in three modes, each with `slices` slices and two operations in flight:
 *   rendezvous  no buffering: a send ends only when its receive has begun, and the reverse;
 *   slots       message m of a (pair, direction) waits until message m - slots was received
 *               (transport.h; the executor gives each slice in flight slots of its own);
 *   in order    each rank's queues run in program order, a send posts, and its acknowledgement is awaited
 *               late, before the next write of what it reads: what a CUDA stream can run.
 *
 * Where that is more than 65536 nodes, one slice and one operation stand for all. Nothing is lost: who waits
 * for another slice or operation waits for an earlier one, so a cycle lies inside one, and all are the
 * same. */
#ifndef TT_BASE_VERIFY_H
#define TT_BASE_VERIFY_H
#include <stdbool.h>
#include <stdint.h>

#include "base/schedule.h"

enum tt_expected_tree {
    TT_TREE_ANY, /* of each chunk the same, wherever its result is */
    TT_TREE_ORDERED, /* also: operands in rank order, and the same tree for every chunk */
    TT_TREE_ORDERED_BY_CHUNK, /* as ordered, but each chunk may have another tree */
    TT_TREE_CANONICAL, /* also: it is the pass-up tree, every node rounded */
    TT_TREE_ROTATED, /* as ordered, but wraps around: from the root, or a fixed distance from the owner */
};

struct tt_proof {
    enum tt_expected_tree tree;
    int slots; /* of mode 2; 0: those of one slice in flight, TT_SLOTS_AHEAD */
    int slices; /* 0: two */
    /* Marks messages that their receivers may overwrite; NULL: tt_mark_single_readers, as the executor. */
    void (*mark)(const struct tt_schedule *schedule, bool *marks, uint32_t *readers);
};

struct tt_proof_report {
    char text[512]; /* the first thing found wrong; empty when proven */
    uint64_t messages; /* of all ranks, one slice */
    uint64_t chunks_sent; /* chunk transfers of all ranks */
    uint64_t chunks_sent_max; /* of the busiest rank */
    uint64_t chunks_touched; /* cells read and written by all ranks */
    uint32_t steps_max, tmp_max;
};

/* schedules[n], rank order, one operation (in_place may differ by rank). True if proven. */
bool tt_verify(const struct tt_schedule *const *schedules, int n, const struct tt_proof *proof,
    struct tt_proof_report *report);

/* The value a test operator must find in OUT(chunk) of `rank`: evaluates the symbolic result with a user's
 * combination. leaf(rank, chunk) gives IN's value. For the Merkle operator: same value = same operands in the
 * same order. Each call runs all schedules once. False if they cannot run, or the rank has no such cell. */
typedef uint64_t (*tt_leaf_fn)(int rank, uint32_t chunk, void *context);
typedef uint64_t (*tt_combine_fn)(uint64_t left, uint64_t right, void *context);
bool tt_evaluate(const struct tt_schedule *const *schedules, int n, int rank, uint32_t chunk, tt_leaf_fn leaf,
    tt_combine_fn combine, void *context, uint64_t *value);

#endif
