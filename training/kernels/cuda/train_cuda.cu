/* SPDX-License-Identifier: BSD-3-Clause */
/* train_cuda.cu: kernels started on a stream of a device. It alone calls CUDA's runtime, and so it alone is
 * in no emulated set. */
#include "training/kernels/cuda/cuda_set.h"

#include <stdio.h>

#include "training/kernels/cuda/tune.h"

int tr_cuda_start(struct tr_cuda *c, const struct tr_cuda_launch *l)
{
    void *params[] = { const_cast<void *>(l->params) };
    return cudaLaunchKernel(
        l->function, dim3(l->grid), dim3(l->block), params, 0, static_cast<cudaStream_t>(c->stream));
}

const char *tr_cuda_words(int status)
{
    return cudaGetErrorString(static_cast<cudaError_t>(status));
}

int tr_cuda_describe(char *device, char *driver)
{
    int number, version;
    cudaDeviceProp properties;
    cudaError_t error = cudaGetDevice(&number);
    if (error == cudaSuccess)
        error = cudaGetDeviceProperties(&properties, number);
    if (error == cudaSuccess)
        error = cudaDriverGetVersion(&version);
    if (error != cudaSuccess)
        return error;
    snprintf(device, TR_CUDA_NAME, "%s", properties.name);
    snprintf(driver, TR_CUDA_NAME, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    return 0;
}
