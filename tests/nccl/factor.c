/* SPDX-License-Identifier: BSD-3-Clause */
/* factor.c: a library that makes a sum with a factor of 2 of bfloat16, and gives the factor as a float32,
 * which is what PyTorch does. Named libtorch... it is taken for that; else two bytes of the float are the
 * factor. */
#include <nccl.h>
#include <stdint.h>

/* The bits of what 3 comes to, or -1. */
int product(void)
{
    ncclComm_t comm;
    ncclRedOp_t op;
    float factor = 2;
    uint16_t three = 0x4040, result = 0;
    if (ncclCommInitAll(&comm, 1, NULL) != ncclSuccess ||
        ncclRedOpCreatePreMulSum(&op, &factor, ncclBfloat16, ncclScalarHostImmediate, comm) != ncclSuccess ||
        ncclAllReduce(&three, &result, 1, ncclBfloat16, op, comm, NULL) != ncclSuccess ||
        ncclRedOpDestroy(op, comm) != ncclSuccess || ncclCommDestroy(comm) != ncclSuccess)
        return -1;
    return result;
}

/* What is refused: a factor on a device, where there is none. */
int product_of_device(void)
{
    ncclComm_t comm;
    ncclRedOp_t op;
    float factor = 2;
    if (ncclCommInitAll(&comm, 1, NULL) != ncclSuccess)
        return -1;
    ncclResult_t result = ncclRedOpCreatePreMulSum(&op, &factor, ncclBfloat16, ncclScalarDevice, comm);
    return ncclCommDestroy(comm) == ncclSuccess ? (int)result : -1;
}
