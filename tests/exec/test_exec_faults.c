/* SPDX-License-Identifier: BSD-3-Clause */
/* test_exec_faults.c: the executor when something is wrong: a rank dies at any moment, ranks call different
 * operations, a schedule or a transport breaks its promise.
 *
 * A survivor may end with the right values, or stand still and name, directly or by way of others, the rank
 * that is gone. It may not end with wrong ones. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "exec_rig.h"
#include "tests/transport/link.h"

enum { RANKS = 4 };

static struct rig_plan *plan_of(int algorithm, enum rig_in_place in_place)
{
    enum tt_collective collective = (enum tt_collective)tt_algorithms[algorithm].collective;
    return rig_plan_create(
        collective, algorithm, RANKS, tt_collectives[collective].rooted ? 1 : 0, false, in_place);
}

/* --- Deaths. */

/* From rank to the one it waits for, and so on: does that end at one that is gone, or that told so? */
static bool leads_to_the_dead(const struct rig_run *run, int rank, int dead)
{
    for (int hop = 0; hop <= RANKS; hop++) {
        const struct tt_op *op = &run->ranks[rank].op;
        if (rank == dead || op->result.state == TT_FAILED)
            return true;
        rank = tt_exec_waits_for(op);
        if (rank == TT_NONE)
            return false;
    }
    return false;
}

static void expect_abort_is_seen(struct rig_world *world, int dead)
{
    struct tt_cause mine = { .status = TUTTI_PEER_LOST, .peer = dead }, other = { .status = TUTTI_TIMEOUT },
                    seen;
    bool named[RANKS] = { false };
    int rank, finder = (dead + 1) % RANKS;
    mine.rank = finder;
    for (int r = 0; r < RANKS; r++)
        cr_expect_not(world->endpoints[r]->control->cause(world->endpoints[r], &seen));
    cr_expect(world->endpoints[finder]->control->abort(world->endpoints[finder], &mine));
    cr_expect_not(
        world->endpoints[(dead + 2) % RANKS]->control->abort(world->endpoints[(dead + 2) % RANKS], &other));
    while (tt_sim_step(world->sim, &rank))
        named[rank] = true;
    for (int r = 0; r < RANKS; r++) {
        cr_expect(world->endpoints[r]->control->cause(world->endpoints[r], &seen));
        cr_expect_eq(seen.status, TUTTI_PEER_LOST);
        cr_expect_eq(seen.rank, finder);
        cr_expect_eq(seen.peer, dead);
        cr_expect_eq(named[r], r != dead, "rank %d %s", r, named[r] ? "was woken" : "sleeps on");
        enum tt_peer_state state = peer_state(world->endpoints[finder], r);
        cr_expect_eq(state, r == dead ? TT_PEER_DEAD : TT_PEER_ALIVE);
    }
}

struct tally {
    uint64_t events; /* of a world where nobody dies */
    uint64_t ended, waiting;
};

static void try_death(struct rig_plan *plan, uint64_t event, int dead, uint64_t seed, struct tally *tally)
{
    struct rig_settings settings = rig_rough(RANKS, seed);
    settings.sim.death_event = event;
    settings.sim.death_rank = dead;
    struct rig_run *run = rig_run_create(plan, 13, 2, seed);
    struct rig_world *world = rig_world_create(&settings);
    rig_world_load(world, &run, 1);
    rig_world_drive(world);
    cr_expect_str_eq(world->failure, "", "%s (rank %d dies at event %llu)", world->failure, dead,
        (unsigned long long)event);
    for (int r = 0; r < RANKS && event > 0; r++) {
        const struct tt_op *op = &run->ranks[r].op;
        if (r == dead)
            continue;
        tally->ended += op->result.state == TT_DONE;
        tally->waiting += op->result.state == TT_IDLE;
        cr_expect_neq(op->result.state, TT_FAILED);
        if (op->result.state != TT_DONE) {
            cr_expect(leads_to_the_dead(run, r, dead),
                "%s %s seed %llu: rank %d does not see that rank %d is gone (event %llu)",
                tt_collectives[plan->collective].name, plan->schedules[0].algorithm, (unsigned long long)seed,
                r, dead, (unsigned long long)event);
        }
    }
    if (event > 0)
        expect_abort_is_seen(world, dead);
    tally->events = tt_sim_counts(world->sim)->events;
    rig_world_free(world);
    rig_run_free(run);
}

