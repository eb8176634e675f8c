/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h: what the user asked collperf to do.
 *
 * All that can be refused is refused here, before a rank exists; only what depends on the library (names of
 * algorithms) or on a launcher (the number of ranks) comes later. */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "table.h"
#include "values.h"

enum { PERF_ALL = -1 };

/* Exit codes: what a script may rely on. */
enum { PERF_EXIT_OK, PERF_EXIT_WRONG, PERF_EXIT_USAGE, PERF_EXIT_FAILED, PERF_EXIT_BLIND };

struct perf_options {
    const struct perf_collective *collective; /* NULL: all */
    int64_t min_bytes, max_bytes;
    int64_t step_factor; /* 0: add step_bytes */
    int64_t step_bytes;
    int64_t iterations; /* 0: adapt */
    int64_t warmups;
    const struct perf_type *type; /* NULL: all */
    const struct perf_op *op; /* NULL: all */
    int64_t root; /* or PERF_ALL */
    int64_t check; /* so many calls of each point are checked */
    int64_t blocking; /* 0: on a host stream */
    int64_t program; /* calls that are bound as one program; 0: none */
    int64_t processes, threads; /* ranks = processes * threads; under a launcher that has the processes */
    int64_t timeout_ms; /* 0: the library's default */
    enum perf_memory memory;
    int64_t device; /* or PERF_DEVICE_ANY */
    bool exact, json, csv, self_test, dirty, bind;
    const char *algorithm; /* NULL: the library's choice; "all": a table for each */
    const char *output; /* NULL: stdout */
    const char *tune; /* a file of rules to write; NULL: none */
    const char *plot; /* a picture to draw, .svg or .png; NULL: none */
    const char *launcher; /* the variable that says that this process is one rank, or NULL */
};

/* Fills *options; returns -1 to go on, or the exit code after --help, --version or an error that was
 * explained. */
int perf_options_parse(int argc, char **argv, const char *launcher, struct perf_options *options);

/* The size after `bytes`; negative when there is none. */
int64_t perf_options_next(const struct perf_options *options, int64_t bytes);

void perf_help_print(void); /* to stdout */

/* The names that the tables hold, for messages, --help and --list; NULL after the last. */
enum perf_names { PERF_NAMES_COLLECTIVES, PERF_NAMES_TYPES, PERF_NAMES_ALIASES, PERF_NAMES_OPS };
const char *perf_name(enum perf_names which, int i);

#endif
