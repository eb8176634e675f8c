/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange.c: each rank has something else for each rank. IN(j) is what this rank gives rank j, OUT(j) what
 * it gets from rank j, so a message goes from IN of its receiver's number to OUT of its sender's.
 *
 *     n = 4, direct: in turn i all give to the i-th after them, and get from the i-th before them
 *       turn 1    0 -> 1 -> 2 -> 3 -> 0
 *       turn 2    0 -> 2 -> 0, 1 -> 3 -> 1
 *       turn 3    0 -> 3 -> 2 -> 1 -> 0
 *     n = 4, pairwise: in round t two exchange whose exclusive or is t, one round after the other
 *       round 1    0 = 1   2 = 3       round 2    0 = 2   1 = 3      round 3    0 = 3   1 = 2
 *     n = 4, bruck: block d is for the d-th rank behind its origin; in round k those with bit k go on by 2^k
 *       round 0    blocks 1, 3: 0 -> 1 -> 2 -> 3 -> 0      round 1    blocks 2, 3: 0 -> 2 -> 0, 1 -> 3 -> 1
 *
 *     n = 4, hierarchical, domains 0-1/2-3: what goes to the i-th members goes by the i-th of this domain
 *       inside    0 = 1, 2 = 3: 0 gets from 1 what that has for 0 and 2
 *       across    0 = 2, 1 = 3: 2 gets from 0 what 0 and 1 have for 2
 *
 * In place OUT(j) lies where IN(j) waits to be sent, and rank j may be in the same state: what is sent goes
 * through TMP. The messages are the same, so ranks may differ in whether they work in place.
 *
 * J. Bruck, C.-T. Ho, S. Kipnis, E. Upfal, D. Weathersby: Efficient algorithms for all-to-all
 * communications in multiport message-passing systems. IEEE TPDS 8(11), 1997.
 * R. Thakur, R. Rabenseifner, W. Gropp: Optimization of collective communication operations in MPICH.
 * IJHPCA 19(1), 2005: the all-to-all of medium messages, and the pairwise one of long messages.
 * J. L. Traeff, S. Hunold: Decomposing MPI collectives for exploiting multi-lane communication. IEEE CLUSTER
 * 2020: the one over domains. */
#include "algorithms/generators.h"

void tt_all_to_all_direct(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    uint32_t n = (uint32_t)team->n, me = (uint32_t)team->me;
    tt_chunks(s, n);
    for (uint32_t i = 1; i < n; i++) {
        uint32_t to = (me + i) % n;
        struct tt_cells given = s->key.in_place ? tt_tmp(to) : tt_in(to);
        if (s->key.in_place)
            tt_copy(s, given, tt_in(to));
        tt_send(s, tt_team_rank(team, (int)to), given);
    }
    tt_copy(s, tt_out(me), tt_in(me));
    for (uint32_t i = 1; i < n; i++) {
        uint32_t from = (me + n - i) % n;
        tt_recv(s, tt_team_rank(team, (int)from), tt_out(from));
    }
}

/* Returns the partner of a rank in round t: their sum is t modulo n; of a power of two their exclusive or is
 * t, which takes one round less. */
static uint32_t partner_in(uint32_t t, uint32_t me, uint32_t n)
{
    return (n & (n - 1)) == 0 ? me ^ t : (t + n - me) % n;
}

/* Both write where they read, so in place one cell of TMP is enough. */
void tt_all_to_all_pairwise(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    uint32_t n = (uint32_t)team->n, me = (uint32_t)team->me;
    tt_chunks(s, n);
    for (uint32_t t = 0; t < n; t++) {
        uint32_t peer = partner_in(t, me, n);
        if (peer == me)
            continue;
        struct tt_cells given = s->key.in_place ? tt_tmp(0) : tt_in(peer);
        tt_order_edge(s);
        if (s->key.in_place)
            tt_copy(s, given, tt_in(peer));
        tt_send(s, tt_team_rank(team, (int)peer), given);
        tt_recv(s, tt_team_rank(team, (int)peer), tt_out(peer));
    }
    tt_copy(s, tt_out(me), tt_in(me));
}

/* Returns where block d is before round k: in IN until its lowest bit, then where its last round brought it.
 * Rounds have two rows of TMP, what is given and what is taken; a block's place in its row is its turn among
 * those of this round. */
static struct tt_cells place_of(uint32_t d, uint32_t k, uint32_t n, uint32_t me)
{
    uint32_t done = d & ((1U << k) - 1), last = 0, turn;
    if (done == 0)
        return tt_in((me + d) % n);
    while (done >> (last + 1) != 0)
        last++;
    turn = (d >> (last + 1) << last) + (d & ((1U << last) - 1));
    return tt_tmp((2 * last + 1) * n + turn);
}

/* The blocks of the longest round. */
static uint32_t longest(uint32_t n)
{
    uint32_t most = 1;
    for (uint32_t k = 0; 1U << k < n; k++) {
        uint32_t count = 0;
        for (uint32_t d = 1; d < n; d++)
            count += d >> k & 1;
        most = count > most ? count : most;
    }
    return most;
}