static void try_deaths(int algorithm, enum rig_in_place in_place, uint64_t seed, struct tally *tally)
{
    struct rig_plan *plan = plan_of(algorithm, in_place);
    try_death(plan, 0, 0, seed, tally);
    for (uint64_t event = 1, events = tally->events; event <= events; event++)
        for (int dead = 0; dead < RANKS; dead++)
            try_death(plan, event, dead, seed, tally);
    rig_plan_free(plan);
}

Test(exec_faults, death_at_every_event)
{
    struct tally tally = { 0 };
    for (int algorithm = 0; algorithm < tt_algorithm_count; algorithm++)
        for (uint64_t seed = 1; seed <= 6 && rig_serves(algorithm, RANKS, false); seed++)
            try_deaths(algorithm, seed % 2 ? RIG_OUT_OF_PLACE : RIG_MIXED, seed * 7919, &tally);
    cr_expect_gt(tally.ended, 0);
    cr_expect_gt(tally.waiting, 0);
}

/* --- Different calls. */

static void expect_mismatch(uint64_t count, uint64_t other_count, bool same_signature)
{
    struct rig_plan *plan = plan_of(tt_algorithm_find(TT_ALL_REDUCE, "doubling"), RIG_OUT_OF_PLACE);
    struct rig_settings settings = rig_rough(RANKS, 11);
    struct rig_run *run = rig_run_create(plan, count, 1, 1), *other = rig_run_create(plan, other_count, 1, 2);
    struct rig_rank swap = run->ranks[2];
    run->ranks[2] = other->ranks[2]; /* rank 2 calls something else */
    other->ranks[2] = swap;
    if (same_signature)
        run->ranks[2].op.messages.signature = run->ranks[0].op.messages.signature;
    struct rig_world *world = rig_world_create(&settings);
    rig_world_load(world, &run, 1);
    rig_world_drive(world);
    const struct tt_op *partner = &run->ranks[3].op; /* of rank 2 in the first round */
    cr_expect_eq(partner->result.state, TT_FAILED);
    cr_expect_eq(partner->result.status, TUTTI_MISMATCH);
    cr_expect_eq(partner->result.peer, 2);
    cr_expect_eq(partner->result.arrival.signature, run->ranks[2].op.messages.signature);
    cr_expect_eq(partner->result.arrival.bytes, other_count * 8);
    cr_expect_eq(run->ranks[2].op.result.state, TT_FAILED);
    cr_expect_eq(run->ranks[2].op.result.peer, 3);
    rig_world_free(world);
    swap = run->ranks[2];
    run->ranks[2] = other->ranks[2];
    other->ranks[2] = swap;
    rig_run_free(run);
    rig_run_free(other);
    rig_plan_free(plan);
}

Test(exec_faults, different_calls_are_a_mismatch)
{
    expect_mismatch(5, 5, false);
    expect_mismatch(5, 6, false);
    expect_mismatch(5, 6, true); /* should two hashes ever be equal, the length still tells */
}

/* --- Broken promises must be seen: that is what the simulator is for. */

static bool goes_well(
    struct rig_plan *plan, uint64_t seed, bool (*sent)(struct tt_link *link, uint64_t number))
{
    struct rig_settings settings = rig_rough(RANKS, seed);
    struct rig_run *run = rig_run_create(plan, 41, 3, seed);
    struct rig_world *world = rig_world_create(&settings);
    if (sent != NULL)
        world->ops.sent = sent;
    bool well = rig_world_run(world, &run, 1);
    rig_world_free(world);
    rig_run_free(run);
    return well;
}

