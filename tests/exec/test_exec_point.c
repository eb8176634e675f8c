/* SPDX-License-Identifier: BSD-3-Clause */
/* test_exec_point.c: sends and receives through the real executor over virtual time.
 *
 * They are numbered per pair and direction in slots of their own. Several may be in flight at one side while
 * the other takes them one by one, in the order of the calls: none may take a slot that an earlier one
 * still needs. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "exec_rig.h"

enum { RANKS = 3, CALLS = 6 };

struct point {
    struct tt_schedule schedule;
    struct tt_op op;
    uint64_t *data;
    uint64_t count;
    bool over;
};

/* What a rank calls: from first to last, `together` at a time. */
struct caller {
    struct point calls[CALLS];
    int ncalls, first, started, together;
};

struct points {
    struct rig_world *world;
    uint64_t next[RANKS][3][RANKS]; /* by rank: numbers to send, to receive and to post */
    struct caller callers[RANKS][2]; /* sends, receives */
};

static uint64_t value(int from, int to, int call, uint64_t i)
{
    return (uint64_t)(from * 100 + to * 10 + call) << 32 | i;
}

static void open_point(struct points *p, int me, int peer, bool receives, uint64_t count, uint32_t slices)
{
    struct caller *caller = &p->callers[me][receives];
    int call = caller->ncalls++;
    struct point *point = &caller->calls[call];
    enum tt_collective collective = receives ? TT_P2P_RECV : TT_P2P_SEND;
    struct tt_key key = { .collective = (uint8_t)collective, .n = RANKS, .me = me, .root = peer };
    key.algorithm = (uint8_t)tt_algorithm_find(collective, "point");
    cr_assert_eq(tt_schedule_build(&point->schedule, &key), TUTTI_OK);
    cr_assert_eq(tt_op_create(&point->schedule, &point->op), TUTTI_OK);
    struct tt_op *op = &point->op;
    point->count = count;
    point->data = calloc(count + 1, sizeof *point->data);
    for (uint64_t i = 0; i < count && !receives; i++)
        point->data[i] = value(me, peer, call, i);
    op->endpoint = p->world->endpoints[me];
    op->messages.class = TT_CLASS_P2P;
    op->messages.signature = 77;
    op->messages.next_send = p->next[me][0];
    op->messages.next_recv = p->next[me][1];
    op->messages.next_post = p->next[me][2];
    tt_layout_even(&op->layout, count, 1, slices, sizeof(uint64_t));
    op->spaces[receives ? TT_OUT : TT_IN].base = (uintptr_t)point->data;
}

static void end_point(struct point *point, int me, int peer, int call, bool receives)
{
    point->over = true;
    for (uint64_t i = 0; i < point->count && receives; i++)
        cr_assert_eq(point->data[i], value(peer, me, call, i), "from %d to %d, call %d", peer, me, call);
    memset(point->data, RIG_POISON, point->count * sizeof *point->data);
}

/* One pass over what the rank has in flight. */
static bool poll_caller(struct caller *caller, int me, bool receives)
{
    bool moved = false;
    while (caller->started < caller->ncalls && caller->started < caller->first + caller->together)
        tt_exec_start(&caller->calls[caller->started++].op);
    for (int i = caller->first; i < caller->started; i++) {
        struct point *point = &caller->calls[i];
        if (point->over)
            continue;
        enum tt_progress now = tt_exec_progress(&point->op);
        cr_assert_neq(now, TT_FAILED);
        if (now == TT_DONE)
            end_point(point, me, point->schedule.key.root, i, receives);
        moved |= now != TT_IDLE;
    }
    for (; caller->first < caller->started && caller->calls[caller->first].over; moved = true)
        caller->first++;
    return moved;
}

static struct points *open_points(uint64_t seed)
{
    struct points *p = calloc(1, sizeof *p);
    struct rig_settings settings = rig_rough(RANKS, seed);
    settings.sim.slots = 0;
    p->world = rig_world_create(&settings);
    for (int r = 0; r < RANKS; r++)
        for (int k = 0; k < 3; k++)
            for (int peer = 0; peer < RANKS; peer++)
                p->next[r][k][peer] = settings.first_number;
    return p;
}

