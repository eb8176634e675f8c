/* SPDX-License-Identifier: BSD-3-Clause */
/* interface.c: which address of this host others are told. */
#include "base/net.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/status.h"
#include "base/text.h"

/* What TUTTI_INTERFACE says: a name, or a network of so many bits. */
struct wanted {
    const char *name; /* NULL: not set */
    struct tt_net net;
    int bits; /* -1: it is no address */
};

static bool read_address(const struct sockaddr *from, struct tt_net *net)
{
    memset(net, 0, sizeof *net);
    if (from == NULL || (from->sa_family != AF_INET && from->sa_family != AF_INET6))
        return false;
    if (from->sa_family == AF_INET) {
        net->family = TT_FAMILY_IPV4;
        memcpy(net->address, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
        return true;
    }
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr;
    net->family = TT_FAMILY_IPV6;
    memcpy(net->address, in6, 16);
    return !IN6_IS_ADDR_LINKLOCAL(in6); /* it would need the number of an interface of the other host */
}

static void parse_network(const char *text, struct wanted *w)
{
    char host[64];
    const char *slash = strchr(text, '/');
    size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);
    w->bits = -1;
    if (length >= sizeof host)
        return;
    memcpy(host, text, length);
    host[length] = 0;
    int most = 0;
    if (inet_pton(AF_INET, host, w->net.address) == 1) {
        w->net.family = TT_FAMILY_IPV4;
        most = 32;
    } else if (inet_pton(AF_INET6, host, w->net.address) == 1) {
        w->net.family = TT_FAMILY_IPV6;
        most = 128;
    } else {
        return;
    }
    w->bits = slash != NULL ? atoi(slash + 1) : most;
    if (w->bits < 0 || w->bits > most)
        w->bits = -1;
}

static bool is_within(const struct tt_net *net, const struct wanted *w)
{
    if (net->family != w->net.family)
        return false;
    for (int bit = 0; bit < w->bits; bit++)
        if (((net->address[bit / 8] ^ w->net.address[bit / 8]) >> (7 - bit % 8) & 1) != 0)
            return false;
    return true;
}

/* Bridges of containers and virtual machines have addresses that other hosts do not reach. */
static bool is_bridge(const char *name)
{
    static const char *const prefixes[] = { "docker", "br-", "veth", "virbr", "cni", "flannel", "podman" };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

/* How well an address serves, 0: not at all. Of those that do, IPv4 goes first. */
static int rate(const struct ifaddrs *i, const struct tt_net *net, const struct wanted *w)
{
    int family = net->family == TT_FAMILY_IPV4 ? 2 : 1;
    if ((i->ifa_flags & IFF_UP) == 0)
        return 0;
    if (w->name != NULL)
        return (w->bits >= 0 ? is_within(net, w) : strcmp(i->ifa_name, w->name) == 0) ? family : 0;
    if ((i->ifa_flags & IFF_LOOPBACK) != 0)
        return 0;
    return is_bridge(i->ifa_name) ? family : family + 2;
}

static tutti_status refuse(const struct wanted *w, const struct ifaddrs *all)
{
    char list[300] = "";
    struct tt_text t = { list, sizeof list, 0 };
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        struct tt_net net;
        char text[TT_NET_TEXT];
        if ((i->ifa_flags & IFF_UP) == 0 || !read_address(i->ifa_addr, &net))
            continue;
        tt_net_print(&net, text);
        *strrchr(text, ':') = 0;
        tt_put(&t, "%s%s %s", t.length > 0 ? ", " : "", i->ifa_name, text);
    }
    return tt_fail(TUTTI_INVALID_USAGE,
        "TUTTI_INTERFACE is \"%.60s\"; legal: the name of an interface, an address or a network "
        "(10.1.0.0/16) "
        "of this host, which has: %s",
        w->name, list);
}

tutti_status tt_interface_find(struct tt_net *net, bool *found)
{
    struct wanted w = { .name = tt_environment("TUTTI_INTERFACE"), .bits = -1 };
    struct ifaddrs *all;
    int best = 0;
    if (w.name != NULL && w.name[0] == 0)
        w.name = NULL;
    if (w.name != NULL)
        parse_network(w.name, &w);
    if (getifaddrs(&all) != 0)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "cannot list the network interfaces of this host");
    for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
        struct tt_net here;
        if (!read_address(i->ifa_addr, &here) || rate(i, &here, &w) <= best)
            continue;
        best = rate(i, &here, &w);
        *net = here;
    }
    *found = best > 0;
    tutti_status status = *found || w.name == NULL ? TUTTI_OK : refuse(&w, all);
    freeifaddrs(all);
    return status;
}

bool tt_interface_chosen(const struct tt_net *net, char name[TT_INTERFACE_NAME])
{
    const char *wanted = tt_environment("TUTTI_INTERFACE");
    struct ifaddrs *all;
    bool found = false;
    if (wanted == NULL || wanted[0] == 0 || getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next) {
        struct tt_net here;
        found = read_address(i->ifa_addr, &here) && here.family == net->family &&
                memcmp(here.address, net->address, sizeof here.address) == 0;
        if (found)
            snprintf(name, TT_INTERFACE_NAME, "%s", i->ifa_name);
    }
    freeifaddrs(all);
    return found;
}
