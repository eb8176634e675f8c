/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.c: the algorithms, a row each. Of those that can serve a call the one of the lowest
 * predicted time is chosen (lib/select/cost_model.h), of equal times the first row. */
#include "algorithms/algorithms.h"

#include <string.h>

#include "algorithms/generators.h"
#include "base/status.h"

enum { ANY = TT_ANY_DOMAINS };

#define THAKUR "Thakur, Rabenseifner, Gropp 2005"
#define CHAN "Chan, Heimlich, Purkayastha, van de Geijn 2007"
#define RING "Patarasuk, Yuan 2009"
#define BRUCK "Bruck, Ho, Kipnis, Upfal, Weathersby 1997"
#define TRAEFF "Traeff 2024: non-pipelined reduce-scatter and all-reduce"
#define LEADERS "Karonis et al. 2000"
#define LANES "Traeff, Hunold 2020"
#define BLOCKS "Traeff 2025: broadcast schedules in logarithmic time"

const struct tt_algorithm tt_algorithms[] = {
    { "one_shot", TT_ALL_REDUCE, TT_ASSOCIATION_ORDERED, TT_CANONICAL_ALWAYS, ANY, tt_all_reduce_one_shot,
        CHAN },
    { "direct", TT_ALL_REDUCE, TT_ASSOCIATION_ORDERED, TT_CANONICAL_ALWAYS, ANY, tt_all_reduce_direct, CHAN },
    { "star", TT_ALL_REDUCE, TT_ASSOCIATION_ORDERED, TT_CANONICAL_ALWAYS, ANY, tt_all_reduce_star, "flat" },
    { "doubling", TT_ALL_REDUCE, TT_ASSOCIATION_ORDERED, TT_CANONICAL_POWER_OF_TWO, ANY,
        tt_all_reduce_doubling, THAKUR },
    { "tree", TT_ALL_REDUCE, TT_ASSOCIATION_ORDERED, TT_CANONICAL_ALWAYS, ANY, tt_all_reduce_tree,
        "binomial" },
    { "halving", TT_ALL_REDUCE, TT_ASSOCIATION_ORDERED, TT_CANONICAL_POWER_OF_TWO, ANY, tt_all_reduce_halving,
        "Rabenseifner 2004" },
    { "ring", TT_ALL_REDUCE, TT_ASSOCIATION_ROTATED, TT_CANONICAL_NEVER, ANY, tt_all_reduce_ring, RING },
    { "double_tree", TT_ALL_REDUCE, TT_ASSOCIATION_ORDERED_BY_CHUNK, TT_CANONICAL_NEVER, ANY,
        tt_all_reduce_double_tree, "Sanders, Speck, Traeff 2009" },
    { "circulant", TT_ALL_REDUCE, TT_ASSOCIATION_UNORDERED, TT_CANONICAL_NEVER, ANY, tt_all_reduce_circulant,
        TRAEFF },
    { "hierarchical", TT_ALL_REDUCE, TT_ASSOCIATION_BY_DOMAIN, TT_CANONICAL_IF_NESTED, TT_SEVERAL,
        tt_all_reduce_hierarchical, LANES },
    { "hierarchical_circulant", TT_ALL_REDUCE, TT_ASSOCIATION_UNORDERED, TT_CANONICAL_NEVER, TT_EVEN,
        tt_all_reduce_hierarchical_circulant, LANES },
    { "hierarchical_doubling", TT_ALL_REDUCE, TT_ASSOCIATION_BY_DOMAIN, TT_CANONICAL_IF_POWERS_NEST, TT_EVEN,
        tt_all_reduce_hierarchical_doubling, LANES },
    { "direct", TT_REDUCE_SCATTER, TT_ASSOCIATION_ORDERED, TT_CANONICAL_ALWAYS, ANY, tt_reduce_scatter_direct,
        CHAN },
    { "ring", TT_REDUCE_SCATTER, TT_ASSOCIATION_ROTATED, TT_CANONICAL_NEVER, ANY, tt_reduce_scatter_ring,
        RING },
    { "circulant", TT_REDUCE_SCATTER, TT_ASSOCIATION_UNORDERED, TT_CANONICAL_NEVER, ANY,
        tt_reduce_scatter_circulant, TRAEFF },
    { "hierarchical", TT_REDUCE_SCATTER, TT_ASSOCIATION_UNORDERED, TT_CANONICAL_NEVER, TT_EVEN,
        tt_reduce_scatter_hierarchical, LANES },
    { "hierarchical_circulant", TT_REDUCE_SCATTER, TT_ASSOCIATION_UNORDERED, TT_CANONICAL_NEVER,
        TT_EVEN_NEIGHBOURS, tt_reduce_scatter_hierarchical_circulant, LANES },
    { "direct", TT_ALL_GATHER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_gather_direct, CHAN },
    { "ring", TT_ALL_GATHER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_gather_ring, RING },
    { "bruck", TT_ALL_GATHER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_gather_bruck, BRUCK },
    { "circulant", TT_ALL_GATHER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_gather_circulant,
        TRAEFF },
    { "hierarchical", TT_ALL_GATHER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, TT_EVEN,
        tt_all_gather_hierarchical, LANES },
    { "hierarchical_circulant", TT_ALL_GATHER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, TT_EVEN_NEIGHBOURS,
        tt_all_gather_hierarchical_circulant, LANES },
    { "direct", TT_BROADCAST, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_broadcast_direct, CHAN },
    { "tree", TT_BROADCAST, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_broadcast_tree, "binomial" },
    { "circulant", TT_BROADCAST, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_broadcast_circulant,
        BLOCKS },
    { "hierarchical", TT_BROADCAST, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, TT_SEVERAL,
        tt_broadcast_hierarchical, LEADERS },
    { "hierarchical_split", TT_BROADCAST, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, TT_EVEN,
        tt_broadcast_hierarchical_split, LANES },
    { "hierarchical_circulant", TT_BROADCAST, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, TT_EVEN,
        tt_broadcast_hierarchical_circulant, LANES },
    { "split", TT_BROADCAST, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_broadcast_split, CHAN },
    { "direct", TT_REDUCE, TT_ASSOCIATION_ORDERED, TT_CANONICAL_ALWAYS, ANY, tt_reduce_direct, CHAN },
    { "tree", TT_REDUCE, TT_ASSOCIATION_ROTATED, TT_CANONICAL_NEVER, ANY, tt_reduce_tree, "binomial" },
    { "circulant", TT_REDUCE, TT_ASSOCIATION_UNORDERED, TT_CANONICAL_NEVER, ANY, tt_reduce_circulant,
        BLOCKS },
    { "hierarchical", TT_REDUCE, TT_ASSOCIATION_BY_DOMAIN, TT_CANONICAL_IF_NESTED, TT_SEVERAL,
        tt_reduce_hierarchical, LEADERS },
    { "hierarchical_tree", TT_REDUCE, TT_ASSOCIATION_UNORDERED, TT_CANONICAL_NEVER, TT_SEVERAL,
        tt_reduce_hierarchical_tree, LEADERS },
    { "hierarchical_split", TT_REDUCE, TT_ASSOCIATION_UNORDERED, TT_CANONICAL_NEVER, TT_EVEN,
        tt_reduce_hierarchical_split, LANES },
    { "hierarchical_circulant", TT_REDUCE, TT_ASSOCIATION_UNORDERED, TT_CANONICAL_NEVER, TT_EVEN,
        tt_reduce_hierarchical_circulant, LANES },
    { "split", TT_REDUCE, TT_ASSOCIATION_ORDERED, TT_CANONICAL_ALWAYS, ANY, tt_reduce_split, CHAN },
    { "direct", TT_BARRIER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_barrier_direct, "flat" },
    { "hierarchical", TT_BARRIER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, TT_SEVERAL,
        tt_barrier_hierarchical, LEADERS },
    { "hierarchical_dissemination", TT_BARRIER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, TT_SEVERAL,
        tt_barrier_hierarchical_dissemination, LEADERS },
    { "dissemination", TT_BARRIER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_barrier_dissemination,
        "Hensgen, Finkel, Manber 1988" },
    { "direct", TT_ALL_GATHER_V, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_gather_direct, CHAN },
    { "ring", TT_ALL_GATHER_V, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_gather_ring, RING },
    { "bruck", TT_ALL_GATHER_V, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_gather_bruck, BRUCK },
    { "circulant", TT_ALL_GATHER_V, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_gather_circulant,
        TRAEFF },
    { "hierarchical", TT_ALL_GATHER_V, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, TT_EVEN,
        tt_all_gather_hierarchical, LANES },
    { "hierarchical_circulant", TT_ALL_GATHER_V, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, TT_EVEN_NEIGHBOURS,
        tt_all_gather_hierarchical_circulant, LANES },
    { "direct", TT_ALL_TO_ALL, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_to_all_direct, THAKUR },
    { "bruck", TT_ALL_TO_ALL, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_to_all_bruck, BRUCK },
    { "pairwise", TT_ALL_TO_ALL, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_to_all_pairwise,
        THAKUR },
    { "hierarchical", TT_ALL_TO_ALL, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, TT_EVEN,
        tt_all_to_all_hierarchical, LANES },
    { "direct", TT_GATHER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_gather_direct, CHAN },
    { "tree", TT_GATHER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_gather_tree, CHAN },
    { "direct", TT_SCATTER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_scatter_direct, CHAN },
    { "tree", TT_SCATTER, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_scatter_tree, CHAN },
    { "direct", TT_REDUCE_SCATTER_V, TT_ASSOCIATION_ORDERED, TT_CANONICAL_ALWAYS, ANY,
        tt_reduce_scatter_direct, CHAN },
    { "ring", TT_REDUCE_SCATTER_V, TT_ASSOCIATION_ROTATED, TT_CANONICAL_NEVER, ANY, tt_reduce_scatter_ring,
        RING },
    { "direct", TT_ALL_TO_ALL_V, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_all_to_all_direct, THAKUR },
    { "direct", TT_GATHER_V, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_gather_direct, CHAN },
    { "direct", TT_SCATTER_V, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_scatter_direct, CHAN },
    { "point", TT_P2P_SEND, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_point_send, "one step" },
    { "point", TT_P2P_RECV, TT_ASSOCIATION_NONE, TT_CANONICAL_NEVER, ANY, tt_point_recv, "one step" },
};
const int tt_algorithm_count = (int)(sizeof tt_algorithms / sizeof tt_algorithms[0]);