static bool sent_at_once(struct tt_link *link, uint64_t number)
{
    (void)link;
    (void)number;
    return true;
}

Test(exec_faults, a_send_that_ends_before_its_reader_is_seen)
{
    for (int algorithm = 0; algorithm < tt_algorithm_count; algorithm++) {
        if (!rig_serves(algorithm, RANKS, false) || tt_algorithms[algorithm].collective == TT_BARRIER)
            continue;
        struct rig_plan *plan = plan_of(algorithm, RIG_OUT_OF_PLACE);
        int seen = 0;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            cr_expect(goes_well(plan, seed, NULL));
            seen += !goes_well(plan, seed, sent_at_once);
        }
        cr_expect_gt(seen, 0, "%s %s", tt_collectives[plan->collective].name, plan->schedules[0].algorithm);
        rig_plan_free(plan);
    }
}

/* Step i no longer waits for its k-th dependency. */
static void drop_edge(struct tt_schedule *s, uint32_t i, uint32_t k)
{
    uint32_t *deps = &s->deps[s->steps[i].dep_first], d = deps[k];
    deps[k] = deps[--s->steps[i].dep_count];
    uint32_t f = s->follower_first[d];
    while (s->followers[f] != i)
        f++;
    memmove(&s->followers[f], &s->followers[f + 1], (s->ndeps - 1 - f) * sizeof *s->followers);
    for (uint32_t later = d + 1; later <= s->nsteps; later++)
        s->follower_first[later]--;
}

/* Is there another path by which i waits for d? */
static bool waits(const struct tt_schedule *s, uint32_t i, uint32_t d)
{
    for (uint32_t k = 0; k < s->steps[i].dep_count; k++) {
        uint32_t earlier = s->deps[s->steps[i].dep_first + k];
        if (earlier == d || (earlier > d && waits(s, earlier, d)))
            return true;
    }
    return false;
}

static void try_without_edges(
    int algorithm, enum rig_in_place in_place, int rank, uint64_t *tried, uint64_t *seen)
{
    struct rig_plan *plan = plan_of(algorithm, in_place);
    uint32_t nsteps = plan->schedules[rank].nsteps;
    rig_plan_free(plan);
    for (uint32_t i = 0; i < nsteps; i++)
        for (uint32_t k = 0;; k++) {
            plan = plan_of(algorithm, in_place);
            struct tt_schedule *s = &plan->schedules[rank];
            bool any = k < s->steps[i].dep_count;
            uint32_t d = any ? s->deps[s->steps[i].dep_first + k] : 0;
            if (any) {
                rig_plan_evaluate(plan);
                drop_edge(s, i, k);
            }
            if (any && !waits(s, i, d)) {
                bool well = true;
                for (uint64_t seed = 1; seed <= 40 && well; seed++)
                    well = goes_well(plan, seed, NULL);
                ++*tried;
                *seen += !well;
            }
            rig_plan_free(plan);
            if (!any)
                break;
        }
}

Test(exec_faults, a_lost_dependency_is_seen)
{
    uint64_t tried = 0, seen = 0;
    for (int algorithm = 0; algorithm < tt_algorithm_count; algorithm++) {
        if (!rig_serves(algorithm, RANKS, false) || tt_algorithms[algorithm].collective == TT_BARRIER ||
            strcmp(tt_algorithms[algorithm].name, "pairwise") == 0) /* whose dependencies are for the pace */
            continue;
        for (int mode = RIG_OUT_OF_PLACE; mode <= RIG_IN_PLACE; mode++)
            for (int rank = 0; rank < 2; rank++)
                try_without_edges(algorithm, (enum rig_in_place)mode, rank, &tried, &seen);
    }
    /* Not all can be: often a peer answers only after it has read what is then overwritten. */
    cr_expect_geq(seen * 4, tried * 3, "of %llu lost dependencies %llu are seen", (unsigned long long)tried,
        (unsigned long long)seen);
}
