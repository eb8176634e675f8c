/* SPDX-License-Identifier: BSD-3-Clause */
/* bruck.c: all-gather in ceil(log2(n)) rounds for every n. Who holds the blocks me .. me + have - 1 passes
 * the first of them on and gets as many from the one `have` behind; a block lies in its own cell all the
 * time, so nothing is rotated at the end. A range that wraps around is two messages, and a long one several.
 *
 *     n = 5    Bruck: 1, 2, 4, 5 held          circulant: 1, 2, 3, 5 held
 *     round 0  0 <-1- 1  0 gets 1              0 gets 1
 *     round 1  0 <-23- 2                       0 <-2- 2
 *     round 2  0 <-4- 4                        0 <-34- 3
 *
 * Bruck doubles what is held; the circulant graph ends with ceil(n / 2^j), so that its last message, the
 * longest, carries floor(n / 2) blocks. Backwards it is a reduce-scatter, and both together an all-reduce of
 * 2 ceil(log2(n)) rounds and the least bytes, for every n.
 *
 * Over domains of m neighbours each the graph is one of the domains: a round brings the blocks of some
 * domains, member i the i-th m-th of them from member i, and then all of a domain tell each other. So a block
 * comes to a domain once, in ceil(log2(domains)) rounds across:
 *
 *     n = 4, domains 0-1/2-3    inside   0 = 1    2 = 3
 *                               across   0 <-2- 2, 1 <-3- 3, 2 <-0- 0, 3 <-1- 1
 *                               inside   0 = 1: 2, 3    2 = 3: 0, 1
 *
 * J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all
 * communications in multiport message-passing systems. IEEE TPDS 8(11), 1997. J. L. Traeff: Optimal,
 * non-pipelined reduce-scatter and allreduce algorithms. arXiv 2410.14234, 2024. J. L. Traeff, S. Hunold:
 * Decomposing MPI collectives for exploiting multi-lane communication. IEEE CLUSTER 2020 (over domains). */
#include "algorithms/generators.h"

typedef int (*growth)(int have, int n); /* blocks held after a round */

/* The blocks of a message, so that the shortest slot has an element of each. */
enum { LONGEST = 1024 };

static int doubled(int have, int n)
{
    return 2 * have < n ? 2 * have : n;
}

static int halved(int have, int n)
{
    int next = n;
    while ((next + 1) / 2 > have)
        next = (next + 1) / 2;
    return next;
}

/* The blocks of the longest message. */
static int longest(int n, growth grow)
{
    int most = 1;
    for (int have = 1, next; have < n; have = next) {
        next = grow(have, n);
        most = next - have > most ? next - have : most;
    }
    return most < LONGEST ? most : LONGEST;
}

/* The first message of blocks first .. first + count - 1, which may wrap around. */
static struct tt_cells piece(const struct tt_team *team, int first, int count)
{
    int straight = team->n - first % team->n;
    straight = straight < LONGEST ? straight : LONGEST;
    return tt_range(TT_OUT, (uint32_t)(first % team->n), (uint32_t)(count < straight ? count : straight));
}

static void send_blocks(struct tt_schedule *s, const struct tt_team *team, int to, int first, int count)
{
    for (int done = 0; done < count;) {
        struct tt_cells next = piece(team, first + done, count - done);
        tt_send(s, tt_team_rank(team, to), next);
        done += (int)next.count;
    }
}

static void recv_blocks(struct tt_schedule *s, const struct tt_team *team, int from, int first, int count)
{
    for (int done = 0; done < count;) {
        struct tt_cells next = piece(team, first + done, count - done);
        tt_recv(s, tt_team_rank(team, from), next);
        done += (int)next.count;
    }
}

/* The own block lies in `own`, IN or OUT. */
static void gather(struct tt_schedule *s, const struct tt_team *team, struct tt_cells own, growth grow)
{
    int n = team->n, me = team->me, next;
    for (int have = 1; have < n; have = next) {
        next = grow(have, n);
        if (have == 1)
            tt_send(s, tt_team_rank(team, me - 1), own);
        else
            send_blocks(s, team, me - have, me, next - have);
        recv_blocks(s, team, me + have, me + have, next - have);
    }
}

static void all_gather(struct tt_schedule *s, const struct tt_team *team, growth grow)
{
    uint32_t me = (uint32_t)team->me;
    tt_chunks(s, (uint32_t)team->n);
    tt_max_chunks(s, (uint32_t)longest(team->n, grow));
    tt_copy(s, tt_out(me), tt_in(me));
    gather(s, team, tt_in(me), grow);
}

void tt_all_gather_bruck(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    all_gather(s, team, doubled);
}

void tt_all_gather_circulant(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    all_gather(s, team, halved);
}

void tt_reduce_scatter_circulant(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_reverse(s, team, root, TT_ALL_GATHER, tt_all_gather_circulant);
}

void tt_all_reduce_circulant(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_reduce_scatter_circulant(s, team, root);
    gather(s, team, tt_out((uint32_t)team->me), halved);
}

/* Of the blocks first .. first + count * each - 1, this rank has its part, as each member of its domain;
 * afterwards all have all. Its part lies in OUT, but for `own`, if that is one. */
static void exchange_inside(struct tt_schedule *s, const struct tt_team *team, int each, int first, int count,
    const struct tt_cells *own)
{
    int leader = team->me / each * each, index = team->me % each;
    for (int i = 1; i < each; i++) {
        int other = leader + (index + i) % each;
        if (own != NULL)
            tt_send(s, tt_team_rank(team, other), *own);
        else
            send_blocks(s, team, other, first + index * count, count);
    }
    for (int i = 1; i < each; i++) {
        int other = (index + i) % each;
        recv_blocks(s, team, leader + other, first + other * count, count);
    }
}

void tt_all_gather_hierarchical_circulant(struct tt_schedule *s, const struct tt_team *team, int root)
{
    const struct tt_topology *topology = s->key.topology;
    int domains = topology->domains, each = tt_topology_size(topology, 0), me = team->me, next;
    int first = me / each * each, index = me % each;
    struct tt_cells own = tt_in((uint32_t)me);
    (void)root;
    tt_chunks(s, (uint32_t)team->n);
    tt_max_chunks(s, (uint32_t)longest(domains, halved));
    tt_copy(s, tt_out((uint32_t)me), own);
    exchange_inside(s, team, each, first, 1, &own);
    for (int have = 1; have < domains; have = next) {
        next = halved(have, domains);
        int count = next - have, away = have * each, part = index * count;
        if (have == 1)
            tt_send(s, tt_team_rank(team, me - away), own);
        else
            send_blocks(s, team, me - away, first + part, count);
        recv_blocks(s, team, me + away, first + away + part, count);
        exchange_inside(s, team, each, first + away, count, NULL);
    }
}

/* The last message to a member is often of this rank's own input, and could go at once. But the member adds
 * it to what it makes of the earlier ones, so it must not take their slots. */
void tt_reduce_scatter_hierarchical_circulant(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_in_turn(s, true);
    tt_reverse(s, team, root, TT_ALL_GATHER, tt_all_gather_hierarchical_circulant);
}
