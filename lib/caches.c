/* caches.c: how long the caches of this machine are, asked once in a process.
 *
 * The C library knows at once, on some machines; hwloc takes milliseconds, so it comes second. */
#include "caches.h"

#include <stdatomic.h>
#include <unistd.h>

#include "cache_domain.h"

/* Where nobody knows. */
enum { OWN_USUAL = 1 << 20 };

uint64_t tt_cache_own_bytes(void)
{
    static _Atomic uint64_t known;
    uint64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes == 0) {
        long quick = sysconf(_SC_LEVEL2_CACHE_SIZE);
        bytes = quick > 0 ? (uint64_t)quick : tt_cache_bytes();
        bytes = bytes > 0 ? bytes : OWN_USUAL;
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
    }
    return bytes;
}
