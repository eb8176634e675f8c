/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_table.c: what each function of the device table asks of CUDA, and what it makes of the answer.
 *
 * Linked with the files of transports/cuda and with functions of CUDA that note their calls (cuda_fake.h). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "table_rig.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

static void *const stream = (void *)5;
static void *const event = (void *)6;
static void *const some = (void *)0x7000; /* an address */

TestSuite(cuda_table, .init = table_begin);

Test(cuda_table, one_version)
{
    cr_expect_eq(dev->version, TT_DEV_VERSION);
    cr_expect_null(tutti_device_table(TT_DEV_VERSION + 1));
    const void *const *function = (const void *const *)&dev->describe;
    const void *const *end = (const void *const *)(dev + 1);
    for (int i = 0; function + i < end; i++)
        cr_expect_not_null(function[i], "function %d of the table", i);
    cr_expect_str_eq(dev->describe() + strlen("CUDA 13.0"), ", driver 13.0");
}

/* --- Devices. */

/* Asked for what is there, nothing makes a context: none of these calls does. */
Test(cuda_table, questions_make_no_context)
{
    int n = 0, device = 7;
    void *context = some;
    struct tt_dev_facts facts;
    struct tt_dev_pointer what;
    called(dev->count(&n), "cudaGetDeviceCount()");
    called(dev->facts(1, &facts), "cudaGetDeviceProperties(1)");
    called(dev->current(&device), "cuCtxGetCurrent()");
    cr_expect(n == 2 && device == -1);
    called(dev->stream.device(stream, &device, &context),
        "cuStreamGetCtx(5) cuCtxGetCurrent() cuCtxPushCurrent(22) cuCtxGetDevice() cuCtxPopCurrent()");
    cr_expect(device == 1 && context == (void *)22);
    called(dev->stream.device(NULL, &device, &context), "cuStreamGetCtx(0)");
    cr_expect(device == -1 && context == NULL);
    cr_expect_eq(
        dev->memory.classify(some, &what), TT_DEV_INVALID, "without a context the driver knows nothing");
    cr_expect_str_eq(fake_calls(), "cuCtxGetCurrent()");
}

Test(cuda_table, facts)
{
    struct tt_dev_facts facts;
    cr_assert_eq(dev->facts(0, &facts), TT_DEV_OK);
    cr_expect_str_eq(facts.name, "A device");
    cr_expect_str_eq(facts.address, "0000:19:00.0/01ab0000");
    cr_expect(facts.capability == 90 && facts.sms == 132 && facts.bytes == 1 << 20);
    cr_expect(facts.words && facts.managed && facts.fds && !facts.shared_context);
    fake.no_fds = true;
    fake.integrated = true;
    fake.shared = true;
    cr_expect(dev->facts(1, &facts) == TT_DEV_OK && !facts.fds && !facts.words && facts.shared_context);
    fake.driver_version = 12020;
    cr_expect(dev->facts(2, &facts) == TT_DEV_OK && !facts.shared_context, "such a driver does not tell");
    memset(&facts, 9, sizeof facts);
    fail("cudaGetDeviceProperties", cudaErrorInvalidDevice);
    cr_expect(dev->facts(3, &facts) == TT_DEV_ABSENT && facts.sms == 0x09090909, "an output is set");
}

/* Asking for them takes milliseconds, so each device is asked once; a failure is no answer. */
Test(cuda_table, facts_are_kept)
{
    struct tt_dev_facts first, again;
    fail("cudaGetDeviceProperties", cudaErrorInvalidDevice);
    cr_expect_eq(dev->facts(1, &first), TT_DEV_ABSENT);
    fake.failing = NULL;
    fake_calls();
    fake.shared = true;
    called(dev->facts(1, &first), "cudaGetDeviceProperties(1)");
    fake.shared = false;
    called(dev->facts(1, &again), "");
    cr_expect(strcmp(first.address, again.address) == 0 && first.sms == again.sms && again.shared_context);
    called(dev->facts(0, &again), "cudaGetDeviceProperties(0)");
    cr_expect_not(again.shared_context, "each device has its own");
    for (int i = 0; i < 2; i++)
        called(dev->facts(64, &again), "cudaGetDeviceProperties(64)"); /* there is no room for so many */
}

