/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_driver.c: the driver's functions by name, and all errors in one place.
 *
 * The runtime and the driver number their errors alike, so one mapping serves both. An error that is in no
 * row is taken for one that stays: a communicator that gives up too early is better than wrong results. */
#include "cuda_driver.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { WHY_BYTES = 320, VERSION_BYTES = 24 };
enum { OLDEST = 12020, NOT_IN_ALL = 12050 /* forms from here on may be missing */ };
_Static_assert(CUDART_VERSION >= OLDEST, "the headers of CUDA 12.2 have all that is used here");
static _Thread_local char why[WHY_BYTES];

static void put_version(char text[VERSION_BYTES], int version)
{
    snprintf(text, VERSION_BYTES, "%d.%d", version / 1000, version % 1000 / 10);
}

/* 0: there is none. */
static int driver_version(void)
{
    int version = 0;
    return cudaDriverGetVersion(&version) == cudaSuccess ? version : 0;
}

static enum tt_dev_error kind_of(int code)
{
    if (code >= cudaErrorStreamCaptureUnsupported && code <= cudaErrorStreamCaptureWrongThread)
        return TT_DEV_CAPTURE;
    switch (code) {
    case cudaErrorInsufficientDriver:
        return driver_version() == 0 ? TT_DEV_ABSENT : TT_DEV_OLD;
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorUnsupportedPtxVersion:
        return TT_DEV_OLD;
    case cudaErrorCudartUnloading: /* the process ends: a device that nobody can ask has not failed */
    case cudaErrorStubLibrary:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsMaxClientsReached:
    case cudaErrorMpsMaxConnectionsReached:
        return TT_DEV_ABSENT;
    case cudaErrorMemoryAllocation:
        return TT_DEV_NO_MEMORY;
    case cudaErrorNotSupported:
    case cudaErrorNotPermitted:
    case cudaErrorNotYetImplemented:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorOperatingSystem: /* a call of the system failed, as where descriptors are used up */
    case cudaErrorPeerAccessUnsupported:
        return TT_DEV_UNSUPPORTED;
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidPitchValue:
    case cudaErrorInvalidHostPointer:
    case cudaErrorInvalidDevicePointer:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorDeviceUninitialized:
    case cudaErrorAlreadyMapped:
    case cudaErrorNotMapped:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorIllegalState:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorHostMemoryAlreadyRegistered:
    case cudaErrorHostMemoryNotRegistered:
        return TT_DEV_INVALID;
    default:
        return TT_DEV_BROKEN;
    }
}

enum tt_dev_error tt_cuda_check(const char *call, int code)
{
    if (code == cudaSuccess)
        return TT_DEV_OK;
    /* Where a packager links the shared runtime, the user's program would find this error as its own. */
    (void)cudaGetLastError();
    if (code == cudaErrorNotReady)
        return TT_DEV_NOT_READY;
    enum tt_dev_error error = kind_of(code);
    char text[208], have[VERSION_BYTES], built[VERSION_BYTES];
    bool old = driver_version() < OLDEST;
    put_version(have, driver_version());
    put_version(built, CUDART_VERSION);
    if (error == TT_DEV_ABSENT && code == cudaErrorInsufficientDriver)
        snprintf(text, sizeof text, "there is no CUDA driver here");
    else if (error == TT_DEV_OLD)
        snprintf(text, sizeof text,
            "the driver serves CUDA up to %s, this plugin was built with CUDA %s; legal: a newer driver%s%s",
            have, built, old ? "" : ", or a plugin that was built with CUDA 12.2 to ", old ? "" : have);
    else
        snprintf(text, sizeof text, "%s", cudaGetErrorString((cudaError_t)code));
    snprintf(why, sizeof why, "%s: %s (%s, %d)", call, text, cudaGetErrorName((cudaError_t)code), code);
    return error;
}

const char *tt_cuda_why(void)
{
    return why;
}

const char *tt_cuda_describe(void)
{
    static _Thread_local char text[16 + 2 * VERSION_BYTES];
    char have[VERSION_BYTES], built[VERSION_BYTES];
    put_version(have, driver_version());
    put_version(built, CUDART_VERSION);
    snprintf(text, sizeof text, "CUDA %s, driver %s", built, have);
    return text;
}

/* --- The driver's functions: by name, and by the CUDA version that gave them the form used here. */
#define ROW(name, version, field)                                                                            \
    {                                                                                                        \
#name, version, offsetof(struct tt_cuda_driver, field)                                               \
    }
