/* SPDX-License-Identifier: BSD-3-Clause */
/* test_classes.c: what is predicted from one rank of each class is what all ranks take, and what is chosen
 * for very many ranks is the best, or nearly so. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "select/classes.h"
#include "select/cost_model.h"

enum { ELEMENT = 4 };

static const struct tt_costs machine = { .latency = { 400000000, 0, 1500000000 },
    .byte = { 2700, 0, 21000 },
    .fold = 700,
    .copy = 700,
    .message = { 150000000, 0, 200000000 },
    .eager = 1024,
    .cores = 1 << 24,
    .hosts = 1 };

struct world {
    struct tt_costs costs;
    struct tt_topology topology;
    struct tt_cost_query query;
};

/* Hosts of so many ranks each. */
static struct world *world_of(enum tt_collective collective, int n, int per_host, uint64_t bytes)
{
    struct world *w = calloc(1, sizeof *w);
    int32_t *host = malloc((size_t)n * sizeof *host);
    cr_assert(w != NULL && host != NULL);
    for (int r = 0; r < n; r++)
        host[r] = r / per_host;
    cr_assert_eq(tt_topology_create(&w->topology, n, host), TUTTI_OK);
    free(host);
    w->costs = machine;
    w->costs.hosts = (uint64_t)w->topology.domains;
    w->query = (struct tt_cost_query){ .collective = collective,
        .requirements = { .n = n, .topology = &w->topology },
        .bytes = bytes,
        .element_bytes = ELEMENT,
        .slot_bytes = UINT64_MAX,
        .costs = &w->costs };
    return w;
}

static void free_world(struct world *w)
{
    tt_topology_free(&w->topology);
    free(w);
}

static uint64_t predicted(struct world *w, int algorithm, enum tt_cost_subjects subjects)
{
    struct tt_prediction prediction;
    w->query.subjects = subjects;
    cr_assert_eq(tt_cost_predict(&w->query, algorithm, &prediction), TUTTI_OK);
    return prediction.total;
}

/* Chunks have one length each, as a representative's have. Where messages come at one moment, their order may
 * differ, which decides a little. */
static int compare(int n, int per_host)
{
    int fewer = 0;
    for (int a = 0; a < tt_algorithm_count; a++) {
        enum tt_collective collective = (enum tt_collective)tt_algorithms[a].collective;
        struct world *w = world_of(collective, n, per_host, (uint64_t)n * 13 * 64 * ELEMENT);
        struct tt_classes classes;
        if (!tt_collectives[collective].p2p &&
            tt_algorithm_refuse(&tt_algorithms[a], w->query.requirements) == NULL) {
            uint64_t all = predicted(w, a, TT_COST_ALL), some = predicted(w, a, TT_COST_CLASSES);
            uint64_t more = all > some ? all - some : some - all;
            cr_expect_leq(more, all / 256, "%s %s, %d ranks: %llu by all, %llu by classes",
                tt_collectives[collective].name, tt_algorithms[a].name, n, (unsigned long long)all,
                (unsigned long long)some);
            cr_assert_eq(tt_classes_find(&w->query, a, &classes), TUTTI_OK);
            fewer += classes.count <= n / 4 && more == 0;
            tt_classes_free(&classes);
        }
        free_world(w);
    }
    return fewer;
}

Test(classes, take_what_all_ranks_take)
{
    cr_expect_gt(compare(32, 8), 10, "few algorithms have classes of several ranks");
    cr_expect_gt(compare(64, 4), 10);
    compare(13, 13);
    compare(48, 4);
}

/* Where ranks of a host share its link, those that are simulated take the share of the others, but what comes
 * to one host from many hosts at once does not come at once in a prediction of few. */
Test(classes, share_the_link_of_their_host)
{
    int classes = 0;
    for (int a = 0; a < tt_algorithm_count; a++) {
        enum tt_collective collective = (enum tt_collective)tt_algorithms[a].collective;
        struct world *w = world_of(collective, 64, 8, (uint64_t)64 * 13 * 64 * ELEMENT);
        if (!tt_collectives[collective].p2p && collective != TT_BARRIER &&
            tt_algorithm_refuse(&tt_algorithms[a], w->query.requirements) == NULL) {
            uint64_t own = predicted(w, a, TT_COST_CLASSES);
            w->costs.link = w->costs.byte[TT_AWAY];
            double all = (double)predicted(w, a, TT_COST_ALL);
            double some = (double)predicted(w, a, TT_COST_CLASSES);
            cr_expect(some > all / 2 && some < all * 1.25, "%s %s: %g fs by all, %g by classes",
                tt_collectives[collective].name, tt_algorithms[a].name, all, some);
            classes += some > 1.3 * (double)own;
        }
        free_world(w);
    }
    cr_expect_gt(classes, 10, "a link is shared in %d algorithms", classes);
}

