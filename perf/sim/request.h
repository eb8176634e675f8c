/* SPDX-License-Identifier: BSD-3-Clause */
/* request.h: what tutti-sim is asked, and what its files give each other. */
#ifndef SIM_REQUEST_H
#define SIM_REQUEST_H
#include <stdio.h>

#include "executor.h"
#include "machine.h"
#include "select/classes.h"
#include "select/cost_model.h"

struct sim_request {
    struct tt_cost_query
        query; /* its topology is that below; its costs are those of a protocol in question */
    struct sim_machine machine;
    struct tt_topology topology;
    const char *machine_name, *collective, *algorithm, *hosts, *cores, *counts, *svg, *goal;
    int n, per_host;
    uint64_t bytes, slice_bytes;
    bool exact, execute, json;
};

/* --- What a call takes (predict.c) */

struct sim_choice {
    int algorithm, protocol;
    uint64_t total;
};
/* Returns what a call takes beside its messages: to launch it, to have a proxy, to stage its vector. */
uint64_t sim_call_time(const struct sim_request *request, int protocol);
/* Returns the query with the costs of a protocol. */
struct tt_cost_query sim_query(const struct sim_request *request, int protocol);
/* NULL, or why this algorithm cannot serve. */
const char *sim_refuse(const struct sim_request *request, int algorithm);
/* Predicts a call by this algorithm and protocol, with all that it takes beside its messages. What takes
 * longer than the limit need not be predicted; 0: there is none. */
tutti_status sim_predict(const struct sim_request *request, int algorithm, int protocol, uint64_t limit,
    struct tt_simulation_log *log, struct tt_prediction *prediction);
/* Chooses the algorithm and the protocol of the lowest predicted time; of those that are asked for, if there
 * are such. Where Tutti alone chooses, it is what the library chooses. */
tutti_status sim_choose(const struct sim_request *request, struct sim_choice *choice);
/* Returns what kernels of several devices take; UINT64_MAX: none do this call, or they do not pay. */
uint64_t sim_kernels_time(const struct sim_request *request);
/* Returns the least time that LogGP allows any algorithm, by the costs of this protocol. */
uint64_t sim_bound(const struct sim_request *request, int protocol);

/* --- What is said (report.c), as text or as JSON */

struct sim_row { /* a way to do the call */
    const char *algorithm, *protocol;
    uint64_t total; /* UINT64_MAX: there is none, for this reason: */
    const char *none;
    double of_chosen;
    bool refused, kernels, representative, chosen;
};

struct sim_facts { /* of the way in question */
    const char *algorithm, *protocol;
    uint64_t total, call, bound;
    bool kernels; /* it has no schedule, and nothing of what follows */
    int32_t rank; /* that ends last */
    uint64_t messages[TT_LEVELS], bytes[TT_LEVELS], peers[TT_LEVELS]; /* that it sends, and has */
    uint64_t steps, keeps_bytes, scratch_bytes;
    uint64_t flights, flight_time, parts[TT_COST_PARTS]; /* of the critical path */
    uint32_t simulated, slices;
    bool executed;
    struct sim_execution execution;
};

struct sim_format {
    void (*begin)(const struct sim_request *request, const char *title);
    void (*row)(const struct sim_row *row, int number); /* the first is number 0 */
    void (*end)(const struct sim_request *request, const struct sim_facts *facts);
};
extern const struct sim_format sim_text, sim_json;
extern const char *const sim_part_names[TT_COST_PARTS];

/* The time of all algorithms, the choice, and what the chosen one (or the one that was asked for) does. */
tutti_status sim_report(struct sim_request *request);

/* --- Files */

/* Which work the end had to wait for, from the last to the first: marks it in `critical`, a flag for each
 * work of the log. */
void sim_critical_path(const struct tt_simulation_log *log, int rank, bool *critical);
/* Draws who does what when, as SVG. */
void sim_gantt(FILE *file, const struct tt_simulation_log *log, const bool *critical, const char *title);
/* Writes the schedules of all ranks in the language of LogGOPSim. */
tutti_status sim_goal(FILE *file, const struct sim_request *request, const struct sim_choice *choice);

#endif
