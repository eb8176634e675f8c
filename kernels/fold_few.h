/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_few.h: sums of two operands of a line at most, as a small all_reduce of two ranks ends with; for types
 * of 4 and 8 bytes.
 *
 * The loops of fold_loops.h give the same bits, but what is around them takes longer than such a sum: frames
 * for all that they may be asked for, and a look at the floating-point environment, for which the processor
 * stops. AVX-512 has sums that round and raise as the instruction says; that leaves
 * denormals, which the environment may flush, and where one is met, or may have been, the fold takes over. */
#ifndef TT_KERNELS_FOLD_FEW_H
#define TT_KERNELS_FOLD_FEW_H
#include "kernels/fold_job.h"

#define FEW_INTEGERS(lane)                                                                                   \
    static void lane##_few(void *dst, const void *a, const void *b, size_t bytes)                            \
    {                                                                                                        \
        size_t at = 0;                                                                                       \
        for (; at + sizeof(vec) <= bytes; at += sizeof(vec))                                                 \
            vec_store((uint8_t *)dst + at,                                                                   \
                sum_##lane(vec_load((const uint8_t *)a + at), vec_load((const uint8_t *)b + at)));           \
        if (at == bytes)                                                                                     \
            return;                                                                                          \
        vec x = vec_load_first((const uint8_t *)a + at, bytes - at);                                         \
        vec y = vec_load_first((const uint8_t *)b + at, bytes - at);                                         \
        vec_store_first((uint8_t *)dst + at, sum_##lane(x, y), bytes - at);                                  \
    }
FEW_INTEGERS(u32)
FEW_INTEGERS(u64)

#if defined(TT_STEADY_SUMS)
#define FEW_FLOATS(number, lane)                                                                             \
    static void number##_few(void *dst, const void *a, const void *b, size_t bytes)                          \
    {                                                                                                        \
        vec x = vec_load_first(a, bytes), y = vec_load_first(b, bytes), sum = lane##_steady_sum(x, y);       \
        if (__builtin_expect(lane##_may_flush(x, y, sum), 0)) {                                              \
            number##_sum_chain(dst, (const void *const[]){ a, b }, 2, bytes / number##_bytes, 0);            \
            return;                                                                                          \
        }                                                                                                    \
        vec_store_first(dst, sum, bytes);                                                                    \
    }
enum { float32_bytes = 4, float64_bytes = 8 };
FEW_FLOATS(float32, f32)
FEW_FLOATS(float64, f64)
#else
#define float32_few NULL
#define float64_few NULL
#endif

#endif
