/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_device.c: the device table over CUDA; the only thing that the plugin exports.
 *
 * A function of the table is one call of the runtime or two, so that the stub of the tests is the only other
 * thing that has to behave the same. Questions about devices, contexts and pointers go to the driver: asked
 * of the runtime they would make a context on a device that the user may never use, before he chose one.
 *
 * The files of transports/cuda/ are no transport: they fill the device table (lib/base/dev.h) and move no
 * messages. They are here because, like a transport, they see lib/base/ only and are reached by a table. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/dev_kernel.h"
#include "cuda_driver.h"

_Static_assert(cudaEventRecordExternal == cudaEventWaitExternal, "one flag for both");

/* The end of a call that could disturb another thread's capture. */
static enum tt_dev_error relaxed(CUstreamCaptureMode mode, const char *call, int code)
{
    tt_cuda_restore(mode);
    return tt_cuda_check(call, code);
}

/* --- Devices. None of these but `use` makes a context. */

static enum tt_dev_error count(int *n)
{
    int found;
    enum tt_dev_error error = tt_cuda_check("cudaGetDeviceCount", cudaGetDeviceCount(&found));
    if (error == TT_DEV_OK)
        *n = found;
    return error;
}

/* A driver that does not know this attribute, which is of 12.4, is asked in vain. */
static bool shares_context(const struct tt_cuda_driver *driver, int device)
{
    enum { MPS_ENABLED = 133 };
    int shared = 0;
    return driver->attribute(&shared, (CUdevice_attribute)MPS_ENABLED, device) == CUDA_SUCCESS && shared != 0;
}

static enum tt_dev_error find_facts(int device, struct tt_dev_facts *facts)
{
    const struct tt_cuda_driver *driver;
    struct cudaDeviceProp properties;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error == TT_DEV_OK)
        error = tt_cuda_check("cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, device));
    if (error != TT_DEV_OK)
        return error;
    *facts = (struct tt_dev_facts){ .capability = properties.major * 10 + properties.minor,
        .sms = properties.multiProcessorCount,
        .bytes = properties.totalGlobalMem,
        .managed = properties.concurrentManagedAccess != 0,
        .fds = tt_cuda_exports_fds(driver, device),
        .shared_context = shares_context(driver, device) };
    snprintf(facts->name, sizeof facts->name, "%.63s", properties.name);
    /* On an integrated GPU (GB10) launches behind a wait were seen to block the host, and graphs did not
     * wait. */
    facts->words = properties.integrated == 0;
    /* Slices of one GPU (MIG) have one address on the bus; only their identities differ. */
    const unsigned char *uuid = (const unsigned char *)properties.uuid.bytes;
    snprintf(facts->address, sizeof facts->address, "%04x:%02x:%02x.0/%02x%02x%02x%02x",
        properties.pciDomainID & 0xffff, properties.pciBusID & 0xff, properties.pciDeviceID & 0xff, uuid[0],
        uuid[1], uuid[2], uuid[3]);
    return TT_DEV_OK;
}

/* Only the device of the thread's own context can be asked for, so that becomes `context` for a moment. */
/* They take milliseconds, and stay. There is no lock, for a fork may come at any moment: threads that ask for
 * the first time at once all ask, and one of them keeps what it heard. */
static enum tt_dev_error facts(int device, struct tt_dev_facts *out)
{
    enum { DEVICES = 64 };
    enum { NONE, BEING_KEPT, KEPT };
    static struct {
        _Atomic int state;
        struct tt_dev_facts facts;
    } kept[DEVICES];
    bool may_keep = device >= 0 && device < DEVICES;
    if (may_keep && atomic_load_explicit(&kept[device].state, memory_order_acquire) == KEPT) {
        *out = kept[device].facts;
        return TT_DEV_OK;
    }
    struct tt_dev_facts found;
    int none = NONE;
    enum tt_dev_error error = find_facts(device, &found);
    if (error != TT_DEV_OK)
        return error;
    *out = found;
    if (may_keep && atomic_compare_exchange_strong(&kept[device].state, &none, BEING_KEPT)) {
        kept[device].facts = found;
        atomic_store_explicit(&kept[device].state, KEPT, memory_order_release);
    }
    return TT_DEV_OK;
}

