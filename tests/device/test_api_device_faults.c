/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_faults.c: what a program relies on beside right results: a call on a stream returns at once
 * and touches nothing that may wait, whatever fails ends on all ranks and lets every stream go on, and bad
 * arguments are refused in words. By processes, for only those are alone on their device; by threads where
 * the rendezvous of local peers is looked at. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "device/dev.h"
#include "tests/rig/patience.h"
#include "tests/rig/plugin.h"
#include "tests/rig/ranks.h"

TestSuite(api_device_faults, .timeout = 120);

enum { COUNT = 5000, DRAIN_MS = 60000, SHORT_NS = 1000000 };

struct desk { /* of a rank */
    const struct tt_dev *dev;
    const struct tt_stub *stub; /* NULL: it is a real device */
    tutti_comm *comm;
    void *stream, *memory; /* COUNT floats */
};

struct scene { /* in the shared mapping */
    _Atomic int called, returned, over;
};

static bool fine(struct ranks_me *me, const struct desk *d, enum tt_dev_error error, const char *what)
{
    return ranks_expect(me, error == TT_DEV_OK, "%s: %s", what, error == TT_DEV_OK ? "" : d->dev->why());
}

/* Without `device` the communicator is of the host, on a stub all the same. */
static bool sit_down(struct ranks_me *me, struct desk *d, int device, int64_t timeout_ms)
{
    char options[64];
    *d = (struct desk){ 0 };
    snprintf(options, sizeof options, device < 0 ? "device=none" : "slice=8192;device=%d", device);
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = timeout_ms };
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &d->dev), "tt_dev_find"))
        return false;
    d->stub = plugin_stub();
    int used = device < 0 ? 0 : device;
    return fine(me, d, d->dev->use(used), "use") &&
           fine(me, d, d->dev->stream.create(&d->stream), "stream_create") &&
           fine(me, d, d->dev->memory.alloc(COUNT * 4, &d->memory), "alloc") &&
           (d->comm = ranks_join(me, &config)) != NULL;
}

static tutti_status sum(const struct desk *d)
{
    return tutti_all_reduce(
        d->memory, d->memory, COUNT, TUTTI_FLOAT32, TUTTI_SUM, d->comm, tutti_cuda_stream(d->stream));
}

/* The stream goes on soon after the communicator ended. */
static void drains(struct ranks_me *me, const struct desk *d, tutti_status expected)
{
    int64_t until = ranks_now_ms() + 60000;
    while (tutti_comm_state(d->comm) == TUTTI_OK && ranks_now_ms() < until)
        ranks_sleep_us(100);
    ranks_expect(me, tutti_comm_state(d->comm) == expected, "the state is %s",
        tutti_status_string(tutti_comm_state(d->comm)));
    until = ranks_now_ms() + DRAIN_MS;
    enum tt_dev_error query = TT_DEV_NOT_READY;
    while ((query = d->dev->stream.query(d->stream)) == TT_DEV_NOT_READY && ranks_now_ms() < until)
        ranks_sleep_us(100);
    ranks_expect(me, query != TT_DEV_NOT_READY, "the stream still waits %d ms after the end", DRAIN_MS);
}

static void get_up(struct desk *d)
{
    tutti_comm_destroy(d->comm);
    d->dev->stream.destroy(d->stream);
    d->dev->memory.free(d->memory);
}

/* --- A call returns at once. */

/* Of a real device nobody counts them. */
static uint64_t waiting_calls(const struct desk *d)
{
    static const char *const functions[] = { "alloc", "free", "alloc_managed", "alloc_pinned", "free_pinned",
        "pin", "unpin", "stream_sync", "stream_create", "stream_destroy", "event_create", "event_destroy",
        "preload", "segment_alloc", "segment_free" };
    uint64_t calls = 0;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0] && d->stub != NULL; i++)
        calls += d->stub->calls(functions[i]);
    return calls;
}

