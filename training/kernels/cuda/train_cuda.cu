/* SPDX-License-Identifier: BSD-3-Clause */
/* train_cuda.cu: kernels started on a stream of a device. It alone calls CUDA's runtime, and so it alone is
 * in no emulated set. */
#include "training/kernels/cuda/cuda_set.h"

#include <stdio.h>

#include <type_traits>

#include "training/kernels/cuda/cublas.h"
#include "training/kernels/cuda/tune.h"

#if __has_include(<cublas_api.h>)
#include <cublas_api.h>

/* A function's type, where enumerations are int, and pointers are all one: what a call depends on. */
template <class T>
using plain = std::conditional_t<std::is_enum_v<T>, int, std::conditional_t<std::is_pointer_v<T>, void *, T>>;
template <class Result, class... Args>
auto plain_call(Result (*)(Args...)) -> plain<Result> (*)(plain<Args>...);
template <class Ours, class Result, class... Args> constexpr bool is_called_so(Result (*theirs)(Args...))
{
    return std::is_same_v<decltype(plain_call(static_cast<Ours *>(nullptr))), decltype(plain_call(theirs))>;
}
using multiply_in = cublasStatus_t (*)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
    const void *, const void *, cudaDataType, int, const void *, cudaDataType, int, const void *, void *,
    cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
static_assert(is_called_so<tr_cublas_create>(cublasCreate_v2), "cublasCreate_v2");
static_assert(is_called_so<tr_cublas_destroy>(cublasDestroy_v2), "cublasDestroy_v2");
static_assert(is_called_so<tr_cublas_set_stream>(cublasSetStream_v2), "cublasSetStream_v2");
static_assert(is_called_so<tr_cublas_multiply>(static_cast<multiply_in>(cublasGemmEx)), "cublasGemmEx");
static_assert(sizeof(cublasStatus_t) == sizeof(int) && sizeof(cublasOperation_t) == sizeof(int) &&
                  sizeof(cudaDataType) == sizeof(int) && sizeof(cublasComputeType_t) == sizeof(int) &&
                  sizeof(cublasGemmAlgo_t) == sizeof(int),
    "enumerations are passed as int");
static_assert(CUBLAS_OP_N == int{ TR_CUBLAS_PLAIN } && CUBLAS_OP_T == int{ TR_CUBLAS_TURNED }, "operations");
static_assert(CUDA_R_32F == int{ TR_CUBLAS_FLOAT }, "types");
static_assert(CUBLAS_GEMM_DEFAULT == int{ TR_CUBLAS_ANY_ALGORITHM }, "algorithms");
static_assert(CUBLAS_COMPUTE_32F == int{ TR_CUBLAS_FLOAT32 } &&
                  CUBLAS_COMPUTE_32F_FAST_16BF == int{ TR_CUBLAS_BFLOAT16 } &&
                  CUBLAS_COMPUTE_32F_FAST_TF32 == int{ TR_CUBLAS_TF32 },
    "precisions");
#endif

int tr_cuda_start(struct tr_cuda *c, const struct tr_cuda_launch *l)
{
    void *params[] = { const_cast<void *>(l->params) };
    return cudaLaunchKernel(
        l->function, dim3(l->grid), dim3(l->block), params, 0, static_cast<cudaStream_t>(c->stream));
}

const char *tr_cuda_words(int status)
{
    if (status >= TR_CUBLAS_STATUS)
        return tr_cublas_words(status - TR_CUBLAS_STATUS);
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
