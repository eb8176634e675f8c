/* SPDX-License-Identifier: BSD-3-Clause */
/* hierarchical.c: inside cache domains and across them, each by an algorithm that is there already.
 *
 *     n = 4, domains 0-1/2-3, all_reduce    inside   0 = 1   2 = 3    reduce-scatter: a half each
 *                                           across   0 = 2   1 = 3    all-reduce of a half
 *                                           inside   0 = 1   2 = 3    all-gather
 *     n = 5, domains 0-1/2-4, all_reduce    inside   0 <- 1   2 <- 3, 4    reduce to the leader
 *                                           across   0 = 2                 all-reduce
 *                                           inside   0 -> 1   2 -> 3, 4    broadcast
 *
 * Domains of one size take the first form: what crosses between domains is one vector for each of them, in
 * equal shares, not one for each rank. Others take the second. The leader of a domain is its first rank, or
 * the root if that is in it. Operands are combined inside in the order of the ranks, then in that of the
 * domains.
 *
 * Across domains everybody talks to everybody at once, which is the fewest rounds for a few of them. Where
 * there are hundreds, the messages of that are too many. For these the same parts are put together with
 * something of ceil(log2(domains)) rounds across:
 *
 *     n = 4, all_reduce hierarchical_circulant    as above, but across by the circulant all-reduce
 *     n = 4, all_reduce hierarchical_doubling     inside   0 = 1   2 = 3    all-reduce of the whole vector
 *                                                 across   0 = 2   1 = 3    the same, by doubling
 *     n = 4, broadcast hierarchical_split         0 -> 1 the second half, then 0 -> 2, 1 -> 3 a half each, by
 *                                                 a tree, then 0 = 1, 2 = 3 the halves
 *     n = 4, broadcast hierarchical_circulant     the same, by the circulant broadcast, in eight blocks each
 *     n = 4, reduce of either name                the same, backwards
 *     n = 4, reduce hierarchical_tree             0 <- 1, 2 <- 3, then 0 <- 2, which is a tree of the leaders
 *     n = 4, barrier hierarchical_dissemination   0 <- 1, 2 <- 3, then 0 = 2, then 0 -> 1, 2 -> 3
 *
 * N. T. Karonis et al.: Exploiting hierarchy in parallel computer networks to optimize collective operation
 * performance. IPDPS 2000 (leaders). J. L. Traeff, S. Hunold: Decomposing MPI collectives for exploiting
 * multi-lane communication. IEEE CLUSTER 2020 (shares). */
#include <stdlib.h>

#include "algorithms/generators.h"

enum { COLUMN = -1 };

struct teams {
    const struct tt_topology *topology;
    struct tt_team inside, across;
    int leader, home; /* index in `inside`; of the root's domain in `across` */
    bool leads;
    int *ranks; /* of `across` */
};

/* `across` is who has this rank's index in each domain (root COLUMN), else the leaders. False, with the build
 * spoilt, if there is no memory. */
static bool open_teams(struct tt_schedule *s, int root, struct teams *t)
{
    const struct tt_topology *topology = s->key.topology;
    int me = s->key.me, mine = topology->domain[me];
    *t = (struct teams){ .topology = topology };
    t->inside.ranks = topology->ranks + topology->first[mine];
    t->inside.n = tt_topology_size(topology, mine);
    while (t->inside.ranks[t->inside.me] != me)
        t->inside.me++;
    t->ranks = malloc((size_t)topology->domains * sizeof *t->ranks);
    if (t->ranks == NULL) {
        tt_spoil(s, TUTTI_OUT_OF_MEMORY, "no memory");
        return false;
    }
    for (int d = 0; d < topology->domains; d++)
        t->ranks[d] = topology->ranks[topology->first[d] + (root == COLUMN ? t->inside.me : 0)];
    if (root != COLUMN)
        t->ranks[t->home = topology->domain[root]] = root;
    while (root != COLUMN && t->inside.ranks[t->leader] != t->ranks[mine])
        t->leader++;
    t->leads = t->ranks[mine] == me;
    t->across = (struct tt_team){ .n = topology->domains, .me = mine, .ranks = t->ranks };
    return true;
}

