/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_shape.c: what can be seen in one rank's schedule alone.
 *
 * Everything here is a rule of schedule.h or of the collective's row: which cells exist at this rank, that a
 * step moves a chunk only to a cell of the same length (whatever the layout), how folds
 * look, and that dependencies and followers are well formed. The later parts index by what was checked here.
 * */
#include <stdlib.h>
#include <string.h>

#include "tests/proof/verify_internal.h"

static bool check_key(struct tt_verifier *v, int r)
{
    const struct tt_schedule *s = v->schedules[r], *first = v->schedules[0];
    const struct tt_key *k = &s->key, *f = &first->key;
    if (k->collective >= TT_COLLECTIVES || k->n != v->n || k->me != r)
        return tt_verify_wrong(
            v, r, -1, "its key says collective %d, rank %d of %d", k->collective, k->me, k->n);
    const struct tt_collective_row *row = &tt_collectives[k->collective];
    bool same_call = k->collective == f->collective && k->algorithm == f->algorithm && k->root == f->root;
    if (!(same_call || (row->p2p && tt_collectives[f->collective].p2p)) || k->exact != f->exact)
        return tt_verify_wrong(v, r, -1, "its key differs from that of rank 0");
    if (k->root < 0 || k->root >= v->n)
        return tt_verify_wrong(v, r, -1, "root %d is not a rank", k->root);
    if (k->in_place && row->in_place == TT_IN_PLACE_NEVER)
        return tt_verify_wrong(v, r, -1, "%s has no in-place form", row->name);
    if (s->chunks == 0 || s->chunks != v->chunks)
        return tt_verify_wrong(v, r, -1, "%u chunks, but %u at rank 0", s->chunks, v->chunks);
    if (s->max_chunks != first->max_chunks)
        return tt_verify_wrong(
            v, r, -1, "its max_chunks is %u, but %u at rank 0", s->max_chunks, first->max_chunks);
    if (row->blocks && s->chunks % (uint32_t)v->n != 0)
        return tt_verify_wrong(v, r, -1, "%u chunks are not a multiple of %d blocks", s->chunks, v->n);
    if (row->result == TT_RESULT_EXCHANGED && s->chunks != (uint32_t)v->n)
        return tt_verify_wrong(v, r, -1, "%u chunks; an exchange has one per rank", s->chunks);
    return true;
}

static bool check_cells(struct tt_verifier *v, int r, uint32_t i, struct tt_cells cells)
{
    const struct tt_schedule *s = v->schedules[r];
    const struct tt_collective_row *row = &tt_collectives[s->key.collective];
    uint64_t end = (uint64_t)cells.chunk + cells.count;
    if ((unsigned)cells.buffer >= TT_BUFFERS || cells.count == 0)
        return tt_verify_wrong(v, r, i, "names buffer %d, %u chunks", (int)cells.buffer, cells.count);
    if (row->counts == TT_COUNTS_OWN && (cells.buffer == TT_TMP || cells.count > 1))
        return tt_verify_wrong(v, r, i,
            "%s: where a rank knows only its own counts, blocks move alone and "
            "without scratch",
            tt_cells_name(cells).text);
    if (cells.buffer == TT_TMP && end > s->tmp_cells)
        return tt_verify_wrong(
            v, r, i, "%s: only %u scratch cells exist", tt_cells_name(cells).text, s->tmp_cells);
    if (cells.buffer == TT_TMP)
        return true;
    if (end > s->chunks)
        return tt_verify_wrong(v, r, i, "%s: only %u chunks exist", tt_cells_name(cells).text, s->chunks);
    enum tt_reach reach = (enum tt_reach)(cells.buffer == TT_IN ? row->in : row->out);
    for (uint32_t c = cells.chunk; c < end; c++)
        if (!tt_reach_has(reach, v->n, r, s->key.root, s->chunks, c))
            return tt_verify_wrong(v, r, i, "%s is not among this rank's cells",
                tt_cells_name(tt_range(cells.buffer, c, 1)).text);
    return true;
}

/* A value moves from `src` to `dst` inside a step. */
static bool check_move(
    struct tt_verifier *v, int r, uint32_t i, struct tt_cells dst, struct tt_cells src, bool onto_itself)
{
    const struct tt_schedule *s = v->schedules[r];
    if (!tt_cells_equal(s, dst, s, src))
        return tt_verify_wrong(
            v, r, i, "%s and %s are not the same chunks", tt_cells_name(dst).text, tt_cells_name(src).text);
    if (!tt_same_memory(&s->key, dst.buffer, src.buffer))
        return true;
    uint32_t apart = dst.chunk > src.chunk ? dst.chunk - src.chunk : src.chunk - dst.chunk;
    if (apart == 0 ? !onto_itself : apart < dst.count)
        return tt_verify_wrong(
            v, r, i, "%s and %s overlap", tt_cells_name(dst).text, tt_cells_name(src).text);
    return true;
}

