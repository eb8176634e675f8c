/* SPDX-License-Identifier: BSD-3-Clause */
/* train_cuda.cu: the library's own function: kernels, and CUDA's runtime for who runs them, of which each
 * function is a call or two. It alone calls that runtime, and so it alone is in no emulated set.
 *
 * This copy of the runtime and that of libtutti_cuda.so use the same context of a device, the primary one, so
 * memory, streams and events of the one are known to the other. */
#include "training/kernels/cuda/cuda_set.h"

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
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

static cudaStream_t stream_of(void *stream)
{
    return static_cast<cudaStream_t>(stream);
}

static cudaEvent_t event_of(void *event)
{
    return static_cast<cudaEvent_t>(event);
}

static int launch(struct tr_cuda *c, const struct tr_cuda_launch *l)
{
    void *params[] = { const_cast<void *>(l->params) };
    return cudaLaunchKernel(l->function, dim3(l->grid), dim3(l->block), params, 0, stream_of(c->stream));
}

static int use(int device, struct tr_cuda_facts *facts)
{
    cudaDeviceProp known;
    size_t left = 0, all = 0;
    int version = 0, status = cudaSetDevice(device);
    if (status == cudaSuccess)
        status = cudaGetDeviceProperties(&known, device);
    if (status == cudaSuccess)
        status = cudaDeviceGetPCIBusId(facts->address, sizeof facts->address, device);
    if (status == cudaSuccess)
        status = cudaMemGetInfo(&left, &all);
    if (status == cudaSuccess)
        status = cudaDriverGetVersion(&version);
    if (status != cudaSuccess)
        return status;
    memcpy(facts->name, known.name, sizeof facts->name - 1);
    facts->name[sizeof facts->name - 1] = 0;
    snprintf(facts->driver, sizeof facts->driver, "CUDA %d.%d", version / 1000, version % 1000 / 10);
    facts->multiprocessors = known.multiProcessorCount;
    facts->free = static_cast<int64_t>(left);
    return 0;
}

static int pin(void **memory, int64_t bytes)
{
    return cudaHostAlloc(memory, static_cast<size_t>(bytes), cudaHostAllocDefault);
}

static int unpin(void *memory)
{
    return cudaFreeHost(memory);
}

static int make_stream(void **stream)
{
    return cudaStreamCreateWithFlags(reinterpret_cast<cudaStream_t *>(stream), cudaStreamNonBlocking);
}

static int end_stream(void *stream)
{
    return cudaStreamDestroy(stream_of(stream));
}

static int make_event(void **event)
{
    return cudaEventCreateWithFlags(reinterpret_cast<cudaEvent_t *>(event), cudaEventDisableTiming);
}

static int make_timed_event(void **event)
{
    return cudaEventCreate(reinterpret_cast<cudaEvent_t *>(event));
}

static int end_event(void *event)
{
    return cudaEventDestroy(event_of(event));
}

static int record(void *event, void *stream)
{
    return cudaEventRecord(event_of(event), stream_of(stream));
}

static int await(void *stream, void *event)
{
    return cudaStreamWaitEvent(stream_of(stream), event_of(event), 0);
}

static int wait(void *event)
{
    return cudaEventSynchronize(event_of(event));
}

static int elapsed(void *begin, void *end, float *ms)
{
    return cudaEventElapsedTime(ms, event_of(begin), event_of(end));
}

static int copy(void *stream, void *to, const void *from, int64_t bytes)
{
    return cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream_of(stream));
}

static int fill(void *stream, void *to, int byte, int64_t bytes)
{
    return cudaMemsetAsync(to, byte, static_cast<size_t>(bytes), stream_of(stream));
}

static int sync(void *stream)
{
    return cudaStreamSynchronize(stream_of(stream));
}

static int keep(void *stream)
{
    return cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal);
}

static int kept(void *stream, void **graph)
{
    cudaGraph_t captured;
    cudaGraphExec_t made;
    int status = cudaStreamEndCapture(stream_of(stream), &captured);
    if (status != cudaSuccess)
        return status;
    status = cudaGraphInstantiate(&made, captured, 0);
    const int destroyed = cudaGraphDestroy(captured);
    if (status == cudaSuccess)
        *graph = made;
    return status != cudaSuccess ? status : destroyed;
}

static int replay(void *graph, void *stream)
{
    return cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream));
}

static int drop(void *graph)
{
    return cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
}

/* ---- ranges for profilers (NVTX), such as Nsight Systems ---- */

static nvtxDomainHandle_t domain; /* NULL: there is no profiler */

static void make_domain()
{
    domain = nvtxDomainCreateA("tutti-train");
}

static void begin_range(const char *does, const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_domain);
    if (domain == nullptr)
        return;
    char text[128];
    snprintf(text, sizeof text, "%s %s", does, name);
    nvtxEventAttributes_t range = {};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = text;
    nvtxDomainRangePushEx(domain, &range);
}

static void end_range()
{
    if (domain != nullptr)
        nvtxDomainRangePop(domain);
}

const char *tr_cuda_words(int status)
{
    if (status >= TR_CUBLAS_STATUS)
        return tr_cublas_words(status - TR_CUBLAS_STATUS);
    return cudaGetErrorString(static_cast<cudaError_t>(status));
}

const struct tr_cuda_library *tr_cuda_offer(void)
{
    static const struct tr_cuda_library offered = { TR_CUDA_VERSION, sizeof(struct tr_kernels),
        &tr_kernels_cuda, launch, use, pin, unpin, make_stream, end_stream, make_event, make_timed_event,
        end_event, record, await, wait, elapsed, copy, fill, sync, keep, kept, replay, drop, tr_cublas_open,
        tr_cublas_close, tr_cuda_set_free_order, tr_cuda_tuning_read, tr_cuda_tuning_write, begin_range,
        end_range };
    return &offered;
}
