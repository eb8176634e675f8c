/* SPDX-License-Identifier: BSD-3-Clause */
/* executor.h: a call in virtual time by the real executor (lib/exec/exec.c), which sends real bytes over a
 * simulated transport (transports/sim/sim.h).
 *
 * It is the measure of the cost model, which knows no bytes: both must come to the same time. What it takes
 * is memory, the vectors of all ranks, and so it is for thousands of ranks and not for more. */
#ifndef SIM_EXECUTOR_H
#define SIM_EXECUTOR_H
#include "select/cost_model.h"

struct sim_execution {
    uint64_t time; /* femtoseconds until the last rank ends */
    uint64_t full_slots; /* sends that had to wait for a slot, which is no part of a prediction */
    uint64_t messages, bytes;
};

/* Returns how many bytes of memory the vectors and the scratch of all ranks would take. */
uint64_t sim_execution_memory(const struct tt_cost_query *query, int algorithm);
/* Runs the call, whose slices are as many as were predicted. NULL or, in words, why it failed. */
const char *sim_execute(
    const struct tt_cost_query *query, int algorithm, uint32_t slices, struct sim_execution *execution);

#endif