static void return_early(struct ranks_me *me)
{
    struct scene *scene = me->shared;
    struct desk d;
    if (!sit_down(me, &d, 0, 200000))
        return;
    if (me->rank == 0) {
        uint64_t before = waiting_calls(&d);
        int64_t fastest = INT64_MAX;
        for (int i = 0; i < 5; i++) {
            int64_t began = tt_now_ns(), took;
            ranks_ok(me, sum(&d), "all_reduce");
            took = tt_now_ns() - began;
            fastest = took < fastest ? took : fastest;
        }
        ranks_expect(me, waiting_calls(&d) == before, "an enqueue came by a function that may wait");
        ranks_expect(me, fastest < SHORT_NS, "of 5 calls the fastest took %lld ns", (long long)fastest);
        ranks_expect(me, d.dev->stream.query(d.stream) == TT_DEV_NOT_READY, "done without its peer");
        atomic_store(&scene->returned, 1);
    } else {
        while (!atomic_load(&scene->returned) && me->world->slots[0].failures == 0)
            ranks_sleep_us(100);
        for (int i = 0; i < 5; i++)
            ranks_ok(me, sum(&d), "all_reduce");
    }
    fine(me, &d, d.dev->stream.sync(d.stream), "sync");
    ranks_ok(me, tutti_comm_state(d.comm), "state");
    ranks_meet(me);
    get_up(&d);
}

Test(api_device_faults, calls_return_before_their_peers_call)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = return_early });
}

/* So does a long one, though each of its slices is enqueued. The peer never calls. */
static void return_from_a_long_call(struct ranks_me *me)
{
    enum { COUNT_OF_GIB = 1 << 28 };
    struct scene *scene = me->shared;
    struct desk d = { 0 };
    tutti_config config = { .size = sizeof config, .options = "device=0", .timeout_ms = 200000 };
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &d.dev), "tt_dev_find") || d.dev->use(0) != TT_DEV_OK ||
        !fine(me, &d, d.dev->stream.create(&d.stream), "stream_create") ||
        !fine(me, &d, d.dev->memory.alloc((size_t)4 * COUNT_OF_GIB, &d.memory), "alloc") ||
        (d.comm = ranks_join(me, &config)) == NULL)
        return;
    tutti_stream s = tutti_cuda_stream(d.stream);
    if (me->rank == 0)
        tutti_all_reduce(d.memory, d.memory, COUNT_OF_GIB, TUTTI_FLOAT32, TUTTI_SUM, d.comm, s);
    atomic_fetch_add(&scene->returned, me->rank == 0);
    for (int ms = 0; me->rank == 1 && !atomic_load(&scene->returned) && ms < 20000; ms++)
        ranks_sleep_us(1000);
    ranks_expect(me, atomic_load(&scene->returned), "a call of 1 GiB waits for its peer");
    tutti_comm_abort(d.comm);
    drains(me, &d, TUTTI_ABORTED);
    get_up(&d);
}

Test(api_device_faults, a_long_call_returns_before_its_peers_call)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "memory=2048", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = return_from_a_long_call });
}

/* What is enqueued is bounded: a queue that is full would hold up all ranks of the process. */

enum { MANY = 300, BOUND = 1000 };

static uint64_t enqueued(const struct desk *d)
{
    return d->stub->calls("copy") + d->stub->calls("copy_rows") + d->stub->calls("write_word") +
           d->stub->calls("wait_word");
}

static void *enqueue_many(void *argument)
{
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < MANY && status == TUTTI_OK; i++)
        status = sum(argument);
    return (void *)(intptr_t)status;
}

static void enqueue_much(struct ranks_me *me)
{
    struct scene *scene = me->shared;
    pthread_t thread;
    void *status;
    struct desk d;
    if (!sit_down(me, &d, 0, 200000))
        return;
    uint64_t before = enqueued(&d), last = 0;
    while (me->rank == 1 && !atomic_load(&scene->returned) && me->world->slots[0].failures == 0)
        ranks_sleep_us(100);
    pthread_create(&thread, NULL, enqueue_many, &d);
    do {
        last = enqueued(&d);
        ranks_sleep_us(200000);
    } while (me->rank == 0 && (last == before || enqueued(&d) != last));
    ranks_expect(me, me->rank == 1 || (last - before > BOUND / 2 && last - before < BOUND),
        "%llu pieces of work are enqueued, of a peer that does not call",
        (unsigned long long)(last - before));
    atomic_store(&scene->returned, 1);
    pthread_join(thread, &status);
    ranks_ok(me, (tutti_status)(intptr_t)status, "all_reduce");
    fine(me, &d, d.dev->stream.sync(d.stream), "sync");
    ranks_ok(me, tutti_comm_state(d.comm), "state");
    ranks_meet(me);
    get_up(&d);
}

