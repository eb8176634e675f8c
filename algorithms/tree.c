/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.c: the binomial tree. ceil(log2(n)) rounds, n-1 messages: the fewest, for small broadcasts and
 * reductions.
 *
 *     n = 4, root 0      0 <- 1, 2 <- 3      a0+a1, a2+a3
 *                        0 <- 2              (a0+a1) + (a2+a3): at root 0 the canonical tree for every n
 *
 * Broadcast is the same tree from root to leaves, the farthest child first. With root r, ranks count from r.
 *
 * MPICH's and Open MPI's binomial; J. Bruck et al.: IEEE TPDS 8(11), 1997. */
#include "algorithms/generators.h"

/* Reduce towards `root`; *sum is where this rank's own contribution lies, then its part's sum. */
static void reduce_up(struct tt_schedule *s, const struct tt_team *team, int root,
    struct tt_cells accumulator, struct tt_cells *sum)
{
    int n = team->n, from_root = (team->me - root + n) % n;
    for (int distance = 1; distance < n; distance *= 2) {
        if (from_root & distance) {
            tt_send(s, tt_team_rank(team, team->me - distance), *sum);
            return;
        }
        if (from_root + distance < n) {
            tt_final(s, from_root == 0 && 2 * distance >= n);
            tt_recv_reduce(s, tt_team_rank(team, team->me + distance), accumulator, *sum, false);
            *sum = accumulator;
        }
    }
    tt_final(s, false);
}

/* From `root` to all, into OUT; the root sends from `src`. */
static void broadcast_down(struct tt_schedule *s, const struct tt_team *team, int root, struct tt_cells src)
{
    int n = team->n, from_root = (team->me - root + n) % n, distance = 1;
    while (distance < n && !(from_root & distance))
        distance *= 2;
    if (from_root != 0) {
        tt_recv(s, tt_team_rank(team, team->me - distance), tt_out(0));
        src = tt_out(0);
    }
    for (distance /= 2; distance >= 1; distance /= 2)
        if (from_root + distance < n)
            tt_send(s, tt_team_rank(team, team->me + distance), src);
}

void tt_all_reduce_tree(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    struct tt_cells sum = tt_in(0);
    tt_chunks(s, 1);
    reduce_up(s, team, 0, tt_out(0), &sum);
    if (team->n == 1)
        tt_copy(s, tt_out(0), tt_in(0));
    broadcast_down(s, team, 0, tt_out(0));
}

void tt_reduce_tree(struct tt_schedule *s, const struct tt_team *team, int root)
{
    struct tt_cells sum = tt_in(0);
    tt_chunks(s, 1);
    reduce_up(s, team, root, team->me == root ? tt_out(0) : tt_tmp(0), &sum);
    if (team->n == 1)
        tt_copy(s, tt_out(0), tt_in(0));
}

void tt_broadcast_tree(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    broadcast_down(s, team, root, tt_in(0));
    if (team->me == root)
        tt_copy(s, tt_out(0), tt_in(0));
}
