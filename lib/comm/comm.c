/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c: opening, connecting and ending communicators. The public functions are in api_comm.c. */
#include "comm/lifecycle.h"
#include "comm/registration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/caches.h"
#include "device/device.h"
#include "run/call_cache.h"
#include "observe/recorder.h"
#include "run/settings.h"
#include "stream/stream.h"
#include "observe/trace.h"
#include "transports/arena.h"
#include "transports/registry.h"

static _Atomic uint64_t serials;
static _Atomic uint32_t numbered; /* the highest number of a communicator without a name */

/* Returns from how many bytes a message goes through a bounce buffer: from there on all slots, which are
 * taken in turn, would need more cache than the buffers leave. A shorter message, and one of two ranks,
 * goes through a slot, so its sender does not wait until it is read. A peer that can read private memory
 * itself does that instead. */
static uint64_t bounce_from(const struct tt_comm *comm)
{
    enum { SLOTS_HELD = 12 << 20, LEAST_BYTES = 16 << 10 };
    const struct tt_endpoint *e = comm->endpoint;
    bool copies = e->shared_bytes > 0 && e->post_bytes == e->slot_bytes;
    uint64_t n = (uint64_t)comm->n, from = SLOTS_HELD / (TT_SLOTS * n * (n - 1) + 1);
    from = from < LEAST_BYTES ? LEAST_BYTES : from;
    return copies && from <= e->slot_bytes ? from : UINT64_MAX;
}

static int count_hosts(const int32_t *host_of, int n)
{
    int hosts = 1;
    for (int r = 1, first; r < n; r++) {
        for (first = 0; host_of[first] != host_of[r];)
            first++;
        hosts += first == r;
    }
    return hosts;
}