Test(api_device_faults, what_is_enqueued_is_bounded)
{
    plugin_must_be_stub();
    ranks_run(&(struct ranks_plan){ .n = 2, .run = enqueue_much });
}

/* --- A peer that is of the host cannot be told from one with a device. */

static void call_without_a_device(struct ranks_me *me)
{
    struct desk d;
    static float values[COUNT];
    char executor[8] = "";
    if (!sit_down(me, &d, me->rank == 1 ? -1 : 0, 200000))
        return;
    tutti_query(d.comm, "executor", executor, sizeof executor);
    ranks_expect(me, strcmp(executor, me->rank == 1 ? "host" : "H") == 0, "executor \"%s\"", executor);
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(me->rank + i % 7);
    if (me->rank == 1) {
        ranks_ok(me,
            tutti_all_reduce(values, values, COUNT, TUTTI_FLOAT32, TUTTI_SUM, d.comm, tutti_no_stream()),
            "here");
    } else {
        void *pinned;
        fine(me, &d, d.dev->memory.alloc_pinned(sizeof values, &pinned), "alloc_pinned");
        memcpy(pinned, values, sizeof values);
        fine(me, &d, d.dev->copy(d.memory, pinned, sizeof values, d.stream), "copy");
        ranks_ok(me, sum(&d), "all_reduce");
        fine(me, &d, d.dev->copy(pinned, d.memory, sizeof values, d.stream), "copy");
        fine(me, &d, d.dev->stream.sync(d.stream), "sync");
        memcpy(values, pinned, sizeof values);
    }
    for (int i = 0; i < COUNT; i++)
        if (!ranks_expect(
                me, values[i] == (float)(3 + 3 * (i % 7)), "element %d is %g", i, (double)values[i]))
            break;
    ranks_meet(me);
    get_up(&d);
}

Test(api_device_faults, host_and_device_ranks_in_one_call)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = call_without_a_device });
}

/* --- Whatever ends a communicator lets its streams go on. */

static void abort_alone(struct ranks_me *me)
{
    struct desk d;
    if (!sit_down(me, &d, 0, 200000))
        return;
    if (me->rank == 0) {
        ranks_ok(me, sum(&d), "all_reduce");
        ranks_ok(me, sum(&d), "all_reduce");
        ranks_sleep_us(20000);
        ranks_ok(me, tutti_comm_abort(d.comm), "abort");
    }
    drains(me, &d, TUTTI_ABORTED);
    ranks_expect(me, sum(&d) == TUTTI_ABORTED, "a call after the end");
    ranks_meet(me);
    get_up(&d);
}

Test(api_device_faults, abort_lets_streams_go_on)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = abort_alone });
}

static void differ(struct ranks_me *me)
{
    struct desk d;
    if (!sit_down(me, &d, 0, 200000))
        return;
    tutti_stream stream = tutti_cuda_stream(d.stream);
    ranks_ok(me,
        me->rank == 0 ? sum(&d)
                      : tutti_broadcast(d.memory, d.memory, COUNT, TUTTI_FLOAT32, 0, d.comm, stream),
        "call");
    drains(me, &d, TUTTI_MISMATCH);
    ranks_same_error(me, d.comm, TUTTI_MISMATCH, "all_reduce|broadcast|5000");
    ranks_meet(me);
    get_up(&d);
}

Test(api_device_faults, calls_that_differ)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = differ });
}

static void stay_away(struct ranks_me *me)
{
    struct desk d;
    if (!sit_down(me, &d, 0, 4000))
        return;
    if (me->rank != 1)
        ranks_ok(me, sum(&d), "all_reduce");
    drains(me, &d, TUTTI_TIMEOUT);
    ranks_same_error(me, d.comm, TUTTI_TIMEOUT, "all_reduce|not called yet by rank 1");
    ranks_meet(me);
    get_up(&d);
}