void tt_all_to_all_bruck(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    uint32_t n = (uint32_t)team->n, me = (uint32_t)team->me, k = 0;
    tt_chunks(s, n);
    tt_max_chunks(s, longest(n));
    tt_copy(s, tt_out(me), tt_in(me));
    for (; 1U << k < n; k++) {
        uint32_t count = 0;
        for (uint32_t d = 1; d < n; d++)
            if (d >> k & 1)
                tt_copy(s, tt_tmp(2 * k * n + count++), place_of(d, k, n, me));
        tt_send(s, tt_team_rank(team, team->me + (1 << k)), tt_range(TT_TMP, 2 * k * n, count));
        tt_recv(s, tt_team_rank(team, team->me - (1 << k)), tt_range(TT_TMP, (2 * k + 1) * n, count));
    }
    for (uint32_t d = 1; d < n; d++)
        tt_copy(s, tt_out((me + n - d) % n), place_of(d, k, n, me));
}

/* Where things are while they go over domains. Rows of TMP: what is given inside, d blocks for each member;
 * what is taken there; what is given across, m blocks for each domain; what is taken there. */
struct over_domains {
    const struct tt_topology *topology;
    uint32_t d, m, domain, index; /* the domains, the members of each; this rank's */
};
enum { GIVEN_INSIDE, TAKEN_INSIDE, GIVEN_ACROSS, TAKEN_ACROSS };

static uint32_t rank_of(const struct over_domains *o, uint32_t domain, uint32_t index)
{
    return (uint32_t)o->topology->ranks[(uint32_t)o->topology->first[domain] + index];
}

static struct tt_cells blocks_of(const struct over_domains *o, uint32_t row, uint32_t first, uint32_t count)
{
    return tt_range(TT_TMP, row * o->d * o->m + first, count);
}

/* Each member gets what this rank has for those of its index in all domains. */
static void exchange_inside(struct tt_schedule *s, const struct tt_team *team, const struct over_domains *o)
{
    for (uint32_t i = 1; i < o->m; i++) {
        uint32_t to = (o->index + i) % o->m;
        for (uint32_t b = 0; b < o->d; b++)
            tt_copy(s, blocks_of(o, GIVEN_INSIDE, to * o->d + b, 1), tt_in(rank_of(o, b, to)));
        tt_send(s, tt_team_rank(team, (int)rank_of(o, o->domain, to)),
            blocks_of(o, GIVEN_INSIDE, to * o->d, o->d));
    }
    for (uint32_t i = 1; i < o->m; i++) {
        uint32_t from = (o->index + o->m - i) % o->m;
        tt_recv(s, tt_team_rank(team, (int)rank_of(o, o->domain, from)),
            blocks_of(o, TAKEN_INSIDE, from * o->d, o->d));
    }
}

/* What member j of this domain has for the rank of this one's index in domain b. */
static struct tt_cells block_from(const struct over_domains *o, uint32_t j, uint32_t b)
{
    return j == o->index ? tt_in(rank_of(o, b, j)) : blocks_of(o, TAKEN_INSIDE, j * o->d + b, 1);
}

/* The blocks of a domain are one range of OUT, if they are of neighbours. */
static void exchange_across(struct tt_schedule *s, const struct tt_team *team, const struct over_domains *o)
{
    bool ordered = o->topology->ordered;
    for (uint32_t i = 1; i < o->d; i++) {
        uint32_t to = (o->domain + i) % o->d;
        for (uint32_t j = 0; j < o->m; j++)
            tt_copy(s, blocks_of(o, GIVEN_ACROSS, to * o->m + j, 1), block_from(o, j, to));
        tt_send(s, tt_team_rank(team, (int)rank_of(o, to, o->index)),
            blocks_of(o, GIVEN_ACROSS, to * o->m, o->m));
    }
    for (uint32_t j = 0; j < o->m; j++)
        tt_copy(s, tt_out(rank_of(o, o->domain, j)), block_from(o, j, o->domain));
    for (uint32_t i = 1; i < o->d; i++) {
        uint32_t from = (o->domain + o->d - i) % o->d;
        struct tt_cells taken = blocks_of(o, TAKEN_ACROSS, from * o->m, o->m);
        tt_recv(s, tt_team_rank(team, (int)rank_of(o, from, o->index)),
            ordered ? tt_range(TT_OUT, from * o->m, o->m) : taken);
        for (uint32_t j = 0; j < o->m && !ordered; j++)
            tt_copy(s, tt_out(rank_of(o, from, j)), blocks_of(o, TAKEN_ACROSS, from * o->m + j, 1));
    }
}

void tt_all_to_all_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root)
{
    const struct tt_topology *topology = s->key.topology;
    struct over_domains o = { .topology = topology, .d = (uint32_t)topology->domains };
    (void)root;
    o.m = (uint32_t)team->n / o.d;
    o.domain = (uint32_t)topology->domain[team->me];
    while (rank_of(&o, o.domain, o.index) != (uint32_t)team->me)
        o.index++;
    tt_chunks(s, (uint32_t)team->n);
    tt_max_chunks(s, o.d > o.m ? o.d : o.m);
    exchange_inside(s, team, &o);
    exchange_across(s, team, &o);
}
