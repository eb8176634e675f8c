/* SPDX-License-Identifier: BSD-3-Clause */
/* fold.c: n operands, one from each rank, in rank order.
 *
 *     n = 4, rank 1 (one block):   out = ((a0 + a1) + a2) + a3, under exact (a0 + a1) + (a2 + a3): one pass
 *     n = 12 (blocks 0..7 and 8..11): tmp = fold(a0..a7); tmp' = fold(a8..a11); out = tmp + tmp'
 *
 * A block that lacks the own operand begins with a plain receive. Partial results lie in TMP, a row of
 * cells per block. */
#include "algorithms/fold.h"

enum { BLOCK = 8 };

/* The cell that holds the result of block b; it may be dst itself when there is but one. */
static struct tt_cells block_cell(
    const struct tt_schedule *s, const struct tt_team *team, int b, uint32_t chunk, struct tt_cells dst)
{
    return team->n <= BLOCK ? dst : tt_tmp((uint32_t)b * s->chunks + chunk);
}

static void fold_block(
    struct tt_schedule *s, const struct tt_team *team, int first, uint32_t chunk, struct tt_cells dst)
{
    int end = first + BLOCK < team->n ? first + BLOCK : team->n;
    struct tt_cells src = tt_in(chunk);
    bool own = team->me >= first && team->me < end;
    if (!own) {
        tt_recv(s, tt_team_rank(team, first), dst);
        src = dst;
        first++;
    }
    if (own && end - first == 1)
        tt_copy(s, dst, src);
    tt_fold_begin(s, s->key.exact);
    for (int i = first; i < end; i++)
        if (i != team->me)
            tt_recv_reduce(s, tt_team_rank(team, i), dst, src, own && i < team->me);
    tt_fold_end(s);
}

/* Combine the results of blocks [first, first + count): the largest power of two on the left, the rest on
 * the right. */
static struct tt_cells combine(struct tt_schedule *s, const struct tt_team *team, int first, int count,
    uint32_t chunk, struct tt_cells dst)
{
    struct tt_cells cell = block_cell(s, team, first, chunk, dst);
    if (count == 1)
        return cell;
    int half = 1;
    while (2 * half < count)
        half *= 2;
    struct tt_cells left = combine(s, team, first, half, chunk, dst);
    struct tt_cells right = combine(s, team, first + half, count - half, chunk, dst);
    bool top = first == 0 && count * BLOCK >= team->n;
    tt_final(s, top);
    tt_reduce(s, top ? dst : cell, left, right);
    return cell;
}

uint32_t tt_fold_rows(const struct tt_team *team)
{
    return (uint32_t)(team->n + BLOCK - 1) / BLOCK;
}

void tt_fold_from_all(struct tt_schedule *s, const struct tt_team *team, uint32_t chunk, struct tt_cells dst)
{
    int blocks = (int)tt_fold_rows(team);
    tt_final(s, blocks == 1);
    for (int b = 0; b < blocks; b++)
        fold_block(s, team, b * BLOCK, chunk, block_cell(s, team, b, chunk, dst));
    combine(s, team, 0, blocks, chunk, dst);
    tt_final(s, false);
}
