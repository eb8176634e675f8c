/* SPDX-License-Identifier: BSD-3-Clause */
/* samples.h: how the times of the calls of a loop spread.
 *
 * The clock costs about as much as a tenth of a short call, so it is read once a batch: a batch doubles until
 * it takes long enough, 20 us say, and then the clock costs a thousandth. Its mean counts as one sample. A
 * call that takes as long by itself is a sample of its own. */
#ifndef PERF_SAMPLES_H
#define PERF_SAMPLES_H

enum { PERF_SAMPLES_MAX = 4096 };

struct perf_samples {
    double seconds[PERF_SAMPLES_MAX]; /* of one call each */
    int count;
    long batch; /* calls until the clock is read again */
    double enough; /* seconds that a batch takes at least, once it has grown */
};

/* A loop of `calls` begins. */
void perf_samples_begin(struct perf_samples *s, long calls, double enough);
/* `calls` calls, at most s->batch, took `seconds`. */
void perf_samples_add(struct perf_samples *s, long calls, double seconds);
/* The least sample that `percent` of 100 do not exceed; it sorts them. 0 without samples. */
double perf_samples_percentile(struct perf_samples *s, int percent);

#endif
