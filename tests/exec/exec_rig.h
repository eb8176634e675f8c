/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_rig.h: all ranks of an operation, bound by hand, for tests of the executor.
 *
 * The rig does for every rank what bind.c does for one, with an operator that forgets nothing: a mix of
 * left and right that neither commutes nor associates, so that equal values mean the same operands in the
 * same order, element by element. It drives the ranks over the simulator, and plays a user without
 * patience: when an operation has ended at a rank, its result is checked at once and all its memory
 * overwritten, whoever may still be reading it. */
#ifndef TT_TESTS_EXEC_RIG_H
#define TT_TESTS_EXEC_RIG_H
#include <stdbool.h>
#include <stdint.h>

#include "base/schedule.h"
#include "exec/exec.h"
#include "transports/sim/sim.h"

enum rig_in_place { RIG_OUT_OF_PLACE, RIG_IN_PLACE, RIG_MIXED /* odd ranks in place */ };

/* The schedules of all ranks, and what they must compute. */
struct rig_plan {
    enum tt_collective collective;
    int algorithm, n, root;
    bool exact;
    enum rig_in_place in_place;
    struct tt_topology topology; /* some cache domains, for algorithms that need them */
    struct tt_schedule *schedules;
    const struct tt_schedule **list;
    struct rig_node *nodes; /* expressions; two that are equal have one number */
    uint32_t nnodes, *index, nindex;
    uint32_t *results; /* by rank and chunk: 1 + the number of the expression, once asked for */
};

/* May this row of the registry be tried on n ranks? False also where `exact` makes no difference. */
bool rig_serves(int algorithm, int n, bool exact);

struct rig_plan *rig_plan_create(
    enum tt_collective collective, int algorithm, int n, int root, bool exact, enum rig_in_place in_place);
void rig_plan_free(struct rig_plan *plan);
/* Find all expressions now, before a test spoils the schedules. */
void rig_plan_evaluate(struct rig_plan *plan);

struct rig_rank {
    struct tt_op op;
    uint8_t *memory, *in, *out, *tmp;
    uint64_t bytes, tmp_bytes;
    uint32_t slices_seen[TT_WINDOW];
    size_t *counts, *displs; /* v-forms: of the blocks this rank gives or gets */
    uint64_t *starts;
    bool begun, over;
};

/* One operation on all ranks. Exchanges round `count` up to equal blocks; v-forms cut `count` elements into
 * uneven blocks, placed out of order. */
struct rig_run {
    struct rig_plan *plan;
    uint64_t count, seed, in_extent, out_extent; /* elements; extents: how far the spaces reach */
    uint32_t slices, element_bytes;
    size_t *
        counts; /* v-forms: n uneven parts of count, twice, so that each rank has them in a turn of its own */
    struct rig_rank *ranks;
    uint64_t *expected; /* of the chunks asked for last, and ... */
    uint32_t *expected_of; /* ... the expressions they stand for, plus 1 */
};

struct rig_run *rig_run_create(struct rig_plan *plan, uint64_t count, uint32_t slices, uint64_t seed);
void rig_run_free(struct rig_run *run);

struct rig_world {
    struct tt_sim *sim;
    int n;
    uint64_t random, first_number;
    struct tt_endpoint **endpoints;
    uint64_t *next_send, *next_recv; /* n of each rank */
    struct rig_run **runs; /* in this order on each rank */
    int nruns, *current; /* by rank: the one it is in */
    bool strict; /* also: whoever was not named has nothing to do (costs time) */
    bool sampled; /* only the first and last chunk are evaluated; all others must be the same (many ranks) */
    uint64_t calls, tmp_poisoned, call_bytes_max; /* of progress; slices whose TMP was poisoned late; bytes */
    struct tt_link_ops ops; /* the simulator's; tests may replace functions before the run */
    char failure[320]; /* the first; "" if there is none */
};

struct rig_settings {
    struct tt_sim_params sim;
    uint64_t first_number;
    bool map;
};

/* A world where everything may go otherwise, by seed. Slices in flight together need slots apart, so there
 * are two, four, six or eight. */
struct rig_settings rig_rough(int n, uint64_t seed);

struct rig_world *rig_world_create(const struct rig_settings *settings);
void rig_world_free(struct rig_world *world);
/* Run all operations on all ranks until nothing happens any more. True if all ended, and well; else
 * `failure`. */
bool rig_world_run(struct rig_world *world, struct rig_run **runs, int nruns);
/* The same in pieces: after drive some ranks may not be done. */
void rig_world_load(struct rig_world *world, struct rig_run **runs, int nruns);
void rig_world_drive(struct rig_world *world);
void rig_begin(struct rig_world *world, int rank);
enum tt_progress rig_progress(struct rig_world *world, int rank);

uint64_t rig_merkle(uint64_t left, uint64_t right);
void rig_fold_chain(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor);
void rig_fold_tree(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor);
void rig_spread(
    void *dst, void *also, int past, const void *const *sources, int k, size_t count, uint32_t divisor);

/* Between the two files of the rig. */
enum { RIG_POISON = 0xa5 };
extern uint64_t rig_folded_bytes; /* that the folds above have written */
void rig_fail(struct rig_world *w, const struct rig_run *run, int rank, const char *what, uint64_t at);
/* The operation has ended at this rank: check its result, then overwrite all it had. */
void rig_check(struct rig_world *w, struct rig_run *run, int rank);

#endif
