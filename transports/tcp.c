/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp.c: endpoints of the transport by TCP, and what their links do. Nothing here waits for a peer: an
 * endpoint is connected when it knows the addresses, and connections are made when there is something to say.
 *
 * A message of few bytes, or of several runs, is copied into its slot, and so sent at once. A longer one is
 * written from where it lies. It is read into the receiver's slot, or, if that has granted a place, there. */
#include "transports/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/clofork.h"
#include "base/config.h"
#include "base/log.h"
#include "base/schedule.h"
#include "base/status.h"

enum { ALLOWED_TEXT = 200 };
enum { POLL_NS = 400 }; /* of a read from a socket that is empty: 310 to 540 were measured */

static struct tcp_endpoint *of(struct tt_endpoint *head)
{
    return (struct tcp_endpoint *)head;
}

/* --- Endpoints */

static void free_endpoint(struct tcp_endpoint *e)
{
    tt_tcp_carrier_close(e);
    for (int r = 0; e->peers != NULL && r < e->head.n; r++) {
        tt_tcp_part(e, r);
        tt_tcp_hang_up(&e->peers[r].theirs_fd);
    }
    tt_tcp_thread_free(e);
    tt_tcp_sleep_close(e);
    if (e->listener >= 0)
        tt_clofork_close(e->listener);
    tt_tcp_server_leave(e);
    if (e->memory != NULL)
        munmap(e->memory, e->memory_bytes);
    pthread_mutex_destroy(&e->end.aborting);
    pthread_mutex_destroy(&e->driving);
    free(e->peers);
    free(e->ends);
    free(e->head.links);
    free(e->refused);
    free(e->known.ranks);
    free(e);
}

static uint64_t rooms_bytes(const struct tcp_endpoint *e) /* of a link */
{
    uint64_t slot_bytes = TCP_COPY_BYTES + TCP_FEW_BYTES;
    return 2 * (TCP_ROOMS * tt_tcp_room_bytes(&e->head) + TCP_SLOTS * slot_bytes);
}

static uint64_t talk_bytes(const struct tcp_endpoint *e) /* of all peers */
{
    return ((uint64_t)e->head.n * sizeof(struct tcp_talk) + TCP_PAGE - 1) / TCP_PAGE * TCP_PAGE;
}

/* Allocates all that an endpoint has. Huge pages would give a peer that is talked with the memory of others,
 * too: not what it has with each, then, but of long messages that is well. */
