/* SPDX-License-Identifier: BSD-3-Clause */
/* test_exec_scale.c: many ranks in one thread, bounded calls, and order on queues. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "exec_rig.h"

/* --- 512 ranks. */

static void run_many(enum tt_collective collective, const char *algorithm, int n, uint64_t count)
{
    int row = tt_algorithm_find(collective, algorithm);
    struct rig_plan *plan = rig_plan_create(collective, row, n, 0, false, RIG_MIXED);
    struct rig_settings settings = rig_rough(n, (uint64_t)n);
    settings.sim.slots = 0;
    struct rig_run *run = rig_run_create(plan, count, 1, 5);
    struct rig_world *world = rig_world_create(&settings);
    world->sampled = true;
    cr_expect(rig_world_run(world, &run, 1), "%s", world->failure);
    rig_world_free(world);
    rig_run_free(run);
    rig_plan_free(plan);
}

Test(exec_scale, ring_of_512_ranks)
{
    run_many(TT_ALL_REDUCE, "ring", 512, 1027);
}

Test(exec_scale, other_algorithms_on_512_ranks)
{
    run_many(TT_ALL_REDUCE, "doubling", 512, 33);
    run_many(TT_ALL_REDUCE, "halving", 512, 1027);
    run_many(TT_ALL_REDUCE, "tree", 512, 33);
    run_many(TT_BROADCAST, "tree", 512, 33);
    run_many(TT_BARRIER, "dissemination", 512, 1);
    run_many(TT_ALL_REDUCE, "direct", 64, 131);
}

/* --- Bounded calls. */

enum { LARGE = 1 << 20 /* elements of 8 bytes: eight times the budget of a call */ };

static uint64_t elements_written(const struct rig_rank *r, uint64_t count)
{
    const uint8_t poison[8] = { RIG_POISON, RIG_POISON, RIG_POISON, RIG_POISON, RIG_POISON, RIG_POISON,
        RIG_POISON, RIG_POISON };
    uint64_t written = 0;
    for (uint64_t i = 0; i < count; i++)
        written += memcmp(r->out + i * 8, poison, 8) != 0;
    return written;
}

/* Whichever path the message takes, a call of progress copies a budget's worth and returns. */
static void expect_bounded_copies(uint64_t seed)
{
    struct rig_plan *plan =
        rig_plan_create(TT_BROADCAST, tt_algorithm_find(TT_BROADCAST, "tree"), 2, 0, false, RIG_OUT_OF_PLACE);
    struct rig_settings settings = { .sim = { .n = 2, .seed = seed }, .map = true };
    struct rig_run *run = rig_run_create(plan, LARGE, 1, 5);
    struct rig_world *world = rig_world_create(&settings);
    struct rig_rank *receiver = &run->ranks[1];
    int rank, calls = 0;
    rig_world_load(world, &run, 1);
    rig_begin(world, 0);
    rig_begin(world, 1);
    for (int i = 0; i < 3; i++)
        cr_expect_eq(rig_progress(world, 1), TT_IDLE, "nothing was sent yet");
    cr_expect_eq(tt_sim_counts(world->sim)->messages, 0);
    while (tt_sim_step(world->sim, &rank)) {
        enum tt_progress now;
        do {
            uint64_t before = elements_written(receiver, LARGE);
            now = rig_progress(world, rank);
            uint64_t bytes = (elements_written(receiver, LARGE) - before) * 8;
            cr_expect_leq(bytes, TT_EXEC_BUDGET_BYTES + 8);
            calls += bytes > 0;
        } while (now == TT_MOVED);
    }
    cr_expect_eq(receiver->op.result.state, TT_DONE);
    cr_expect_geq(calls, LARGE * 8 / (TT_EXEC_BUDGET_BYTES + 8));
    cr_expect_eq(memcmp(receiver->out, run->ranks[0].in, LARGE * 8), 0);
    rig_world_free(world);
    rig_run_free(run);
    rig_plan_free(plan);
}

Test(exec_scale, a_call_copies_no_more_than_its_budget)
{
    for (uint64_t seed = 1; seed <= 4; seed++)
        expect_bounded_copies(seed);
}

Test(exec_scale, a_call_combines_no_more_than_its_budget)
{
    struct rig_plan *plan = rig_plan_create(
        TT_ALL_REDUCE, tt_algorithm_find(TT_ALL_REDUCE, "one_shot"), 5, 0, false, RIG_OUT_OF_PLACE);
    struct rig_settings settings = { .sim = { .n = 5, .seed = 3 }, .map = true };
    struct rig_run *run = rig_run_create(plan, LARGE / 2, 1, 5);
    struct rig_world *world = rig_world_create(&settings);
    cr_expect(rig_world_run(world, &run, 1), "%s", world->failure);
    cr_expect_leq(world->call_bytes_max, TT_EXEC_BUDGET_BYTES + LARGE / 2 * 8,
        "a budget, and the one message that may exceed it");
    rig_world_free(world);
    rig_run_free(run);
    rig_plan_free(plan);
}

