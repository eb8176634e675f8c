/* SPDX-License-Identifier: BSD-3-Clause */
/* sim_link.c: the transport of the simulator: slots, paths, parts.
 *
 * Each call does at once what a real transport would do with memory, and makes the events by which the
 * other side will notice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "transports/sim/sim_world.h"

enum { INLINE_BYTES = 48, PARTS_MAX = 4, POISON = 0xdb };

static void wrong(struct tt_sim *sim, const char *what, int rank, int peer, uint64_t number)
{
    if (sim->error[0] == '\0')
        snprintf(sim->error, sizeof sim->error, "rank %d, peer %d, message %llu: %s", rank, peer,
            (unsigned long long)number, what);
}

static struct tt_sim_endpoint *endpoint_of(struct tt_endpoint *e)
{
    return (struct tt_sim_endpoint *)e;
}

static struct tt_sim_end *end_of(struct tt_link *link)
{
    return (struct tt_sim_end *)(void *)link;
}

/* What goes to the peer of this link, or comes from it. */
static struct tt_sim_channel *channel_of(struct tt_link *link, bool sends)
{
    const struct tt_sim_end *end = end_of(link);
    struct tt_sim *sim = end->mine->sim;
    int me = end->mine->head.me, src = sends ? me : link->peer, dst = sends ? link->peer : me;
    struct tt_sim_channel **place = tt_sim_channel_place(sim, end->class, src, dst);
    if (*place == NULL)
        *place = calloc(1, sizeof **place + (size_t)sim->params.slots * sizeof(struct tt_sim_letter));
    if (*place == NULL)
        abort();
    return *place;
}

static const struct tt_link_ops link_ops;

/* Gives the endpoint its ends of the links. */
static tutti_status make_ends(struct tt_sim_endpoint *mine)
{
    size_t n = (size_t)mine->head.n * TT_CLASSES;
    tt_sim_free_ends(mine);
    mine->ends = calloc(n, sizeof *mine->ends);
    mine->head.links = calloc(n, sizeof *mine->head.links);
    if (mine->ends == NULL || mine->head.links == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "sim: no memory for the links of %d ranks", mine->head.n);
    for (size_t i = 0; i < n; i++) {
        mine->ends[i].head = (struct tt_link){ &link_ops, &mine->head, (int32_t)(i % (size_t)mine->head.n) };
        mine->ends[i].class = (uint8_t)(i / (size_t)mine->head.n);
        mine->ends[i].mine = mine;
        mine->head.links[i] = &mine->ends[i].head;
    }
    return TUTTI_OK;
}

static const struct tt_control_ops control_ops;

static tutti_status sim_open(
    const struct tt_endpoint_params *params, uint8_t *address, struct tt_endpoint **endpoint)
{
    struct tt_sim *world = tt_sim_joined();
    if (world == NULL || params->n != world->params.n || params->me < 0 || params->me >= params->n)
        return tt_fail(TUTTI_INVALID_USAGE, "sim: rank %d of %d has no world to join", params->me, params->n);
    struct tt_sim_endpoint *e = &world->ranks[params->me];
    e->head = (struct tt_endpoint){ .transport = &tt_sim_transport,
        .control = &control_ops,
        .n = params->n,
        .me = params->me,
        .slot_bytes = params->slot_bytes,
        .ended = &e->ended,
        .local_aborts = &e->local_aborts,
        .seen = &e->local_aborts,
        .inside = &e->inside };
    e->sim = world;
    e->completed = params->first_number;
    e->params = *params;
    memset(address, 0, TT_ADDRESS_BYTES);
    memcpy(address, &params->me, sizeof params->me);
    *endpoint = &e->head;
    return make_ends(e);
}

static tutti_status sim_connect(struct tt_endpoint *e, const uint8_t *addresses)
{
    for (int r = 0; r < e->n; r++) {
        int rank;
        memcpy(&rank, addresses + (size_t)r * TT_ADDRESS_BYTES, sizeof rank);
        if (rank != r)
            return tt_fail(TUTTI_SYSTEM_ERROR, "sim: address %d is not that of rank %d", r, r);
    }
    return TUTTI_OK;
}

static void sim_close(struct tt_endpoint *e)
{
    struct tt_sim_endpoint *mine = endpoint_of(e);
    if (mine->state == TT_PEER_ALIVE)
        mine->state = TT_PEER_LEFT;
}