static bool allocate(struct tcp_endpoint *e)
{
    size_t n = (size_t)e->head.n;
    e->memory_bytes = talk_bytes(e) + TT_CLASSES * n * rooms_bytes(e);
    e->ends = calloc(TT_CLASSES * n, sizeof *e->ends);
    e->head.links = calloc(TT_CLASSES * n, sizeof *e->head.links);
    e->known.ranks = calloc(n, sizeof *e->known.ranks);
    e->refused = calloc(1 + 1 + 2 * n + TCP_TEXT_WORDS, sizeof *e->refused);
    void *memory = mmap(
        NULL, e->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    e->memory = memory == MAP_FAILED ? NULL : memory;
    if (e->memory != NULL)
        madvise(e->memory, talk_bytes(e), MADV_NOHUGEPAGE);
    return e->ends != NULL && e->head.links != NULL && e->known.ranks != NULL && e->refused != NULL &&
           e->memory != NULL;
}

static const struct tt_link_ops link_ops;

static void make_links(struct tcp_endpoint *e)
{
    struct tcp_talk *talks = (struct tcp_talk *)(void *)e->memory;
    for (int i = 0; i < TT_CLASSES * e->head.n; i++) {
        struct tcp_link *link = &e->ends[i];
        struct tcp_talk *talk = &talks[i % e->head.n];
        link->head = (struct tt_link){ &link_ops, &e->head, i % e->head.n };
        link->out = talk->slots[i / e->head.n][0];
        link->in = talk->slots[i / e->head.n][1];
        link->rooms = e->memory + talk_bytes(e) + (uint64_t)i * rooms_bytes(e);
        e->head.links[i] = &link->head;
    }
    for (int r = 0; r < e->head.n; r++) {
        struct tcp_peer *p = &e->peers[r];
        p->control = &talks[r].control;
        p->in.staging = talks[r].staging[0];
        p->to.staging = talks[r].staging[1];
        p->buffer = talks[r].buffer;
    }
}

static struct tcp_endpoint *new_endpoint(const struct tt_endpoint_params *params)
{
    size_t n = (size_t)params->n, bytes = (sizeof(struct tcp_endpoint) + 63) / 64 * 64;
    struct tcp_endpoint *e = aligned_alloc(64, bytes);
    if (e == NULL)
        return NULL;
    memset(e, 0, sizeof *e);
    e->params = *params;
    e->listener = -1;
    e->end.first_claimer = TT_NONE;
    pthread_mutex_init(&e->end.aborting, NULL);
    pthread_mutex_init(&e->driving, NULL);
    e->head = (struct tt_endpoint){ .transport = &tt_tcp,
        .control = &tt_tcp_control_ops,
        .n = params->n,
        .me = params->me,
        .slot_bytes = params->slot_bytes,
        .post_bytes = TCP_COPY_BYTES < params->slot_bytes ? TCP_COPY_BYTES : params->slot_bytes,
        .copy_bytes = TCP_COPY_BYTES,
        .poll_ns = POLL_NS,
        .ended = &e->end.ended,
        .local_aborts = &e->end.local_aborts,
        .seen = &e->end.seen,
        .inside = &e->inside,
        .doorbell = &e->bell };
    e->peers = calloc(n, sizeof *e->peers);
    for (size_t r = 0; e->peers != NULL && r < n; r++)
        e->peers[r].fd = e->peers[r].theirs_fd = -1;
    if (e->peers == NULL || !allocate(e)) {
        free_endpoint(e);
        return NULL;
    }
    e->head.own_bytes = e->memory_bytes;
    make_links(e);
    for (size_t r = 0; r < n; r++) {
        e->peers[r].told.call = params->first_number;
        atomic_store(&e->peers[r].completed, params->first_number);
    }
    return e;
}

static tutti_status listen_for_peers(struct tcp_endpoint *e, struct tcp_address *mine)
{
    char text[TT_NET_TEXT];
    bool found;
    *mine = (struct tcp_address){ .magic = TCP_MAGIC, .rank = e->head.me, .pid = getpid() };
    tutti_status status = tt_interface_find(&mine->net, &found);
    if (status != TUTTI_OK)
        return status;
    if (!found) /* of this host alone: there is no other */
        mine->net = (struct tt_net){ .family = TT_FAMILY_IPV4, .address = { 127, 0, 0, 1 } };
    tt_clofork_lock(); /* a child that kept a socket would hide that this rank has died */
    e->listener = tt_net_listen(&mine->net);
    tt_clofork_add(e->listener);
    tt_clofork_unlock();
    tt_net_print(&mine->net, text);
    if (e->listener < 0 || getrandom(e->token, sizeof e->token, 0) != sizeof e->token)
        return tt_fail_errno(
            TUTTI_SYSTEM_ERROR, "rank %d cannot listen at %s for ranks of other hosts", e->head.me, text);
    memcpy(mine->token, e->token, sizeof mine->token);
    mine->loopback = tt_net_loopback();
    return TUTTI_OK;
}

/* What the listener takes, connections take. */
static tutti_status choose_congestion(const struct tcp_endpoint *e)
{
    char allowed[ALLOWED_TEXT] = "unknown";
    const char *control = e->params.congestion;
    if (control == NULL || tt_net_congest(e->listener, control))
        return TUTTI_OK;
    int number = errno;
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "re");
    if (file != NULL && fgets(allowed, sizeof allowed, file) != NULL)
        allowed[strcspn(allowed, "\n")] = 0;
    if (file != NULL)
        fclose(file);
    errno = number;
    return tt_fail_errno(TUTTI_UNSUPPORTED,
        "congestion is %s, and the system of rank %d does not let it; allowed there: system, or %s", control,
        e->head.me, allowed);
}

