/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.c: measures the network between hosts, by the links that calls will take.
 *
 * The first rank of each host, its leader, measures the way to the next host's, and the last one that to the
 * first: so each host sends once and receives once, and the time does not grow with the hosts. Pairs that
 * have no host in common measure at the same time, the others one after the other:
 *
 *     hosts   0 -> 1   2 -> 3   4      then  1 -> 2   3 -> 4      then, where their number is odd, 4 -> 0
 *
 * The one says how many bytes it sends, and sends them; the other one answers when it has them all. The least
 * time of none is the round trip; what more a burst takes is what the link takes for it. A busy machine can
 * only make both longer. So the tries go on until one is as short as those of the best class, or several
 * agree, as they do where nothing disturbs them; and end after a fifth of a second, for there are long ways
 * and slow links. Both ends sleep while they wait: on a busy machine who sleeps is soon run when something
 * comes, and who has used up its time by looking for it is not.
 *
 * What is known of two hosts is known to the process from then on: no other communicator measures them. */
#include "comm/probe.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "bootstrap/init_progress.h"
#include "run/run.h"

enum {
    BURST_FIRST = 64 << 10,
    BURST_LEAST = 256 << 10,
    BURST_MOST = 1 << 20,
    BURST_NS = 4 * 1000000,
    ALIKE = 3, /* tries that agree */
    FAST_TRIES = 8, /* of a link so fast that they need not */
    LIMIT_NS = 200 * 1000000, /* of the trips, and of the bursts */
    SIGNATURE = 0x70726f62,
};
#define OVER UINT64_MAX /* in place of bytes: it is all */

struct tt_probed tt_probed;

/* In the communicator's TMP, which lasts as long as its endpoint: whatever fails, what is under way may be
 * read from here. */
struct memory {
    struct tt_layout word, block;
    uint64_t said;
    uint8_t bytes[];
};

struct pair { /* this rank, and the leader of another host */
    struct tt_comm *comm;
    struct tt_link *link;
    int peer;
    struct memory *memory;
    int64_t until_ns;
    bool waiting;
    struct tt_wait wait;
};

/* --- Messages */

static tutti_status look(const struct pair *p)
{
    struct tt_endpoint *e = p->comm->endpoint;
    struct tt_peer_place place;
    tutti_status status = tt_comm_check(p->comm);
    tt_init_progress_look();
    if (status == TUTTI_OK && e->control->peer_state(e, p->peer, &place) != TT_PEER_ALIVE)
        status = tt_fail(TUTTI_PEER_LOST,
            "%s: rank %d ended, or cannot be reached, as rank %d and it measured the network between them",
            p->comm->identity.name, p->peer, p->comm->rank);
    if (status == TUTTI_OK && tt_now_ns() >= p->until_ns)
        status = tt_fail(TUTTI_TIMEOUT,
            "%s: rank %d waits for rank %d, with which it measures the network between their hosts",
            p->comm->identity.name, p->comm->rank, p->peer);
    if (status != TUTTI_OK) /* which ends the wait, with nobody to ring for it */
        tt_doorbell_ring_always(e->doorbell);
    return status;
}

static tutti_status idle(struct pair *p)
{
    struct tt_endpoint *e = p->comm->endpoint;
    if (!p->waiting) {
        tt_wait_begin(&p->wait, (struct tt_wait_policy){ 0 }, &e->doorbell, 1);
        if (e->park != NULL)
            tt_wait_park_by(&p->wait, e->park, e);
        p->waiting = true;
    }
    return tt_wait_idle(&p->wait) ? look(p) : TUTTI_OK;
}

static void awake(struct pair *p)
{
    if (p->waiting)
        tt_wait_awake(&p->wait);
    p->waiting = false;
}

static struct tt_view view_of(const struct tt_layout *layout, const void *bytes)
{
    return (struct tt_view){ .layout = layout, .space = { .base = (uintptr_t)bytes }, .nchunks = 1 };
}

static tutti_status send(struct pair *p, const struct tt_layout *layout, const void *bytes)
{
    struct tt_message message = { .signature = SIGNATURE,
        .number = p->comm->numbers.next_send[TT_CLASS_COLLECTIVE][p->peer]++,
        .bytes = layout->count,
        .source = view_of(layout, bytes) };
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK && !p->link->ops->send(p->link, &message))
        status = idle(p);
    awake(p);
    return status;
}

