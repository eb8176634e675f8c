/* SPDX-License-Identifier: BSD-3-Clause */
/* plot.h: a picture of the results, drawn by gnuplot: time and bus bandwidth over size.
 *
 * Rank 0 keeps what it reports and hands all to gnuplot once, at the end; collperf itself draws nothing. */
#ifndef PERF_PLOT_H
#define PERF_PLOT_H
#include <stdbool.h>

#include "measure.h"
#include "options.h"

enum { PERF_LABEL_BYTES = 96 };

struct perf_mark {
    char label[PERF_LABEL_BYTES];
    int series; /* marks of one label are one: a line out of place and one in place */
    bool in_place;
    double bytes, time_us, busbw;
};

struct perf_plot { /* zero at first */
    struct perf_mark *marks;
    long count, room;
    int series;
};

/* True if gnuplot runs and `file` can be written; else says what is missing. It is asked before anything is
 * measured. */
bool perf_plot_possible(const char *file);

void perf_plot_add(struct perf_plot *plot, const struct perf_options *o, const struct perf_point *p,
    const char *algorithm, bool in_place, const struct perf_result *result);

/* Draw and free; false, with a message, if that failed. `origin` says where the figures come from. */
bool perf_plot_draw(struct perf_plot *plot, const struct perf_options *o, int n, const char *origin);

#endif
