/* cuda_table.cuh: what the files of kernels offer, for tt_kernel_find to choose from. */
#ifndef TT_KERNELS_CUDA_TABLE_CUH
#define TT_KERNELS_CUDA_TABLE_CUH
#include "kernels/cuda_kernels.h"
#include "kernels/cuda_primitives.cuh"

extern const void *const tt_kernel_copy;

#endif
