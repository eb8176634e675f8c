/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_carrier.c: an endpoint whose messages a carrier takes (carrier.h): the same slots, filled and freed as
 * those of connections are. All of this is done by who drives.
 *
 * What is told by a connection may overtake messages that a carrier has. So an answer and a goodbye say how
 * many the peer was sent, and count once all of these are here.
 *
 * The first message of a peer is answered by a word, and neither leaves before that has gone: a rank of UCX
 * 1.13 that answers the making of a connection is ended by an assertion if the other one is gone by then. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/fork.h"
#include "base/load.h"
#include "base/log.h"
#include "base/status.h"
#include "transports/tcp.h"

/* Of what the carriers of the process share; and whether there was one, or one in the process that forked
 * this one: UCX does much by a thread of its own, which a child has not, and does not begin again. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool used;
static bool inherited;

static void after_fork_in_child(void)
{
    inherited = used;
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_CARRIERS, &lock, after_fork_in_child);
}

/* True if this host has a network that UCX uses better than TCP does: over Ethernet the connections are
 * faster than UCX is, from 64 KiB on by a third (perf/results/README.md, "Between hosts"). */
static bool has_fast_network(void)
{
    bool found = false;
    DIR *devices = opendir("/sys/class/infiniband");
    for (const struct dirent *d; devices != NULL && (d = readdir(devices)) != NULL;)
        found = found || d->d_name[0] != '.';
    if (devices != NULL)
        closedir(devices);
    return found;
}

/* UCX changes signal handlers and the code of munmap where it is loaded, unless it is told not to. */
static const struct tt_carrier_table *load(char *why, size_t bytes)
{
    char path[TCP_PATH_BYTES];
    struct tt_text missing = { why, bytes, 0 };
    const struct tt_carrier_table *found = NULL;
    tt_put(&missing, "Tutti was built without UCX, or its plugin is not installed; looked for");
    if (!tt_find_own("libtutti_ucx.so", path, sizeof path, &missing))
        return NULL;
    setenv("UCX_HANDLE_ERRORS", "none", 0);
    setenv("UCX_MEM_EVENTS", "n", 0);
    const char *reason;
    void *library = tt_load(path, &reason);
    void *symbol = library != NULL ? dlsym(library, TT_CARRIER_SYMBOL) : NULL;
    missing.length = 0;
    if (symbol == NULL) {
        tt_put(&missing, "%s", library != NULL ? dlerror() : reason);
        return NULL;
    }
    tt_carrier_find_fn *find;
    memcpy(&find, &symbol, sizeof find);
    found = find(TT_CARRIER_VERSION);
    if (found == NULL)
        tt_put(&missing, "%s is of another version of Tutti", path);
    return found;
}

static void *place(void *endpoint, const struct tt_carrier_head *head, uint64_t bytes, bool *keeps)
{
    struct tcp_endpoint *e = endpoint;
    if (head->from < 0 || head->from >= e->head.n || head->from == e->head.me || head->class >= TT_CLASSES)
        return NULL;
    if (e->deaf) {
        e->peers[head->from].carried.received++;
        return NULL;
    }
    if (head->kind == TCP_RELEASE || head->kind == TCP_WANT)
        return bytes == 0 ? e : NULL;
    if (head->kind != TCP_MESSAGE || bytes == 0 || bytes > e->head.slot_bytes)
        return NULL;
    const struct tcp_slot *slot = &tt_tcp_link_of(e, head->class, head->from)->in[head->number % TCP_SLOTS];
    void *where = tt_tcp_place_of(e, head->from, head->class, head->number, bytes);
    *keeps = where == slot->memory;
    return where;
}