static struct tt_cells all_of(const struct tt_schedule *s, enum tt_buffer buffer)
{
    return tt_range(buffer, 0, s->chunks);
}

/* Each member of a domain has a share of as many chunks as there are domains, which `across` combines. */
static void all_reduce_in_shares(struct tt_schedule *s, tt_generator across)
{
    struct teams t;
    if (!open_teams(s, COLUMN, &t))
        return;
    uint32_t share = (uint32_t)t.across.n;
    tt_chunks(s, share * (uint32_t)t.inside.n);
    tt_max_chunks(s, share);
    struct tt_cells in = all_of(s, TT_IN), out = all_of(s, TT_OUT);
    struct tt_cells mine = tt_range(TT_OUT, (uint32_t)t.inside.me * share, share);
    struct tt_sub_schedule scatter = { .collective = TT_REDUCE_SCATTER, .in = in, .out = out };
    struct tt_sub_schedule reduce = {
        .collective = TT_ALL_REDUCE, .in = mine, .out = mine, .completes = true
    };
    struct tt_sub_schedule gather = { .collective = TT_ALL_GATHER, .in = out, .out = out };
    tt_run_sub_schedule(s, &scatter, &t.inside, 0, tt_reduce_scatter_direct);
    tt_run_sub_schedule(s, &reduce, &t.across, 0, across);
    tt_run_sub_schedule(s, &gather, &t.inside, 0, tt_all_gather_direct);
    free(t.ranks);
}

/* Writes the rounds of an all_reduce by leaders; the result is where `sums` lie. A barrier has no OUT: its
 * tokens lie in the first row of TMP. */
static void all_reduce_by_leaders(struct tt_schedule *s, enum tt_buffer sums)
{
    struct teams t;
    if (!open_teams(s, 0, &t))
        return;
    bool barrier = s->key.collective == TT_BARRIER;
    tt_chunks(s, barrier ? 1 : (uint32_t)t.across.n);
    tt_max_chunks(s, s->chunks);
    struct tt_cells in = all_of(s, TT_IN), out = all_of(s, sums);
    uint32_t tmp = barrier ? s->chunks : 0;
    struct tt_sub_schedule reduce = { .collective = TT_REDUCE, .in = in, .out = out, .tmp = tmp };
    struct tt_sub_schedule across = {
        .collective = TT_ALL_REDUCE, .in = out, .out = out, .tmp = tmp, .completes = !barrier
    };
    struct tt_sub_schedule spread = { .collective = TT_BROADCAST, .in = out, .out = out };
    tt_run_sub_schedule(s, &reduce, &t.inside, t.leader, tt_reduce_direct);
    if (t.leads)
        tt_run_sub_schedule(
            s, &across, &t.across, 0, barrier ? tt_all_reduce_one_shot : tt_all_reduce_direct);
    tt_run_sub_schedule(s, &spread, &t.inside, t.leader, tt_broadcast_tree);
    free(t.ranks);
}

void tt_all_reduce_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)team;
    (void)root;
    if (s->key.topology->even)
        all_reduce_in_shares(s, tt_all_reduce_direct);
    else
        all_reduce_by_leaders(s, TT_OUT);
}

void tt_all_reduce_hierarchical_circulant(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)team;
    (void)root;
    all_reduce_in_shares(s, tt_all_reduce_circulant);
}

/* Nobody leads: all of a domain have its sum, and each goes on with its peers in the others, who combine the
 * same sums in the same order. The sum of the domain lies in the first row of TMP, so that in place nothing
 * is copied. */
void tt_all_reduce_hierarchical_doubling(struct tt_schedule *s, const struct tt_team *team, int root)
{
    struct teams t;
    (void)team;
    (void)root;
    tt_chunks(s, 1);
    if (!open_teams(s, COLUMN, &t))
        return;
    struct tt_cells in = tt_in(0), sum = tt_tmp(0), out = tt_out(0);
    struct tt_sub_schedule inside = { .collective = TT_ALL_REDUCE, .in = in, .out = sum, .tmp = 1 };
    struct tt_sub_schedule across = {
        .collective = TT_ALL_REDUCE, .in = sum, .out = out, .tmp = 1, .completes = true
    };
    tt_run_sub_schedule(s, &inside, &t.inside, 0, tt_all_reduce_one_shot);
    tt_run_sub_schedule(s, &across, &t.across, 0, tt_all_reduce_doubling);
    free(t.ranks);
}

