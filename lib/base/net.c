/* SPDX-License-Identifier: BSD-3-Clause */
/* net.c: from text to addresses, from addresses to sockets.
 *
 * A listener binds to the address that was named and to no other: one on all interfaces would talk to all
 * of their networks. */
#include "base/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

union address {
    struct sockaddr any;
    struct sockaddr_in ipv4;
    struct sockaddr_in6 ipv6;
};

static socklen_t write_address(const struct tt_net *net, union address *address)
{
    memset(address, 0, sizeof *address);
    if (net->family == TT_FAMILY_IPV4) {
        address->ipv4.sin_family = AF_INET;
        address->ipv4.sin_port = htons(net->port);
        memcpy(&address->ipv4.sin_addr, net->address, 4);
        return sizeof address->ipv4;
    }
    address->ipv6.sin6_family = AF_INET6;
    address->ipv6.sin6_port = htons(net->port);
    memcpy(&address->ipv6.sin6_addr, net->address, 16);
    return sizeof address->ipv6;
}

static bool read_address(const struct sockaddr *address, struct tt_net *net)
{
    memset(net, 0, sizeof *net);
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
        net->family = TT_FAMILY_IPV4;
        net->port = ntohs(in->sin_port);
        memcpy(net->address, &in->sin_addr, 4);
        return true;
    }
    if (address->sa_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;
    net->family = TT_FAMILY_IPV6;
    net->port = ntohs(in6->sin6_port);
    memcpy(net->address, &in6->sin6_addr, 16);
    return true;
}

/* Splits "host:port" into its parts; brackets keep the colons of an IPv6 address apart from the last. */
static bool take_apart(const char *text, char host[256], char port[6])
{
    const char *colon = strrchr(text, ':');
    if (!colon || strlen(colon + 1) < 1 || strlen(colon + 1) > 5)
        return false;
    size_t length = (size_t)(colon - text);
    if (length >= 2 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    } else if (memchr(text, ':', length)) {
        return false;
    }
    if (length < 1 || length > 255)
        return false;
    memcpy(host, text, length);
    host[length] = 0;
    strcpy(port, colon + 1);
    bool digits = strspn(port, "0123456789") == strlen(port);
    return digits && atoi(port) >= 1 && atoi(port) <= 65535;
}

tutti_status tt_net_resolve(const char *what, const char *text, struct tt_net *nets, int *count)
{
    char host[256], port[6];
    struct addrinfo *found, hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    if (!take_apart(text, host, port))
        return tt_fail(TUTTI_INVALID_USAGE,
            "%s is \"%.100s\"; legal: a host, a colon and a port from 1 to 65535, as in node1:4000", what,
            text);
    int result = getaddrinfo(host, port, &hints, &found);
    if (result != 0)
        return tt_fail(TUTTI_INVALID_USAGE, "%s names a host that is not known, %s: %s", what, host,
            gai_strerror(result));
    *count = 0;
    for (const struct addrinfo *i = found; i && *count < TT_NETS; i = i->ai_next)
        *count += read_address(i->ai_addr, &nets[*count]);
    freeaddrinfo(found);
    if (*count == 0)
        return tt_fail(TUTTI_INVALID_USAGE, "%s: %s has no address of IPv4 or IPv6", what, host);
    return TUTTI_OK;
}

void tt_net_print(const struct tt_net *net, char text[TT_NET_TEXT])
{
    char number[INET6_ADDRSTRLEN] = "";
    bool ipv4 = net->family == TT_FAMILY_IPV4;
    inet_ntop(ipv4 ? AF_INET : AF_INET6, net->address, number, sizeof number);
    snprintf(text, TT_NET_TEXT, ipv4 ? "%s:%u" : "[%s]:%u", number, net->port);
}

void tt_net_print_host(const struct tt_net *net, char text[TT_NET_TEXT])
{
    tt_net_print(net, text);
    *strrchr(text, ':') = '\0';
}

static int open_socket(const union address *address)
{
    int yes = 1, s = socket(address->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s >= 0)
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return s;
}

