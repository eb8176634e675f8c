/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stub_emulated.c: the stub's module launches the kernels of a plugin, by their numbers, on device
 * memory; and what emulated kernels ask of the stub while they run. Run in the build directory. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/dev.h"
#include "kernels/cuda/cuda_emulate.h"
#include "kernels/cuda/cuda_direct.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/cuda_probe.h"
#include "stub_rig.h"

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

/* Three ranks' sum to two of them, which the third gets by another kernel, whose bases lie in the device's
 * memory, as the operands and the counter do; the word that tells of the end is pinned. */
Test(stub_emulated, kernels_on_device_memory, .timeout = 60)
{
    float *host, *memory[4];
    uint32_t *counter, *over;
    struct tt_bases *bases, *late;
    cr_assert_eq(tt_dev_find("tests/.libs/libtutti_stub.so", &device), TUTTI_OK);
    cr_assert(device->use(0) == TT_DEV_OK && device->stream.create(&stream) == TT_DEV_OK);
    cr_assert(
        device->preload() == TT_DEV_OK && device->memory.alloc_pinned(BYTES, (void **)&host) == TT_DEV_OK);
    cr_assert(device->memory.alloc(64, (void **)&counter) == TT_DEV_OK &&
              device->memory.alloc_pinned(64, (void **)&over) == TT_DEV_OK);
    cr_assert(device->memory.alloc(sizeof *bases, (void **)&bases) == TT_DEV_OK &&
              device->memory.alloc_pinned(sizeof *late, (void **)&late) == TT_DEV_OK);
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
    *late = (struct tt_bases){ .in = { memory[3] }, .out = { memory[2] } };
    cr_expect_eq(device->copy(bases, late, sizeof *late, stream), TT_DEV_OK);
    struct tt_fused_params move = { .bases = bases, .rects = 1, .rect = { { 0, 0, BYTES, 1, 1, { 0 } } } };
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

/* --- Kernels of two devices that meet each other. */

enum { SUM = 3000, SUM_BYTES = SUM * 4 };

struct side {
    void *stream, *graph, *runnable;
    float *host, *memory;
    struct tt_direct_params params;
};

static struct tt_pad *side_open(struct side *s, int ordinal)
{
    struct tt_pad *pad;
    cr_assert(device->use(ordinal) == TT_DEV_OK && device->stream.create(&s->stream) == TT_DEV_OK);
    cr_assert(device->preload() == TT_DEV_OK);
    cr_assert_eq(device->memory.alloc(sizeof *pad, (void **)&pad), TT_DEV_OK);
    cr_assert_eq(device->fill(pad, 0, sizeof *pad, s->stream), TT_DEV_OK);
    cr_assert(device->memory.alloc(SUM_BYTES, (void **)&s->memory) == TT_DEV_OK &&
              device->memory.alloc_pinned(SUM_BYTES, (void **)&s->host) == TT_DEV_OK);
    s->params = (struct tt_direct_params){ .in = s->memory,
        .out = s->memory,
        .segment = 2048,
        .ranks = 2,
        .rank = (uint32_t)ordinal,
        .row = TT_ROW_SUM };
    cr_assert_eq(device->memory.alloc_pinned(sizeof *s->params.words, (void **)&s->params.words), TT_DEV_OK);
    *s->params.words = (struct tt_direct_words){ 0 };
    for (int i = 0; i < SUM; i++)
        s->host[i] = (float)(i % 100 + ordinal);
    cr_expect_eq(device->copy(s->memory, s->host, SUM_BYTES, s->stream), TT_DEV_OK);
    cr_assert_eq(device->stream.sync(s->stream), TT_DEV_OK);
    return pad;
}

static void launch_side(const struct side *s)
{
    struct tt_dev_launch what = { .kernel = tt_kernel_number(TT_KERNEL_DIRECT, TUTTI_FLOAT32, TUTTI_SUM),
        .grid = tt_direct_grid(SUM_BYTES, 4) + 2,
        .grid_y = 1,
        .block = 32,
        .params = &s->params,
        .params_bytes = sizeof s->params };
    cr_assert_eq(device->launch(&what, s->stream), TT_DEV_OK, "%s", device->why());
}

/* Eager, then by graphs that are run again, each of which counts on from where the last kernel ended. */
static void sum_on_both_devices(enum tt_direct_way way, struct side *sides)
{
    const struct tt_rect all = { .count = SUM, .sources = 3, .dsts = 3 };
    for (int k = 0; k < 2; k++) {
        cr_expect(tt_direct_set(&sides[k].params, &all, 1, 4), "LL serves it");
        sides[k].params.way = way;
        cr_assert_eq(device->use(k), TT_DEV_OK);
        launch_side(&sides[k]);
        cr_assert_eq(device->graph.capture_begin(sides[k].stream), TT_DEV_OK);
        launch_side(&sides[k]);
        cr_assert_eq(device->graph.capture_end(sides[k].stream, &sides[k].graph), TT_DEV_OK);
        cr_assert_eq(device->graph.instantiate(sides[k].graph, &sides[k].runnable), TT_DEV_OK);
    }
    for (int i = 0; i < 6; i++)
        cr_assert(device->use(i % 2) == TT_DEV_OK &&
                  device->graph.launch(sides[i % 2].runnable, sides[i % 2].stream) == TT_DEV_OK);
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(device->use(k), TT_DEV_OK);
        cr_expect_eq(device->copy(sides[k].host, sides[k].memory, SUM_BYTES, sides[k].stream), TT_DEV_OK);
        cr_assert_eq(device->stream.sync(sides[k].stream), TT_DEV_OK);
    }
}

