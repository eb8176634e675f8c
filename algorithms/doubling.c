/* SPDX-License-Identifier: BSD-3-Clause */
/* doubling.c: recursive doubling: everybody exchanges the whole vector with a partner at distance 1, 2, 4
 * ... log2(n) rounds: good for small messages.
 *
 *     n = 4      0   1   2   3
 *     distance 1 0=======1   2=======3        a0+a1, a2+a3
 *     distance 2 0===========2, 1====3        (a0+a1) + (a2+a3): the canonical tree where n is a power of two
 *
 * Of n = 2^k + e ranks, the first e even ones fold into their odd neighbour first and get the result from
 * it last. OUT and TMP alternate, because under rendezvous a rank must never receive into what it is
 * sending.
 *
 * R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH.
 * IJHPCA 19(1), 2005. */
#include "algorithms/generators.h"

static struct tt_cells next_buffer(const struct tt_schedule *s, struct tt_cells current, bool odd_left)
{
    if (current.buffer == TT_TMP)
        return tt_out(0);
    if (current.buffer == TT_IN && !s->key.in_place && odd_left)
        return tt_out(0); /* so that the last round ends in OUT */
    return tt_tmp(0);
}

void tt_all_reduce_doubling(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    int n = team->n, me = team->me, power = 1, rounds = 0;
    while (2 * power <= n) {
        power *= 2;
        rounds++;
    }
    int extra = n - power, virtual = me - extra;
    struct tt_cells current = tt_in(0);

    tt_chunks(s, 1);
    if (me < 2 * extra && me % 2 == 0) {
        tt_send(s, tt_team_rank(team, me + 1), current);
        tt_recv(s, tt_team_rank(team, me + 1), tt_out(0));
        return;
    }
    if (me < 2 * extra) {
        tt_recv_reduce(s, tt_team_rank(team, me - 1), tt_out(0), current, true);
        current = tt_out(0);
        virtual = me / 2;
    }
    for (int distance = 1; distance < power; distance *= 2, rounds--) {
        int partner = virtual ^ distance;
        int peer = tt_team_rank(team, partner < extra ? 2 * partner + 1 : partner + extra);
        struct tt_cells next = next_buffer(s, current, rounds % 2 != 0);
        tt_send(s, peer, current);
        tt_final(s, 2 * distance == power);
        tt_recv_reduce(s, peer, next, current, partner < virtual);
        current = next;
    }
    tt_final(s, false);
    tt_copy(s, tt_out(0), current);
    if (me < 2 * extra)
        tt_send(s, tt_team_rank(team, me - 1), tt_out(0));
}
