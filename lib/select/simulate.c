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
        from = later(from, tt_costs_sum(core->free, sim->costs->context_switch));
        parts[TT_COST_SWITCHES] += sim->costs->context_switch;
    }
    core->last = rank;
    time = tt_costs_product(time, sim->share);
    core->free = tt_costs_sum(from, time);
    note(sim, rank, part, from, core->free);
    parts[part] = tt_costs_sum(parts[part], time);
}

/* --- Messages to and from other hosts, which wait for their rank to write or read them */

static void keep_parcel(struct tt_simulation *sim, struct tt_parcels *list, struct tt_parcel parcel)
{
    if (sim->parcels_free == TT_NO_PARCEL) {
        uint32_t wanted = sim->parcels_count == 0 ? 256 : 2 * sim->parcels_count;
        struct tt_parcel *bigger = realloc(sim->parcels, wanted * sizeof *bigger);
        sim->failed = sim->failed || bigger == NULL;
        if (bigger == NULL)
            return;
        sim->parcels = bigger;
        for (; sim->parcels_count < wanted; sim->parcels_free = sim->parcels_count++)
            bigger[sim->parcels_count].next = sim->parcels_free;
    }
    uint32_t place = sim->parcels_free;
    sim->parcels_free = sim->parcels[place].next;
    parcel.next = TT_NO_PARCEL;
    sim->parcels[place] = parcel;
    if (list->first == TT_NO_PARCEL)
        list->first = place;
    else
        sim->parcels[list->last].next = place;
    list->last = place;
}