/* Who takes over where nothing is left to do has nothing left to wait for. */
Test(exec_scale, what_is_skipped_to_its_end_is_over)
{
    struct rig_plan *plan =
        rig_plan_create(TT_BROADCAST, tt_algorithm_find(TT_BROADCAST, "tree"), 2, 0, false, RIG_OUT_OF_PLACE);
    struct rig_settings settings = { .sim = { .n = 2, .seed = 1 }, .map = true };
    struct rig_run *run = rig_run_create(plan, 100, 1, 5);
    struct rig_world *world = rig_world_create(&settings);
    rig_world_load(world, &run, 1);
    rig_begin(world, 1);
    cr_expect_eq(rig_progress(world, 1), TT_IDLE, "nothing was sent yet");
    tt_exec_skip(&run->ranks[1].op, UINT32_MAX);
    cr_expect_eq(rig_progress(world, 1), TT_DONE, "it waits for nothing");
    rig_world_free(world);
    rig_run_free(run);
    rig_plan_free(plan);
}

/* --- Turns. Rank 0's first message waits for rank 2's; its ninth, which needs the same slot, is ready at
 * once, but rank 1 takes it only after the first. */

static void build_overtaking(struct tt_schedule *s, int me)
{
    tt_chunks(s, 1);
    if (me == 2)
        tt_send(s, 0, tt_in(0));
    if (me == 0) {
        tt_recv(s, 2, tt_tmp(0));
        tt_send(s, 1, tt_tmp(0));
        for (int i = 1; i <= TT_SLOTS; i++)
            tt_send(s, 1, tt_in(0));
    }
    for (uint32_t i = 0; me == 1 && i <= TT_SLOTS; i++)
        tt_recv(s, 0, tt_tmp(i % TT_SLOTS));
}

Test(exec_scale, no_message_takes_the_slot_of_an_earlier_one)
{
    struct tt_schedule schedules[3];
    for (int me = 0; me < 3; me++) {
        struct tt_key key = { .collective = TT_BARRIER, .n = 3, .me = me };
        cr_assert_eq(tt_schedule_begin(&schedules[me], &key, "overtaking"), TUTTI_OK);
        build_overtaking(&schedules[me], me);
        cr_assert_eq(tt_schedule_end(&schedules[me]), TUTTI_OK);
    }
    struct rig_plan plan = { .collective = TT_BARRIER, .n = 3, .schedules = schedules };
    struct rig_settings settings = { .sim = { .n = 3, .seed = 1, .delay_ns = 100 } };
    struct rig_run *run = rig_run_create(&plan, 1, 1, 1);
    struct rig_world *world = rig_world_create(&settings);
    int rank;
    rig_world_load(world, &run, 1);
    for (int r = 0; r < 3; r++)
        rig_begin(world, r);
    while (tt_sim_step(world->sim, &rank))
        while (rig_progress(world, rank) == TT_MOVED)
            ;
    for (int r = 0; r < 3; r++)
        cr_expect_eq(run->ranks[r].op.result.state, TT_DONE, "rank %d", r);
    cr_expect_str_eq(tt_sim_error(world->sim), "");
    rig_world_free(world);
    rig_run_free(run);
    for (int me = 0; me < 3; me++)
        tt_schedule_free(&schedules[me]);
}

/* --- Program order on queues: what a stream of a GPU can run. A send is a
 * post, its acknowledgement is awaited by the step that depends on it. */

struct queues {
    const struct rig_plan *plan;
    uint32_t slices;
    bool *ready, *taken; /* by message: posted; received */
    bool *done; /* by rank, slice and step: its turn came */
    uint32_t *first_message, *first_step; /* by pair; by rank */
};

static size_t message_at(const struct queues *q, int src, int dst, uint32_t slice, uint32_t ordinal)
{
    uint32_t each = q->plan->schedules[src].sends[dst];
    return q->first_message[src * q->plan->n + dst] + slice * each + ordinal;
}

static bool may_run(const struct queues *q, int rank, uint32_t slice, uint32_t i)
{
    const struct tt_schedule *s = &q->plan->schedules[rank];
    const struct tt_step *step = &s->steps[i];
    const bool *done = &q->done[q->first_step[rank] + slice * s->nsteps];
    for (uint32_t k = 0; k < step->dep_count; k++) {
        uint32_t d = s->deps[step->dep_first + k];
        const struct tt_step *earlier = &s->steps[d];
        bool sent = earlier->verb != TT_VERB_SEND ||
                    q->taken[message_at(q, rank, earlier->peer, slice, earlier->ordinal)];
        if (!done[d] || !sent)
            return false;
    }
    if (step->verb == TT_VERB_RECV || step->verb == TT_VERB_RECV_REDUCE)
        for (uint32_t k = 0; k < step->fold_count; k++)
            if (!q->ready[message_at(q, step[k].peer, rank, slice, step[k].ordinal)])
                return false;
    return true;
}

