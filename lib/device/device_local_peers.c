/* SPDX-License-Identifier: BSD-3-Clause */
/* device_local_peers.c: ranks of one process wait for each other on the host.
 *
 * Streams of one process may share a hardware queue, and then a wait of one rank stands before what another
 * rank enqueues later, even if that is what would end it:
 *
 *     rank 0: in | wait          one queue: in 0 | wait 0 | in 1 | wait 1 ...
 *     rank 1:       in | wait    rank 0's worker needs what rank 1 has in, and that comes after wait 0
 *
 * Nor do ranks on different devices of a process progress by themselves. What allocates or frees takes locks
 * of the whole process and keeps them until a device is idle, and who enqueues waits for them meanwhile:
 *
 *     rank 0, device 0: in | wait            the wait ends when rank 1 has its part in,
 *     any thread:                 free       which needs the lock,
 *     rank 1, device 1:                in    which is free when the wait has ended
 *
 * So before a rank enqueues a wait, all that are with it in one process must have enqueued what goes in. Who
 * is early waits here, on the host; ranks of one thread therefore call in a group. A rank that has a process
 * to itself waits for nobody. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "base/wait.h"
#include "device/device.h"
#include "device/device_local.h"
#include "base/fork.h"

struct member {
    _Atomic bool here;
    const void *context;
    int device;
    _Atomic uint64_t place; /* of collectives, cyclic: the operation, and in the low half its slices */
    _Atomic uint32_t *in; /* of messages, per gate: slices that are in */
    struct tt_pairs *pairs; /* NULL: its messages go by the host */
    _Atomic int order; /* of joining, from 1 on; 0: it has not */
};

struct tt_local_peers {
    uint64_t id; /* of the communicator */
    int n, users;
    int joined; /* so far */
    struct tt_local_kernel *kernel; /* once all ranks are here */
    bool busy; /* the stream of one that has left is not through */
    tt_spin_slot spin;
    struct tt_doorbell told; /* who waits for another one's place sleeps here */
    struct tt_local_peers *next;
    struct member members[];
};

static struct tt_local_peers *all_local_peers;
static pthread_mutex_t local_peers_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_LOCAL_PEERS, &local_peers_lock, NULL);
}

static struct tt_local_peers *find_or_make(const struct tt_comm *comm)
{
    struct tt_local_peers *c = all_local_peers;
    while (c != NULL && (c->id != comm->identity.id || c->n != comm->n))
        c = c->next;
    if (c != NULL)
        return c;
    size_t bytes = sizeof *c + (size_t)comm->n * sizeof c->members[0];
    size_t line = _Alignof(struct tt_local_peers);
    c = aligned_alloc(line, (bytes + line - 1) / line * line);
    if (c == NULL)
        return NULL;
    memset(c, 0, bytes);
    c->id = comm->identity.id;
    c->n = comm->n;
    c->next = all_local_peers;
    all_local_peers = c;
    return c;
}

/* The last rank makes it, and the others have not been told yet that all are connected. */
static tutti_status make_kernel(const struct tt_comm *comm, struct tt_local_peers *c)
{
    int before;
    for (int r = 0; r < c->n; r++)
        if (c->members[r].device != comm->device->number || c->members[r].context != comm->device->context)
            return TUTTI_OK;
    tutti_status status = tt_device_enter(comm->device, &before);
    if (status != TUTTI_OK)
        return status;
    status = tt_local_create(comm, &c->kernel);
    tt_device_leave(comm->device, before);
    if (status == TUTTI_OK || comm->device->lacks.words != NULL)
        return status;
    tt_log(TT_LOG_WARN, "%s: %s; its calls go by the host's memory", comm->identity.name, tt_last_error());
    return TUTTI_OK;
}

tt_spin_slot *tt_local_peers_slot(const struct tt_device *d)
{
    return d->local_peers != NULL ? &d->local_peers->spin : NULL;
}

struct tt_local_kernel *tt_local_peers_kernel(const struct tt_comm *comm)
{
    return comm->device->local_peers->kernel;
}

