/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_kernels.cu: the function of each kernel.
 *
 * Types that compute alike share kernels: products and bits of integers know no sign. A fold of integers, and
 * one that picks an operand, has one shape: nothing is rounded on the way. */
#include "base/dev_kernel.h"
#include "kernels/cuda/cuda_direct.h"
#include "kernels/cuda/cuda_table.cuh"

static const struct tt_kernel_row *const rows[TT_FOLD_TYPES] = { &tt_kernels_int8, &tt_kernels_uint8,
    &tt_kernels_int32, &tt_kernels_uint32, &tt_kernels_int64, &tt_kernels_uint64, &tt_kernels_float16,
    &tt_kernels_float32, &tt_kernels_float64, &tt_kernels_bfloat16, &tt_kernels_float8_e4m3,
    &tt_kernels_float8_e5m2 };

static const void *const *const direct[1 + TT_FOLD_TYPES] = { &tt_direct_move, &tt_direct_int8,
    &tt_direct_uint8, &tt_direct_int32, &tt_direct_uint32, &tt_direct_int64, &tt_direct_uint64,
    &tt_direct_float16, &tt_direct_float32, &tt_direct_float64, &tt_direct_bfloat16, &tt_direct_float8_e4m3,
    &tt_direct_float8_e5m2 };

enum { MOVE = 1, FIRST = 2, OF_A_TYPE = (TT_ROWS + 1) * TT_SHAPES };

static const void *function_of(uint32_t number)
{
    if (number == MOVE)
        return tt_kernel_move;
    if (number < FIRST || number >= TT_KERNEL_NUMBERS)
        return nullptr;
    if (number == TT_KERNEL_LIST)
        return tt_list;
    if (number >= TT_KERNEL_FIRST_DIRECT)
        return *direct[number - TT_KERNEL_FIRST_DIRECT];
    const uint32_t type = (number - FIRST) / OF_A_TYPE, of_type = (number - FIRST) % OF_A_TYPE;
    const uint32_t row = of_type / TT_SHAPES, shape = of_type % TT_SHAPES;
    /* An integer's unsigned fellow follows it. */
    const struct tt_kernel_row *own = rows[type], *alike = rows[type < TUTTI_FLOAT16 ? type | 1 : type];
    const void *function = own->fold[row][shape];
    if (function == nullptr)
        function = own->fold[row][TT_CHAIN];
    return function != nullptr ? function : alike->fold[row][TT_CHAIN];
}

uint32_t tt_dev_kernels(void)
{
    return TT_KERNEL_NUMBERS;
}

bool tt_dev_kernel_find(uint32_t number, struct tt_dev_kernel *kernel)
{
    const void *function = function_of(number);
    if (function == nullptr)
        return false;
    kernel->function = function;
    kernel->params_bytes = number < TT_KERNEL_FIRST_DIRECT ? sizeof(tt_fused_params)
                           : number < TT_KERNEL_LIST       ? sizeof(tt_direct_params)
                                                           : sizeof(tt_direct_list_params);
    return true;
}