static void close_points(struct points *p)
{
    for (int r = 0; r < RANKS; r++)
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < p->callers[r][k].ncalls; i++) {
                tt_op_destroy(&p->callers[r][k].calls[i].op);
                tt_schedule_free(&p->callers[r][k].calls[i].schedule);
                free(p->callers[r][k].calls[i].data);
            }
    rig_world_free(p->world);
    free(p);
}

static bool poll_callers(struct points *p, int rank)
{
    bool sent = poll_caller(&p->callers[rank][0], rank, false);
    bool received = poll_caller(&p->callers[rank][1], rank, true);
    return sent || received;
}

static void drive(struct points *p)
{
    int rank;
    while (tt_sim_step(p->world->sim, &rank))
        while (poll_callers(p, rank))
            ;
    cr_expect_str_eq(tt_sim_error(p->world->sim), "");
}

/* Long and short messages of one pair, both ways; each side takes as many at a time as it likes. */
static void exchange(uint64_t seed, int sends_together, int receives_together)
{
    static const uint64_t counts[CALLS] = { 100, 7, 0, 40, 1, 64 };
    static const uint32_t slices[CALLS] = { 30, 2, 1, 13, 1, 9 };
    struct points *p = open_points(seed);
    for (int me = 0; me < 2; me++)
        for (int receives = 0; receives < 2; receives++) {
            struct caller *caller = &p->callers[me][receives];
            caller->together = receives ? receives_together : sends_together;
            for (int i = 0; i < CALLS; i++)
                open_point(p, me, !me, receives, counts[i], slices[i]);
        }
    drive(p);
    for (int me = 0; me < 2; me++)
        for (int receives = 0; receives < 2; receives++)
            cr_expect_eq(p->callers[me][receives].first, CALLS,
                "seed %llu: rank %d, %s %d of %d did not end; %d sends and %d receives at a time",
                (unsigned long long)seed, me, receives ? "receive" : "send", p->callers[me][receives].first,
                CALLS, sends_together, receives_together);
    cr_expect_eq(tt_sim_occupied(p->world->sim), 0);
    close_points(p);
}

Test(exec_point, one_side_may_have_more_in_flight_than_the_other)
{
    for (uint64_t seed = 1; seed <= 30; seed++) {
        exchange(seed, 1, 1);
        exchange(seed, CALLS, 1);
        exchange(seed, 1, CALLS);
        exchange(seed, CALLS, CALLS);
    }
}

/* One pass of a rank over its point-to-point calls and its collective. */
static bool poll_both(struct points *p, int rank)
{
    bool moved = poll_callers(p, rank);
    struct rig_rank *r = &p->world->runs[0]->ranks[rank];
    if (!r->begun)
        rig_begin(p->world, rank);
    if (r->op.result.state == TT_DONE)
        return moved;
    return rig_progress(p->world, rank) != TT_IDLE || moved;
}

Test(exec_point, a_send_that_nobody_takes_starves_no_collective)
{
    struct points *p = open_points(5);
    struct rig_plan *plan = rig_plan_create(
        TT_ALL_REDUCE, tt_algorithm_find(TT_ALL_REDUCE, "direct"), RANKS, 0, false, RIG_IN_PLACE);
    struct rig_run *run = rig_run_create(plan, 50, 4, 1);
    struct caller *sender = &p->callers[0][0], *receiver = &p->callers[1][1];
    int rank;
    rig_world_load(p->world, &run, 1);
    open_point(p, 0, 1, false, 100, 30);
    open_point(p, 1, 0, true, 100, 30);
    sender->together = 1;
    while (tt_sim_step(p->world->sim, &rank))
        while (poll_both(p, rank))
            ;
    for (int r = 0; r < RANKS; r++)
        cr_expect_eq(run->ranks[r].op.result.state, TT_DONE);
    cr_expect_eq(sender->first, 0);
    cr_expect_eq(tt_exec_waits_for(&sender->calls[0].op), 1);
    cr_expect_gt(tt_sim_occupied(p->world->sim), 0);
    receiver->together = 1;
    tt_sim_pause(p->world->sim, 1);
    drive(p);
    cr_expect_eq(sender->first, 1);
    cr_expect_eq(receiver->first, 1);
    rig_run_free(run);
    rig_plan_free(plan);
    close_points(p);
}
