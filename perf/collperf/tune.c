/* SPDX-License-Identifier: BSD-3-Clause */
/* tune.c: from points to rules.
 *
 * Sizes count as the library counts them, in steps of a power of two and one and a half of it, so that two
 * rules never meet in a step, which TUTTI_RULES would refuse. Neighbouring steps with one winner are one rule.
 * The first rule begins at 0, each other one at the first step where its winner was measured; the last one has
 * no end. */
#include "tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const levels[PERF_LEVELS] = { "near", "far", "away" };

/* The step in which a size counts, by its least size: of the size the two leading bits. */
static uint64_t step_of(uint64_t bytes)
{
    int shift = bytes < 4 ? 0 : 62 - __builtin_clzll(bytes);
    return bytes >> shift << shift;
}

static bool make_room(struct perf_tune *tune)
{
    if (tune->count < tune->room)
        return true;
    int room = 2 * tune->room + 64;
    struct perf_tune_point *points = realloc(tune->points, (size_t)room * sizeof *points);
    if (points == NULL)
        return false;
    tune->points = points;
    tune->room = room;
    return true;
}

/* The sizes of another type need not be those before, and may lie between them. Of several sizes in a step the
 * least has the shortest times, and so decides. */
bool perf_tune_add(
    struct perf_tune *tune, const char *collective, const char *algorithm, uint64_t bytes, double seconds)
{
    bytes = step_of(bytes);
    if (!make_room(tune))
        return false;
    int i = tune->count;
    while (i > 0 && tune->points[i - 1].bytes >= bytes &&
           strcmp(tune->points[i - 1].collective, collective) == 0)
        i--;
    struct perf_tune_point *p = &tune->points[i];
    bool known = i < tune->count && p->bytes == bytes && strcmp(p->collective, collective) == 0;
    if (known && p->seconds <= seconds)
        return true;
    if (!known)
        memmove(p + 1, p, (size_t)(tune->count++ - i) * sizeof *p);
    *p = (struct perf_tune_point){ .collective = collective, .bytes = bytes, .seconds = seconds };
    snprintf(p->algorithm, sizeof p->algorithm, "%s", algorithm);
    return true;
}

/* Writes a size as "6K". */
static void put_size(char *text, size_t room, uint64_t bytes)
{
    static const char units[] = "KMG";
    int unit = 0;
    while (bytes > 0 && bytes % 1024 == 0 && unit < 3) {
        bytes /= 1024;
        unit++;
    }
    snprintf(text, room, "%" PRIu64 "%.1s", bytes, unit > 0 ? &units[unit - 1] : "");
}

/* Points first .. last - 1 have one winner; those around them of the same collective another. */
static void put_rule(FILE *file, const struct perf_tune *tune, int first, int last, int n)
{
    const struct perf_tune_point *p = &tune->points[first];
    bool begins = first == 0 || strcmp(p[-1].collective, p->collective) != 0;
    bool ends = last == tune->count || strcmp(tune->points[last].collective, p->collective) != 0;
    char least[24] = "0", most[24] = "", sizes[50];
    if (!begins)
        put_size(least, sizeof least, p->bytes);
    if (!ends)
        put_size(most, sizeof most, step_of(tune->points[last].bytes - 1));
    snprintf(sizes, sizeof sizes, "%s-%s", least, most);
    fprintf(file, "%-16s %-5d %-12s %s\n", p->collective, n, sizes, p->algorithm);
}

bool perf_tune_write(const struct perf_tune *tune, FILE *file, int n)
{
    fprintf(file, "# The fastest algorithms of %d ranks, measured by collperf --tune; for TUTTI_RULES.\n", n);
    for (int level = 0; level < PERF_LEVELS; level++)
        if (tune->prices.of[level].latency_ns >= 0)
            fprintf(file, "cost latency_%s %.1f ns\ncost message_%s %.1f ns\ncost byte_%s %.3f GB/s\n",
                levels[level], tune->prices.of[level].latency_ns, levels[level],
                tune->prices.of[level].message_ns, levels[level], tune->prices.of[level].byte_gb_s);
    if (tune->prices.link_gb_s > 0)
        fprintf(file, "cost link %.3f GB/s\n", tune->prices.link_gb_s);
    fprintf(file, "# collective     ranks sizes        algorithm\n");
    for (int i = 0, last; i < tune->count; i = last) {
        const struct perf_tune_point *p = &tune->points[i];
        for (last = i + 1; last < tune->count; last++)
            if (strcmp(tune->points[last].collective, p->collective) != 0 ||
                strcmp(tune->points[last].algorithm, p->algorithm) != 0)
                break;
        put_rule(file, tune, i, last, n);
    }
    return fflush(file) == 0 && ferror(file) == 0;
}
