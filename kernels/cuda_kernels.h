/* cuda_kernels.h: the kernels that run on a device: their names, their parameters, and how they are launched.
 *
 * Plain C without a word of CUDA: who launches knows a kernel by its number and hands over one plain struct.
 * Behind tt_kernel_find stand the kernels for a GPU in libtutti_cuda.so, or the same source compiled for the
 * processor (cuda_emulate.h). They give the bits of kernels.h: same operands, same order, same roundings.
 *
 * Pointers are any that the device reaches, aligned to the element; nothing else is asked of them. It is
 * fastest where all of them are equally far from a multiple of 16. Overlap is legal as in kernels.h. Results
 * do not depend on grid and block, which tt_kernel_find only proposes. No kernel waits for anything. */
#ifndef TT_KERNELS_CUDA_KERNELS_H
#define TT_KERNELS_CUDA_KERNELS_H
#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tt_kernel {
    TT_KERNEL_COPY, /* struct tt_copy_params; type and op are not looked at */
    TT_KERNELS
};

/* The number of a kernel for one type and operation, by which a device table launches it (lib/base/dev.h). */
enum { TT_KERNEL_TYPES = 16, TT_KERNEL_OPS = 32 };
static inline uint32_t tt_kernel_number(enum tt_kernel kernel, tutti_type type, tutti_op op)
{
    return ((uint32_t)kernel * TT_KERNEL_TYPES + (uint32_t)type) * TT_KERNEL_OPS + op;
}

struct tt_copy_params {
    void *dst;
    const void *src;
    uint64_t bytes;
};

/* What a launch needs: the function is the runtime's (or the emulator's) to call. Grid and block have one
 * dimension; no kernel takes dynamic shared memory. */
struct tt_kernel_launch {
    const void *function;
    uint32_t grid, block, params_bytes;
};

/* For `bytes` of result on a device of so many multiprocessors. 0, and *launch untouched: the type does not
 * support the operation, or there is no such kernel. */
int tt_kernel_find(enum tt_kernel kernel, tutti_type type, tutti_op op, uint64_t bytes,
    uint32_t multiprocessors, struct tt_kernel_launch *launch);

#ifdef __cplusplus
}
#endif
#endif
