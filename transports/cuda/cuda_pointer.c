/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_pointer.c: what an address is, by the driver's word. */
#include "cuda_driver.h"

struct extent {
    CUdeviceptr base;
    size_t bytes;
};

/* A range is an allocation, or addresses that were reserved for mappings; a mapping may hold many small
 * allocations, or be a part of a large one. What is in both is the caller's. */
static struct extent overlap(struct extent range, struct extent mapping, CUdeviceptr ptr)
{
    if (ptr < mapping.base || ptr - mapping.base >= mapping.bytes) /* that is not known */
        return range;
    CUdeviceptr range_end = range.base + range.bytes, mapping_end = mapping.base + mapping.bytes;
    CUdeviceptr base = range.base > mapping.base ? range.base : mapping.base;
    return (struct extent){ base, (range_end < mapping_end ? range_end : mapping_end) - base };
}

/* Asked for several attributes at once the driver takes any address; what it does not know stays as it is. In
 * a thread without a context it knows nothing, and some versions do not even say so. */
enum tt_dev_error tt_cuda_classify(const void *ptr, struct tt_dev_pointer *what)
{
    const struct tt_cuda_driver *driver;
    unsigned type = 0, managed = 0;
    int device = -1, mapped = 0;
    struct extent range = { 0, 0 }, mapping = { 0, 0 };
    unsigned long long id = 0;
    CUpointer_attribute attributes[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
        CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_MAPPED,
        CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, CU_POINTER_ATTRIBUTE_MAPPING_SIZE };
    void *values[] = { &type, &managed, &device, &range.base, &range.bytes, &id, &mapped, &mapping.base,
        &mapping.bytes };
    int used;
    enum tt_dev_error error = tt_cuda_driver(&driver);
    if (error == TT_DEV_OK)
        error = tt_cuda_current(&used);
    if (error == TT_DEV_OK && used < 0)
        return tt_cuda_check("classify: this thread uses no device", cudaErrorDeviceUninitialized);
    if (error == TT_DEV_OK)
        error = tt_cuda_check(
            "cuPointerGetAttributes", driver->pointer_attributes(sizeof values / sizeof values[0], attributes,
                                          values, (CUdeviceptr)(uintptr_t)ptr));
    if (error != TT_DEV_OK)
        return error;
    enum tt_dev_kind kind = managed != 0                   ? TT_DEV_MANAGED
                            : type == CU_MEMORYTYPE_DEVICE ? TT_DEV_DEVICE
                            : type == CU_MEMORYTYPE_HOST   ? TT_DEV_PINNED
                                                           : TT_DEV_HOST;
    if (kind != TT_DEV_MANAGED && kind != TT_DEV_PINNED && range.bytes > 0 && mapped == 0 &&
        mapping.bytes == 0)
        return tt_cuda_check("classify: nothing is mapped at this address", cudaErrorInvalidDevicePointer);
    *what = (struct tt_dev_pointer){ .kind = kind, .device = -1 };
    if (kind == TT_DEV_HOST)
        return TT_DEV_OK;
    if (kind != TT_DEV_PINNED)
        what->device = device;
    struct extent both = overlap(range, mapping, (CUdeviceptr)(uintptr_t)ptr);
    what->base = (uintptr_t)both.base;
    what->bytes = both.bytes;
    what->range = (uintptr_t)range.base;
    what->id = id;
    return TT_DEV_OK;
}