static bool check_step(struct tt_verifier *v, int r, uint32_t i)
{
    const struct tt_schedule *s = v->schedules[r];
    const struct tt_step *step = &s->steps[i];
    if (step->verb >= TT_VERBS)
        return tt_verify_wrong(v, r, i, "verb %u does not exist", step->verb);
    bool message = step->verb == TT_VERB_SEND || tt_step_receives(step);
    bool reduces = step->verb == TT_VERB_RECV_REDUCE || step->verb == TT_VERB_REDUCE;
    if (message ? step->peer < 0 || step->peer >= v->n || step->peer == r : step->peer != TT_NONE)
        return tt_verify_wrong(v, r, i, "peer %d", step->peer);
    unsigned flags = step->flags & ((1U << TT_QUEUE_SHIFT) - 1), allowed = 0;
    if (step->verb == TT_VERB_RECV_REDUCE)
        allowed |= TT_LEFT;
    if (reduces)
        allowed |= TT_FINAL;
    if (step->fold_count > 1 && s->key.exact) /* without exact, a fold is rounded once */
        allowed |= TT_FOLD_TREE;
    if (flags & ~allowed)
        return tt_verify_wrong(v, r, i, "flags %u mean nothing here", flags & ~allowed);
    int result = tt_collectives[s->key.collective].result;
    if (reduces && result != TT_RESULT_REDUCED && s->key.collective != TT_BARRIER)
        return tt_verify_wrong(
            v, r, i, "reduces in %s, which reduces nothing", tt_collectives[s->key.collective].name);
    struct tt_accesses a = tt_step_accesses(step);
    if (a.writes && a.write.buffer == TT_IN)
        return tt_verify_wrong(
            v, r, i, "writes %s; in place too, results go to out", tt_cells_name(a.write).text);
    if (a.writes && !check_cells(v, r, i, a.write))
        return false;
    for (int k = 0; k < a.reads; k++)
        if (!check_cells(v, r, i, a.read[k]) ||
            (a.writes && !check_move(v, r, i, a.write, a.read[k], step->verb != TT_VERB_COPY)))
            return false;
    return true;
}

/* Step i begins a unit: a fold, or a step alone. */
static bool check_fold(struct tt_verifier *v, int r, uint32_t i)
{
    const struct tt_schedule *s = v->schedules[r];
    const struct tt_step *first = &s->steps[i];
    uint32_t n = first->fold_count;
    if (n == 0 || n > TT_FOLD_MAX || n > s->nsteps - i || first->fold_index != 0)
        return tt_verify_wrong(v, r, i, "is step %u of a fold of %u", first->fold_index, n);
    if (n > 1 && first->verb != TT_VERB_RECV_REDUCE)
        return tt_verify_wrong(v, r, i, "a fold has only recv_reduces");
    for (uint32_t k = 1; k < n; k++) {
        const struct tt_step *step = first + k;
        if (step->verb != first->verb || step->fold_index != k || step->fold_count != n)
            return tt_verify_wrong(v, r, i + k, "breaks the fold of %u that step %u begins", n, i);
        if (step->dst_buffer != first->dst_buffer || step->dst_chunk != first->dst_chunk ||
            step->src_buffer != first->src_buffer || step->src_chunk != first->src_chunk ||
            step->nchunks != first->nchunks)
            return tt_verify_wrong(v, r, i + k, "has other cells than step %u, which begins its fold", i);
        if ((step->flags | TT_LEFT) != (first->flags | TT_LEFT))
            return tt_verify_wrong(v, r, i + k, "has other flags than step %u, which begins its fold", i);
        if (step->dep_count != 0)
            return tt_verify_wrong(v, r, i + k, "has dependencies inside a fold");
    }
    return true;
}

/* `count` of step d: how many steps were seen to wait for it. */
static bool check_waits(struct tt_verifier *v, int r, uint32_t i, uint32_t *count)
{
    const struct tt_schedule *s = v->schedules[r];
    const struct tt_step *step = &s->steps[i];
    if ((uint64_t)step->dep_first + step->dep_count > s->ndeps)
        return tt_verify_wrong(v, r, i, "its dependencies lie outside the list");
    for (uint32_t k = 0; k < step->dep_count; k++) {
        uint32_t d = s->deps[step->dep_first + k];
        if (d >= i)
            return tt_verify_wrong(v, r, i, "waits for step %u, which is not earlier", d);
        if (s->steps[d].fold_index != 0)
            return tt_verify_wrong(v, r, i, "waits for step %u, which is inside a fold", d);
        uint32_t at = s->follower_first[d] + count[d]++;
        if (at >= s->follower_first[d + 1] || s->followers[at] != i)
            return tt_verify_wrong(v, r, i, "is not listed in turn among those who wait for step %u", d);
    }
    return true;
}

static bool check_schedule(struct tt_verifier *v, int r, uint32_t *count)
{
    const struct tt_schedule *s = v->schedules[r];
    if (!check_key(v, r))
        return false;
    for (uint32_t i = 0; i < s->nsteps; i++)
        if (!check_step(v, r, i))
            return false;
    for (uint32_t i = 0; i < s->nsteps; i += s->steps[i].fold_count)
        if (!check_fold(v, r, i))
            return false;
    if (s->nsteps > 0 && s->follower_first[s->nsteps] > s->ndeps)
        return tt_verify_wrong(v, r, -1, "its followers lie outside the list");
    for (uint32_t i = 0; i < s->nsteps; i++)
        if (s->follower_first[i] > s->follower_first[i + 1])
            return tt_verify_wrong(v, r, i, "its followers lie outside the list");
    memset(count, 0, s->nsteps * sizeof *count);
    for (uint32_t i = 0; i < s->nsteps; i++)
        if (!check_waits(v, r, i, count))
            return false;
    for (uint32_t i = 0; i < s->nsteps; i++)
        if (count[i] != s->follower_first[i + 1] - s->follower_first[i])
            return tt_verify_wrong(v, r, i, "lists a follower that does not wait for it");
    return true;
}

bool tt_verify_shapes(struct tt_verifier *v)
{
    uint32_t most = 0;
    for (int r = 0; r < v->n; r++)
        most = v->schedules[r]->nsteps > most ? v->schedules[r]->nsteps : most;
    uint32_t *count = malloc(((size_t)most + 1) * sizeof *count);
    bool right = count != NULL || tt_verify_no_memory(v);
    for (int r = 0; right && r < v->n; r++)
        right = check_schedule(v, r, count);
    free(count);
    return right;
}
