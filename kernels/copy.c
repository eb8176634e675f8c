/* SPDX-License-Identifier: BSD-3-Clause */
/* copy.c: bytes from one place to another, through the caches or past them.
 *
 * A store past the caches does not fetch the line that it overwrites and does not take room from what will be
 * read again, but only whole lines are fast: the ends of a block go through the caches. */
#include "kernels/fold_table.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* From the first on memcpy leaves the work to the processor (rep movsb), which takes long to begin: worth it
 * where the lines are another core's, and from the second on, where they do not all fit the first cache. */
enum { LINE = 64, VECTORS_FROM = 2112, VECTORS_TO = 12 << 10 };

static __attribute__((noinline)) void copy_by_vectors(uint8_t *to, const uint8_t *from, size_t bytes)
{
    void (*copy)(uint8_t *, const uint8_t *, uint64_t) = tt_fold_table_best()->copy;
    size_t whole = copy != NULL ? bytes / TT_COPY_BLOCK * TT_COPY_BLOCK : 0;
    if (whole > 0)
        copy(to, from, whole);
    memcpy(to + whole, from + whole, bytes - whole);
}

void tt_copy_bytes(void *dst, const void *src, size_t bytes)
{
    if (bytes - VECTORS_FROM <= VECTORS_TO - VECTORS_FROM)
        copy_by_vectors(dst, src, bytes);
    else
        memcpy(dst, src, bytes);
}

void tt_copy_stream(void *dst, const void *src, uint64_t bytes)
{
    uint8_t *to = dst;
    const uint8_t *from = src;
    uint64_t head = -(uint64_t)(uintptr_t)to % LINE;
    if (bytes < head + LINE) {
        memcpy(to, from, bytes);
        return;
    }
    uint64_t whole = (bytes - head) / LINE * LINE, done = head + whole;
    memcpy(to, from, head);
    tt_fold_table_best()->stream(to + head, from + head, whole);
    memcpy(to + done, from + done, bytes - done);
}

void tt_copy_fence(void)
{
#if defined(__x86_64__)
    _mm_sfence();
#else
    atomic_thread_fence(memory_order_release);
#endif
}
