/* SPDX-License-Identifier: BSD-3-Clause */
/* simulate.c: schedules in virtual time, by the rules of the executor (lib/exec/exec.c), without a byte.
 *
 * What happens are messages that can be seen, by who receives them or, once they were read, by who sent
 * them; and ranks that go on. A rank that is named makes passes over what it may do, as the executor does,
 * and each piece of work moves the clock of its core on. Then it goes on at that time, and sees what came
 * meanwhile. */
#include "select/simulate.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/ready.h"
#include "base/status.h"

enum { NOBODY = -1, NO_WORK = -1, NEAR_RECEIVES = 4 };

struct slice {
    uint32_t index;
    struct tt_ready_list ready;
    uint32_t *heard; /* of each step with a message: how many of this window's slices came, or were read */
};

struct rank {
    const struct tt_schedule *s;
    struct tt_ready_order order;
    uint32_t slices_left;
    uint32_t *mate; /* the step at the other end of a message */
    struct slice slices[TT_WINDOW];
    bool called; /* an event is under way that lets it go on */
    int64_t last_work; /* of the log */
    uint64_t end, parts[TT_COST_PARTS];
};

struct core {
    uint64_t free;
    int last; /* rank that ran here */
};

struct event { /* a rank goes on; before that, if there is a step, its message of this window is heard */
    uint64_t time, order;
    int rank;
    uint32_t step, window, count;
    int64_t work; /* of the log: what it comes from */
};
TT_HEAP_HOLDS(struct event);

struct simulation {
    const struct tt_simulation_params *params;
    const struct tt_costs *costs;
    bool representative; /* of all, or of a class */
    uint64_t share; /* of a representative: how many share its core ... */
    uint64_t round; /* ... and the time until each of them has run there */
    struct rank *ranks;
    struct core *cores;
    int ncores;
    uint64_t *links; /* of each host two, out and in: until when it is taken; NULL: none is shared */
    uint64_t now;
    int running; /* ranks that have not ended */
    struct tt_heap events;
    bool moved, failed; /* failed: no memory */
    uint32_t step, slice; /* what a rank tries, for the log */
    int64_t news; /* of the log: what the message comes from that lets a rank go on */
    struct tt_simulation_result *result;
    void *memory;
};

/* --- Events */

static void push(struct simulation *sim, struct event event)
{
    if (!tt_heap_push(&sim->events, &event, sizeof event))
        sim->failed = true;
}

