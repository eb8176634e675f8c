/* SPDX-License-Identifier: BSD-3-Clause */
/* sim.c: the simulated world: what happens, in which order, and to whom.
 *
 * Chance is drawn in the order of calls and events only. Memory is allocated freely: this is for tests. */
#include "transports/sim/sim_world.h"

#include <stdlib.h>

#include "base/status.h"

static struct tt_sim *joined;

uint64_t tt_sim_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t tt_sim_below(struct tt_sim *sim, uint64_t limit)
{
    return limit == 0 ? 0 : tt_sim_random(&sim->random) % limit;
}

bool tt_sim_chance(struct tt_sim *sim, unsigned percent)
{
    return tt_sim_below(sim, 100) < percent;
}

void tt_sim_trace(struct tt_sim *sim, const struct tt_sim_event *e)
{
    const uint64_t words[] = { e->time, (uint64_t)e->what << 8 | e->class,
        (uint64_t)(uint32_t)e->src << 32 | (uint32_t)e->dst, e->number, e->available };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        sim->hash = (sim->hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
        sim->hash ^= sim->hash >> 32;
    }
}

void tt_sim_push(struct tt_sim *sim, struct tt_sim_event event)
{
    if (!tt_heap_push(&sim->events, &event, sizeof event))
        abort();
}

struct tt_sim_channel **tt_sim_channel_place(const struct tt_sim *sim, unsigned class, int src, int dst)
{
    size_t n = (size_t)sim->params.n;
    return &sim->channels[(class * n + (size_t)src) * n + (size_t)dst];
}

struct tt_sim_letter *tt_sim_letter_at(
    const struct tt_sim *sim, unsigned class, int src, int dst, uint64_t number)
{
    struct tt_sim_channel *channel = *tt_sim_channel_place(sim, class, src, dst);
    return channel == NULL ? NULL : &channel->letters[number % (uint64_t)sim->params.slots];
}

void tt_sim_pause(struct tt_sim *sim, int rank)
{
    uint64_t until = sim->now + 1 + tt_sim_below(sim, sim->params.freeze_ns);
    sim->ranks[rank].frozen_until = until;
    sim->ranks[rank].began = until;
    tt_sim_push(sim, (struct tt_sim_event){ .time = until, .what = TT_SIM_WAKE, .src = rank, .dst = rank });
}

static struct tt_sim_core *core_of(const struct tt_sim *sim, int rank)
{
    return &sim->cores[rank % sim->ncores];
}

uint64_t tt_sim_clock(const struct tt_sim *sim, int rank)
{
    uint64_t free = core_of(sim, rank)->free;
    return free > sim->now ? free : sim->now;
}

void tt_sim_work(struct tt_sim *sim, int rank, uint64_t time)
{
    struct tt_sim_core *core = core_of(sim, rank);
    uint64_t from = tt_sim_clock(sim, rank), switched = core->free + sim->params.costs->context_switch;
    if (core->last != rank && core->last != TT_NONE && switched > from) /* it began when the core was free */
        from = switched;
    core->free = from + time;
    core->last = rank;
}

void tt_sim_spend(struct tt_sim *sim, int rank, uint64_t time)
{
    sim->ranks[rank].began = tt_sim_clock(sim, rank);
    tt_sim_work(sim, rank, time);
}

enum tt_level tt_sim_level(const struct tt_sim *sim, int rank, int peer)
{
    const int *domain = sim->params.domain;
    return tt_costs_level(sim->params.costs, domain == NULL || domain[rank] == domain[peer]);
}

void tt_sim_read(struct tt_sim *sim, int rank, enum tt_level level, uint64_t bytes)
{
    const struct tt_costs *costs = sim->params.costs;
    tt_sim_work(sim, rank, costs->message[level]);
    tt_sim_work(sim, rank, tt_costs_product(costs->byte[level], bytes));
}

