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

/* The paths that carried bytes, as "line" or "mapped+copied"; "-" when nothing was sent. */
void perf_paths_print(char *text, size_t bytes, const struct perf_result *result);

/* The first line of CSV. */
void perf_record_header(struct perf_report *r);
void perf_record_print(struct perf_report *r, const struct perf_point *p, const char *algorithm,
    bool in_place, const struct perf_result *result);

#endif
