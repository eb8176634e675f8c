/* SPDX-License-Identifier: BSD-3-Clause */
/* caches.h: how long the caches of this machine are. */
#ifndef TT_CACHES_H
#define TT_CACHES_H
#include <stdint.h>

/* Bytes of a core's level 2 cache. */
uint64_t tt_cache_own_bytes(void);
/* Bytes of a level 3 cache, which several cores share. */
uint64_t tt_cache_shared_bytes(void);

#endif
