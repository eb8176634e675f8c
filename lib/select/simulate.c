/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate.c: schedules in virtual time, by the rules of the executor (lib/exec/exec.c), without a byte.
 *
 * What happens are messages that can be seen, by who receives them or, once they were read, by who sent
 * them; and ranks that go on. A rank that is named makes passes over what it may do, as the executor does,
 * and each piece of work moves the clock of its core on. Then it goes on at that time, and sees what came
 * meanwhile. */
#include "select/simulation.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

/* --- Events */

static void push(struct tt_simulation *sim, struct tt_simulated_event event)
{
    if (!tt_heap_push(&sim->events, &event, sizeof event))
        sim->failed = true;
}

static struct tt_simulated_core *core_of(struct tt_simulation *sim, int rank)
{
    return &sim->cores[rank % sim->ncores];
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t clock_of(struct tt_simulation *sim, int rank)
{
    return later(core_of(sim, rank)->free, sim->now);
}

/* If another call comes first, it finds the core busy, and calls again. */
static void wake(struct tt_simulation *sim, int rank, uint64_t time)
{
    if (sim->ranks[rank].called)
        return;
    sim->ranks[rank].called = true;
    push(sim,
        (struct tt_simulated_event){ .time = time, .rank = rank, .step = TT_NO_STEP, .work = TT_NO_WORK });
}

/* Writes work into the log, and why it began then: a rank that did something else until then had that to do,
 * one that waited got news. */
static void note(struct tt_simulation *sim, int rank, enum tt_cost_part part, uint64_t from, uint64_t to)
{
    struct tt_simulation_log *log = sim->params->query->log;
    struct tt_simulated_rank *r = &sim->ranks[rank];
    if (log == NULL || !sim->params->logs || from == to)
        return;
    if (log->count == log->capacity) {
        size_t wanted = log->capacity == 0 ? 1024 : 2 * log->capacity;
        struct tt_work *bigger = realloc(log->work, wanted * sizeof *bigger);
        sim->failed = sim->failed || bigger == NULL;
        if (bigger == NULL)
            return;
        log->work = bigger;
        log->capacity = wanted;
    }
    bool waited = r->last_work == TT_NO_WORK || log->work[r->last_work].to < from;
    log->work[log->count] = (struct tt_work){ .rank = r->s->key.me,
        .step = sim->step,
        .slice = sim->slice,
        .part = part,
        .from = from,
        .to = to,
        .cause = waited && sim->news != TT_NO_WORK ? sim->news : r->last_work };
    r->last_work = (int64_t)log->count++;
}

/* A context switch begins when the core has nothing to do: its rank lets the next one go on, whether that has
 * work or not. */
static void spend(struct tt_simulation *sim, int rank, enum tt_cost_part part, uint64_t time)
{
    struct tt_simulated_core *core = core_of(sim, rank);
    uint64_t *parts = sim->ranks[rank].parts, from = clock_of(sim, rank);
    if (core->last != rank && core->last != TT_NOBODY) {
        from = later(from, core->free + sim->costs->context_switch);
        parts[TT_COST_SWITCHES] += sim->costs->context_switch;
    }
    core->last = rank;
    core->free = from + time * sim->share;
    note(sim, rank, part, from, core->free);
    parts[part] += time * sim->share;
}

/* --- Steps */

/* Of a simulated rank and a peer. */
static enum tt_level level(const struct tt_simulation *sim, int rank, int peer)
{
    return tt_cost_level(sim->params->query, sim->ranks[rank].s->key.me, peer);
}

/* Returns who is simulated for this peer of a rank. */
static int stand_in(const struct tt_simulation *sim, int rank, int peer)
{
    if (sim->params->classes != NULL)
        return sim->params->classes->class_of[peer];
    return sim->representative ? rank : peer;
}

static uint64_t bytes_of(const struct tt_simulation *sim, uint32_t chunk, uint32_t nchunks, uint32_t slice)
{
    const struct tt_layout *l = sim->params->layout;
    uint64_t count = 0;
    for (uint32_t i = 0; i < nchunks; i++)
        count += tt_layout_part(l, (chunk + i) % l->chunks, slice).count;
    return count * l->element_bytes;
}

/* From a message's post to when the other end sees it. The ranks that a representative
 * stands for do the same as it, one after the other. */
static uint64_t delay(const struct tt_simulation *sim, int rank, int peer)
{
    return tt_costs_latency(sim->costs, level(sim, rank, peer), sim->params->query->requirements.n) +
           sim->round;
}

/* Returns how many ranks a simulated one stands for on its host. */
static uint64_t alike(const struct tt_simulation *sim, int rank)
{
    return sim->params->classes != NULL ? sim->params->classes->on_host[rank] : sim->params->sharers;
}

/* Returns when a message has passed the links of both hosts, if it is to another one. Who is simulated for
 * others takes as much of its host's link as all of these. */
static uint64_t pass_links(struct tt_simulation *sim, int rank, int peer, uint64_t bytes)
{
    uint64_t now = clock_of(sim, rank);
    if (sim->links == NULL || level(sim, rank, peer) != TT_AWAY)
        return now;
    const int *host = sim->params->query->requirements.topology->domain;
    int to = stand_in(sim, rank, peer);
    uint64_t *out = &sim->links[2 * host[sim->ranks[rank].s->key.me]],
             *in = &sim->links[2 * host[sim->ranks[to].s->key.me] + 1];
    return tt_costs_pass(sim->costs, (struct tt_link_use){ out, in }, now, bytes, alike(sim, rank));
}

/* The other end of this step's message can see what was done then. */
static void tell(
    struct tt_simulation *sim, int rank, const struct tt_simulated_slice *slice, uint32_t step, uint64_t time)
{
    const struct tt_simulated_rank *r = &sim->ranks[rank];
    int peer = r->s->steps[step].peer;
    if (r->mate[step] == TT_NO_STEP)
        return;
    push(sim, (struct tt_simulated_event){ .time = time + delay(sim, rank, peer),
                  .rank = stand_in(sim, rank, peer),
                  .step = r->mate[step],
                  .window = slice->index % TT_WINDOW,
                  .count = slice->index / TT_WINDOW + 1,
                  .work = r->last_work });
}

static bool heard(const struct tt_simulated_slice *slice, uint32_t step)
{
    return slice->heard[step] > slice->index / TT_WINDOW;
}

static bool advance_send(
    struct tt_simulation *sim, int rank, struct tt_simulated_slice *slice, struct tt_active *unit)
{
    const struct tt_simulated_rank *r = &sim->ranks[rank];
    const struct tt_step *step = &r->s->steps[unit->step];
    if (unit->posted)
        return r->mate[unit->step] == TT_NO_STEP || heard(slice, unit->step);
    uint64_t bytes = bytes_of(sim, step->src_chunk, step->nchunks, slice->index);
    if (bytes == 0)
        return true;
    bool eager = bytes <= tt_costs_eager(sim->costs, sim->params->query->requirements.n);
    spend(sim, rank, TT_COST_MESSAGES, sim->costs->message[level(sim, rank, step->peer)]);
    if (eager)
        spend(sim, rank, TT_COST_COPIES, sim->costs->copy * bytes);
    tell(sim, rank, slice, unit->step, pass_links(sim, rank, step->peer, bytes));
    unit->posted = sim->moved = true;
    return eager;
}

static bool advance_receive(
    struct tt_simulation *sim, int rank, struct tt_simulated_slice *slice, uint32_t first)
{
    const struct tt_step *step = &sim->ranks[rank].s->steps[first];
    uint64_t bytes = bytes_of(sim, step->dst_chunk, step->nchunks, slice->index);
    if (bytes == 0)
        return true;
    for (uint32_t i = 0; i < step->fold_count; i++)
        if (!heard(slice, first + i))
            return false;
    if (step->verb == TT_VERB_RECV_REDUCE)
        spend(sim, rank, TT_COST_FOLDS, tt_costs_fold(sim->costs, step->fold_count + 1U, bytes));
    for (uint32_t i = 0; i < step->fold_count; i++) {
        enum tt_level between = level(sim, rank, step[i].peer);
        spend(sim, rank, TT_COST_MESSAGES, sim->costs->message[between]);
        spend(sim, rank, TT_COST_BYTES, sim->costs->byte[between] * bytes);
        tell(sim, rank, slice, first + i, clock_of(sim, rank));
    }
    return true;
}

static void work(
    struct tt_simulation *sim, int rank, const struct tt_simulated_slice *slice, const struct tt_step *step)
{
    uint64_t bytes = bytes_of(sim, step->dst_chunk, step->nchunks, slice->index);
    if (bytes > 0 && step->verb == TT_VERB_REDUCE)
        spend(sim, rank, TT_COST_FOLDS, tt_costs_fold(sim->costs, 2, bytes));
    else if (bytes > 0)
        spend(sim, rank, TT_COST_COPIES, sim->costs->copy * bytes);
}

/* True if the unit is done. */
static bool advance(
    struct tt_simulation *sim, int rank, struct tt_simulated_slice *slice, struct tt_active *unit)
{
    const struct tt_step *step = &sim->ranks[rank].s->steps[unit->step];
    sim->step = unit->step;
    sim->slice = slice->index;
    switch (step->verb) {
    case TT_VERB_SEND:
        return advance_send(sim, rank, slice, unit);
    case TT_VERB_RECV:
    case TT_VERB_RECV_REDUCE:
        return advance_receive(sim, rank, slice, unit->step);
    default:
        work(sim, rank, slice, step);
        return true;
    }
}

/* --- Passes over the ready lists */

static void start_slice(const struct tt_simulated_rank *r, struct tt_simulated_slice *slice, uint32_t index)
{
    slice->index = index;
    tt_ready_start(&r->order, &slice->ready);
}

static void end_slice(struct tt_simulation *sim, int rank, struct tt_simulated_slice *slice)
{
    struct tt_simulated_rank *r = &sim->ranks[rank];
    if (--r->slices_left == 0) {
        r->end = clock_of(sim, rank);
        sim->running--;
    } else if (slice->index + TT_WINDOW < sim->params->slices)
        start_slice(r, slice, slice->index + TT_WINDOW);
}

static void pass(struct tt_simulation *sim, int rank)
{
    struct tt_simulated_rank *r = &sim->ranks[rank];
    sim->moved = false;
    for (int i = 0; i < TT_WINDOW; i++) {
        struct tt_simulated_slice *slice = &r->slices[i];
        for (uint32_t at = 0; at < slice->ready.nactive;) {
            if (!advance(sim, rank, slice, &slice->ready.active[at])) {
                at++;
                continue;
            }
            sim->moved = true;
            tt_ready_retire(&r->order, &slice->ready, at);
            if (slice->ready.left == 0)
                end_slice(sim, rank, slice);
        }
    }
}

static void drive(struct tt_simulation *sim, int rank)
{
    do
        pass(sim, rank);
    while (sim->moved && clock_of(sim, rank) == sim->now);
    if (clock_of(sim, rank) > sim->now)
        wake(sim, rank, clock_of(sim, rank));
}

static void deliver(struct tt_simulation *sim, const struct tt_simulated_slice *slice, uint32_t first)
{
    const struct tt_simulated_rank *r = &sim->ranks[0];
    for (uint32_t k = first; k < first + r->s->steps[first].fold_count; k++)
        push(sim, (struct tt_simulated_event){ .time = sim->now + delay(sim, 0, r->s->steps[k].peer),
                      .step = k,
                      .window = slice->index % TT_WINDOW,
                      .count = slice->index / TT_WINDOW + 1,
                      .work = r->last_work });
}

/* One rank alone: no peer is simulated, so if no event is pending, what comes next by the schedule, and from
 * that peer, is delivered after one latency, as if all peers were on time. What comes later waits for its
 * turn, as what it is answered by would. */
static bool unstick(struct tt_simulation *sim)
{
    struct tt_simulated_rank *r = &sim->ranks[0];
    bool alone = sim->representative && sim->params->classes == NULL;
    uint32_t next = TT_NO_STEP;
    for (int i = 0; i < TT_WINDOW && alone; i++)
        for (uint32_t at = 0; at < r->slices[i].ready.nactive; at++)
            if (r->slices[i].ready.active[at].step < next)
                next = r->slices[i].ready.active[at].step;
    for (int i = 0; i < TT_WINDOW && next != TT_NO_STEP; i++)
        for (uint32_t at = 0; at < r->slices[i].ready.nactive; at++) {
            uint32_t step = r->slices[i].ready.active[at].step;
            if (r->s->steps[step].peer == r->s->steps[next].peer)
                deliver(sim, &r->slices[i], step);
        }
    return next != TT_NO_STEP;
}

static void run(struct tt_simulation *sim)
{
    for (int r = 0; r < sim->params->ranks; r++)
        wake(sim, r, 0);
    while (!sim->failed && sim->running > 0 && (sim->events.count > 0 || unstick(sim))) {
        struct tt_simulated_event e;
        tt_heap_pop(&sim->events, &e, sizeof e);
        sim->now = e.time;
        sim->news = e.work;
        if (sim->now > sim->params->limit)
            return;
        if (e.step == TT_NO_STEP) {
            sim->ranks[e.rank].called = false;
        } else {
            uint32_t *count = &sim->ranks[e.rank].slices[e.window].heard[e.step];
            *count = e.count > *count ? e.count : *count;
        }
        if (core_of(sim, e.rank)->free > sim->now)
            wake(sim, e.rank, core_of(sim, e.rank)->free);
        else
            drive(sim, e.rank);
    }
}

/* --- All of it */

static tutti_status conclude(struct tt_simulation *sim)
{
    const struct tt_simulated_rank *last = &sim->ranks[0];
    for (int r = 0; r < sim->params->ranks && !sim->failed; r++) {
        if (sim->ranks[r].slices_left > 0 && sim->now <= sim->params->limit)
            return tt_fail(TUTTI_INTERNAL_ERROR, "the predicted time of %s: rank %d of %d does not end",
                sim->ranks[r].s->algorithm, r, sim->params->query->requirements.n);
        last = sim->ranks[r].end > last->end ? &sim->ranks[r] : last;
    }
    if (sim->failed)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to predict the time of an algorithm on %d ranks",
            sim->params->query->requirements.n);
    sim->result->total = sim->running > 0 ? UINT64_MAX : last->end;
    sim->result->rank = last->s->key.me;
    memcpy(sim->result->parts, last->parts, sizeof last->parts);
    return TUTTI_OK;
}

tutti_status tt_cost_simulate(const struct tt_simulation_params *params, struct tt_simulation_result *result)
{
    struct tt_simulation sim = { .params = params, .costs = params->query->costs, .result = result };
    sim.representative = params->ranks < params->query->requirements.n;
    *result = (struct tt_simulation_result){ 0 };
    tutti_status status = tt_simulation_open(&sim, params);
    if (status != TUTTI_OK)
        return status;
    for (int r = 0; r < params->ranks; r++) {
        struct tt_simulated_rank *rank = &sim.ranks[r];
        rank->slices_left = rank->order.units > 0 ? params->slices : 0;
        sim.running += rank->order.units > 0;
        for (uint32_t i = 0; i < TT_WINDOW && i < rank->slices_left; i++)
            start_slice(rank, &rank->slices[i], i);
    }
    run(&sim);
    status = conclude(&sim);
    free(sim.events.events);
    free(sim.memory);
    return status;
}
