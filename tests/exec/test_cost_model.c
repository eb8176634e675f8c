/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cost_model.c: the predicted time of an algorithm is what the real executor takes over the simulator,
 * and what is chosen is the one that takes least.
 *
 * The simulator has a clock for what a transport does; what the executor does without one, folds and copies,
 * reaches it through the fold, as which copies are run here. The values do not matter. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "select/cost_model.h"
#include "exec/exec.h"
#include "tests/proof/schedules.h"
#include "transports/sim/sim.h"

enum { ELEMENT = 4, NOWHERE = -1 };

static struct { /* what the fold must know */
    struct tt_sim *sim;
    const struct tt_costs *costs;
    int rank;
    uint64_t full_slots; /* of the last run */
} now;

static int tried, waited; /* for a slot, which is no part of the prediction */

static void take_time(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor)
{
    (void)dst;
    (void)sources;
    (void)divisor;
    tt_sim_spend(now.sim, now.rank, now.costs->fold * ((uint64_t)k + 1) * count * ELEMENT);
}

struct player {
    struct tt_schedule schedule;
    struct tt_op op;
    struct tt_endpoint *endpoint;
    uint8_t *memory;
    uint64_t *numbers; /* 2n */
    uint64_t end;
};

/* A copy is a fold of its operand with itself: of two operands, and so its cost here. */
static void copies_as_folds(struct tt_schedule *s)
{
    for (uint32_t i = 0; i < s->nsteps; i++) {
        struct tt_step *step = &s->steps[i];
        if (step->verb != TT_VERB_COPY)
            continue;
        step->verb = TT_VERB_REDUCE;
        step->peer = TT_NONE;
        step->right_buffer = step->src_buffer;
        step->right_chunk = step->src_chunk;
    }
}

static void bind(struct player *p, const struct tt_cost_query *q, int algorithm, int me, uint32_t slices)
{
    const struct tt_collective_row *row = &tt_collectives[q->collective];
    bool reduces = row->result == TT_RESULT_REDUCED || q->collective == TT_BARRIER;
    struct tt_key key = { .collective = (uint8_t)q->collective,
        .algorithm = (uint8_t)algorithm,
        .exact = q->requirements.exact && reduces,
        .n = q->requirements.n,
        .me = me,
        .topology = q->requirements.topology };
    cr_assert_eq(tt_schedule_build(&p->schedule, &key), TUTTI_OK);
    copies_as_folds(&p->schedule);
    cr_assert_eq(tt_op_create(&p->schedule, &p->op), TUTTI_OK);
    struct tt_op *op = &p->op;
    uint64_t count = (q->bytes + ELEMENT - 1) / ELEMENT, n = (uint64_t)q->requirements.n;
    if (row->blocks)
        count = (count + n - 1) / n * n;
    tt_layout_even(&op->layout, count, p->schedule.chunks, slices, ELEMENT);
    uint64_t stride = tt_layout_part_max(&op->layout) * ELEMENT + 1, room = (count + 1) * ELEMENT;
    p->memory = malloc(2 * room + TT_WINDOW * stride * (p->schedule.tmp_cells + 1));
    p->numbers = calloc(2 * (size_t)key.n, sizeof *p->numbers);
    cr_assert(p->memory != NULL && p->numbers != NULL);
    op->spaces[TT_IN].base = (uintptr_t)p->memory;
    op->spaces[TT_OUT].base = (uintptr_t)p->memory + room;
    op->spaces[TT_TMP] = (struct tt_space){ .base = (uintptr_t)p->memory + 2 * room, .stride = stride };
    op->window_bytes[TT_TMP] = stride * p->schedule.tmp_cells;
    op->endpoint = p->endpoint;
    op->messages.class = TT_CLASS_COLLECTIVE;
    op->messages.signature = 1;
    op->messages.next_send = p->numbers;
    op->messages.next_recv = p->numbers + key.n;
    op->arithmetic.folds[TT_CHAIN] = op->arithmetic.folds[TT_TREE] = take_time;
}

static void open_endpoints(struct player *players, int n)
{
    uint8_t *addresses = calloc((size_t)n, TT_ADDRESS_BYTES);
    for (int me = 0; me < n; me++) {
        struct tt_endpoint_params params = { .n = n, .me = me, .slot_bytes = UINT64_MAX };
        cr_assert_eq(
            tt_sim_transport.open(&params, addresses + (size_t)me * TT_ADDRESS_BYTES, &players[me].endpoint),
            TUTTI_OK);
    }
    free(addresses);
}

