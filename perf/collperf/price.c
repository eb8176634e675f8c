/* SPDX-License-Identifier: BSD-3-Clause */
/* price.c: messages between ranks, and what they take.
 *
 * For prices rank 0 and the first rank of each level exchange messages, while the others wait.
 *
 * In LogGP's terms (costs.h of the library): half a round trip of 8 bytes is a latency and the work at both
 * ends. In a row of short messages each costs the work of one end; in a row of long ones, each byte its
 * time. */
#include "price.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A try over a link says something if it takes LINK_SECONDS, or if messages have LINK_BYTES. Many ranks of a
 * host would wait seconds for so many bytes to pass a narrow link; so messages begin with a rank's share. */
enum { LINK_BYTES = 2 << 20, LINK_LEAST = 64 << 10, LINK_ROW = 4, LINK_TRIES = 2 };
#define LINK_SECONDS 0.02
enum { TURNS = 100, ROW = 64, LONG_ROW = 8, LONG_BYTES = 1 << 20, TRIES = 5 };

/* Asks the library in which group, "0-3,8/4-7", each rank is. NULL: there is no memory. */
static int *ask_groups(const struct perf_rank_group *group, const char *what)
{
    size_t length = tutti_query(group->comm, what, NULL, 0);
    char *text = malloc(length + 1), *at = text;
    int *groups = calloc((size_t)group->n, sizeof *groups), number = 0;
    if (text == NULL || groups == NULL) {
        free(text);
        free(groups);
        return NULL;
    }
    tutti_query(group->comm, what, text, length + 1);
    while (*at != '\0') {
        char *end;
        long first = strtol(at, &end, 10), last = *end == '-' ? strtol(end + 1, &end, 10) : first;
        for (long r = first; r <= last && r < group->n; r++)
            groups[r] = number;
        number += *end == '/';
        at = *end != '\0' ? end + 1 : end;
    }
    free(text);
    return groups;
}

/* Fills first[] with the first rank of each level as rank 0 sees it; 0: there is none. */
static bool find_peers(const struct perf_rank_group *group, int first[PERF_LEVELS])
{
    int *domains = ask_groups(group, "topology"), *hosts = ask_groups(group, "hosts");
    bool found = domains != NULL && hosts != NULL;
    for (int r = group->n - 1; found && r > 0; r--)
        first[hosts[r] != hosts[0] ? 2 : domains[r] != domains[0] ? 1 : 0] = r;
    free(domains);
    free(hosts);
    return found;
}

/* `rounds` times a row of messages from rank 0, and a short answer. Returns the seconds of a round; below 0:
 * a call failed, and *status says how. */
static double exchange(struct perf_rank_group *group, int peer, int rounds, int row, size_t bytes,
    uint8_t *buffer, tutti_status *status)
{
    tutti_stream none = tutti_no_stream();
    const bool leads = group->rank == 0;
    double began = perf_group_clock_seconds(group);
    for (int i = 0; i < rounds * (row + 1) && *status == TUTTI_OK; i++) {
        bool answer = i % (row + 1) == row;
        *status =
            answer != leads
                ? tutti_send(buffer, answer ? 8 : bytes, TUTTI_UINT8, leads ? peer : 0, group->comm, none)
                : tutti_recv(buffer, answer ? 8 : bytes, TUTTI_UINT8, leads ? peer : 0, group->comm, none);
    }
    return *status == TUTTI_OK ? (perf_group_clock_seconds(group) - began) / rounds : -1;
}

static double least(struct perf_rank_group *group, int peer, int rounds, int row, size_t bytes,
    uint8_t *buffer, tutti_status *status)
{
    double best = -1;
    for (int i = 0; i <= TRIES; i++) { /* the first one warms up */
        double seconds = exchange(group, peer, rounds, row, bytes, buffer, status);
        best = i > 0 && (best < 0 || seconds < best) ? seconds : best;
    }
    return best;
}

static void price(struct perf_rank_group *group, int peer, int level, uint8_t *buffer,
    struct perf_prices *prices, tutti_status *status)
{
    double both = least(group, peer, TURNS, 1, 8, buffer, status);
    double row = least(group, peer, TURNS / 10, ROW, 8, buffer, status);
    double longs = least(group, peer, 1, LONG_ROW, LONG_BYTES, buffer, status);
    double message = (row - both) / (ROW - 1), most = 0.4 * both / 2;
    message = message < most ? message : most; /* in a row they may wait for each other */
    double latency = both / 2 - 2 * message;
    prices->of[level].message_ns = message > 0 ? 1e9 * message : 0;
    prices->of[level].latency_ns = 1e9 * latency;
    prices->of[level].byte_gb_s = 1e-9 * LONG_ROW * LONG_BYTES / (longs - both / 2);
}

