/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c: making and ending communicators, from inside. The public functions are in api_comm.c. */
#include "comm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "caches.h"
#include "device.h"
#include "call_cache.h"
#include "recorder.h"
#include "trace.h"
#include "transports/arena.h"
#include "transports/registry.h"

static _Atomic uint64_t serials;

/* A unit reads a slice of each of up to eight operands, and what it reads and stores should stay in the level
 * 2 cache. Measured with 3 to 16 ranks and 1 MiB of it: half as long costs 5 to 20 %, twice as long gains
 * nothing where messages are copied. With two ranks, who read two operands and store one, twice as long is 5
 * to 25 % faster from 512 KiB on. Slots shrink as ranks grow, so that what a rank may touch for staging stays
 * in the tens of megabytes. */
uint64_t tt_comm_slot_bytes(const struct tt_settings *settings, int n)
{
    enum { CACHE_LEAST = 512 << 10, SLOT_LEAST = 8 << 10, PAGE = 4 << 10 };
    uint64_t cache = settings->cache_bytes, cache_most = n > 2 ? 4 << 20 : 2 << 20;
    uint64_t parts = n > TT_FOLD_MAX ? (uint64_t)n : n > 2 ? TT_FOLD_MAX : TT_FOLD_MAX / 2;
    cache = cache < CACHE_LEAST ? CACHE_LEAST : cache > cache_most ? cache_most : cache;
    uint64_t bytes = settings->slice_bytes != 0 ? settings->slice_bytes : cache / parts;
    bytes = bytes < SLOT_LEAST ? SLOT_LEAST : bytes;
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Messages so long that all slots, which are taken in turn, would be more than the caches hold along with the
 * buffers. Measured with 3 to 16 ranks on 32 MiB of cache: shorter ones, and those of two ranks, are done
 * sooner if nobody waits for who reads them. Where a peer can read private memory itself, it does. */
static uint64_t bounce_from(const struct tt_comm *comm)
{
    enum { SLOTS_HELD = 12 << 20, LEAST_BYTES = 16 << 10 };
    const struct tt_endpoint *e = comm->endpoint;
    bool copies = e->shared_bytes > 0 && e->post_bytes == e->slot_bytes;
    uint64_t n = (uint64_t)comm->n, from = SLOTS_HELD / (TT_SLOTS * n * (n - 1) + 1);
    from = from < LEAST_BYTES ? LEAST_BYTES : from;
    return copies && from <= e->slot_bytes ? from : UINT64_MAX;
}

/* Where a struct of an earlier release may have ended: behind a field. */
static const uint16_t config_ends[] = { offsetof(tutti_config, flags), offsetof(tutti_config, timeout_ms),
    offsetof(tutti_config, name), offsetof(tutti_config, options), offsetof(tutti_config, on_wait),
    offsetof(tutti_config, on_wait_context), sizeof(tutti_config) };

_Static_assert(sizeof(tutti_config) == offsetof(tutti_config, on_wait_context) + sizeof(void *),
    "each field is in the list above");

static tutti_status check_config_size(size_t size)
{
    char list[96] = "";
    struct tt_text legal = { list, sizeof list, 0 };
    for (size_t i = 0; i < sizeof config_ends / sizeof config_ends[0]; i++) {
        if (size == config_ends[i] || size > sizeof(tutti_config))
            return TUTTI_OK;
        tt_put(&legal, "%s%u", i > 0 ? ", " : "", config_ends[i]);
    }
    return tt_fail(TUTTI_INVALID_ARGUMENT,
        "config.size is %zu, which is the end of no field; set it to sizeof(tutti_config), %zu here; legal "
        "are "
        "also %s",
        size, sizeof(tutti_config), list);
}

/* openat2's rule: a shorter struct reads as zeros, a longer one is refused if what we do not know is not
 * zero. */
tutti_status tt_comm_config(const tutti_config *config, tutti_config *known)
{
    *known = (tutti_config){ .size = sizeof *known };
    if (config == NULL)
        return TUTTI_OK;
    if (config->size > 4096)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "config.size is %zu; a tutti_config has %zu bytes",
            config->size, sizeof *known);
    tutti_status status = check_config_size(config->size);
    if (status != TUTTI_OK)
        return status;
    const uint8_t *bytes = (const uint8_t *)config;
    for (size_t i = sizeof *known; i < config->size; i++)
        if (bytes[i] != 0)
            return tt_fail(TUTTI_UNSUPPORTED,
                "config sets a field at byte %zu that this library (version %d) does not know", i,
                TUTTI_VERSION);
    memcpy(known, config, config->size < sizeof *known ? config->size : sizeof *known);
    return TUTTI_OK;
}