uint64_t tt_sim_seen(const struct tt_sim *sim, int src, int dst)
{
    return tt_sim_clock(sim, src) +
           tt_costs_latency(sim->params.costs, tt_sim_level(sim, src, dst), sim->params.n);
}

/* --- With costs: messages to and from other hosts */

static void keep_parcel(struct tt_sim_parcels *list, const struct tt_sim_event *event, uint64_t since)
{
    struct tt_sim_parcel *parcel = malloc(sizeof *parcel);
    if (parcel == NULL)
        abort();
    *parcel = (struct tt_sim_parcel){ *event, since, NULL };
    if (list->first == NULL)
        list->first = parcel;
    else
        list->last->next = parcel;
    list->last = parcel;
}

static struct tt_sim_event take_parcel(struct tt_sim_parcels *list)
{
    struct tt_sim_parcel *parcel = list->first;
    struct tt_sim_event event = parcel->event;
    list->first = parcel->next;
    free(parcel);
    return event;
}

void tt_sim_post(struct tt_sim *sim, struct tt_sim_event message)
{
    struct tt_sim_endpoint *r = &sim->ranks[message.src];
    if (tt_sim_level(sim, message.src, message.dst) == TT_AWAY) {
        keep_parcel(&r->out, &message, r->began);
        return;
    }
    tt_sim_work(sim, message.src, sim->params.costs->message[tt_sim_level(sim, message.src, message.dst)]);
    message.time = tt_sim_seen(sim, message.src, message.dst);
    tt_sim_push(sim, message);
}

/* True if the first message to another host may leave: those before it have. If not, the rank is named when
 * it may. */
static bool may_leave(struct tt_sim *sim, int rank)
{
    struct tt_sim_endpoint *r = &sim->ranks[rank];
    if (r->out.first == NULL || r->way_out <= sim->now)
        return r->out.first != NULL;
    if (!r->way_is_awaited)
        tt_sim_push(sim, (struct tt_sim_event){
                             .time = r->way_out, .what = TT_SIM_WAY_IS_FREE, .src = rank, .dst = rank });
    r->way_is_awaited = true;
    return false;
}

static void write_parcel(struct tt_sim *sim, int rank, struct tt_sim_event message)
{
    const struct tt_costs *costs = sim->params.costs;
    sim->ranks[rank].way_out = sim->now + tt_costs_gap(costs, message.available);
    tt_sim_work(sim, rank, costs->message[TT_AWAY]);
    message.time = tt_sim_seen(sim, rank, message.dst);
    if (costs->link > 0) {
        message.time = tt_sim_clock(sim, rank);
        message.what = TT_SIM_LINK_OUT;
    }
    tt_sim_push(sim, message);
}

/* What goes to other hosts, and what came from there, is written and read in turn, when the rank has nothing
 * else to do. False if there is nothing that it can do. */
static bool serve_network(struct tt_sim *sim, int rank)
{
    struct tt_sim_endpoint *r = &sim->ranks[rank];
    bool leaves = may_leave(sim, rank), came = r->in.first != NULL;
    if (!leaves && !came)
        return false;
    if (leaves && came)
        leaves = r->out.first->since < r->in.first->since;
    struct tt_sim_event message = take_parcel(leaves ? &r->out : &r->in);
    r->began = sim->now;
    if (leaves) {
        write_parcel(sim, rank, message);
    } else {
        tt_sim_read(sim, rank, TT_AWAY, message.available);
        tt_sim_letter_at(sim, message.class, message.src, rank, message.number)->available =
            message.available;
    }
    return true;
}

/* A message has come to a link, and goes on once it is its turn there. */
static void pass_link(struct tt_sim *sim, struct tt_sim_event message)
{
    const struct tt_costs *costs = sim->params.costs;
    const int *host = sim->params.domain;
    bool out = message.what == TT_SIM_LINK_OUT;
    uint64_t *link = &sim->links[2 * host[out ? message.src : message.dst] + !out];
    uint64_t bytes = message.available;
    message.time = tt_costs_take(link, message.time, tt_costs_on_link(costs, bytes, 1)) +
                   (out ? tt_costs_latency(costs, TT_AWAY, sim->params.n) : tt_costs_lag(costs, bytes, 1));
    message.what = out ? TT_SIM_LINK_IN : TT_SIM_ARRIVAL;
    tt_sim_push(sim, message);
}