Test(cuda_table, current_and_default_streams)
{
    int device = 7;
    void *context = some;
    fake.context_device = 1;
    called(dev->current(&device), "cuCtxGetCurrent() cuCtxGetDevice()");
    cr_expect_eq(device, 1);
    void *const defaults[] = { NULL, cudaStreamLegacy, TT_DEV_STREAM_PER_THREAD };
    for (int i = 0; i < 3; i++) {
        char calls[64];
        snprintf(calls, sizeof calls, "cuStreamGetCtx(%d) cuCtxGetCurrent() cuCtxGetDevice()",
            (int)(intptr_t)defaults[i]);
        called(dev->stream.device(defaults[i], &device, &context), calls);
        cr_expect(device == 1 && context == (void *)21);
        context = some;
    }
    fake.context_device = -1;
    fail("cuStreamGetCtx", CUDA_ERROR_NOT_INITIALIZED);
    cr_expect(dev->stream.device(NULL, &device, &context) == TT_DEV_OK && device == -1 && context == NULL);
    cr_expect_eq(dev->stream.device(stream, &device, &context), TT_DEV_BROKEN, "a stream there is not");
    fail("cuStreamGetCtx", CUDA_ERROR_INVALID_HANDLE);
    cr_expect_eq(dev->stream.device(NULL, &device, &context), TT_DEV_INVALID, "one that a context lacks");
    fail("cuCtxGetCurrent", CUDA_ERROR_NOT_INITIALIZED);
    cr_expect(dev->current(&device) == TT_DEV_OK && device == -1, "a thread that has used none yet");
}

Test(cuda_table, use)
{
    called(dev->use(1), "cuCtxGetCurrent() mode(relaxed) cudaSetDevice(1) mode(global)");
    fake.context_device = 1;
    called(dev->use(1), "cuCtxGetCurrent() cuCtxGetDevice()");
    called(dev->use(0), "cuCtxGetCurrent() cuCtxGetDevice() mode(relaxed) cudaSetDevice(0) mode(global)");
    called(dev->use(-1), "cuCtxGetCurrent() cuCtxGetDevice() cuCtxSetCurrent(0)");
}

/* Devices are named by their addresses, for other processes count them otherwise. */
Test(cuda_table, reaches)
{
    bool reaches = false;
    fake.devices = 3;
    cr_expect(dev->reaches(0, "0000:1b:00.0/01ab0000", &reaches) == TT_DEV_OK && reaches);
    cr_expect_not_null(strstr(fake_calls(), "cudaGetDeviceProperties(2)"));
    cr_expect(dev->reaches(1, "0000:1b:00.0/01ab0000", &reaches) == TT_DEV_OK && !reaches);
    reaches = true;
    cr_expect(dev->reaches(1, "0000:1a:00.0/01ab0000", &reaches) == TT_DEV_OK && !reaches, "itself");
    reaches = true;
    cr_expect_eq(dev->reaches(0, "0000:1c:00.0/01ab0000", &reaches), TT_DEV_ABSENT);
    cr_expect(reaches, "nothing is set");
    cr_expect_not_null(strstr(dev->why(), "no device that this process sees"), "%s", dev->why());
}

/* --- What may wait is allowed while another thread captures, also where it fails. */

static enum tt_dev_error alloc(void)
{
    void *ptr;
    return dev->memory.alloc(64, &ptr);
}

static enum tt_dev_error free_some(void)
{
    return dev->memory.free(some);
}

static enum tt_dev_error alloc_managed(void)
{
    void *ptr;
    return dev->memory.alloc_managed(64, &ptr);
}

