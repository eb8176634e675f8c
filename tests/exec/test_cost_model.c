/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cost_model.c: the predicted time of an algorithm is what the real executor takes in virtual time
 * (perf/sim/executor.h), and what is chosen is the one that takes least. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "select/cost_model.h"
#include "perf/sim/executor.h"
#include "tests/proof/schedules.h"

enum { ELEMENT = 4, NOWHERE = -1 };

static uint64_t full_slots; /* of the last run */
static int tried, waited; /* for a slot, which is no part of the prediction */

/* When the last rank ends. */
static uint64_t simulated(const struct tt_cost_query *q, int algorithm, uint32_t slices)
{
    struct sim_execution execution;
    const char *failure = sim_execute(q, algorithm, slices, &execution);
    cr_assert_null(failure, "%s on %d ranks: %s", tt_algorithms[algorithm].name, q->requirements.n, failure);
    full_slots = execution.full_slots;
    return execution.time;
}

/* What machines may be like. */
static const struct tt_costs machines[] = {
    { { 50000000, 200000000, 0 }, { 40000, 90000, 0 }, 11000, 33000, { 60000000, 60000000, 0 }, 1500000000,
        1024, 1024, 1, 0, .staged = { 0 } },
    { { 50000000, 200000000, 0 }, { 40000, 90000, 0 }, 11000, 33000, { 60000000, 60000000, 0 }, 1500000000,
        1024, 2, 1, 0, .staged = { 0 } },
    /* several hosts: domains are those */
    { { 200000000, 0, 9000000000 }, { 70000, 0, 500000 }, 9000, 21000, { 30000000, 0, 3000000000 }, 0, 0,
        1024, 2, 0, .staged = { 0 } },
    /* ranks of a host share its link, which is faster than a rank reads, or slower */
    { { 200000000, 0, 9000000000 }, { 70000, 0, 500000 }, 9000, 21000, { 30000000, 0, 3000000000 }, 0, 0,
        1024, 2, 300000, .staged = { 0 } },
    { { 200000000, 0, 9000000000 }, { 70000, 0, 50000 }, 9000, 21000, { 30000000, 0, 300000000 }, 1500000000,
        1024, 3, 2, 900000, .staged = { 0 } },
    /* slow memory */
    { { 1000, 3000, 0 }, { 300000, 700000, 0 }, 400000, 1200000, { 1000, 1000, 0 }, 7000, 64, 3, 1, 0,
        .staged = { 0 } },
    /* dear messages */
    { { 30000000, 30000000, 0 }, { 20000, 20000, 0 }, 0, 0, { 500000000, 500000000, 0 }, 0, 4096, 1024, 1, 0,
        .staged = { 0 } },
};
enum { MACHINES = sizeof machines / sizeof machines[0] };

static struct tt_cost_query question_of(
    enum tt_collective collective, int n, uint64_t bytes, const struct tt_costs *costs)
{
    return (struct tt_cost_query){ .collective = collective,
        .requirements = { .n = n },
        .bytes = collective == TT_BARRIER ? ELEMENT : bytes,
        .element_bytes = ELEMENT,
        .slot_bytes = 4096,
        .costs = costs };
}

static struct tt_topology *domains_of(int n)
{
    char text[64];
    snprintf(text, sizeof text, "0-%d/%d-%d", n / 2 - 1, n / 2, n - 1);
    return n >= 2 ? topology_of(text) : NULL;
}

/* Every algorithm, to the femtosecond, where no slice is left out. */
static void expect_prediction_of_all(
    int n, uint64_t bytes, const struct tt_costs *costs, const struct tt_topology *topology)
{
    for (int a = 0; a < tt_algorithm_count; a++)
        for (int exact = 0; exact < 2; exact++) {
            enum tt_collective collective = (enum tt_collective)tt_algorithms[a].collective;
            struct tt_cost_query q = question_of(collective, n, bytes, costs);
            struct tt_prediction prediction;
            q.requirements.exact = exact;
            q.requirements.topology = topology;
            if (tt_collectives[collective].p2p ||
                tt_algorithm_refuse(&tt_algorithms[a], q.requirements) != NULL)
                continue;
            cr_assert_eq(tt_cost_predict(&q, a, &prediction), TUTTI_OK);
            if (prediction.slices > prediction.simulated || prediction.representative)
                continue;
            uint64_t time = simulated(&q, a, prediction.slices), sum = 0;
            tried++;
            waited += full_slots > 0;
            if (full_slots > 0)
                continue;
            cr_expect_eq(prediction.total, time,
                "%s %s, %d ranks, %llu bytes, %u slices: predicted %llu, time %llu",
                tt_collectives[collective].name, tt_algorithms[a].name, n, (unsigned long long)bytes,
                prediction.slices, (unsigned long long)prediction.total, (unsigned long long)time);
            for (int part = 0; part < TT_COST_PARTS; part++)
                sum += prediction.parts[part];
            cr_expect_leq(sum, prediction.total, "%s: more work than time", tt_algorithms[a].name);
        }
}