/* --- What happens */

/* If another call comes first, it finds the core busy, and calls again. */
static void wake_at(struct tt_sim *sim, int rank, uint64_t time)
{
    if (sim->ranks[rank].called)
        return;
    sim->ranks[rank].called = true;
    tt_sim_push(sim, (struct tt_sim_event){ .time = time, .what = TT_SIM_WAKE, .src = rank, .dst = rank });
}

/* True if the rank's core has other work; it is named again when that is done. */
static bool busy(struct tt_sim *sim, int rank)
{
    if (sim->params.costs == NULL)
        return false;
    sim->named = rank;
    if (core_of(sim, rank)->free <= sim->now)
        return false;
    sim->named = TT_NONE;
    wake_at(sim, rank, core_of(sim, rank)->free);
    return true;
}

bool tt_sim_frozen(const struct tt_sim *sim, int rank)
{
    return sim->ranks[rank].frozen_until != 0;
}

tutti_status tt_sim_create(const struct tt_sim_params *params, struct tt_sim **sim)
{
    size_t n = (size_t)params->n;
    struct tt_sim *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->channels = calloc(TT_CLASSES * n * n, sizeof(struct tt_sim_channel *));
        s->ranks = calloc(n, sizeof *s->ranks);
        s->cores = calloc(n, sizeof *s->cores);
        s->links = calloc(2 * n, sizeof *s->links);
    }
    if (s == NULL || s->channels == NULL || s->ranks == NULL || s->cores == NULL || s->links == NULL) {
        if (s != NULL) {
            free(s->channels);
            free(s->ranks);
            free(s->cores);
            free(s->links);
        }
        free(s);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a world of %d ranks", params->n);
    }
    s->params = *params;
    s->random = params->seed;
    if (s->params.slots == 0)
        s->params.slots = TT_SLOTS;
    s->mail_dies = tt_sim_chance(s, 50);
    s->named = TT_NONE;
    s->ncores = params->costs != NULL && params->costs->cores < n ? (int)params->costs->cores : params->n;
    for (int c = 0; c < s->ncores; c++)
        s->cores[c].last = TT_NONE;
    for (int r = 0; r < params->n; r++)
        tt_sim_pause(s, r);
    *sim = s;
    return TUTTI_OK;
}

static void free_channel(struct tt_sim_channel *channel, int slots)
{
    for (int i = 0; channel != NULL && i < slots; i++)
        free(channel->letters[i].copy);
    for (int i = 0; channel != NULL && i < TT_SLOTS; i++)
        free(channel->replies[i].copy);
    free(channel);
}

void tt_sim_free_ends(struct tt_sim_endpoint *e)
{
    while (e->out.first != NULL)
        take_parcel(&e->out);
    while (e->in.first != NULL)
        take_parcel(&e->in);
    free(e->ends);
    free(e->head.links);
}

void tt_sim_destroy(struct tt_sim *sim)
{
    size_t n = (size_t)sim->params.n;
    for (size_t i = 0; i < TT_CLASSES * n * n; i++)
        free_channel(sim->channels[i], sim->params.slots);
    for (size_t r = 0; r < n; r++)
        tt_sim_free_ends(&sim->ranks[r]);
    if (joined == sim)
        joined = NULL;
    free(sim->channels);
    free(sim->ranks);
    free(sim->cores);
    free(sim->links);
    free(sim->events.events);
    free(sim);
}

void tt_sim_join(struct tt_sim *sim)
{
    joined = sim;
}

struct tt_sim *tt_sim_joined(void)
{
    return joined;
}

