/* SPDX-License-Identifier: BSD-3-Clause */
/* caches.c: how long the caches of this machine are, asked once in a process.
 *
 * Of level 2 glibc knows at once, on some machines; hwloc takes milliseconds, so it comes second, and the
 * kernel's files last. Of level 3 glibc adds up the whole machine, where a virtual one has two cores of it,
 * and only the kernel says what one such cache has. */
#include "base/caches.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cache_domain.h"

/* These hold where nobody knows. */
enum { OWN_USUAL = 1 << 20, SHARED_USUAL = 32 << 20 };

/* What the kernel says of a cache of the first core, or `usual`. */
static uint64_t ask_kernel(const char *path, uint64_t usual)
{
    unsigned kib = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return usual;
    bool tells = fscanf(file, "%uK", &kib) == 1 && kib > 0;
    fclose(file);
    return tells ? (uint64_t)kib << 10 : usual;
}

static uint64_t look_at_own(void)
{
    long quick = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE /* glibc has it, musl does not */
    quick = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    uint64_t bytes = quick > 0 ? (uint64_t)quick : tt_cache_bytes();
    return bytes > 0 ? bytes : ask_kernel("/sys/devices/system/cpu/cpu0/cache/index2/size", OWN_USUAL);
}

static uint64_t look_at_shared(void)
{
    return ask_kernel("/sys/devices/system/cpu/cpu0/cache/index3/size", SHARED_USUAL);
}

static uint64_t once(_Atomic uint64_t *known, uint64_t (*look)(void))
{
    uint64_t bytes = atomic_load_explicit(known, memory_order_relaxed);
    if (bytes == 0) {
        bytes = look();
        atomic_store_explicit(known, bytes, memory_order_relaxed);
    }
    return bytes;
}

uint64_t tt_cache_own_bytes(void)
{
    static _Atomic uint64_t known;
    return once(&known, look_at_own);
}

uint64_t tt_cache_shared_bytes(void)
{
    static _Atomic uint64_t known;
    return once(&known, look_at_shared);
}
