/* SPDX-License-Identifier: BSD-3-Clause */
/* request.h: what tutti-sim is asked, and what its files give each other. */
#ifndef SIM_REQUEST_H
#define SIM_REQUEST_H
#include <stdio.h>

#include "machine.h"
#include "select/classes.h"
#include "select/cost_model.h"

struct sim_request {
    struct tt_cost_query query; /* its costs and topology are those below */
    struct sim_machine machine;
    struct tt_topology topology;
    const char *machine_name, *collective, *algorithm, *hosts, *cores, *svg, *goal;
    int n, per_host;
    uint64_t bytes, slice_bytes;
    bool exact, execute;
};

/* The time of all algorithms, the choice, and what the chosen one (or the one that was asked for) does. */
tutti_status sim_report(struct sim_request *request);
/* Returns the least time that LogGP allows any algorithm. */
uint64_t sim_bound(const struct sim_request *request);
/* Which work the end had to wait for, from the last to the first: marks it in `critical`, a flag for each
 * work of the log. */
void sim_critical_path(const struct tt_simulation_log *log, int rank, bool *critical);
/* Draws who does what when, as SVG. */
void sim_gantt(FILE *file, const struct tt_simulation_log *log, const bool *critical, const char *title);
/* Writes the schedules of all ranks in the language of LogGOPSim. */
tutti_status sim_goal(FILE *file, const struct sim_request *request, int algorithm);

#endif