static enum tt_path choose_path(const struct tt_sim_endpoint *e, uint64_t bytes)
{
    const struct tt_costs *costs = e->sim->params.costs;
    if (costs != NULL)
        return bytes <= tt_costs_eager(costs, e->head.n) ? TT_PATH_COPIED : TT_PATH_MAPPED;
    enum tt_path choices[TT_PATHS] = { TT_PATH_COPIED };
    unsigned count = 1;
    if (bytes <= INLINE_BYTES)
        choices[count++] = TT_PATH_INLINE;
    if (e->params.map)
        choices[count++] = TT_PATH_MAPPED;
    return choices[tt_sim_below(e->sim, count)];
}

static void take_copy(struct tt_sim_letter *letter)
{
    if (letter->room < letter->bytes) {
        free(letter->copy);
        letter->copy = malloc(letter->bytes);
        letter->room = letter->bytes;
        if (letter->copy == NULL)
            abort();
    }
    uint64_t element = letter->source.layout->element_bytes, run;
    for (uint64_t at = 0; at < letter->bytes; at += run) {
        const void *from = (const void *)tt_view_run(&letter->source, at / element, &run);
        run = run * element < letter->bytes - at ? run * element : letter->bytes - at;
        memcpy(letter->copy + at, from, run);
    }
    letter->packed = true;
    letter->base = (uintptr_t)letter->copy;
}

/* When the parts of a message arrive. */
static void dispatch(
    struct tt_sim *sim, struct tt_sim_channel *channel, const struct tt_message *m, struct tt_sim_event e)
{
    const struct tt_sim_params *p = &sim->params;
    uint64_t element = m->source.layout->element_bytes, elements = m->bytes / element, done = 0;
    bool whole = m->bytes <= INLINE_BYTES || !tt_sim_chance(sim, p->split_percent);
    int parts = whole ? 1 : 2 + (int)tt_sim_below(sim, PARTS_MAX - 1);
    e.time = sim->now + 1 + p->delay_ns + m->bytes * p->kib_ns / 1024 + tt_sim_below(sim, p->jitter_ns);
    if (p->costs != NULL) {
        e.available = m->bytes;
        tt_sim_post(sim, e);
        return;
    }
    if (e.time <= channel->last_arrival && !tt_sim_chance(sim, p->reorder_percent))
        e.time = channel->last_arrival + 1;
    for (int part = 0; part < parts && done < elements; part++) {
        done = part == parts - 1 ? elements : done + 1 + tt_sim_below(sim, elements - done);
        e.available = done * element;
        tt_sim_push(sim, e);
        channel->last_arrival = e.time > channel->last_arrival ? e.time : channel->last_arrival;
        e.time += 1 + tt_sim_below(sim, p->delay_ns + p->jitter_ns);
    }
}

/* --- Grants: the bytes that are put there are there at once, whenever the message arrives. */

static bool sim_grant(
    struct tt_link *link, uint64_t number, uint32_t signature, const struct tt_view *place, uint64_t after)
{
    struct tt_sim_endpoint *mine = end_of(link)->mine;
    struct tt_sim *sim = mine->sim;
    struct tt_sim_grant *grant = &channel_of(link, false)->grants[number % (uint64_t)sim->params.slots];
    if (after != 0)
        return false;
    if (grant->number == number + 1)
        wrong(sim, "granted twice", mine->head.me, link->peer, number);
    if (tt_view_count(place) == 0 || !mine->params.map || grant->number != 0 ||
        !tt_sim_chance(sim, sim->params.grant_percent))
        return false;
    uint64_t run, element = place->layout->element_bytes;
    *grant = (struct tt_sim_grant){ .number = number + 1,
        .bytes = tt_view_count(place) * element,
        .signature = signature,
        .base = tt_view_run(place, 0, &run),
        .place = *place };
    grant->packed = run * element >= grant->bytes;
    grant->visible = sim->now + tt_sim_below(sim, sim->params.delay_ns + sim->params.jitter_ns);
    sim->counts.grants++;
    return true;
}

