/* SPDX-License-Identifier: BSD-3-Clause */
/* registration.h: memory that a user says that calls of a communicator will use. */
#ifndef TT_REGISTRATION_H
#define TT_REGISTRATION_H
#include "run/comm.h"
#include "tutti.h"

/* The work of tutti_mem_register, tutti_mem_deregister and
 * tutti_mem_address_at, after the handle of the communicator was found. */
tutti_status tt_register(struct tt_comm *comm, void *ptr, size_t bytes, tutti_registration **registration);
tutti_status tt_deregister(struct tt_comm *comm, tutti_registration *registration);
/* *there: where that rank has it; NULL: it does not. */
tutti_status tt_registration_at(
    struct tt_comm *comm, tutti_registration *registration, int rank, void **there);
/* The communicator ends: so do its registrations, and their handles are dead. */
void tt_registrations_end(struct tt_comm *comm);

#endif