static void arrived(
    void *endpoint, const struct tt_carrier_head *head, uint64_t bytes, void *payload, bool kept)
{
    struct tcp_endpoint *e = endpoint;
    struct tcp_peer *p = &e->peers[head->from];
    struct tcp_frame frame = { .kind = head->kind,
        .class = head->class,
        .released = { head->released[0], head->released[1] },
        .signature = head->signature,
        .number = head->number,
        .bytes = bytes };
    p->carried.greet = p->carried.greet || p->carried.received == 0;
    p->carried.received++;
    tt_tcp_meet(p);
    tt_tcp_know(e, head->from);
    tt_tcp_take_releases(e, head->from, &frame);
    if (head->kind == TCP_MESSAGE) {
        tt_tcp_link_of(e, head->class, head->from)->in[head->number % TCP_SLOTS].kept = kept;
        tt_tcp_fill(e, head->from, &frame, payload);
    }
    if (head->kind == TCP_WANT)
        atomic_store(&p->slots.wanted, true);
    tt_doorbell_ring(e->head.doorbell);
}

static void sent(void *endpoint, void *send)
{
    struct tcp_endpoint *e = endpoint;
    struct tcp_slot *slot = send;
    bool word = (uint8_t *)send >= (uint8_t *)e->peers && (uint8_t *)send < (uint8_t *)(e->peers + e->head.n);
    if (word) {
        ((struct tcp_carried *)send)->speaking = false;
    } else {
        atomic_store_explicit(&slot->state, slot->early ? TCP_FREE : TCP_DONE, memory_order_release);
        slot->early = false;
    }
    tt_doorbell_ring(e->head.doorbell);
}

static void wake(void *endpoint)
{
    tt_tcp_wake(endpoint);
}

static int64_t now_ms(void)
{
    return tt_now_ns() / 1000000;
}

/* UCX's own settings win where the user has set them. Its shared memory is left out: Tutti has its own. Where
 * no network reads memory of another host by itself, a rendezvous is only a round trip more. */
bool tt_tcp_carrier_open(struct tcp_endpoint *e, struct tcp_address *mine, char *why, size_t bytes)
{
    char interface[TT_INTERFACE_NAME];
    bool chosen = tt_interface_chosen(&mine->net, interface), fast = has_fast_network();
    struct tt_carrier_params params = { .n = e->head.n,
        .transports = tt_environment("UCX_TLS") == NULL ? "^sm" : NULL,
        .devices = chosen && tt_environment("UCX_NET_DEVICES") == NULL ? interface : NULL,
        .rendezvous = tt_environment("UCX_RNDV_THRESH") == NULL && !fast ? "inf" : NULL,
        .now_ms = now_ms,
        .lock = &lock,
        .endpoint = e,
        .place = place,
        .arrived = arrived,
        .sent = sent,
        .wake = wake };
    memcpy(&params.token, e->token, sizeof params.token);
    if (e->params.network == TT_NETWORK_AUTO && !fast) {
        snprintf(why, bytes, "it has no InfiniBand or RoCE, and TCP is faster over Ethernet");
        return false;
    }
    if (inherited) {
        snprintf(why, bytes, "this process was forked by one that used UCX, whose threads it has not");
        return false;
    }
    const struct tt_carrier_table *table = load(why, bytes);
    pthread_mutex_lock(&lock);
    used = used || table != NULL;
    pthread_mutex_unlock(&lock);
    e->carrier = table != NULL ? table->open(&params, why, bytes) : NULL;
    if (e->carrier == NULL)
        return false;
    e->carries = table;
    size_t length = table->address(e->carrier, &mine->carrier);
    if (length <= sizeof mine->carrier.at)
        return true;
    snprintf(why, bytes,
        "its address has %zu bytes, and there is room for %zu: name fewer devices by "
        "UCX_NET_DEVICES",
        length, sizeof mine->carrier.at);
    tt_tcp_carrier_close(e);
    return false;
}

void tt_tcp_carrier_close(struct tcp_endpoint *e)
{
    enum { PATIENCE_MS = 1000 };
    if (e->carrier == NULL)
        return;
    for (int i = 0; i < TT_CLASSES * e->head.n; i++)
        for (int s = 0; s < TCP_SLOTS; s++)
            tt_tcp_let_go(e, &e->ends[i].in[s]);
    e->carries->close(e->carrier, PATIENCE_MS);
    e->carrier = NULL;
}