Test(api_device_faults, a_rank_that_never_calls)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = stay_away });
}

static void wait_for_the_dead(struct ranks_me *me)
{
    struct desk d;
    if (!sit_down(me, &d, 0, 200000))
        return;
    ranks_meet(me);
    if (me->rank == 1) { /* its own stream stands in the gate of the first call */
        ranks_ok(me, sum(&d), "all_reduce");
        raise(SIGKILL);
    }
    ranks_ok(me, sum(&d), "all_reduce");
    ranks_ok(me, sum(&d), "all_reduce");
    drains(me, &d, TUTTI_PEER_LOST);
    get_up(&d);
}

Test(api_device_faults, a_rank_that_is_killed_inside_a_gate)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = wait_for_the_dead, .may_die = 1u << 1 });
}

/* A thread with two ranks of one device calls for one of them alone: the other's part never comes. */
static void call_ungrouped(struct ranks_me *me)
{
    const int devices[2] = { 0, 0 };
    tutti_config config = { .size = sizeof config, .timeout_ms = 1000 };
    tutti_comm *comms[2];
    struct desk d = { 0 };
    ranks_ok(me, tt_dev_find(plugin_path(), &d.dev), "tt_dev_find");
    setenv("TUTTI_DEVICE_LIBRARY", plugin_path(), 1);
    fine(me, &d, d.dev->use(0), "use");
    fine(me, &d, d.dev->stream.create(&d.stream), "stream_create");
    fine(me, &d, d.dev->memory.alloc(2 * COUNT * 4, &d.memory), "alloc");
    float *memory = d.memory;
    tutti_stream stream = tutti_cuda_stream(d.stream);
    for (int grouped = 1; grouped >= 0; grouped--) {
        tutti_status statuses[2], end = TUTTI_OK;
        ranks_ok(me, tutti_comm_init_all(2, devices, &config, comms), "init_all");
        if (grouped)
            tutti_group_start();
        for (int r = 0; r < 2; r++)
            statuses[r] = tutti_all_reduce(
                memory + r * COUNT, memory + r * COUNT, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comms[r], stream);
        if (grouped)
            end = tutti_group_end();
        ranks_expect(me, end == TUTTI_OK && statuses[0] == (grouped ? TUTTI_OK : TUTTI_TIMEOUT),
            "grouped %d: %s", grouped, tutti_get_last_error(NULL));
        fine(me, &d, d.dev->stream.sync(d.stream), "sync");
        for (int r = 0; r < 2; r++)
            tutti_comm_destroy(comms[r]);
    }
}

Test(api_device_faults, one_thread_with_two_ranks_must_group)
{
    plugin_must_have_kernels();
    setenv("STUB_GPU", "queues=1", 1);
    ranks_run(&(struct ranks_plan){ .n = 1, .run = call_ungrouped });
}

/* A communicator that is destroyed while its calls wait takes them with it. */
static void leave_early(struct ranks_me *me)
{
    struct desk d;
    for (int i = 0; i < 20; i++) {
        if (!sit_down(me, &d, 0, 200000))
            return;
        for (int k = 0; me->rank == 0 && k < 2; k++)
            ranks_ok(me, sum(&d), "all_reduce");
        ranks_meet(me); /* a call behind the other rank's end would be refused */
        ranks_delay(me, 300);
        ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
        fine(me, &d, d.dev->stream.sync(d.stream), "sync");
        ranks_meet(me);
        d.dev->stream.destroy(d.stream);
        d.dev->memory.free(d.memory);
    }
}

Test(api_device_faults, destroyed_while_calls_wait)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = leave_early });
}

/* --- The device fails. */