static struct tt_parcel take_parcel(struct tt_simulation *sim, struct tt_parcels *list)
{
    uint32_t place = list->first;
    struct tt_parcel parcel = sim->parcels[place];
    list->first = parcel.next;
    sim->parcels[place].next = sim->parcels_free;
    sim->parcels_free = place;
    return parcel;
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

/* Returns what this send has of a slice. Blocks of an exchange are as long as those who send them say, who
 * number them by whom they are for. */
static uint64_t bytes_sent(
    const struct tt_simulation *sim, const struct tt_schedule *s, const struct tt_step *step, uint32_t slice)
{
    const struct tt_cost_query *q = sim->params->query;
    bool own = q->blocks != NULL && q->collective == TT_ALL_TO_ALL_V;
    return bytes_of(sim, own ? (uint32_t)s->key.me : step->src_chunk, step->nchunks, slice);
}

/* From a message's post to when the other end sees it. The ranks that a representative
 * stands for do the same as it, one after the other. */
static uint64_t delay_of(const struct tt_simulation *sim, enum tt_level level)
{
    return tt_costs_latency(sim->costs, level, sim->params->query->requirements.n) + sim->round;
}

static uint64_t delay(const struct tt_simulation *sim, int rank, int peer)
{
    return delay_of(sim, level(sim, rank, peer));
}

/* Returns how many ranks a simulated one stands for on its host. */
static uint64_t alike(const struct tt_simulation *sim, int rank)
{
    return sim->params->classes != NULL ? sim->params->classes->on_host[rank] : sim->params->sharers;
}

/* The other end of this step's message learns something at this time. */
static struct tt_simulated_event news_of(const struct tt_simulation *sim, int rank,
    const struct tt_simulated_slice *slice, uint32_t step, uint64_t time)
{
    const struct tt_simulated_rank *r = &sim->ranks[rank];
    return (struct tt_simulated_event){ .time = time,
        .rank = stand_in(sim, rank, r->s->steps[step].peer),
        .step = r->mate[step],
        .count = slice->index / TT_WINDOW + 1,
        .window = slice->index % TT_WINDOW,
        .work = r->last_work };
}

/* Who sent this step's message can see that it was read. */
static void acknowledge(
    struct tt_simulation *sim, int rank, const struct tt_simulated_slice *slice, uint32_t step)
{
    const struct tt_simulated_rank *r = &sim->ranks[rank];
    uint64_t time = tt_costs_sum(clock_of(sim, rank), delay(sim, rank, r->s->steps[step].peer));
    if (r->mate[step] != TT_NO_STEP)
        push(sim, news_of(sim, rank, slice, step, time));
}

/* A message leaves its rank now: to another host it goes by the links of both, if ranks share them. */
static void send_off(
    struct tt_simulation *sim, int rank, struct tt_simulated_event event, enum tt_level level)
{
    event.time = clock_of(sim, rank);
    event.work = sim->ranks[rank].last_work;
    if (level == TT_AWAY && sim->links != NULL)
        event.kind = TT_AT_LINK_OUT;
    else
        event.time = tt_costs_sum(event.time, delay_of(sim, level));
    if (event.step != TT_NO_STEP)
        push(sim, event);
}

static uint32_t slice_of(const struct tt_simulated_event *event)
{
    return (event->count - 1) * TT_WINDOW + event->window;
}

/* A message has come to a link, and goes on once it is its turn there. Who is simulated for others takes as
 * much of a link as all of these. */
static void pass_link(struct tt_simulation *sim, struct tt_simulated_event event)
{
    const int *host = sim->params->query->requirements.topology->domain;
    const struct tt_schedule *s = sim->ranks[event.rank].s;
    const struct tt_step *step = &s->steps[event.step];
    int sender = stand_in(sim, event.rank, step->peer);
    uint64_t bytes = bytes_of(sim, step->dst_chunk, step->nchunks, slice_of(&event)),
             ranks = alike(sim, sender);
    bool out = event.kind == TT_AT_LINK_OUT;
    uint64_t *link = &sim->links[2 * host[out ? sim->ranks[sender].s->key.me : s->key.me] + !out];
    event.time = tt_costs_take(link, event.time, tt_costs_on_link(sim->costs, bytes, ranks));
    event.time = tt_costs_sum(
        event.time, out ? delay(sim, event.rank, step->peer) : tt_costs_lag(sim->costs, bytes, ranks));
    event.kind = out ? TT_AT_LINK_IN : TT_GOES_ON;
    push(sim, event);
}

static void read_message(struct tt_simulation *sim, int rank, enum tt_level level, uint64_t bytes)
{
    spend(sim, rank, TT_COST_MESSAGES, sim->costs->message[level]);
    spend(sim, rank, TT_COST_BYTES, tt_costs_product(sim->costs->byte[level], bytes));
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
    uint64_t bytes = bytes_sent(sim, r->s, step, slice->index);
    if (bytes == 0)
        return true;
    bool eager = bytes <= tt_costs_eager(sim->costs, sim->params->query->requirements.n);
    enum tt_level between = level(sim, rank, step->peer);
    if (between != TT_AWAY)
        spend(sim, rank, TT_COST_MESSAGES, sim->costs->message[between]);
    if (eager)
        spend(sim, rank, TT_COST_COPIES, tt_costs_product(sim->costs->copy, bytes));
    struct tt_simulated_event event = news_of(sim, rank, slice, unit->step, 0);
    if (between != TT_AWAY)
        send_off(sim, rank, event, between);
    else
        keep_parcel(sim, &sim->ranks[rank].out,
            (struct tt_parcel){
                event, sim->ranks[rank].began, bytes, unit->step, slice->index, TT_NO_PARCEL });
    unit->posted = sim->moved = true;
    return eager;
}

static void compute(struct tt_simulation *sim, int rank, enum tt_cost_part part, uint64_t time)
{
    sim->ranks[rank].began = clock_of(sim, rank);
    spend(sim, rank, part, time);
}

static bool advance_receive(
    struct tt_simulation *sim, int rank, struct tt_simulated_slice *slice, uint32_t first)
{
    const struct tt_step *step = &sim->ranks[rank].s->steps[first];
    uint64_t bytes = bytes_of(sim, step->dst_chunk, step->nchunks, slice->index);
    if (bytes == 0)
        return true;
    for (uint32_t i = step->fold_count; i-- > 0;) /* the last is likely to come last */
        if (!heard(slice, first + i))
            return false;
    if (step->verb == TT_VERB_RECV_REDUCE)
        compute(sim, rank, TT_COST_FOLDS, tt_costs_fold(sim->costs, step->fold_count + 1U, bytes));
    for (uint32_t i = 0; i < step->fold_count; i++) {
        enum tt_level between = level(sim, rank, step[i].peer);
        if (between != TT_AWAY)
            read_message(sim, rank, between, bytes);
        acknowledge(sim, rank, slice, first + i);
    }
    return true;
}

static void work(
    struct tt_simulation *sim, int rank, const struct tt_simulated_slice *slice, const struct tt_step *step)
{
    uint64_t bytes = bytes_of(sim, step->dst_chunk, step->nchunks, slice->index);
    if (bytes > 0 && step->verb == TT_VERB_REDUCE)
        compute(sim, rank, TT_COST_FOLDS, tt_costs_fold(sim->costs, 2, bytes));
    else if (bytes > 0)
        compute(sim, rank, TT_COST_COPIES, tt_costs_product(sim->costs->copy, bytes));
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
    slice->ndue = TT_ALL_DUE;
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

/* Tries the units of a slice from a position on, and those that become ready. */
static void try_units(struct tt_simulation *sim, int rank, struct tt_simulated_slice *slice, uint32_t at)
{
    const struct tt_simulated_rank *r = &sim->ranks[rank];
    while (at < slice->ready.nactive) {
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

/* Tries the units that are due, and those that become ready, in the order of the list. Returns from where on
 * all are to be tried, if there are too many. */
static uint32_t try_due(struct tt_simulation *sim, int rank, struct tt_simulated_slice *slice)
{
    uint32_t at = 0;
    while (slice->ndue > 0 && slice->ndue <= TT_DUE) {
        at = tt_due_take(slice);
        if (at == slice->ready.nactive || !advance(sim, rank, slice, &slice->ready.active[at]))
            continue;
        sim->moved = true;
        uint32_t first = tt_ready_retire(&sim->ranks[rank].order, &slice->ready, at);
        if (at < first)
            slice->place[slice->ready.active[at].step] = at;
        tt_due_index(slice, first);
        for (uint32_t i = first; i < slice->ready.nactive; i++)
            tt_due_add(slice, slice->ready.active[i].step);
        if (slice->ready.left == 0)
            end_slice(sim, rank, slice);
    }
    return at;
}

/* A pass as the executor makes it over all that is ready. What it would find as it left it is not looked at:
 * ranks that wait for a thousand messages would look at all of them with each that comes. */
static void pass(struct tt_simulation *sim, int rank)
{
    sim->moved = false;
    for (int i = 0; i < TT_WINDOW; i++) {
        struct tt_simulated_slice *slice = &sim->ranks[rank].slices[i];
        uint32_t at = slice->ndue <= TT_DUE ? try_due(sim, rank, slice) : 0;
        if (slice->ndue <= TT_DUE)
            continue;
        try_units(sim, rank, slice, at);
        tt_due_index(slice, 0);
        slice->ndue = 0;
    }
}

static void hear(struct tt_simulation *sim, const struct tt_simulated_event *e)
{
    const struct tt_schedule *schedule = sim->ranks[e->rank].s;
    struct tt_simulated_slice *slice = &sim->ranks[e->rank].slices[e->window];
    uint32_t *count = &slice->heard[e->step];
    *count = e->count > *count ? e->count : *count;
    tt_due_add(slice, e->step - schedule->steps[e->step].fold_index);
}

/* True if the first message to another host may leave: those before it have. If not, the rank is called when
 * it may. */
static bool may_leave(struct tt_simulation *sim, int rank)
{
    struct tt_simulated_rank *r = &sim->ranks[rank];
    if (r->out.first == TT_NO_PARCEL || r->way_out <= sim->now)
        return r->out.first != TT_NO_PARCEL;
    if (!r->way_is_awaited)
        push(sim, (struct tt_simulated_event){ .time = r->way_out,
                      .rank = rank,
                      .step = TT_NO_STEP,
                      .kind = TT_WAY_IS_FREE,
                      .work = TT_NO_WORK });
    r->way_is_awaited = true;
    return false;
}

/* What goes to other hosts, and what came from there, is written and read in turn, when the rank has nothing
 * else to do. False if there is nothing that it can do. */
static bool serve_network(struct tt_simulation *sim, int rank)
{
    struct tt_simulated_rank *r = &sim->ranks[rank];
    bool leaves = may_leave(sim, rank), came = r->in.first != TT_NO_PARCEL;
    if (!leaves && !came)
        return false;
    if (leaves && came)
        leaves = sim->parcels[r->out.first].since < sim->parcels[r->in.first].since;
    struct tt_parcel parcel = take_parcel(sim, leaves ? &r->out : &r->in);
    r->began = sim->now;
    sim->step = parcel.step;
    sim->slice = parcel.slice;
    sim->news = parcel.event.work;
    if (leaves) {
        r->way_out = tt_costs_sum(sim->now, tt_costs_gap(sim->costs, parcel.bytes));
        spend(sim, rank, TT_COST_MESSAGES, sim->costs->message[TT_AWAY]);
        send_off(sim, rank, parcel.event, TT_AWAY);
    } else {
        read_message(sim, rank, TT_AWAY, parcel.bytes);
        hear(sim, &parcel.event);
    }
    return true;
}

static void drive(struct tt_simulation *sim, int rank)
{
    bool goes_on = true;
    while (goes_on) {
        pass(sim, rank);
        goes_on = clock_of(sim, rank) == sim->now && (sim->moved || serve_network(sim, rank)) &&
                  clock_of(sim, rank) == sim->now;
    }
    if (clock_of(sim, rank) > sim->now)
        wake(sim, rank, clock_of(sim, rank));
}

/* A message can be seen, or the news that it was read. What comes from another host waits until its rank
 * reads it. */
static void arrive(struct tt_simulation *sim, const struct tt_simulated_event *e)
{
    struct tt_simulated_rank *r = &sim->ranks[e->rank];
    const struct tt_step *step = &r->s->steps[e->step];
    if (step->verb == TT_VERB_SEND || level(sim, e->rank, step->peer) != TT_AWAY) {
        hear(sim, e);
        return;
    }
    uint64_t bytes = bytes_of(sim, step->dst_chunk, step->nchunks, slice_of(e));
    uint64_t way = delay(sim, e->rank, step->peer) + sim->costs->message[TT_AWAY];
    uint64_t sent = e->time > way ? e->time - way : 0; /* if it met no other message */
    keep_parcel(sim, &r->in, (struct tt_parcel){ *e, sent, bytes, e->step, slice_of(e), TT_NO_PARCEL });
}

/* Peers have sent as much as this rank has: what comes from other hosts leaves them when its way out is
 * free. */
static void deliver(struct tt_simulation *sim, const struct tt_simulated_slice *slice, uint32_t first)
{
    const struct tt_simulated_rank *r = &sim->ranks[0];
    for (uint32_t k = first; k < first + r->s->steps[first].fold_count; k++) {
        int peer = r->s->steps[k].peer;
        bool waits = r->s->steps[k].verb != TT_VERB_SEND && level(sim, 0, peer) == TT_AWAY;
        push(sim,
            (struct tt_simulated_event){
                .time = tt_costs_sum(waits ? later(sim->now, r->way_out) : sim->now, delay(sim, 0, peer)),
                .step = k,
                .window = slice->index % TT_WINDOW,
                .count = slice->index / TT_WINDOW + 1,
                .work = r->last_work });
    }
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
        if (e.kind == TT_AT_LINK_OUT || e.kind == TT_AT_LINK_IN) {
            pass_link(sim, e);
            continue;
        }
        if (e.kind == TT_WAY_IS_FREE)
            sim->ranks[e.rank].way_is_awaited = false;
        else if (e.step == TT_NO_STEP)
            sim->ranks[e.rank].called = false;
        else
            arrive(sim, &e);
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
    free(sim.parcels);
    free(sim.memory);
    return status;
}
