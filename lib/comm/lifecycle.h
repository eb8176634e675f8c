/* SPDX-License-Identifier: BSD-3-Clause */
/* lifecycle.h: how communicators are made, awaited and ended. */
#ifndef TT_LIFECYCLE_H
#define TT_LIFECYCLE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "run/comm.h"
#include "tutti.h"

/* Opens an endpoint. `address` is set to its address, which the other ranks need. `settings` must hold
 * rank 0's shared ones already. `host_of` is the host of each rank; NULL: all are on one. */
tutti_status tt_comm_open(int n, int rank, const struct tt_settings *settings, const tutti_config *config,
    const int32_t *host_of, uint8_t *address, struct tt_comm **comm);
/* A communicator without a name is called by its number, "comm-3", the same on all ranks: each offers the
 * next that it knows of, and the highest is taken. So a process has no two of one number, unless it makes
 * them at once. Called before tt_comm_connect. */
uint32_t tt_comm_next_number(void);
void tt_comm_number(struct tt_comm *comm, uint32_t number);
/* Connects to all ranks by their addresses. On failure the caller destroys the communicator. */
tutti_status tt_comm_connect(struct tt_comm *comm, const uint8_t *addresses, const int32_t *domain_of);
void tt_comm_destroy(struct tt_comm *comm);

/* Hands in `mine` and gets what all handed in, in rank order; the number of bytes is the same on all ranks,
 * 0 to agree on going on and on nothing else. A rank whose `status` is a failure takes part, too: its words
 * are the thread's last error. Then all ranks fail: that one by what it said, the others by the same with
 * its rank before it. */
typedef tutti_status (*tt_exchange_fn)(
    void *context, tutti_status status, const void *mine, uint64_t bytes, void *all);
/* The words of another rank's failure. */
#define TT_FAILURE_OF "rank %d could not make its end of the communicator: %s"
enum { TT_ENDPOINT_INFO_BYTES = TT_ADDRESS_MAX + 24 + 104 };
/* Allocates memory for the exchanges of n ranks, before the first: between two exchanges no rank may fail
 * alone. NULL, with the thread's last error set, if there is none. */
void *tt_comm_room(int n);
/* Makes a communicator: open, exchange (TT_ENDPOINT_INFO_BYTES), connect, exchange (0 bytes; or what probe.h
 * has in its place); after an exchange that failed there is none. One rank's failure is everybody's.
 * `domain` is this rank's cache domain; NULL: as the settings say. `host_of` as for tt_comm_open. */
tutti_status tt_comm_establish(int n, int rank, const struct tt_settings *settings,
    const tutti_config *config, const int32_t *domain, const int32_t *host_of, tt_exchange_fn exchange,
    void *context, void *room, tutti_comm **comm);
/* Sets the cache domain of a rank of n as the settings say: by a text, or by where this process is bound. */
tutti_status tt_comm_domain(const struct tt_settings *settings, int n, int rank, int32_t *domain);

/* Ranks tell each other of their devices, before they connect; see whether these can serve such ranks; and
 * find out, when they connect, in the same order on all, what may serve calls there. `stride` bytes are
 * between two ranks' infos. At last, when all are connected: makes what that needs, of all communicators that
 * this thread makes together, which may wait as allocation does. */
struct tt_device_info;
tutti_status tt_comm_tell_device(const struct tt_comm *comm, struct tt_device_info *info);
tutti_status tt_comm_check_devices(
    const struct tt_comm *comm, const struct tt_device_info *infos, size_t stride);
tutti_status tt_comm_connect_devices(struct tt_comm *comm, const struct tt_device_info *infos, size_t stride);
void tt_comm_open_devices(struct tt_comm *const *comms, int count);

/* Makes the handle of a communicator (handle.h), and stores it in the communicator. */
tutti_status tt_comm_handle_create(struct tt_comm *comm, tutti_comm **handle);

/* These do the work of tutti_comm_init_rank and tutti_comm_init_all, after sizes and pointers were checked
 * (init.c). */
tutti_status tt_init_rank(int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm);
/* The same, with settings that were read. */
tutti_status tt_init_rank_with(int n, int rank, const tutti_id *id, const struct tt_settings *settings,
    const tutti_config *config, tutti_comm **comm);
/* In place of tt_init_rank: tells the other ranks that this one cannot take part, by `status` and the
 * thread's last error, which stays. Returns the status. id NULL: the launcher says n, rank and id. It waits
 * for who made the id as tt_init_rank would. */
tutti_status tt_init_refuse(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_status status);
tutti_status tt_init_all(int n, const int *devices, const tutti_config *config, tutti_comm **comms);
/* Tells init_progress.h that this thread begins to make a communicator. False if the thread was doing that
 * already, or if the config is not legal. */
bool tt_init_begin(const tutti_config *config);

/* Waits until all calls of this communicator that are queued are over, and a replay that its device has
 * reached; then returns its sticky error, if there is one. Only a thread that may call on the communicator
 * may wait so. */
tutti_status tt_comm_await(struct tt_comm *comm);
static inline tutti_status tt_comm_turn(struct tt_comm *comm)
{
    bool idle =
        comm->device == NULL && atomic_load_explicit(&comm->streams.queued, memory_order_acquire) == 0;
    return idle ? TUTTI_OK : tt_comm_await(comm);
}
/* True if nothing that this rank has called is left to do, on streams, or of a replay that its device has
 * reached, within this time (-1: no bound). Not so if the communicator ended before; tt_comm_check tells. */
bool tt_comm_is_over(struct tt_comm *comm, int64_t timeout_ms);
/* Frees a communicator whose handle is dead, or leaves that to the last queued work item that has a call
 * on it. In that case its calls have been aborted, and none of them is running when this returns. */
void tt_comm_let_go(struct tt_comm *comm);

#endif
