/* SPDX-License-Identifier: BSD-3-Clause */
/* tune.h: which algorithm was the fastest at each size, as a file of rules for TUTTI_RULES. */
#ifndef PERF_TUNE_H
#define PERF_TUNE_H
#include <stdbool.h>
#include <stdint.h>

#include "price.h"

enum { PERF_TUNE_POINTS = 512 };

struct perf_tune_point {
    const char *collective, *algorithm; /* the fastest so far */
    uint64_t bytes;
    double seconds;
};

struct perf_tune {
    struct perf_tune_point points[PERF_TUNE_POINTS];
    int count;
    char names[PERF_TUNE_POINTS][32]; /* of the algorithms */
    struct perf_prices prices; /* of messages */
};

/* One measurement, sizes of a collective in rising order; false: there is no more room. */
bool perf_tune_add(
    struct perf_tune *tune, const char *collective, const char *algorithm, uint64_t bytes, double seconds);
/* Writes the rules that were found for n ranks. False, with errno set, if the file cannot be written. */
bool perf_tune_write(const struct perf_tune *tune, const char *path, int n);

#endif
