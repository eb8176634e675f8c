/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_host.c: the identity of a host, and its interfaces.
 *
 * Boot id and PID namespace tell kernels and containers apart. Two containers may still have the same of
 * both (a pod), or none of their own: whether they share the directory of local sockets, which is where they
 * would pass descriptors, decides. */
#include "bootstrap/bootstrap_host.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "base/status.h"
#include "base/text.h"
#include "bootstrap/bootstrap_directory.h"
#include "bootstrap/sha256.h"

static void add_file(struct tt_sha256 *hash, const char *path)
{
    char bytes[64];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, bytes, sizeof bytes) : 0;
    if (fd >= 0)
        close(fd);
    tt_sha256_add(hash, bytes, got > 0 ? (size_t)got : 0);
}

static void add_inode(struct tt_sha256 *hash, const char *path)
{
    struct stat s;
    uint64_t numbers[2] = { 0, 0 };
    if (stat(path, &s) == 0) {
        numbers[0] = (uint64_t)s.st_dev;
        numbers[1] = (uint64_t)s.st_ino;
    }
    tt_sha256_add(hash, numbers, sizeof numbers);
}

static const char *host_id(void)
{
    const char *text = tt_environment("TUTTI_HOSTID");
    return text != NULL ? text : "";
}

void tt_host_key(uint8_t key[TT_HOST_KEY_BYTES])
{
    struct tt_sha256 hash;
    uint8_t digest[TT_SHA256_BYTES];
    char directory[TT_DIRECTORY_PATH];
    tt_sha256_begin(&hash);
    add_file(&hash, "/proc/sys/kernel/random/boot_id");
    add_inode(&hash, "/proc/self/ns/pid");
    tt_directory_file(TT_DIRECTORY_TMP, ".", directory);
    add_inode(&hash, directory);
    tt_sha256_add(&hash, host_id(), strlen(host_id()));
    tt_sha256_end(&hash, digest);
    memcpy(key, digest, TT_HOST_KEY_BYTES);
}

void tt_host_mix(uint8_t token[TT_HOST_KEY_BYTES])
{
    struct tt_sha256 hash;
    uint8_t digest[TT_SHA256_BYTES];
    if (host_id()[0] == 0)
        return;
    tt_sha256_begin(&hash);
    tt_sha256_add(&hash, host_id(), strlen(host_id()));
    tt_sha256_end(&hash, digest);
    for (int i = 0; i < TT_HOST_KEY_BYTES; i++)
        token[i] ^= digest[i];
}

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
        "TUTTI_INTERFACE is \"%.60s\"; legal: the name of an interface, an address or a network (10.1.0.0/16) "
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