tutti_status perf_price(struct perf_rank_group *group, struct perf_prices *prices)
{
    int first[PERF_LEVELS] = { 0 };
    uint8_t *buffer = calloc(1, LONG_BYTES);
    tutti_status status = TUTTI_OK;
    bool able = find_peers(group, first) && buffer != NULL;
    for (int level = 0; level < PERF_LEVELS; level++) {
        prices->of[level].latency_ns = -1;
        if (able && status == TUTTI_OK && first[level] > 0 &&
            (group->rank == 0 || group->rank == first[level]))
            price(group, first[level], level, buffer, prices, &status);
        if (status == TUTTI_OK)
            status = tutti_barrier(group->comm, tutti_no_stream());
    }
    free(buffer);
    if (status != TUTTI_OK)
        perf_group_print_error(group, "the costs of messages", status);
    return status;
}

/* --- The links between hosts */

struct partners { /* of a rank, on the next host and on the one before; -1: none */
    int next, before;
    int width; /* so many ranks of each host have partners */
};

/* Returns the rank that is `index` th on its host; -1: there is none. */
static int find_rank(const int *hosts, int n, int host, int index)
{
    for (int r = 0; r < n; r++)
        if (hosts[r] == host && index-- == 0)
            return r;
    return -1;
}

static struct partners find_partners(const int *hosts, int n, int rank, int count)
{
    int index = 0, width = n;
    for (int h = 0; h < count; h++) {
        int here = 0;
        for (int r = 0; r < n; r++)
            here += hosts[r] == h;
        width = here < width ? here : width;
    }
    for (int r = 0; r < rank; r++)
        index += hosts[r] == hosts[rank];
    if (index >= width)
        return (struct partners){ -1, -1, width };
    return (struct partners){ find_rank(hosts, n, (hosts[rank] + 1) % count, index),
        find_rank(hosts, n, (hosts[rank] + count - 1) % count, index), width };
}

static tutti_status stream(struct perf_rank_group *group, struct partners p, uint8_t *buffer, size_t bytes)
{
    tutti_stream none = tutti_no_stream();
    tutti_status status = tutti_barrier(group->comm, none);
    for (int i = 0; i < LINK_ROW && status == TUTTI_OK && p.next >= 0; i++) {
        status = tutti_group_start();
        if (status == TUTTI_OK)
            status = tutti_send(buffer, bytes, TUTTI_UINT8, p.next, group->comm, none);
        if (status == TUTTI_OK)
            status = tutti_recv(buffer + LINK_BYTES, bytes, TUTTI_UINT8, p.before, group->comm, none);
        tutti_status ended = tutti_group_end();
        status = status == TUTTI_OK ? ended : status;
    }
    return status == TUTTI_OK ? tutti_barrier(group->comm, none) : status;
}

/* Rank 0's value becomes everybody's. */
static tutti_status agree(struct perf_rank_group *group, double *value)
{
    double *all = malloc((size_t)group->n * sizeof *all);
    tutti_status status =
        all != NULL ? perf_group_exchange(group, value, sizeof *value, all) : TUTTI_OUT_OF_MEMORY;
    if (status == TUTTI_OK)
        *value = all[0];
    free(all);
    return status;
}

static tutti_status measure_link(struct perf_rank_group *group, const int *hosts, struct perf_link *link)
{
    struct partners p = find_partners(hosts, group->n, group->rank, link->hosts);
    size_t bytes = LINK_BYTES / (size_t)p.width;
    bytes = bytes > LINK_LEAST ? bytes : LINK_LEAST;
    uint8_t *buffer = calloc(2, LINK_BYTES);
    tutti_status status =
        buffer != NULL ? stream(group, p, buffer, bytes) : TUTTI_OUT_OF_MEMORY; /* makes connections */
    for (int tries = 0; tries < LINK_TRIES && status == TUTTI_OK;) {
        double began = perf_group_clock_seconds(group), moved = (double)p.width * LINK_ROW * (double)bytes;
        status = stream(group, p, buffer, bytes);
        double seconds = perf_group_clock_seconds(group) - began;
        if (status == TUTTI_OK)
            status = agree(group, &seconds);
        link->bytes_s = moved / seconds > link->bytes_s ? moved / seconds : link->bytes_s;
        bool says = seconds >= LINK_SECONDS || bytes == LINK_BYTES;
        tries += says;
        bytes = says ? bytes : 2 * bytes < LINK_BYTES ? 2 * bytes : LINK_BYTES;
    }
    free(buffer);
    return status;
}

tutti_status perf_link_measure(struct perf_rank_group *group, struct perf_link *link)
{
    int *hosts = ask_groups(group, "hosts");
    tutti_status status = hosts != NULL ? TUTTI_OK : TUTTI_OUT_OF_MEMORY;
    *link = (struct perf_link){ .hosts = 1 };
    for (int r = 0; hosts != NULL && r < group->n; r++)
        link->hosts = hosts[r] >= link->hosts ? hosts[r] + 1 : link->hosts;
    if (link->hosts > 1)
        status = measure_link(group, hosts, link);
    free(hosts);
    if (status != TUTTI_OK)
        perf_group_print_error(group, "the links between hosts", status);
    return status;
}