int tt_algorithm_find(enum tt_collective collective, const char *name)
{
    for (int i = 0; i < tt_algorithm_count; i++)
        if (tt_algorithms[i].collective == collective && strcmp(tt_algorithms[i].name, name) == 0)
            return i;
    return -1;
}

static bool keeps_order(const struct tt_algorithm *a, const struct tt_topology *topology)
{
    if (a->association == TT_ASSOCIATION_BY_DOMAIN)
        return topology->ordered;
    return a->association != TT_ASSOCIATION_ROTATED && a->association != TT_ASSOCIATION_UNORDERED;
}

const char *tt_algorithm_refuse(const struct tt_algorithm *a, struct tt_requirements requirements)
{
    if (a->domains != ANY && (requirements.topology == NULL || !requirements.topology->divides))
        return "it needs at least two cache domains of several ranks each (tutti-info topology)";
    if (a->domains >= TT_EVEN && !requirements.topology->even)
        return "it needs cache domains of one size (tutti-info topology)";
    if (a->domains == TT_EVEN_NEIGHBOURS && !requirements.topology->ordered)
        return "it needs cache domains of neighbouring ranks (tutti-info topology)";
    if (requirements.ordered && !keeps_order(a, requirements.topology))
        return "its operands do not stand in rank order, which an operator that does not commute needs";
    if (!requirements.exact || a->association == TT_ASSOCIATION_NONE || a->canonical == TT_CANONICAL_ALWAYS)
        return NULL;
    if (a->canonical == TT_CANONICAL_NEVER)
        return "its association is not the canonical tree that exact asks for";
    bool nests = a->canonical == TT_CANONICAL_IF_NESTED || a->canonical == TT_CANONICAL_IF_POWERS_NEST;
    if (nests && !requirements.topology->nests)
        return "its association is the canonical tree only where cache domains are of 2^k neighbours each";
    if (a->canonical == TT_CANONICAL_IF_NESTED)
        return NULL;
    if ((requirements.n & (requirements.n - 1)) != 0)
        return "its association is the canonical tree only where the number of ranks is a power of two";
    return NULL;
}

tutti_status tt_schedule_build_lent(struct tt_schedule *schedule, const struct tt_key *key, uint32_t *counts)
{
    const struct tt_algorithm *a = &tt_algorithms[key->algorithm];
    struct tt_team team = { .n = key->n, .me = key->me };
    struct tt_schedule s;
    tutti_status status = tt_schedule_begin_lent(&s, key, a->name, counts);
    if (status != TUTTI_OK)
        return status;
    a->generate(&s, &team, key->root);
    status = tt_schedule_end(&s);
    if (status == TUTTI_OK)
        *schedule = s;
    return status;
}

tutti_status tt_schedule_build(struct tt_schedule *schedule, const struct tt_key *key)
{
    return tt_schedule_build_lent(schedule, key, NULL);
}