/* What the event changes; returns the rank that may go on, or TT_NONE. */
static int apply(struct tt_sim *sim, const struct tt_sim_event *e)
{
    struct tt_sim_letter *letter = NULL;
    if (e->what == TT_SIM_WAKE) {
        sim->ranks[e->dst].called = false;
        if (sim->ranks[e->dst].frozen_until <= sim->now)
            sim->ranks[e->dst].frozen_until = 0;
        return e->dst;
    }
    if (e->what == TT_SIM_WAY_IS_FREE) {
        sim->ranks[e->dst].way_is_awaited = false;
        return e->dst;
    }
    if (e->what == TT_SIM_LINK_OUT || e->what == TT_SIM_LINK_IN) {
        pass_link(sim, *e);
        return TT_NONE;
    }
    letter = tt_sim_letter_at(sim, e->class, e->src, e->dst, e->number);
    if (e->what == TT_SIM_RETURN) {
        letter->state = TT_SIM_FREE;
        return e->src;
    }
    if (sim->mail_dies && sim->ranks[e->src].state == TT_PEER_DEAD)
        return TT_NONE;
    struct tt_sim_channel *channel = *tt_sim_channel_place(sim, e->class, e->src, e->dst);
    if (letter->available == 0) {
        sim->counts.out_of_order += e->number + 1 < channel->highest;
        channel->highest = e->number + 1 > channel->highest ? e->number + 1 : channel->highest;
    }
    const struct tt_costs *costs = sim->params.costs;
    if (costs != NULL && tt_sim_level(sim, e->dst, e->src) == TT_AWAY)
        keep_parcel(&sim->ranks[e->dst].in, e,
            e->time - tt_costs_latency(costs, TT_AWAY, sim->params.n) - costs->message[TT_AWAY]);
    else
        letter->available = e->available;
    return e->dst;
}

bool tt_sim_step(struct tt_sim *sim, int *rank)
{
    const struct tt_sim_params *p = &sim->params;
    int named = sim->named;
    if (named != TT_NONE && tt_sim_clock(sim, named) == sim->now && serve_network(sim, named) &&
        tt_sim_clock(sim, named) == sim->now) {
        *rank = named;
        return true;
    }
    if (named != TT_NONE && tt_sim_clock(sim, named) > sim->now)
        wake_at(sim, named, tt_sim_clock(sim, named));
    sim->named = TT_NONE;
    while (sim->events.count > 0) {
        struct tt_sim_event e;
        tt_heap_pop(&sim->events, &e, sizeof e);
        if (++sim->counts.events == p->death_event) {
            sim->ranks[p->death_rank].state = TT_PEER_DEAD;
            sim->counts.deaths++;
        }
        sim->now = e.time;
        tt_sim_trace(sim, &e);
        int who = apply(sim, &e);
        if (who == TT_NONE || sim->ranks[who].state == TT_PEER_DEAD || tt_sim_frozen(sim, who))
            continue;
        if (e.what != TT_SIM_WAKE && tt_sim_chance(sim, p->freeze_percent)) {
            sim->counts.freezes++;
            tt_sim_pause(sim, who);
            continue;
        }
        if (busy(sim, who))
            continue;
        *rank = who;
        return true;
    }
    return false;
}

const struct tt_sim_counts *tt_sim_counts(const struct tt_sim *sim)
{
    return &sim->counts;
}

uint64_t tt_sim_hash(const struct tt_sim *sim)
{
    return sim->hash;
}

const char *tt_sim_error(const struct tt_sim *sim)
{
    return sim->error;
}

uint64_t tt_sim_occupied(const struct tt_sim *sim)
{
    size_t n = (size_t)sim->params.n;
    uint64_t occupied = 0;
    for (size_t i = 0; i < TT_CLASSES * n * n; i++)
        for (int slot = 0; sim->channels[i] != NULL && slot < sim->params.slots; slot++)
            occupied += sim->channels[i]->letters[slot].state != TT_SIM_FREE;
    return occupied;
}