static enum tt_dev_error device_of(const struct tt_cuda_driver *driver, CUcontext context, int *device)
{
    CUcontext now = NULL;
    bool other = driver->get_context(&now) != CUDA_SUCCESS || now != context;
    enum tt_dev_error error = TT_DEV_OK;
    if (other)
        error = tt_cuda_check("cuCtxPushCurrent", driver->push_context(context));
    if (error != TT_DEV_OK)
        return error;
    error = tt_cuda_current_device(driver, device);
    if (other)
        driver->pop_context(&now);
    return error;
}

enum tt_dev_error tt_cuda_current(int *device)
{
    const struct tt_cuda_driver *driver;
    CUcontext context = NULL;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error != TT_DEV_OK)
        return error;
    int code = driver->get_context(&context);
    if (code == CUDA_ERROR_NOT_INITIALIZED || (code == CUDA_SUCCESS && context == NULL)) {
        *device = -1;
        return TT_DEV_OK;
    }
    if (code != CUDA_SUCCESS)
        return tt_cuda_check("cuCtxGetCurrent", code);
    return tt_cuda_current_device(driver, device);
}

/* A context of that device that the user made himself stays. */
static enum tt_dev_error use(int device)
{
    const struct tt_cuda_driver *driver;
    int now;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error == TT_DEV_OK)
        error = tt_cuda_current(&now);
    if (error != TT_DEV_OK || now == device)
        return error;
    if (device < 0)
        return tt_cuda_check("cuCtxSetCurrent", driver->set_context(NULL));
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaSetDevice", cudaSetDevice(device));
}

static enum tt_dev_error reaches(int device, const char *address, bool *out)
{
    const struct tt_cuda_driver *driver;
    struct tt_dev_facts other;
    int n = 0, can = 0;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error == TT_DEV_OK)
        error = tt_cuda_check("cuDeviceGetCount", driver->count(&n));
    for (int i = 0; i < n && error == TT_DEV_OK; i++) {
        error = facts(i, &other);
        if (error != TT_DEV_OK || strcmp(other.address, address) != 0)
            continue;
        if (i != device)
            error = tt_cuda_check("cuDeviceCanAccessPeer", driver->can_access(&can, device, i));
        if (error == TT_DEV_OK)
            *out = can != 0;
        return error;
    }
    return error != TT_DEV_OK ? error
                              : tt_cuda_check("reaches: no device that this process sees has this address",
                                    cudaErrorInvalidDevice);
}

/* --- Memory. */

/* Outputs are set on success only; the runtime promises nothing of them where it fails. */
static enum tt_dev_error put(enum tt_dev_error error, void *made, void **out)
{
    if (error == TT_DEV_OK)
        *out = made;
    return error;
}

static enum tt_dev_error alloc(size_t bytes, void **ptr)
{
    void *made;
    CUstreamCaptureMode mode = tt_cuda_relax();
    int code = cudaMalloc(&made, bytes);
    return put(relaxed(mode, "cudaMalloc", code), made, ptr);
}

static enum tt_dev_error free_device(void *ptr)
{
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaFree", cudaFree(ptr));
}

static enum tt_dev_error alloc_managed(size_t bytes, void **ptr)
{
    void *made;
    CUstreamCaptureMode mode = tt_cuda_relax();
    int code = cudaMallocManaged(&made, bytes, cudaMemAttachGlobal);
    return put(relaxed(mode, "cudaMallocManaged", code), made, ptr);
}

static enum tt_dev_error alloc_pinned(size_t bytes, void **ptr)
{
    void *made;
    CUstreamCaptureMode mode = tt_cuda_relax();
    int code = cudaHostAlloc(&made, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    return put(relaxed(mode, "cudaHostAlloc", code), made, ptr);
}

static enum tt_dev_error free_pinned(void *ptr)
{
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaFreeHost", cudaFreeHost(ptr));
}

static enum tt_dev_error pin(void *ptr, size_t bytes, void **seen)
{
    void *found;
    CUstreamCaptureMode mode = tt_cuda_relax();
    int code = cudaHostRegister(ptr, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
    if (code != cudaSuccess)
        return relaxed(mode, "cudaHostRegister", code);
    code = cudaHostGetDevicePointer(&found, ptr, 0);
    if (code != cudaSuccess)
        cudaHostUnregister(ptr);
    return put(relaxed(mode, "cudaHostGetDevicePointer", code), found, seen);
}

static enum tt_dev_error unpin(void *ptr)
{
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaHostUnregister", cudaHostUnregister(ptr));
}

/* --- Copies. */

static enum tt_dev_error copy(void *dst, const void *src, size_t bytes, void *stream)
{
    return tt_cuda_check("cudaMemcpyAsync", cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream));
}

static enum tt_dev_error copy_rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
    size_t row_bytes, size_t rows, void *stream)
{
    return tt_cuda_check("cudaMemcpy2DAsync",
        cudaMemcpy2DAsync(dst, dst_pitch, src, src_pitch, row_bytes, rows, cudaMemcpyDefault, stream));
}

