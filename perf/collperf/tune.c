/* SPDX-License-Identifier: BSD-3-Clause */
/* tune.c: from what was measured to rules.
 *
 * Sizes count as the library counts them, in steps of a power of two and one and a half of it, so that two
 * rules never meet in a step, which TUTTI_RULES would refuse. A rule goes on for as long as its algorithm is
 * the fastest; where that gives more rules than a file may have, for as long as it is nearly so. */
#include "tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RULES_MAX = 64 /* of a file of TUTTI_RULES */ };

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

/* The sizes of another type need not be those before, and may lie between them. Of several sizes in a step
 * the least has the shortest times, and so decides. */
bool perf_tune_add(
    struct perf_tune *tune, const char *collective, const char *algorithm, uint64_t bytes, double seconds)
{
    uint64_t step = step_of(bytes);
    if (!make_room(tune))
        return false;
    int place = tune->count;
    for (int i = tune->count - 1; i >= 0 && strcmp(tune->points[i].collective, collective) == 0; i--) {
        struct perf_tune_point *p = &tune->points[i];
        if (p->bytes == step && strcmp(p->algorithm, algorithm) == 0) {
            p->seconds = seconds < p->seconds ? seconds : p->seconds;
            return true;
        }
        place = p->bytes > step ? i : place;
    }
    struct perf_tune_point *p = &tune->points[place];
    memmove(p + 1, p, (size_t)(tune->count++ - place) * sizeof *p);
    *p = (struct perf_tune_point){ .collective = collective, .bytes = step, .seconds = seconds };
    snprintf(p->algorithm, sizeof p->algorithm, "%s", algorithm);
    return true;
}

/* Returns the point behind those of the step that begins at point `first`. */
static int step_end(const struct perf_tune *tune, int first)
{
    const struct perf_tune_point *p = &tune->points[first];
    int end = first + 1;
    while (end < tune->count && tune->points[end].bytes == p->bytes &&
           strcmp(tune->points[end].collective, p->collective) == 0)
        end++;
    return end;
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

/* The first rule of a collective begins at 0, the last one has no end, which `most` 0 says. */
static void put_rule(FILE *file, const struct perf_tune_point *p, bool first, uint64_t most, int n)
{
    char from[24], to[24] = "", sizes[50];
    put_size(from, sizeof from, first ? 0 : p->bytes);
    if (most > 0)
        put_size(to, sizeof to, most);
    snprintf(sizes, sizeof sizes, "%s-%s", from, to);
    fprintf(file, "%-16s %-5d %-12s %s\n", p->collective, n, sizes, p->algorithm);
}

/* Writes the rules if there is a file, and returns how many there are, if a rule goes on while its algorithm
 * takes at most 1 + tolerance times as long as the fastest. */
static int put_rules(FILE *file, const struct perf_tune *tune, int n, double tolerance)
{
    const struct perf_tune_point *rule = NULL; /* the point that began it */
    bool is_first = false;
    int rules = 0;
    for (int first = 0, end; first < tune->count; first = end) {
        const struct perf_tune_point *best = &tune->points[first], *again = NULL;
        bool same = rule != NULL && strcmp(rule->collective, best->collective) == 0;
        end = step_end(tune, first);
        for (int i = first; i < end; i++) {
            const struct perf_tune_point *p = &tune->points[i];
            best = p->seconds < best->seconds ? p : best;
            again = same && strcmp(p->algorithm, rule->algorithm) == 0 ? p : again;
        }
        if (again != NULL && again->seconds <= (1 + tolerance) * best->seconds)
            continue;
        if (rule != NULL && file != NULL)
            put_rule(file, rule, is_first, same ? step_of(best->bytes - 1) : 0, n);
        rule = best;
        is_first = !same;
        rules++;
    }
    if (rule != NULL && file != NULL)
        put_rule(file, rule, is_first, 0, n);
    return rules;
}

/* In the bounds of costs, which are 10 ms, and 0.1 GB/s. */
static void put_ways(FILE *file, const struct perf_ways *ways)
{
    static const char *const names[PERF_WAYS] = { "staged", "cells", "pads", "mapped" };
    const double most_call = 9.9e-3, most_byte = 9.9e-9, least_byte = 1e-15;
    for (int way = 0; way < PERF_WAYS && ways->known; way++) {
        double call = ways->of[way].call, byte = ways->of[way].byte;
        call = call < most_call ? call : most_call;
        byte = byte < least_byte ? least_byte : byte < most_byte ? byte : most_byte;
        fprintf(file, "cost %s_call %.1f ns\ncost %s_byte %.3f GB/s\n", names[way], 1e9 * call, names[way],
            1e-9 / byte);
    }
}

bool perf_tune_write(const struct perf_tune *tune, FILE *file, int n)
{
    double tolerance = 0;
    while (put_rules(NULL, tune, n, tolerance) > RULES_MAX && tolerance < 1000)
        tolerance = 1.5 * tolerance + 0.01;
    fprintf(file, "# The fastest algorithms of %d ranks, measured by collperf --tune; for TUTTI_RULES.\n", n);
    if (tolerance > 0)
        fprintf(file,
            "# A rule goes on where another is up to %.0f %% faster: a file has %d rules at most.\n",
            100 * tolerance, RULES_MAX);
    for (int level = 0; level < PERF_LEVELS; level++)
        if (tune->prices.of[level].latency_ns >= 0)
            fprintf(file, "cost latency_%s %.1f ns\ncost message_%s %.1f ns\ncost byte_%s %.3f GB/s\n",
                levels[level], tune->prices.of[level].latency_ns, levels[level],
                tune->prices.of[level].message_ns, levels[level], tune->prices.of[level].byte_gb_s);
    if (tune->prices.link_gb_s > 0)
        fprintf(file, "cost link %.3f GB/s\n", tune->prices.link_gb_s);
    put_ways(file, &tune->ways);
    fprintf(file, "# collective     ranks sizes        algorithm\n");
    put_rules(file, tune, n, tolerance);
    return fflush(file) == 0 && ferror(file) == 0;
}
