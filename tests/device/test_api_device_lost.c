/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_lost.c: memory that goes while a call has it, and devices that fail meanwhile: no stream
 * waits for good, and every rank is told which call it was, and why. Deadlines are long here: what ends these
 * calls must be that somebody looks. */
#include <criterion/criterion.h>
#include <sys/mman.h>

#include "base/handle.h"
#include "device/device.h"
#include "graph_rig.h"
#include "tests/rig/plugin.h"

TestSuite(api_device_lost, .timeout = 120);

enum { SOON_MS = 60000 };

/* All ranks are told soon, and no stream waits any more. */
static void ends_soon(const struct graph_rig *rig, tutti_status status, const char *words)
{
    int64_t until = ranks_now_ms() + SOON_MS;
    enum tt_dev_error error = TT_DEV_NOT_READY;
    while (tutti_comm_state(rig->comm) == TUTTI_OK && ranks_now_ms() < until)
        ranks_sleep_us(1000);
    ranks_same_error(rig->me, rig->comm, status, words);
    for (until += SOON_MS; error == TT_DEV_NOT_READY && ranks_now_ms() < until; ranks_sleep_us(1000))
        error = rig->dev->stream.query(rig->streams[0]);
    ranks_expect(rig->me, error != TT_DEV_NOT_READY, "the stream still waits");
    ranks_expect(rig->me, tutti_barrier(rig->comm, tutti_cuda_stream(rig->streams[0])) == status,
        "a call after the end");
    ranks_ok(rig->me, tutti_comm_destroy(rig->comm), "tutti_comm_destroy");
}

/* The runtime waits for what uses the memory: nothing is lost. */
static void free_early(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    graph_give(&rig, 1, rig.streams[0]);
    if (me->rank == 1)
        ranks_sleep_us(100000);
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    graph_fetch(&rig, 1, REDUCED, rig.streams[0]);
    graph_fine(&rig, rig.dev->memory.free(rig.device[GIVEN]));
    graph_settle(&rig);
    graph_is_sum(&rig, 1, REDUCED, 1);
    ranks_part(me, rig.comm);
}

Test(api_device_lost, freed_while_a_call_waits)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, free_early, NULL, 0 });
}

/* A graph has the addresses for as long as it lives. */
static void free_before_replay(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    void *runnable = graph_capture_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    graph_give(&rig, 1, rig.streams[0]);
    graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
    graph_settle(&rig);
    if (me->rank == 0)
        graph_fine(&rig, rig.dev->memory.free(rig.device[GIVEN]));
    graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
    ends_soon(
        &rig, TUTTI_DEVICE_ERROR, "rank 0|operation 1, all_reduce of 5000 uint32, sum|device 0|freed|legal");
}

Test(api_device_lost, freed_before_a_replay)
{
    plugin_must_be_stub(); /* nobody knows what a device does then, but that it is lost */
    graph_run({ "queues=8", 2, RANKS_PROCESSES, free_before_replay, NULL, 0 },
        { "queues=1", 3, RANKS_PROCESSES, free_before_replay, NULL, 0 });
}

/* A program has the addresses, too, but its start is a call that can look. Nothing is lost. */
static void free_before_start(struct ranks_me *me)
{
    struct graph_rig rig;
    tutti_program *program = NULL;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    ranks_ok(me, tutti_group_start(), "tutti_group_start");
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    ranks_ok(me, tutti_group_keep(&program), "tutti_group_keep");
    graph_give(&rig, 1, rig.streams[0]);
    ranks_ok(me, tutti_program_start(program), "tutti_program_start");
    graph_settle(&rig);
    graph_fine(&rig, rig.dev->memory.free(rig.device[GIVEN]));
    ranks_refused(me, tutti_program_start(program), TUTTI_INVALID_USAGE, "tutti_program_start",
        "all_reduce|send|a device|legal");
    graph_reduce(&rig, REDUCED, EAGER, rig.streams[0]);
    graph_fetch(&rig, 1, EAGER, rig.streams[0]);
    graph_settle(&rig);
    graph_is_sum(&rig, 1, EAGER, (uint32_t)me->n);
    ranks_ok(me, tutti_program_destroy(program), "tutti_program_destroy");
    ranks_part(me, rig.comm);
}

