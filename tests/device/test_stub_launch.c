/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stub_launch.c: kernels on the stub, and who runs at the same time: blocks that find no place,
 * processes that share a device, and launches that wait for all streams. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stub_rig.h"

TestSuite(stub_launch, .init = rig_limit_time);

enum { ADD, MEET, KERNELS };

struct params {
    uint32_t *word; /* ADD: each block adds `value` to it. MEET: in its own one of these it */
    const uint32_t *peer; /* counts up to 2, each time as soon as this has come as far */
    uint32_t value;
};

static int blocks_per_sm(uint32_t kernel, uint32_t block, uint32_t shared_bytes)
{
    return kernel >= KERNELS || shared_bytes > 1000 ? 0 : block > 512 ? 1 : 8;
}

static void run(const struct tt_dev_launch *launch, uint32_t block)
{
    const struct params *params = launch->params;
    if (launch->kernel == ADD) {
        __atomic_add_fetch(params->word, params->value, __ATOMIC_RELAXED);
        return;
    }
    for (uint32_t round = 1; round <= 2; round++) {
        __atomic_store_n(&params->word[block], round, __ATOMIC_RELEASE);
        while (__atomic_load_n(params->peer, __ATOMIC_ACQUIRE) < round)
            tt_stub()->pause();
    }
}

static const struct tt_stub_kernels kernels = { blocks_per_sm, run };

static void start(const char *text)
{
    rig_start(text);
    stub->kernels(&kernels);
}

static enum tt_dev_error launch_rows(
    void *stream, uint32_t kernel, uint32_t grid, uint32_t grid_y, struct params params)
{
    struct tt_dev_launch what = { .kernel = kernel,
        .grid = grid,
        .grid_y = grid_y,
        .block = 32,
        .params = &params,
        .params_bytes = sizeof params };
    enum tt_dev_error error = dev->launch(&what, stream);
    memset(&params, 0, sizeof params);
    return error;
}

static enum tt_dev_error launch(void *stream, uint32_t kernel, uint32_t grid, struct params params)
{
    return launch_rows(stream, kernel, grid, 1, params);
}