void tt_barrier_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)team;
    (void)root;
    all_reduce_by_leaders(s, TT_TMP);
}

/* In a round of dissemination a leader has a token of its own cell: the last one, which has heard of all, is
 * what it passes on. */
void tt_barrier_hierarchical_dissemination(struct tt_schedule *s, const struct tt_team *team, int root)
{
    struct teams t;
    uint32_t rounds = 0;
    (void)team;
    (void)root;
    tt_chunks(s, 1);
    if (!open_teams(s, 0, &t))
        return;
    while (1 << rounds < t.across.n)
        rounds++;
    struct tt_cells heard = tt_tmp(0), all = tt_tmp(rounds);
    struct tt_sub_schedule gather = { .collective = TT_REDUCE, .in = tt_in(0), .out = heard, .tmp = 1 };
    struct tt_sub_schedule across = { .collective = TT_BARRIER, .in = heard, .out = heard, .tmp = 1 };
    struct tt_sub_schedule release = { .collective = TT_BROADCAST, .in = all, .out = all };
    tt_run_sub_schedule(s, &gather, &t.inside, t.leader, tt_reduce_direct);
    if (t.leads)
        tt_run_sub_schedule(s, &across, &t.across, 0, tt_barrier_dissemination);
    tt_run_sub_schedule(s, &release, &t.inside, t.leader, tt_broadcast_tree);
    free(t.ranks);
}

/* The root gives to the leaders, they to the others. */
void tt_broadcast_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root)
{
    struct teams t;
    tt_chunks(s, 1);
    if (!open_teams(s, root, &t))
        return;
    struct tt_cells from = team->me == root ? tt_in(0) : tt_out(0);
    struct tt_sub_schedule across = { .collective = TT_BROADCAST, .in = from, .out = from };
    struct tt_sub_schedule inside = { .collective = TT_BROADCAST, .in = from, .out = tt_out(0) };
    if (t.leads)
        tt_run_sub_schedule(s, &across, &t.across, t.home, tt_broadcast_tree);
    tt_run_sub_schedule(s, &inside, &t.inside, t.leader, tt_broadcast_tree);
    free(t.ranks);
}

/* Each member of a domain has a share of so many chunks of the vector. */
static struct tt_cells share_of(
    const struct tt_schedule *s, const struct tt_team *inside, enum tt_buffer buffer, int member)
{
    uint32_t share = s->chunks / (uint32_t)inside->n;
    return tt_range(buffer, share * (uint32_t)member, share);
}

/* The root gives each other member of its domain its share. */
static void hand_out(struct tt_schedule *s, const struct tt_team *inside, int root)
{
    for (int i = 1; i < inside->n && inside->me == root; i++)
        tt_send(s, tt_team_rank(inside, root + i), share_of(s, inside, TT_IN, (root + i) % inside->n));
    if (inside->me != root)
        tt_recv(s, tt_team_rank(inside, root), share_of(s, inside, TT_OUT, inside->me));
}

/* All members but the root, who has them, get the shares of the others. root -1: it is in another domain, and
 * all get them. */
static void gather_shares(struct tt_schedule *s, const struct tt_team *inside, int root)
{
    const int n = inside->n, me = inside->me;
    for (int i = 1; i < n; i++)
        if ((me + i) % n != root)
            tt_send(s, tt_team_rank(inside, me + i), share_of(s, inside, me == root ? TT_IN : TT_OUT, me));
    for (int i = 1; i < n && me != root; i++)
        tt_recv(s, tt_team_rank(inside, me + i), share_of(s, inside, TT_OUT, (me + i) % n));
    if (me == root)
        tt_copy(s, all_of(s, TT_OUT), all_of(s, TT_IN));
}

/* The members of the root's domain take a share each to their peers in the other domains, so that all links
 * of a host carry the vector together. `across` has a share in so many blocks. */
