/* SPDX-License-Identifier: BSD-3-Clause */
/* halving.c: recursive halving, then doubling: partners at distance 1, 2, 4 ... exchange halves of what
 * they still hold, until each holds one chunk, reduced; the same way back gathers. 2 log2(n) rounds and
 * the least bytes.
 *
 *     n = 4, chunks 0..3     rank 0      rank 1      rank 2      rank 3
 *     distance 1 keeps       0 1         2 3         0 1         2 3         a0+a1, a2+a3
 *     distance 2 keeps       0           2           1           3           (a0+a1) + (a2+a3)
 *
 * Near partners first: the association is then the canonical tree where n is a power of two, and ranges
 * stay contiguous. Of n = 2^k + e ranks, the first e even ones fold into their odd neighbour first and get
 * the result from it last.
 *
 * R. Rabenseifner: Optimization of collective reduction operations. ICCS 2004. */
#include "algorithms/generators.h"

struct halves {
    struct tt_cells keep, give;
};

/* The halves of [first, first + 2 * half) at this rank, when partners are `distance` apart. */
static struct halves split(enum tt_buffer buffer, int virtual, int distance, uint32_t first, uint32_t half)
{
    uint32_t low = first, high = first + half;
    bool upper = (virtual & distance) != 0;
    return (struct halves){ tt_range(buffer, upper ? high : low, half),
        tt_range(buffer, upper ? low : high, half) };
}

/* The first chunk of what `virtual` still holds after halving at all distances below `distance`. */
static uint32_t first_chunk(int virtual, int distance, int power)
{
    uint32_t first = 0, half = (uint32_t)power / 2;
    for (int d = 1; d < distance; d *= 2, half /= 2)
        first += (virtual & d) != 0 ? half : 0;
    return first;
}

static int partner_rank(const struct tt_team *team, int virtual, int distance, int extra)
{
    int partner = virtual ^ distance;
    return tt_team_rank(team, partner < extra ? 2 * partner + 1 : partner + extra);
}

void tt_all_reduce_halving(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    int n = team->n, me = team->me, power = 1;
    while (2 * power <= n)
        power *= 2;
    int extra = n - power, virtual = me - extra;
    enum tt_buffer buffer = TT_IN;

    tt_chunks(s, (uint32_t)power);
    tt_max_chunks(s, (uint32_t)(extra > 0 ? power : power / 2));
    struct tt_cells all_in = tt_range(TT_IN, 0, (uint32_t)power),
                    all_out = tt_range(TT_OUT, 0, (uint32_t)power);
    if (n == 1)
        tt_copy(s, all_out, all_in);
    if (me < 2 * extra && me % 2 == 0) {
        tt_send(s, tt_team_rank(team, me + 1), all_in);
        tt_recv(s, tt_team_rank(team, me + 1), all_out);
        return;
    }
    if (me < 2 * extra) {
        tt_recv_reduce(s, tt_team_rank(team, me - 1), all_out, all_in, true);
        buffer = TT_OUT;
        virtual = me / 2;
    }
    for (int distance = 1; distance < power; distance *= 2, buffer = TT_OUT) {
        uint32_t half = (uint32_t)(power / distance) / 2;
        struct halves h = split(buffer, virtual, distance, first_chunk(virtual, distance, power), half);
        int peer = partner_rank(team, virtual, distance, extra);
        tt_send(s, peer, h.give);
        tt_final(s, 2 * distance == power);
        tt_recv_reduce(s, peer, tt_range(TT_OUT, h.keep.chunk, half), h.keep, (virtual & distance) != 0);
    }
    tt_final(s, false);
    for (int distance = power / 2; distance >= 1; distance /= 2) {
        uint32_t half = (uint32_t)(power / distance) / 2;
        struct halves h = split(TT_OUT, virtual, distance, first_chunk(virtual, distance, power), half);
        int peer = partner_rank(team, virtual, distance, extra);
        tt_send(s, peer, h.keep);
        tt_recv(s, peer, h.give);
    }
    if (me < 2 * extra)
        tt_send(s, tt_team_rank(team, me - 1), all_out);
}