/* However few are simulated, no prediction is faster than what a host must send over its link. */
Test(classes, of_one_alone_share_the_link)
{
    static const enum tt_collective collectives[] = { TT_ALL_GATHER, TT_REDUCE_SCATTER, TT_ALL_TO_ALL };
    enum { RANKS = 1000, PER_HOST = 8 };
    for (int i = 0; i < 3; i++)
        for (int a = 0; a < tt_algorithm_count; a++) {
            struct world *w = world_of(collectives[i], RANKS, PER_HOST, 16 << 20);
            w->costs.link = w->costs.byte[TT_AWAY];
            w->query.slot_bytes = 1 << 20;
            if (tt_algorithms[a].collective == collectives[i] &&
                tt_algorithm_refuse(&tt_algorithms[a], w->query.requirements) == NULL) {
                double bytes = (double)w->query.bytes * (RANKS - PER_HOST) / RANKS;
                double least = bytes * (double)w->costs.link * (i == 2 ? PER_HOST : 1);
                double time = (double)predicted(w, a, TT_COST_AS_FITS);
                cr_expect(time > 0.95 * least, "%s %s: %g fs, and the link takes %g",
                    tt_collectives[collectives[i]].name, tt_algorithms[a].name, time, least);
            }
            free_world(w);
        }
}

/* Whoever is alone in its class is simulated as it is, whatever the lengths. */
Test(classes, of_one_rank_each_are_all_ranks)
{
    struct world *w = world_of(TT_ALL_REDUCE, 37, 37, 4321 * ELEMENT);
    int tree = tt_algorithm_find(TT_ALL_REDUCE, "tree");
    cr_expect_eq(predicted(w, tree, TT_COST_ALL), predicted(w, tree, TT_COST_CLASSES));
    free_world(w);
}

/* The rank that is first is not the one that works: the ranks beyond the power of two hand theirs over. */
Test(classes, the_busiest_stands_for_all)
{
    struct world *w = world_of(TT_ALL_REDUCE, 1000, 8, 1 << 20);
    int halving = tt_algorithm_find(TT_ALL_REDUCE, "halving");
    double all = (double)predicted(w, halving, TT_COST_ALL), one = (double)predicted(w, halving, TT_COST_ONE);
    cr_expect(one > all / 1.3 && one < all * 1.3, "%g fs by all, %g by one", all, one);
    free_world(w);
}

/* The least that any algorithm is predicted to take, and what the chosen one takes. */
static void expect_good_choice(enum tt_collective collective, int n, uint64_t bytes)
{
    struct world *w = world_of(collective, n, 8, bytes);
    int choice;
    cr_assert_eq(tt_cost_choose(&w->query, &choice), TUTTI_OK);
    uint64_t chosen = predicted(w, choice, TT_COST_AS_FITS), least = chosen;
    w->query.limit = chosen;
    for (int a = 0; a < tt_algorithm_count; a++)
        if (tt_algorithms[a].collective == (uint8_t)collective &&
            tt_algorithm_refuse(&tt_algorithms[a], w->query.requirements) == NULL) {
            uint64_t total = predicted(w, a, TT_COST_AS_FITS);
            least = total < least ? total : least;
        }
    cr_expect(chosen <= least + least / 100, "%s, %d ranks, %llu bytes: %s takes %llu, another one %llu",
        tt_collectives[collective].name, n, (unsigned long long)bytes, tt_algorithms[choice].name,
        (unsigned long long)chosen, (unsigned long long)least);
    free_world(w);
}

Test(classes, choices_among_very_many_ranks_are_good)
{
    for (uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 2048) {
        expect_good_choice(TT_ALL_REDUCE, 1000, bytes);
        expect_good_choice(TT_BROADCAST, 1000, bytes);
        expect_good_choice(TT_REDUCE, 4000, bytes);
    }
}

/* A communicator of as many ranks as may be: what a choice needs is not in proportion to n squared. */
Test(classes, of_the_most_ranks_are_found)
{
    struct world *w = world_of(TT_ALL_REDUCE, 65536, 8, 8);
    int choice;
    cr_assert_eq(tt_cost_choose(&w->query, &choice), TUTTI_OK);
    cr_expect_eq(choice, tt_algorithm_find(TT_ALL_REDUCE, "doubling"), "%s", tt_algorithms[choice].name);
    free_world(w);
}

/* A root that sends what the others receive has as many steps as they, but reads nothing. */
Test(classes, a_root_does_not_stand_for_those_who_read)
{
    struct world *w = world_of(TT_BROADCAST, 64, 8, 1 << 20);
    int split = tt_algorithm_find(TT_BROADCAST, "split");
    double all = (double)predicted(w, split, TT_COST_ALL), fit = (double)predicted(w, split, TT_COST_AS_FITS);
    cr_expect(fit > 0.95 * all && fit < 1.05 * all, "%g fs by all, %g as fits", all, fit);
    free_world(w);
}

/* Ranges that wrap are two messages, so that the i-th receive is not what answers the i-th send: a rank alone
 * would not wait for its rounds. What it cannot see is how late others are who have farther peers: up to
 * half. */
Test(classes, one_that_stands_for_all_waits_for_each_round)
{
    for (uint64_t bytes = 4096; bytes <= 16 << 20; bytes *= 4096)
        for (int a = 0; a < tt_algorithm_count; a++) {
            struct world *w = world_of(TT_ALL_GATHER, 600, 8, bytes);
            if (tt_algorithms[a].collective == TT_ALL_GATHER &&
                tt_algorithm_refuse(&tt_algorithms[a], w->query.requirements) == NULL) {
                double some = (double)predicted(w, a, TT_COST_CLASSES);
                double one = (double)predicted(w, a, TT_COST_ONE), least = bytes > 4096 ? 0.5 : 0.6;
                cr_expect(one > least * some && one < 1.5 * some, "%s, %llu bytes: %g, and %g by one",
                    tt_algorithms[a].name, (unsigned long long)bytes, some, one);
            }
            free_world(w);
        }
}