/* `word` NULL: what comes is not looked at. */
static tutti_status receive(struct pair *p, const struct tt_layout *layout, uint64_t *word)
{
    uint64_t number = p->comm->numbers.next_recv[TT_CLASS_COLLECTIVE][p->peer]++, run;
    struct tt_view like = view_of(layout, p->memory->bytes);
    struct tt_arrival arrival = { 0 };
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK &&
           !(p->link->ops->arrived(p->link, number, &like, &arrival) && arrival.available == arrival.bytes))
        status = idle(p);
    awake(p);
    if (status == TUTTI_OK && (arrival.bytes != layout->count || arrival.signature != SIGNATURE))
        status = tt_fail(TUTTI_MISMATCH, "%s: rank %d does not measure the network as rank %d does",
            p->comm->identity.name, p->peer, p->comm->rank);
    if (status == TUTTI_OK && word != NULL)
        memcpy(word, (const void *)tt_arrival_run(&arrival, 0, &run), sizeof *word);
    if (status == TUTTI_OK)
        p->link->ops->release(p->link, number);
    return status;
}

static tutti_status say(struct pair *p, uint64_t word)
{
    p->memory->said = word;
    return send(p, &p->memory->word, &p->memory->said);
}

/* Lays out the messages of a burst; returns how many there are. */
static uint64_t cut(struct pair *p, uint64_t bytes)
{
    uint64_t slot = p->comm->endpoint->slot_bytes, count = (bytes + slot - 1) / slot;
    tt_layout_even(&p->memory->block, count > 0 ? bytes / count : 0, 1, 1, 1);
    return count;
}

/* --- One end */

/* Returns in *ns how long it takes until the other end has so many bytes, and this one knows. */
static tutti_status ask(struct pair *p, uint64_t bytes, int64_t *ns)
{
    int64_t began = tt_now_ns();
    uint64_t count = bytes != OVER ? cut(p, bytes) : 0, answer;
    tutti_status status = say(p, bytes);
    for (uint64_t i = 0; i < count && status == TUTTI_OK; i++)
        status = send(p, &p->memory->block, p->memory->bytes);
    if (status == TUTTI_OK)
        status = receive(p, &p->memory->word, &answer);
    *ns = tt_now_ns() - began;
    return status;
}

/* The least time of some tries, and how many took about as long: if several did, nothing disturbed them. */
struct tries {
    int64_t best;
    int count, alike;
};

static void take_try(struct tries *t, int64_t ns)
{
    bool better = t->count == 0 || ns < t->best;
    bool alike = t->count > 0 && (better ? t->best - ns : ns - t->best) <= t->best / 5;
    t->best = better ? ns : t->best;
    t->alike = alike ? t->alike + 1 : better ? 1 : t->alike;
    t->count++;
}

/* The first try makes the connection, and counts only if it is fast all the same. */
static tutti_status measure_trip(struct pair *p, int64_t *trip)
{
    struct tries tries = { 0 };
    int64_t ns, until_ns = tt_now_ns() + LIMIT_NS;
    tutti_status status = ask(p, 0, trip);
    while (status == TUTTI_OK && *trip > tt_link_longest_ns(TT_TRIP_LAN) && tries.alike < ALIKE &&
           (tries.count < 2 || tt_now_ns() < until_ns)) {
        status = ask(p, 0, &ns);
        take_try(&tries, ns);
        *trip = ns < *trip ? ns : *trip;
    }
    return status;
}

/* Finds how long a burst must be to keep the link busy for a while, by when what it lets pass at once has
 * passed. */
static tutti_status grow(struct pair *p, int64_t until_ns, uint64_t *bytes)
{
    int64_t ns = 0;
    tutti_status status = TUTTI_OK;
    for (*bytes = BURST_FIRST; status == TUTTI_OK && *bytes < BURST_MOST; *bytes *= 2) {
        status = ask(p, *bytes, &ns);
        if (tt_now_ns() >= until_ns || (*bytes >= BURST_LEAST && ns >= BURST_NS))
            break;
    }
    return status;
}

static tutti_status measure_rate(struct pair *p, int64_t trip, double *bits_s)
{
    struct tries tries = { 0 };
    uint64_t bytes;
    int64_t ns, until_ns = tt_now_ns() + LIMIT_NS;
    tutti_status status = grow(p, until_ns, &bytes);
    bool enough = false;
    while (status == TUTTI_OK && !enough) {
        status = ask(p, bytes, &ns);
        if (ns > trip)
            take_try(&tries, ns - trip);
        *bits_s = tries.count > 0 ? 8e9 * (double)bytes / (double)tries.best : 0;
        bool fast = *bits_s >= tt_link_least_bits_s(TT_RATE_10G);
        enough = tt_now_ns() >= until_ns || (fast ? tries.count >= FAST_TRIES : tries.alike >= ALIKE) ||
                 *bits_s >= tt_link_least_bits_s(TT_RATE_100G);
    }
    return status;
}

