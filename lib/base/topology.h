/* SPDX-License-Identifier: BSD-3-Clause */
/* topology.h: which ranks share a cache.
 *
 * The ranks of a communicator fall into domains; inside one they reach each other's data faster than across.
 * Whoever knows says so in plain numbers, one per rank: a text (the setting `topology`), the machine
 * (hwloc), a parent communicator, a test. So algorithms, proofs and simulations need no such machine. */
#ifndef TT_BASE_TOPOLOGY_H
#define TT_BASE_TOPOLOGY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"
#include "tutti.h"

struct tt_topology {
    int n, domains;
    int *domain; /* of each rank; numbered in the order of their first ranks */
    int *ranks; /* by domain, in rank order: those of d are ranks[first[d] .. first[d + 1]) */
    int *first;
    bool divides; /* there is something to gain: two domains of several ranks */
    bool even; /* all of one size */
    bool ordered; /* domain by domain is rank by rank */
    /* Ordered, and all but the last have the same 2^k ranks: the canonical tree is one over each domain, then
     * one across them. */
    bool nests;
};

/* domain_of[r] is any number that r has in common with those of its domain; below 0, of any rank: nobody
 * knows, and all are one domain. */
tutti_status tt_topology_create(struct tt_topology *topology, int n, const int32_t *domain_of);
void tt_topology_free(struct tt_topology *topology);

/* "0-3/4-7", "0,2,4/1,3,5", or "2x4" for two domains of four: for how many ranks it speaks; -1: it is not
 * legal, as when a rank is missing or stands twice. */
int tt_topology_ranks(const char *text);
/* The domains of those ranks, into domain_of[tt_topology_ranks(text)]. */
void tt_topology_parse(const char *text, int32_t *domain_of);
/* The first of these forms. */
void tt_topology_put(const struct tt_topology *topology, struct tt_text *text);

/* How many ranks domain d has. */
int tt_topology_size(const struct tt_topology *topology, int d);
#endif
