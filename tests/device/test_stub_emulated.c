/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stub_emulated.c: the stub's module launches the kernels of a plugin, by their numbers, on device
 * memory. Run in the build directory. */
#include <criterion/criterion.h>

#include "device/dev.h"
#include "kernels/cuda/cuda_kernels.h"

enum { COUNT = 50000, BYTES = COUNT * 4 };

static const struct tt_dev *device;
static void *stream;

static enum tt_dev_error launch(uint32_t kernel, const struct tt_fused_params *params)
{
    struct tt_dev_launch what = { .kernel = kernel,
        .grid = tt_fused_grid(BYTES) / 3,
        .grid_y = params->rects,
        .block = TT_FUSED_BLOCK,
        .params = params,
        .params_bytes = sizeof *params };
    return device->launch(&what, stream);
}

/* Three ranks' sum to two of them, which the third gets by another kernel; their memory and the counter are
 * the device's, the word that tells of the end is pinned. */
Test(stub_emulated, kernels_on_device_memory, .timeout = 60)
{
    float *host, *memory[4];
    uint32_t *counter, *over;
    cr_assert_eq(tt_dev_find("tests/.libs/libtutti_stub.so", &device), TUTTI_OK);
    cr_assert(device->use(0) == TT_DEV_OK && device->stream.create(&stream) == TT_DEV_OK);
    cr_assert(
        device->preload() == TT_DEV_OK && device->memory.alloc_pinned(BYTES, (void **)&host) == TT_DEV_OK);
    cr_assert(device->memory.alloc(64, (void **)&counter) == TT_DEV_OK &&
              device->memory.alloc_pinned(64, (void **)&over) == TT_DEV_OK);
    cr_assert_eq(device->fill(counter, 0, 64, stream), TT_DEV_OK);
    *over = 0;
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)(i % 1000);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(device->memory.alloc(BYTES, (void **)&memory[i]), TT_DEV_OK);
        cr_expect_eq(device->copy(memory[i], host, BYTES, stream), TT_DEV_OK);
    }
    struct tt_fused_params fold = { .own = { .in = { memory[0], memory[1], memory[2] },
                                        .out = { memory[0], memory[3] },
                                        .scalar = { NULL, memory[1] + 2 },
                                        .factor = { 0x40400000, 0, 0x3f800000 } },
        .rects = 2,
        .blocks_over = counter,
        .over = over,
        .over_value = 5,
        .rect = { { 0, 0, COUNT / 2, 7, 3, { 0 } }, { BYTES / 2, BYTES / 2, COUNT / 2, 7, 3, { 0 } } } };
    struct tt_fused_params move = { .own = { .in = { memory[3] }, .out = { memory[2] } },
        .rects = 1,
        .rect = { { 0, 0, BYTES, 1, 1, { 0 } } } };
    cr_expect_eq(launch(0, &fold), TT_DEV_INVALID, "no kernel has this number");
    cr_expect_eq(launch(tt_kernel_number(TT_KERNEL_SCALED_CHAIN, TUTTI_FLOAT32, TUTTI_SUM), &fold), TT_DEV_OK,
        "%s", device->why());
    cr_expect_eq(launch(tt_kernel_number(TT_KERNEL_MOVE, 0, 0), &move), TT_DEV_OK);
    for (int result = 0; result < 3; result += 2) {
        cr_expect_eq(device->copy(host, memory[result], BYTES, stream), TT_DEV_OK);
        cr_expect_eq(device->stream.sync(stream), TT_DEV_OK);
        for (int i = 0; i < COUNT; i++)
            cr_assert_eq(host[i], (float)(i % 1000 * (3 + 2 + 1)), "element %d is %g", i, (double)host[i]);
    }
    cr_expect_eq(*over, 5);
}
