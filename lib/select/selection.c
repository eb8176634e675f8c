/* SPDX-License-Identifier: BSD-3-Clause */
/* selection.c: what rank 0 reads for all ranks before they choose algorithms; see selection.h. */
#include "select/selection.h"

#include "base/wait.h"
#include "base/caches.h"

void tt_selection_assume(struct tt_settings *settings)
{
    uint64_t probe = settings->hosts.probe;
    struct tt_costs *costs = &settings->costs;
    costs->network =
        probe < TT_PROBE_FIRST ? tt_link_usual() : tt_link_of((uint32_t)(probe - TT_PROBE_FIRST));
    costs->network_from = probe == TT_PROBE_AUTO  ? TT_LINK_AWAITED
                          : probe == TT_PROBE_OFF ? TT_LINK_ASSUMED
                                                  : TT_LINK_NAMED;
    tt_link_price(costs->network, costs);
}

tutti_status tt_selection_read(struct tt_settings *settings)
{
    settings->cache_bytes = tt_cache_own_bytes();
    settings->costs = tt_costs_default();
    settings->costs.cores = (uint64_t)tt_cores_machine();
    tt_selection_assume(settings);
    return tt_rules_read(settings);
}
