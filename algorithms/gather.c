/* SPDX-License-Identifier: BSD-3-Clause */
/* gather.c: blocks to the root, and from it. Direct: each rank deals with the root itself, n - 1 messages of
 * one block. Tree: the binomial tree, where each rank hands on the blocks of all below it: ceil(log2 n)
 * rounds at the root, for small blocks.
 *
 *     n = 4, root 1, gather by the tree       1 <- 2, 3 <- 0      1 holds 1 2, 3 holds 3 0
 *                                             1 <- 3              1 holds 1 2 3 0
 *
 * Ranks count from the root, so what a rank holds may run past the last chunk to the first: then its range is
 * two messages. Inner ranks keep blocks in TMP; the root has all in its own buffer, a leaf its one.
 *
 * E. Chan, M. Heimlich, A. Purkayastha, R. van de Geijn: Collective communication: theory, practice, and
 * experience. CCPE 19(13), 2007: the minimum spanning tree gather and scatter. */
#include "algorithms/generators.h"

typedef void (*transfer)(struct tt_schedule *s, int peer, struct tt_cells cells);

/* The chunks of `count` members of the team from `first` on: one message, or two. */
static void pass(
    struct tt_schedule *s, transfer transfer_cells, int peer, enum tt_buffer buffer, int first, int count)
{
    int n = (int)s->chunks, wrapped = first % n;
    int straight = wrapped + count > n ? n - wrapped : count;
    transfer_cells(s, peer, tt_range(buffer, (uint32_t)wrapped, (uint32_t)straight));
    if (straight < count)
        transfer_cells(s, peer, tt_range(buffer, 0, (uint32_t)(count - straight)));
}

struct place { /* of this rank in the tree; ranks count from the root */
    int from_root, below; /* below: the first distance at which it has no child; its parent is as far */
};

static struct place place_of(const struct tt_team *team, int root)
{
    struct place p = { .from_root = (team->me - root + team->n) % team->n, .below = 1 };
    while (p.below < team->n && !(p.from_root & p.below))
        p.below *= 2;
    return p;
}

/* How many blocks the subtree of the one `from_root` away holds, which has children nearer than `below`. */
static int held(const struct tt_team *team, int from_root, int below)
{
    return from_root + below < team->n ? below : team->n - from_root;
}

/* Returns how many blocks the root's largest subtree holds. */
static uint32_t longest(const struct tt_team *team)
{
    int most = 1;
    for (int distance = 1; distance < team->n; distance *= 2)
        most = held(team, distance, distance) > most ? held(team, distance, distance) : most;
    return (uint32_t)most;
}

void tt_gather_tree(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, (uint32_t)team->n);
    tt_max_chunks(s, longest(team));
    struct place at = place_of(team, root);
    int me = team->me, all = held(team, at.from_root, at.below);
    enum tt_buffer buffer = me == root ? TT_OUT : all > 1 ? TT_TMP : TT_IN;
    if (buffer != TT_IN)
        tt_copy(s, tt_range(buffer, (uint32_t)me, 1), tt_in((uint32_t)me));
    for (int distance = 1; distance < at.below && at.from_root + distance < team->n; distance *= 2)
        pass(s, tt_recv, tt_team_rank(team, me + distance), buffer, me + distance,
            held(team, at.from_root + distance, distance));
    if (me != root)
        pass(s, tt_send, tt_team_rank(team, me - at.below), buffer, me, all);
}

void tt_scatter_tree(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, (uint32_t)team->n);
    tt_max_chunks(s, longest(team));
    struct place at = place_of(team, root);
    int me = team->me, all = held(team, at.from_root, at.below);
    enum tt_buffer buffer = me == root ? TT_IN : all > 1 ? TT_TMP : TT_OUT;
    if (me != root)
        pass(s, tt_recv, tt_team_rank(team, me - at.below), buffer, me, all);
    for (int distance = at.below / 2; distance >= 1; distance /= 2)
        if (at.from_root + distance < team->n)
            pass(s, tt_send, tt_team_rank(team, me + distance), buffer, me + distance,
                held(team, at.from_root + distance, distance));
    if (buffer != TT_OUT)
        tt_copy(s, tt_out((uint32_t)me), tt_range(buffer, (uint32_t)me, 1));
}

void tt_gather_direct(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, (uint32_t)team->n);
    if (team->me != root) {
        tt_send(s, tt_team_rank(team, root), tt_in((uint32_t)team->me));
        return;
    }
    tt_copy(s, tt_out((uint32_t)root), tt_in((uint32_t)root));
    for (int i = 1; i < team->n; i++) {
        int from = (root + i) % team->n;
        tt_recv(s, tt_team_rank(team, from), tt_out((uint32_t)from));
    }
}

void tt_scatter_direct(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, (uint32_t)team->n);
    if (team->me != root) {
        tt_recv(s, tt_team_rank(team, root), tt_out((uint32_t)team->me));
        return;
    }
    for (int i = 1; i < team->n; i++) {
        int to = (root + i) % team->n;
        tt_send(s, tt_team_rank(team, to), tt_in((uint32_t)to));
    }
    tt_copy(s, tt_out((uint32_t)root), tt_in((uint32_t)root));
}