static void run_unit(struct queues *q, int rank, uint32_t slice, uint32_t i)
{
    const struct tt_schedule *s = &q->plan->schedules[rank];
    const struct tt_step *step = &s->steps[i];
    q->done[q->first_step[rank] + slice * s->nsteps + i] = true;
    if (step->verb == TT_VERB_SEND)
        q->ready[message_at(q, rank, step->peer, slice, step->ordinal)] = true;
    if (step->verb == TT_VERB_RECV || step->verb == TT_VERB_RECV_REDUCE)
        for (uint32_t k = 0; k < step->fold_count; k++)
            q->taken[message_at(q, step[k].peer, rank, slice, step[k].ordinal)] = true;
}

/* All steps of a queue, slice after slice, as far as it goes from `at`; true if it went. */
static bool run_queue(struct queues *q, int rank, unsigned queue, uint32_t *at)
{
    const struct tt_schedule *s = &q->plan->schedules[rank];
    bool moved = false;
    for (; *at < s->nsteps * q->slices; moved = true, ++*at) {
        uint32_t slice = *at / s->nsteps, i = *at % s->nsteps;
        bool mine = s->steps[i].flags >> TT_QUEUE_SHIFT == (int)queue && s->steps[i].fold_index == 0;
        if (mine && !may_run(q, rank, slice, i))
            return moved;
        if (mine)
            run_unit(q, rank, slice, i);
    }
    return moved;
}

static bool queues_complete(const struct rig_plan *plan, uint32_t slices)
{
    enum { QUEUES = 16 };
    int n = plan->n;
    uint32_t messages = 0, steps = 0;
    struct queues q = { .plan = plan, .slices = slices };
    q.first_message = calloc((size_t)(n * n), sizeof *q.first_message);
    q.first_step = calloc((size_t)n, sizeof *q.first_step);
    uint32_t *at = calloc((size_t)n * QUEUES, sizeof *at);
    for (int r = 0; r < n; r++) {
        q.first_step[r] = steps;
        steps += plan->schedules[r].nsteps * slices;
        for (int peer = 0; peer < n; peer++) {
            q.first_message[r * n + peer] = messages;
            messages += plan->schedules[r].sends[peer] * slices;
        }
    }
    q.ready = calloc(messages + 1, sizeof *q.ready);
    q.taken = calloc(messages + 1, sizeof *q.taken);
    q.done = calloc(steps + 1, sizeof *q.done);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < n; r++)
            for (unsigned queue = 0; queue < QUEUES; queue++)
                moved |= run_queue(&q, r, queue, &at[r * QUEUES + (int)queue]);
    }
    bool complete = true;
    for (int r = 0; r < n; r++)
        for (unsigned queue = 0; queue < QUEUES; queue++)
            complete = complete && at[r * QUEUES + (int)queue] == plan->schedules[r].nsteps * slices;
    for (uint32_t m = 0; m < messages; m++)
        complete = complete && q.taken[m];
    free(q.first_message);
    free(q.first_step);
    free(q.ready);
    free(q.taken);
    free(q.done);
    free(at);
    return complete;
}

Test(exec_scale, program_order_on_queues_completes)
{
    for (int algorithm = 0; algorithm < tt_algorithm_count; algorithm++)
        for (int n = 2; n <= 16; n++)
            for (int mode = RIG_OUT_OF_PLACE; mode <= RIG_MIXED && rig_serves(algorithm, n, false); mode++) {
                enum tt_collective collective = (enum tt_collective)tt_algorithms[algorithm].collective;
                for (int root = 0; root < (tt_collectives[collective].rooted ? n : 1); root++) {
                    struct rig_plan *plan =
                        rig_plan_create(collective, algorithm, n, root, false, (enum rig_in_place)mode);
                    for (uint32_t slices = 1; slices <= 3; slices++)
                        cr_expect(queues_complete(plan, slices), "%s %s n %d root %d in_place %d slices %u",
                            tt_collectives[collective].name, tt_algorithms[algorithm].name, n, root, mode,
                            slices);
                    rig_plan_free(plan);
                }
            }
}

/* Two ranks that both receive first stand still on queues, though the executor would not mind. */
Test(exec_scale, program_order_matters_on_queues)
{
    for (int first = 0; first < 2; first++) {
        struct tt_schedule schedules[2];
        for (int me = 0; me < 2; me++) {
            struct tt_key key = { .collective = TT_ALL_REDUCE, .n = 2, .me = me };
            cr_assert_eq(tt_schedule_begin(&schedules[me], &key, "exchange"), TUTTI_OK);
            tt_chunks(&schedules[me], 1);
            for (int i = 0; i < 2; i++)
                if (i == first)
                    tt_send(&schedules[me], !me, tt_in(0));
                else
                    tt_recv(&schedules[me], !me, tt_out(0));
            cr_assert_eq(tt_schedule_end(&schedules[me]), TUTTI_OK);
        }
        struct rig_plan plan = { .n = 2, .schedules = schedules };
        cr_expect_eq(queues_complete(&plan, 1), first == 0);
        for (int me = 0; me < 2; me++)
            tt_schedule_free(&schedules[me]);
    }
}