bool tt_comm_nonblocking(const tutti_config *config)
{
    tutti_config known;
    return tt_comm_config(config, &known) == TUTTI_OK && (known.flags & TUTTI_COMM_NONBLOCKING) != 0;
}

tutti_status tt_comm_settings(const tutti_config *config, struct tt_settings *settings)
{
    tutti_config c;
    tutti_status status = tt_comm_config(config, &c);
    if (status != TUTTI_OK)
        return status;
    if ((c.flags & ~(uint64_t)(TUTTI_COMM_EXACT | TUTTI_COMM_NONBLOCKING)) != 0)
        return tt_fail(TUTTI_UNSUPPORTED,
            "config.flags is 0x%llx; legal: TUTTI_COMM_EXACT, TUTTI_COMM_NONBLOCKING, or both",
            (unsigned long long)c.flags);
    if (c.timeout_ms < -1)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "config.timeout_ms is %lld; legal: -1 (never), 0 (default), or more", (long long)c.timeout_ms);
    status = tt_settings_read(settings, c.options);
    if (status == TUTTI_OK && tt_isa_of(settings->isa) > tt_isa_best())
        return tt_fail(TUTTI_UNSUPPORTED, "isa is %s, but this CPU, or compiler, has no more than %s",
            tt_isa_name(tt_isa_of(settings->isa)), tt_isa_name(tt_isa_best()));
    if (status == TUTTI_OK && (c.flags & TUTTI_COMM_EXACT))
        settings->exact = true;
    return status;
}

int64_t tt_comm_timeout(const struct tt_settings *settings, const tutti_config *config)
{
    tutti_config known;
    if (tt_comm_config(config, &known) == TUTTI_OK && known.timeout_ms != 0)
        return known.timeout_ms;
    return settings->timeout_ms_or_zero != 0 ? (int64_t)settings->timeout_ms_or_zero : 600000;
}

/* A rank that dies before it comes is seen by nobody, so this is less than what a call may wait, where a
 * death is seen. Ranks of one machine start seconds apart, but a program may read its data first, which takes
 * minutes. Who said that he waits for ever means it here, too. */
int64_t tt_comm_init_timeout(const struct tt_settings *settings, const tutti_config *config)
{
    enum { DEFAULT_MS = 300000 };
    int64_t run_ms = tt_comm_timeout(settings, config), init_ms = (int64_t)settings->init_timeout_ms_or_zero;
    if (init_ms == 0)
        init_ms = run_ms < 0 ? -1 : DEFAULT_MS;
    return run_ms >= 0 && run_ms < init_ms ? run_ms : init_ms;
}

tutti_status tt_tables_create(struct tt_tables *tables, int n)
{
    for (int side = 0; side < 2; side++)
        tables->starts[side] = malloc((size_t)n * sizeof *tables->starts[side]);
    tables->own_counts = malloc((size_t)n * sizeof *tables->own_counts);
    if (tables->starts[0] != NULL && tables->starts[1] != NULL && tables->own_counts != NULL)
        return TUTTI_OK;
    tt_tables_free(tables);
    return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the blocks of %d ranks", n);
}

void tt_tables_free(struct tt_tables *tables)
{
    free(tables->starts[0]);
    free(tables->starts[1]);
    free(tables->own_counts);
    *tables = (struct tt_tables){ 0 };
}

