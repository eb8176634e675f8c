/* cuda_numbers.c: the kernels by the numbers that a device table has for them. */
#include "base/dev_kernel.h"
#include "kernels/cuda_kernels.h"

uint32_t tt_dev_kernels(void)
{
    return tt_kernel_number(TT_KERNELS, (tutti_type)0, 0);
}

bool tt_dev_kernel_find(uint32_t number, struct tt_dev_kernel *kernel)
{
    struct tt_kernel_launch launch;
    uint32_t op = number % TT_KERNEL_OPS, type = number / TT_KERNEL_OPS % TT_KERNEL_TYPES;
    uint32_t which = number / TT_KERNEL_OPS / TT_KERNEL_TYPES;
    if (which >= TT_KERNELS || type > TUTTI_FLOAT8_E5M2 || op > TUTTI_BIT_XOR ||
        tt_kernel_find((enum tt_kernel)which, (tutti_type)type, op, 0, 1, &launch) == 0)
        return false;
    *kernel = (struct tt_dev_kernel){ launch.function, launch.params_bytes };
    return true;
}
