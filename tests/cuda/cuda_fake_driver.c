/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_fake_driver.c: the driver's functions of cuda_fake.h, which the runtime finds by name and version. */
#include "cuda_fake.h"

#include <stdio.h>
#include <string.h>

#include "transports/cuda/cuda_driver.h"

static unsigned long number(const void *handle)
{
    return (unsigned long)(uintptr_t)handle;
}

/* Contexts are numbers: 21 is that of the thread, 22 that of named streams, which is device 1's. */
static uintptr_t context_now(void)
{
    return fake.pushed != 0 ? fake.pushed : fake.context_device >= 0 ? 21 : 0;
}

static CUresult get_context(CUcontext *context)
{
    *context = (CUcontext)context_now();
    return fake_note("cuCtxGetCurrent", "%s", "");
}

static CUresult push_context(CUcontext context)
{
    int code = fake_note("cuCtxPushCurrent", "%lu", number(context));
    if (code == CUDA_SUCCESS)
        fake.pushed = number(context);
    return code;
}

static CUresult pop_context(CUcontext *context)
{
    *context = (CUcontext)context_now();
    fake.pushed = 0;
    return fake_note("cuCtxPopCurrent", "%s", "");
}

static CUresult set_context(CUcontext context)
{
    return fake_note("cuCtxSetCurrent", "%lu", number(context));
}

static CUresult current_device(CUdevice *device)
{
    *device = context_now() == 22 ? 1 : fake.context_device;
    return fake_note("cuCtxGetDevice", "%s", "");
}

/* 133 is CU_DEVICE_ATTRIBUTE_MPS_ENABLED, which drivers before 12.4 do not know. */
static CUresult attribute(int *value, CUdevice_attribute which, CUdevice device)
{
    (void)device;
    if (which == 133 && fake.driver_version < 12040)
        return CUDA_ERROR_INVALID_VALUE;
    *value = which == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED ? !fake.no_fds
             : which == 133                                                           ? fake.shared
                                                                                      : 1;
    return CUDA_SUCCESS;
}

