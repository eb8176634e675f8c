/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_segments.c: what segments of the device table ask of CUDA, and what is undone where a step fails.
 * Linked as test_cuda_table.c is. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "table_rig.h"

#include <cuda.h>
#include <cuda_runtime_api.h>

static void *const some = (void *)0x7000; /* an address */
enum { FABRIC = 8 }; /* CU_MEM_HANDLE_TYPE_FABRIC, which headers before 12.3 do not have */

TestSuite(cuda_segments, .init = table_begin);

Test(cuda_segments, by_descriptor)
{
    fake.context_device = 1;
    struct tt_dev_segment segment;
    struct tt_dev_export out;
    called(dev->segment.alloc(1000, &segment),
        "cuCtxGetDevice() mode(relaxed) cuMemCreate(65536, device 1, handles 1, 0) "
        "cuMemAddressReserve(65536, "
        "0, 0, 0) "
        "cuMemMap(0x6000, 65536, 0, 31, 0) cuMemSetAccess(0x6000, 65536, devices 1, 0) mode(global)");
    cr_expect(
        segment.base == (void *)0x6000 && segment.bytes == 65536 && segment.device == 1 && !segment.imported);
    fake.exported_fd = open("/dev/null", O_RDONLY);
    called(dev->segment.export(&segment, &out), "cuMemExportToShareableHandle(31, 1, 0)");
    cr_expect(out.fd == fake.exported_fd && out.bytes == 65536);
    cr_expect(fcntl(out.fd, F_GETFD) & FD_CLOEXEC, "programs that are started would keep the memory");
    close(out.fd);
    called(dev->segment.free(&segment), "mode(relaxed) cuMemUnmap(0x6000, 65536) cuMemAddressFree(0x6000, "
                                        "65536) cuMemRelease(31) mode(global)");
    cr_expect_null(segment.base);

    out.fd = 44;
    called(dev->segment.import(&out, &segment),
        "cuCtxGetDevice() mode(relaxed) cuMemImportFromShareableHandle(44, 1) cuMemAddressReserve(65536, 0, "
        "0, 0) "
        "cuMemMap(0x6000, 65536, 0, 32, 0) cuMemSetAccess(0x6000, 65536, devices 1, 0) mode(global)");
    cr_expect(segment.base == (void *)0x6000 && segment.bytes == 65536 && segment.imported);
    called(dev->segment.free(&segment), "mode(relaxed) cuMemUnmap(0x6000, 65536) cuMemAddressFree(0x6000, "
                                        "65536) cuMemRelease(32) mode(global)");
}

/* All devices of the process that reach the memory use it at one address; the one it is for comes first. */
Test(cuda_segments, for_peers)
{
    static const struct {
        int current, devices, owner;
        const char *users;
    } cases[] = { { 1, 2, 1, "devices 1, 0)" }, { 0, 1, 0, "devices 0)" }, { 2, 5, 2, "devices 2, 0)" },
        { 4, 5, 4, "devices 4, 3)" }, { 0, 5, 2, "devices 0, 2)" }, /* one that was imported */
        { 3, 5, -1, "devices 3)" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tt_dev_segment segment;
        struct tt_dev_export from = { .bytes = 65536, .fd = 44 };
        fake.context_device = cases[i].current;
        fake.devices = cases[i].devices;
        fake.owner = cases[i].owner;
        cr_expect_eq(dev->segment.import(&from, &segment), TT_DEV_OK);
        cr_expect_eq(segment.device, cases[i].current);
        const char *calls = fake_calls();
        cr_expect_not_null(strstr(calls, cases[i].users), "case %zu: %s", i, calls);
    }
}

Test(cuda_segments, by_legacy_handle)
{
    struct tt_dev_segment segment;
    struct tt_dev_export out;
    fake.context_device = 1;
    fake.no_fds = true;
    called(dev->segment.alloc(1000, &segment),
        "cuCtxGetDevice() mode(relaxed) cudaMalloc(2097152) mode(global)");
    cr_expect(segment.base == (void *)0x1000 && segment.bytes == 2 << 20 && segment.device == 1);
    called(dev->segment.export(&segment, &out), "cudaIpcGetMemHandle(0x1000)");
    cr_expect(out.fd == -1 && out.handle[0] == 7 && out.handle[TT_DEV_HANDLE_BYTES - 1] == 7);
    called(dev->segment.free(&segment), "mode(relaxed) cudaFree(0x1000) mode(global)");
    called(dev->segment.import(&out, &segment),
        "cuCtxGetDevice() mode(relaxed) cudaIpcOpenMemHandle(7, 1) mode(global)");
    cr_expect(segment.base == (void *)0x5000 && segment.bytes == 2 << 20 && segment.imported);
    called(dev->segment.free(&segment), "mode(relaxed) cudaIpcCloseMemHandle(0x5000) mode(global)");
}

/* Whatever step fails, what was done before is undone, and nothing is set. */
Test(cuda_segments, that_fail)
{
    static const struct {
        const char *function, *undone;
    } steps[] = { { "cuMemCreate", "handles 1, 0) mode(global)" },
        { "cuMemAddressReserve", "0, 0) cuMemRelease(31) mode(global)" },
        { "cuMemMap", "0) cuMemAddressFree(0x6000, 65536) cuMemRelease(31) mode(global)" },
        { "cuMemSetAccess",
            "1) cuMemUnmap(0x6000, 65536) cuMemAddressFree(0x6000, 65536) cuMemRelease(31) mode(global)" } };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct tt_dev_segment segment = { .bytes = 5 };
        fail(steps[i].function, CUDA_ERROR_OUT_OF_MEMORY);
        cr_expect_eq(dev->segment.alloc(1000, &segment), TT_DEV_NO_MEMORY);
        const char *calls = fake_calls(), *end = calls + strlen(calls) - strlen(steps[i].undone);
        cr_expect(end >= calls && strcmp(end, steps[i].undone) == 0, "%s: %s", steps[i].function, calls);
        cr_expect_eq(segment.bytes, 5);
    }
    struct tt_dev_segment segment = { .base = some, .bytes = 65536, .handle = (void *)31 };
    fail("cuMemUnmap", CUDA_ERROR_INVALID_VALUE);
    cr_expect_eq(dev->segment.free(&segment), TT_DEV_INVALID);
    cr_expect_not_null(strstr(fake_calls(), "cuMemRelease(31)"), "the rest is let go all the same");
}

