/* SPDX-License-Identifier: BSD-3-Clause */
/* lifecycle.h: how communicators are made, awaited and ended. */
#ifndef TT_LIFECYCLE_H
#define TT_LIFECYCLE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "run/comm.h"
#include "tutti.h"

/* Open an endpoint; the address is for the others. `settings` must hold rank 0's shared ones already. */
tutti_status tt_comm_open(int n, int rank, const struct tt_settings *settings, const tutti_config *config,
    uint8_t *address, struct tt_comm **comm);
/* With everybody's addresses and domains. On failure the caller destroys. */
tutti_status tt_comm_connect(struct tt_comm *comm, const uint8_t *addresses, const int32_t *domain_of);
void tt_comm_destroy(struct tt_comm *comm);

/* Hand `mine` in and get everybody's, in rank order; the bytes are the same on all ranks. */
typedef tutti_status (*tt_exchange_fn)(void *context, const void *mine, uint64_t bytes, void *all);
enum { TT_ENDPOINT_INFO_BYTES = TT_ADDRESS_MAX + 16 };
/* Room for the words of n ranks, to be taken before the first exchange: between two exchanges nobody may
 * fail alone. NULL, with the thread's last error set, if there is none. */
void *tt_comm_room(int n);
/* Open, exchange (TT_ENDPOINT_INFO_BYTES), connect, exchange (4 bytes): always two exchanges, also by a rank
 * that fails, so that nobody waits for it. One rank's failure is everybody's. `domain`: this rank's cache
 * domain; NULL: as the settings say. */
tutti_status tt_comm_establish(int n, int rank, const struct tt_settings *settings,
    const tutti_config *config, const int32_t *domain, tt_exchange_fn exchange, void *context, void *room,
    tutti_comm **comm);
/* The cache domain of a rank of n, as the settings say: by a text, or by where this process is bound. */
tutti_status tt_comm_domain(const struct tt_settings *settings, int n, int rank, int32_t *domain);
/* Everybody's status by one exchange of 4 bytes: the own failure, else the first of another rank. */
tutti_status tt_comm_agree(
    tt_exchange_fn exchange, void *context, int n, int rank, tutti_status mine, void *room);

/* Makes the handle of a communicator (handle.h), and tells it that. */
tutti_status tt_handle_create(struct tt_comm *comm, tutti_comm **handle);

/* What tutti_comm_init_rank and tutti_comm_init_all do at once, when sizes and pointers are checked
 * (init.c). */
tutti_status tt_init_rank(int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm);
tutti_status tt_init_all(int n, const int *devices, const tutti_config *config, tutti_comm **comms);
/* Tells init_progress.h that this thread begins to make a communicator. False if the thread was doing that
 * already, or if the config is not legal. */
bool tt_init_begin(const tutti_config *config);

/* All calls of this communicator that are queued are over, and so is a replay that its device has reached;
 * then its sticky error, if there is one. Only for who may call on the communicator. */
tutti_status tt_comm_await(struct tt_comm *comm);
static inline tutti_status tt_comm_turn(struct tt_comm *comm)
{
    bool idle = comm->device == NULL && atomic_load_explicit(&comm->queued, memory_order_acquire) == 0;
    return idle ? TUTTI_OK : tt_comm_await(comm);
}
/* The handle is dead: free the communicator, or leave that to the last queued item that has it; then its
 * calls have been aborted, and none of them is running when this returns. */
void tt_comm_let_go(struct tt_comm *comm);

#endif