Test(cost_model, is_the_simulated_time)
{
    static const int ranks[] = { 1, 2, 3, 4, 5, 7, 8, 11, 16 };
    static const uint64_t sizes[] = { 4, 100, 4000, 20000 };
    for (int m = 0; m < MACHINES; m++)
        for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
            struct tt_topology *topology = domains_of(ranks[i]);
            for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
                expect_prediction_of_all(ranks[i], sizes[k], &machines[m], topology);
            if (topology != NULL)
                topology_free(topology);
        }
    cr_expect_gt(tried, 5000);
    cr_expect_lt(waited, tried / 50, "%d of %d waited for a slot", waited, tried);
}

/* Of two hosts the one's way out is as long taken as the other's way in; of three it is not. */
Test(cost_model, is_the_simulated_time_on_three_hosts)
{
    for (int m = 0; m < MACHINES; m++) {
        struct tt_topology *topology = topology_of("0,3,6/1,4/2,5");
        struct tt_costs costs = machines[m];
        costs.hosts = 3;
        for (uint64_t bytes = 4; bytes <= 20000 && costs.link > 0; bytes *= 50)
            expect_prediction_of_all(7, bytes, &costs, topology);
        topology_free(topology);
    }
    cr_expect_gt(tried, 100);
}

/* The time of what is chosen, and of the best. */
static void expect_choice(const struct tt_cost_query *q)
{
    uint64_t least = UINT64_MAX, chosen = 0;
    int choice, best = 0, eligible = 0;
    cr_assert_eq(tt_cost_choose(q, &choice), TUTTI_OK);
    for (int a = 0; a < tt_algorithm_count; a++) {
        struct tt_prediction prediction;
        const struct tt_algorithm *row = &tt_algorithms[a];
        if (row->collective != q->collective || tt_algorithm_refuse(row, q->requirements) != NULL)
            continue;
        cr_assert_eq(tt_cost_predict(q, a, &prediction), TUTTI_OK);
        if (prediction.slices == 0) /* a message of so many chunks fits no slot */
            continue;
        uint64_t time = simulated(q, a, prediction.slices);
        eligible++;
        if (a == choice)
            chosen = time;
        best = time < least ? a : best;
        least = time < least ? time : least;
    }
    cr_expect(eligible == 0 || chosen <= least + least / 100,
        "%s, %d ranks on %llu cores, %llu bytes: %s is chosen, which takes %llu; %s takes %llu",
        tt_collectives[q->collective].name, q->requirements.n, (unsigned long long)q->costs->cores,
        (unsigned long long)q->bytes, tt_algorithms[choice].name, (unsigned long long)chosen,
        tt_algorithms[best].name, (unsigned long long)least);
}

/* Where bytes are many, one stands for `scale`: time knows no difference. */
static void expect_choices(int n, uint64_t bytes, uint64_t scale, const struct tt_costs *machine)
{
    struct tt_costs costs = *machine;
    costs.byte[TT_NEAR] *= scale;
    costs.byte[TT_FAR] *= scale;
    costs.fold *= scale;
    costs.copy *= scale;
    costs.eager /= scale;
    struct tt_topology *topology = domains_of(n);
    for (int c = 0; c < TT_COLLECTIVES; c++) {
        struct tt_cost_query q = question_of((enum tt_collective)c, n, bytes / scale, &costs);
        q.slot_bytes = (n <= 8 ? 1024 * 1024 : 8 * 1024 * 1024 / (uint64_t)n) / scale;
        q.requirements.topology = topology;
        if (!tt_collectives[c].p2p && tt_collectives[c].counts == TT_COUNTS_EVEN)
            expect_choice(&q);
    }
    topology_free(topology);
}

Test(cost_model, chooses_what_takes_least)
{
    for (int m = 0; m < MACHINES; m++)
        for (int n = 2; n <= 16; n++)
            for (uint64_t bytes = 8; bytes <= 64 * 1024; bytes *= 32)
                expect_choices(n, bytes, 1, &machines[m]);
}

Test(cost_model, chooses_what_takes_least_of_many_bytes)
{
    for (int m = 0; m < MACHINES; m += 2)
        for (int n = 2; n <= 16; n += n < 4 ? 1 : 4)
            expect_choices(n, 1 << 20, 1024, &machines[m]);
    for (int m = 0; m < MACHINES; m += 2)
        for (int n = 2; n <= 8; n *= 2)
            expect_choices(n, 64 << 20, 16 * 1024, &machines[m]);
}

/* One rank is simulated for all; its context switches count like theirs, or what talks to all would seem to
 * take no time. */
Test(cost_model, of_one_rank_stands_for_many)
{
    int representative = 0;
    for (int n = 24; n <= 32; n += 8)
        for (int a = 0; a < tt_algorithm_count; a++) {
            enum tt_collective collective = (enum tt_collective)tt_algorithms[a].collective;
            struct tt_cost_query q = question_of(collective, n, 16 * 1024, &machines[1]);
            struct tt_prediction prediction;
            q.slot_bytes = 32 * 1024;
            if (tt_collectives[collective].p2p ||
                tt_algorithm_refuse(&tt_algorithms[a], q.requirements) != NULL)
                continue;
            cr_assert_eq(tt_cost_predict(&q, a, &prediction), TUTTI_OK);
            if (!prediction.representative)
                continue;
            uint64_t time = simulated(&q, a, prediction.slices);
            representative++;
            cr_expect(prediction.total > time / 2 && prediction.total < 3 * time,
                "%s %s, %d ranks: predicted %llu, time %llu", tt_collectives[collective].name,
                tt_algorithms[a].name, n, (unsigned long long)prediction.total, (unsigned long long)time);
        }
    cr_expect_gt(representative, 5);
}

