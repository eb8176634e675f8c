/* SPDX-License-Identifier: BSD-3-Clause */
/* bound.c: what no algorithm can go below, by LogGP: A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman:
 * LogGP, incorporating long messages into the LogP model. SPAA 1995.
 *
 * Three bounds, of which the greatest holds. All ranks: what one has comes to all by the tree that is best
 * where who sends may send on while its messages are in flight, at the price inside a host (R. Karp, A.
 * Sahay, E. Santos, K. Schauser: Optimal broadcast and summation in the LogP model. SPAA 1993). All hosts: it
 * comes to one rank of each, and then all ranks there may send on at once. Bytes: a rank reads what it lacks,
 * the share of it that must come from other hosts at their price, the rest at the price inside; or the root
 * sends to other hosts what is theirs. Links that ranks share are none of LogGP's. */
#include "request.h"

struct volume { /* in vectors: what a rank reads at least, and what of it comes from other hosts */
    double all, away;
    bool rounds; /* one rank's part goes to all, or all parts to one; else each pair may talk at once */
};

/* The parts of a vector that are not the root's, and not of its host. */
struct shares {
    double others, abroad;
};

/* Of n ranks. Where blocks differ in length, some rank has no more of them than an even share. */
static struct volume volume_of(enum tt_collective collective, double n, double hosts, struct shares of)
{
    double per_host = n / hosts, others = (n - 1) / n, abroad = (hosts - 1) / hosts;
    switch (collective) {
    case TT_ALL_REDUCE:
        return (struct volume){ 2 * others, 2 * abroad / per_host, true };
    case TT_REDUCE_SCATTER:
    case TT_ALL_GATHER:
    case TT_REDUCE_SCATTER_V:
    case TT_ALL_GATHER_V:
        return (struct volume){ others, abroad / per_host, true };
    case TT_BROADCAST:
    case TT_REDUCE:
        return (struct volume){ others, abroad / per_host, true };
    case TT_BARRIER:
        return (struct volume){ 0, 0, true };
    case TT_ALL_TO_ALL:
    case TT_ALL_TO_ALL_V:
        return (struct volume){ others, abroad, false };
    case TT_GATHER:
    case TT_GATHER_V:
        return (struct volume){ of.others, of.abroad, false };
    default: /* a scatter, whose root sends */
        return (struct volume){ 0, of.abroad, false };
    }
}

/* Returns the least time until n know what one knows: of those who know, each tells `senders` more in the
 * time that a message costs. */
static double tree_time(int n, int senders, double latency, double message)
{
    enum { TICKS = 4096 };
    double known[TICKS] = { 1 };
    double hop = latency + 2 * message;
    if (n == 1)
        return 0;
    int ticks = message > 0 ? (int)(hop / message) : TICKS;
    if (ticks >= TICKS / 2)
        return hop;
    int t = 0;
    while (t + 1 < TICKS && known[t] < n) {
        t++;
        known[t] = known[t - 1] + (t >= ticks ? senders * known[t - ticks] : 0);
    }
    return t * message > hop ? t * message : hop;
}

/* Where a root has or gets blocks of any length; else they are taken to be even. */
static struct shares shares_of(const struct sim_request *r)
{
    bool rooted = tt_collectives[r->query.collective].rooted;
    const struct tt_layout *blocks = rooted ? r->query.blocks : NULL;
    const int *host = r->topology.domain;
    double all = 0, others = 0, abroad = 0;
    for (int i = 0; i < r->n; i++) {
        double block = blocks != NULL ? (double)blocks->counts[i] : 1;
        all += block;
        others += i > 0 ? block : 0;
        abroad += host[i] != host[0] ? block : 0;
    }
    return all > 0 ? (struct shares){ others / all, abroad / all } : (struct shares){ 0 };
}

uint64_t sim_bound(const struct sim_request *r, int protocol)
{
    const struct tt_costs *c = &r->machine.protocols[protocol].costs;
    enum tt_collective collective = r->query.collective;
    int hosts = r->topology.domains, most = 1;
    for (int h = 0; h < hosts; h++)
        most = tt_topology_size(&r->topology, h) > most ? tt_topology_size(&r->topology, h) : most;
    if (r->bytes == 0) /* nobody sends anything */
        return sim_call_time(r, protocol);
    enum tt_level between = tt_costs_level(c, false);
    struct shares shares = shares_of(r);
    struct volume v = volume_of(collective, r->n, hosts, shares);
    double near = tree_time(v.rounds            ? r->n
                            : shares.others > 0 ? 2
                                                : 1,
        1, (double)c->latency[TT_NEAR], (double)c->message[TT_NEAR]);
    double away = tree_time(v.rounds            ? hosts
                            : shares.abroad > 0 ? 2
                                                : 1,
        most, (double)c->latency[between], (double)c->message[between]);
    double rounds = away > near ? away : near;
    bool scatters = collective == TT_SCATTER || collective == TT_SCATTER_V;
    bool free_root = scatters && c->hosts < 2; /* who is on one host is free meanwhile */
    double rest = v.all > v.away ? v.all - v.away : 0;
    double far = (double)c->byte[between], inside = (double)c->byte[TT_NEAR];
    double bytes = (double)r->bytes * ((free_root ? 0 : v.away * far) + rest * (inside < far ? inside : far));
    double bound = rounds > bytes ? rounds : bytes;
    return tt_costs_sum(
        sim_call_time(r, protocol), bound < (double)UINT64_MAX ? (uint64_t)bound : UINT64_MAX);
}
