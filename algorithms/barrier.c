/* barrier.c: dissemination. In round k every rank tells the one 2^k after it, and hears from the one 2^k
 * before it; ceil(log2(n)) rounds for every n. The token is one element, IN(0); receiving *combines* it
 * with the last one, so that what is sent in a round depends on everything heard before.
 *
 *     n = 4    round 0: 0 -> 1 -> 2 -> 3 -> 0      round 1: 0 -> 2 -> 0, 1 -> 3 -> 1
 *
 * D. Hensgen, R. Finkel, U. Manber: Two algorithms for barrier synchronization. IJPP 17(1), 1988. */
#include "algorithms/generators.h"

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
