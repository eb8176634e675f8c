/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_segment.c: device memory that other processes map.
 *
 * Virtual memory handles come first: they travel as file descriptors, which the kernel counts, so that memory
 * lives until its last user is gone, and they are what multicast will need. Legacy handles serve devices that
 * cannot export descriptors; there the owner must not free before all others have unmapped. */
#include <fcntl.h>
#include <string.h>

#include "cuda_driver.h"

/* Small legacy allocations share a block of this length, and a handle opens all of its block. */
enum { LEGACY_BLOCK_BYTES = 2 << 20, DEVICES_MAX = 64 };
_Static_assert(sizeof(cudaIpcMemHandle_t) <= TT_DEV_HANDLE_BYTES, "a legacy handle fits an export");
_Static_assert(sizeof(CUmemGenericAllocationHandle) <= sizeof(void *), "a handle fits a segment");

bool tt_cuda_exports_fds(const struct tt_cuda_driver *driver, int device)
{
    int virtual = 0, fds = 0;
    return driver->attribute(&virtual, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device) ==
               CUDA_SUCCESS &&
           driver->attribute(&fds, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device) ==
               CUDA_SUCCESS &&
           virtual != 0 && fds != 0;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static CUmemGenericAllocationHandle handle_of(const struct tt_dev_segment *segment)
{
    return (CUmemGenericAllocationHandle)(uintptr_t)segment->handle;
}

/* Whose the memory is that a handle stands for, as this process counts devices; -1: of none of them. */
static int owner_of(const struct tt_cuda_driver *driver, const struct tt_dev_segment *segment)
{
    CUmemAllocationProp memory = { .location.id = -1 };
    bool known = driver->properties(&memory, handle_of(segment)) == CUDA_SUCCESS &&
                 memory.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    return known ? memory.location.id : -1;
}

/* The devices of this process that may use a segment: that for which it is mapped, first, and all that reach
 * its memory. Returns how many. */
static int list_users(const struct tt_cuda_driver *driver, const struct tt_dev_segment *segment,
    CUmemAccessDesc users[DEVICES_MAX])
{
    int owner = owner_of(driver, segment), devices = 0, n = 1;
    users[0].location.id = segment->device;
    if (driver->count(&devices) != CUDA_SUCCESS)
        devices = 0;
    for (int i = 0; i < devices && n < DEVICES_MAX; i++) {
        int reaches = i == owner;
        if (i == segment->device || owner < 0 ||
            (i != owner && driver->can_access(&reaches, i, owner) != CUDA_SUCCESS) || reaches == 0)
            continue;
        users[n++].location.id = i;
    }
    for (int i = 0; i < n; i++) {
        users[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        users[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    return n;
}

/* Maps a segment at addresses of this process, for its current device, which is segment->device, and for all
 * that reach it: its ranks on other devices have one address for it. */
static enum tt_dev_error map(const struct tt_cuda_driver *driver, struct tt_dev_segment *segment)
{
    CUdeviceptr at = 0;
    CUmemAccessDesc users[DEVICES_MAX] = { 0 };
    int n = list_users(driver, segment, users);
    enum tt_dev_error error =
        tt_cuda_check("cuMemAddressReserve", driver->reserve(&at, segment->bytes, 0, 0, 0));
    if (error != TT_DEV_OK)
        return error;
    error = tt_cuda_check("cuMemMap", driver->map(at, segment->bytes, 0, handle_of(segment), 0));
    if (error != TT_DEV_OK)
        goto unreserve;
    error = tt_cuda_check("cuMemSetAccess", driver->set_access(at, segment->bytes, users, (size_t)n));
    if (error != TT_DEV_OK)
        goto unmap;
    segment->base = (void *)(uintptr_t)at;
    return TT_DEV_OK;
unmap:
    driver->unmap(at, segment->bytes);
unreserve:
    driver->unreserve(at, segment->bytes);
    return error;
}

/* Maps memory whose handle is new here; the handle is let go if that fails. */
static enum tt_dev_error map_new(const struct tt_cuda_driver *driver, CUmemGenericAllocationHandle handle,
    const struct tt_dev_segment *form, struct tt_dev_segment *segment)
{
    struct tt_dev_segment mapped = *form;
    mapped.handle = (void *)(uintptr_t)handle;
    enum tt_dev_error error = map(driver, &mapped);
    if (error == TT_DEV_OK)
        *segment = mapped;
    else
        driver->release(handle);
    return error;
}

static enum tt_dev_error alloc_virtual(
    const struct tt_cuda_driver *driver, size_t bytes, int device, struct tt_dev_segment *segment)
{
    CUmemAllocationProp memory = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device } };
    size_t unit = 1;
    CUmemGenericAllocationHandle handle;
    enum tt_dev_error error = tt_cuda_check("cuMemGetAllocationGranularity",
        driver->granularity(&unit, &memory, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    if (error != TT_DEV_OK)
        return error;
    struct tt_dev_segment form = { .bytes = round_up(bytes, unit), .device = device };
    error = tt_cuda_check("cuMemCreate", driver->create(&handle, form.bytes, &memory, 0));
    return error == TT_DEV_OK ? map_new(driver, handle, &form, segment) : error;
}

static enum tt_dev_error alloc_legacy(size_t bytes, int device, struct tt_dev_segment *segment)
{
    struct tt_dev_segment form = { .bytes = round_up(bytes, LEGACY_BLOCK_BYTES), .device = device };
    enum tt_dev_error error = tt_cuda_check("cudaMalloc", cudaMalloc(&form.base, form.bytes));
    if (error == TT_DEV_OK)
        *segment = form;
    return error;
}

enum tt_dev_error tt_cuda_segment_alloc(size_t bytes, struct tt_dev_segment *segment)
{
    const struct tt_cuda_driver *driver;
    int device;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error == TT_DEV_OK)
        error = tt_cuda_current_device(driver, &device);
    if (error != TT_DEV_OK)
        return error;
    CUstreamCaptureMode mode = tt_cuda_relax();
    error = tt_cuda_exports_fds(driver, device) ? alloc_virtual(driver, bytes, device, segment)
                                                : alloc_legacy(bytes, device, segment);
    tt_cuda_restore(mode);
    return error;
}

static enum tt_dev_error export_virtual(
    const struct tt_cuda_driver *driver, CUmemGenericAllocationHandle handle, struct tt_dev_export *made)
{
    int fd = -1;
    enum tt_dev_error error = tt_cuda_check("cuMemExportToShareableHandle",
        driver->export(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    if (error == TT_DEV_OK)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    made->fd = fd;
    return error;
}

static enum tt_dev_error export_legacy(void *base, struct tt_dev_export *made)
{
    cudaIpcMemHandle_t legacy;
    enum tt_dev_error error = tt_cuda_check("cudaIpcGetMemHandle", cudaIpcGetMemHandle(&legacy, base));
    memcpy(made->handle, &legacy, sizeof legacy);
    return error;
}

enum tt_dev_error tt_cuda_segment_export(const struct tt_dev_segment *segment, struct tt_dev_export *out)
{
    const struct tt_cuda_driver *driver;
    struct tt_dev_export made = { .bytes = segment->bytes, .fd = -1 };
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error != TT_DEV_OK)
        return error;
    error = segment->handle != NULL ? export_virtual(driver, handle_of(segment), &made)
                                    : export_legacy(segment->base, &made);
    if (error == TT_DEV_OK)
        *out = made;
    return error;
}

/* Memory behind a handle, which is released again; what was mapped is the handle's from its begin on, for the
 * driver maps at no other offset. */
static enum tt_dev_error export_mapped(
    const struct tt_cuda_driver *driver, CUmemGenericAllocationHandle handle, struct tt_dev_export *made)
{
    CUmemAllocationProp memory = { 0 };
    enum tt_dev_error error =
        tt_cuda_check("cuMemGetAllocationPropertiesFromHandle", driver->properties(&memory, handle));
    bool travels = (memory.requestedHandleTypes & CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0;
    if (error == TT_DEV_OK && !travels)
        error = tt_cuda_check(
            "export_of: cuMemCreate made this memory without a handle type that is a descriptor",
            cudaErrorNotSupported);
    if (error == TT_DEV_OK)
        error = export_virtual(driver, handle, made);
    driver->release(handle);
    return error;
}

/* Memory without a handle: of cudaMalloc, or of a pool, which has no legacy handles. */
static enum tt_dev_error export_allocated(
    const struct tt_cuda_driver *driver, uintptr_t base, struct tt_dev_export *made)
{
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
    int capable = 0;
    void *value = &capable;
    enum tt_dev_error error =
        tt_cuda_check("cuPointerGetAttributes", driver->pointer_attributes(1, &attribute, &value, base));
    if (error == TT_DEV_OK && capable == 0)
        return tt_cuda_check(
            "export_of: this memory is of a pool, or of another process", cudaErrorNotSupported);
    return error == TT_DEV_OK ? export_legacy((void *)base, made) : error;
}

enum tt_dev_error tt_cuda_segment_export_of(const void *ptr, struct tt_dev_export *out, uintptr_t *base)
{
    const struct tt_cuda_driver *driver;
    struct tt_dev_pointer what;
    CUmemGenericAllocationHandle handle;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error == TT_DEV_OK)
        error = tt_cuda_classify(ptr, &what);
    if (error != TT_DEV_OK)
        return error;
    if (what.kind != TT_DEV_DEVICE)
        return tt_cuda_check("export_of: this is no memory of a device alone", cudaErrorNotSupported);
    struct tt_dev_export made = { .bytes = what.bytes, .fd = -1 };
    CUstreamCaptureMode mode = tt_cuda_relax();
    int code = driver->retain(&handle, (void *)(uintptr_t)ptr);
    if (code == CUDA_SUCCESS)
        error = export_mapped(driver, handle, &made);
    else if (code == CUDA_ERROR_INVALID_VALUE) /* there is none */
        error = export_allocated(driver, what.base, &made);
    else
        error = tt_cuda_check("cuMemRetainAllocationHandle", code);
    tt_cuda_restore(mode);
    if (error == TT_DEV_OK) {
        *out = made;
        *base = what.base;
    }
    return error;
}

static enum tt_dev_error import_virtual(const struct tt_cuda_driver *driver, int fd,
    const struct tt_dev_segment *form, struct tt_dev_segment *segment)
{
    CUmemGenericAllocationHandle handle;
    enum tt_dev_error error = tt_cuda_check("cuMemImportFromShareableHandle",
        driver->import(&handle, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    return error == TT_DEV_OK ? map_new(driver, handle, form, segment) : error;
}

static enum tt_dev_error import_legacy(
    const uint8_t *handle, struct tt_dev_segment form, struct tt_dev_segment *segment)
{
    cudaIpcMemHandle_t legacy;
    memcpy(&legacy, handle, sizeof legacy);
    enum tt_dev_error error = tt_cuda_check(
        "cudaIpcOpenMemHandle", cudaIpcOpenMemHandle(&form.base, legacy, cudaIpcMemLazyEnablePeerAccess));
    if (error == TT_DEV_OK)
        *segment = form;
    return error;
}

enum tt_dev_error tt_cuda_segment_import(const struct tt_dev_export *from, struct tt_dev_segment *segment)
{
    const struct tt_cuda_driver *driver;
    struct tt_dev_segment form = { .bytes = from->bytes, .imported = true };
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error == TT_DEV_OK)
        error = tt_cuda_current_device(driver, &form.device);
    if (error != TT_DEV_OK)
        return error;
    CUstreamCaptureMode mode = tt_cuda_relax();
    error = from->fd >= 0 ? import_virtual(driver, from->fd, &form, segment)
                          : import_legacy(from->handle, form, segment);
    tt_cuda_restore(mode);
    return error;
}

/* Gives back all three, whatever the first says; returns the first error. */
static enum tt_dev_error free_virtual(const struct tt_cuda_driver *driver, struct tt_dev_segment *segment)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)segment->base;
    int unmapped = driver->unmap(at, segment->bytes);
    int unreserved = driver->unreserve(at, segment->bytes);
    int released = driver->release(handle_of(segment));
    if (unmapped != CUDA_SUCCESS)
        return tt_cuda_check("cuMemUnmap", unmapped);
    return unreserved != CUDA_SUCCESS ? tt_cuda_check("cuMemAddressFree", unreserved)
                                      : tt_cuda_check("cuMemRelease", released);
}

enum tt_dev_error tt_cuda_segment_free(struct tt_dev_segment *segment)
{
    const struct tt_cuda_driver *driver;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error != TT_DEV_OK)
        return error;
    CUstreamCaptureMode mode = tt_cuda_relax();
    if (segment->handle != NULL)
        error = free_virtual(driver, segment);
    else if (segment->imported)
        error = tt_cuda_check("cudaIpcCloseMemHandle", cudaIpcCloseMemHandle(segment->base));
    else
        error = tt_cuda_check("cudaFree", cudaFree(segment->base));
    tt_cuda_restore(mode);
    if (error == TT_DEV_OK)
        *segment = (struct tt_dev_segment){ .device = -1 };
    return error;
}
