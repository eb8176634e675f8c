/* SPDX-License-Identifier: BSD-3-Clause */
/* shm.c: endpoints of the shm transport: how they find each other, and how they part.
 *
 * An address names the process (the identity of its arena) and the place of the control segment in that
 * arena; the descriptors came before, by introduce(). Addresses then need to say only where in an arena
 * something lies, so a communicator that is split from another needs no descriptors. To connect is to look
 * the arena up, check the segment against what this rank would have made itself, and claim the token in its
 * `holders`, which fails if its owner has given up.
 *
 * Whether memory of a peer can be read by system call is tried, not deduced: containers, namespaces and
 * security modules forbid it in many ways. A rank that can read its peer grants it private memory. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "base/status.h"
#include "transports/shm_segment.h"

#define ADDRESS_MAGIC 0x737365726464616du
#define CONTROL_MAGIC 0x6c6f72746e6f6373u
/* Descriptors for others: of this process's arena, and of what tells that it has ended (life.h). */
enum { ARENA, LIFE };

struct address {
    uint64_t magic;
    uint32_t version, token;
    uint8_t uuid[TT_UUID_BYTES];
    uint64_t offset, bytes;
    uint64_t probe_at, probe;
    int32_t rank, pid;
};
_Static_assert(sizeof(struct address) <= TT_ADDRESS_BYTES, "an address fits");

static tutti_status present(int fds[TT_MEMORY_FDS])
{
    const struct tt_arena *own;
    tutti_status status = tt_arena_get(&own);
    if (status != TUTTI_OK)
        return status;
    int fd = fcntl(own->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "no descriptor of the arena for the peers");
    int self = fcntl(own->life, F_DUPFD_CLOEXEC, 0);
    if (self < 0) {
        status = tt_fail_errno(TUTTI_SYSTEM_ERROR, "no descriptor of this process for the peers");
        close(fd);
        return status;
    }
    fds[ARENA] = fd;
    fds[LIFE] = self;
    return TUTTI_OK;
}

static tutti_status introduce(const int fds[TT_MEMORY_FDS])
{
    struct tt_arena *arena;
    tutti_status status = tt_arena_import(fds[ARENA], fds[LIFE], &arena);
    if (status != TUTTI_OK)
        return status;
    status = tt_arena_hold(arena);
    if (status != TUTTI_OK)
        tt_arena_release(arena);
    return status;
}

static tutti_status check_params(const struct tt_endpoint_params *p)
{
    if (p->n < 1 || p->me < 0 || p->me >= p->n || p->slot_bytes == 0 || p->slot_bytes > UINT32_MAX)
        return tt_fail(TUTTI_INTERNAL_ERROR, "shm: rank %d of %d with slots of %llu bytes", p->me, p->n,
            (unsigned long long)p->slot_bytes);
    return TUTTI_OK;
}

static void free_endpoint(struct tt_shm_endpoint *e)
{
    pthread_mutex_destroy(&e->aborting);
    tt_pages_close(e->pages);
    free(e->peers);
    free(e->channels);
    free(e->head.links);
    free(e->bells);
    free(e);
}