static const struct {
    const char *name;
    int version;
    size_t offset;
} wanted[] = {
    ROW(cuCtxGetCurrent, 4000, get_context),
    ROW(cuCtxSetCurrent, 4000, set_context),
    ROW(cuCtxPushCurrent, 4000, push_context),
    ROW(cuCtxPopCurrent, 4000, pop_context),
    ROW(cuCtxGetDevice, 2000, current_device),
    ROW(cuDeviceGetCount, 2000, count),
    ROW(cuDeviceCanAccessPeer, 4000, can_access),
    ROW(cuDeviceGetAttribute, 2000, attribute),
    ROW(cuPointerGetAttributes, 7000, pointer_attributes),
    ROW(cuStreamGetCtx, 9020, stream_context),
    ROW(cuStreamGetCtx, NOT_IN_ALL, stream_context_or_green),
    ROW(cuStreamGetCaptureInfo, 11030, capture_info),
    ROW(cuThreadExchangeStreamCaptureMode, 10010, exchange_mode),
    ROW(cuStreamWriteValue32, 11070, write_word),
    ROW(cuStreamWaitValue32, 11070, wait_word),
    ROW(cuMemGetAllocationGranularity, 10020, granularity),
    ROW(cuMemCreate, 10020, create),
    ROW(cuMemRelease, 10020, release),
    ROW(cuMemAddressReserve, 10020, reserve),
    ROW(cuMemAddressFree, 10020, unreserve),
    ROW(cuMemMap, 10020, map),
    ROW(cuMemUnmap, 10020, unmap),
    ROW(cuMemSetAccess, 10020, set_access),
    ROW(cuMemGetAllocationPropertiesFromHandle, 10020, properties),
    ROW(cuMemRetainAllocationHandle, 11000, retain),
    ROW(cuMemExportToShareableHandle, 10020, export),
    ROW(cuMemImportFromShareableHandle, 10020, import),
};
#undef ROW
enum { WANTED = sizeof wanted / sizeof wanted[0] };
_Static_assert(sizeof(struct tt_cuda_driver) == WANTED * sizeof(void *), "a row for each function");

static struct tt_cuda_driver found;
static pthread_once_t looked = PTHREAD_ONCE_INIT;
static int look_code; /* what went wrong, and with which function */
static const char *look_call;

/* The driver's own search takes any version. The runtime's does so in no CUDA 12 before 12.5. */
static int find_search(PFN_cuGetProcAddress_v12000 *search)
{
    enum cudaDriverEntryPointQueryResult result;
    void *function = NULL;
    look_call = "cuGetProcAddress";
#if CUDART_VERSION >= 13000
    int code = cudaGetDriverEntryPointByVersion(look_call, &function, 12000, cudaEnableLegacyStream, &result);
#else
    int code = cudaGetDriverEntryPoint(look_call, &function, cudaEnableLegacyStream, &result);
#endif
    memcpy(search, &function, sizeof function);
    return code == cudaSuccess && function == NULL ? cudaErrorCallRequiresNewerDriver : code;
}

static void look(void)
{
    PFN_cuGetProcAddress_v12000 search;
    look_code = find_search(&search);
    for (int i = 0; i < WANTED && look_code == cudaSuccess; i++) {
        CUdriverProcAddressQueryResult result;
        void *function = NULL;
        bool needed = wanted[i].version < NOT_IN_ALL;
        look_call = wanted[i].name;
        int code =
            search(look_call, &function, wanted[i].version, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &result);
        if (needed && code != CUDA_SUCCESS)
            look_code = code;
        else if (needed && function == NULL)
            look_code = cudaErrorCallRequiresNewerDriver;
        if (code == CUDA_SUCCESS)
            memcpy((char *)&found + wanted[i].offset, &function, sizeof function);
    }
}

enum tt_dev_error tt_cuda_driver(const struct tt_cuda_driver **driver)
{
    pthread_once(&looked, look);
    *driver = &found;
    return tt_cuda_check(look_call, look_code);
}

enum tt_dev_error tt_cuda_current_device(const struct tt_cuda_driver *driver, int *device)
{
    CUdevice number;
    enum tt_dev_error error = tt_cuda_check("cuCtxGetDevice", driver->current_device(&number));
    if (error == TT_DEV_OK)
        *device = number;
    return error;
}

/* Asked of the driver: the runtime might make a context on the way. Without a driver there is no capture. */
CUstreamCaptureMode tt_cuda_relax(void)
{
    const struct tt_cuda_driver *driver;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (tt_cuda_driver(&driver) == TT_DEV_OK)
        driver->exchange_mode(&mode);
    return mode;
}

void tt_cuda_restore(CUstreamCaptureMode mode)
{
    const struct tt_cuda_driver *driver;
    if (tt_cuda_driver(&driver) == TT_DEV_OK)
        driver->exchange_mode(&mode);
}