/* Opens the carrier that the setting `network` wants. Which one serves is known when all addresses are. */
static tutti_status find_carrier(struct tcp_endpoint *e, struct tcp_address *mine)
{
    char why[TT_ERROR_TEXT];
    if (e->params.network == TT_NETWORK_TCP || tt_tcp_carrier_open(e, mine, why, sizeof why))
        return TUTTI_OK;
    if (e->params.network == TT_NETWORK_UCX)
        return tt_fail(TUTTI_UNSUPPORTED, "network is ucx, and rank %d has none: %s", e->head.me, why);
    tt_log(TT_LOG_INFO, "rank %d does not use UCX, so its communicator uses TCP: %s", e->head.me, why);
    return TUTTI_OK;
}

static tutti_status open_endpoint(
    const struct tt_endpoint_params *params, uint8_t *address, struct tt_endpoint **endpoint)
{
    struct tcp_address mine;
    if (params->n < 1 || params->me < 0 || params->me >= params->n || params->slot_bytes == 0 ||
        params->slot_bytes > UINT32_MAX)
        return tt_fail(TUTTI_INTERNAL_ERROR, "tcp: rank %d of %d with slots of %llu bytes", params->me,
            params->n, (unsigned long long)params->slot_bytes);
    struct tcp_endpoint *e = new_endpoint(params);
    if (e == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "tcp: no memory for an endpoint of %d ranks", params->n);
    tutti_status status = tt_tcp_server_join(e);
    if (status == TUTTI_OK)
        status = listen_for_peers(e, &mine);
    if (status == TUTTI_OK)
        status = choose_congestion(e);
    if (status == TUTTI_OK)
        status = find_carrier(e, &mine);
    if (status != TUTTI_OK) {
        free_endpoint(e);
        return status;
    }
    memset(address, 0, TT_ADDRESS_BYTES);
    memcpy(address, &mine, sizeof mine);
    *endpoint = &e->head;
    return TUTTI_OK;
}

/* --- Peers */

void tt_tcp_know(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    if (!atomic_load_explicit(&p->known, memory_order_relaxed) && !atomic_exchange(&p->known, true))
        atomic_store(&e->known.ranks[atomic_fetch_add(&e->known.count, 1)], 1 + rank);
}

int tt_tcp_next(const struct tcp_endpoint *e, bool all, int *at)
{
    while (*at < (all ? e->head.n : atomic_load(&e->known.count))) {
        int i = (*at)++, rank = all ? i : atomic_load(&e->known.ranks[i]) - 1;
        if (rank >= 0)
            return rank;
    }
    return TT_NONE;
}

/* An address of loopback is good for ranks of one host that play several. All ranks come to the same, and so
 * say the same. */
static tutti_status refuse_loopback(const struct tcp_endpoint *e)
{
    int other = 1; /* one that is elsewhere than rank 0 */
    while (other < e->head.n && e->peers[other].address.loopback == e->peers[0].address.loopback)
        other++;
    for (int r = 0; r < e->head.n && other < e->head.n; r++) {
        const struct tcp_address *a = &e->peers[r].address;
        char text[TT_NET_TEXT];
        if (!tt_net_is_loopback(&a->net))
            continue;
        tt_net_print_host(&a->net, text);
        return tt_fail(TUTTI_INVALID_USAGE,
            "rank %d is at %s, which is loopback and not reached by rank %d on another host; legal: "
            "TUTTI_INTERFACE of rank %d is an interface, an address or a network that the others reach; or "
            "it is not set, and an interface besides loopback is up there",
            r, text, a->loopback == e->peers[0].address.loopback ? other : 0, r);
    }
    return TUTTI_OK;
}

