/* SPDX-License-Identifier: BSD-3-Clause */
/* api_comm.c: the public functions about communicators, devices and memory. Those that make communicators are
 * in api_init.c and split.c, those that end them in ends.c. */
#include <string.h>
#include <unistd.h>

#include "comm/async_init.h"
#include "base/status.h"
#include "bootstrap/bootstrap.h"
#include "device/dev.h"
#include "device/device.h"
#include "base/handle.h"
#include "comm/lifecycle.h"
#include "comm/registration.h"
#include "run/settings.h"
#include "transports/arena.h"

tutti_status tutti_get_id(tutti_id *id)
{
    struct tt_settings settings;
    if (id == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "get_id: id is NULL");
    tutti_status status = tt_comm_settings(NULL, &settings);
    return status == TUTTI_OK ? tt_bootstrap_create_for_hosts(id, tt_comm_timeout(&settings, NULL)) : status;
}

int tutti_comm_rank(const tutti_comm *comm)
{
    const struct tt_comm *c = tt_comm_find(comm);
    return c != NULL ? c->rank : -1;
}

int tutti_comm_size(const tutti_comm *comm)
{
    const struct tt_comm *c = tt_comm_find(comm);
    return c != NULL ? c->n : -1;
}

int tutti_comm_device(const tutti_comm *comm)
{
    const struct tt_comm *c = tt_comm_find(comm);
    return c != NULL && c->device != NULL ? c->device->number : -1;
}

tutti_status tutti_comm_state(const tutti_comm *comm)
{
    tutti_error error;
    if (tt_async_init_state(comm, &error)) {
        if (error.status != TUTTI_IN_PROGRESS)
            tt_set_last_error(error.text);
        return error.status;
    }
    struct tt_comm *c = tt_comm_find(comm);
    return c != NULL ? tt_comm_check(c) : tt_handle_fault(comm);
}

static void tell_cause(const struct tt_comm *c, tutti_error *known)
{
    struct tt_cause cause;
    if (!c->endpoint->control->cause(c->endpoint, &cause))
        return;
    known->status = (tutti_status)cause.status;
    known->rank = cause.rank;
    known->peer = cause.peer == TT_NONE ? -1 : cause.peer;
    known->sequence = cause.sequence;
    memcpy(known->operation, cause.operation, sizeof known->operation);
    memcpy(known->text, cause.text, sizeof known->text);
}

tutti_status tutti_comm_get_error(const tutti_comm *comm, tutti_error *error)
{
    if (error == NULL || error->size < sizeof error->size + sizeof error->status)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "get_error: %s; set error->size to sizeof(tutti_error), %zu",
            error == NULL ? "error is NULL" : "error->size is too small", sizeof *error);
    tutti_error known = { .size = error->size, .rank = -1, .peer = -1 };
    if (!tt_async_init_state(comm, &known)) {
        const struct tt_comm *c = tt_comm_find(comm);
        if (c == NULL)
            return tt_handle_fault(comm);
        tell_cause(c, &known);
    }
    memcpy(error, &known, error->size < sizeof known ? error->size : sizeof known);
    return TUTTI_OK;
}

const char *tutti_get_last_error(const tutti_comm *comm)
{
    if (comm == NULL)
        return tt_last_error();
    if (tt_handle_is(TT_HANDLE_PENDING, comm)) /* or ready since: then the same holds */
        return tutti_comm_state(comm) < 0 ? tt_last_error() : "";
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_last_error();
    return tt_comm_check(c) != TUTTI_OK ? tt_last_error() : "";
}

tutti_status tutti_comm_refuse(tutti_comm *comm, int peer, const char *why)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    if (peer < -1 || peer >= c->n)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "refuse: peer is %d; legal: 0 to %d, or -1", peer, c->n - 1);
    if (why == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "refuse: why is NULL; pass the reason");
    tutti_status status = tt_comm_check(c);
    if (status == TUTTI_OK)
        tt_comm_tell_refusal(c, peer >= 0 ? peer : TT_NONE, why);
    return status;
}

tutti_status tutti_comm_traffic(tutti_comm *comm, tutti_traffic *traffic)
{
    tutti_status status = tt_traffic_check(traffic, "comm_traffic");
    if (status != TUTTI_OK)
        return status;
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    tt_comm_turn(c); /* its sticky error does not matter: what was done before was done */
    tutti_traffic known = tt_traffic_total(c);
    tt_traffic_give(traffic, &known);
    return TUTTI_OK;
}

tutti_status tutti_device_count(int *count)
{
    struct tt_settings settings;
    if (count == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "device_count: count is NULL");
    tutti_status status = tt_comm_settings(NULL, &settings);
    return status == TUTTI_OK ? tt_dev_count(settings.device_library, count) : status;
}

tutti_status tutti_mem_alloc(size_t bytes, tutti_mem_kind kind, void **ptr)
{
    if (ptr == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "mem_alloc: ptr is NULL");
    if (kind != TUTTI_MEM_HOST && kind != TUTTI_MEM_CUDA)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "mem_alloc: kind is %d; legal: TUTTI_MEM_HOST (0), or TUTTI_MEM_CUDA (1), of this thread's "
            "device",
            (int)kind);
    bytes = bytes > 0 ? bytes : 1;
    return kind == TUTTI_MEM_CUDA ? tt_device_memory_alloc(bytes, ptr) : tt_arena_alloc(bytes, ptr);
}

tutti_status tutti_mem_free(void *ptr)
{
    tutti_status status = TUTTI_OK;
    return ptr == NULL || tt_device_memory_free(ptr, &status) ? status : tt_arena_free(ptr);
}

tutti_status tutti_mem_register(tutti_comm *comm, void *ptr, size_t bytes, tutti_registration **registration)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    if (ptr == NULL || registration == NULL)
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "mem_register: %s is NULL", ptr == NULL ? "ptr" : "registration");
    if (bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)ptr)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "mem_register: bytes is %zu; legal: 1 or more, that lie behind ptr, %p", bytes, ptr);
    tutti_status status = tt_comm_check(c);
    return status == TUTTI_OK ? tt_register(c, ptr, bytes, registration) : status;
}

tutti_status tutti_mem_deregister(tutti_comm *comm, tutti_registration *registration)
{
    struct tt_comm *c = tt_comm_find(comm);
    return c != NULL ? tt_deregister(c, registration) : tt_handle_fault(comm);
}

tutti_status tutti_mem_address_at(tutti_comm *comm, tutti_registration *registration, int rank, void **there)
{
    struct tt_comm *c = tt_comm_find(comm);
    if (c == NULL)
        return tt_handle_fault(comm);
    if (there == NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "mem_address_at: there is NULL");
    if (rank < 0 || rank >= c->n)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "mem_address_at: rank is %d; legal: 0 to %d", rank, c->n - 1);
    tutti_status status = tt_comm_check(c);
    return status == TUTTI_OK ? tt_registration_at(c, registration, rank, there) : status;
}
