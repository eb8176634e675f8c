/* SPDX-License-Identifier: BSD-3-Clause */
/* bound.c: what no algorithm can go below, by LogGP: A. Alexandrov, M. Ionescu, K. Schauser, C. Scheiman:
 * LogGP, incorporating long messages into the LogP model. SPAA 1995.
 *
 * Two bounds, of which the greater holds. Rounds: what all ranks know of each other, or one knows of all, has
 * passed log2 of the hosts between hosts and log2 of their ranks inside, each for a latency and the work of
 * two ends. Bytes: a rank reads what it lacks, the share of it that must come from other hosts at their
 * price, the rest at the price inside. */
#include "request.h"

struct volume { /* in vectors: what a rank reads at least, and what of it comes from other hosts */
    double all, away;
    bool rounds; /* it needs logarithmic rounds; else each pair may talk at once */
};

static struct volume volume_of(enum tt_collective collective, double n, double hosts)
{
    double per_host = n / hosts, others = (n - 1) / n, abroad = (hosts - 1) / hosts;
    switch (collective) {
    case TT_ALL_REDUCE:
        return (struct volume){ 2 * others, 2 * abroad / per_host, true };
    case TT_REDUCE_SCATTER:
    case TT_ALL_GATHER:
        return (struct volume){ others, abroad / per_host, true };
    case TT_BROADCAST:
    case TT_REDUCE:
        return (struct volume){ others, abroad / per_host, true };
    case TT_BARRIER:
        return (struct volume){ 0, 0, true };
    case TT_ALL_TO_ALL:
        return (struct volume){ others, abroad, false };
    case TT_GATHER:
        return (struct volume){ others, abroad, false };
    default:
        return (struct volume){ 0, 0, false };
    }
}

static int rounds_of(int n)
{
    int rounds = 0;
    while ((1LL << rounds) < n)
        rounds++;
    return rounds;
}

uint64_t sim_bound(const struct sim_request *r)
{
    const struct tt_costs *c = &r->machine.costs;
    int hosts = r->topology.domains, most = 1;
    for (int h = 0; h < hosts; h++)
        most = tt_topology_size(&r->topology, h) > most ? tt_topology_size(&r->topology, h) : most;
    enum tt_level between = tt_costs_level(c, false);
    struct volume v = volume_of(r->query.collective, r->n, hosts);
    double near = (double)(c->latency[TT_NEAR] + 2 * c->message[TT_NEAR]);
    double away = (double)(c->latency[between] + 2 * c->message[between]);
    double rounds = rounds_of(hosts) * away + rounds_of(most) * near;
    if (!v.rounds)
        rounds = r->n == 1 ? 0 : hosts > 1 ? away : near;
    double bytes = (double)r->bytes * (v.away * (double)c->byte[between] +
                                          (v.all > v.away ? v.all - v.away : 0) * (double)c->byte[TT_NEAR]);
    return (uint64_t)(rounds > bytes ? rounds : bytes);
}