static tutti_status measure(struct pair *p, uint32_t *link)
{
    double bits_s = 0;
    int64_t trip = 0, ns;
    tutti_status status = measure_trip(p, &trip);
    if (status == TUTTI_OK && trip <= tt_link_longest_ns(TT_TRIP_WAN))
        status = measure_rate(p, trip, &bits_s);
    if (status == TUTTI_OK)
        status = ask(p, OVER, &ns);
    if (status != TUTTI_OK)
        return status;
    atomic_fetch_add(&tt_probed.links, 1);
    *link = 1 + tt_link_number(tt_link_classify(bits_s, trip));
    tt_log(TT_LOG_INFO, "%s: from rank %d to rank %d: a round trip of %.0f us, %.2f Gbit/s",
        p->comm->identity.name, p->comm->rank, p->peer, 1e-3 * (double)trip, 1e-9 * bits_s);
    return TUTTI_OK;
}

/* --- The other end */

static tutti_status answer(struct pair *p)
{
    uint64_t asked = 0;
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK && asked != OVER) {
        status = receive(p, &p->memory->word, &asked);
        if (status == TUTTI_OK && asked != OVER && asked > BURST_MOST)
            status = tt_fail(TUTTI_MISMATCH, "%s: rank %d measures the network with more bytes than rank %d",
                p->comm->identity.name, p->peer, p->comm->rank);
        uint64_t count = status == TUTTI_OK && asked != OVER ? cut(p, asked) : 0;
        for (uint64_t i = 0; i < count && status == TUTTI_OK; i++)
            status = receive(p, &p->memory->block, NULL);
        if (status == TUTTI_OK)
            status = say(p, asked);
    }
    return status;
}

/* --- Hosts */

/* Lists the first rank of each host; returns how many hosts there are. They are numbered in the order of
 * those. */
static int find_leaders(const struct tt_comm *comm, int32_t *leaders)
{
    int hosts = 0;
    for (int r = 0; r < comm->n; r++)
        if (comm->identity.host[r] == hosts)
            leaders[hosts++] = r;
    return hosts;
}

struct probe {
    struct tt_comm *comm;
    const struct tt_probe_room *room;
    int hosts, mine; /* mine: the place of this rank's host among the leaders, if it leads it; else -1 */
    int64_t until_ns;
};

/* In which turn a host measures the way to the next one. */
static int turn_of(const struct probe *p, int from)
{
    return from == p->hosts - 1 && p->hosts % 2 == 1 ? 2 : from % 2;
}

/* The way from one host to the next one, at one of which this rank is. What is sent is not the program's, and
 * does not count. */
static tutti_status run_pair(const struct probe *p, int from, uint32_t *link)
{
    struct tt_comm *comm = p->comm;
    bool asks = from == p->mine;
    int peer = p->room->leaders[asks ? (from + 1) % p->hosts : from];
    struct pair pair = { .comm = comm,
        .link = tt_link_to(comm->endpoint, TT_CLASS_COLLECTIVE, peer),
        .peer = peer,
        .memory = (struct memory *)(void *)comm->memory.tmp,
        .until_ns = p->until_ns };
    tt_init_progress_wait("the network between rank %d and rank %d is being measured", comm->rank, peer);
    uint64_t counted[TT_PATHS];
    memcpy(counted, pair.link->endpoint->path_bytes, sizeof counted);
    tutti_status status = asks ? measure(&pair, link) : answer(&pair);
    memcpy(pair.link->endpoint->path_bytes, counted, sizeof counted);
    return status;
}

/* The end of one rank is the end of all, who may wait for it in the midst of theirs. */
static tutti_status tell_failure(const struct probe *p, tutti_status status)
{
    struct tt_cause cause = { .status = status, .rank = p->comm->rank, .peer = TT_NONE, .operation = "init" };
    tt_cause_say(&cause, "%s", tt_last_error());
    return tt_comm_fail(p->comm, &cause);
}

