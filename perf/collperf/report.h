/* SPDX-License-Identifier: BSD-3-Clause */
/* report.h: the table that nccl-tests' users know, or records for scripts, and a picture of either.
 *
 * Only rank 0 writes; the sums for the last lines are kept here, so that all renderings agree with them. */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H
#include <stdio.h>

#include "measure.h"
#include "options.h"
#include "origin.h"
#include "plot.h"
#include "table.h"

struct perf_report {
    FILE *file;
    const struct perf_options *options;
    int n;
    const struct perf_device *device; /* of rank 0, where calls are on a device's stream */
    struct perf_link link;
    char network[64]; /* of which class that between hosts is, and why; "": there is one host */
    char executor[8]; /* of the library's, that runs such calls */
    double flag_before, flag_after; /* the point: round trip in seconds; negative: not measured */
    long class_changes;
    double startup; /* seconds until the last rank had its communicator; negative: not measured */
    double rest_before, rest_after; /* bytes of a rank at rest beyond the bare process; negative: unknown */
    double rest_mean; /* of all ranks, when looked at last */
    double busbw_sum;
    long busbw_count;
    uint64_t wrong;
    struct perf_origin origin;
    const struct perf_place *places; /* of all ranks, while the report begins */
    struct perf_plot plot;
};

void perf_report_begin(struct perf_report *r);
/* A table begins: what follows has this algorithm (NULL: the library chooses by size). */
void perf_report_table(
    struct perf_report *r, const struct perf_collective *collective, const char *algorithm);
/* Both ways of calling one point; `algorithm` served it. Adds to the sums. The flag after this point is the
 * one before the next. */
void perf_report_row(struct perf_report *r, const struct perf_point *p, const char *algorithm,
    const struct perf_result results[2]);
void perf_report_note(struct perf_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Host, processor, kernel, version, day and class in one line, when all is measured. */
void perf_report_origin(const struct perf_report *r, char *text, size_t bytes);
/* Returns false if the report could not be written. The plot is not drawn here. */
bool perf_report_end(struct perf_report *r);

#endif