static int close_failed(int s)
{
    int number = errno;
    if (s >= 0)
        close(s);
    errno = number;
    return -1;
}

bool tt_net_is_here(const struct tt_net *net)
{
    struct tt_net any_port = *net;
    union address address;
    any_port.port = 0;
    socklen_t bytes = write_address(&any_port, &address);
    int s = open_socket(&address);
    bool here = s >= 0 && bind(s, &address.any, bytes) == 0;
    if (s >= 0)
        close(s);
    return here;
}

bool tt_net_is_loopback(const struct tt_net *net)
{
    struct in6_addr ipv6;
    memcpy(&ipv6, net->address, sizeof ipv6);
    return net->family == TT_FAMILY_IPV4 ? net->address[0] == 127 : IN6_IS_ADDR_LOOPBACK(&ipv6);
}

uint64_t tt_net_loopback(void)
{
    struct stat status;
    char boot[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, boot, sizeof boot) : 0;
    if (fd >= 0)
        close(fd);
    uint64_t number = stat("/proc/self/ns/net", &status) == 0 ? (uint64_t)status.st_ino : 0;
    for (ssize_t i = 0; i < got; i++)
        number = number * UINT64_C(0x100000001b3) + (uint8_t)boot[i];
    return number;
}

int tt_net_listen(struct tt_net *net)
{
    union address address;
    socklen_t bytes = write_address(net, &address);
    int yes = 1, s = open_socket(&address);
    /* The rests of earlier connections need not be waited for; a process that listens still has the port. */
    if (s >= 0 && setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
        bind(s, &address.any, bytes) == 0 && listen(s, SOMAXCONN) == 0 &&
        getsockname(s, &address.any, &bytes) == 0 && read_address(&address.any, net))
        return s;
    return close_failed(s);
}

int tt_net_connect(const struct tt_net *net, int timeout_ms)
{
    union address address;
    socklen_t bytes = write_address(net, &address), size = sizeof(int);
    int s = open_socket(&address), number = 0;
    if (s < 0)
        return -1;
    if (connect(s, &address.any, bytes) == 0)
        return s;
    struct pollfd p = { s, POLLOUT, 0 };
    if (errno != EINPROGRESS)
        return close_failed(s);
    int ready = poll(&p, 1, timeout_ms);
    if (ready > 0 && getsockopt(s, SOL_SOCKET, SO_ERROR, &number, &size) == 0 && number == 0)
        return s;
    errno = ready == 0 ? ETIMEDOUT : number != 0 ? number : errno;
    return close_failed(s);
}

int tt_net_dial(const struct tt_net *net)
{
    union address address;
    socklen_t bytes = write_address(net, &address);
    int s = open_socket(&address);
    if (s < 0 || connect(s, &address.any, bytes) == 0 || errno == EINPROGRESS)
        return s;
    return close_failed(s);
}

void tt_net_heartbeat(int socket, uint64_t heartbeat_ms)
{
    enum { MOST_MS = 24 * 3600 * 1000, PROBES = 3 }; /* the system takes no more than 32767 s */
    int ms = heartbeat_ms < MOST_MS ? (int)heartbeat_ms : MOST_MS;
    int yes = 1, probes = PROBES, idle_s = ms / 1000 / PROBES > 0 ? ms / 1000 / PROBES : 1;
    if (ms == 0)
        return;
    setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

bool tt_net_congest(int socket, const char *control)
{
    return setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, control, (socklen_t)strlen(control)) == 0;
}

bool tt_net_own(int socket, struct tt_net *net)
{
    union address address;
    socklen_t bytes = sizeof address;
    memset(&address, 0, sizeof address);
    return getsockname(socket, &address.any, &bytes) == 0 && read_address(&address.any, net);
}

bool tt_net_peer(int socket, struct tt_net *net)
{
    union address address;
    socklen_t bytes = sizeof address;
    memset(&address, 0, sizeof address);
    return getpeername(socket, &address.any, &bytes) == 0 && read_address(&address.any, net);
}