const char *tt_local_peers_why_not(const struct tt_comm *comm)
{
    const struct tt_local_peers *c = comm->device->local_peers;
    if (comm->settings.executor == TT_EXECUTOR_HOST)
        return "the setting executor is host";
    if (comm->n < 2 || comm->n > TT_LOCAL_RANKS)
        return "it serves 2 to 8 ranks";
    for (int r = 0; r < c->n; r++)
        if (atomic_load(&c->members[r].order) == 0)
            return "not all ranks are in one process";
    for (int r = 0; r < c->n; r++)
        if (c->members[r].device != comm->device->number)
            return "not all ranks are on one device";
        else if (c->members[r].context != comm->device->context)
            return "ranks are in several contexts";
    return "the device could not, as the log says";
}

struct tt_pairs *tt_local_peers_pairs(const struct tt_comm *comm)
{
    return comm->device->local_peers->members[comm->rank].pairs;
}

struct tt_doorbell *tt_local_peers_bell(const struct tt_comm *comm)
{
    return &comm->device->local_peers->told;
}

/* The later of two ranks links them, before the earlier one is told that all are connected; and each itself,
 * for what it sends to itself. */
static tutti_status link_pairs(const struct tt_comm *comm, struct tt_local_peers *c)
{
    const struct member *me = &c->members[comm->rank];
    int before;
    bool linked = true;
    tutti_status status = me->pairs != NULL ? tt_device_enter(comm->device, &before) : TUTTI_OK;
    if (status != TUTTI_OK || me->pairs == NULL)
        return status;
    for (int r = 0; r < c->n; r++) {
        const struct member *other = &c->members[r];
        int order = atomic_load(&other->order);
        if (order > 0 && order <= atomic_load(&me->order) && other->pairs != NULL &&
            other->device == me->device && other->context == me->context)
            linked = tt_pairs_link(me->pairs, comm->rank, other->pairs, r) && linked;
    }
    if (!linked)
        tt_log(TT_LOG_WARN, "%s: rank %d: no memory or events; some messages go by the host's memory",
            comm->identity.name, comm->rank);
    tt_device_leave(comm->device, before);
    return TUTTI_OK;
}

/* With the lock: takes this rank's place. */
static void take_place(
    const struct tt_comm *comm, struct tt_local_peers *c, _Atomic uint32_t *in, struct tt_pairs *pairs)
{
    const struct tt_device *d = comm->device;
    struct member *me = &c->members[comm->rank];
    me->in = in;
    me->pairs = pairs;
    me->context = d->context;
    me->device = d->number;
    atomic_init(&me->place, d->operations << 32);
    atomic_store_explicit(&me->here, true, memory_order_release);
    c->users++;
    atomic_store(&me->order, ++c->joined);
}

tutti_status tt_local_peers_join(struct tt_comm *comm)
{
    struct tt_device *d = comm->device;
    struct tt_local_peers *c = NULL;
    struct tt_pairs *pairs = NULL;
    bool alone = comm->n == 1 && d->lacks.words == NULL, all = false;
    bool decides = !alone && comm->settings.executor != TT_EXECUTOR_HOST;
    _Atomic uint32_t *in = calloc(d->ngates, sizeof *in);
    for (uint32_t gate = 0; in != NULL && gate < d->ngates; gate++)
        atomic_init(&in[gate], d->counts[gate]);
    tutti_status status = decides && comm->n <= TT_PAIR_RANKS ? tt_pairs_create(comm, &pairs) : TUTTI_OK;
    if (status == TUTTI_OK && in != NULL) {
        pthread_mutex_lock(&local_peers_lock);
        c = find_or_make(comm);
        if (c != NULL)
            take_place(comm, c, in, pairs);
        all = c != NULL && c->users == c->n && decides && c->n <= TT_LOCAL_RANKS;
        pthread_mutex_unlock(&local_peers_lock);
    }
    d->local_peers = c;
    if (c == NULL) {
        free(in);
        tt_pairs_free(pairs, true);
        return status != TUTTI_OK
                   ? status
                   : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the ranks of this process on devices");
    }
    status = link_pairs(comm, c);
    return status == TUTTI_OK && all ? make_kernel(comm, c) : status;
}