static tutti_status allocate(struct tt_comm *comm)
{
    size_t n = (size_t)comm->n;
    for (int c = 0; c < TT_CLASSES; c++) {
        comm->next_send[c] = malloc(n * sizeof(uint64_t));
        comm->next_recv[c] = malloc(n * sizeof(uint64_t));
        if (comm->next_send[c] == NULL || comm->next_recv[c] == NULL)
            return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a communicator of %d ranks", comm->n);
        for (size_t peer = 0; peer < n; peer++)
            comm->next_send[c][peer] = comm->next_recv[c][peer] = comm->settings.first_number;
    }
    comm->next_post = malloc(n * sizeof *comm->next_post);
    for (size_t peer = 0; comm->next_post != NULL && peer < n; peer++)
        comm->next_post[peer] = comm->settings.first_number;
    comm->points[0] = calloc(n, sizeof *comm->points[0]);
    comm->points[1] = calloc(n, sizeof *comm->points[1]);
    comm->cached_calls = comm->cached_last = calloc(TT_CACHED_CALLS, sizeof *comm->cached_calls);
    comm->choices = calloc(1, sizeof *comm->choices);
    comm->refusals.calls = calloc(1 + 2 * n, sizeof *comm->refusals.calls);
    comm->circle = calloc(n, sizeof *comm->circle);
    tutti_status status = tt_tables_create(&comm->tables, comm->n);
    if (status != TUTTI_OK)
        return status;
    if (comm->next_post == NULL || comm->points[0] == NULL || comm->points[1] == NULL ||
        comm->choices == NULL || comm->cached_calls == NULL || comm->refusals.calls == NULL ||
        comm->circle == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a communicator of %d ranks", comm->n);
    return tt_plan_cache_create(&comm->plans);
}

tutti_status tt_comm_open(int n, int rank, const struct tt_settings *settings, const tutti_config *config,
    uint8_t *address, struct tt_comm **comm)
{
    tutti_config known;
    tutti_status status = tt_comm_config(config, &known);
    if (status != TUTTI_OK)
        return status;
    struct tt_comm *c = calloc(1, sizeof *c);
    if (c == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for a communicator");
    c->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed);
    c->n = n;
    c->rank = rank;
    c->settings = *settings;
    c->exact = settings->exact;
    c->known = true;
    c->timeout_ms = tt_comm_timeout(settings, config);
    c->on_wait = known.on_wait;
    c->on_wait_context = known.on_wait_context;
    c->sequence = settings->first_number;
    c->transport = tt_transport_default();
    c->wait_policy = tt_wait_policy_for(n);
    snprintf(c->name, sizeof c->name, "%s", known.name != NULL ? known.name : "comm");
    status = allocate(c);
    if (status == TUTTI_OK)
        status = tt_recorder_open(n, rank, c->name, &c->recorder);
    if (status == TUTTI_OK)
        status = tt_trace_open(n, rank, c->name, &c->trace);
    c->cached_bytes = tt_cache_shared_bytes();
    c->probe.left = 1; /* readers claim lines in the first call */
    struct tt_endpoint_params params = { .n = n,
        .me = rank,
        .slot_bytes = tt_comm_slot_bytes(settings, n),
        .first_number = settings->first_number,
        .pull = settings->pull,
        .map = settings->map,
        .pull_from = settings->pull_from,
        .membarrier = settings->membarrier,
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

/* FNV-1a. */
static uint64_t hash_of(const uint8_t *bytes, size_t count)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

tutti_status tt_comm_connect(struct tt_comm *comm, const uint8_t *addresses, const int32_t *domain_of)
{
    comm->id = hash_of(addresses, comm->transport->address_bytes);
    tt_recorder_identify(comm->recorder, comm->id);
    tt_trace_identify(comm->trace, comm->id);
    tutti_status status = tt_topology_create(&comm->topology, comm->n, domain_of);
    if (status == TUTTI_OK && comm->device != NULL)
        status = tt_company_join(comm);
    if (status == TUTTI_OK)
        status = comm->transport->connect(comm->endpoint, addresses);
    for (int rank = 0; rank < comm->n && status == TUTTI_OK; rank++)
        if (tt_link_to(comm->endpoint, TT_CLASS_COLLECTIVE, rank) == NULL)
            status = tt_fail(TUTTI_SYSTEM_ERROR, "rank %d cannot be reached by transport %s from rank %d",
                rank, comm->transport->name, comm->rank);
    comm->bounce_from = bounce_from(comm);
    return status;
}

static void free_point(struct tt_point *point)
{
    while (point != NULL && point->idle != NULL) {
        struct tt_point_op *next = point->idle->next;
        tt_op_destroy(&point->idle->op);
        free(point->idle);
        point->idle = next;
    }
    if (point != NULL)
        tt_schedule_free(&point->schedule);
    free(point);
}

void tt_comm_destroy(struct tt_comm *comm)
{
    tt_device_close(comm);
    if (comm->endpoint != NULL)
        comm->transport->close(comm->endpoint);
    tt_trace_close(comm->trace);
    if (comm->recorder != NULL)
        tt_recorder_close(comm->recorder);
    tt_plan_cache_destroy(&comm->plans);
    tt_topology_free(&comm->topology);
    tt_operator_table_free(&comm->operators);
    for (int direction = 0; direction < 2; direction++) {
        for (int peer = 0; comm->points[direction] != NULL && peer < comm->n; peer++)
            free_point(comm->points[direction][peer]);
        free(comm->points[direction]);
    }
    for (int c = 0; c < TT_CLASSES; c++) {
        free(comm->next_send[c]);
        free(comm->next_recv[c]);
    }
    if (comm->tmp != NULL)
        tt_arena_free(comm->tmp);
    free(comm->next_post);
    tt_tables_free(&comm->tables);
    free(comm->choices);
    free(comm->refusals.calls);
    free(comm->circle);
    free(comm->world);
    tt_cache_free(comm);
    free(comm);
}

tutti_status tt_comm_grow_tmp(struct tt_comm *comm, uint64_t bytes)
{
    if (bytes <= comm->tmp_bytes)
        return TUTTI_OK;
    void *tmp;
    tutti_status status = tt_arena_alloc(bytes, &tmp);
    if (status != TUTTI_OK)
        return status;
    if (comm->tmp != NULL)
        tt_arena_free(comm->tmp);
    comm->tmp = tmp;
    comm->tmp_bytes = bytes;
    return TUTTI_OK;
}

/* Measured: to touch 7 MiB of slots anew, as the root of a scatter among 8 ranks has, takes 1 ms, so at most
 * a thousandth of the time goes there. */
void tt_comm_tidy(struct tt_comm *comm, int64_t now_ns)
{
    enum { TIDY_NS = 1000000000 };
    if (comm->transport->memory == NULL || now_ns < comm->tidy_ns)
        return;
    comm->transport->memory->tidy(comm->endpoint);
    comm->tidy_ns = now_ns + TIDY_NS;
}

void tt_cause_say(struct tt_cause *cause, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(cause->text, sizeof cause->text, format, arguments);
    va_end(arguments);
}

tutti_status tt_comm_check(struct tt_comm *comm)
{
    struct tt_cause cause;
    if (!comm->endpoint->control->cause(comm->endpoint, &cause))
        return TUTTI_OK;
    if (atomic_exchange(&comm->status, cause.status) == TUTTI_OK)
        tt_recorder_fail(comm->recorder, &cause);
    tt_set_last_error(cause.text);
    return (tutti_status)cause.status;
}

/* "; rank 0 is rank 2 of the world, rank 1 is 3": of who found it, and whom it concerns. */
static void name_in_world(const struct tt_comm *comm, struct tt_cause *cause)
{
    size_t length = strlen(cause->text), room = sizeof cause->text - length;
    bool found = cause->rank >= 0 && cause->rank < comm->n;
    bool concerned = cause->peer >= 0 && cause->peer < comm->n && cause->peer != cause->rank;
    if (comm->world == NULL || !found)
        return;
    if (concerned)
        snprintf(cause->text + length, room, "; rank %d is rank %d of the world, rank %d is %d", cause->rank,
            comm->world[cause->rank], cause->peer, comm->world[cause->peer]);
    else
        snprintf(cause->text + length, room, "; rank %d is rank %d of the world", cause->rank,
            comm->world[cause->rank]);
}

tutti_status tt_comm_fail(struct tt_comm *comm, const struct tt_cause *found)
{
    struct tt_cause named = *found, *cause = &named;
    name_in_world(comm, cause);
    if (comm->endpoint->control->abort(comm->endpoint, cause))
        tt_log(TT_LOG_ERROR, "%s", cause->text);
    tutti_status status = tt_comm_check(comm);
    return status != TUTTI_OK ? status : (tutti_status)cause->status;
}

tutti_status tt_comm_serve(struct tt_comm *comm)
{
    int answer = comm->on_wait(comm->on_wait_context);
    if (answer == 0)
        return TUTTI_OK;
    struct tt_cause cause = { .status = TUTTI_ABORTED, .rank = comm->rank, .peer = TT_NONE };
    cause.sequence = comm->sequence;
    snprintf(cause.operation, sizeof cause.operation, "on_wait");
    tt_cause_say(&cause, "%s, rank %d: a call waited, and the on_wait of this communicator answered %d",
        comm->name, comm->rank, answer);
    return tt_comm_fail(comm, &cause);
}
