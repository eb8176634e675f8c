/* SPDX-License-Identifier: BSD-3-Clause */
/* price.c: how long calls are predicted to take, for who asks and then may not make them. */
#include "base/costs.h"
#include "run/run.h"

uint64_t tt_request_price(const struct tt_request *request)
{
    int algorithm;
    struct tt_prediction price;
    if (tt_choose(request, NULL, &algorithm) != TUTTI_OK)
        return 0;
    struct tt_cost_query query = tt_choose_cost_query(request);
    if (request->collective != TT_BARRIER && request->bytes > query.bytes)
        query.bytes = request->bytes; /* not the least of its class */
    return tt_cost_predict(&query, algorithm, &price) == TUTTI_OK ? price.total : 0;
}

/* Both ends of a message have some work, and its bytes pass. */
static uint64_t price_of_message(const struct tt_call *call)
{
    const struct tt_comm *comm = call->comm;
    const struct tt_costs *costs = &comm->settings.costs;
    const int32_t *host = comm->identity.host, *domain = comm->topology.domain;
    int me = comm->rank, peer = call->root;
    enum tt_level level = host != NULL && host[me] != host[peer] ? TT_AWAY
                          : domain[me] != domain[peer]           ? TT_FAR
                                                                 : TT_NEAR;
    uint64_t bytes = call->total * tutti_type_bytes(call->type);
    if (peer == me)
        return tt_costs_product(costs->copy, bytes);
    return tt_costs_sum(
        costs->latency[level] + 2 * costs->message[level], tt_costs_product(costs->byte[level], bytes));
}

uint64_t tt_call_price(const struct tt_call *call)
{
    if (tt_collectives[call->collective].p2p)
        return price_of_message(call);
    struct tt_request request = tt_call_request(call);
    return tt_request_price(&request);
}