static void unlink_peers(const struct tt_local_peers *c)
{
    struct tt_local_peers **at = &all_local_peers;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

void tt_local_peers_leave(struct tt_comm *comm)
{
    struct tt_local_peers *c = comm->device->local_peers;
    if (c == NULL)
        return;
    atomic_store_explicit(&c->members[comm->rank].here, false, memory_order_release);
    tt_doorbell_ring(&c->told);
}

void tt_local_peers_free(struct tt_device *d, bool drained)
{
    struct tt_local_peers *c = d->local_peers;
    if (c == NULL)
        return;
    d->local_peers = NULL;
    pthread_mutex_lock(&local_peers_lock);
    c->busy |= !drained;
    bool last = --c->users == 0;
    if (last)
        unlink_peers(c);
    pthread_mutex_unlock(&local_peers_lock);
    if (!last)
        return;
    if (c->kernel != NULL)
        tt_local_free(c->kernel, !c->busy);
    tt_spin_home_leave(atomic_load(&c->spin), d->dev, !c->busy);
    for (int r = 0; r < c->n; r++) {
        free(c->members[r].in);
        tt_pairs_free(c->members[r].pairs, !c->busy);
    }
    free(c);
}

/* Returns the gate at the peer's end of a message. */
static uint32_t other_gate(const struct tt_comm *comm, const struct tt_rendezvous *m)
{
    return tt_device_gate(comm->rank, !m->receives);
}

void tt_local_peers_tell(struct tt_comm *comm, const struct tt_rendezvous *m, uint32_t slices)
{
    struct tt_local_peers *c = comm->device->local_peers;
    struct member *me = &c->members[comm->rank];
    if (m->peer != TT_NONE)
        atomic_store_explicit(
            &me->in[tt_device_gate(m->peer, m->receives)], m->gate->base + slices, memory_order_release);
    else
        atomic_store_explicit(&me->place,
            m->operation << 32 | (slices < m->gate->slices ? slices : UINT32_MAX), memory_order_release);
    tt_doorbell_ring(&c->told);
}

static bool is_there(const struct tt_comm *comm, int rank, const struct tt_rendezvous *m, uint32_t slices)
{
    struct member *other = &comm->device->local_peers->members[rank];
    if (rank == comm->rank || !atomic_load_explicit(&other->here, memory_order_acquire))
        return true;
    uint64_t place = m->operation << 32 | slices;
    if (m->peer == TT_NONE)
        return (int64_t)(atomic_load_explicit(&other->place, memory_order_acquire) - place) >= 0;
    uint32_t in = atomic_load_explicit(&other->in[other_gate(comm, m)], memory_order_acquire);
    return (int32_t)(in - m->gate->base - slices) >= 0;
}

bool tt_local_peers_are_there(const struct tt_comm *comm, const struct tt_rendezvous *m, uint32_t slices)
{
    bool all = true;
    for (int r = 0; r < comm->n && all; r++)
        all = is_there(comm, r, m, slices);
    return all;
}

bool tt_local_peers_share(const struct tt_comm *comm, int rank)
{
    const struct member *other = &comm->device->local_peers->members[rank];
    return atomic_load_explicit(&other->here, memory_order_acquire) && other->device == comm->device->number;
}

/* This wait ends: the worker has the call already, and ends the communicator if a rank is missing too
 * long. */
static tutti_status await(
    struct tt_comm *comm, const struct tt_rendezvous *m, int first, int last, uint32_t slices)
{
    tutti_status status = TUTTI_OK;
    struct tt_doorbell *bell = &comm->device->local_peers->told;
    struct tt_wait w;
    tt_wait_begin(&w, comm->waiting.policy, &bell, 1);
    for (int r = first; r <= last && status == TUTTI_OK; r++)
        while (status == TUTTI_OK && !is_there(comm, r, m, slices)) {
            tt_wait_idle(&w);
            status = tt_comm_check(comm);
        }
    if (status != TUTTI_OK)
        tt_doorbell_ring_always(bell); /* this wait ends for another reason than a ring */
    tt_wait_awake(&w);
    return status;
}

tutti_status tt_local_peers_await(struct tt_comm *comm, const struct tt_rendezvous *m, uint32_t slices)
{
    bool message = m->peer != TT_NONE;
    return await(comm, m, message ? m->peer : 0, message ? m->peer : comm->n - 1, slices);
}

tutti_status tt_local_peers_await_one(
    struct tt_comm *comm, const struct tt_rendezvous *m, int rank, uint32_t slices)
{
    return await(comm, m, rank, rank, slices);
}