static bool find_grant(struct tt_link *link, const struct tt_message *m, bool readable, struct tt_view *place)
{
    struct tt_sim *sim = end_of(link)->mine->sim;
    const struct tt_sim_channel *channel = channel_of(link, true);
    const struct tt_sim_grant *grant = &channel->grants[m->number % (uint64_t)sim->params.slots];
    if (channel->replies[m->number % (uint64_t)sim->params.slots].number == m->number + 1 ||
        grant->number != m->number + 1 || grant->bytes != m->bytes || grant->signature != m->signature)
        return false;
    if (grant->visible > sim->now) {
        sim->counts.late_grants++;
        return false;
    }
    if (!readable && tt_sim_chance(sim, 50))
        return false;
    *place = (struct tt_view){ m->source.layout, grant->place.space, grant->place.chunk, m->source.nchunks,
        m->source.slice };
    return !grant->packed || tt_view_pack(&m->source, grant->base, place);
}

/* Where the message lies that the unit reads: only of what was copied, which nobody else has. */
static bool find_reply(struct tt_link *link, const struct tt_message *m, struct tt_view *place)
{
    const struct tt_sim_end *end = end_of(link);
    struct tt_sim *sim = end->mine->sim;
    struct tt_sim_reply *reply = &channel_of(link, true)->replies[m->number % (uint64_t)sim->params.slots];
    struct tt_sim_letter *read =
        m->reads == 0 ? NULL
                      : tt_sim_letter_at(sim, end->class, link->peer, end->mine->head.me, m->reads - 1);
    bool begun = reply->number == m->number + 1;
    if (read == NULL || read->number != m->reads - 1 || read->state != TT_SIM_POSTED ||
        read->path != TT_PATH_COPIED || read->bytes != m->bytes ||
        (!begun && !tt_sim_chance(sim, sim->params.grant_percent)) ||
        !tt_view_pack(&m->source, read->base, place))
        return false;
    reply->number = m->number + 1;
    read->reply = reply;
    sim->counts.replies += !begun;
    return true;
}

static enum tt_target sim_target(
    struct tt_link *link, const struct tt_message *m, unsigned flags, struct tt_view *place)
{
    if (find_grant(link, m, (flags & TT_UNLESS_READABLE) == 0, place))
        return TT_TARGET_GRANTED;
    return (flags & TT_ALLOW_REPLY) != 0 && find_reply(link, m, place) ? TT_TARGET_REPLY : TT_TARGET_NONE;
}

static void end_grant(struct tt_sim *sim, struct tt_sim_channel *channel, uint64_t number)
{
    struct tt_sim_grant *grant = &channel->grants[number % (uint64_t)sim->params.slots];
    if (grant->number == number + 1)
        grant->number = 0;
}

static enum tt_path path_of(struct tt_link *link, const struct tt_message *m)
{
    struct tt_sim_endpoint *mine = end_of(link)->mine;
    const struct tt_sim_channel *channel = channel_of(link, true);
    uint64_t slot = m->number % (uint64_t)mine->sim->params.slots;
    if (!m->placed)
        return choose_path(mine, m->bytes);
    if (channel->replies[slot].number == m->number + 1)
        return TT_PATH_COPIED;
    if (channel->grants[slot].number != m->number + 1)
        wrong(mine->sim, "placed, though nobody granted it", mine->head.me, link->peer, m->number);
    return TT_PATH_PLACED;
}

/* What is sent lies where it was read, if that was released. */
static bool deliver_reply(struct tt_sim_letter *letter, struct tt_sim_reply *reply)
{
    bool released = reply->copy != NULL;
    if (released) {
        free(letter->copy);
        letter->copy = reply->copy;
        letter->room = reply->room;
        letter->base = (uintptr_t)letter->copy;
        letter->packed = true;
    }
    *reply = (struct tt_sim_reply){ 0 };
    return released;
}

