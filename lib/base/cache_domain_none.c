/* SPDX-License-Identifier: BSD-3-Clause */
/* cache_domain_none.c: where hwloc's header is missing, nobody knows in which cache domain this process
 * is, nor how long its caches are. */
#include "base/cache_domain.h"

int tt_cache_domain(void)
{
    return -1;
}

int tt_cache_domain_of(const cpu_set_t *cores)
{
    (void)cores;
    return -1;
}

uint64_t tt_cache_bytes(void)
{
    return 0;
}