static void copy_bytes(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

static struct tt_shm_endpoint *new_endpoint(const struct tt_endpoint_params *p)
{
    struct tt_shm_endpoint *e = calloc(1, sizeof *e);
    size_t n = (size_t)p->n;
    if (e == NULL)
        return NULL;
    pthread_mutex_init(&e->aborting, NULL);
    e->peers = calloc(n, sizeof *e->peers);
    e->channels = calloc(n * TT_CLASSES, sizeof *e->channels);
    e->head.links = calloc(n * TT_CLASSES, sizeof *e->head.links);
    e->bells = calloc(n, sizeof(struct tt_doorbell *));
    e->pages = p->pull != TT_PULL_OFF ? tt_pages_open(true) : NULL;
    bool pages = p->pull == TT_PULL_OFF || e->pages != NULL;
    if (e->peers == NULL || e->channels == NULL || e->head.links == NULL || e->bells == NULL || !pages ||
        getrandom(&e->probe, sizeof e->probe, 0) != sizeof e->probe) {
        free_endpoint(e);
        return NULL;
    }
    e->head.transport = &tt_shm;
    e->head.control = &tt_shm_control_ops;
    e->head.n = p->n;
    e->head.me = p->me;
    e->head.slot_bytes = p->slot_bytes;
    e->map = p->map;
    e->pull = p->pull;
    e->copy = p->copy != NULL ? p->copy : copy_bytes;
    return e;
}

static tutti_status open_endpoint(
    const struct tt_endpoint_params *params, uint8_t *address, struct tt_endpoint **endpoint)
{
    tutti_status status = check_params(params);
    if (status != TUTTI_OK)
        return status;
    struct tt_shm_endpoint *e = new_endpoint(params);
    if (e == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for an endpoint of %d ranks", params->n);
    tt_shm_shape(&e->shape, params->n, params->slot_bytes, params->words);
    status = tt_arena_get(&e->own);
    if (status == TUTTI_OK)
        status = tt_shm_segment_create(params, &e->shape, &e->control, &e->deferred);
    if (status != TUTTI_OK) {
        free_endpoint(e);
        return status;
    }
    e->control->fences = params->membarrier && tt_fence_register();
    e->control->magic = CONTROL_MAGIC;
    e->head.doorbell = &e->control->bell;
    e->head.inside = &e->control->inside;
    e->head.ended = &e->control->aborted;
    e->head.local_aborts = e->alone.count = &e->control->local_aborts;
    e->head.seen = &e->control->seen;
    e->head.own_bytes = e->shape.bytes;
    e->slot_stride = e->shape.slot_stride;
    e->aborted = &e->control->aborted;
    struct address mine = { .magic = ADDRESS_MAGIC,
        .version = TT_SHM_VERSION,
        .token = e->control->token,
        .offset = (uint64_t)((uint8_t *)e->control - e->own->base),
        .bytes = e->shape.bytes,
        .probe_at = (uintptr_t)&e->probe,
        .probe = e->probe,
        .rank = params->me,
        .pid = getpid() };
    memcpy(mine.uuid, e->own->uuid, sizeof mine.uuid);
    memset(address, 0, TT_ADDRESS_BYTES);
    memcpy(address, &mine, sizeof mine);
    *endpoint = &e->head;
    return TUTTI_OK;
}

/* --- Connecting */

/* What was freed is zero, or another's. */
static bool is_there(const struct tt_shm_control *theirs, const struct address *address)
{
    return theirs->magic == CONTROL_MAGIC && theirs->rank == address->rank && theirs->token == address->token;
}

static bool same_shape(const struct tt_shm_control *mine, const struct tt_shm_control *theirs)
{
    return theirs->version == TT_SHM_VERSION && theirs->n == mine->n && theirs->bytes == mine->bytes &&
           theirs->slot_bytes == mine->slot_bytes && theirs->first_number == mine->first_number;
}

static tutti_status tell_shape(const struct tt_shm_endpoint *e, int rank)
{
    return tt_fail(TUTTI_INTERNAL_ERROR, "the segment of rank %d is not of %d ranks with slots of %llu bytes",
        rank, e->head.n, (unsigned long long)e->head.slot_bytes);
}

static tutti_status tell_left(int rank, int me)
{
    return tt_fail(TUTTI_PEER_LOST, "rank %d left before rank %d was connected", rank, me);
}

static bool claim(struct tt_shm_endpoint *e, struct tt_shm_peer *peer, uint32_t token)
{
    _Atomic uint32_t *holders = tt_shm_at(peer->control, e->shape.holders);
    return atomic_compare_exchange_strong(&holders[e->head.me], &token, TT_SHM_HELD);
}

static tutti_status connect_peer(struct tt_shm_endpoint *e, int rank, const struct address *address)
{
    struct tt_shm_peer *peer = &e->peers[rank];
    if (address->magic != ADDRESS_MAGIC || address->version != TT_SHM_VERSION || address->rank != rank)
        return tt_fail(TUTTI_INVALID_USAGE,
            "rank %d sent no address of this release's shm transport (version %u; legal: %d)", rank,
            address->version, TT_SHM_VERSION);
    peer->arena = tt_arena_find(address->uuid); /* a reference that close gives back */
    if (peer->arena == NULL) /* it was not introduced, as processes of one host are */
        return TUTTI_OK;
    peer->same = peer->arena->own;
    peer->pid = address->pid;
    peer->control = (struct tt_shm_control *)(peer->arena->base + address->offset);
    if (address->bytes != e->shape.bytes || address->offset > peer->arena->bytes ||
        address->bytes > peer->arena->bytes - address->offset || address->offset % 64 != 0)
        return tell_shape(e, rank);
    if (!is_there(peer->control, address))
        return tell_left(rank, e->head.me);
    if (!same_shape(e->control, peer->control))
        return tell_shape(e, rank);
    peer->bell = &peer->control->bell;
    if (rank == e->head.me)
        return TUTTI_OK;
    peer->held = claim(e, peer, address->token);
    if (!peer->held)
        return tell_left(rank, e->head.me);
    e->bells[e->nbells++] = peer->bell;
    peer->open = !peer->same && e->pull != TT_PULL_OFF &&
                 tt_shm_probe(address->pid, address->probe_at, address->probe);
    return TUTTI_OK;
}

static tutti_status connect_endpoint(struct tt_endpoint *head, const uint8_t *addresses)
{
    struct tt_shm_endpoint *e = (struct tt_shm_endpoint *)head;
    tutti_status status = TUTTI_OK;
    for (int rank = 0; rank < head->n && status == TUTTI_OK; rank++) {
        struct address address;
        memcpy(&address, addresses + (size_t)rank * TT_ADDRESS_BYTES, sizeof address);
        status = connect_peer(e, rank, &address);
    }
    tt_arena_drop_held();
    if (status != TUTTI_OK)
        return status;
    head->light = true;
    for (int rank = head->n - 1; rank >= 0; rank--) {
        if (e->peers[rank].control == NULL)
            continue;
        for (unsigned class = 0; class < TT_CLASSES; class ++)
            tt_shm_channel_init(e, class, rank);
        head->ended = e->aborted = &e->peers[rank].control->aborted;
        head->local_aborts = e->alone.count = &e->peers[rank].control->local_aborts;
        head->words = e->shape.words > 0 ? tt_shm_at(e->peers[rank].control, e->shape.words) : NULL;
        head->light = head->light && e->peers[rank].control->fences == 1;
    }
    tt_shm_measure_posts(e);
    e->connected = true;
    return TUTTI_OK;
}

/* A peer's segment may be freed as soon as the hold on it is gone, so that comes last. */
static void close_endpoint(struct tt_endpoint *head)
{
    struct tt_shm_endpoint *e = (struct tt_shm_endpoint *)head;
    if (!atomic_load(&head->gone))
        atomic_store_explicit(&e->control->left, TT_SHM_CLOSED, memory_order_release);
    tt_doorbell_ring_many(e->bells, e->nbells);
    for (int rank = 0; rank < head->n; rank++)
        if (e->peers[rank].held) {
            _Atomic uint32_t *holders = tt_shm_at(e->peers[rank].control, e->shape.holders);
            atomic_store_explicit(&holders[head->me], TT_SHM_GONE, memory_order_release);
        }
    tt_shm_segment_free_later(e);
    free_endpoint(e);
}

static void bequeath(struct tt_endpoint *head, struct tt_arena_share *memory)
{
    ((struct tt_shm_endpoint *)head)->deferred->bequeathed = memory;
}

static const struct tt_memory_ops memory_ops = {
    .present = present,
    .introduce = introduce,
    .settle = tt_arena_drop_held,
    .tidy = tt_shm_tidy,
    .bequeath = bequeath,
};

const struct tt_transport tt_shm = {
    .name = "shm",
    .address_bytes = TT_ADDRESS_BYTES,
    .open = open_endpoint,
    .connect = connect_endpoint,
    .close = close_endpoint,
    .memory = &memory_ops,
};