static tutti_status connect_endpoint(struct tt_endpoint *head, const uint8_t *addresses)
{
    struct tcp_endpoint *e = of(head);
    for (int r = 0; r < head->n; r++) {
        struct tcp_address *theirs = &e->peers[r].address;
        memcpy(theirs, addresses + (size_t)r * TT_ADDRESS_BYTES, sizeof *theirs);
        if (theirs->magic != TCP_MAGIC || theirs->rank != r)
            return tt_fail(TUTTI_MISMATCH,
                "what rank %d says is no address of this transport (tcp): use one version of Tutti on all "
                "hosts",
                r);
    }
    tutti_status status = refuse_loopback(e);
    if (status != TUTTI_OK)
        return status;
    for (int r = 0; r < head->n && e->carrier != NULL; r++)
        if (e->peers[r].address.carrier.bytes == 0) {
            tt_log(TT_LOG_WARN, "rank %d has no UCX, so all ranks use TCP", r);
            tt_tcp_carrier_close(e);
        }
    status = tt_tcp_sleep_open(e);
    if (status == TUTTI_OK)
        status = tt_tcp_thread_start(e);
    e->connected = status == TUTTI_OK;
    return status;
}

static void close_endpoint(struct tt_endpoint *head)
{
    struct tcp_endpoint *e = of(head);
    e->close_ns = tt_deadline_ns(TCP_CLOSE_MS);
    if (e->connected)
        tt_tcp_server_end(e);
    free_endpoint(e);
}

/* --- Links */

/* Returns the slot of a message from (`sends`), or to, this rank. */
static struct tcp_slot *slot_of(struct tt_link *head, uint64_t number, bool sends)
{
    struct tcp_link *link = (struct tcp_link *)(void *)head;
    bool out = sends && head->peer != head->endpoint->me;
    return out ? &link->out[number % TCP_SLOTS] : &link->in[number % TCP_SLOTS];
}

/* This rank cannot go on without the peer. */
static void await(struct tcp_peer *p)
{
    if (!atomic_load_explicit(&p->awaited, memory_order_relaxed))
        atomic_store_explicit(&p->awaited, true, memory_order_relaxed);
}

/* True if a slot has been lacking for so long that the peer is to be asked, or if the caller is about to
 * sleep. A peer that is at work tells of half of the slots by itself, soon; a question and an answer for each
 * message would take more time than the message. */
static bool lacks_long(struct tcp_endpoint *e, struct tcp_peer *p)
{
    enum { LONG_NS = 20000 };
    int64_t now = tt_now_ns();
    if (p->slots.lacking_ns == 0)
        p->slots.lacking_ns = now;
    return now - p->slots.lacking_ns >= LONG_NS || atomic_load(&e->head.doorbell->sleeping) != 0;
}

/* Returns the slot that must be free before a message of so many bytes can be sent, besides its own: of
 * another long one that has its room. NULL: there is none. */
static const struct tcp_slot *room_before(struct tt_link *link, uint64_t number, uint64_t bytes)
{
    for (uint64_t apart = TCP_ROOMS; apart < TCP_SLOTS && tt_tcp_is_long(bytes); apart += TCP_ROOMS) {
        const struct tcp_slot *other = slot_of(link, number + apart, true);
        if (tt_tcp_is_long(other->bytes) &&
            atomic_load_explicit(&other->state, memory_order_acquire) != TCP_FREE)
            return other;
    }
    return NULL;
}

/* True if the slot can be filled. Else the peer is asked, after a while, to tell of its releases. */
static bool is_free(struct tt_link *link, const struct tcp_slot *slot)
{
    struct tcp_endpoint *e = of(link->endpoint);
    struct tcp_peer *p = &e->peers[link->peer];
    int enough = TCP_ENOUGH;
    if (link->peer != e->head.me && atomic_load_explicit(&slot->state, memory_order_acquire) != TCP_FREE) {
        await(p);
        bool news = lacks_long(e, p) &&
                    atomic_load_explicit(&slot->state, memory_order_acquire) == TCP_DONE &&
                    atomic_compare_exchange_strong(&p->slots.want, &enough, TCP_WANTS);
        tt_tcp_drive(e, link->peer, news);
    }
    if (atomic_load_explicit(&slot->state, memory_order_acquire) != TCP_FREE)
        return false;
    p->slots.lacking_ns = 0;
    return true;
}

