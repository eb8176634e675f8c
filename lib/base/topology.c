/* SPDX-License-Identifier: BSD-3-Clause */
/* topology.c: domains as text and as lists. */
#include "base/topology.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { RANKS_MAX = 65536 };

static bool is_ordered(const struct tt_topology *t)
{
    for (int r = 0; r < t->n; r++)
        if (t->ranks[r] != r)
            return false;
    return true;
}

static void describe(struct tt_topology *t)
{
    int several = 0, size = tt_topology_size(t, 0);
    bool alike = true; /* all but the last */
    for (int d = 0; d < t->domains; d++) {
        several += tt_topology_size(t, d) > 1;
        alike = alike && (d + 1 == t->domains || tt_topology_size(t, d) == size);
    }
    int last = tt_topology_size(t, t->domains - 1);
    t->divides = several >= 2;
    t->even = alike && last == size;
    t->ordered = is_ordered(t);
    t->nests = t->ordered && alike && last <= size && (size & (size - 1)) == 0;
}

tutti_status tt_topology_create(struct tt_topology *topology, int n, const int32_t *domain_of)
{
    struct tt_topology t = { .n = n };
    bool known = true;
    t.domain = malloc((size_t)n * sizeof *t.domain);
    t.ranks = malloc((size_t)n * sizeof *t.ranks);
    t.first = calloc((size_t)n + 1, sizeof *t.first);
    if (t.domain == NULL || t.ranks == NULL || t.first == NULL) {
        tt_topology_free(&t);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the topology of %d ranks", n);
    }
    for (int r = 0; r < n; r++)
        known = known && domain_of[r] >= 0;
    for (int r = 0; r < n; r++)
        t.domain[r] = -1;
    int placed = 0;
    for (int head = 0; head < n; head++) { /* the first rank of a domain gathers the others */
        if (t.domain[head] >= 0)
            continue;
        for (int r = head; r < n; r++)
            if (!known || domain_of[r] == domain_of[head]) {
                t.domain[r] = t.domains;
                t.ranks[placed++] = r;
            }
        t.first[++t.domains] = placed;
    }
    describe(&t);
    *topology = t;
    return TUTTI_OK;
}

void tt_topology_free(struct tt_topology *topology)
{
    free(topology->domain);
    free(topology->ranks);
    free(topology->first);
    *topology = (struct tt_topology){ 0 };
}

/* The digits at *text, as a number below RANKS_MAX; moves *text behind them. -1 if there is none. */
static int number(const char **text)
{
    int value = 0;
    if (!isdigit((unsigned char)**text))
        return -1;
    for (; isdigit((unsigned char)**text); ++*text) {
        value = 10 * value + (**text - '0');
        if (value >= RANKS_MAX)
            return -1;
    }
    return value;
}

/* "2x4". */
static bool parse_grid(const char *text, int *domains, int *each)
{
    *domains = number(&text);
    if (*domains < 1 || *text++ != 'x')
        return false;
    *each = number(&text);
    return *each > 0 && *text == '\0' && *domains <= RANKS_MAX / *each;
}

/* Calls see(rank, domain) for each; false where the form is wrong. */
static bool parse_lists(const char *text, bool (*see)(void *context, int rank, int domain), void *context)
{
    for (int domain = 0;;) {
        int low = number(&text), high = low;
        if (*text == '-') {
            text++;
            high = number(&text);
        }
        if (low < 0 || high < low)
            return false;
        for (int r = low; r <= high; r++)
            if (!see(context, r, domain))
                return false;
        if (*text != ',' && *text != '/')
            return *text == '\0';
        domain += *text++ == '/';
    }
}

struct census {
    bool seen[RANKS_MAX];
    int count, most;
};

static bool count_rank(void *context, int rank, int domain)
{
    (void)domain;
    struct census *census = context;
    bool twice = census->seen[rank];
    census->seen[rank] = true;
    census->count++;
    census->most = rank > census->most ? rank : census->most;
    return !twice;
}

int tt_topology_ranks(const char *text)
{
    int domains, each;
    if (parse_grid(text, &domains, &each))
        return domains * each;
    struct census *census = calloc(1, sizeof *census);
    bool legal = census != NULL && parse_lists(text, count_rank, census) && census->most == census->count - 1;
    int n = legal ? census->count : -1;
    free(census);
    return n;
}

static bool note_domain(void *context, int rank, int domain)
{
    ((int32_t *)context)[rank] = domain;
    return true;
}

void tt_topology_parse(const char *text, int32_t *domain_of)
{
    int domains, each;
    if (parse_grid(text, &domains, &each))
        for (int r = 0; r < domains * each; r++)
            domain_of[r] = r / each;
    else
        parse_lists(text, note_domain, domain_of);
}

int tt_topology_size(const struct tt_topology *t, int d)
{
    return t->first[d + 1] - t->first[d];
}

void tt_topology_put(const struct tt_topology *t, struct tt_text *text)
{
    for (int d = 0; d < t->domains; d++) {
        const int *ranks = t->ranks + t->first[d];
        for (int i = 0, last; i < tt_topology_size(t, d); i = last + 1) {
            for (last = i; last + 1 < tt_topology_size(t, d) && ranks[last + 1] == ranks[last] + 1;)
                last++;
            tt_put(text, "%s%d", i > 0 ? "," : d > 0 ? "/" : "", ranks[i]);
            if (last > i)
                tt_put(text, "-%d", ranks[last]);
        }
    }
}