/* --- Memory that this process has, whoever allocated it. */

/* 0x7000 lies in 0x2000 bytes from 0x6000 on. */
static void device_memory(void)
{
    fake.context_device = 1;
    fake.pointer.type = CU_MEMORYTYPE_DEVICE;
    fake.pointer.device = 1;
    fake.pointer.base = 0x4000;
    fake.pointer.bytes = 0x8000;
    fake.pointer.mapped = 1;
    fake.pointer.mapping_base = 0x6000;
    fake.pointer.mapping_bytes = 0x2000;
}

/* What is mapped of a range goes by its own handle, which is given back. */
Test(cuda_segments, of_what_is_mapped)
{
    struct tt_dev_export out;
    uintptr_t base = 0;
    device_memory();
    fake.handle = 33;
    fake.handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | FABRIC;
    fake.exported_fd = open("/dev/null", O_RDONLY);
    called(dev->segment.export_of(some, &out, &base),
        "cuCtxGetCurrent() cuCtxGetDevice() cuPointerGetAttributes(0x7000) mode(relaxed) "
        "cuMemRetainAllocationHandle(0x7000) cuMemExportToShareableHandle(33, 1, 0) cuMemRelease(33) "
        "mode(global)");
    cr_expect(out.fd == fake.exported_fd && out.bytes == 0x2000 && base == 0x6000);
    cr_expect(fcntl(out.fd, F_GETFD) & FD_CLOEXEC, "programs that are started would keep the memory");
    close(out.fd);
}

/* An allocation goes by the handle of its base. */
Test(cuda_segments, of_what_is_allocated)
{
    struct tt_dev_export out;
    uintptr_t base = 0;
    device_memory();
    fake.pointer.base = 0x6800;
    fake.pointer.bytes = 0x1000;
    fake.pointer.legacy = 1;
    called(dev->segment.export_of(some, &out, &base),
        "cuCtxGetCurrent() cuCtxGetDevice() cuPointerGetAttributes(0x7000) mode(relaxed) "
        "cuMemRetainAllocationHandle(0x7000) cuPointerGetAttributes(0x6800) cudaIpcGetMemHandle(0x6800) "
        "mode(global)");
    cr_expect(out.fd == -1 && out.bytes == 0x1000 && base == 0x6800 && out.handle[0] == 7);
}

static void refused(enum tt_dev_error error, const char *why, const char *last)
{
    struct tt_dev_export out = { .bytes = 5 };
    uintptr_t base = 5;
    fake_calls();
    cr_expect_eq(dev->segment.export_of(some, &out, &base), error, "%s", why);
    cr_expect_not_null(strstr(dev->why(), why), "%s", dev->why());
    const char *calls = fake_calls(), *end = calls + strlen(calls) - strlen(last);
    cr_expect(end >= calls && strcmp(end, last) == 0, "%s: %s", why, calls);
    cr_expect(out.bytes == 5 && base == 5);
}

Test(cuda_segments, of_what_cannot_be_exported)
{
    device_memory();
    refused(TT_DEV_UNSUPPORTED, "of a pool, or of another process",
        "cuMemRetainAllocationHandle(0x7000) cuPointerGetAttributes(0x6000) mode(global)");
    fake.handle = 33;
    refused(
        TT_DEV_UNSUPPORTED, "without a handle type that is a descriptor", "cuMemRelease(33) mode(global)");
    fake.handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    fail("cuMemExportToShareableHandle", CUDA_ERROR_OPERATING_SYSTEM); /* no descriptor is left */
    refused(TT_DEV_UNSUPPORTED, "cuMemExportToShareableHandle", "cuMemRelease(33) mode(global)");
    fail("cuMemRetainAllocationHandle", CUDA_ERROR_OUT_OF_MEMORY);
    refused(TT_DEV_NO_MEMORY, "cuMemRetainAllocationHandle", "(0x7000) mode(global)");
    fake.pointer.managed = 1;
    refused(TT_DEV_UNSUPPORTED, "no memory of a device alone", "cuPointerGetAttributes(0x7000)");
    fake.pointer.managed = 0;
    fake.pointer.type = CU_MEMORYTYPE_HOST;
    refused(TT_DEV_UNSUPPORTED, "no memory of a device alone", "cuPointerGetAttributes(0x7000)");
    fake.context_device = -1;
    refused(TT_DEV_INVALID, "this thread uses no device", "cuCtxGetCurrent()");
}
