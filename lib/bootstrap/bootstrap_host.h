/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_host.h: which processes share a host.
 *
 * A host is where processes can share memory: one boot of one kernel, one PID namespace, and one directory
 * for local sockets. So a container is a host of its own. TUTTI_HOSTID sets ranks of one machine apart, which
 * then talk by the network; tests use that. */
#ifndef TT_BOOTSTRAP_HOST_H
#define TT_BOOTSTRAP_HOST_H
#include <stdint.h>

enum { TT_HOST_KEY_BYTES = 16 };

/* Sets `key` to what all processes of this host, and no others, have. */
void tt_host_key(uint8_t key[TT_HOST_KEY_BYTES]);

/* Mixes TUTTI_HOSTID into 16 bytes that name a local socket, so that only ranks with the same one meet
 * there. */
void tt_host_mix(uint8_t token[TT_HOST_KEY_BYTES]);

#endif