Test(api_device_lost, freed_before_a_start)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, free_before_start, NULL, 0 });
}

/* The host's memory is used where it lies. */
static void unmap_before_replay(struct ranks_me *me)
{
    struct graph_rig rig;
    uint32_t *from = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    tutti_stream on = tutti_cuda_stream(rig.streams[0]);
    graph_fine(&rig, rig.dev->graph.capture_begin(rig.streams[0]));
    ranks_ok(me, tutti_all_reduce(from, rig.device[REDUCED], COUNT, TUTTI_UINT32, TUTTI_SUM, rig.comm, on),
        "all_reduce");
    void *runnable = graph_capture_end(&rig, rig.streams[0]);
    for (int i = 0; i < COUNT; i++)
        from[i] = graph_value(me->rank, 1, i);
    graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
    graph_fetch(&rig, 1, REDUCED, rig.streams[0]);
    graph_settle(&rig);
    graph_is_sum(&rig, 1, REDUCED, 1);
    ranks_meet(me); /* peers may read it where it lies */
    if (me->rank == 0)
        munmap(from, BYTES);
    graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
    ends_soon(&rig, TUTTI_INVALID_USAGE, "rank 0|all_reduce of 5000 uint32, sum|send|20000|not mapped|legal");
}

Test(api_device_lost, unmapped_before_a_replay)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, unmap_before_replay, NULL, 0 });
}

/* Queued behind a call that waits for its peer, and gone when its turn has come: unmapped, or as addresses of
 * a device's memory are that was freed. */
static void unmap_before_turn(struct ranks_me *me)
{
    struct graph_rig rig;
    uint32_t *to = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    tutti_stream on = tutti_cuda_stream(rig.streams[0]);
    if (me->rank == 1)
        ranks_meet(me);
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    ranks_ok(me, tutti_broadcast(to, to, COUNT, TUTTI_UINT32, 1, rig.comm, on), "broadcast");
    if (me->rank == 0) {
        if (*(const bool *)me->context)
            mprotect(to, BYTES, PROT_NONE);
        else
            munmap(to, BYTES);
        ranks_meet(me);
    }
    ends_soon(&rig, TUTTI_INVALID_USAGE, "rank 0|broadcast of 5000 uint32|recv|20000|not mapped");
}

Test(api_device_lost, unmapped_before_its_turn)
{
    static const bool protect[] = { false, true };
    graph_run({ "queues=8", 2, RANKS_PROCESSES, unmap_before_turn, &protect[0], 0 },
        { "queues=8", 2, RANKS_PROCESSES, unmap_before_turn, &protect[1], 0 });
}

/* A runtime need not tell of a failure when it is asked for a capture. */
static enum tt_dev_error capture_nothing(void *stream, struct tt_dev_capture *capture)
{
    (void)stream;
    *capture = (struct tt_dev_capture){ 0 };
    return TT_DEV_OK;
}

/* It gives up what it has, and nobody calls anything: the gate behind that is never opened. */
static void break_device(struct ranks_me *me)
{
    static struct tt_dev silent;
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    void *event;
    silent = *rig.dev;
    silent.stream.capture = capture_nothing;
    if (me->context != NULL)
        tt_comm_find(rig.comm)->device->dev = &silent;
    graph_fine(&rig, rig.dev->wait_word(rig.streams[0], rig.word, 1));
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    ranks_meet(me);
    ranks_sleep_us(100000); /* until the workers are in their calls */
    if (me->rank == 0)
        plugin_stub()->fail("event_create", 1, TT_DEV_BROKEN);
    if (me->rank == 0)
        rig.dev->event.create(false, &event);
    __atomic_store_n(rig.word, 1, __ATOMIC_RELEASE);
    ends_soon(&rig, TUTTI_DEVICE_ERROR, "rank 0|operation 0, all_reduce of 5000 uint32, sum|device 0");
}

Test(api_device_lost, a_device_that_fails_meanwhile)
{
    plugin_must_be_stub();
    graph_run({ "queues=8", 2, RANKS_PROCESSES, break_device, NULL, 0 },
        { "queues=8", 1, RANKS_PROCESSES, break_device, NULL, 0 },
        { "queues=8", 1, RANKS_PROCESSES, break_device, "told by an event alone", 0 });
}