static struct core *core_of(struct simulation *sim, int rank)
{
    return &sim->cores[rank % sim->ncores];
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t clock_of(struct simulation *sim, int rank)
{
    return later(core_of(sim, rank)->free, sim->now);
}

/* If another call comes first, it finds the core busy, and calls again. */
static void wake(struct simulation *sim, int rank, uint64_t time)
{
    if (sim->ranks[rank].called)
        return;
    sim->ranks[rank].called = true;
    push(sim, (struct event){ .time = time, .rank = rank, .step = TT_NO_STEP, .work = NO_WORK });
}

/* Writes work into the log, and why it began then: a rank that did something else until then had that to do,
 * one that waited got news. */
static void note(struct simulation *sim, int rank, enum tt_cost_part part, uint64_t from, uint64_t to)
{
    struct tt_simulation_log *log = sim->params->query->log;
    struct rank *r = &sim->ranks[rank];
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
    bool waited = r->last_work == NO_WORK || log->work[r->last_work].to < from;
    log->work[log->count] = (struct tt_work){ .rank = r->s->key.me,
        .step = sim->step,
        .slice = sim->slice,
        .part = part,
        .from = from,
        .to = to,
        .cause = waited && sim->news != NO_WORK ? sim->news : r->last_work };
    r->last_work = (int64_t)log->count++;
}

/* A context switch begins when the core has nothing to do: its rank lets the next one go on, whether that has
 * work or not. */
static void spend(struct simulation *sim, int rank, enum tt_cost_part part, uint64_t time)
{
    struct core *core = core_of(sim, rank);
    uint64_t *parts = sim->ranks[rank].parts, from = clock_of(sim, rank);
    if (core->last != rank && core->last != NOBODY) {
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
static enum tt_level level(const struct simulation *sim, int rank, int peer)
{
    return tt_cost_level(sim->params->query, sim->ranks[rank].s->key.me, peer);
}

/* Returns who is simulated for this peer of a rank. */
static int stand_in(const struct simulation *sim, int rank, int peer)
{
    if (sim->params->classes != NULL)
        return sim->params->classes->class_of[peer];
    return sim->representative ? rank : peer;
}

static uint64_t bytes_of(const struct simulation *sim, uint32_t chunk, uint32_t nchunks, uint32_t slice)
{
    const struct tt_layout *l = sim->params->layout;
    uint64_t count = 0;
    for (uint32_t i = 0; i < nchunks; i++)
        count += tt_layout_part(l, (chunk + i) % l->chunks, slice).count;
    return count * l->element_bytes;
}

/* From a message's post to when the other end sees it. The ranks that a representative
 * stands for do the same as it, one after the other. */
static uint64_t delay(const struct simulation *sim, int rank, int peer)
{
    return tt_costs_latency(sim->costs, level(sim, rank, peer), sim->params->query->requirements.n) +
           sim->round;
}

/* Returns how many ranks a simulated one stands for on its host. */
static uint64_t alike(const struct simulation *sim, int rank)
{
    return sim->params->classes != NULL ? sim->params->classes->on_host[rank] : sim->params->sharers;
}

/* Returns when a message has passed the links of both hosts, if it is to another one. Who is simulated for
 * others takes as much of its host's link as all of these. */
static uint64_t pass_links(struct simulation *sim, int rank, int peer, uint64_t bytes)
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
static void tell(struct simulation *sim, int rank, const struct slice *slice, uint32_t step, uint64_t time)
{
    const struct rank *r = &sim->ranks[rank];
    int peer = r->s->steps[step].peer;
    if (r->mate[step] == TT_NO_STEP)
        return;
    push(sim, (struct event){ .time = time + delay(sim, rank, peer),
                  .rank = stand_in(sim, rank, peer),
                  .step = r->mate[step],
                  .window = slice->index % TT_WINDOW,
                  .count = slice->index / TT_WINDOW + 1,
                  .work = r->last_work });
}

static bool heard(const struct slice *slice, uint32_t step)
{
    return slice->heard[step] > slice->index / TT_WINDOW;
}

static bool advance_send(struct simulation *sim, int rank, struct slice *slice, struct tt_active *unit)
{
    const struct rank *r = &sim->ranks[rank];
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

static bool advance_receive(struct simulation *sim, int rank, struct slice *slice, uint32_t first)
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

static void work(struct simulation *sim, int rank, const struct slice *slice, const struct tt_step *step)
{
    uint64_t bytes = bytes_of(sim, step->dst_chunk, step->nchunks, slice->index);
    if (bytes > 0 && step->verb == TT_VERB_REDUCE)
        spend(sim, rank, TT_COST_FOLDS, tt_costs_fold(sim->costs, 2, bytes));
    else if (bytes > 0)
        spend(sim, rank, TT_COST_COPIES, sim->costs->copy * bytes);
}

/* True if the unit is done. */
static bool advance(struct simulation *sim, int rank, struct slice *slice, struct tt_active *unit)
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

static void start_slice(const struct rank *r, struct slice *slice, uint32_t index)
{
    slice->index = index;
    tt_ready_start(&r->order, &slice->ready);
}

static void end_slice(struct simulation *sim, int rank, struct slice *slice)
{
    struct rank *r = &sim->ranks[rank];
    if (--r->slices_left == 0) {
        r->end = clock_of(sim, rank);
        sim->running--;
    } else if (slice->index + TT_WINDOW < sim->params->slices)
        start_slice(r, slice, slice->index + TT_WINDOW);
}

static void pass(struct simulation *sim, int rank)
{
    struct rank *r = &sim->ranks[rank];
    sim->moved = false;
    for (int i = 0; i < TT_WINDOW; i++) {
        struct slice *slice = &r->slices[i];
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

static void drive(struct simulation *sim, int rank)
{
    do
        pass(sim, rank);
    while (sim->moved && clock_of(sim, rank) == sim->now);
    if (clock_of(sim, rank) > sim->now)
        wake(sim, rank, clock_of(sim, rank));
}

static void deliver(struct simulation *sim, const struct slice *slice, uint32_t first)
{
    const struct rank *r = &sim->ranks[0];
    for (uint32_t k = first; k < first + r->s->steps[first].fold_count; k++)
        push(sim, (struct event){ .time = sim->now + delay(sim, 0, r->s->steps[k].peer),
                      .step = k,
                      .window = slice->index % TT_WINDOW,
                      .count = slice->index / TT_WINDOW + 1,
                      .work = r->last_work });
}

/* One rank alone: no peer is simulated, so if no event is pending, what comes next by the schedule, and from
 * that peer, is delivered after one latency, as if all peers were on time. What comes later waits for its
 * turn, as what it is answered by would. */
static bool unstick(struct simulation *sim)
{
    struct rank *r = &sim->ranks[0];
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

static void run(struct simulation *sim)
{
    for (int r = 0; r < sim->params->ranks; r++)
        wake(sim, r, 0);
    while (!sim->failed && sim->running > 0 && (sim->events.count > 0 || unstick(sim))) {
        struct event e;
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

/* --- Before it begins */

/* Finds where both ends of each message stand: `places` has room for two words of each, by sender, receiver
 * and ordinal. */
static void find_mates(struct simulation *sim, uint32_t *first, uint32_t *places)
{
    int n = sim->params->ranks;
    uint32_t count = 0;
    for (int from = 0; from < n; from++)
        for (int to = 0; to < n; to++) {
            first[from * n + to] = count;
            count += sim->ranks[from].s->sends[to];
        }
    for (int round = 0; round < 2; round++)
        for (int r = 0; r < n; r++)
            for (uint32_t i = 0; i < sim->ranks[r].s->nsteps; i++) {
                const struct tt_step *step = &sim->ranks[r].s->steps[i];
                uint32_t sends = step->verb == TT_VERB_SEND;
                if (step->peer == TT_NONE)
                    continue;
                uint32_t pair = sends ? first[r * n + step->peer] : first[step->peer * n + r];
                uint32_t *place = &places[2 * (pair + step->ordinal)];
                if (round == 0)
                    place[sends] = i;
                else
                    sim->ranks[r].mate[i] = place[!sends];
            }
}

static void take_mates(struct simulation *sim)
{
    for (int c = 0; c < sim->params->ranks; c++)
        for (uint32_t i = 0; i < sim->ranks[c].s->nsteps; i++)
            if (sim->ranks[c].s->steps[i].peer != TT_NONE)
                sim->ranks[c].mate[i] = sim->params->classes->mates[c][i];
}

/* Returns the next receive from this step on that is paired with no send, or nsteps. */
static uint32_t next_receive(const struct rank *r, uint32_t step)
{
    const struct tt_schedule *s = r->s;
    while (step < s->nsteps && (s->steps[step].peer == TT_NONE || s->steps[step].verb == TT_VERB_SEND ||
                                   r->mate[step] != TT_NO_STEP))
        step++;
    return step;
}

/* One rank alone: pairs each send with the receive that a peer's equal send answers: one of as many chunks,
 * which is not far. Where there is none, as where a range wraps at one end only, the receive waits until
 * nothing else happens. */
static void mirror(struct rank *r)
{
    const struct tt_schedule *s = r->s;
    uint32_t first = 0;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        if (s->steps[i].verb != TT_VERB_SEND)
            continue;
        first = next_receive(r, first);
        uint32_t recv = first;
        for (int tries = 0; tries < NEAR_RECEIVES && recv < s->nsteps; tries++) {
            if (s->steps[recv].nchunks == s->steps[i].nchunks)
                break;
            recv = next_receive(r, recv + 1);
        }
        if (recv == s->nsteps || s->steps[recv].nchunks != s->steps[i].nchunks)
            continue;
        r->mate[i] = recv;
        r->mate[recv] = i;
    }
}

static uint32_t *cut(uint32_t **words, size_t count)
{
    uint32_t *piece = *words;
    *words += count;
    return piece;
}

static void open_rank(struct rank *r, struct tt_active **units, uint32_t **words)
{
    size_t steps = (size_t)r->s->nsteps + 1;
    for (int i = 0; i < TT_WINDOW; i++) {
        r->slices[i].ready.active = *units;
        r->slices[i].ready.waiting = cut(words, steps);
        r->slices[i].heard = cut(words, steps);
        *units += steps;
    }
    r->order.opening = cut(words, steps);
    r->order.next_in_slot = cut(words, steps);
    r->mate = cut(words, steps);
    memset(r->mate, 0xff, steps * sizeof *r->mate);
    r->last_work = NO_WORK;
}

static tutti_status open_simulation(struct simulation *sim, const struct tt_simulation_params *params)
{
    int n = params->query->requirements.n;
    size_t steps = 0, ranks = (size_t)params->ranks, messages = 0, pairs = 0;
    for (int r = 0; r < params->ranks; r++)
        steps += (size_t)params->schedules[r].nsteps + 1;
    if (params->classes == NULL) {
        messages = steps;
        pairs = ranks * ranks;
    }
    sim->ncores = sim->representative || sim->costs->cores > (uint64_t)params->ranks ? params->ranks
                                                                                     : (int)sim->costs->cores;
    sim->share = 1;
    if (sim->representative)
        sim->share = ((uint64_t)n + sim->costs->cores - 1) / sim->costs->cores;
    sim->round = sim->share > 1 ? sim->share * sim->costs->context_switch : 0;
    const struct tt_topology *t = params->query->requirements.topology;
    size_t links = t != NULL && sim->costs->link > 0 && sim->costs->hosts > 1 ? 2 * (size_t)t->domains : 0;
    size_t words = steps * (2 * TT_WINDOW + 3) + 2 * (size_t)n * TT_SLOTS_AHEAD + pairs + 2 * messages;
    sim->memory = calloc(1, ranks * (sizeof *sim->ranks + sizeof *sim->cores) + links * sizeof *sim->links +
                                steps * TT_WINDOW * sizeof(struct tt_active) + words * sizeof(uint32_t));
    if (sim->memory == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to predict the time of an algorithm on %d ranks", n);
    sim->ranks = sim->memory;
    sim->cores = (struct core *)(void *)(sim->ranks + ranks);
    uint64_t *after_cores = (uint64_t *)(void *)(sim->cores + ranks);
    sim->links = links > 0 ? after_cores : NULL;
    struct tt_active *units = (struct tt_active *)(void *)(after_cores + links);
    uint32_t *word = (uint32_t *)(void *)(units + steps * TT_WINDOW);
    uint32_t *recent = cut(&word, 2 * (size_t)n * TT_SLOTS_AHEAD);
    for (int r = 0; r < params->ranks; r++) {
        sim->ranks[r].s = &params->schedules[r];
        sim->cores[r] = (struct core){ sim->round, NOBODY };
        open_rank(&sim->ranks[r], &units, &word);
        tt_ready_order(&sim->ranks[r].order, &params->schedules[r], recent);
    }
    if (params->classes != NULL) {
        take_mates(sim);
    } else if (sim->representative) {
        mirror(&sim->ranks[0]);
    } else {
        uint32_t *first = cut(&word, ranks * ranks);
        find_mates(sim, first, word);
    }
    return TUTTI_OK;
}

static tutti_status conclude(struct simulation *sim)
{
    const struct rank *last = &sim->ranks[0];
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
    struct simulation sim = { .params = params, .costs = params->query->costs, .result = result };
    sim.representative = params->ranks < params->query->requirements.n;
    *result = (struct tt_simulation_result){ 0 };
    tutti_status status = open_simulation(&sim, params);
    if (status != TUTTI_OK)
        return status;
    for (int r = 0; r < params->ranks; r++) {
        struct rank *rank = &sim.ranks[r];
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