/* Hands a slot that is filled to who drives. */
static void hand_over(struct tt_link *link, struct tcp_slot *slot, uint64_t number, uint32_t signature,
    uint8_t *payload, uint64_t bytes)
{
    struct tcp_endpoint *e = of(link->endpoint);
    slot->number = number;
    slot->signature = signature;
    slot->bytes = bytes;
    slot->payload = payload;
    e->head.path_bytes[TT_PATH_COPIED] += bytes;
    atomic_store_explicit(&slot->state, TCP_FULL, memory_order_release);
    if (link->peer == e->head.me)
        return;
    atomic_fetch_or(&((struct tcp_link *)(void *)link)->full, UINT64_C(1) << (number % TCP_SLOTS));
    tt_tcp_drive(e, link->peer, true);
}

static bool send_message(struct tt_link *link, const struct tt_message *m)
{
    struct tcp_slot *slot = slot_of(link, m->number, true);
    const struct tcp_slot *other = room_before(link, m->number, m->bytes);
    if ((other != NULL && !is_free(link, other)) || !is_free(link, slot))
        return false;
    tt_tcp_make_room((struct tcp_link *)(void *)link, slot, m->bytes);
    uint64_t element = m->source.layout->element_bytes, run;
    uint8_t *payload = (uint8_t *)tt_view_run(&m->source, 0, &run);
    if (run * element < m->bytes || m->bytes <= TCP_COPY_BYTES || link->peer == link->endpoint->me) {
        for (uint64_t at = 0; at < m->bytes; at += run) {
            const void *from = (const void *)tt_view_run(&m->source, at / element, &run);
            run = run * element < m->bytes - at ? run * element : m->bytes - at;
            memcpy(slot->memory + at, from, run);
        }
        payload = slot->memory;
    }
    hand_over(link, slot, m->number, m->signature, payload, m->bytes);
    return true;
}

static bool post_message(
    struct tt_link *link, uint64_t number, uint32_t signature, const void *src, uint32_t bytes)
{
    struct tcp_slot *slot = slot_of(link, number, true);
    if (!is_free(link, slot))
        return false;
    memcpy(tt_tcp_make_room((struct tcp_link *)(void *)link, slot, bytes), src, bytes);
    hand_over(link, slot, number, signature, slot->memory, bytes);
    return true;
}

static bool is_unsent(const struct tcp_slot *slot)
{
    unsigned state = atomic_load_explicit(&slot->state, memory_order_acquire);
    return state == TCP_FULL || state == TCP_CARRIED;
}

static bool is_sent(struct tt_link *link, uint64_t number)
{
    const struct tcp_slot *slot = slot_of(link, number, true);
    bool own = link->peer == link->endpoint->me;
    if (own || !is_unsent(slot) || slot->number != number || slot->payload == slot->memory)
        return true;
    await(&of(link->endpoint)->peers[link->peer]);
    tt_tcp_drive(of(link->endpoint), link->peer, true);
    return !is_unsent(slot);
}

/* Returns the slot of a message that is there; NULL: it is not. */
static const struct tcp_slot *find(struct tt_link *link, uint64_t number)
{
    struct tcp_endpoint *e = of(link->endpoint);
    const struct tcp_slot *slot = slot_of(link, number, false);
    for (int look = 0; look < 2; look++) {
        if (atomic_load_explicit(&slot->state, memory_order_acquire) == TCP_FULL && slot->number == number)
            return slot;
        if (link->peer == e->head.me || look == 1)
            return NULL;
        await(&e->peers[link->peer]);
        tt_tcp_drive(e, link->peer, false);
    }
    return NULL;
}

static bool is_placed(const struct tcp_slot *slot)
{
    return slot->payload != slot->memory && !slot->kept;
}

