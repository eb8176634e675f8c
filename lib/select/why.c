/* SPDX-License-Identifier: BSD-3-Clause */
/* why.c: the choice once more, row by row. It asks what tt_choose asks, so that the two cannot differ. */
#include "select/why.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

static double microseconds(uint64_t femtoseconds)
{
    return 1e-9 * (double)femtoseconds;
}

static void put_prediction(const struct tt_prediction *p, struct tt_text *a)
{
    static const char *const names[TT_COST_PARTS] = { "messages", "bytes", "folds", "copies", "switches" };
    uint64_t work = 0;
    tt_put(a, "%.3f us:", microseconds(p->total));
    for (int i = 0; i < TT_COST_PARTS; i++) {
        if (p->parts[i] > 0)
            tt_put(a, " %s %.3f,", names[i], microseconds(p->parts[i]));
        work += p->parts[i];
    }
    tt_put(a, " waits %.3f", microseconds(p->total > work ? p->total - work : 0));
    if (p->slices > 1)
        tt_put(a, "; %u slices", p->slices);
    if (p->representative)
        tt_put(a, "; of a few ranks for all");
}

static tutti_status put_row(const struct tt_request *request, int algorithm, int chosen, struct tt_text *a)
{
    const struct tt_algorithm *row = &tt_algorithms[algorithm];
    const char *why = tt_algorithm_refuse(row, request->requirements);
    struct tt_cost_query query = tt_choose_cost_query(request);
    struct tt_prediction prediction;
    tutti_status status = TUTTI_OK;
    tt_put(a, "%s\t", row->name);
    if (why == NULL)
        status = tt_cost_predict(&query, algorithm, &prediction);
    if (why != NULL)
        tt_put(a, "cannot serve: %s", why);
    else if (status == TUTTI_OK && prediction.total == UINT64_MAX && prediction.slices > 0)
        tt_put(a, "more than five hours");
    else if (status == TUTTI_OK && prediction.total == UINT64_MAX)
        tt_put(a, "cannot serve: its messages are longer than a slot");
    else if (status == TUTTI_OK)
        put_prediction(&prediction, a);
    tt_put(a, "%s\n", algorithm == chosen ? " <- chosen" : "");
    return status;
}

static void put_reason(
    const struct tt_request *request, int chosen, enum tt_decider decider, struct tt_text *a)
{
    int rule = tt_choose_rule(request);
    tt_put(a, "chosen: %s, ", tt_algorithms[chosen].name);
    if (decider == TT_BY_FORCE)
        tt_put(a, "because the setting algo forces it\n");
    else if (decider == TT_BY_RULE)
        tt_put(a, "because a rule of %s names it\n", request->settings->rules);
    else if (rule >= 0)
        tt_put(a, "by its predicted time; a rule of %s names %s, which cannot serve\n",
            request->settings->rules, tt_algorithms[rule].name);
    else
        tt_put(a, "by its predicted time\n");
}

bool tt_why(const struct tt_request *request, struct tt_text *a)
{
    enum tt_decider decider;
    int chosen;
    if (tt_choose_anew(request, &chosen, &decider) != TUTTI_OK)
        return false;
    tt_put(a, "%s of %llu bytes on %d ranks%s, %llu cores, messages up to %llu bytes\n",
        tt_collectives[request->collective].name, (unsigned long long)request->bytes, request->requirements.n,
        request->requirements.exact ? " under exact" : "", (unsigned long long)request->settings->costs.cores,
        (unsigned long long)request->slot_bytes);
    for (int i = 0; i < tt_algorithm_count; i++)
        if (tt_algorithms[i].collective == request->collective && put_row(request, i, chosen, a) != TUTTI_OK)
            return false;
    put_reason(request, chosen, decider, a);
    tt_put(a, "by these costs of the machine, with a network of class ");
    tt_costs_tell_network(&request->settings->costs, a);
    tt_put(a, ":\n");
    tt_costs_tell(&request->settings->costs, a);
    return true;
}
