/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_internal.h: what the parts of the verifier share.
 *
 * Steps of all ranks have one numbering, and so have messages: arrays indexed by these numbers keep a proof
 * of four million steps (a ring of 1024) within seconds and a few hundred megabytes. The parts run in the
 * order in which they are declared; each may rely on what the earlier ones have proven, and on nothing else.
 * */
#ifndef TT_BASE_VERIFY_INTERNAL_H
#define TT_BASE_VERIFY_INTERNAL_H
#include <stdbool.h>
#include <stdint.h>

#include "base/schedule.h"
#include "tests/proof/verify.h"

struct tt_verifier {
    const struct tt_schedule *const *schedules; /* n of them, rank order */
    int n;
    uint32_t chunks;
    uint32_t slots, slices;
    const struct tt_proof *proof;
    struct tt_proof_report *report;
    uint32_t total; /* steps of all ranks */
    uint32_t *base; /* step i of rank r has the number base[r] + i; n + 1 entries */
    uint32_t *rank_of; /* by step number */
    uint32_t *first_message; /* message k from p to q has the number first_message[p * n + q] + k */
    uint32_t *sender, *receiver; /* step numbers, by message number */
    uint32_t *order, ordered; /* step numbers in an order in which they may run; a fold by its first step */
};

/* What a step touches. Of a fold, every step says the same. */
struct tt_accesses {
    struct tt_cells read[2], write;
    int reads;
    bool writes;
};
struct tt_accesses tt_step_accesses(const struct tt_step *step);

static inline bool tt_step_receives(const struct tt_step *step)
{
    return step->verb == TT_VERB_RECV || step->verb == TT_VERB_RECV_REDUCE;
}

/* The place of a cell in arrays of 2 * chunks + tmp_cells: IN, OUT, TMP; in place OUT lies on IN. */
static inline uint32_t tt_cell_place(const struct tt_schedule *s, unsigned buffer, uint32_t chunk)
{
    if (buffer == TT_TMP)
        return 2 * s->chunks + chunk;
    return buffer == TT_OUT && !s->key.in_place ? s->chunks + chunk : chunk;
}

/* Which block of an uneven exchange lies in this cell: IN is given to ranks, OUT is taken from them. */
static inline uint64_t tt_exchanged_block(const struct tt_schedule *s, struct tt_cells cell)
{
    uint64_t n = (uint64_t)s->key.n, me = (uint64_t)s->key.me;
    return cell.buffer == TT_IN ? me * n + cell.chunk : cell.chunk * n + me;
}

/* Do cells `a` of one rank and `b` of another (or the same) have one length chunk by chunk, whatever the
 * counts? Chunks of one number do. The blocks of an even exchange all do, so that they may be passed on in
 * any cell; those of an uneven one move alone, from where they are given to where they are taken. */
static inline bool tt_cells_equal(
    const struct tt_schedule *s, struct tt_cells a, const struct tt_schedule *t, struct tt_cells b)
{
    const struct tt_collective_row *row = &tt_collectives[s->key.collective];
    if (a.count != b.count)
        return false;
    if (row->result != TT_RESULT_EXCHANGED)
        return a.chunk % s->chunks == b.chunk % t->chunks;
    return row->counts == TT_COUNTS_EVEN || tt_exchanged_block(s, a) == tt_exchanged_block(t, b);
}

static inline const struct tt_step *tt_step_at(const struct tt_verifier *v, uint32_t number)
{
    uint32_t rank = v->rank_of[number];
    return &v->schedules[rank]->steps[number - v->base[rank]];
}

/* Keeps the first sentence; always false. `rank` or `step` below 0: it concerns none. */
bool tt_verify_wrong(struct tt_verifier *v, int rank, int64_t step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
bool tt_verify_no_memory(struct tt_verifier *v);
/* "in 3" or "tmp 0..2", as schedules print them. */
struct tt_cells_text {
    char text[40];
};
struct tt_cells_text tt_cells_name(struct tt_cells cells);

/* Each rank's schedule alone: keys, verbs, legal cells, folds, form of the dependencies. */
bool tt_verify_shapes(struct tt_verifier *v);
/* Numbers of messages, and that both ends mean the same chunks. Fills first_message, sender, receiver. */
bool tt_verify_messages(struct tt_verifier *v);
/* Every conflict has a dependency path. */
bool tt_verify_hazards(struct tt_verifier *v);
/* No rank waits for itself under rendezvous: fills `order`. Then: nor with slots, nor in order. */
bool tt_verify_order(struct tt_verifier *v);
bool tt_verify_modes(struct tt_verifier *v);
/* One symbolic run: what the row of the collective demands. */
bool tt_verify_values(struct tt_verifier *v);
/* Who leaves a barrier has heard of all. */
bool tt_verify_barrier(struct tt_verifier *v);
/* Who may overwrite what it reads is its only reader. */
bool tt_verify_readers(struct tt_verifier *v);

/* For tt_evaluate: memory for a run, freed by tt_verifier_close. */
bool tt_verifier_open(struct tt_verifier *v, const struct tt_schedule *const *schedules, int n,
    const struct tt_proof *proof, struct tt_proof_report *report);
void tt_verifier_close(struct tt_verifier *v);

#endif
