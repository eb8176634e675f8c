/* SPDX-License-Identifier: BSD-3-Clause */
/* divide.c: the division that ends an average of integers.
 *
 * No processor divides vectors of integers, so one text serves all instruction sets; it runs over a sum that
 * has just been written. */
#include "kernels/fold_table.h"

#define INLINE static inline
#include "kernels/fold_divide.h"

#define DIVIDE(name, element)                                                                                \
    static void divide_##name(element *x, size_t count, uint32_t divisor)                                    \
    {                                                                                                        \
        for (size_t i = 0; i < count; i++)                                                                   \
            x[i] = quotient_##name(x[i], divisor);                                                           \
    }
DIVIDE(int8, int8_t)
DIVIDE(uint8, uint8_t)
DIVIDE(int32, int32_t)
DIVIDE(uint32, uint32_t)
DIVIDE(int64, int64_t)
DIVIDE(uint64, uint64_t)

void tt_divide_integers(void *x, size_t count, tutti_type type, uint32_t divisor)
{
    switch (type) {
    case TUTTI_INT8:
        divide_int8(x, count, divisor);
        break;
    case TUTTI_UINT8:
        divide_uint8(x, count, divisor);
        break;
    case TUTTI_INT32:
        divide_int32(x, count, divisor);
        break;
    case TUTTI_UINT32:
        divide_uint32(x, count, divisor);
        break;
    case TUTTI_INT64:
        divide_int64(x, count, divisor);
        break;
    default:
        divide_uint64(x, count, divisor);
        break;
    }
}
