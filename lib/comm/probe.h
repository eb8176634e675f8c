/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.h: a communicator that spans several hosts measures the network between them, once, so that it
 * chooses algorithms by what that is (base/link_class.h). */
#ifndef TT_COMM_PROBE_H
#define TT_COMM_PROBE_H
#include <stdatomic.h>

#include "comm/lifecycle.h"

/* What an exchange of all ranks needs: two words for each. */
struct tt_probe_room {
    int32_t *leaders; /* [n] of each host, its first rank */
    uint32_t *links; /* [n] of each rank: 1 + the number of the class of its host's link to the next; 0: it
                      * leads no host, or does not know */
};

/* What this process has found: of two hosts 56 bits of a key, and 1 + the number of a class; 0: nothing. */
enum { TT_PROBED_MOST = 256 };
extern struct tt_probed {
    _Atomic uint64_t known[TT_PROBED_MOST];
    _Atomic uint32_t links; /* that it has measured itself */
} tt_probed;

/* True if the ranks of this communicator, which is open, are to measure: all find the same. */
bool tt_probe_is_due(const struct tt_comm *comm);
/* In place of the last exchange: goes on when all are connected, measures what nobody knows, agrees with all
 * ranks on a class, and sets the costs of the communicator to those of that. `host_keys`: of each rank, what
 * those of its host, and no others, have; `stride` bytes are between two. */
tutti_status tt_probe_network(struct tt_comm *comm, tutti_status status, const uint64_t *host_keys,
    size_t stride, int64_t timeout_ms, tt_exchange_fn exchange, void *context, struct tt_probe_room *room);

#endif