/* Hands a head and the bytes of a slot to the carrier. False: it cannot take them. */
static bool hand_over(struct tcp_endpoint *e, int rank, struct tt_carrier_head *head, const void *payload,
    uint64_t bytes, void *send)
{
    struct tcp_peer *p = &e->peers[rank];
    memcpy(&head->token, p->address.token, sizeof head->token);
    head->from = e->head.me;
    tt_tcp_collect_releases(e, rank, head->released);
    p->carried.sent++;
    int result = e->carries->send(e->carrier, rank, &p->address.carrier, head, payload, bytes, send);
    if (result > 0)
        sent(e, send);
    return result >= 0;
}

static bool carry_messages(struct tcp_endpoint *e, int rank)
{
    uint8_t class;
    for (struct tcp_slot *slot; (slot = tt_tcp_find_full(e, rank, &class)) != NULL;) {
        slot->carried = (struct tt_carrier_head){
            .kind = TCP_MESSAGE, .class = class, .signature = slot->signature, .number = slot->number
        };
        tt_tcp_take_full(tt_tcp_link_of(e, class, rank), slot, TCP_CARRIED);
        if (!hand_over(e, rank, &slot->carried, slot->payload, slot->bytes, slot))
            return false;
    }
    return true;
}

void tt_tcp_carry(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    if (p->carried.refused_ns != 0 || atomic_load(&p->state) != TT_PEER_ALIVE || rank == e->head.me)
        return;
    bool well = carry_messages(e, rank);
    int wants = TCP_WANTS;
    bool releases = tt_tcp_releases_are_news(e, rank);
    if (well && !p->carried.speaking && (p->carried.greet || releases)) {
        if (releases) /* a greeting alone leaves the peer waiting for a slot */
            atomic_store(&p->slots.wanted, false);
        p->carried.greet = false;
        p->carried.speaking = true;
        p->carried.word = (struct tt_carrier_head){ .kind = TCP_RELEASE };
        well = hand_over(e, rank, &p->carried.word, NULL, 0, &p->carried);
    } else if (well && !p->carried.speaking &&
               atomic_compare_exchange_strong(&p->slots.want, &wants, TCP_TOLD)) {
        p->carried.speaking = true;
        p->carried.word = (struct tt_carrier_head){ .kind = TCP_WANT };
        well = hand_over(e, rank, &p->carried.word, NULL, 0, &p->carried);
    }
    if (!well) {
        p->carried.refused_ns = tt_now_ns();
        tt_tcp_wake(e); /* the thread looks what the connection says */
    }
}

void tt_tcp_carry_first(struct tcp_endpoint *e, int rank, bool news)
{
    struct tcp_peer *p = &e->peers[rank];
    uint8_t class;
    if (news && tt_tcp_find_full(e, rank, &class) != NULL) {
        tt_tcp_carry(e, rank);
        return;
    }
    e->carries->progress(e->carrier);
    tt_tcp_keep_promises(e, rank);
    if (news || atomic_load(&p->slots.want) == TCP_WANTS || p->carried.greet ||
        tt_tcp_releases_are_news(e, rank))
        tt_tcp_carry(e, rank);
}

bool tt_tcp_is_greeting(const struct tcp_peer *p)
{
    return (p->carried.greet || p->carried.speaking) && p->carried.refused_ns == 0;
}

void tt_tcp_keep_promises(struct tcp_endpoint *e, int rank)
{
    struct tcp_peer *p = &e->peers[rank];
    if (!p->carried.promised || (int32_t)(p->carried.received - p->carried.count) < 0 ||
        (tt_tcp_is_leaving(p) && tt_tcp_is_greeting(p)))
        return;
    p->carried.promised = false;
    atomic_store_explicit(&p->completed, p->carried.completed, memory_order_release);
    p->answering = false;
    atomic_store(&p->ask, false);
    if (p->carried.leaves)
        tt_tcp_lose(e, rank, p->carried.aborted ? TT_PEER_ABORTED : TT_PEER_LEFT);
}