Test(stub_emulated, kernels_of_two_devices, .timeout = 60)
{
    struct side sides[2];
    struct tt_pad *pads[2];
    float factor = 1;
    cr_assert_eq(tt_dev_find("tests/.libs/libtutti_stub.so", &device), TUTTI_OK);
    for (int k = 0; k < 2; k++)
        pads[k] = side_open(&sides[k], k);
    for (int k = 0; k < 2; k++)
        memcpy(sides[k].params.pads, pads, sizeof pads);
    for (int way = TT_DIRECT_LL; way <= TT_DIRECT_PADS; way++) {
        sum_on_both_devices((enum tt_direct_way)way, sides);
        factor *= 16; /* each of four sums doubles the one before */
        for (int k = 0; k < 2; k++)
            for (int i = 0; i < SUM; i++)
                cr_assert_eq(sides[k].host[i], (float)(2 * (i % 100) + 1) * factor / 2,
                    "way %d, rank %d, element %d is %g", way, k, i, (double)sides[k].host[i]);
        cr_expect_eq(sides[0].params.words->done, sides[1].params.words->done);
    }
}

/* --- Addresses that kernels find in memory, and kernels that wait */

enum { FOLLOW, FOLLOW_AS_IT_IS, SET, KERNELS };

static int blocks_per_sm(uint32_t kernel, uint32_t block, uint32_t shared_bytes)
{
    return kernel < KERNELS && block <= 1024 && shared_bytes == 0 ? 1 : 0;
}

/* SET is a kernel that tells others that it runs, by its flag, and gives them what they wait for. */
static void run(const struct tt_dev_launch *what, uint32_t block)
{
    const struct tt_probe_params *params = what->params;
    __atomic_store_n(params->flag, 1, __ATOMIC_RELEASE);
    if (what->kernel == SET) {
        __atomic_store_n(params->data, 5, __ATOMIC_RELEASE);
        return;
    }
    struct tt_emulated_launch emulated = {
        .params = params, .grid = what->grid, .grid_y = what->grid_y, .block = what->block
    };
    emulated.function = what->kernel == FOLLOW ? tt_probe_follow : tt_probe_follow_as_it_is;
    tt_emulate_block(&emulated, block);
}