static bool sim_send(struct tt_link *link, const struct tt_message *m)
{
    const struct tt_sim_end *end = end_of(link);
    struct tt_sim_endpoint *mine = end->mine;
    struct tt_endpoint *e = &mine->head;
    struct tt_sim *sim = mine->sim;
    struct tt_sim_channel *channel = channel_of(link, true);
    struct tt_sim_letter *letter = &channel->letters[m->number % (uint64_t)sim->params.slots];
    if (m->bytes == 0 || m->bytes > e->slot_bytes)
        wrong(sim, "sent with no bytes, or more than a slot has", e->me, link->peer, m->number);
    if (letter->state != TT_SIM_FREE) {
        sim->counts.full_slots++;
        return false;
    }
    if (letter->bytes > 0 && letter->number == m->number)
        wrong(sim, "sent twice", e->me, link->peer, m->number);
    uint64_t run;
    *letter = (struct tt_sim_letter){ .number = m->number,
        .bytes = m->bytes,
        .signature = m->signature,
        .state = TT_SIM_POSTED,
        .path = (uint8_t)path_of(link, m),
        .base = tt_view_run(&m->source, 0, &run),
        .source = m->source,
        .single_reader = m->single_reader,
        .copy = letter->copy,
        .room = letter->room };
    letter->packed = run * m->source.layout->element_bytes == m->bytes;
    struct tt_sim_reply *reply = &channel->replies[m->number % (uint64_t)sim->params.slots];
    bool stored = reply->number == m->number + 1;
    if (stored && !deliver_reply(letter, reply))
        wrong(sim, "sent before what lay there was released", e->me, link->peer, m->number);
    if (!stored && (letter->path == TT_PATH_INLINE || letter->path == TT_PATH_COPIED))
        take_copy(letter);
    if (letter->path == TT_PATH_PLACED)
        letter->base = 0;
    sim->counts.messages++;
    sim->counts.bytes += m->bytes;
    sim->counts.paths[letter->path]++;
    e->path_bytes[letter->path] += m->bytes;
    const struct tt_costs *costs = sim->params.costs;
    if (costs != NULL && m->bytes <= tt_costs_eager(costs, e->n))
        tt_sim_work(sim, e->me, m->bytes * costs->copy);
    struct tt_sim_event event = { .time = sim->now,
        .what = TT_SIM_POST,
        .class = end->class,
        .src = e->me,
        .dst = link->peer,
        .number = m->number,
        .available = (uint64_t)letter->path << 56 | m->bytes };
    tt_sim_trace(sim, &event);
    event.what = TT_SIM_ARRIVAL;
    dispatch(sim, channel, m, event);
    return true;
}

static bool sim_sent(struct tt_link *link, uint64_t number)
{
    const struct tt_sim_end *end = end_of(link);
    struct tt_sim *sim = end->mine->sim;
    int me = end->mine->head.me;
    const struct tt_sim_letter *letter = tt_sim_letter_at(sim, end->class, me, link->peer, number);
    if (letter == NULL) {
        wrong(sim, "asked for before it was sent", me, link->peer, number);
        return false;
    }
    if (letter->number != number || letter->state == TT_SIM_FREE || letter->path != TT_PATH_MAPPED)
        return true;
    sim->counts.late_acks += letter->state == TT_SIM_RELEASED;
    return false;
}

static bool sim_arrived(
    struct tt_link *link, uint64_t number, const struct tt_view *like, struct tt_arrival *arrival)
{
    const struct tt_sim_end *end = end_of(link);
    struct tt_sim *sim = end->mine->sim;
    struct tt_sim_letter *letter = tt_sim_letter_at(sim, end->class, link->peer, end->mine->head.me, number);
    if (letter == NULL || letter->state != TT_SIM_POSTED || letter->number != number ||
        letter->available == 0)
        return false;
    if (letter->available < letter->bytes && !letter->seen_in_part) {
        letter->seen_in_part = true;
        sim->counts.splits++;
    }
    *arrival = (struct tt_arrival){ .path = letter->path,
        .packed = letter->packed,
        .signature = letter->signature,
        .bytes = letter->bytes,
        .available = letter->available,
        .base = letter->base,
        .view = { like->layout, letter->source.space, letter->source.chunk, like->nchunks, like->slice } };
    return true;
}

/* What the sender writes again is its reader's to spoil: all of it, where shm leaves a byte in each line. */
static void spoil(const struct tt_sim_letter *letter)
{
    uint64_t element = letter->source.layout->element_bytes, run;
    for (uint64_t at = 0; at < letter->bytes; at += run * element) {
        void *place = (void *)tt_view_run(&letter->source, at / element, &run);
        memset(place, POISON, run * element);
    }
}

static void release_reply(struct tt_sim_letter *letter)
{
    letter->reply->copy = letter->copy;
    letter->reply->room = letter->room;
    letter->reply = NULL;
    letter->copy = NULL;
    letter->room = 0;
}

