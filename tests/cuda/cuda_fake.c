/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fake.c: the functions of CUDA that the plugin calls, each of which notes its name and arguments.
 *
 * Handles and addresses are small numbers, so that the notes can be compared as text. */
#include "cuda_fake.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/dev_kernel.h"

struct fake fake = {
    .driver_version = 13000, .context_device = -1, .exported_fd = -1, .devices = 2, .owner = 1
};
const char fake_kernels[3];

const char *fake_calls(void)
{
    static char calls[sizeof fake.calls];
    memcpy(calls, fake.calls, sizeof calls);
    fake.calls[0] = '\0';
    return calls;
}

int fake_note(const char *function, const char *format, ...)
{
    size_t length = strlen(fake.calls);
    va_list arguments;
    length += (size_t)snprintf(
        fake.calls + length, sizeof fake.calls - length, "%s%s(", length > 0 ? " " : "", function);
    va_start(arguments, format);
    length += (size_t)vsnprintf(fake.calls + length, sizeof fake.calls - length, format, arguments);
    va_end(arguments);
    snprintf(fake.calls + length, sizeof fake.calls - length, ")");
    return fake.failing != NULL && strcmp(function, fake.failing) == 0 ? fake.code : 0;
}

static unsigned long number(const void *handle)
{
    return (unsigned long)(uintptr_t)handle;
}

static void *handle(uintptr_t number)
{
    return (void *)number;
}

/* --- Errors and versions. */

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorInvalidValue ? "cudaErrorInvalidValue" : "cudaErrorOfSomeKind";
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorInvalidValue ? "invalid argument" : "something is wrong";
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = fake.driver_version;
    return cudaSuccess;
}

/* --- Devices and captures. */

cudaError_t cudaGetDeviceCount(int *n)
{
    *n = 2;
    return fake_note("cudaGetDeviceCount", "%s", "");
}

cudaError_t cudaSetDevice(int device)
{
    return fake_note("cudaSetDevice", "%d", device);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    *p = (struct cudaDeviceProp){ .name = "A device",
        .uuid = { { 1, (char)0xab } },
        .totalGlobalMem = 1 << 20,
        .major = 9,
        .multiProcessorCount = 132,
        .pciBusID = 0x19 + device,
        .integrated = fake.integrated,
        .concurrentManagedAccess = 1 };
    return fake_note("cudaGetDeviceProperties", "%d", device);
}

/* --- Memory. */

cudaError_t cudaMalloc(void **ptr, size_t bytes)
{
    *ptr = handle(0x1000);
    return fake_note("cudaMalloc", "%zu", bytes);
}

cudaError_t cudaFree(void *ptr)
{
    return fake_note("cudaFree", "%#lx", number(ptr));
}

cudaError_t cudaMallocManaged(void **ptr, size_t bytes, unsigned flags)
{
    *ptr = handle(0x2000);
    return fake_note("cudaMallocManaged", "%zu, %u", bytes, flags);
}

cudaError_t cudaHostAlloc(void **ptr, size_t bytes, unsigned flags)
{
    *ptr = handle(0x3000);
    return fake_note("cudaHostAlloc", "%zu, %u", bytes, flags);
}

cudaError_t cudaFreeHost(void *ptr)
{
    return fake_note("cudaFreeHost", "%#lx", number(ptr));
}

cudaError_t cudaHostRegister(void *ptr, size_t bytes, unsigned flags)
{
    return fake_note("cudaHostRegister", "%#lx, %zu, %u", number(ptr), bytes, flags);
}

cudaError_t cudaHostGetDevicePointer(void **seen, void *ptr, unsigned flags)
{
    *seen = handle(0x4000);
    return fake_note("cudaHostGetDevicePointer", "%#lx, %u", number(ptr), flags);
}

cudaError_t cudaHostUnregister(void *ptr)
{
    return fake_note("cudaHostUnregister", "%#lx", number(ptr));
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *ptr)
{
    memset(out, 7, sizeof *out);
    return fake_note("cudaIpcGetMemHandle", "%#lx", number(ptr));
}

cudaError_t cudaIpcOpenMemHandle(void **ptr, cudaIpcMemHandle_t from, unsigned flags)
{
    *ptr = handle(0x5000);
    return fake_note("cudaIpcOpenMemHandle", "%d, %u", from.reserved[0], flags);
}

cudaError_t cudaIpcCloseMemHandle(void *ptr)
{
    return fake_note("cudaIpcCloseMemHandle", "%#lx", number(ptr));
}

/* --- Copies, streams, events, calls of the host. */

