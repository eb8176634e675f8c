/* SPDX-License-Identifier: BSD-3-Clause */
/* counts.c: weights become counts, which add up to the vector: rank i's block ends where the share of all
 * ranks up to i ends. */
#include "counts.h"

#include <stdlib.h>

static bool read_weights(const char *text, uint64_t *weights, int *count)
{
    char *end = NULL;
    *count = 0;
    for (const char *at = text;; at = end + 1) {
        if (*count == SIM_COUNTS_RANKS || *at < '0' || *at > '9')
            return false;
        weights[*count] = strtoull(at, &end, 10);
        if (weights[(*count)++] > SIM_WEIGHT_MAX || (*end != ',' && *end != '\0'))
            return false;
        if (*end == '\0')
            return true;
    }
}

bool sim_counts_read(const char *text, int n, uint64_t elements, size_t *counts, const char **legal)
{
    uint64_t weights[SIM_COUNTS_RANKS], all = 0, sum = 0, before = 0;
    int count;
    *legal =
        "weights of ranks in turn are, whole numbers up to 1000, of which some rank has one above 0: 1,3";
    if (!read_weights(text, weights, &count))
        return false;
    for (int i = 0; i < n; i++)
        all += weights[i % count];
    for (int i = 0; i < n && all > 0; i++) {
        sum += weights[i % count];
        uint64_t end = elements / all * sum + elements % all * sum / all;
        counts[i] = (size_t)(end - before);
        before = end;
    }
    return all > 0;
}
