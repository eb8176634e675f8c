/* SPDX-License-Identifier: BSD-3-Clause */
/* registration.c: a registration is an object of its communicator. What it comes to is the device's business,
 * and where there is none, or nobody to whom memory could be handed over, it is nothing. */
#include "comm/registration.h"

#include <stdlib.h>

#include "base/handle.h"
#include "base/status.h"
#include "device/device.h"

struct tt_registration {
    void *handle, *ptr;
    size_t bytes;
    struct tt_registration *next;
    struct tt_device_registration of_device;
};

tutti_status tt_register(struct tt_comm *comm, void *ptr, size_t bytes, tutti_registration **registration)
{
    void *handle;
    struct tt_registration *r = calloc(1, sizeof *r);
    if (r == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "mem_register: no memory for a registration");
    tutti_status status = tt_handle_create(TT_HANDLE_REGISTRATION, r, &handle);
    if (status != TUTTI_OK)
        goto drop;
    if (comm->device != NULL)
        status = tt_device_register(comm->device, ptr, bytes, &r->of_device);
    if (status != TUTTI_OK)
        goto drop_handle;
    r->handle = handle;
    r->ptr = ptr;
    r->bytes = bytes;
    r->next = comm->registrations;
    comm->registrations = r;
    *registration = handle;
    return TUTTI_OK;
drop_handle:
    tt_handle_take(TT_HANDLE_REGISTRATION, handle);
drop:
    free(r);
    return status;
}

/* The link to it in the communicator's list; NULL: it is none of these, which is said. */
static struct tt_registration **find(
    struct tt_comm *comm, const char *function, tutti_registration *registration)
{
    const struct tt_registration *found = tt_handle_find(TT_HANDLE_REGISTRATION, registration);
    if (found == NULL) {
        tt_handle_fault(registration);
        return NULL;
    }
    struct tt_registration **at = &comm->registrations;
    while (*at != NULL && *at != found)
        at = &(*at)->next;
    if (*at != NULL)
        return at;
    tt_fail(TUTTI_INVALID_ARGUMENT, "%s: this registration is another communicator's", function);
    return NULL;
}

tutti_status tt_deregister(struct tt_comm *comm, tutti_registration *registration)
{
    struct tt_registration **at = find(comm, "mem_deregister", registration);
    if (at == NULL)
        return TUTTI_INVALID_ARGUMENT;
    struct tt_registration *r = *at;
    *at = r->next;
    tt_handle_take(TT_HANDLE_REGISTRATION, registration);
    if (comm->device != NULL)
        tt_device_deregister(comm->device, &r->of_device);
    free(r);
    return TUTTI_OK;
}

tutti_status tt_registration_at(
    struct tt_comm *comm, tutti_registration *registration, int rank, void **there)
{
    struct tt_registration **at = find(comm, "mem_address_at", registration);
    if (at == NULL)
        return TUTTI_INVALID_ARGUMENT;
    bool mine = rank == comm->rank;
    *there = mine                   ? (*at)->ptr
             : comm->device != NULL ? tt_device_address_at(comm->device, (*at)->ptr, (*at)->bytes, rank)
                                    : NULL;
    return TUTTI_OK;
}

void tt_registrations_end(struct tt_comm *comm)
{
    for (struct tt_registration *r; (r = comm->registrations) != NULL;) {
        comm->registrations = r->next;
        tt_handle_take(TT_HANDLE_REGISTRATION, r->handle);
        free(r);
    }
}
