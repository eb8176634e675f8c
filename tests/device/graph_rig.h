/* SPDX-License-Identifier: BSD-3-Clause */
/* graph_rig.h: one rank with a device of the stub's, its streams and buffers, and graphs of its calls. */
#ifndef TT_TESTS_GRAPH_RIG_H
#define TT_TESTS_GRAPH_RIG_H
#include "device/dev.h"
#include "tests/rig/ranks.h"

/* 20 KB: several slices, of unequal length, for each collective here. */
enum { COUNT = 5000, BYTES = COUNT * 4, AT_ONCE = 8 };
enum area { GIVEN, REDUCED, GATHERED, RECEIVED, EAGER, AREAS };

struct graph_rig {
    struct ranks_me *me;
    tutti_comm *comm;
    const struct tt_dev *dev;
    void *streams[2];
    uint32_t *device[AREAS]; /* GATHERED: of every rank */
    uint32_t *pinned[AT_ONCE][AREAS];
    uint32_t *word; /* that a stream waits for */
};

/* The table's function did well; else the failure has its own words. */
bool graph_fine(const struct graph_rig *rig, enum tt_dev_error error);
/* A process has device 0, and of several ranks in one process each has another. */
bool graph_rig_make(struct ranks_me *me, struct graph_rig *rig);
bool graph_rig_join(struct graph_rig *rig);
/* Wait for both streams. */
void graph_settle(const struct graph_rig *rig);

/* Element i of what a rank gives in a round; what this one gives, put in GIVEN in the order of the stream. */
uint32_t graph_value(int rank, int round, int i);
void graph_give(const struct graph_rig *rig, int round, void *stream);
/* Bring an area's content to the pinned one of this round. */
void graph_fetch(const struct graph_rig *rig, int round, int area, void *stream);
/* What was fetched is so many times the sum of what all ranks gave; these elements are one rank's. */
bool graph_is_sum(const struct graph_rig *rig, int round, int area, uint32_t times);
bool graph_is_of_rank(const struct graph_rig *rig, int round, const uint32_t *got, int rank);

/* An all_reduce from one area to another; a graph of that alone; and one of an all_reduce to REDUCED, an
 * all_gather to GATHERED and a shift to RECEIVED, all of GIVEN. Graphs are instantiated. */
void graph_reduce(const struct graph_rig *rig, int from, int to, void *stream);
void *graph_capture_end(const struct graph_rig *rig, void *stream);
void *graph_capture_reduce(const struct graph_rig *rig, int from, int to, void *stream);
void *graph_capture_three(const struct graph_rig *rig, void *stream);

/* Ranks on a stub that is configured so. A real device, which is as it is, leaves out what wants several of
 * them, or failures; a test of which nothing else is left is skipped. */
struct graph_plan {
    const char *stub;
    int n;
    enum ranks_kind kind;
    ranks_fn run;
    const void *context;
    uint32_t may_die;
};
void graph_run_all(const struct graph_plan *plans, size_t count);
#define graph_run(...)                                                                                       \
    graph_run_all((const struct graph_plan[]){ __VA_ARGS__ },                                                \
        sizeof((const struct graph_plan[]){ __VA_ARGS__ }) / sizeof(struct graph_plan))

#endif
