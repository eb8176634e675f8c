/* SPDX-License-Identifier: BSD-3-Clause */
/* stream.c: n-way reads and m-target writes, as wide as the processor can.
 *
 * Sums are of 64-bit integers: what matters are the bytes, and no bit pattern is slow. Up to two streams a
 * side are walked line by line. More would be too many at once for the prefetchers and the ways of a cache,
 * so there a block that stays in the first cache gathers up to four streams at a time and is stored to up to
 * two. Stores around the caches always come from such a block. The compiler makes the loops once for each
 * width: the vectors are its own extension, and only the store around the caches has no name in it. */
#include "stream.h"

#include <stddef.h>

typedef uint64_t line __attribute__((vector_size(PERF_STREAM_LINE), may_alias));

enum { BLOCK_LINES = 64 };

#define INLINE static inline __attribute__((always_inline))

/* to[k][i] = sum of from[w][i], with constant numbers of streams. `stride` is in lines. */
INLINE void fold(line *to, size_t to_stride, int targets, const line *from, size_t from_stride, int ways,
    const line *plus, size_t lines)
{
    for (size_t i = 0; i < lines; i++) {
        line sum = from[i];
        for (int w = 1; w < ways; w++)
            sum += from[(size_t)w * from_stride + i];
        if (plus != NULL)
            sum += plus[i];
        for (int k = 0; k < targets; k++)
            to[(size_t)k * to_stride + i] = sum;
    }
}

INLINE void gather_block(line *block, const line *from, size_t stride, int ways, size_t lines)
{
    int w = ways >= 4 ? 4 : 1;
    if (w == 4)
        fold(block, 0, 1, from, stride, 4, NULL, lines);
    else
        fold(block, 0, 1, from, stride, 1, NULL, lines);
    for (; w + 4 <= ways; w += 4)
        fold(block, 0, 1, from + (size_t)w * stride, stride, 4, block, lines);
    for (; w < ways; w++)
        fold(block, 0, 1, from + (size_t)w * stride, stride, 1, block, lines);
}

static void store_around(line *to, const line *from, size_t lines)
{
#ifdef __x86_64__
    for (size_t i = 0; i < lines; i++)
        __asm__ volatile("movdqa (%1), %%xmm0\n\tmovdqa 16(%1), %%xmm1\n\t"
                         "movdqa 32(%1), %%xmm2\n\tmovdqa 48(%1), %%xmm3\n\t"
                         "movntdq %%xmm0, (%0)\n\tmovntdq %%xmm1, 16(%0)\n\t"
                         "movntdq %%xmm2, 32(%0)\n\tmovntdq %%xmm3, 48(%0)"
                         :
                         : "r"(to + i), "r"(from + i)
                         : "xmm0", "xmm1", "xmm2", "xmm3", "memory");
#else
    fold(to, 0, 1, from, 0, 1, NULL, lines);
#endif
}

INLINE void pass_blocks(const struct perf_pass *p, const line *from, line *to, size_t lines, bool around)
{
    line block[BLOCK_LINES];
    for (size_t at = 0; at < lines; at += BLOCK_LINES) {
        size_t some = lines - at < BLOCK_LINES ? lines - at : BLOCK_LINES;
        gather_block(block, from + at, lines, p->ways, some);
        int k = 0;
        for (; !around && k + 2 <= p->targets; k += 2)
            fold(to + (size_t)k * lines + at, lines, 2, block, 0, 1, NULL, some);
        for (; !around && k < p->targets; k++)
            fold(to + (size_t)k * lines + at, lines, 1, block, 0, 1, NULL, some);
        for (; k < p->targets; k++)
            store_around(to + (size_t)k * lines + at, block, some);
    }
}

INLINE void pass_any(const struct perf_pass *p, const line *from, line *to, bool around)
{
    size_t lines = (size_t)(p->bytes / PERF_STREAM_LINE);
    if (around || p->ways > 2 || p->targets > 2)
        pass_blocks(p, from, to, lines, around);
    else if (p->ways == 2 && p->targets == 2)
        fold(to, lines, 2, from, lines, 2, NULL, lines);
    else if (p->ways == 2)
        fold(to, lines, 1, from, lines, 2, NULL, lines);
    else if (p->targets == 2)
        fold(to, lines, 2, from, lines, 1, NULL, lines);
    else
        fold(to, lines, 1, from, lines, 1, NULL, lines);
}

static void pass_generic(const struct perf_pass *p, const line *from, line *to, bool around)
{
    pass_any(p, from, to, around);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) static void pass_avx2(
    const struct perf_pass *p, const line *from, line *to, bool around)
{
    pass_any(p, from, to, around);
}

__attribute__((target("avx512f"))) static void pass_avx512(
    const struct perf_pass *p, const line *from, line *to, bool around)
{
    pass_any(p, from, to, around);
}
#endif

void perf_stream_run(
    const struct perf_pass *pass, const uint8_t *from, uint8_t *to, enum perf_stream_kind kind)
{
    const line *source = (const line *)from;
    line *target = (line *)to;
    bool around = kind == PERF_STREAM_AROUND;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        pass_avx512(pass, source, target, around);
    else if (__builtin_cpu_supports("avx2"))
        pass_avx2(pass, source, target, around);
    else
#endif
        pass_generic(pass, source, target, around);
#ifdef __x86_64__
    if (around)
        __asm__ volatile("sfence" ::: "memory");
#endif
}
