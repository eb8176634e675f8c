/* SPDX-License-Identifier: BSD-3-Clause */
/* executor.c: all ranks of a call, driven in turn as the simulated transport names them.
 *
 * The transport has a clock for what it does; what the executor does without one, folds and copies, reaches
 * it through the fold, as which copies are run here. The values do not matter. */
#include "executor.h"

#include <stdlib.h>

#include "exec/exec.h"
#include "select/classes.h"
#include "transports/sim/sim.h"

struct player {
    struct tt_schedule schedule;
    struct tt_op op;
    struct tt_endpoint *endpoint;
    uint8_t *memory;
    uint64_t *numbers; /* 2n */
    uint64_t end;
};

struct play {
    const struct tt_cost_query *query;
    struct tt_sim *sim;
    struct player *players;
    int ready; /* players that have a schedule and an operation */
    const char *failure;
};

static struct { /* what a fold must know, which has no room for it in its arguments */
    struct tt_sim *sim;
    const struct tt_costs *costs;
    uint32_t element_bytes;
    int rank;
} now;

static void take_time(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor)
{
    (void)dst;
    (void)divisor;
    bool copies = k == 2 && sources[0] == sources[1];
    uint64_t each = copies ? now.costs->copy : tt_costs_fold(now.costs, (uint32_t)k, 1);
    tt_sim_spend(now.sim, now.rank, each * count * now.element_bytes);
}

/* A copy is a fold of its operand with itself, by which take_time knows it. */
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

static uint64_t count_of(const struct tt_cost_query *q)
{
    uint64_t count = (q->bytes + q->element_bytes - 1) / q->element_bytes, n = (uint64_t)q->requirements.n;
    return tt_collectives[q->collective].blocks ? (count + n - 1) / n * n : count;
}

/* IN and OUT of a rank; an element more, so that an empty vector has a place. */
static uint64_t vector_bytes(const struct tt_cost_query *q)
{
    return (count_of(q) + 1) * q->element_bytes;
}

uint64_t sim_execution_memory(const struct tt_cost_query *q, int algorithm)
{
    struct tt_schedule s;
    if (tt_cost_build(q, algorithm, 0, NULL, &s) != TUTTI_OK)
        return UINT64_MAX;
    uint64_t chunk = vector_bytes(q) / s.chunks + q->element_bytes;
    uint64_t each = 2 * vector_bytes(q) + TT_WINDOW * chunk * (s.tmp_cells + 1);
    tt_schedule_free(&s);
    return each * (uint64_t)q->requirements.n;
}

static bool bind(struct play *play, int algorithm, int me, uint32_t slices)
{
    const struct tt_cost_query *q = play->query;
    struct player *p = &play->players[me];
    size_t n = (size_t)q->requirements.n;
    if (tt_cost_build(q, algorithm, me, NULL, &p->schedule) != TUTTI_OK)
        return false;
    copies_as_folds(&p->schedule);
    if (tt_op_create(&p->schedule, &p->op) != TUTTI_OK) {
        tt_schedule_free(&p->schedule);
        return false;
    }
    play->ready++;
    struct tt_op *op = &p->op;
    tt_layout_even(&op->layout, count_of(q), p->schedule.chunks, slices, q->element_bytes);
    uint64_t stride = tt_layout_part_max(&op->layout) * q->element_bytes + 1, room = vector_bytes(q);
    p->memory = malloc(2 * room + TT_WINDOW * stride * (p->schedule.tmp_cells + 1));
    p->numbers = calloc(2 * n, sizeof *p->numbers);
    if (p->memory == NULL || p->numbers == NULL)
        return false;
    op->spaces[TT_IN].base = (uintptr_t)p->memory;
    op->spaces[TT_OUT].base = (uintptr_t)p->memory + room;
    op->spaces[TT_TMP] = (struct tt_space){ .base = (uintptr_t)p->memory + 2 * room, .stride = stride };
    op->window_bytes[TT_TMP] = stride * p->schedule.tmp_cells;
    op->endpoint = p->endpoint;
    op->messages.class = TT_CLASS_COLLECTIVE;
    op->messages.signature = 1;
    op->messages.next_send = p->numbers;
    op->messages.next_recv = p->numbers + n;
    op->arithmetic.folds[TT_CHAIN] = op->arithmetic.folds[TT_TREE] = take_time;
    tt_exec_start(op);
    return true;
}

static bool open_endpoints(struct play *play)
{
    int n = play->query->requirements.n;
    uint8_t *addresses = calloc((size_t)n, TT_ADDRESS_BYTES);
    bool good = addresses != NULL;
    for (int me = 0; me < n && good; me++) {
        struct tt_endpoint_params params = { .n = n, .me = me, .slot_bytes = UINT64_MAX };
        good = tt_sim_transport.open(&params, addresses + (size_t)me * TT_ADDRESS_BYTES,
                   &play->players[me].endpoint) == TUTTI_OK;
    }
    free(addresses);
    return good;
}

static void drive(struct play *play, int rank)
{
    struct player *p = &play->players[rank];
    enum tt_progress state;
    uint64_t began = tt_sim_clock(play->sim, rank);
    now.rank = rank;
    do
        state = tt_exec_progress(&p->op);
    while (state == TT_MOVED && tt_sim_clock(play->sim, rank) == began);
    if (state == TT_FAILED)
        play->failure = "a rank failed";
    if (state == TT_DONE && p->end == 0)
        p->end = tt_sim_clock(play->sim, rank) - 1; /* ranks begin at 1 */
}

static void run(struct play *play, int algorithm, uint32_t slices, struct sim_execution *execution)
{
    int n = play->query->requirements.n, rank;
    bool good = open_endpoints(play);
    for (int me = 0; me < n && good; me++)
        good = bind(play, algorithm, me, slices);
    if (!good)
        play->failure = "no memory";
    while (play->failure == NULL && tt_sim_step(play->sim, &rank))
        drive(play, rank);
    if (play->failure == NULL && tt_sim_error(play->sim)[0] != '\0')
        play->failure = "the executor broke the contract of transports";
    for (int me = 0; me < n && play->failure == NULL; me++) {
        if (play->players[me].op.result.state != TT_DONE)
            play->failure = "a rank does not end";
        execution->time = play->players[me].end > execution->time ? play->players[me].end : execution->time;
    }
    const struct tt_sim_counts *counts = tt_sim_counts(play->sim);
    execution->full_slots = counts->full_slots;
    execution->messages = counts->messages;
    execution->bytes = counts->bytes;
}

const char *sim_execute(
    const struct tt_cost_query *q, int algorithm, uint32_t slices, struct sim_execution *execution)
{
    struct tt_sim_params params = { .n = q->requirements.n, .costs = q->costs };
    struct play play = { .query = q };
    if (q->requirements.topology != NULL)
        params.domain = q->requirements.topology->domain;
    play.players = calloc((size_t)q->requirements.n, sizeof *play.players);
    if (play.players == NULL || tt_sim_create(&params, &play.sim) != TUTTI_OK) {
        free(play.players);
        return "no memory";
    }
    tt_sim_join(play.sim);
    now.sim = play.sim;
    now.costs = q->costs;
    now.element_bytes = q->element_bytes;
    *execution = (struct sim_execution){ 0 };
    run(&play, algorithm, slices, execution);
    for (int me = 0; me < play.ready; me++) {
        tt_op_destroy(&play.players[me].op);
        tt_schedule_free(&play.players[me].schedule);
        free(play.players[me].memory);
        free(play.players[me].numbers);
    }
    tt_sim_destroy(play.sim);
    free(play.players);
    return play.failure;
}
