/* SPDX-License-Identifier: BSD-3-Clause */
/* spin_rig.h: ranks that have a device each, whose kernels meet: threads of one process, processes, or
 * both. */
#ifndef TT_TESTS_SPIN_RIG_H
#define TT_TESTS_SPIN_RIG_H
#include "local_rig.h"

enum { SPIN_LONG_MS = 100000 };

struct spin_plan {
    const char *stub; /* what the devices are like */
    int n, per_process; /* n: all are threads of one process */
    ranks_fn run;
    const void *context;
    uint32_t may_die;
    int devices; /* 0: one a rank */
};
void spin_run_all(const struct spin_plan *plans, size_t count);
#define spin_run(...)                                                                                        \
    spin_run_all((const struct spin_plan[]){ __VA_ARGS__ },                                                  \
        sizeof((const struct spin_plan[]){ __VA_ARGS__ }) / sizeof(struct spin_plan))

/* One communicator of all ranks, each with its own device, with these options, from a semicolon on. */
tutti_comm *spin_join(struct ranks_me *me, const char *more, int64_t timeout_ms);
/* A desk on the rank's device, and a communicator whose collectives kernels do: anything else is a
 * failure. */
bool spin_sit_down(struct ranks_me *me, struct local_desk *d, int64_t timeout_ms);
/* Destroys it, and gives back what the desk has: for tests that sit down many times. */
void spin_get_up(struct local_desk *d);
/* tutti_query of this communicator says so. */
bool spin_says(struct ranks_me *me, const tutti_comm *comm, const char *question, const char *words);

/* Of a rank's row, in the communicator: so that a test sees what no user does. */
struct tt_spin *spin_of(const tutti_comm *comm);

#endif