static enum tt_dev_error fill(void *dst, int byte, size_t bytes, void *stream)
{
    return tt_cuda_check("cudaMemsetAsync", cudaMemsetAsync(dst, byte, bytes, stream));
}

/* --- Streams. */

static enum tt_dev_error stream_create(void **stream)
{
    cudaStream_t made;
    CUstreamCaptureMode mode = tt_cuda_relax();
    enum tt_dev_error error =
        relaxed(mode, "cudaStreamCreateWithFlags", cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    if (error == TT_DEV_OK)
        *stream = made;
    return error;
}

static enum tt_dev_error stream_destroy(void *stream)
{
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaStreamDestroy", cudaStreamDestroy(stream));
}

static enum tt_dev_error stream_query(void *stream)
{
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaStreamQuery", cudaStreamQuery(stream));
}

static enum tt_dev_error stream_sync(void *stream)
{
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaStreamSynchronize", cudaStreamSynchronize(stream));
}

static int stream_context(const struct tt_cuda_driver *driver, void *stream, CUcontext *context)
{
    void *green;
    return driver->stream_context_or_green != NULL ? driver->stream_context_or_green(stream, context, &green)
                                                   : driver->stream_context(stream, context);
}

/* The default streams belong to whatever context the thread uses, if it uses one. cuStreamGetDevice would
 * spoil a capture of the stream; its context may be asked for at any time. That of a green context's stream
 * is the primary one, with which it shares all but its multiprocessors; before 12.5 it is one of its own. */
static enum tt_dev_error stream_device(void *stream, int *device, void **context)
{
    const struct tt_cuda_driver *driver;
    CUcontext found = NULL;
    bool named = stream != NULL && stream != cudaStreamLegacy && stream != cudaStreamPerThread;
    int number = -1;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error != TT_DEV_OK)
        return error;
    int code = stream_context(driver, stream, &found);
    bool none = code == CUDA_ERROR_NOT_INITIALIZED || code == CUDA_ERROR_INVALID_CONTEXT;
    if (named || !none)
        error = tt_cuda_check("cuStreamGetCtx", code);
    if (error == TT_DEV_OK && code == CUDA_SUCCESS)
        error = device_of(driver, found, &number);
    if (error != TT_DEV_OK)
        return error;
    *device = number;
    *context = found;
    return TT_DEV_OK;
}

static enum tt_dev_error stream_capture(void *stream, struct tt_dev_capture *capture)
{
    const struct tt_cuda_driver *driver;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    cuuint64_t id = 0;
    CUgraph graph = NULL;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error == TT_DEV_OK)
        error = tt_cuda_check(
            "cuStreamGetCaptureInfo", driver->capture_info(stream, &status, &id, &graph, NULL, NULL));
    if (error != TT_DEV_OK)
        return error;
    *capture = (struct tt_dev_capture){ .broken = status == CU_STREAM_CAPTURE_STATUS_INVALIDATED };
    if (status == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        *capture = (struct tt_dev_capture){ .active = true, .id = id, .graph = graph };
    return TT_DEV_OK;
}

/* --- Events. */

static enum tt_dev_error event_create(bool timed, void **event)
{
    cudaEvent_t made;
    CUstreamCaptureMode mode = tt_cuda_relax();
    enum tt_dev_error error = relaxed(mode, "cudaEventCreateWithFlags",
        cudaEventCreateWithFlags(&made, timed ? cudaEventDefault : cudaEventDisableTiming));
    if (error == TT_DEV_OK)
        *event = made;
    return error;
}

static enum tt_dev_error event_destroy(void *event)
{
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaEventDestroy", cudaEventDestroy(event));
}