static tutti_status run_pairs(const struct probe *p, uint32_t *link)
{
    struct tt_endpoint *e = p->comm->endpoint;
    int before = (p->mine + p->hosts - 1) % p->hosts;
    tutti_status status = tt_comm_grow_tmp(p->comm, sizeof(struct memory) + e->slot_bytes);
    if (status != TUTTI_OK)
        return tell_failure(p, status);
    struct memory *memory = (struct memory *)(void *)p->comm->memory.tmp;
    tt_layout_even(&memory->word, sizeof memory->said, 1, 1, 1);
    if (!tt_endpoint_enter(e))
        status = tt_comm_check(p->comm);
    for (int turn = 0; turn < 3; turn++) {
        if (status == TUTTI_OK && turn_of(p, p->mine) == turn && *link == 0)
            status = run_pair(p, p->mine, link);
        if (status == TUTTI_OK && turn_of(p, before) == turn && p->room->links[p->room->leaders[before]] == 0)
            status = run_pair(p, before, NULL);
    }
    tt_endpoint_leave(e);
    return status == TUTTI_OK ? TUTTI_OK : tell_failure(p, status);
}

/* --- What is known */

static uint64_t key_of(const struct probe *p, const uint64_t *keys, size_t stride, int from)
{
    const struct tt_settings *s = &p->comm->settings;
    uint64_t key = s->hosts.network << 8 | s->hosts.congestion;
    for (int end = 0; end < 2; end++) {
        int rank = p->room->leaders[(from + end) % p->hosts];
        uint64_t host;
        memcpy(&host, (const uint8_t *)keys + (size_t)rank * stride, sizeof host);
        key = tt_hash_mix(key, host);
    }
    return key;
}

static uint32_t recall(uint64_t key)
{
    uint64_t found =
        atomic_load_explicit(&tt_probed.known[key >> 8 & (TT_PROBED_MOST - 1)], memory_order_relaxed);
    return (found ^ key) >> 8 == 0 ? (uint32_t)(found & 0xff) : 0;
}

static void remember(uint64_t key, uint32_t link)
{
    atomic_store_explicit(&tt_probed.known[key >> 8 & (TT_PROBED_MOST - 1)], key >> 8 << 8 | (link & 0xff),
        memory_order_relaxed);
}

/* --- All ranks */

static void put_class(const struct tt_comm *comm)
{
    char words[96];
    tt_costs_tell_network(&comm->settings.costs, &(struct tt_text){ words, sizeof words, 0 });
    if (comm->rank == 0)
        tt_log(TT_LOG_INFO, "%s: the network between its hosts: %s", comm->identity.name, words);
}

/* Takes the worst of all links for what is between any two hosts. */
static void take_worst(const struct probe *p, const uint64_t *keys, size_t stride)
{
    struct tt_link_class worst = { TT_RATES - 1, 0 };
    struct tt_costs *costs = &p->comm->settings.costs;
    for (int from = 0; from < p->hosts; from++) {
        uint32_t link = p->room->links[p->room->leaders[from]];
        worst = tt_link_worse(worst, tt_link_of(link - 1));
        remember(key_of(p, keys, stride, from), link);
    }
    costs->network = worst;
    costs->network_from = TT_LINK_MEASURED;
    tt_link_price(worst, costs);
    put_class(p->comm);
}

static bool all_known(const struct probe *p)
{
    bool all = true;
    for (int from = 0; from < p->hosts; from++)
        all = all && p->room->links[p->room->leaders[from]] != 0;
    return all;
}

bool tt_probe_is_due(const struct tt_comm *comm)
{
    return comm->identity.host != NULL && comm->settings.costs.network_from == TT_LINK_AWAITED;
}

tutti_status tt_probe_network(struct tt_comm *comm, tutti_status status, const uint64_t *host_keys,
    size_t stride, int64_t timeout_ms, tt_exchange_fn exchange, void *context, struct tt_probe_room *room)
{
    struct probe p = { .comm = comm, .room = room, .hosts = find_leaders(comm, room->leaders), .mine = -1 };
    uint32_t link = 0;
    int host = comm->identity.host[comm->rank];
    if (host < p.hosts && room->leaders[host] == comm->rank) {
        p.mine = host;
        link = recall(key_of(&p, host_keys, stride, p.mine));
    }
    status = exchange(context, status, &link, sizeof link, room->links);
    if (status != TUTTI_OK)
        return status;
    if (!all_known(&p)) {
        p.until_ns = tt_deadline_ns(timeout_ms - timeout_ms / 8); /* before the others, who do not see whom */
        if (p.mine >= 0)
            status = run_pairs(&p, &link);
        status = exchange(context, status, &link, sizeof link, room->links);
    }
    if (status == TUTTI_OK)
        take_worst(&p, host_keys, stride);
    return status;
}
