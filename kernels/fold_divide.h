/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_divide.h: the division that ends an average of integers, one by one, truncated towards zero. C for
 * processors, and C++ for CUDA devices; the includer has defined INLINE.
 *
 * Of 32 bits and less the magnitude is divided: that is a division of 32 bits for any divisor. */
#ifndef TT_KERNELS_FOLD_DIVIDE_H
#define TT_KERNELS_FOLD_DIVIDE_H
#include <stdint.h>

INLINE uint8_t quotient_uint8(uint8_t x, uint32_t divisor)
{
    return (uint8_t)(x / divisor);
}
INLINE uint32_t quotient_uint32(uint32_t x, uint32_t divisor)
{
    return x / divisor;
}
INLINE uint64_t quotient_uint64(uint64_t x, uint32_t divisor)
{
    return x / divisor;
}
INLINE int32_t quotient_int32(int32_t x, uint32_t divisor)
{
    uint32_t magnitude = x < 0 ? 0 - (uint32_t)x : (uint32_t)x, quotient = magnitude / divisor;
    return (int32_t)(x < 0 ? 0 - quotient : quotient);
}
INLINE int8_t quotient_int8(int8_t x, uint32_t divisor)
{
    return (int8_t)quotient_int32(x, divisor);
}
INLINE int64_t quotient_int64(int64_t x, uint32_t divisor)
{
    return x / (int64_t)divisor;
}

#endif