Test(stub_launch, kernels_run_in_the_order_of_their_stream)
{
    uint32_t *device;
    start("launch_delay=200,sms=2");
    void *stream = rig_stream(), *graph, *runnable;
    cr_assert(dev->memory.alloc(64, (void **)&device) == TT_DEV_OK && dev->preload() == TT_DEV_OK);
    cr_expect_eq(dev->wait_word(stream, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->fill(device, 0, 64, stream), TT_DEV_OK);
    cr_expect_eq(launch_rows(stream, ADD, 20, 5, (struct params){ .word = device, .value = 3 }), TT_DEV_OK);
    cr_expect_eq(dev->copy(&rig_words[1], device, 4, stream), TT_DEV_OK);
    rig_open_word(&rig_words[0], 1);
    rig_ends(stream);
    cr_expect_eq(rig_words[1], 300);
    cr_assert_eq(dev->graph.capture_begin(stream), TT_DEV_OK);
    cr_expect_eq(launch(stream, ADD, 1, (struct params){ .word = device + 1, .value = 5 }), TT_DEV_OK);
    cr_expect_eq(dev->copy(&rig_words[1], device + 1, 4, stream), TT_DEV_OK);
    cr_assert(dev->graph.capture_end(stream, &graph) == TT_DEV_OK &&
              dev->graph.instantiate(graph, &runnable) == TT_DEV_OK);
    for (int i = 0; i < 4; i++)
        cr_expect_eq(dev->graph.launch(runnable, stream), TT_DEV_OK);
    rig_ends(stream);
    cr_expect_eq(rig_words[1], 20);
}

Test(stub_launch, what_cannot_be_launched)
{
    int n = 0;
    struct params none = { 0 };
    rig_start("blocks_per_sm=3");
    void *stream = rig_stream();
    cr_expect_eq(launch(stream, ADD, 1, none), TT_DEV_UNSUPPORTED, "there are no kernels");
    stub->kernels(&kernels);
    cr_expect(dev->occupancy(ADD, 32, 0, &n) == TT_DEV_OK && n == 3);
    cr_expect(dev->occupancy(ADD, 1024, 0, &n) == TT_DEV_OK && n == 1);
    cr_expect_eq(dev->occupancy(ADD, 1025, 0, &n), TT_DEV_INVALID);
    cr_expect_eq(dev->occupancy(ADD, 32, 2000, &n), TT_DEV_INVALID);
    cr_expect_eq(launch(stream, KERNELS, 1, none), TT_DEV_INVALID);
    cr_expect_eq(launch(stream, ADD, 0, none), TT_DEV_INVALID);
    cr_expect_eq(launch_rows(stream, ADD, 1, 0, none), TT_DEV_INVALID);
    cr_expect_eq(dev->use(1), TT_DEV_OK);
    cr_expect_eq(launch(stream, ADD, 1, none), TT_DEV_INVALID, "the stream is of the other device");
}

Test(stub_launch, pinned_memory_with_another_address)
{
    static uint32_t mine;
    void *seen;
    start("one_address=0");
    void *stream = rig_stream();
    cr_assert(dev->preload() == TT_DEV_OK && dev->memory.pin(&mine, sizeof mine, &seen) == TT_DEV_OK);
    cr_expect_eq(launch(stream, ADD, 2, (struct params){ .word = seen, .value = 4 }), TT_DEV_OK);
    rig_ends(stream);
    cr_expect_eq(mine, 8);
    cr_expect_eq(launch(stream, ADD, 2, (struct params){ .word = &mine, .value = 4 }), TT_DEV_OK);
    cr_expect_eq(dev->stream.sync(stream), TT_DEV_BROKEN, "the device does not know this address");
    cr_expect_eq(mine, 8);
}

/* --- Places: two kernels that wait for each other need them all at once. */

static void meet(const char *text, uint32_t grid, bool hang)
{
    start(text);
    void *first = rig_stream(), *second = rig_stream();
    uint32_t *here = &rig_words[100], *there = &rig_words[200];
    cr_assert_eq(dev->preload(), TT_DEV_OK);
    cr_expect_eq(launch(first, MEET, grid, (struct params){ here, &there[grid - 1], 0 }), TT_DEV_OK);
    cr_expect_eq(launch(second, MEET, grid, (struct params){ there, &here[grid - 1], 0 }), TT_DEV_OK);
    (hang ? rig_hangs : rig_ends)(first);
    rig_open_word(&there[grid - 1], 2);
    rig_open_word(&here[grid - 1], 2);
    rig_ends(first);
    rig_ends(second);
}

Test(stub_launch, peers_that_fit)
{
    meet("sms=4,blocks_per_sm=2", 4, false);
}

Test(stub_launch, peers_that_do_not_fit)
{
    meet("sms=4,blocks_per_sm=2", 5, true);
}

Test(stub_launch, peers_in_one_queue)
{
    meet("sms=4,blocks_per_sm=2,queues=1", 4, true);
}

static void call_meet(void *stream)
{
    cr_expect_eq(launch(stream, MEET, 1, (struct params){ &rig_words[0], &rig_words[1], 0 }), TT_DEV_OK);
}

/* One thread cannot launch both peers where a launch waits for its kernel. */
Test(stub_launch, peers_where_launches_wait)
{
    struct rig_call first;
    start("launch_blocking=1");
    rig_call(&first, call_meet, rig_stream());
    rig_call_hangs(&first);
    rig_open_word(&rig_words[1], 2);
    rig_call_ends(&first);
}

/* --- Loading: the first launch waits for all streams, also for one that waits for a word. */

static void call_launch(void *stream)
{
    cr_expect_eq(launch(stream, ADD, 1, (struct params){ .word = &rig_words[1], .value = 1 }), TT_DEV_OK);
}

Test(stub_launch, first_launch_while_a_stream_waits)
{
    struct rig_call first;
    start("");
    void *waits = rig_stream(), *stream = rig_stream();
    cr_expect_eq(dev->wait_word(waits, &rig_words[0], 1), TT_DEV_OK);
    rig_call(&first, call_launch, stream);
    rig_call_hangs(&first);
    rig_open_word(&rig_words[0], 1);
    rig_call_ends(&first);
    rig_ends(stream);
    cr_expect_eq(dev->wait_word(waits, &rig_words[0], 2), TT_DEV_OK);
    call_launch(stream); /* it is loaded now */
    rig_ends(stream);
    cr_expect_eq(rig_words[1], 2);
    rig_open_word(&rig_words[0], 2);
}

Test(stub_launch, preloaded_while_a_stream_waits)
{
    start("");
    void *waits = rig_stream(), *stream = rig_stream();
    cr_assert_eq(dev->preload(), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(waits, &rig_words[0], 1), TT_DEV_OK);
    call_launch(stream);
    rig_ends(stream);
    rig_open_word(&rig_words[0], 1);
}

Test(stub_launch, first_launch_in_a_capture)
{
    void *graph;
    start("");
    void *stream = rig_stream();
    cr_assert_eq(dev->graph.capture_begin(stream), TT_DEV_OK);
    cr_expect_eq(launch(stream, ADD, 1, (struct params){ .word = &rig_words[1] }), TT_DEV_CAPTURE);
    cr_expect_eq(dev->graph.capture_end(stream, &graph), TT_DEV_CAPTURE);
}

/* --- Several processes. The other one is a child that was forked before the first call. */

static uint32_t *common; /* a page of both */
static char configuration[256];
static void *own_stream;

static void start_shared(void)
{
    void *seen;
    start(configuration);
    own_stream = rig_stream();
    cr_assert(dev->preload() == TT_DEV_OK && dev->memory.pin(common, 4096, &seen) == TT_DEV_OK);
}

/* `text`, and the same devices for both. */
static pid_t two_processes(const char *text, void (*child)(void))
{
    int file = memfd_create("devices", 0);
    common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(configuration, sizeof configuration, "%s,share=/proc/self/fd/%d", text, file);
    pid_t pid = rig_fork();
    if (pid == 0) {
        start_shared();
        child();
        _exit(dev->stream.sync(own_stream) != TT_DEV_OK);
    }
    start_shared();
    return pid;
}

static void child_succeeds(pid_t pid)
{
    int status = -1;
    cr_expect_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %#x", status);
}

static void until_set(const uint32_t *word)
{
    for (int ms = 0; ms < ENOUGH_MS && __atomic_load_n(word, __ATOMIC_ACQUIRE) == 0; ms += LONG_MS)
        rig_sleep();
}

static void child_meets(void)
{
    cr_expect_eq(launch(own_stream, MEET, 1, (struct params){ &common[0], &common[1], 0 }), TT_DEV_OK);
}

static void meet_across(const char *text, bool hang)
{
    pid_t pid = two_processes(text, child_meets);
    if (hang)
        until_set(&common[0]);
    cr_expect_eq(launch(own_stream, MEET, 1, (struct params){ &common[1], &common[0], 0 }), TT_DEV_OK);
    (hang ? rig_hangs : rig_ends)(own_stream);
    rig_open_word(&common[1], 2);
    rig_ends(own_stream);
    child_succeeds(pid);
}

Test(stub_launch, peers_in_two_processes)
{
    meet_across("slice=0", true);
}

Test(stub_launch, peers_in_two_processes_with_slices)
{
    meet_across("slice=1000", false);
}

static void child_adds(void)
{
    for (int i = 0; i < 200; i++)
        cr_expect_eq(
            launch(own_stream, ADD, 1, (struct params){ .word = &common[0], .value = 1 }), TT_DEV_OK);
}

Test(stub_launch, processes_take_turns)
{
    pid_t pid = two_processes("slice=0", child_adds);
    child_adds();
    rig_ends(own_stream);
    child_succeeds(pid);
    cr_expect_eq(common[0], 400);
}

/* The child's kernel never ends; when the child is killed, the device is its peer's again. */
Test(stub_launch, a_process_is_killed_on_the_device)
{
    pid_t pid = two_processes("slice=0", child_meets);
    until_set(&common[0]);
    cr_expect_eq(launch(own_stream, ADD, 1, (struct params){ .word = &common[5], .value = 1 }), TT_DEV_OK);
    rig_hangs(own_stream);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    rig_ends(own_stream);
    cr_expect_eq(common[5], 1);
}

static void child_waits(void)
{
    cr_expect_eq(dev->write_word(own_stream, &common[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(own_stream, &common[1], 1), TT_DEV_OK);
}

/* Does a process whose stream waits for a word keep the device? Nobody knows, so nobody may rely on it. */
static void beside_a_wait(const char *text, bool hang)
{
    pid_t pid = two_processes(text, child_waits);
    until_set(&common[0]);
    rig_sleep();
    cr_expect_eq(launch(own_stream, ADD, 1, (struct params){ .word = &common[5], .value = 1 }), TT_DEV_OK);
    (hang ? rig_hangs : rig_ends)(own_stream);
    rig_open_word(&common[1], 1);
    rig_ends(own_stream);
    child_succeeds(pid);
}

Test(stub_launch, wait_that_keeps_the_device)
{
    beside_a_wait("slice=0,yield=0", true);
}

Test(stub_launch, wait_that_yields_the_device)
{
    beside_a_wait("slice=0,yield=1", false);
}
