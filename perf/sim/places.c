/* SPDX-License-Identifier: BSD-3-Clause */
/* places.c: where ranks are, by a file of hosts, or by a machine as lstopo writes it.
 *
 * A file of hosts is as MPI's launchers read it: a name that stands there twice is one host, whose slots add
 * up. What is not understood is refused, since a word that is passed over is a topology that nobody meant. */
#include "places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"

struct host {
    char *name;
    uint64_t slots;
};

struct hosts {
    struct host *list;
    uint32_t *table; /* by the hash of a name: its place in the list, plus 1; 0: none */
    uint32_t count, room; /* room: of the table, a power of two, twice that of the list */
};

static uint32_t place_of(const struct hosts *hosts, const char *name)
{
    uint32_t hash = 2166136261U; /* FNV-1a */
    for (const char *c = name; *c != '\0'; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619U;
    uint32_t at = hash & (hosts->room - 1);
    while (hosts->table[at] != 0 && strcmp(hosts->list[hosts->table[at] - 1].name, name) != 0)
        at = (at + 1) & (hosts->room - 1);
    return at;
}

/* Makes room for one host more. False: there is no memory. */
static bool make_room(struct hosts *hosts)
{
    if (2 * (hosts->count + 1) <= hosts->room)
        return true;
    uint32_t room = hosts->room > 0 ? 2 * hosts->room : 64;
    struct host *list = realloc(hosts->list, room / 2 * sizeof *list);
    if (list == NULL)
        return false;
    hosts->list = list;
    uint32_t *table = calloc(room, sizeof *table);
    if (table == NULL)
        return false;
    free(hosts->table);
    hosts->table = table;
    hosts->room = room;
    for (uint32_t h = 0; h < hosts->count; h++)
        table[place_of(hosts, list[h].name)] = h + 1;
    return true;
}

/* Adds the host of a line "NAME [slots=K]". NULL or, in words, what is wrong with it. */
static const char *take_line(struct hosts *hosts, char *line, const char **word)
{
    char *rest = NULL, *name = strtok_r(line, " \t\r", &rest);
    uint64_t slots = 1;
    bool told = false;
    if (name == NULL)
        return NULL;
    while ((*word = strtok_r(NULL, " \t\r", &rest)) != NULL) {
        if (strncmp(*word, "slots=", strlen("slots=")) != 0 || told ||
            !tt_parse_bytes(*word + strlen("slots="), &slots) || slots > SIM_SLOTS_MAX)
            return "is no slots=K, of 0 to 100000, which is all that may follow a name, and once";
        told = true;
    }
    *word = name;
    if (!make_room(hosts))
        return "has no memory left";
    uint32_t at = place_of(hosts, name);
    if (hosts->table[at] == 0) {
        struct host *host = &hosts->list[hosts->count];
        *host = (struct host){ strdup(name), 0 };
        if (host->name == NULL)
            return "has no memory left";
        hosts->table[at] = ++hosts->count;
    }
    hosts->list[hosts->table[at] - 1].slots += slots;
    return NULL;
}

/* Ranks fill the hosts in turn. Returns the number of ranks that had room. */
static int fill(const struct hosts *hosts, int32_t *host, int n)
{
    int filled = 0;
    for (uint32_t h = 0; h < hosts->count; h++)
        for (uint64_t i = 0; i < hosts->list[h].slots && filled < n; i++)
            host[filled++] = (int32_t)h;
    return filled;
}

static int read_hosts(FILE *file, int32_t *host, int n, char *why)
{
    struct hosts hosts = { 0 };
    const char *wrong = NULL, *word = "";
    char line[1024];
    int filled = 0;
    for (int number = 1; wrong == NULL && fgets(line, sizeof line, file) != NULL; number++) {
        line[strcspn(line, "#\n")] = '\0';
        wrong = take_line(&hosts, line, &word);
        if (wrong != NULL)
            snprintf(why, SIM_WHY_BYTES, "line %d: \"%.60s\" %s", number, word, wrong);
    }
    if (wrong == NULL)
        filled = fill(&hosts, host, n);
    if (wrong == NULL && filled < n)
        snprintf(why, SIM_WHY_BYTES, "its hosts have fewer slots than there are ranks: %d", filled);
    for (uint32_t h = 0; h < hosts.count; h++)
        free(hosts.list[h].name);
    free(hosts.list);
    free(hosts.table);
    return filled;
}

/* A rank on each core, a domain for each level 3 cache. */
static int read_cores(FILE *file, int32_t *domain, int n, char *why)
{
    char line[4096];
    int filled = 0, caches = 0;
    while (filled < n && fgets(line, sizeof line, file) != NULL) {
        caches += strstr(line, "<object type=\"L3Cache\"") != NULL;
        if (strstr(line, "<object type=\"Core\"") != NULL)
            domain[filled++] = caches > 0 ? caches - 1 : 0;
    }
    if (filled < n)
        snprintf(why, SIM_WHY_BYTES,
            "it has %d cores, and a machine with a core for each rank is legal, as lstopo writes it: lstopo "
            "mine.xml",
            filled);
    return filled;
}

bool sim_places_read(const char *path, bool cores, int32_t *domain, int n, char *why)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        snprintf(why, SIM_WHY_BYTES, "it cannot be read; %s",
            cores ? "a machine as lstopo writes it is legal: lstopo mine.xml"
                  : "a file of lines NAME [slots=K] is legal");
        return false;
    }
    int filled = cores ? read_cores(file, domain, n, why) : read_hosts(file, domain, n, why);
    fclose(file);
    return filled == n;
}