/* All chunks are as long as the longest, for what the one sends is what each other gets. */
Test(cost_model, of_one_rank_is_of_the_longest_chunks)
{
    enum { N = 24, EACH = 100 };
    int representative = 0;
    for (int a = 0; a < tt_algorithm_count; a++) {
        enum tt_collective collective = (enum tt_collective)tt_algorithms[a].collective;
        struct tt_cost_query q = question_of(collective, N, ELEMENT, &machines[1]);
        struct tt_key key = { .collective = (uint8_t)collective, .algorithm = (uint8_t)a, .n = N };
        struct tt_schedule s;
        struct tt_prediction longer, even;
        q.slot_bytes = 32 * 1024;
        if (tt_collectives[collective].p2p || tt_algorithm_refuse(&tt_algorithms[a], q.requirements) != NULL)
            continue;
        cr_assert_eq(tt_schedule_build(&s, &key), TUTTI_OK);
        q.bytes = ((uint64_t)s.chunks * EACH + 1) * ELEMENT;
        cr_assert_eq(tt_cost_predict(&q, a, &longer), TUTTI_OK);
        q.bytes = (uint64_t)s.chunks * (EACH + 1) * ELEMENT;
        cr_assert_eq(tt_cost_predict(&q, a, &even), TUTTI_OK);
        tt_schedule_free(&s);
        if (!even.representative)
            continue;
        representative++;
        cr_expect_eq(longer.total, even.total, "%s %s: %llu fs, and %llu", tt_collectives[collective].name,
            tt_algorithms[a].name, (unsigned long long)longer.total, (unsigned long long)even.total);
    }
    cr_expect_geq(representative, 3);
}

/* What rank 0 does for all the others is no reason to walk it alone, as if the others did as much. */
Test(cost_model, walks_all_where_one_does_the_work)
{
    struct tt_cost_query q = question_of(TT_ALL_REDUCE, 128, 1024, &machines[1]);
    struct tt_prediction prediction;
    cr_assert_eq(tt_cost_predict(&q, tt_algorithm_find(TT_ALL_REDUCE, "star"), &prediction), TUTTI_OK);
    cr_expect(!prediction.representative);
}

/* Times that are all but equal leave it to the order of the registry, in which one round stands first. */
Test(cost_model, that_are_all_but_equal_decide_nothing)
{
    struct tt_costs costs = tt_costs_default();
    costs.cores = 2;
    struct tt_cost_query q = question_of(TT_REDUCE_SCATTER, 3, 192, &costs);
    int direct = tt_algorithm_find(TT_REDUCE_SCATTER, "direct"), choice;
    struct tt_prediction first, least;
    cr_assert_eq(tt_cost_predict(&q, direct, &first), TUTTI_OK);
    cr_assert_eq(tt_cost_predict(&q, tt_algorithm_find(TT_REDUCE_SCATTER, "circulant"), &least), TUTTI_OK);
    cr_assert(least.total < first.total && first.total - least.total < least.total / 256);
    cr_assert_eq(tt_cost_choose(&q, &choice), TUTTI_OK);
    cr_expect_eq(choice, direct);
}

/* Calls of minutes and hours are chosen for as others are. */
Test(cost_model, that_are_long_are_compared)
{
    struct tt_costs slow = tt_costs_default();
    slow.byte[TT_NEAR] = 2000000000;
    for (int c = 0; c < TT_COLLECTIVES; c++) {
        struct tt_cost_query q = question_of((enum tt_collective)c, 8, 256 << 20, &slow);
        uint64_t least = UINT64_MAX, chosen = 0;
        int choice;
        q.slot_bytes = 1 << 20;
        if (tt_collectives[c].p2p || tt_collectives[c].counts != TT_COUNTS_EVEN || c == TT_BARRIER)
            continue;
        cr_assert_eq(tt_cost_choose(&q, &choice), TUTTI_OK);
        for (int a = 0; a < tt_algorithm_count; a++) {
            struct tt_prediction p;
            if (tt_algorithms[a].collective != c ||
                tt_algorithm_refuse(&tt_algorithms[a], q.requirements) != NULL)
                continue;
            cr_assert_eq(tt_cost_predict(&q, a, &p), TUTTI_OK);
            least = p.total < least ? p.total : least;
            chosen = a == choice ? p.total : chosen;
        }
        cr_expect(least < UINT64_MAX && chosen <= least + least / 100, "%s: %s takes %g s, the best %g",
            tt_collectives[c].name, tt_algorithms[choice].name, 1e-15 * (double)chosen,
            1e-15 * (double)least);
    }
}
