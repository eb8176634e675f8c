/* SPDX-License-Identifier: BSD-3-Clause */
/* circulant.c: the vector in B blocks, one per round and rank, along the distances ceil(n / 2^j): B - 1 +
 * ceil(log2(n)) rounds for every n, which no broadcast of B blocks can beat.
 *
 *     n = 4, B = 8, distances 1, 2     round 0   0 -b0-> 2
 *                                      round 1   0 -b1-> 1   2 -b0-> 3
 *                                      round 2   0 -b2-> 2   1 -b1-> 3   3 -b0-> 1
 *                                      round 3   0 -b3-> 1   1 -b1-> 2   2 -b2-> 3, and so on
 *
 * In round k (mod q = ceil(log2 n)) a rank gets a block from the one skip[k] before it. Which one follows
 * from `base`, the first block that a rank gets: rank = skip[e1] + skip[e2] + ... + skip[base] with e1 >
 * e2 > ..., and it comes down this path. The blocks of the next q rounds are those q later; what would be
 * beyond the last block is the last one. Every block arrives once, so `reverse` makes it a reduction.
 *
 * J. L. Traeff: Optimal broadcast schedules in logarithmic time with applications to broadcast,
 * all-broadcast, reduction and all-reduction. ACM TOPC 12(3), 2025. The blocks are found here by search in
 * O(log^3 n). */
#include "algorithms/generators.h"

enum { BLOCKS = 8, ROUNDS_MAX = 32 };

struct circulant {
    int n, rounds; /* ceil(log2(n)) */
    int skip[ROUNDS_MAX + 1]; /* skip[rounds] is n, each of the others half of the next, rounded up */
};

static struct circulant circulant_of(int n)
{
    struct circulant g = { .n = n };
    while ((1LL << g.rounds) < n)
        g.rounds++;
    g.skip[g.rounds] = n;
    for (int k = g.rounds; k > 0; k--)
        g.skip[k - 1] = (g.skip[k] + 1) / 2;
    return g;
}

/* The first block that `rank`, counted from the root, gets; for the root, `rounds`. */
static int base(const struct circulant *g, int rank)
{
    int k = g->rounds;
    while (rank > 0) {
        k--;
        if (rank >= g->skip[k])
            rank -= g->skip[k];
    }
    return k;
}

/* Returns the set of the bases of the ranks in [low, high), of those below skip[k]. What follows a distance
 * has that of rank 0, `zero`, where it ends there. All of them together have each base below k. */
static uint64_t bases(const struct circulant *g, int k, int low, int high, int zero)
{
    low = low > 0 ? low : 0;
    high = high < g->skip[k] ? high : g->skip[k];
    if (low >= high)
        return 0;
    if (low == 0 && high == g->skip[k])
        return (((uint64_t)1 << k) - 1) | (uint64_t)1 << zero;
    int half = g->skip[k - 1];
    return bases(g, k - 1, low, high, zero) | bases(g, k - 1, low - half, high - half, k - 1);
}

/* Returns the greatest base that is not taken, of the ranks in [low, high), which count modulo n; -1: none.
 */
static int greatest(const struct circulant *g, int low, int high, uint64_t taken)
{
    uint64_t left =
        bases(g, g->rounds, low, high, g->rounds) | bases(g, g->rounds, low + g->n, high + g->n, g->rounds);
    left &= ~taken;
    return left != 0 ? 63 - __builtin_clzll(left) : -1;
}

/* In each round a rank takes the greatest base not taken yet of the ranks between skip[k + 1] and skip[k]
 * before it; the one at skip[k + 1] counts only if the others have none. That base is of `rounds` rounds ago,
 * but for the own base, which is fresh: it comes when the root is among them. Returns the block of round
 * `round`; negative: there is none yet. */
static int block(const struct circulant *g, int rank, int round)
{
    int own = base(g, rank), best = own;
    uint64_t taken = (uint64_t)1 << own;
    for (int k = 0; k <= round; k++) {
        int farthest = rank - g->skip[k + 1];
        best = greatest(g, farthest + 1, rank - g->skip[k] + 1, taken);
        if (best < 0)
            best = greatest(g, farthest, farthest + 1, taken);
        taken |= (uint64_t)1 << best;
    }
    return best == g->rounds ? own : best - g->rounds;
}

static int capped(int block)
{
    return block < BLOCKS ? block : BLOCKS - 1;
}

void tt_broadcast_circulant(struct tt_schedule *s, const struct tt_team *team, int root)
{
    struct circulant g = circulant_of(team->n);
    int me = (team->me - root + team->n) % team->n, gives[ROUNDS_MAX], takes[ROUNDS_MAX];
    int total = g.n > 1 ? BLOCKS - 1 + g.rounds : 0; /* and `before`: so many that the last ends a cycle */
    int before = total > 0 ? (g.rounds - total % g.rounds) % g.rounds : 0;
    tt_chunks(s, BLOCKS);
    for (int k = 0; k < g.rounds; k++) {
        gives[k] = block(&g, (me + g.skip[k]) % g.n, k);
        takes[k] = block(&g, me, k);
    }
    for (int i = before; i < total + before; i++) {
        int k = i % g.rounds, shift = i / g.rounds * g.rounds - before, to = (me + g.skip[k]) % g.n;
        int give = capped(gives[k] + shift), take = capped(takes[k] + shift);
        if (to != 0 && give >= 0)
            tt_send(
                s, tt_team_rank(team, to + root), me == 0 ? tt_in((uint32_t)give) : tt_out((uint32_t)give));
        if (me != 0 && take >= 0)
            tt_recv(s, tt_team_rank(team, me + root - g.skip[k]), tt_out((uint32_t)take));
    }
    if (me == 0)
        tt_copy(s, tt_range(TT_OUT, 0, s->chunks), tt_range(TT_IN, 0, s->chunks));
}

void tt_reduce_circulant(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_reverse(s, team, root, TT_BROADCAST, tt_broadcast_circulant);
}