static CUresult pointer_attributes(unsigned n, CUpointer_attribute *which, void **values, CUdeviceptr ptr)
{
    for (unsigned i = 0; i < n; i++) {
        switch (which[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)values[i] = fake.pointer.type;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *(unsigned *)values[i] = fake.pointer.managed;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)values[i] = fake.pointer.device;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
            *(CUdeviceptr *)values[i] = fake.pointer.base;
            break;
        case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
            *(size_t *)values[i] = fake.pointer.bytes;
            break;
        case CU_POINTER_ATTRIBUTE_MAPPED:
            *(int *)values[i] = fake.pointer.mapped;
            break;
        case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
            *(CUdeviceptr *)values[i] = fake.pointer.mapping_base;
            break;
        case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
            *(size_t *)values[i] = fake.pointer.mapping_bytes;
            break;
        case CU_POINTER_ATTRIBUTE_BUFFER_ID:
            *(unsigned long long *)values[i] = fake.pointer.id;
            break;
        case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
            *(int *)values[i] = fake.pointer.legacy;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return fake_note("cuPointerGetAttributes", "%#llx", ptr);
}

static CUresult context_of(const char *function, CUstream stream, CUcontext *context)
{
    bool named = number(stream) > 2, there = named || fake.context_device >= 0;
    int code = fake_note(function, "%lu", number(stream));
    if (there)
        *context = (CUcontext)(uintptr_t)(named ? 22 : 21);
    return there || code != CUDA_SUCCESS ? code : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult stream_context(CUstream stream, CUcontext *context)
{
    return context_of("cuStreamGetCtx_9.2", stream, context);
}

static CUresult stream_context_or_green(CUstream stream, CUcontext *context, void **green)
{
    *green = NULL;
    return context_of("cuStreamGetCtx", stream, context);
}

static CUresult capture_info(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
    const CUgraphNode **nodes, size_t *n)
{
    *status = (CUstreamCaptureStatus)fake.capture;
    *id = 77;
    *graph = (CUgraph)(uintptr_t)12;
    return fake_note(
        "cuStreamGetCaptureInfo", "%lu%s", number(stream), nodes != NULL || n != NULL ? ", more" : "");
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    static const char *const names[] = { "global", "local", "relaxed" };
    static CUstreamCaptureMode now = CU_STREAM_CAPTURE_MODE_GLOBAL;
    CUstreamCaptureMode before = now;
    now = *mode;
    *mode = before;
    return fake_note("mode", "%s", names[now]);
}

static CUresult write_word(CUstream stream, CUdeviceptr word, cuuint32_t value, unsigned flags)
{
    return fake_note("cuStreamWriteValue32", "%lu, %#llx, %u, %u", number(stream), word, value, flags);
}

static CUresult wait_word(CUstream stream, CUdeviceptr word, cuuint32_t value, unsigned flags)
{
    return fake_note("cuStreamWaitValue32", "%lu, %#llx, %u, %u", number(stream), word, value, flags);
}

/* --- Memory by handles. */

static CUresult granularity(
    size_t *unit, const CUmemAllocationProp *memory, CUmemAllocationGranularity_flags flags)
{
    (void)memory;
    (void)flags;
    *unit = 65536;
    return CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *memory,
    unsigned long long flags)
{
    *handle = 31;
    return fake_note("cuMemCreate", "%zu, device %d, handles %d, %llu", bytes, memory->location.id,
        memory->requestedHandleTypes, flags);
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    return fake_note("cuMemRelease", "%llu", handle);
}

static CUresult reserve(
    CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
    *at = 0x6000;
    return fake_note("cuMemAddressReserve", "%zu, %zu, %llu, %llu", bytes, alignment, hint, flags);
}

static CUresult unreserve(CUdeviceptr at, size_t bytes)
{
    return fake_note("cuMemAddressFree", "%#llx, %zu", at, bytes);
}

static CUresult map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
    unsigned long long flags)
{
    return fake_note("cuMemMap", "%#llx, %zu, %zu, %llu, %llu", at, bytes, offset, handle, flags);
}

static CUresult unmap(CUdeviceptr at, size_t bytes)
{
    return fake_note("cuMemUnmap", "%#llx, %zu", at, bytes);
}

static CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
    char devices[100] = "";
    size_t length = 0;
    for (size_t i = 0; i < n; i++)
        length += (size_t)snprintf(devices + length, sizeof devices - length, "%s%d%s", i > 0 ? ", " : "",
            access[i].location.id,
            access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                    access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                ? ""
                : " in another way");
    return fake_note("cuMemSetAccess", "%#llx, %zu, devices %s", at, bytes, devices);
}

static CUresult properties(CUmemAllocationProp *memory, CUmemGenericAllocationHandle handle)
{
    *memory = (CUmemAllocationProp){ .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = fake.owner },
        .requestedHandleTypes = (CUmemAllocationHandleType)fake.handle_types };
    (void)handle;
    return fake.owner < 0 ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static CUresult count(int *n)
{
    *n = fake.devices;
    return CUDA_SUCCESS;
}

