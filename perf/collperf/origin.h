/* SPDX-License-Identifier: BSD-3-Clause */
/* origin.h: where figures come from, for whoever finds them without the machine.
 *
 * A row that does not name its machine, kernel, library and day compares with nothing. Texts have no quote,
 * backslash or comma, so that they stand in JSON and in CSV as they are. */
#ifndef PERF_ORIGIN_H
#define PERF_ORIGIN_H
#include <stddef.h>

/* The origin of a run, as rank 0 reads it. */
struct perf_origin {
    char version[16]; /* of the library */
    char host[64];
    char cpu[64]; /* the model's name */
    char kernel[64]; /* name and release */
    char date[32]; /* when the run began: 2026-11-24T21:30:00Z */
};
void perf_origin_read(struct perf_origin *origin);

/* The place where one rank runs. */
struct perf_place {
    int pid;
    char host[64];
    char cores[64]; /* where it may run, as 0-3 */
};
void perf_place_read(struct perf_place *place);

/* The library's version as "1.2.3". */
void perf_version(char *text, size_t bytes);

#endif
