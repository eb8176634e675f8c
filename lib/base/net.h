/* SPDX-License-Identifier: BSD-3-Clause */
/* net.h: addresses of the network, "host:port" as a user writes it, and their sockets. */
#ifndef TT_BASE_NET_H
#define TT_BASE_NET_H
#include <stdbool.h>
#include <stdint.h>

#include "tutti.h"

/* The numbers are part of the id. */
enum tt_family { TT_FAMILY_LOCAL = 1, TT_FAMILY_IPV4 = 2, TT_FAMILY_IPV6 = 3 };
enum { TT_NETS = 3, TT_NET_TEXT = 64 };

struct tt_net {
    enum tt_family family; /* IPv4 or IPv6 */
    uint16_t port;
    uint8_t address[16]; /* as it travels; of IPv4 the first four bytes */
};

/* Finds the addresses of "host:port" ("[::1]:4000"; a name; a number), at most TT_NETS. Errors:
 * INVALID_USAGE, with a text that starts with `what`. */
tutti_status tt_net_resolve(const char *what, const char *text, struct tt_net *nets, int *count);
void tt_net_print(const struct tt_net *net, char text[TT_NET_TEXT]);
void tt_net_print_host(const struct tt_net *net, char text[TT_NET_TEXT]); /* without the port */
bool tt_net_is_here(const struct tt_net *net); /* an address of this machine */
bool tt_net_is_loopback(const struct tt_net *net);
/* Returns the same number to all processes that share a loopback: those of one namespace of networks. */
uint64_t tt_net_loopback(void);

/* Returns a socket that listens at this address, or -1 and errno. If its port is 0, that is set to the one
 * that the system chose. */
int tt_net_listen(struct tt_net *net);
/* Returns a connection that was made within so many milliseconds, or -1 and errno. */
int tt_net_connect(const struct tt_net *net, int timeout_ms);
/* Begins to connect, and does not wait: returns a socket that can be written once that is done, or has failed
 * (SO_ERROR); or -1 and errno. */
int tt_net_dial(const struct tt_net *net);
/* What is sent is to be acknowledged within so many milliseconds, and a silent connection is asked whether
 * its other end is there; else it fails with ETIMEDOUT. 0: as the system has it. */
void tt_net_heartbeat(int socket, uint64_t ms);
/* Has this congestion control decide how fast a socket sends. False, and errno: the system has it not, or
 * lets only who may administer the network use it. What a listener accepts has the same. */
bool tt_net_congest(int socket, const char *control);
/* Sets *net to the address of the other end; false: the socket is not one of the network. */
bool tt_net_peer(int socket, struct tt_net *net);
bool tt_net_own(int socket, struct tt_net *net); /* to that of this end */

/* Finds the address at which other hosts reach this one, with port 0: that of TUTTI_INTERFACE, which is the
 * name of an interface (eth0), an address, or a network (10.1.0.0/16); else of the first interface that is
 * up and is neither loopback nor a bridge of containers. *found is false if there is none, and none was
 * named. INVALID_USAGE if TUTTI_INTERFACE names none of this host, with those that there are. */
tutti_status tt_interface_find(struct tt_net *net, bool *found);
/* The name of the interface that has this address, if TUTTI_INTERFACE chose it; false: it did not. */
enum { TT_INTERFACE_NAME = 16 };
bool tt_interface_chosen(const struct tt_net *net, char name[TT_INTERFACE_NAME]);

#endif
