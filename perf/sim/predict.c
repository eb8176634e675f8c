/* SPDX-License-Identifier: BSD-3-Clause */
/* predict.c: what a call takes on a machine, and what is chosen.
 *
 * Messages are simulated by the library's cost model (lib/select/), with the costs of each protocol that the
 * machine has. A call takes more than its messages: that is added, and is the same for all algorithms. */
#include <stdlib.h>

#include "algorithms/algorithms.h"
#include "request.h"
#include "select/spin.h"

enum { EQUAL = 256 /* times that differ by less than one part in so many are equal, as for the library */ };

uint64_t sim_call_time(const struct sim_request *r, int protocol)
{
    const struct sim_machine *m = &r->machine;
    uint64_t proxy = m->protocols[protocol].costs.hosts > 1 ? m->proxy : 0;
    uint64_t staged = r->query.collective == TT_BARRIER ? 0 : tt_costs_product(m->staging, r->bytes);
    return tt_costs_sum(tt_costs_sum(m->protocols[protocol].launch, proxy), staged);
}

struct tt_cost_query sim_query(const struct sim_request *r, int protocol)
{
    struct tt_cost_query q = r->query;
    q.costs = &r->machine.protocols[protocol].costs;
    return q;
}

const char *sim_refuse(const struct sim_request *r, int algorithm)
{
    const struct sim_machine *m = &r->machine;
    enum sim_where where = algorithm < SIM_ALGORITHMS ? m->has[algorithm] : SIM_NOWHERE;
    if (!m->limited[r->query.collective])
        where = SIM_EVERYWHERE;
    if (where == SIM_NOWHERE)
        return "this machine's library has it not (tutti-sim --machines)";
    if (where == SIM_BETWEEN_HOSTS && m->protocols[0].costs.hosts <= 1)
        return "this machine's library has it between hosts (tutti-sim --machines)";
    return tt_algorithm_refuse(&tt_algorithms[algorithm], r->query.requirements);
}

tutti_status sim_predict(const struct sim_request *r, int algorithm, int protocol, uint64_t limit,
    struct tt_simulation_log *log, struct tt_prediction *prediction)
{
    struct tt_cost_query q = sim_query(r, protocol);
    uint64_t call = sim_call_time(r, protocol);
    q.log = log;
    if (limit != 0) /* of 0 there is none */
        q.limit = limit > call ? limit - call : 1;
    tutti_status status = tt_cost_predict(&q, algorithm, prediction);
    if (status == TUTTI_OK)
        prediction->total = tt_costs_sum(prediction->total, call);
    return status;
}

/* Takes this way if it is faster. */
static tutti_status consider(
    const struct sim_request *r, int algorithm, int protocol, struct sim_choice *best)
{
    struct tt_prediction p;
    uint64_t limit = best->total < UINT64_MAX ? best->total + 1 : 0;
    tutti_status status = sim_predict(r, algorithm, protocol, limit, NULL, &p);
    bool first = best->algorithm < 0;
    if (status == TUTTI_OK && (first || p.total < best->total - (p.total < UINT64_MAX ? p.total / EQUAL : 0)))
        *best = (struct sim_choice){ algorithm, protocol, p.total };
    return status;
}

static tutti_status choose_of(const struct sim_request *r, int protocol, struct sim_choice *best)
{
    struct tt_cost_query q = sim_query(r, protocol);
    tutti_status status = TUTTI_OK;
    if (!r->machine.limited[q.collective]) {
        int algorithm;
        status = tt_cost_choose(&q, &algorithm);
        return status == TUTTI_OK ? consider(r, algorithm, protocol, best) : status;
    }
    for (int a = 0; a < tt_algorithm_count && status == TUTTI_OK; a++)
        if (tt_algorithms[a].collective == (uint8_t)q.collective && sim_refuse(r, a) == NULL)
            status = consider(r, a, protocol, best);
    return status;
}

tutti_status sim_choose(const struct sim_request *r, struct sim_choice *choice)
{
    tutti_status status = TUTTI_OK;
    *choice = (struct sim_choice){ -1, 0, UINT64_MAX };
    for (int p = 0; p < r->machine.protocols_count && status == TUTTI_OK; p++)
        status = r->algorithm != NULL
                     ? consider(r, tt_algorithm_find(r->query.collective, r->algorithm), p, choice)
                     : choose_of(r, p, choice);
    return status;
}

uint64_t sim_kernels_time(const struct sim_request *r)
{
    const struct tt_costs *costs = &r->machine.protocols[0].costs;
    struct tt_settings settings = { .costs = *costs, .executor = TT_EXECUTOR_AUTO };
    uint64_t bytes = r->query.collective == TT_BARRIER ? 0 : r->bytes;
    bool one_host = costs->hosts <= 1 && r->n > 1 && r->n <= r->machine.meets;
    bool serves = tt_collectives[r->query.collective].counts != TT_COUNTS_OWN &&
                  (bytes > 0 || r->query.collective == TT_BARRIER);
    if (!one_host || !serves || r->algorithm != NULL || !tt_spin_pays(&settings, r->n, bytes))
        return UINT64_MAX;
    return tt_spin_time(costs, r->n, bytes);
}