/* Outside a capture the flag is refused, not ignored. */
static enum tt_dev_error external_flag(void *stream, bool external, unsigned *flags)
{
    enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    enum tt_dev_error error = TT_DEV_OK;
    if (external)
        error = tt_cuda_check("cudaStreamIsCapturing", cudaStreamIsCapturing(stream, &status));
    *flags = status == cudaStreamCaptureStatusActive ? cudaEventRecordExternal : cudaEventRecordDefault;
    return error;
}

static enum tt_dev_error event_record(void *event, void *stream, bool external)
{
    unsigned flags;
    enum tt_dev_error error = external_flag(stream, external, &flags);
    if (error != TT_DEV_OK)
        return error;
    return tt_cuda_check("cudaEventRecordWithFlags", cudaEventRecordWithFlags(event, stream, flags));
}

static enum tt_dev_error event_wait(void *event, void *stream, bool external)
{
    unsigned flags;
    enum tt_dev_error error = external_flag(stream, external, &flags);
    if (error != TT_DEV_OK)
        return error;
    return tt_cuda_check("cudaStreamWaitEvent", cudaStreamWaitEvent(stream, event, flags));
}

static enum tt_dev_error event_query(void *event)
{
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaEventQuery", cudaEventQuery(event));
}

static enum tt_dev_error event_elapsed(void *begin, void *end, float *ms)
{
    return tt_cuda_check("cudaEventElapsedTime", cudaEventElapsedTime(ms, begin, end));
}

/* --- Words, and calls of the host. */

static enum tt_dev_error write_word(void *stream, uint32_t *word, uint32_t value)
{
    const struct tt_cuda_driver *driver;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error != TT_DEV_OK)
        return error;
    return tt_cuda_check("cuStreamWriteValue32",
        driver->write_word(stream, (CUdeviceptr)(uintptr_t)word, value, CU_STREAM_WRITE_VALUE_DEFAULT));
}

static enum tt_dev_error wait_word(void *stream, uint32_t *word, uint32_t value)
{
    const struct tt_cuda_driver *driver;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error != TT_DEV_OK)
        return error;
    return tt_cuda_check("cuStreamWaitValue32",
        driver->wait_word(stream, (CUdeviceptr)(uintptr_t)word, value, CU_STREAM_WAIT_VALUE_GEQ));
}

static enum tt_dev_error host_call(void *stream, void (*call)(void *), void *argument)
{
    return tt_cuda_check("cudaLaunchHostFunc", cudaLaunchHostFunc(stream, call, argument));
}

/* --- Kernels. */

/* Asking for the attributes of a kernel loads it; its first launch would, and might wait for all streams. */
static enum tt_dev_error preload(void)
{
    CUstreamCaptureMode mode = tt_cuda_relax();
    int code = cudaSuccess;
    const void *last = NULL; /* a kernel may have several numbers, one after the other */
    for (uint32_t i = 0; code == cudaSuccess && i < tt_dev_kernels(); i++) {
        struct cudaFuncAttributes attributes;
        struct tt_dev_kernel kernel;
        if (tt_dev_kernel_find(i, &kernel) && kernel.function != last) {
            code = cudaFuncGetAttributes(&attributes, kernel.function);
            last = kernel.function;
        }
    }
    return relaxed(mode, "cudaFuncGetAttributes", code);
}

static enum tt_dev_error occupancy(uint32_t kernel, uint32_t block, uint32_t shared_bytes, int *blocks_per_sm)
{
    struct tt_dev_kernel found;
    if (!tt_dev_kernel_find(kernel, &found))
        return tt_cuda_check("occupancy: there is no such kernel", cudaErrorInvalidDeviceFunction);
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
        cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            blocks_per_sm, found.function, (int)block, shared_bytes));
}

static enum tt_dev_error launch(const struct tt_dev_launch *launch, void *stream)
{
    struct tt_dev_kernel found;
    if (!tt_dev_kernel_find(launch->kernel, &found))
        return tt_cuda_check("launch: there is no such kernel", cudaErrorInvalidDeviceFunction);
    if (found.params_bytes != launch->params_bytes)
        return tt_cuda_check("launch: parameters of another length", cudaErrorInvalidValue);
    dim3 grid = { launch->grid, launch->grid_y, 1 }, block = { launch->block, 1, 1 };
    void *arguments[] = { (void *)(uintptr_t)launch->params };
    return tt_cuda_check("cudaLaunchKernel",
        cudaLaunchKernel(found.function, grid, block, arguments, launch->shared_bytes, stream));
}