static enum tt_dev_error alloc_pinned(void)
{
    void *ptr;
    return dev->memory.alloc_pinned(64, &ptr);
}

static enum tt_dev_error free_pinned(void)
{
    return dev->memory.free_pinned(some);
}

static enum tt_dev_error unpin(void)
{
    return dev->memory.unpin(some);
}

static enum tt_dev_error stream_create(void)
{
    void *made;
    return dev->stream.create(&made);
}

static enum tt_dev_error stream_destroy(void)
{
    return dev->stream.destroy(stream);
}

static enum tt_dev_error stream_query(void)
{
    return dev->stream.query(stream);
}

static enum tt_dev_error stream_sync(void)
{
    return dev->stream.sync(stream);
}

static enum tt_dev_error event_create(void)
{
    void *made;
    return dev->event.create(false, &made);
}

static enum tt_dev_error event_destroy(void)
{
    return dev->event.destroy(event);
}

static enum tt_dev_error event_query(void)
{
    return dev->event.query(event);
}

static enum tt_dev_error occupancy(void)
{
    int n;
    return dev->occupancy(2, 512, 16, &n);
}

static enum tt_dev_error graph_instantiate(void)
{
    void *runnable;
    return dev->graph.instantiate((void *)12, &runnable);
}

static enum tt_dev_error runnable_destroy(void)
{
    return dev->graph.runnable_destroy((void *)15);
}

static const struct {
    enum tt_dev_error (*call)(void);
    const char *function, *arguments;
} relaxed[] = {
    { alloc, "cudaMalloc", "64" },
    { free_some, "cudaFree", "0x7000" },
    { alloc_managed, "cudaMallocManaged", "64, 1" },
    { alloc_pinned, "cudaHostAlloc", "64, 3" }, /* portable, mapped */
    { free_pinned, "cudaFreeHost", "0x7000" },
    { unpin, "cudaHostUnregister", "0x7000" },
    { stream_create, "cudaStreamCreateWithFlags", "1" }, /* does not wait for the legacy stream */
    { stream_destroy, "cudaStreamDestroy", "5" },
    { stream_query, "cudaStreamQuery", "5" },
    { stream_sync, "cudaStreamSynchronize", "5" },
    { event_create, "cudaEventCreateWithFlags", "2" }, /* takes no time */
    { event_destroy, "cudaEventDestroy", "6" },
    { event_query, "cudaEventQuery", "6" },
    { occupancy, "cudaOccupancy", "2, 512, 16" },
    { graph_instantiate, "cudaGraphInstantiate", "12, 0" },
    { runnable_destroy, "cudaGraphExecDestroy", "15" },
};

Test(cuda_table, what_may_wait_spoils_no_capture)
{
    for (size_t i = 0; i < sizeof relaxed / sizeof relaxed[0]; i++) {
        char calls[200];
        snprintf(calls, sizeof calls, "mode(relaxed) %s(%s) mode(global)", relaxed[i].function,
            relaxed[i].arguments);
        fake.failing = NULL;
        called(relaxed[i].call(), calls);
        fail(relaxed[i].function, cudaErrorInvalidValue);
        cr_expect_eq(relaxed[i].call(), TT_DEV_INVALID, "%s", relaxed[i].function);
        cr_expect_str_eq(fake_calls(), calls);
        cr_expect_eq(
            strncmp(dev->why(), relaxed[i].function, strlen(relaxed[i].function)), 0, "%s", dev->why());
    }
}

/* --- What is enqueued is one call and touches nothing else. */

static void release(void *argument)
{
    (void)argument;
}

