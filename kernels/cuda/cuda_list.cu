/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_list.cu: the kernel of several devices that does several small sums. */
#include "kernels/cuda/cuda_list.cuh"

const void *const tt_list = KERNEL_FUNCTION(tt_direct_list_params, list_kernel<0>);