static void lose_the_device(struct ranks_me *me)
{
    const char *function = me->context;
    struct desk d;
    if (!sit_down(me, &d, 0, 200000))
        return;
    ranks_ok(me, sum(&d), "all_reduce");
    fine(me, &d, d.dev->stream.sync(d.stream), "sync");
    if (me->rank == 0)
        d.stub->fail(function, 1, TT_DEV_UNSUPPORTED);
    tutti_status status = sum(&d);
    if (me->rank == 0)
        ranks_refused(me, status, TUTTI_DEVICE_ERROR, "all_reduce", function);
    drains(me, &d, TUTTI_DEVICE_ERROR);
    ranks_same_error(me, d.comm, TUTTI_DEVICE_ERROR, function);
    ranks_meet(me);
    get_up(&d);
}

Test(api_device_faults, a_function_of_the_device_fails)
{
    plugin_must_be_stub();
    static const char *const functions[] = { "copy_rows", "write_word", "wait_word", "event_wait",
        "event_record" };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        ranks_run(&(struct ranks_plan){ .n = 2, .run = lose_the_device, .context = functions[i] });
}

/* Before anything is enqueued: that call is refused, and the next one does what it should. */
static void lack_an_answer(struct ranks_me *me)
{
    struct desk d;
    if (!sit_down(me, &d, 0, 200000))
        return;
    if (me->rank == 0) {
        d.stub->fail(me->context, 1, TT_DEV_UNSUPPORTED);
        ranks_refused(me, sum(&d), TUTTI_INVALID_ARGUMENT, "all_reduce", me->context);
    }
    for (int i = 0; i < 3; i++)
        ranks_ok(me, sum(&d), "all_reduce");
    fine(me, &d, d.dev->stream.sync(d.stream), "sync");
    ranks_ok(me, tutti_comm_state(d.comm), "state");
    ranks_meet(me);
    get_up(&d);
}

Test(api_device_faults, a_question_to_the_device_fails)
{
    plugin_must_be_stub();
    static const char *const functions[] = { "stream_device", "classify", "stream_capture" };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        ranks_run(&(struct ranks_plan){ .n = 2, .run = lack_an_answer, .context = functions[i] });
}

static void lack_memory(struct ranks_me *me)
{
    const struct tt_dev *dev;
    tutti_comm *comm = NULL;
    tutti_config config = { .size = sizeof config, .options = "device=0" };
    tutti_id id;
    setenv("TUTTI_DEVICE_LIBRARY", plugin_path(), 1);
    ranks_ok(me, tt_dev_find(plugin_path(), &dev), "tt_dev_find");
    ranks_ok(me, tutti_get_id(&id), "id");
    ranks_refused(
        me, tutti_comm_init_rank(1, 0, &id, &config, &comm), TUTTI_DEVICE_ERROR, "init_rank", "pin");
    ranks_expect(me, comm == NULL, "an output is set");
}

Test(api_device_faults, a_device_without_memory)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "fail=pin:1", 1);
    ranks_run(&(struct ranks_plan){ .n = 1, .run = lack_memory });
}

/* --- Bad arguments */

static void argue(struct ranks_me *me)
{
    struct desk d;
    void *other, *far;
    if (!sit_down(me, &d, 0, 200000))
        return;
    fine(me, &d, d.dev->use(1), "use");
    fine(me, &d, d.dev->stream.create(&other), "stream_create");
    fine(me, &d, d.dev->memory.alloc(COUNT * 4, &far), "alloc");
    fine(me, &d, d.dev->use(0), "use");
    tutti_stream stream = tutti_cuda_stream(d.stream);
    tutti_type f32 = TUTTI_FLOAT32;
    ranks_refused(me,
        tutti_all_reduce(d.memory, d.memory, 8, f32, TUTTI_SUM, d.comm, tutti_cuda_stream(other)),
        TUTTI_INVALID_ARGUMENT, "all_reduce", "stream|device 1|0");
    ranks_refused(me, tutti_all_reduce(far, d.memory, 8, f32, TUTTI_SUM, d.comm, stream),
        TUTTI_INVALID_ARGUMENT, "all_reduce", "send|device 1|0");
    ranks_refused(me, tutti_all_reduce(d.memory, d.memory, 2 * COUNT, f32, TUTTI_SUM, d.comm, stream),
        TUTTI_INVALID_ARGUMENT, "all_reduce", "send|40000|20000");
    ranks_refused(me, tutti_all_reduce(d.memory, d.memory, 8, f32, TUTTI_SUM, d.comm, tutti_no_stream()),
        TUTTI_INVALID_ARGUMENT, "all_reduce", "send|device|stream");
    tutti_group_start();
    float value = 1;
    sum(&d);
    tutti_all_reduce(&value, &value, 1, f32, TUTTI_SUM, d.comm, tutti_no_stream());
    ranks_refused(me, tutti_group_end(), TUTTI_INVALID_USAGE, "group_end", "1 of 2|CUDA");
    ranks_ok(me, sum(&d), "all_reduce");
    fine(me, &d, d.dev->stream.sync(d.stream), "sync");
    ranks_ok(me, tutti_comm_state(d.comm), "nothing is lost");
    ranks_meet(me);
    get_up(&d);
}