/* --- Graphs. Captures are in global mode, the default and the strictest. */

static enum tt_dev_error capture_begin(void *stream)
{
    return tt_cuda_check(
        "cudaStreamBeginCapture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
}

static enum tt_dev_error capture_end(void *stream, void **graph)
{
    cudaGraph_t made;
    enum tt_dev_error error = tt_cuda_check("cudaStreamEndCapture", cudaStreamEndCapture(stream, &made));
    if (error == TT_DEV_OK)
        *graph = made;
    return error;
}

/* An object that no graph took is left: to give it back would call `release`, which only success allows. */
static enum tt_dev_error graph_retain(void *graph, void (*release)(void *), void *argument)
{
    cudaUserObject_t object;
    enum tt_dev_error error = tt_cuda_check("cudaUserObjectCreate",
        cudaUserObjectCreate(&object, argument, release, 1, cudaUserObjectNoDestructorSync));
    if (error != TT_DEV_OK)
        return error;
    return tt_cuda_check(
        "cudaGraphRetainUserObject", cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
}

static enum tt_dev_error graph_destroy(void *graph)
{
    return tt_cuda_check("cudaGraphDestroy", cudaGraphDestroy(graph));
}

static enum tt_dev_error graph_instantiate(void *graph, void **runnable)
{
    cudaGraphExec_t made;
    CUstreamCaptureMode mode = tt_cuda_relax();
    enum tt_dev_error error = relaxed(mode, "cudaGraphInstantiate", cudaGraphInstantiate(&made, graph, 0));
    if (error == TT_DEV_OK)
        *runnable = made;
    return error;
}

static enum tt_dev_error graph_launch(void *runnable, void *stream)
{
    return tt_cuda_check("cudaGraphLaunch", cudaGraphLaunch(runnable, stream));
}

static enum tt_dev_error runnable_destroy(void *runnable)
{
    CUstreamCaptureMode mode = tt_cuda_relax();
    return relaxed(mode, "cudaGraphExecDestroy", cudaGraphExecDestroy(runnable));
}

static const struct tt_dev table = {
    .version = TT_DEV_VERSION,
    .describe = tt_cuda_describe,
    .why = tt_cuda_why,
    .count = count,
    .facts = facts,
    .current = tt_cuda_current,
    .use = use,
    .reaches = reaches,
    .memory.alloc = alloc,
    .memory.free = free_device,
    .memory.alloc_managed = alloc_managed,
    .memory.alloc_pinned = alloc_pinned,
    .memory.free_pinned = free_pinned,
    .memory.pin = pin,
    .memory.unpin = unpin,
    .memory.classify = tt_cuda_classify,
    .copy = copy,
    .copy_rows = copy_rows,
    .fill = fill,
    .stream.create = stream_create,
    .stream.destroy = stream_destroy,
    .stream.query = stream_query,
    .stream.sync = stream_sync,
    .stream.device = stream_device,
    .stream.capture = stream_capture,
    .event.create = event_create,
    .event.destroy = event_destroy,
    .event.record = event_record,
    .event.wait = event_wait,
    .event.query = event_query,
    .event.elapsed = event_elapsed,
    .write_word = write_word,
    .wait_word = wait_word,
    .host_call = host_call,
    .range.begin = tt_cuda_range_begin,
    .range.end = tt_cuda_range_end,
    .preload = preload,
    .occupancy = occupancy,
    .launch = launch,
    .segment.alloc = tt_cuda_segment_alloc,
    .segment.export = tt_cuda_segment_export,
    .segment.export_of = tt_cuda_segment_export_of,
    .segment.import = tt_cuda_segment_import,
    .segment.free = tt_cuda_segment_free,
    .graph.capture_begin = capture_begin,
    .graph.capture_end = capture_end,
    .graph.retain = graph_retain,
    .graph.destroy = graph_destroy,
    .graph.instantiate = graph_instantiate,
    .graph.launch = graph_launch,
    .graph.runnable_destroy = runnable_destroy,
};

__attribute__((visibility("default"))) const struct tt_dev *tutti_device_table(uint32_t version);

const struct tt_dev *tutti_device_table(uint32_t version)
{
    return version == TT_DEV_VERSION ? &table : NULL;
}
