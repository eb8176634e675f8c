/* SPDX-License-Identifier: BSD-3-Clause */
/* ring.c: everything goes round. 2(n-1) rounds for all_reduce; every rank sends (n-1)/n of the vector
 * twice, which is the least possible, to one neighbour only.
 *
 *     n = 4, reduce-scatter: chunk c starts at rank c+1 and gathers operands until it is complete at rank c
 *       round 0    0 -c3-> 1 -c0-> 2 -c1-> 3 -c2-> 0
 *       round 1    0 -c2-> 1 -c3-> 2 -c0-> 3 -c1-> 0
 *       round 2    0 -c1-> 1 -c2-> 2 -c3-> 3 -c0-> 0      rank r now holds chunk r, reduced
 *     all-gather: the same road again, passing on what arrived last
 *
 * P. Patarasuk, X. Yuan: Bandwidth optimal all-reduce algorithms for clusters of workstations. JPDC 69(2),
 * 2009. */
#include "algorithms/generators.h"

/* Returns where a partial sum of chunk c lives: OUT if this rank has it, else scratch. */
static struct tt_cells partial(const struct tt_schedule *s, const struct tt_team *team, uint32_t c)
{
    bool has = s->key.collective == TT_ALL_REDUCE || (int)c == team->me;
    return has ? tt_out(c) : tt_tmp(c);
}

static uint32_t wrap(const struct tt_team *team, int index)
{
    return (uint32_t)(((index % team->n) + team->n) % team->n);
}

static void reduce_scatter(struct tt_schedule *s, const struct tt_team *team)
{
    int right = tt_team_rank(team, team->me + 1), left = tt_team_rank(team, team->me - 1);
    for (int t = 0; t < team->n - 1; t++) {
        uint32_t give = wrap(team, team->me - 1 - t), take = wrap(team, team->me - 2 - t);
        tt_send(s, right, t == 0 ? tt_in(give) : partial(s, team, give));
        tt_final(s, t == team->n - 2);
        tt_recv_reduce(s, left, partial(s, team, take), tt_in(take), true);
    }
    tt_final(s, false);
}

static void all_gather(struct tt_schedule *s, const struct tt_team *team)
{
    int right = tt_team_rank(team, team->me + 1), left = tt_team_rank(team, team->me - 1);
    for (int t = 0; t < team->n - 1; t++) {
        tt_send(s, right, tt_out(wrap(team, team->me - t)));
        tt_recv(s, left, tt_out(wrap(team, team->me - 1 - t)));
    }
}

void tt_all_reduce_ring(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, (uint32_t)team->n);
    if (team->n == 1)
        tt_copy(s, tt_out(0), tt_in(0));
    reduce_scatter(s, team);
    all_gather(s, team);
}

void tt_reduce_scatter_ring(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, (uint32_t)team->n);
    if (team->n == 1)
        tt_copy(s, tt_out(0), tt_in(0));
    reduce_scatter(s, team);
}

void tt_all_gather_ring(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, (uint32_t)team->n);
    tt_copy(s, tt_out((uint32_t)team->me), tt_in((uint32_t)team->me));
    all_gather(s, team);
}