static void start(const char *configuration)
{
    static const struct tt_stub_kernels kernels = { blocks_per_sm, run };
    static struct tt_emulated_runtime runtime;
    rig_start(configuration);
    runtime = (struct tt_emulated_runtime){ stub->reach, stub->pause };
    tt_emulate_for(&runtime);
    stub->kernels(&kernels);
    stream = rig_stream();
    cr_assert_eq(dev->preload(), TT_DEV_OK);
}

static enum tt_dev_error launch_probe(uint32_t kernel, struct tt_probe_params params)
{
    struct tt_dev_launch what = { .kernel = kernel,
        .grid = 1,
        .grid_y = 1,
        .block = 32,
        .params = &params,
        .params_bytes = sizeof params };
    return dev->launch(&what, stream);
}

/* A word of device memory, and its address in device memory, too. */
static uint32_t follow(uint32_t kernel)
{
    char *memory;
    start("");
    cr_assert_eq(dev->memory.alloc(4096, (void **)&memory), TT_DEV_OK);
    rig_words[0] = 7;
    *(void **)(rig_words + 2) = memory;
    cr_expect_eq(dev->copy(memory, rig_words, 16, stream), TT_DEV_OK);
    cr_expect_eq(launch_probe(kernel, (struct tt_probe_params){ .flag = rig_words + 8,
                                          .data = (uint32_t *)(memory + 8),
                                          .result = (uint32_t *)(memory + 1024) }),
        TT_DEV_OK);
    cr_expect_eq(dev->copy(rig_words, memory + 1024 + 31 * 4, 4, stream), TT_DEV_OK);
    rig_ends(stream);
    return rig_words[0];
}

Test(stub_emulated, addresses_in_memory_are_followed, .timeout = 60)
{
    cr_expect_eq(follow(FOLLOW), 7);
}

Test(stub_emulated, addresses_that_a_host_cannot_follow, .timeout = 60, .signal = SIGSEGV)
{
    follow(FOLLOW_AS_IT_IS);
}

Test(stub_emulated, addresses_that_a_device_cannot_follow)
{
    static uint32_t mine, pageable;
    void *seen;
    start("one_address=0");
    cr_assert_eq(dev->memory.pin(&mine, sizeof mine, &seen), TT_DEV_OK);
    cr_expect_eq(stub->reach(seen), &mine);
    cr_expect_null(stub->reach(&mine), "devices know it by another address");
    cr_expect_null(stub->reach(&pageable));
    cr_expect_null(stub->reach(NULL));
}

/* --- The other process is a child that was forked before the first call. */

static uint32_t *common; /* a page of both */

static void start_shared(const char *configuration)
{
    void *seen;
    start(configuration);
    cr_assert_eq(dev->memory.pin(common, 4096, &seen), TT_DEV_OK);
}

/* A kernel that polls lets that of another process run, as a device does, so that what it waits for comes. */
Test(stub_emulated, kernels_that_wait_give_way, .timeout = 60)
{
    enum { WORD, RUNS, DATA, RESULT = 16 };
    char configuration[64];
    int status = -1;
    snprintf(
        configuration, sizeof configuration, "slice=1000,share=/proc/self/fd/%d", memfd_create("devices", 0));
    common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = rig_fork();
    start_shared(configuration);
    if (child == 0) {
        *(uint32_t **)(common + DATA) = common + WORD;
        launch_probe(FOLLOW, (struct tt_probe_params){
                                 .flag = common + RUNS, .data = common + DATA, .result = common + RESULT });
        _exit(dev->stream.sync(stream) == TT_DEV_OK && common[RESULT + 31] == 5 ? 0 : 1);
    }
    while (__atomic_load_n(common + RUNS, __ATOMIC_ACQUIRE) == 0)
        rig_sleep();
    cr_expect_eq(
        launch_probe(SET, (struct tt_probe_params){ .flag = common + 8, .data = common + WORD }), TT_DEV_OK);
    rig_ends(stream);
    rig_open_word(common + WORD, 5); /* the child ends, whatever this one found */
    cr_expect(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