static bool has_arrived(
    struct tt_link *link, uint64_t number, const struct tt_view *like, struct tt_arrival *arrival)
{
    const struct tcp_slot *slot = find(link, number);
    (void)like;
    if (slot == NULL)
        return false;
    *arrival = (struct tt_arrival){ .path = is_placed(slot) ? TT_PATH_PLACED : TT_PATH_COPIED,
        .packed = true,
        .signature = slot->signature,
        .bytes = slot->bytes,
        .available = slot->bytes,
        .base = (uintptr_t)slot->payload };
    return true;
}

static enum tt_peek peek(
    struct tt_link *link, uint64_t number, uint32_t signature, uint32_t bytes, const void **payload)
{
    const struct tcp_slot *slot = find(link, number);
    if (slot == NULL)
        return TT_PEEK_NOTHING;
    bool right = slot->signature == signature && slot->bytes == bytes;
    if (right && is_placed(slot))
        return TT_PEEK_PLACED;
    *payload = right ? slot->payload : NULL;
    return right ? TT_PEEK_THERE : TT_PEEK_ODD;
}

static void release(struct tt_link *link, uint64_t number)
{
    struct tcp_endpoint *e = of(link->endpoint);
    struct tcp_link *own = (struct tcp_link *)(void *)link;
    struct tcp_slot *slot = slot_of(link, number, false);
    if (atomic_load_explicit(&slot->state, memory_order_acquire) != TCP_FULL || slot->number != number)
        return;
    if (link->peer == e->head.me) {
        atomic_store_explicit(&slot->state, TCP_FREE, memory_order_release);
        return;
    }
    tt_tcp_let_go(e, slot);
    atomic_store_explicit(&slot->state, TCP_DONE, memory_order_release);
    bool told =
        tt_tcp_is_long(slot->bytes) && atomic_fetch_add(&own->long_releases, 1) + 1 >= TCP_LONG_TOLD_AT;
    told = atomic_fetch_add(&own->releases, 1) + 1 >= TCP_TOLD_AT || told;
    if (told || atomic_load(&e->peers[link->peer].slots.wanted))
        tt_tcp_drive(e, link->peer, true);
}

/* A place of one run is granted until the message has begun to come. It is no harm if who drives is at work:
 * then the message comes to its slot. */
static bool grant(
    struct tt_link *link, uint64_t number, uint32_t signature, const struct tt_view *place, uint64_t after)
{
    struct tcp_endpoint *e = of(link->endpoint);
    struct tcp_slot *slot = slot_of(link, number, false);
    uint64_t count, bytes = tt_view_count(place) * place->layout->element_bytes;
    uintptr_t address = tt_view_run(place, 0, &count);
    (void)signature;
    if (after != 0 || link->peer == e->head.me || bytes <= TCP_COPY_BYTES ||
        count * place->layout->element_bytes < bytes || pthread_mutex_trylock(&e->driving) != 0)
        return false;
    bool free = !e->deaf && atomic_load_explicit(&slot->state, memory_order_acquire) != TCP_FULL;
    for (uint64_t i = 0; i < TCP_SLOTS; i += TCP_ROOMS) { /* of those that share a room, one at a time */
        uint64_t granted = slot_of(link, number + i, false)->granted;
        free = free && (granted == 0 || granted == number + 1);
    }
    if (free) {
        slot->granted = number + 1;
        slot->place = (uint8_t *)address;
        slot->place_bytes = bytes;
    }
    pthread_mutex_unlock(&e->driving);
    return free;
}

static const struct tt_link_ops link_ops = {
    .send = send_message,
    .post = post_message,
    .sent = is_sent,
    .arrived = has_arrived,
    .peek = peek,
    .release = release,
    .grant = grant,
};

const struct tt_transport tt_tcp = {
    .name = "tcp",
    .address_bytes = TT_ADDRESS_BYTES,
    .open = open_endpoint,
    .connect = connect_endpoint,
    .close = close_endpoint,
};