static void drive(struct player *p, int rank)
{
    enum tt_progress state;
    uint64_t began = tt_sim_clock(now.sim, rank);
    now.rank = rank;
    do
        state = tt_exec_progress(&p->op);
    while (state == TT_MOVED && tt_sim_clock(now.sim, rank) == began);
    cr_assert_neq(state, TT_FAILED);
    if (state == TT_DONE && p->end == 0)
        p->end = tt_sim_clock(now.sim, rank) - 1; /* ranks begin at 1 */
}

/* When the last rank ends. */
static uint64_t simulated(const struct tt_cost_query *q, int algorithm, uint32_t slices)
{
    int n = q->requirements.n, rank;
    uint64_t end = 0;
    struct tt_sim_params params = { .n = n, .costs = q->costs };
    if (q->requirements.topology != NULL)
        params.domain = q->requirements.topology->domain;
    struct player *players = calloc((size_t)n, sizeof *players);
    cr_assert(players != NULL);
    cr_assert_eq(tt_sim_create(&params, &now.sim), TUTTI_OK);
    tt_sim_join(now.sim);
    now.costs = q->costs;
    open_endpoints(players, n);
    for (int me = 0; me < n; me++) {
        bind(&players[me], q, algorithm, me, slices);
        tt_exec_start(&players[me].op);
    }
    while (tt_sim_step(now.sim, &rank))
        drive(&players[rank], rank);
    cr_assert_str_eq(tt_sim_error(now.sim), "");
    now.full_slots = tt_sim_counts(now.sim)->full_slots;
    for (int me = 0; me < n; me++) {
        cr_assert_eq(
            players[me].op.result.state, TT_DONE, "%s, rank %d of %d", tt_algorithms[algorithm].name, me, n);
        end = players[me].end > end ? players[me].end : end;
        tt_op_destroy(&players[me].op);
        tt_schedule_free(&players[me].schedule);
        free(players[me].memory);
        free(players[me].numbers);
    }
    tt_sim_destroy(now.sim);
    free(players);
    return end;
}

/* What machines may be like: copies cost what a fold of two operands does (copies_as_folds). */
static const struct tt_costs machines[] = {
    { { 50000000, 200000000, 0 }, { 40000, 90000, 0 }, 11000, 33000, { 60000000, 60000000, 0 }, 1500000000,
        1024, 1024, 1 },
    { { 50000000, 200000000, 0 }, { 40000, 90000, 0 }, 11000, 33000, { 60000000, 60000000, 0 }, 1500000000,
        1024, 2, 1 },
    /* several hosts: domains are those */
    { { 200000000, 0, 9000000000 }, { 70000, 0, 500000 }, 9000, 27000, { 30000000, 0, 3000000000 }, 0, 0,
        1024, 2 },
    /* slow memory */
    { { 1000, 3000, 0 }, { 300000, 700000, 0 }, 400000, 1200000, { 1000, 1000, 0 }, 7000, 64, 3, 1 },
    /* dear messages */
    { { 30000000, 30000000, 0 }, { 20000, 20000, 0 }, 0, 0, { 500000000, 500000000, 0 }, 0, 4096, 1024, 1 },
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
static void expect_prediction_of_all(int n, uint64_t bytes, const struct tt_costs *costs)
{
    struct tt_topology *topology = domains_of(n);
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
            waited += now.full_slots > 0;
            if (now.full_slots > 0)
                continue;
            cr_expect_eq(prediction.total, time,
                "%s %s, %d ranks, %llu bytes, %u slices: predicted %llu, time %llu",
                tt_collectives[collective].name, tt_algorithms[a].name, n, (unsigned long long)bytes,
                prediction.slices, (unsigned long long)prediction.total, (unsigned long long)time);
            for (int part = 0; part < TT_COST_PARTS; part++)
                sum += prediction.parts[part];
            cr_expect_leq(sum, prediction.total, "%s: more work than time", tt_algorithms[a].name);
        }
    if (topology != NULL)
        topology_free(topology);
}

Test(cost_model, is_the_simulated_time)
{
    static const int ranks[] = { 1, 2, 3, 4, 5, 7, 8, 11, 16 };
    static const uint64_t sizes[] = { 4, 100, 4000, 20000 };
    for (int m = 0; m < MACHINES; m++)
        for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
            for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++)
                expect_prediction_of_all(ranks[i], sizes[k], &machines[m]);
    cr_expect_gt(tried, 5000);
    cr_expect_lt(waited, tried / 50, "%d of %d waited for a slot", waited, tried);
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
