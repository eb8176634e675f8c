/* SPDX-License-Identifier: BSD-3-Clause */
/* test_exec_sim.c: the real executor over virtual time.
 *
 * Every operation is checked element by element against the expression that its schedule stands for, at the
 * very moment when a rank's operation ends, and then all the rank's memory is overwritten (exec_rig.h). A
 * failure names its seed: SIM_SEED=number repeats that world of the sweep alone. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "exec_rig.h"

static uint64_t draw(uint64_t *random, uint64_t below)
{
    return tt_sim_random(random) % below;
}

/* --- Every algorithm, at friendly and unfriendly numbers. */

enum { COUNTS = 7 };

static uint64_t count_at(int i, int n)
{
    const uint64_t counts[COUNTS] = { 0, 1, (uint64_t)n - 1, (uint64_t)n, (uint64_t)n + 1, 97,
        7 * (uint64_t)n + 3 };
    return counts[i];
}

/* All counts, one after another in one world; the slices change from count to count and from plan to plan. */
static void try_plan(struct rig_plan *plan, uint64_t seed)
{
    static const uint32_t slices[] = { 1, 2, 5 };
    struct rig_run *runs[COUNTS];
    struct rig_settings settings = rig_rough(plan->n, seed);
    for (int i = 0; i < COUNTS; i++)
        runs[i] = rig_run_create(
            plan, count_at(i, plan->n), slices[(seed + (uint64_t)i) % 3], seed * COUNTS + (uint64_t)i);
    struct rig_world *world = rig_world_create(&settings);
    cr_expect(rig_world_run(world, runs, COUNTS), "%s", world->failure);
    rig_world_free(world);
    for (int i = 0; i < COUNTS; i++)
        rig_run_free(runs[i]);
}

static void try_all(int n, uint64_t seed)
{
    for (int algorithm = 0; algorithm < tt_algorithm_count; algorithm++)
        for (int exact = 0; exact < 2; exact++)
            for (int mode = RIG_OUT_OF_PLACE; mode <= RIG_MIXED; mode++) {
                enum tt_collective collective = (enum tt_collective)tt_algorithms[algorithm].collective;
                int roots = tt_collectives[collective].rooted ? n : 1;
                if (!rig_serves(algorithm, n, exact))
                    continue;
                for (int root = 0; root < roots; root += n < 8 || root == 0 ? 1 : n / 2 - 1) {
                    struct rig_plan *plan =
                        rig_plan_create(collective, algorithm, n, root, exact, (enum rig_in_place)mode);
                    for (int again = 0; again < 2; again++)
                        try_plan(plan, seed++);
                    rig_plan_free(plan);
                }
            }
}

Test(exec_sim, values_of_1_to_4_ranks)
{
    for (int n = 1; n <= 4; n++)
        try_all(n, (uint64_t)n * 100000);
}

Test(exec_sim, values_of_5_to_8_ranks)
{
    try_all(5, 500000);
    try_all(7, 700000);
    try_all(8, 800000);
}

Test(exec_sim, values_of_12_ranks)
{
    try_all(12, 1200000);
}

Test(exec_sim, values_of_16_ranks)
{
    try_all(16, 1600000);
}

/* --- The sweep: three different operations back to back, everything by seed. */

enum { SWEEP = 400, IN_A_ROW = 3 };

static struct rig_plan *any_plan(uint64_t *r, int n)
{
    int algorithm;
    bool exact;
    do {
        algorithm = (int)draw(r, (uint64_t)tt_algorithm_count);
        exact = draw(r, 4) == 0;
    } while (!rig_serves(algorithm, n, exact));
    enum tt_collective collective = (enum tt_collective)tt_algorithms[algorithm].collective;
    int root = tt_collectives[collective].rooted ? (int)draw(r, (uint64_t)n) : 0;
    return rig_plan_create(collective, algorithm, n, root, exact, (enum rig_in_place)draw(r, 3));
}

struct sums {
    struct tt_sim_counts counts;
    uint64_t tmp_poisoned, hash;
};

static void add(struct sums *sums, const struct rig_world *world)
{
    const struct tt_sim_counts *c = tt_sim_counts(world->sim);
    struct tt_sim_counts *s = &sums->counts;
    s->full_slots += c->full_slots;
    s->out_of_order += c->out_of_order;
    s->splits += c->splits;
    s->late_acks += c->late_acks;
    s->ranks_ahead += c->ranks_ahead;
    s->freezes += c->freezes;
    s->grants += c->grants;
    s->late_grants += c->late_grants;
    s->replies += c->replies;
    for (int path = 0; path < TT_PATHS; path++)
        s->paths[path] += c->paths[path];
    sums->tmp_poisoned += world->tmp_poisoned;
    sums->hash = sums->hash * 31 + tt_sim_hash(world->sim);
}

static void try_seed(uint64_t seed, struct sums *sums)
{
    uint64_t r = ~seed;
    int n = 1 + (int)draw(&r, 9);
    struct rig_settings settings = rig_rough(n, seed);
    struct rig_run *runs[IN_A_ROW];
    for (int i = 0; i < IN_A_ROW; i++) {
        struct rig_plan *plan = any_plan(&r, n);
        runs[i] = rig_run_create(plan, draw(&r, 200), 1 + (uint32_t)draw(&r, 6), draw(&r, 1 << 30));
    }
    struct rig_world *world = rig_world_create(&settings);
    world->strict = true;
    cr_expect(
        rig_world_run(world, runs, IN_A_ROW), "SIM_SEED=%llu: %s", (unsigned long long)seed, world->failure);
    add(sums, world);
    rig_world_free(world);
    for (int i = 0; i < IN_A_ROW; i++) {
        struct rig_plan *plan = runs[i]->plan;
        rig_run_free(runs[i]);
        rig_plan_free(plan);
    }
}