Test(cuda_table, enqueued)
{
    uint32_t *word = some;
    char params[24];
    struct tt_dev_launch launch = { .kernel = 2,
        .grid = 7,
        .grid_y = 3,
        .block = 512,
        .shared_bytes = 16,
        .params = params,
        .params_bytes = sizeof params };
    char launched[200];
    snprintf(launched, sizeof launched, "cudaLaunchKernel(2, 7x3x1, 512x1x1, %#lx, 16, 5)",
        (unsigned long)(uintptr_t)params);
    called(dev->copy(some, event, 64, stream), "cudaMemcpyAsync(0x7000, 0x6, 64, 4, 5)");
    called(dev->copy_rows(some, 10, event, 20, 8, 3, stream),
        "cudaMemcpy2DAsync(0x7000, 10, 0x6, 20, 8, 3, 4, 5)");
    called(dev->fill(some, 255, 64, stream), "cudaMemsetAsync(0x7000, 255, 64, 5)");
    called(dev->write_word(stream, word, 9), "cuStreamWriteValue32(5, 0x7000, 9, 0)");
    called(dev->wait_word(stream, word, 9), "cuStreamWaitValue32(5, 0x7000, 9, 0)");
    called(dev->host_call(stream, release, some), "cudaLaunchHostFunc(5, 1, 0x7000)");
    called(dev->launch(&launch, stream), launched);
    called(dev->graph.launch((void *)15, stream), "cudaGraphLaunch(15, 5)");
    called(dev->event.record(event, stream, false), "cudaEventRecordWithFlags(6, 5, 0)");
    called(dev->event.wait(event, stream, false), "cudaStreamWaitEvent(5, 6, 0)");
}

/* CUDA refuses the flag outside of a capture. */
Test(cuda_table, external_events_are_that_in_captures_only)
{
    called(
        dev->event.record(event, stream, true), "cudaStreamIsCapturing(5) cudaEventRecordWithFlags(6, 5, 0)");
    called(dev->event.wait(event, stream, true), "cudaStreamIsCapturing(5) cudaStreamWaitEvent(5, 6, 0)");
    fake.capture = cudaStreamCaptureStatusActive;
    called(
        dev->event.record(event, stream, true), "cudaStreamIsCapturing(5) cudaEventRecordWithFlags(6, 5, 1)");
    called(dev->event.wait(event, stream, true), "cudaStreamIsCapturing(5) cudaStreamWaitEvent(5, 6, 1)");
    fail("cudaStreamIsCapturing", cudaErrorStreamCaptureImplicit);
    cr_expect_eq(dev->event.record(event, NULL, true), TT_DEV_CAPTURE);
    cr_expect_str_eq(fake_calls(), "cudaStreamIsCapturing(0)");
}

Test(cuda_table, kernels)
{
    char params[24];
    struct tt_dev_launch launch = { .kernel = 1, .params = params, .params_bytes = sizeof params };
    int blocks = 0;
    called(dev->preload(), "mode(relaxed) cudaFuncGetAttributes(0) cudaFuncGetAttributes(2) mode(global)");
    cr_expect_eq(dev->launch(&launch, stream), TT_DEV_INVALID, "there is no kernel 1");
    cr_expect_eq(dev->occupancy(9, 512, 0, &blocks), TT_DEV_INVALID);
    launch.kernel = 0;
    launch.params_bytes = 16;
    cr_expect_eq(dev->launch(&launch, stream), TT_DEV_INVALID, "parameters of another length");
    cr_expect_str_eq(fake_calls(), "");
    fail("cudaFuncGetAttributes", cudaErrorNoKernelImageForDevice);
    cr_expect_eq(dev->preload(), TT_DEV_UNSUPPORTED);
    cr_expect_str_eq(fake_calls(), "mode(relaxed) cudaFuncGetAttributes(0) mode(global)");
}

/* --- Memory. */

