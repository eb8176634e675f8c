/* SPDX-License-Identifier: BSD-3-Clause */
/* selection.c: what rank 0 reads for all ranks before they choose algorithms; see selection.h. */
#include "select/selection.h"

#include "base/wait.h"
#include "base/caches.h"

tutti_status tt_selection_read(struct tt_settings *settings)
{
    settings->cache_bytes = tt_cache_own_bytes();
    settings->costs = tt_costs_default();
    settings->costs.cores = (uint64_t)tt_cores_machine();
    return tt_rules_read(settings);
}
