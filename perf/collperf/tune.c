/* SPDX-License-Identifier: BSD-3-Clause */
/* tune.c: from points to rules.
 *
 * Neighbouring sizes with one winner are one rule. Between two sizes that were measured the change comes
 * behind the middle; the first rule begins at 0, the last one has no end. */
#include "tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool perf_tune_add(
    struct perf_tune *tune, const char *collective, const char *algorithm, uint64_t bytes, double seconds)
{
    int i = 0;
    while (i < tune->count &&
           (tune->points[i].bytes != bytes || strcmp(tune->points[i].collective, collective) != 0))
        i++;
    if (i == PERF_TUNE_POINTS)
        return false;
    struct perf_tune_point *p = &tune->points[i];
    if (i < tune->count && p->seconds <= seconds)
        return true;
    tune->count += i == tune->count;
    snprintf(tune->names[i], sizeof tune->names[i], "%s", algorithm);
    *p = (struct perf_tune_point){ collective, tune->names[i], bytes, seconds };
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
    const struct perf_tune_point *p = &tune->points[first], *next = &tune->points[last];
    bool begins = first == 0 || strcmp(p[-1].collective, p->collective) != 0;
    bool ends = last == tune->count || strcmp(next->collective, p->collective) != 0;
    char least[24] = "0", most[24] = "", sizes[50];
    if (!begins)
        put_size(least, sizeof least, p->bytes);
    if (!ends)
        put_size(most, sizeof most, next->bytes / 4 * 3);
    snprintf(sizes, sizeof sizes, "%s-%s", least, most);
    fprintf(file, "%-16s %-5d %-12s %s\n", p->collective, n, sizes, p->algorithm);
}

bool perf_tune_write(const struct perf_tune *tune, const char *path, int n)
{
    FILE *file = fopen(path, "we");
    if (file == NULL)
        return false;
    fprintf(file, "# The fastest algorithms of %d ranks, measured by collperf --tune; for TUTTI_RULES.\n", n);
    for (int level = 0; level < PERF_LEVELS; level++)
        if (tune->prices.of[level].latency_ns >= 0)
            fprintf(file, "cost latency_%s %.1f ns\ncost message_%s %.1f ns\ncost byte_%s %.3f GB/s\n",
                perf_levels[level], tune->prices.of[level].latency_ns, perf_levels[level],
                tune->prices.of[level].message_ns, perf_levels[level], tune->prices.of[level].byte_gb_s);
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
    bool good = ferror(file) == 0;
    return fclose(file) == 0 && good;
}
