/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_driver.h: what the files of the CUDA plugin share: the driver's functions, errors, and captures.
 *
 * The runtime is linked in, the driver is not: a machine may have none, and it is the runtime that finds it.
 * So the few functions that only the driver has are asked for by name and by the version of their form: the
 * oldest that will do, so that no driver is refused which the runtime takes. That is what decides: a runtime
 * of 12.x takes drivers from 525 on, one of 13.x from 580 on. */
#ifndef TT_CUDA_DRIVER_H
#define TT_CUDA_DRIVER_H
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "base/dev.h"

struct tt_cuda_driver {
    PFN_cuCtxGetCurrent_v4000 get_context;
    PFN_cuCtxSetCurrent_v4000 set_context;
    PFN_cuCtxPushCurrent_v4000 push_context;
    PFN_cuCtxPopCurrent_v4000 pop_context;
    PFN_cuCtxGetDevice_v2000 current_device;
    PFN_cuDeviceGetCount_v2000 count;
    PFN_cuDeviceCanAccessPeer_v4000 can_access;
    PFN_cuDeviceGetAttribute_v2000 attribute;
    PFN_cuPointerGetAttributes_v7000 pointer_attributes;
    PFN_cuStreamGetCtx_v9020 stream_context;
    /* NULL before 12.5; `green`, a CUgreenCtx, is not NULL for a stream of one. */
    CUresult(CUDAAPI *stream_context_or_green)(CUstream stream, CUcontext *context, void **green);
    PFN_cuStreamGetCaptureInfo_v11030 capture_info;
    PFN_cuThreadExchangeStreamCaptureMode_v10010 exchange_mode;
    PFN_cuStreamWriteValue32_v11070 write_word;
    PFN_cuStreamWaitValue32_v11070 wait_word;
    PFN_cuMemGetAllocationGranularity_v10020 granularity;
    PFN_cuMemCreate_v10020 create;
    PFN_cuMemRelease_v10020 release;
    PFN_cuMemAddressReserve_v10020 reserve;
    PFN_cuMemAddressFree_v10020 unreserve;
    PFN_cuMemMap_v10020 map;
    PFN_cuMemUnmap_v10020 unmap;
    PFN_cuMemSetAccess_v10020 set_access;
    PFN_cuMemGetAllocationPropertiesFromHandle_v10020 properties;
    PFN_cuMemRetainAllocationHandle_v11000 retain;
    PFN_cuMemExportToShareableHandle_v10020 export;
    PFN_cuMemImportFromShareableHandle_v10020 import;
};

/* Gives all functions of the driver, which are looked up once. */
enum tt_dev_error tt_cuda_driver(const struct tt_cuda_driver **driver);

/* Returns, in the table's words, what the call gave: a cudaError_t or a CUresult, which have the same
 * numbers. */
enum tt_dev_error tt_cuda_check(const char *call, int code);
const char *tt_cuda_why(void);
/* The device of this thread's context, which it has. */
enum tt_dev_error tt_cuda_current_device(const struct tt_cuda_driver *driver, int *device);
const char *tt_cuda_describe(void);

/* While any thread captures a stream in global mode, what may wait for the device is refused to all threads,
 * and the attempt spoils the capture. What stands between these two is not: it is Tutti's own business. */
CUstreamCaptureMode tt_cuda_relax(void);
void tt_cuda_restore(CUstreamCaptureMode mode);

/* cuda_device.c, cuda_pointer.c: functions of the table. */
enum tt_dev_error tt_cuda_current(int *device);
enum tt_dev_error tt_cuda_classify(const void *ptr, struct tt_dev_pointer *what);

/* cuda_segment.c */
bool tt_cuda_exports_fds(const struct tt_cuda_driver *driver, int device);
enum tt_dev_error tt_cuda_segment_alloc(size_t bytes, struct tt_dev_segment *segment);
enum tt_dev_error tt_cuda_segment_export(const struct tt_dev_segment *segment, struct tt_dev_export *out);
enum tt_dev_error tt_cuda_segment_export_of(const void *ptr, struct tt_dev_export *out, uintptr_t *base);
enum tt_dev_error tt_cuda_segment_import(const struct tt_dev_export *from, struct tt_dev_segment *segment);
enum tt_dev_error tt_cuda_segment_free(struct tt_dev_segment *segment);

/* Ranges for profilers (cuda_range.c). */
void tt_cuda_range_begin(const char *name);
void tt_cuda_range_end(void);

#endif
