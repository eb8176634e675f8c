/* SPDX-License-Identifier: BSD-3-Clause */
/* few.h: copying a few bytes, where the call of memcpy would cost more than the copy, and other haste. Pieces
 * of a fixed length are moves; the last one overlaps the one before. */
#ifndef TT_BASE_FEW_H
#define TT_BASE_FEW_H
#include <stdint.h>
#include <string.h>

/* Marks functions on the way of a small message, where a call takes as long as what it is for. */
#define TT_INLINE static inline __attribute__((always_inline))

/* This core writes there next: its cache line is asked for as an owner does. Each x86-64 has the instruction
 * or passes over it. __builtin_prefetch(p, 1) uses it only if the compiler is told so, and else asks for a
 * copy, which is of no use here. */
TT_INLINE void tt_prefetch_to_write(const void *p)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1);
#endif
}

enum { TT_FEW_BYTES = 64 };

/* Copies at most TT_FEW_BYTES. */
static inline void tt_copy_few(void *dst, const void *src, uint32_t bytes)
{
    uint8_t *to = dst;
    const uint8_t *from = src;
    if (bytes >= 16) {
        for (uint32_t at = 0; at + 16 < bytes; at += 16)
            memcpy(to + at, from + at, 16);
        memcpy(to + bytes - 16, from + bytes - 16, 16);
    } else if (bytes >= 8) {
        uint64_t first, last;
        memcpy(&first, from, 8);
        memcpy(&last, from + bytes - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + bytes - 8, &last, 8);
    } else if (bytes >= 4) {
        uint32_t first, last;
        memcpy(&first, from, 4);
        memcpy(&last, from + bytes - 4, 4);
        memcpy(to, &first, 4);
        memcpy(to + bytes - 4, &last, 4);
    } else {
        for (uint32_t at = 0; at < bytes; at++)
            to[at] = from[at];
    }
}

#endif