Test(cuda_table, pin)
{
    void *seen = NULL;
    called(dev->memory.pin(some, 64, &seen),
        "mode(relaxed) cudaHostRegister(0x7000, 64, 3) cudaHostGetDevicePointer(0x7000, 0) mode(global)");
    cr_expect_eq(seen, (void *)0x4000);
    fail("cudaHostRegister", cudaErrorHostMemoryAlreadyRegistered);
    cr_expect_eq(dev->memory.pin(some, 64, &seen), TT_DEV_INVALID);
    cr_expect_str_eq(fake_calls(), "mode(relaxed) cudaHostRegister(0x7000, 64, 3) mode(global)");
    fail("cudaHostGetDevicePointer", cudaErrorNotSupported);
    cr_expect_eq(dev->memory.pin(some, 64, &seen), TT_DEV_UNSUPPORTED);
    cr_expect_not_null(
        strstr(fake_calls(), "cudaHostGetDevicePointer(0x7000, 0) cudaHostUnregister(0x7000) mode(global)"));
}

/* What was made is what the caller gets: the fakes' own numbers. */
Test(cuda_table, memory_is_what_cuda_gave)
{
    void *out = NULL;
    cr_expect(dev->memory.alloc(64, &out) == TT_DEV_OK && out == (void *)0x1000, "alloc: %p", out);
    cr_expect(dev->memory.alloc_managed(64, &out) == TT_DEV_OK && out == (void *)0x2000, "managed: %p", out);
    cr_expect(dev->memory.alloc_pinned(64, &out) == TT_DEV_OK && out == (void *)0x3000, "pinned: %p", out);
}

/* CUDA says nothing of an output where it fails; these fakes set it all the same. */
Test(cuda_table, outputs_are_left_alone_by_what_fails)
{
    enum { NUMBER = 7 };
    int n = NUMBER;
    void *const untouched = &n;
    void *out = untouched;
    fake.context_device = 0;
    fail("cudaMalloc", cudaErrorMemoryAllocation);
    cr_expect(dev->memory.alloc(64, &out) == TT_DEV_NO_MEMORY && out == untouched, "alloc");
    fail("cudaMallocManaged", cudaErrorMemoryAllocation);
    cr_expect(dev->memory.alloc_managed(64, &out) == TT_DEV_NO_MEMORY && out == untouched, "alloc_managed");
    fail("cudaHostAlloc", cudaErrorMemoryAllocation);
    cr_expect(dev->memory.alloc_pinned(64, &out) == TT_DEV_NO_MEMORY && out == untouched, "alloc_pinned");
    fail("cudaHostGetDevicePointer", cudaErrorNotSupported);
    cr_expect(dev->memory.pin(some, 64, &out) == TT_DEV_UNSUPPORTED && out == untouched, "pin");
    fail("cudaStreamCreateWithFlags", cudaErrorMemoryAllocation);
    cr_expect(dev->stream.create(&out) == TT_DEV_NO_MEMORY && out == untouched, "stream_create");
    fail("cudaEventCreateWithFlags", cudaErrorMemoryAllocation);
    cr_expect(dev->event.create(false, &out) == TT_DEV_NO_MEMORY && out == untouched, "event_create");
    fail("cudaStreamEndCapture", cudaErrorStreamCaptureInvalidated);
    cr_expect(dev->graph.capture_end(stream, &out) == TT_DEV_CAPTURE && out == untouched, "capture_end");
    fail("cudaGraphInstantiate", cudaErrorMemoryAllocation);
    cr_expect(
        dev->graph.instantiate(some, &out) == TT_DEV_NO_MEMORY && out == untouched, "graph_instantiate");
    fail("cudaGetDeviceCount", cudaErrorNoDevice);
    cr_expect(dev->count(&n) == TT_DEV_ABSENT && n == NUMBER, "count");
    fail("cuCtxGetDevice", CUDA_ERROR_INVALID_CONTEXT);
    cr_expect(dev->current(&n) != TT_DEV_OK && n == NUMBER, "current");
    cr_expect(dev->stream.device(stream, &n, &out) != TT_DEV_OK && n == NUMBER && out == untouched,
        "stream_device");
}

/* --- Captures and graphs. */

