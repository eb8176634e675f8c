/* SPDX-License-Identifier: BSD-3-Clause */
/* sockets.h: a third transport, as small as the contract allows (transports/transport.h): ranks are
 * processes that share nothing but a connection of each pair, by TCP on the loopback address.
 *
 * It shows that a network can be added without touching lib/ or transports/, and that these rely on nothing
 * that only shared memory has: every message is copied, a release is a message of its own, and what ranks
 * tell each other besides messages is seen late. It is not tuned and knows no other machine than this one:
 * numbers go in the byte order of the processor, and a process number means the same to all. */
#ifndef TT_TESTS_SOCKETS_H
#define TT_TESTS_SOCKETS_H
#include "transports/transport.h"

extern const struct tt_transport tt_sockets;

#endif
