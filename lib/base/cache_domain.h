/* SPDX-License-Identifier: BSD-3-Clause */
/* cache_domain.h: where this process stands in the machine. */
#ifndef TT_CACHE_DOMAIN_H
#define TT_CACHE_DOMAIN_H
#include <sched.h>
#include <stdint.h>

/* The number of the level 3 cache that serves every core this thread may run on; -1: there is no such one, or
 * nobody knows. */
int tt_cache_domain(void);
/* Returns the cache domain of a process that may run on these cores. */
int tt_cache_domain_of(const cpu_set_t *cores);
/* Bytes of a core's level 2 cache; 0: nobody knows. */
uint64_t tt_cache_bytes(void);

#endif
