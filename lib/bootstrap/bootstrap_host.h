/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_host.h: which processes share a host, and by which address other hosts reach this one.
 *
 * A host is where processes can share memory: one boot of one kernel, one PID namespace, and one directory
 * for local sockets. So a container is a host of its own. TUTTI_HOSTID sets ranks of one machine apart, which
 * then talk by the network; tests use that. */
#ifndef TT_BOOTSTRAP_HOST_H
#define TT_BOOTSTRAP_HOST_H
#include <stdbool.h>
#include <stdint.h>

#include "bootstrap/bootstrap_net.h"
#include "tutti.h"

enum { TT_HOST_KEY_BYTES = 16 };

/* Sets `key` to what all processes of this host, and no others, have. */
void tt_host_key(uint8_t key[TT_HOST_KEY_BYTES]);

/* Mixes TUTTI_HOSTID into 16 bytes that name a local socket, so that only ranks with the same one meet
 * there. */
void tt_host_mix(uint8_t token[TT_HOST_KEY_BYTES]);

/* Finds the address at which other hosts reach this one, with port 0: that of TUTTI_INTERFACE, which is the
 * name of an interface (eth0), an address, or a network (10.1.0.0/16); else of the first interface that is
 * up and is neither loopback nor a bridge of containers. *found is false if there is none, and none was named.
 * INVALID_USAGE if TUTTI_INTERFACE names none of this host, with those that there are. */
tutti_status tt_interface_find(struct tt_net *net, bool *found);

#endif