Test(exec_sim, sweep)
{
    struct sums sums = { 0 };
    const char *only = getenv("SIM_SEED");
    if (only != NULL) {
        try_seed(strtoull(only, NULL, 0), &sums);
        return;
    }
    for (uint64_t seed = 1; seed <= SWEEP; seed++)
        try_seed(seed, &sums);
    cr_expect_gt(sums.counts.full_slots, 0, "no full slot was met");
    cr_expect_gt(sums.counts.out_of_order, 0, "no message overtook another");
    cr_expect_gt(sums.counts.splits, 0, "no message came in parts");
    cr_expect_gt(sums.counts.late_acks, 0, "no acknowledgement was waited for");
    cr_expect_gt(sums.counts.ranks_ahead, 0, "no rank was an operation ahead");
    cr_expect_gt(sums.counts.freezes, 0, "no rank was frozen");
    cr_expect_gt(sums.counts.late_grants, 0, "no grant came too late");
    cr_expect_gt(sums.counts.replies, 0, "no message was stored where another lay");
    cr_expect_gt(sums.counts.grants, sums.counts.paths[TT_PATH_PLACED] + sums.counts.late_grants,
        "every grant was used");
    cr_expect_gt(sums.tmp_poisoned, 0, "no TMP was poisoned for its next slice");
    for (int path = 0; path < TT_PATHS; path++)
        cr_expect((sums.counts.paths[path] > 0) == (path != TT_PATH_PULLED), "%d messages went by path %d",
            (int)sums.counts.paths[path], path);
}

/* --- A result that is not yet what is sent: rank 0 receives both chunks, has to add its own part to chunk 0,
 * and then sends both to rank 2, which has granted them from the start. */

static void add_before_sending(struct tt_schedule *s, const struct tt_team *team, int root)
{
    struct tt_cells own = tt_range(TT_IN, 0, 2), both = tt_range(TT_OUT, 0, 2);
    (void)root;
    tt_chunks(s, 2);
    tt_max_chunks(s, 2);
    if (team->me == 0) {
        tt_send(s, 1, tt_in(1));
        tt_recv(s, 1, both);
        tt_final(s, true);
        tt_reduce(s, tt_out(0), tt_out(0), tt_in(0));
        tt_send(s, 2, both);
        tt_send(s, 1, tt_out(0));
    } else if (team->me == 1) {
        tt_recv_reduce(s, 2, both, own, false);
        tt_final(s, true);
        tt_recv_reduce(s, 0, tt_out(1), tt_out(1), false);
        tt_send(s, 0, both);
        tt_recv(s, 0, tt_out(0));
    } else {
        tt_send(s, 1, own);
        tt_recv(s, 0, both);
    }
}

static struct rig_plan *plan_by_hand(tt_generator generate)
{
    int direct = tt_algorithm_find(TT_ALL_REDUCE, "direct"); /* it has enough chunks */
    struct rig_plan *plan = rig_plan_create(TT_ALL_REDUCE, direct, 3, 0, false, RIG_OUT_OF_PLACE);
    for (int me = 0; me < 3; me++) {
        struct tt_schedule *s = &plan->schedules[me];
        struct tt_key key = s->key;
        struct tt_team team = { .n = 3, .me = me };
        tt_schedule_free(s);
        cr_assert_eq(tt_schedule_begin(s, &key, "planted"), TUTTI_OK);
        generate(s, &team, 0);
        cr_assert_eq(tt_schedule_end(s), TUTTI_OK);
    }
    return plan;
}

Test(exec_sim, a_result_that_changes_before_it_is_sent_is_not_placed_early)
{
    struct rig_settings settings = { .first_number = 1, .map = true };
    uint64_t placed = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rig_plan *plan = plan_by_hand(add_before_sending);
        struct rig_run *run = rig_run_create(plan, 400, 1 + (uint32_t)seed % 2, seed);
        settings.sim = (struct tt_sim_params){ .n = 3, .seed = seed, .delay_ns = 100, .grant_percent = 50 };
        struct rig_world *world = rig_world_create(&settings);
        cr_expect(rig_world_run(world, &run, 1), "%s", world->failure);
        placed += tt_sim_counts(world->sim)->paths[TT_PATH_PLACED];
        rig_world_free(world);
        rig_run_free(run);
        rig_plan_free(plan);
    }
    cr_expect_gt(placed, 0, "nothing was placed");
}

Test(exec_sim, the_same_seed_is_the_same_trace)
{
    struct sums first = { 0 }, again = { 0 }, other = { 0 };
    for (uint64_t seed = 1; seed <= 20; seed++) {
        try_seed(seed, &first);
        try_seed(seed, &again);
        try_seed(seed + 1000, &other);
    }
    cr_expect_eq(first.hash, again.hash);
    cr_expect_neq(first.hash, other.hash);
}