Test(cuda_table, captures)
{
    struct tt_dev_capture capture;
    void *graph;
    called(dev->graph.capture_begin(stream), "cudaStreamBeginCapture(5, 0)");
    called(dev->graph.capture_end(stream, &graph), "cudaStreamEndCapture(5)");
    called(dev->stream.capture(stream, &capture), "cuStreamGetCaptureInfo(5)");
    cr_expect(!capture.active && !capture.broken && capture.graph == NULL && capture.id == 0);
    fake.capture = cudaStreamCaptureStatusActive;
    called(dev->stream.capture(stream, &capture), "cuStreamGetCaptureInfo(5)");
    cr_expect(capture.active && !capture.broken && capture.graph == graph && capture.id == 77);
    fake.capture = cudaStreamCaptureStatusInvalidated;
    called(dev->stream.capture(stream, &capture), "cuStreamGetCaptureInfo(5)");
    cr_expect(!capture.active && capture.broken);
}

Test(cuda_table, graphs_retain)
{
    called(dev->graph.retain((void *)12, release, some),
        "cudaUserObjectCreate(0x7000, 1, 1) cudaGraphRetainUserObject(12, 14, 1, 1)");
    cr_expect_eq(fake.release, release);
    fail("cudaUserObjectCreate", cudaErrorInvalidValue);
    cr_expect_eq(dev->graph.retain((void *)12, release, some), TT_DEV_INVALID);
    cr_expect_str_eq(fake_calls(), "cudaUserObjectCreate(0x7000, 1, 1)");
    fake.failing = NULL;
    called(dev->graph.destroy((void *)12), "cudaGraphDestroy(12)");
}

/* --- Errors. */

Test(cuda_table, errors)
{
    static const struct {
        int code;
        enum tt_dev_error error;
    } codes[] = { { cudaErrorNotReady, TT_DEV_NOT_READY }, { cudaErrorNoDevice, TT_DEV_ABSENT },
        { cudaErrorInvalidDevice, TT_DEV_ABSENT }, { cudaErrorMemoryAllocation, TT_DEV_NO_MEMORY },
        { cudaErrorInvalidValue, TT_DEV_INVALID }, { cudaErrorInvalidResourceHandle, TT_DEV_INVALID },
        { cudaErrorNotSupported, TT_DEV_UNSUPPORTED }, { cudaErrorOperatingSystem, TT_DEV_UNSUPPORTED },
        { cudaErrorStreamCaptureUnsupported, TT_DEV_CAPTURE }, { cudaErrorCapturedEvent, TT_DEV_CAPTURE },
        { cudaErrorStreamCaptureWrongThread, TT_DEV_CAPTURE }, { cudaErrorCudartUnloading, TT_DEV_ABSENT },
        { cudaErrorIllegalAddress, TT_DEV_BROKEN }, { cudaErrorLaunchFailure, TT_DEV_BROKEN },
        { cudaErrorInitializationError, TT_DEV_BROKEN }, { 12345, TT_DEV_BROKEN } };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        fail("cudaStreamQuery", codes[i].code);
        cr_expect_eq(dev->stream.query(stream), codes[i].error, "%d", codes[i].code);
    }
    fail("cudaMemcpyAsync", cudaErrorInvalidValue);
    cr_expect_eq(dev->copy(some, some, 1, stream), TT_DEV_INVALID);
    cr_expect_str_eq(dev->why(), "cudaMemcpyAsync: invalid argument (cudaErrorInvalidValue, 1)");
    fake.failing = NULL;
    cr_expect_eq(dev->copy(some, some, 1, stream), TT_DEV_OK);
    fail("cudaStreamQuery", cudaErrorNotReady);
    dev->stream.query(stream);
    cr_expect_str_eq(
        dev->why(), "cudaMemcpyAsync: invalid argument (cudaErrorInvalidValue, 1)", "that is no error");
}

