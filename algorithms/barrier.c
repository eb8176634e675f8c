/* SPDX-License-Identifier: BSD-3-Clause */
/* barrier.c: everybody tells everybody, or what was heard is passed on.
 *
 *     n = 4    direct, one round: 0 -> 1, 2, 3   1 -> 2, 3, 0   2 -> 3, 0, 1   3 -> 0, 1, 2
 *
 * Direct is n (n - 1) messages, but no rank waits for one that waits: where ranks take turns on a core, each
 * round costs a turn of all of them.
 *
 * Dissemination: in round k every rank tells the one 2^k after it, and hears from the one 2^k
 * before it; ceil(log2(n)) rounds for every n. The token is one element, IN(0); receiving *combines* it
 * with the last one, so that what is sent in a round depends on everything heard before.
 *
 *     n = 4    round 0: 0 -> 1 -> 2 -> 3 -> 0      round 1: 0 -> 2 -> 0, 1 -> 3 -> 1
 *
 * D. Hensgen, R. Finkel, U. Manber: Two algorithms for barrier synchronization. IJPP 17(1), 1988. */
#include "algorithms/generators.h"

void tt_barrier_direct(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    for (int i = 1; i < team->n; i++)
        tt_send(s, tt_team_rank(team, team->me + i), tt_in(0));
    for (int i = 1; i < team->n; i++)
        tt_recv(s, tt_team_rank(team, team->me - i), tt_tmp((uint32_t)i - 1));
}

void tt_barrier_dissemination(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    struct tt_cells heard = tt_in(0);
    uint32_t round = 0;
    tt_chunks(s, 1);
    for (int distance = 1; distance < team->n; distance *= 2, round++) {
        tt_send(s, tt_team_rank(team, team->me + distance), heard);
        tt_recv_reduce(s, tt_team_rank(team, team->me - distance), tt_tmp(round), heard, true);
        heard = tt_tmp(round);
    }
}