static void broadcast_in_shares(
    struct tt_schedule *s, const struct tt_team *team, int root, tt_generator across, uint32_t blocks)
{
    struct teams t;
    int home = s->key.topology->domain[root], index = home == s->key.topology->domain[team->me] ? 0 : -1;
    if (!open_teams(s, COLUMN, &t))
        return;
    tt_chunks(s, blocks * (uint32_t)t.inside.n);
    tt_max_chunks(s, blocks);
    struct tt_cells share = share_of(s, &t.inside, team->me == root ? TT_IN : TT_OUT, t.inside.me);
    struct tt_sub_schedule lane = { .collective = TT_BROADCAST, .in = share, .out = share };
    while (index >= 0 && t.inside.ranks[index] != root)
        index++;
    if (index >= 0)
        hand_out(s, &t.inside, index);
    tt_run_sub_schedule(s, &lane, &t.across, home, across);
    gather_shares(s, &t.inside, index);
    free(t.ranks);
}

void tt_broadcast_hierarchical_split(struct tt_schedule *s, const struct tt_team *team, int root)
{
    broadcast_in_shares(s, team, root, tt_broadcast_tree, 1);
}

void tt_broadcast_hierarchical_circulant(struct tt_schedule *s, const struct tt_team *team, int root)
{
    enum { BLOCKS = 8 };
    broadcast_in_shares(s, team, root, tt_broadcast_circulant, BLOCKS);
}

void tt_reduce_hierarchical_split(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_reverse(s, team, root, TT_BROADCAST, tt_broadcast_hierarchical_split);
}

void tt_reduce_hierarchical_circulant(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_reverse(s, team, root, TT_BROADCAST, tt_broadcast_hierarchical_circulant);
}

/* Leaders that are not the root have no OUT: their sum lies in the first row of TMP. */
static void reduce_by_leaders(
    struct tt_schedule *s, const struct tt_team *team, int root, tt_generator among_leaders)
{
    struct teams t;
    tt_chunks(s, 1);
    if (!open_teams(s, root, &t))
        return;
    struct tt_cells sum = team->me == root ? tt_out(0) : tt_tmp(0);
    struct tt_sub_schedule inside = { .collective = TT_REDUCE, .in = tt_in(0), .out = sum, .tmp = 1 };
    struct tt_sub_schedule across = {
        .collective = TT_REDUCE, .in = sum, .out = sum, .tmp = 1, .completes = true
    };
    tt_run_sub_schedule(s, &inside, &t.inside, t.leader, tt_reduce_direct);
    if (t.leads)
        tt_run_sub_schedule(s, &across, &t.across, t.home, among_leaders);
    free(t.ranks);
}

void tt_reduce_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root)
{
    reduce_by_leaders(s, team, root, tt_reduce_direct);
}

void tt_reduce_hierarchical_tree(struct tt_schedule *s, const struct tt_team *team, int root)
{
    reduce_by_leaders(s, team, root, tt_reduce_tree);
}

/* Everybody gets the blocks of its peers in other domains; each domain's are then gathered in turn. */
void tt_all_gather_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root)
{
    struct teams t;
    (void)root;
    tt_chunks(s, (uint32_t)team->n);
    if (!open_teams(s, COLUMN, &t))
        return;
    struct tt_cells in = all_of(s, TT_IN), out = all_of(s, TT_OUT);
    struct tt_sub_schedule across = { .collective = TT_ALL_GATHER, .in = in, .out = out, .map = t.ranks };
    tt_run_sub_schedule(s, &across, &t.across, 0, tt_all_gather_direct);
    for (int d = 0; d < t.across.n; d++) {
        struct tt_sub_schedule inside = { .collective = TT_ALL_GATHER, .in = out, .out = out };
        inside.map = t.topology->ranks + t.topology->first[d];
        tt_run_sub_schedule(s, &inside, &t.inside, 0, tt_all_gather_direct);
    }
    free(t.ranks);
}

/* What is gathered goes back, a sum in place of a block: the sums of a domain, then those of all. */
void tt_reduce_scatter_hierarchical(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_reverse(s, team, root, TT_ALL_GATHER, tt_all_gather_hierarchical);
}