Test(cuda_table, driver_that_is_absent_or_old)
{
    int n = 7;
    fail("cudaGetDeviceCount", cudaErrorInsufficientDriver);
    fake.driver_version = 0;
    cr_expect_eq(dev->count(&n), TT_DEV_ABSENT);
    cr_expect_not_null(strstr(dev->why(), "there is no CUDA driver"), "%s", dev->why());
    fake.driver_version = 12040;
    cr_expect_eq(dev->count(&n), TT_DEV_OLD);
    cr_expect_not_null(strstr(dev->why(), "up to 12.4, this plugin was built with CUDA 1"), "%s", dev->why());
    cr_expect_not_null(
        strstr(dev->why(), "legal: a newer driver, or a plugin that was built with CUDA 12.2 to "
                           "12.4 ("),
        "%s", dev->why());
    fake.driver_version = 11080;
    cr_expect_eq(dev->count(&n), TT_DEV_OLD);
    cr_expect_not_null(strstr(dev->why(), "legal: a newer driver ("), "%s", dev->why());
}

/* A process looks for the driver's functions once, so each driver has one of its own. */
static bool serves(int version)
{
    char calls[120];
    int device = 7;
    void *context = NULL;
    struct tt_dev_capture capture;
    fake.driver_version = version;
    fake.context_device = 0;
    snprintf(calls, sizeof calls,
        "cuStreamGetCtx%s(5) cuCtxGetCurrent() cuCtxPushCurrent(22) cuCtxGetDevice() cuCtxPopCurrent()",
        version < 12050 ? "_9.2" : "");
    return dev->current(&device) == TT_DEV_OK && device == 0 &&
           strcmp(fake_calls(), "cuCtxGetCurrent() cuCtxGetDevice()") == 0 &&
           dev->stream.device(stream, &device, &context) == TT_DEV_OK && strcmp(fake_calls(), calls) == 0 &&
           device == 1 && context == (void *)22 && fake.pushed == 0 &&
           dev->stream.capture(stream, &capture) == TT_DEV_OK &&
           strcmp(fake_calls(), "cuStreamGetCaptureInfo(5)") == 0;
}

/* Which drivers are too old is the runtime's to say: the table asks for nothing that one of 12.2 lacks. */
Test(cuda_table, drivers_from_12_2_on)
{
    static const int versions[] = { 12020, 12040, 12050, 12090, 13000, 13010 };
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0)
            _exit(serves(versions[i]) ? 0 : 1);
        cr_expect(waitpid(child, &status, 0) == child && status == 0, "a driver of %d", versions[i]);
    }
}

/* A thread that cannot be brought into the stream's context is where it was. */
Test(cuda_table, context_that_cannot_be_asked)
{
    int device = 7;
    void *context = some;
    fake.context_device = 0;
    fail("cuCtxPushCurrent", CUDA_ERROR_INVALID_CONTEXT);
    cr_expect_eq(dev->stream.device(stream, &device, &context), TT_DEV_INVALID);
    cr_expect(device == 7 && context == some && fake.pushed == 0);
    fail("cuCtxGetDevice", CUDA_ERROR_INVALID_CONTEXT);
    cr_expect_eq(dev->stream.device(stream, &device, &context), TT_DEV_INVALID);
    cr_expect(device == 7 && context == some && fake.pushed == 0, "it stays in another's context");
}

Test(cuda_table, driver_that_lacks_a_function)
{
    int device = 7;
    fake.missing = "cuStreamGetCtx";
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(dev->current(&device), TT_DEV_OLD);
        cr_expect_eq(strncmp(dev->why(), "cuStreamGetCtx: ", 16), 0, "%s", dev->why());
        cr_expect_eq(dev->wait_word(stream, some, 1), TT_DEV_OLD);
    }
    cr_expect_str_eq(fake_calls(), "");
    cr_expect_eq(device, 7);
}

Test(cuda_table, driver_without_a_search)
{
    int device = 7;
    fake.missing = "cuGetProcAddress";
    cr_expect(dev->current(&device) == TT_DEV_OLD && device == 7);
    cr_expect_eq(strncmp(dev->why(), "cuGetProcAddress: ", 18), 0, "%s", dev->why());
}
