/* SPDX-License-Identifier: BSD-3-Clause */
/* device_company.c: ranks of one process on one device meet on the host.
 *
 * Streams of one process may share a hardware queue, and then a wait of one rank stands before what another
 * rank enqueues later, even if that is what would end it:
 *
 *     rank 0: in | wait          one queue: in 0 | wait 0 | in 1 | wait 1 ...
 *     rank 1:       in | wait    rank 0's worker needs what rank 1 has in, and that comes after wait 0
 *
 * So before a rank enqueues a wait, all that are with it in one process on one device must have enqueued what
 * goes in. Who is early waits here, on the host; ranks of one thread therefore call in a group. A rank that
 * has a process, or a device, to itself waits for nobody. */
#include <pthread.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/wait.h"
#include "device/device.h"
#include "base/fork.h"

struct member {
    _Atomic bool here;
    _Atomic uint64_t place; /* of collectives, cyclic: the operation, and in the low half its slices */
    _Atomic uint32_t *in; /* of messages, per gate: slices that are in */
};

struct tt_company {
    uint64_t id; /* of the communicator */
    int device, n, users;
    struct tt_company *next;
    struct member members[];
};

static struct tt_company *companies;
static pthread_mutex_t companies_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_COMPANIES, &companies_lock, NULL);
}

static struct tt_company *find_or_make(const struct tt_comm *comm)
{
    struct tt_company *c = companies;
    while (c != NULL && (c->id != comm->id || c->device != comm->device->number || c->n != comm->n))
        c = c->next;
    if (c != NULL)
        return c;
    c = calloc(1, sizeof *c + (size_t)comm->n * sizeof c->members[0]);
    if (c == NULL)
        return NULL;
    c->id = comm->id;
    c->device = comm->device->number;
    c->n = comm->n;
    c->next = companies;
    companies = c;
    return c;
}

tutti_status tt_company_join(struct tt_comm *comm)
{
    struct tt_device *d = comm->device;
    _Atomic uint32_t *in = calloc(d->ngates, sizeof *in);
    for (uint32_t gate = 0; in != NULL && gate < d->ngates; gate++)
        atomic_init(&in[gate], d->counts[gate]);
    pthread_mutex_lock(&companies_lock);
    struct tt_company *c = in != NULL ? find_or_make(comm) : NULL;
    if (c != NULL) {
        c->users++;
        c->members[comm->rank].in = in;
        atomic_init(&c->members[comm->rank].place, d->operations << 32);
        atomic_store_explicit(&c->members[comm->rank].here, true, memory_order_release);
    }
    pthread_mutex_unlock(&companies_lock);
    d->company = c;
    if (c != NULL)
        return TUTTI_OK;
    free(in);
    return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the ranks of device %d", d->number);
}

static void unlink_company(const struct tt_company *c)
{
    struct tt_company **at = &companies;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

void tt_company_leave(struct tt_comm *comm)
{
    struct tt_company *c = comm->device->company;
    if (c == NULL)
        return;
    comm->device->company = NULL;
    pthread_mutex_lock(&companies_lock);
    atomic_store_explicit(&c->members[comm->rank].here, false, memory_order_release);
    bool last = --c->users == 0;
    if (last)
        unlink_company(c);
    pthread_mutex_unlock(&companies_lock);
    for (int r = 0; last && r < c->n; r++)
        free(c->members[r].in);
    if (last)
        free(c);
}

/* Of messages: the gate of the peer's end. */
static uint32_t other_gate(const struct tt_comm *comm, const struct tt_meeting *m)
{
    return tt_device_gate(comm->rank, !m->receives);
}

void tt_company_tell(struct tt_comm *comm, const struct tt_meeting *m, uint32_t slices)
{
    struct member *me = &comm->device->company->members[comm->rank];
    if (m->peer != TT_NONE)
        atomic_store_explicit(
            &me->in[tt_device_gate(m->peer, m->receives)], m->gate->base + slices, memory_order_release);
    else
        atomic_store_explicit(&me->place,
            m->operation << 32 | (slices < m->gate->slices ? slices : UINT32_MAX), memory_order_release);
}

static bool is_there(const struct tt_comm *comm, int rank, const struct tt_meeting *m, uint32_t slices)
{
    struct member *other = &comm->device->company->members[rank];
    if (rank == comm->rank || !atomic_load_explicit(&other->here, memory_order_acquire))
        return true;
    uint64_t place = m->operation << 32 | slices;
    if (m->peer == TT_NONE)
        return (int64_t)(atomic_load_explicit(&other->place, memory_order_acquire) - place) >= 0;
    uint32_t in = atomic_load_explicit(&other->in[other_gate(comm, m)], memory_order_acquire);
    return (int32_t)(in - m->gate->base - slices) >= 0;
}

bool tt_company_has(const struct tt_comm *comm, int rank)
{
    return atomic_load_explicit(&comm->device->company->members[rank].here, memory_order_acquire);
}

/* It ends: the worker has the call already, and ends the communicator if a rank is missing too long. */
tutti_status tt_company_meet(struct tt_comm *comm, const struct tt_meeting *m, uint32_t slices)
{
    tutti_status status = TUTTI_OK;
    struct tt_wait w;
    int first = m->peer != TT_NONE ? m->peer : 0, last = m->peer != TT_NONE ? m->peer : comm->n - 1;
    tt_wait_begin(&w, comm->wait_policy, NULL, 0);
    for (int r = first; r <= last && status == TUTTI_OK; r++)
        while (status == TUTTI_OK && !is_there(comm, r, m, slices)) {
            tt_wait_idle(&w);
            status = tt_comm_check(comm);
        }
    tt_wait_awake(&w);
    return status;
}