static void sim_release(struct tt_link *link, uint64_t number)
{
    const struct tt_sim_end *end = end_of(link);
    const struct tt_endpoint *e = &end->mine->head;
    struct tt_sim *sim = end->mine->sim;
    int peer = link->peer;
    struct tt_sim_letter *letter = tt_sim_letter_at(sim, end->class, peer, e->me, number);
    if (letter == NULL || letter->state != TT_SIM_POSTED || letter->number != number ||
        letter->available < letter->bytes) {
        wrong(sim, "released before all of it had come, or twice", e->me, peer, number);
        return;
    }
    letter->state = TT_SIM_RELEASED;
    end_grant(sim, channel_of(link, false), number);
    if (letter->single_reader && letter->path == TT_PATH_MAPPED)
        spoil(letter);
    if (letter->reply != NULL)
        release_reply(letter);
    else if (letter->copy != NULL)
        memset(letter->copy, POISON, letter->room);
    uint64_t time = sim->now + 1 + sim->params.delay_ns / 2 + tt_sim_below(sim, sim->params.jitter_ns);
    const struct tt_costs *costs = sim->params.costs;
    if (costs != NULL) {
        enum tt_level level = tt_sim_level(sim, e->me, peer);
        if (level != TT_AWAY) /* which was read when it came */
            tt_sim_read(sim, e->me, level, letter->bytes);
        time = tt_sim_seen(sim, e->me, peer);
    }
    tt_sim_push(sim, (struct tt_sim_event){ .time = time,
                         .what = TT_SIM_RETURN,
                         .class = end->class,
                         .src = peer,
                         .dst = e->me,
                         .number = number });
}

static void sim_publish(struct tt_endpoint *e, const struct tt_call_record *call, uint64_t sequence)
{
    struct tt_sim_endpoint *mine = endpoint_of(e);
    struct tt_sim *sim = mine->sim;
    struct tt_call_record *kept = &mine->calls[sequence % TT_CALLS_KEPT];
    if (sequence == TT_WAIT) /* nobody waits: the test's driver sees who is stuck */
        return;
    if (call == NULL) {
        mine->completed = sequence + 1;
        return;
    }
    *kept = *call;
    atomic_store(&kept->sequence, sequence + 1);
    bool ahead = false;
    for (int r = 0; r < e->n; r++)
        ahead |= sim->ranks[r].completed < sequence;
    sim->counts.ranks_ahead += ahead;
}

static bool sim_call_of(struct tt_endpoint *e, int peer, uint64_t sequence, struct tt_call_record *call)
{
    const struct tt_call_record *kept = &endpoint_of(e)->sim->ranks[peer].calls[sequence % TT_CALLS_KEPT];
    if (sequence == TT_WAIT || atomic_load(&kept->sequence) != sequence + 1)
        return false;
    *call = *kept;
    return true;
}

static uint64_t sim_completed_by(struct tt_endpoint *e, int peer)
{
    return endpoint_of(e)->sim->ranks[peer].completed;
}

static enum tt_peer_state sim_peer_state(struct tt_endpoint *e, int peer, struct tt_peer_place *place)
{
    *place = (struct tt_peer_place){ 0 };
    return endpoint_of(e)->sim->ranks[peer].state;
}

static bool sim_abort(struct tt_endpoint *e, const struct tt_cause *cause)
{
    struct tt_sim *sim = endpoint_of(e)->sim;
    if (sim->aborted)
        return false;
    sim->aborted = true;
    sim->cause = *cause;
    for (int r = 0; r < e->n; r++)
        tt_sim_push(
            sim, (struct tt_sim_event){ .time = sim->now + 1, .what = TT_SIM_WAKE, .src = r, .dst = r });
    return true;
}

static bool sim_cause(struct tt_endpoint *e, struct tt_cause *cause)
{
    const struct tt_sim *sim = endpoint_of(e)->sim;
    if (sim->aborted)
        *cause = sim->cause;
    return sim->aborted;
}

/* One thread drives all ranks: nobody reads or stores while another returns. */
static bool sim_quiet(struct tt_endpoint *head, bool patient)
{
    (void)head;
    (void)patient;
    return true;
}

static const struct tt_link_ops link_ops = {
    .send = sim_send,
    .sent = sim_sent,
    .arrived = sim_arrived,
    .release = sim_release,
    .grant = sim_grant,
    .target = sim_target,
};

static const struct tt_control_ops control_ops = {
    .publish = sim_publish,
    .call_of = sim_call_of,
    .completed_by = sim_completed_by,
    .peer_state = sim_peer_state,
    .abort = sim_abort,
    .cause = sim_cause,
    .quiet = sim_quiet,
};

const struct tt_transport tt_sim_transport = {
    .name = "sim",
    .address_bytes = TT_ADDRESS_BYTES,
    .open = sim_open,
    .connect = sim_connect,
    .close = sim_close,
};