/* Keeps the hosts of the ranks, if there are several. */
static tutti_status keep_hosts(struct tt_comm *comm, const int32_t *host_of)
{
    comm->identity.hosts = host_of != NULL ? count_hosts(host_of, comm->n) : 1;
    if (comm->identity.hosts == 1)
        return TUTTI_OK;
    comm->identity.host = malloc((size_t)comm->n * sizeof *comm->identity.host);
    if (comm->identity.host == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a communicator of %d ranks", comm->n);
    memcpy(comm->identity.host, host_of, (size_t)comm->n * sizeof *host_of);
    return TUTTI_OK;
}

static tutti_status allocate(struct tt_comm *comm)
{
    size_t n = (size_t)comm->n;
    for (int c = 0; c < TT_CLASSES; c++) {
        comm->numbers.next_send[c] = malloc(n * sizeof(uint64_t));
        comm->numbers.next_recv[c] = malloc(n * sizeof(uint64_t));
        if (comm->numbers.next_send[c] == NULL || comm->numbers.next_recv[c] == NULL)
            return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a communicator of %d ranks", comm->n);
        for (size_t peer = 0; peer < n; peer++)
            comm->numbers.next_send[c][peer] = comm->numbers.next_recv[c][peer] = comm->settings.first_number;
    }
    comm->numbers.next_post = malloc(n * sizeof *comm->numbers.next_post);
    for (size_t peer = 0; comm->numbers.next_post != NULL && peer < n; peer++)
        comm->numbers.next_post[peer] = comm->settings.first_number;
    comm->calls.idle[0] = calloc(n, sizeof *comm->calls.idle[0]);
    comm->calls.idle[1] = calloc(n, sizeof *comm->calls.idle[1]);
    comm->calls.cached = comm->calls.last = calloc(TT_CACHED_CALLS, sizeof *comm->calls.cached);
    comm->calls.turns = calloc(1 + 2 * n, sizeof *comm->calls.turns);
    comm->choice_cache = calloc(1, sizeof *comm->choice_cache);
    comm->refusals.calls = calloc(1 + 2 * n, sizeof *comm->refusals.calls);
    comm->waiting.circle = calloc(n, sizeof *comm->waiting.circle);
    if (comm->numbers.next_post == NULL || comm->calls.idle[0] == NULL || comm->calls.idle[1] == NULL ||
        comm->choice_cache == NULL || comm->calls.cached == NULL || comm->calls.turns == NULL ||
        comm->refusals.calls == NULL || comm->waiting.circle == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a communicator of %d ranks", comm->n);
    return tt_prepared_cache_create(&comm->calls.prepared);
}

tutti_status tt_comm_open(int n, int rank, const struct tt_settings *settings, const tutti_config *config,
    const int32_t *host_of, uint8_t *address, struct tt_comm **comm)
{
    tutti_config known;
    tutti_status status = tt_comm_config(config, &known);
    if (status != TUTTI_OK)
        return status;
    struct tt_comm *c = calloc(1, sizeof *c);
    if (c == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a communicator");
    c->identity.serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed);
    c->n = n;
    c->rank = rank;
    c->settings = *settings;
    c->exact = settings->exact;
    c->known = true;
    c->waiting.timeout_ms = tt_comm_timeout(settings, config);
    c->waiting.on_wait = known.on_wait;
    c->waiting.on_wait_context = known.on_wait_context;
    c->numbers.sequence = settings->first_number;
    c->waiting.policy = tt_wait_policy_for(n);
    c->identity.unnamed = known.name == NULL;
    snprintf(c->identity.name, sizeof c->identity.name, "%s", c->identity.unnamed ? "comm" : known.name);
    status = keep_hosts(c, host_of);
    c->transport = tt_transport_for(c->identity.host == NULL);
    if (status == TUTTI_OK)
        status = allocate(c);
    if (status == TUTTI_OK)
        status = tt_recorder_open(n, rank, c->identity.name, &c->recorder);
    if (status == TUTTI_OK)
        status = tt_trace_open(n, rank, c->identity.name, &c->trace);
    c->memory.cached_bytes = tt_cache_shared_bytes();
    c->memory.probe.left = 1; /* readers claim lines in the first call */
    struct tt_endpoint_params params = { .n = n,
        .me = rank,
        .slot_bytes = tt_comm_slot_bytes(settings, n, c->identity.hosts == n),
        .first_number = settings->first_number,
        .map = settings->map,
        .pull = settings->pull,
        .membarrier = settings->membarrier,
        .network = settings->hosts.network,
        .congestion = tt_congestion_name(settings->hosts.congestion),
        .words = TT_CHOICES,
        .heartbeat_ms = settings->heartbeat_ms,
        .copy = tt_copy_bytes };
    if (status == TUTTI_OK)
        status = c->transport->open(&params, address, &c->endpoint);
    if (status == TUTTI_OK)
        status = tt_device_open(c);
    if (status != TUTTI_OK) {
        tt_comm_destroy(c);
        return status;
    }
    *comm = c;
    return TUTTI_OK;
}

/* A rank that has died, or a communicator that has ended: nobody waits for its choice any more. */
static bool is_in_vain(void *context, int rank)
{
    struct tt_comm *comm = context;
    struct tt_peer_place place;
    return rank >= comm->n || tt_endpoint_is_over(comm->endpoint) ||
           comm->endpoint->control->peer_state(comm->endpoint, rank, &place) != TT_PEER_ALIVE;
}

/* One rank of each host chooses for all that share memory there. A call that is to end sooner than their
 * patience does not wait so long. */
static void choose_together(struct tt_comm *comm)
{
    int64_t timeout_ms = comm->waiting.timeout_ms;
    int64_t patience_ms = TT_HOST_PATIENCE_MS + TT_HOST_PATIENCE_OF_RANK_MS * (int64_t)comm->n;
    comm->choice_cache->host = (struct tt_host_choice){ .words = comm->endpoint->words,
        .rank = comm->rank,
        .patience_ms = timeout_ms >= 0 && timeout_ms < patience_ms ? timeout_ms : patience_ms,
        .in_vain = is_in_vain,
        .context = comm };
}

/* FNV-1a. */
static uint64_t hash_of(const uint8_t *bytes, size_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint32_t tt_comm_next_number(void)
{
    return atomic_load_explicit(&numbered, memory_order_relaxed) + 1;
}

void tt_comm_number(struct tt_comm *comm, uint32_t number)
{
    uint32_t known = atomic_load_explicit(&numbered, memory_order_relaxed);
    if (!comm->identity.unnamed)
        return;
    while (known < number && !atomic_compare_exchange_weak(&numbered, &known, number)) {
    }
    snprintf(comm->identity.name, sizeof comm->identity.name, "comm-%u", number);
}

tutti_status tt_comm_connect(struct tt_comm *comm, const uint8_t *addresses, const int32_t *domain_of)
{
    comm->identity.id = hash_of(addresses, comm->transport->address_bytes);
    tt_recorder_identify(comm->recorder, comm->identity.id, comm->identity.name);
    tt_trace_identify(comm->trace, comm->identity.id, comm->identity.name);
    tutti_status status = tt_topology_create(&comm->topology, comm->n, domain_of);
    if (status == TUTTI_OK && comm->device != NULL)
        status = tt_local_peers_join(comm);
    if (status == TUTTI_OK)
        status = comm->transport->connect(comm->endpoint, addresses);
    tt_wait_poll_takes(&comm->waiting.policy, comm->endpoint->poll_ns);
    for (int rank = 0; rank < comm->n && status == TUTTI_OK; rank++)
        if (tt_link_to(comm->endpoint, TT_CLASS_COLLECTIVE, rank) == NULL)
            status = tt_fail(TUTTI_SYSTEM_ERROR, "rank %d cannot be reached by transport %s from rank %d",
                rank, comm->transport->name, comm->rank);
    choose_together(comm);
    comm->memory.bounce_from = bounce_from(comm);
    tt_costs_spread(&comm->settings.costs, (uint64_t)comm->identity.hosts);
    return status;
}

static void free_idle(struct tt_prepared *idle)
{
    for (struct tt_prepared *next; idle != NULL; idle = next) {
        next = idle->next;
        tt_prepared_destroy(idle);
    }
}

void tt_comm_destroy(struct tt_comm *comm)
{
    tt_device_close(comm);
    if (comm->endpoint != NULL)
        comm->transport->close(comm->endpoint);
    tt_trace_close(comm->trace);
    if (comm->recorder != NULL)
        tt_recorder_close(comm->recorder);
    tt_prepared_cache_destroy(&comm->calls.prepared);
    tt_topology_free(&comm->topology);
    tt_operator_table_free(&comm->operators);
    for (int direction = 0; direction < 2; direction++) {
        for (int peer = 0; comm->calls.idle[direction] != NULL && peer < comm->n; peer++)
            free_idle(comm->calls.idle[direction][peer]);
        free(comm->calls.idle[direction]);
    }
    for (int c = 0; c < TT_CLASSES; c++) {
        free(comm->numbers.next_send[c]);
        free(comm->numbers.next_recv[c]);
    }
    if (comm->memory.tmp != NULL)
        tt_arena_free(comm->memory.tmp);
    free(comm->numbers.next_post);
    free(comm->calls.turns);
    free(comm->choice_cache);
    free(comm->refusals.calls);
    free(comm->waiting.circle);
    free(comm->identity.world);
    free(comm->identity.host);
    tt_cache_free(comm);
    free(comm);
}

tutti_status tt_comm_await(struct tt_comm *comm)
{
    tt_position_await(comm->streams.last, comm, -1);
    if (comm->device != NULL)
        tt_replays_await(comm->device);
    return tt_comm_check(comm);
}

bool tt_comm_is_over(struct tt_comm *comm, int64_t timeout_ms)
{
    int64_t until_ns = tt_deadline_ns(timeout_ms);
    return tt_position_await(comm->streams.last, comm, timeout_ms) &&
           (comm->device == NULL || tt_device_await(comm, tt_left_ms(until_ns)));
}

void tt_comm_let_go(struct tt_comm *comm)
{
    tt_registrations_end(comm);
    tt_device_close(comm); /* here, for its worker cannot wait for itself */
    pthread_mutex_lock(&tt_streams_lock);
    bool orphan = atomic_load_explicit(&comm->streams.queued, memory_order_acquire) != 0;
    comm->streams.orphan = orphan ? tt_comm_destroy : NULL;
    struct tt_position now = comm->streams.now;
    tutti_stream finalizes = comm->streams.finalizes;
    pthread_mutex_unlock(&tt_streams_lock);
    if (orphan)
        tt_position_wait(now, -1);
    else
        tt_comm_destroy(comm);
    if (finalizes.kind != TUTTI_STREAM_NONE)
        tt_stream_unmake(finalizes);
}