cudaError_t cudaMemcpyAsync(
    void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s)
{
    return fake_note(
        "cudaMemcpyAsync", "%#lx, %#lx, %zu, %d, %lu", number(dst), number(src), bytes, kind, number(s));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t bytes,
    size_t rows, enum cudaMemcpyKind kind, cudaStream_t s)
{
    return fake_note("cudaMemcpy2DAsync", "%#lx, %zu, %#lx, %zu, %zu, %zu, %d, %lu", number(dst), dst_pitch,
        number(src), src_pitch, bytes, rows, kind, number(s));
}

cudaError_t cudaMemsetAsync(void *ptr, int byte, size_t bytes, cudaStream_t s)
{
    return fake_note("cudaMemsetAsync", "%#lx, %d, %zu, %lu", number(ptr), byte, bytes, number(s));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
    *s = handle(11);
    return fake_note("cudaStreamCreateWithFlags", "%u", flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    return fake_note("cudaStreamDestroy", "%lu", number(s));
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
    return fake_note("cudaStreamQuery", "%lu", number(s));
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
    return fake_note("cudaStreamSynchronize", "%lu", number(s));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *status)
{
    *status = (enum cudaStreamCaptureStatus)fake.capture;
    return fake_note("cudaStreamIsCapturing", "%lu", number(s));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = handle(13);
    return fake_note("cudaEventCreateWithFlags", "%u", flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return fake_note("cudaEventDestroy", "%lu", number(event));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t s, unsigned flags)
{
    return fake_note("cudaEventRecordWithFlags", "%lu, %lu, %u", number(event), number(s), flags);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t event, unsigned flags)
{
    return fake_note("cudaStreamWaitEvent", "%lu, %lu, %u", number(s), number(event), flags);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return fake_note("cudaEventQuery", "%lu", number(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    *ms = 1.5f;
    return fake_note("cudaEventElapsedTime", "%lu, %lu", number(begin), number(end));
}

cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t call, void *argument)
{
    return fake_note("cudaLaunchHostFunc", "%lu, %d, %#lx", number(s), call != NULL, number(argument));
}

/* --- Kernels. */

static int kernel_of(const void *function)
{
    return (int)((const char *)function - fake_kernels);
}

uint32_t tt_dev_kernels(void)
{
    return sizeof fake_kernels;
}

bool tt_dev_kernel_find(uint32_t kernel, struct tt_dev_kernel *found)
{
    if (kernel != 0 && kernel != 2)
        return false;
    *found = (struct tt_dev_kernel){ &fake_kernels[kernel], 24 };
    return true;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    memset(attributes, 0, sizeof *attributes);
    return fake_note("cudaFuncGetAttributes", "%d", kernel_of(function));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *n, const void *function, int block, size_t bytes)
{
    *n = 3;
    return fake_note("cudaOccupancy", "%d, %d, %zu", kernel_of(function), block, bytes);
}

cudaError_t cudaLaunchKernel(
    const void *function, dim3 grid, dim3 block, void **arguments, size_t bytes, cudaStream_t s)
{
    return fake_note("cudaLaunchKernel", "%d, %ux%ux%u, %ux%ux%u, %#lx, %zu, %lu", kernel_of(function),
        grid.x, grid.y, grid.z, block.x, block.y, block.z, number(arguments[0]), bytes, number(s));
}

/* --- Graphs. */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    return fake_note("cudaStreamBeginCapture", "%lu, %d", number(s), mode);
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph)
{
    *graph = handle(12);
    return fake_note("cudaStreamEndCapture", "%lu", number(s));
}

cudaError_t cudaUserObjectCreate(
    cudaUserObject_t *object, void *argument, cudaHostFn_t release, unsigned references, unsigned flags)
{
    *object = handle(14);
    fake.release = release;
    return fake_note("cudaUserObjectCreate", "%#lx, %u, %u", number(argument), references, flags);
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned n, unsigned flags)
{
    return fake_note(
        "cudaGraphRetainUserObject", "%lu, %lu, %u, %u", number(graph), number(object), n, flags);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    return fake_note("cudaGraphDestroy", "%lu", number(graph));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *runnable, cudaGraph_t graph, unsigned long long flags)
{
    *runnable = handle(15);
    return fake_note("cudaGraphInstantiate", "%lu, %llu", number(graph), flags);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t runnable, cudaStream_t s)
{
    return fake_note("cudaGraphLaunch", "%lu, %lu", number(runnable), number(s));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t runnable)
{
    return fake_note("cudaGraphExecDestroy", "%lu", number(runnable));
}