Test(api_device_faults, bad_arguments)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "devices=2", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = argue });
}

/* --- Who has seen its stream pass the last call destroys: its peers, still at that call, lose nothing. */

static void leave_at_once(struct ranks_me *me)
{
    struct desk d;
    for (int i = 0; i < 40; i++) {
        ranks_at(me, "round %d", i);
        if (!sit_down(me, &d, 0, 200000))
            return;
        ranks_delay(me, 300);
        ranks_ok(me, sum(&d), "all_reduce");
        fine(me, &d, d.dev->stream.sync(d.stream), "sync");
        ranks_ok(me, tutti_comm_state(d.comm), "state");
        get_up(&d);
    }
}

Test(api_device_faults, destroyed_when_the_stream_has_passed)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .run = leave_at_once });
}

/* --- A child of fork has no device, and no part in what its parent has. */

static tutti_status make_alone(const char *options, tutti_comm **comm)
{
    tutti_config config = { .size = sizeof config, .options = options };
    return tutti_comm_init_all(1, NULL, &config, comm);
}

static void call_in_child(struct ranks_me *me, const struct desk *parents)
{
    tutti_comm *comm = NULL;
    uint64_t value = 5;
    ranks_refused(me, sum(parents), TUTTI_INVALID_USAGE, "all_reduce in a child", "fork");
    ranks_refused(me, tutti_comm_destroy(parents->comm), TUTTI_INVALID_USAGE, "destroy in a child", "fork");
    ranks_refused(me, make_alone("device=0", &comm), TUTTI_INVALID_USAGE, "init_all in a child", "fork");
    for (int i = 0; i < 2; i++) {
        ranks_ok(me, make_alone(i == 0 ? "device=none" : "device=auto", &comm), "init_all of the host");
        ranks_ok(me, tutti_all_reduce(&value, &value, 1, TUTTI_UINT64, TUTTI_SUM, comm, tutti_no_stream()),
            "a call");
        ranks_ok(me, tutti_comm_destroy(comm), "destroy of its own");
    }
}

/* The thread that watches devices is at work meanwhile. */
static void fork_often(struct ranks_me *me)
{
    struct desk d;
    if (!sit_down(me, &d, 0, 200000))
        return;
    for (int i = 0, how = -1; i < 20; i++) {
        ranks_ok(me, sum(&d), "all_reduce");
        pid_t child = fork();
        if (child == 0) {
            alarm(patience_seconds(20));
            call_in_child(me, &d);
            _exit(0);
        }
        ranks_expect(me, waitpid(child, &how, 0) == child && how == 0, "child %d ended so: %#x", i, how);
    }
    fine(me, &d, d.dev->stream.sync(d.stream), "sync");
    ranks_ok(me, tutti_comm_state(d.comm), "state");
    ranks_meet(me);
    get_up(&d);
}

#ifdef __SANITIZE_ADDRESS__ /* its allocator may be locked at the moment of a fork */
enum { FORKS_HANG = true };
#else
enum { FORKS_HANG = false };
#endif

Test(api_device_faults, children, .disabled = FORKS_HANG)
{
    plugin_must_be_stub();
    ranks_run(&(struct ranks_plan){ .n = 2, .run = fork_often });
}
