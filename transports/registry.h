/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.h: the transports that this library has. A new one is a line in registry.c. */
#ifndef TT_TRANSPORTS_REGISTRY_H
#define TT_TRANSPORTS_REGISTRY_H
#include "transports/transport.h"

/* All transports, in the order of preference: a peer is reached by the first that can. Ends with NULL. */
extern const struct tt_transport *const tt_transports[];

/* An endpoint over several transports (mixed.c). */
extern const struct tt_transport tt_mixed;

/* Returns the transport that a communicator opens: of ranks of one host the first, else the mixed one. */
const struct tt_transport *tt_transport_for(bool one_host);

/* The bytes that this rank has sent by a path, by whatever part. */
uint64_t tt_endpoint_path_bytes(const struct tt_endpoint *e, enum tt_path path);

/* Returns how processes hand each other descriptors: as the first transport does that has memory. */
const struct tt_memory_ops *tt_transport_memory(void);

#endif
