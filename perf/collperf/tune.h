/* SPDX-License-Identifier: BSD-3-Clause */
/* tune.h: which algorithm was the fastest at each size, as a file of rules for TUTTI_RULES. */
#ifndef PERF_TUNE_H
#define PERF_TUNE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "price.h"
#include "ways.h"

struct perf_tune_point { /* how long an algorithm takes */
    const char *collective;
    char algorithm[32];
    uint64_t bytes;
    double seconds;
};

struct perf_tune {
    struct perf_tune_point *points; /* those of a collective lie together, by size; free them at the end */
    int count, room;
    struct perf_prices prices; /* of messages */
    struct perf_ways ways; /* of a device's collectives */
};

/* Takes one measurement; those of a collective follow each other. False: there is no memory. */
bool perf_tune_add(
    struct perf_tune *tune, const char *collective, const char *algorithm, uint64_t bytes, double seconds);
/* Writes the rules that were found for n ranks. False, with errno set, if the file cannot be written. */
bool perf_tune_write(const struct perf_tune *tune, FILE *file, int n);

#endif