/* Devices 0 to 2 reach each other, but 1 does not reach 2; and so do 3 and those after it. */
static CUresult can_access(int *can, CUdevice device, CUdevice peer)
{
    *can = device != peer && (device < 3) == (peer < 3) && (device != 1 || peer != 2);
    return device == peer ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

/* Memory without a handle is none of this function. */
static CUresult retain(CUmemGenericAllocationHandle *handle, void *ptr)
{
    int code = fake_note("cuMemRetainAllocationHandle", "%#lx", number(ptr));
    if (code == CUDA_SUCCESS && fake.handle == 0)
        return CUDA_ERROR_INVALID_VALUE;
    *handle = fake.handle;
    return code;
}

static CUresult export_handle(
    void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type, unsigned long long flags)
{
    *(int *)out = fake.exported_fd;
    return fake_note("cuMemExportToShareableHandle", "%llu, %d, %llu", handle, type, flags);
}

static CUresult import_handle(
    CUmemGenericAllocationHandle *handle, void *from, CUmemAllocationHandleType type)
{
    *handle = 32;
    return fake_note("cuMemImportFromShareableHandle", "%lu, %d", number(from), type);
}

/* --- By name. The form used here is that of the versions from `first` up to another, if there is one. */

static const struct tt_cuda_driver forms = { .get_context = get_context,
    .set_context = set_context,
    .push_context = push_context,
    .pop_context = pop_context,
    .current_device = current_device,
    .count = count,
    .can_access = can_access,
    .attribute = attribute,
    .pointer_attributes = pointer_attributes,
    .stream_context = stream_context,
    .stream_context_or_green = stream_context_or_green,
    .capture_info = capture_info,
    .exchange_mode = exchange_mode,
    .write_word = write_word,
    .wait_word = wait_word,
    .granularity = granularity,
    .create = create,
    .release = release,
    .reserve = reserve,
    .unreserve = unreserve,
    .map = map,
    .unmap = unmap,
    .set_access = set_access,
    .properties = properties,
    .retain = retain,
    .export = export_handle,
    .import = import_handle };

#define FORM(name, first, next, field)                                                                       \
    {                                                                                                        \
#name, first, next, offsetof(struct tt_cuda_driver, field)                                           \
    }
static const struct {
    const char *name;
    int first, next;
    size_t offset;
} named[] = {
    FORM(cuCtxGetCurrent, 4000, 0, get_context),
    FORM(cuCtxSetCurrent, 4000, 0, set_context),
    FORM(cuCtxPushCurrent, 4000, 0, push_context),
    FORM(cuCtxPopCurrent, 4000, 0, pop_context),
    FORM(cuCtxGetDevice, 2000, 13000, current_device),
    FORM(cuDeviceGetCount, 2000, 0, count),
    FORM(cuDeviceCanAccessPeer, 4000, 0, can_access),
    FORM(cuDeviceGetAttribute, 2000, 0, attribute),
    FORM(cuPointerGetAttributes, 7000, 0, pointer_attributes),
    FORM(cuStreamGetCtx, 9020, 12050, stream_context),
    FORM(cuStreamGetCtx, 12050, 0, stream_context_or_green),
    FORM(cuStreamGetCaptureInfo, 11030, 12030, capture_info),
    FORM(cuThreadExchangeStreamCaptureMode, 10010, 0, exchange_mode),
    FORM(cuStreamWriteValue32, 11070, 0, write_word),
    FORM(cuStreamWaitValue32, 11070, 0, wait_word),
    FORM(cuMemGetAllocationGranularity, 10020, 0, granularity),
    FORM(cuMemCreate, 10020, 0, create),
    FORM(cuMemRelease, 10020, 0, release),
    FORM(cuMemAddressReserve, 10020, 0, reserve),
    FORM(cuMemAddressFree, 10020, 0, unreserve),
    FORM(cuMemMap, 10020, 0, map),
    FORM(cuMemUnmap, 10020, 0, unmap),
    FORM(cuMemSetAccess, 10020, 0, set_access),
    FORM(cuMemGetAllocationPropertiesFromHandle, 10020, 0, properties),
    FORM(cuMemRetainAllocationHandle, 11000, 0, retain),
    FORM(cuMemExportToShareableHandle, 10020, 0, export),
    FORM(cuMemImportFromShareableHandle, 10020, 0, import),
};
#undef FORM

static CUresult search(
    const char *name, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *result)
{
    *function = NULL;
    *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    if (flags != CU_GET_PROC_ADDRESS_LEGACY_STREAM || version > fake.driver_version)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof named / sizeof named[0]; i++)
        if (strcmp(name, named[i].name) == 0 && version >= named[i].first &&
            (named[i].next == 0 || version < named[i].next) &&
            (fake.missing == NULL || strcmp(name, fake.missing) != 0))
            memcpy(function, (const char *)&forms + named[i].offset, sizeof *function);
    return CUDA_SUCCESS;
}

static cudaError_t find_search(const char *name, void **function, unsigned long long flags)
{
    PFN_cuGetProcAddress_v12000 found = search;
    bool there = fake.missing == NULL || strcmp(fake.missing, name) != 0;
    *function = NULL;
    if (strcmp(name, "cuGetProcAddress") != 0 || flags != cudaEnableLegacyStream)
        return cudaErrorInvalidValue;
    if (there)
        memcpy(function, &found, sizeof found);
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
    unsigned long long flags, enum cudaDriverEntryPointQueryResult *result)
{
    *result = cudaDriverEntryPointSuccess;
    return version == 12000 ? find_search(name, function, flags) : cudaErrorInvalidValue;
}
#else
cudaError_t cudaGetDriverEntryPoint(
    const char *name, void **function, unsigned long long flags, enum cudaDriverEntryPointQueryResult *result)
{
    *result = cudaDriverEntryPointSuccess;
    return find_search(name, function, flags);
}
#endif
