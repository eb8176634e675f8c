/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stub_emulated.c: the stub's module launches the kernels of a plugin, by their numbers, on device
 * memory. Run in the build directory. */
#include <criterion/criterion.h>

#include "device/dev.h"
#include "kernels/cuda/cuda_kernels.h"

enum { COUNT = 50000, BYTES = COUNT * 4 };

static const struct tt_dev *device;
static void *stream;

static enum tt_dev_error launch(uint32_t kernel, const void *params, size_t params_bytes)
{
    struct tt_dev_launch what = { .kernel = kernel,
        .grid = tt_kernel_grid(BYTES, 3),
        .grid_y = 1,
        .block = TT_KERNEL_BLOCK,
        .params = params,
        .params_bytes = params_bytes };
    return device->launch(&what, stream);
}

Test(stub_emulated, kernels_on_device_memory, .timeout = 60)
{
    float *host, *memory[4];
    struct tt_fold_params fold = { .count = COUNT, .k = 3 };
    struct tt_scale_params scale = { .count = COUNT };
    cr_assert_eq(tt_dev_find("tests/.libs/libtutti_stub.so", &device), TUTTI_OK);
    cr_assert(device->use(0) == TT_DEV_OK && device->stream.create(&stream) == TT_DEV_OK);
    cr_assert(
        device->preload() == TT_DEV_OK && device->memory.alloc_pinned(BYTES, (void **)&host) == TT_DEV_OK);
    for (int i = 0; i < COUNT; i++)
        host[i] = (float)(i % 1000);
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(device->memory.alloc(BYTES, (void **)&memory[i]), TT_DEV_OK);
        cr_expect_eq(device->copy(memory[i], host, BYTES, stream), TT_DEV_OK);
    }
    fold.dst = memory[3];
    for (int i = 0; i < 3; i++)
        fold.sources[i] = memory[i];
    scale.dst = memory[0];
    scale.src = memory[3];
    scale.factor = memory[1] + 2;
    cr_expect_eq(launch(0, &fold, sizeof fold), TT_DEV_INVALID, "no kernel has this number");
    cr_expect_eq(launch(tt_kernel_number(TT_KERNEL_CHAIN, TUTTI_FLOAT32, TUTTI_SUM), &fold, sizeof fold),
        TT_DEV_OK, "%s", device->why());
    cr_expect_eq(
        launch(tt_kernel_number(TT_KERNEL_SCALE, TUTTI_FLOAT32, 0), &scale, sizeof scale), TT_DEV_OK);
    cr_expect_eq(device->copy(host, memory[0], BYTES, stream), TT_DEV_OK);
    cr_expect_eq(device->stream.sync(stream), TT_DEV_OK);
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(host[i], (float)(i % 1000 * 3 * 2), "element %d is %g", i, (double)host[i]);
}
