/* SPDX-License-Identifier: BSD-3-Clause */
/* record.h: one result as names and values, for scripts.
 *
 * JSON lines and CSV are two ways to write the same fields. Their names are an interface: they never change,
 * new ones come at the end. */
#ifndef PERF_RECORD_H
#define PERF_RECORD_H
#include "report.h"

/* GB/s, as everywhere 1e9 bytes a second. */
double perf_algbw(const struct perf_point *p, const struct perf_result *result);
double perf_busbw(const struct perf_point *p, const struct perf_result *result);

/* Returns what the point needs at least: for a flag and for its bytes, whichever is longer. 0 if neither is
 * known. */
double perf_limit_seconds(const struct perf_report *r, const struct perf_result *result);
/* Returns that limit in percent of the time: 100 is as fast as can be. Negative if it is not known. */
double perf_limit_percent(const struct perf_report *r, const struct perf_result *result);

/* The devices of the ranks: "0", or "rank%2" where each rank has the one that its number gives. */
void perf_record_devices(const struct perf_report *r, char *text, size_t bytes);

/* The first line of CSV. */
void perf_record_header(struct perf_report *r);
void perf_record_print(struct perf_report *r, const struct perf_point *p, const char *algorithm,
    bool in_place, const struct perf_result *result);

#endif
