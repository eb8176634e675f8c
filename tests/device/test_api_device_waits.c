/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_waits.c: who waits how for a device's calls: the worker, which looks for words of the
 * device and sleeps until its peers ring.
 *
 * Nothing here is timed by a clock, for the machine may be busy: a thread's naps are counted, and compared
 * with those of a thread that is as busy. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/handle.h"
#include "device/device.h"
#include "graph_rig.h"
#include "run/comm.h"
#include "stream/stream_internal.h"
#include "tests/rig/plugin.h"

TestSuite(api_device_waits, .timeout = 120);

enum { TRIES = 9, PART = 4, BEGIN_US = 5000, WHILE_NS = 40 * 1000000, NAP_NS = 50000 };

/* How often this thread of the process has gone to sleep. */
static long sleeps_of(clockid_t clock)
{
    char path[64], line[128];
    long sleeps = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)~(clock >> 3)); /* the kernel's way */
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "voluntary_ctxt_switches: %ld", &sleeps) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return sleeps;
}

static clockid_t worker_of(const struct graph_rig *rig)
{
    clockid_t clock = 0;
    const struct tt_device *d = tt_comm_find(rig->comm)->device;
    const struct tt_stream *s = tt_handle_find(TT_HANDLE_STREAM, d->worker.handle);
    ranks_expect(rig->me, s != NULL && pthread_getcpuclockid(s->worker, &clock) == 0, "no worker");
    return clock;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* How many naps of 50 us this thread takes meanwhile. */
static long nap(int64_t ns)
{
    long naps = 0;
    for (int64_t until = now_ns() + ns; now_ns() < until; naps++)
        nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
    return naps;
}

/* --- A gate of the device: soon after it has opened, its worker has seen that. */

static bool looks_often(const struct graph_rig *rig, clockid_t worker)
{
    *rig->word = 0;
    graph_fine(rig, rig->dev->wait_word(rig->streams[0], rig->word, 1));
    graph_reduce(rig, GIVEN, REDUCED, rig->streams[0]);
    ranks_sleep_us(BEGIN_US);
    long before = sleeps_of(worker), mine = nap(WHILE_NS), its = sleeps_of(worker) - before;
    __atomic_store_n(rig->word, 1, __ATOMIC_RELEASE);
    graph_settle(rig);
    ranks_at(rig->me, "the worker slept %ld times while another thread took %ld naps", its, mine);
    return its > mine / PART;
}

static void look_for_gates(struct ranks_me *me)
{
    struct graph_rig rig;
    int often = 0;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    clockid_t worker = worker_of(&rig);
    for (int i = 0; i < TRIES; i++)
        often += looks_often(&rig, worker);
    ranks_expect(me, often > TRIES / 2, "only in %d of %d waits the worker looked often", often, TRIES);
    ranks_part(me, rig.comm);
}

Test(api_device_waits, a_gate_is_looked_for)
{
    plugin_must_be_stub();
    graph_run({ "queues=8", 1, RANKS_PROCESSES, look_for_gates, NULL, 0 });
}

/* --- A peer rings: until then its worker sleeps, and does not look a thousand times a second. */

static void sleep_for_peers(struct ranks_me *me)
{
    enum { HALF_US = 500000, MOST = 100, WAITS = 30 };
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    if (me->rank == 1)
        ranks_meet(me);
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    long slept = MOST;
    for (int i = 0; me->rank == 0 && i < WAITS && slept >= MOST; i++) { /* the copies may be late */
        long before = sleeps_of(worker_of(&rig));
        ranks_sleep_us(HALF_US);
        slept = sleeps_of(worker_of(&rig)) - before;
    }
    ranks_expect(me, me->rank == 1 || slept < MOST, "it woke %ld times in half a second", slept);
    if (me->rank == 0)
        ranks_meet(me);
    graph_settle(&rig);
    ranks_ok(me, tutti_comm_state(rig.comm), "state");
    ranks_part(me, rig.comm);
}

Test(api_device_waits, a_peer_is_slept_for)
{
    plugin_must_be_stub();
    graph_run({ "queues=8", 2, RANKS_PROCESSES, sleep_for_peers, NULL, 0 });
}

/* --- A process that exits with calls under way: its device is asked nothing more, for the runtime may be
 * gone. */

enum { ASKED = 1, NOT_ASKED, NEVER_ASKED };
static uint64_t asked_before;

static uint64_t questions(void)
{
    return plugin_stub()->calls("stream_capture") + plugin_stub()->calls("event_query");
}

/* The first that was to be done at an exit is the last that is. */
static void look_back(void)
{
    uint64_t asked = questions();
    ranks_sleep_us(350000);
    _exit(asked == asked_before ? NEVER_ASKED : questions() == asked ? NOT_ASKED : ASKED);
}

static void leave_by_exit(struct ranks_me *me)
{
    struct graph_rig rig;
    if (atexit(look_back) != 0 || !graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    graph_fine(&rig, rig.dev->wait_word(rig.streams[0], rig.word, 1));
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    asked_before = questions();
    while (questions() == asked_before)
        ranks_sleep_us(1000);
    exit(0);
}

/* By a child of the rank's own: how it ends is what is looked at. */
static void exit_while_a_call_waits(struct ranks_me *me)
{
    int how = 0;
    pid_t child = fork();
    if (child == 0)
        leave_by_exit(me);
    ranks_expect(me, waitpid(child, &how, 0) == child && WIFEXITED(how) && WEXITSTATUS(how) == NOT_ASKED,
        "the child ended so: %#x", how);
}

Test(api_device_waits, an_exit_ends_the_questions)
{
    plugin_must_be_stub();
    graph_run({ "queues=8", 1, RANKS_PROCESSES, exit_while_a_call_waits, NULL, 0 });
}

/* --- Destroyed right after a call: the stream passes the call first, as it should, and the result is
 * there. */

static void reduce_and_leave(struct ranks_me *me)
{
    enum { ROUNDS = 5, LATE_US = 100000 };
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig))
        return;
    for (int round = 0; round < ROUNDS && graph_rig_join(&rig); round++) {
        if (me->rank == round % me->n)
            ranks_sleep_us(LATE_US);
        graph_give(&rig, round, rig.streams[0]);
        graph_reduce(&rig, GIVEN, EAGER, rig.streams[0]);
        graph_reduce(&rig, EAGER, REDUCED, rig.streams[0]);
        if (me->rank == (round + 1) % me->n) { /* whom the end of the others does not concern */
            graph_settle(&rig);
            ranks_meet(me);
            ranks_ok(me, tutti_comm_state(rig.comm), "state");
        }
        ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
        if (me->rank != (round + 1) % me->n)
            ranks_meet(me);
        graph_fetch(&rig, round, REDUCED, rig.streams[0]);
        graph_settle(&rig);
        graph_is_sum(&rig, round, REDUCED, (uint32_t)me->n);
    }
}

Test(api_device_waits, destroy_waits_for_calls)
{
    graph_run({ "queues=8,copy_delay=2000", 2, RANKS_PROCESSES, reduce_and_leave, NULL, 0 },
        { "queues=1", 3, RANKS_PROCESSES, reduce_and_leave, NULL, 0 });
}

/* The stream is held up: another thread aborts it. */
static void *abort_soon(void *comm)
{
    ranks_sleep_us(50000);
    return (void *)(intptr_t)tutti_comm_abort(comm);
}

static void destroy_and_abort(struct ranks_me *me)
{
    struct graph_rig rig;
    pthread_t thread;
    void *status;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    graph_fine(&rig, rig.dev->wait_word(rig.streams[0], rig.word, 1));
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    pthread_create(&thread, NULL, abort_soon, rig.comm);
    ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
    pthread_join(thread, &status);
    ranks_ok(me, (tutti_status)(intptr_t)status, "tutti_comm_abort");
    __atomic_store_n(rig.word, 1, __ATOMIC_RELEASE);
    graph_settle(&rig);
}

/* Its deadline is a call's. */
static void destroy_at_deadline(struct ranks_me *me)
{
    struct graph_rig rig;
    tutti_config config = { .size = sizeof config, .options = "device=0", .timeout_ms = 300 };
    if (!graph_rig_make(me, &rig) || (rig.comm = ranks_join(me, &config)) == NULL)
        return;
    graph_fine(&rig, rig.dev->wait_word(rig.streams[0], rig.word, 1));
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    int64_t began = ranks_now_ms();
    ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
    ranks_expect(
        me, ranks_now_ms() - began >= 300, "it gave up after %lld ms", (long long)(ranks_now_ms() - began));
    __atomic_store_n(rig.word, 1, __ATOMIC_RELEASE);
    graph_settle(&rig);
}

Test(api_device_waits, destroy_ends_by_abort_and_in_time)
{
    graph_run({ "queues=8", 1, RANKS_PROCESSES, destroy_at_deadline, NULL, 0 },
        { "queues=8", 1, RANKS_PROCESSES, destroy_and_abort, NULL, 0 });
}

/* --- The worker has the cores that are near its device, of those that the process may use. */

static char sysfs[] = "/tmp/tutti_sysfs_XXXXXX", list_path[300];

static void tell_cores(const char *list)
{
    FILE *file = fopen(list_path, "w");
    if (file != NULL) {
        fprintf(file, "%s\n", list);
        fclose(file);
    }
}

/* The stub's device 0 on a bus of its own. */
static void make_bus(void)
{
    static const char *const parts[] = { "bus", "bus/pci", "bus/pci/devices", "bus/pci/devices/stub:00.0" };
    char path[256];
    cr_assert_not_null(mkdtemp(sysfs));
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", sysfs, parts[i]);
        cr_assert_eq(mkdir(path, 0700), 0);
    }
    snprintf(list_path, sizeof list_path, "%s/local_cpulist", path);
}

static void clear_bus(void)
{
    char path[sizeof list_path];
    unlink(list_path);
    strcpy(path, list_path);
    while (strlen(path) > strlen(sysfs)) {
        *strrchr(path, '/') = '\0';
        rmdir(path);
    }
}

/* The worker's cores are `near`, and this thread's are what they were. */
static void join_near(struct ranks_me *me, const char *list, const cpu_set_t *near)
{
    struct graph_rig rig = { .me = me };
    cpu_set_t before, after, its;
    pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    tell_cores(list);
    if (!graph_rig_join(&rig))
        return;
    const struct tt_device *d = tt_comm_find(rig.comm)->device;
    const struct tt_stream *s = tt_handle_find(TT_HANDLE_STREAM, d->worker.handle);
    pthread_getaffinity_np(s->worker, sizeof its, &its);
    pthread_getaffinity_np(pthread_self(), sizeof after, &after);
    ranks_expect(me, CPU_EQUAL(&its, near), "near \"%s\": the worker has %d cores, not %d", list,
        CPU_COUNT(&its), CPU_COUNT(near));
    ranks_expect(me, CPU_EQUAL(&after, &before), "near \"%s\": this thread has other cores now", list);
    ranks_part(me, rig.comm);
}

static void work_near(struct ranks_me *me)
{
    cpu_set_t mine, one;
    int last = 0;
    char list[64];
    tt_device_sysfs = sysfs;
    pthread_getaffinity_np(pthread_self(), sizeof mine, &mine);
    for (int core = 0; core < CPU_SETSIZE; core++)
        last = CPU_ISSET(core, &mine) ? core : last;
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    snprintf(list, sizeof list, "%d-%d,1000-1023,99999", last, last + 2);
    join_near(me, list, &one);
    snprintf(list, sizeof list, "1022,%d", last);
    join_near(me, list, &one);
    join_near(me, "0-1023", &mine);
    join_near(me, "1023", &mine); /* none of its own: as without a list */
    join_near(me, "", &mine);
    join_near(me, "none", &mine);
    join_near(me, "3-1", &mine);
}

Test(api_device_waits, a_worker_is_near_its_device)
{
    plugin_must_be_stub();
    make_bus();
    graph_run({ "queues=8", 1, RANKS_PROCESSES, work_near, NULL, 0 });
    clear_bus();
}

/* --- Threads of a process with a device each: an allocation takes a lock of the driver that all need to
 * enqueue, and keeps it until its device is idle, which so may not wait for what another thread has yet to
 * enqueue. */

static void allocate_on(const struct graph_rig *rig, int device)
{
    void *scratch = NULL;
    graph_fine(rig, rig->dev->use(device));
    graph_fine(rig, rig->dev->memory.alloc(64, &scratch));
    graph_fine(rig, rig->dev->memory.free(scratch));
    graph_fine(rig, rig->dev->use(rig->me->rank));
}

static void allocate_meanwhile(struct ranks_me *me)
{
    enum { ROUNDS = 10, LATE_US = 20000 };
    _Atomic int *called = me->shared;
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    for (int round = 0; round < ROUNDS; round++) {
        ranks_meet(me);
        if (me->rank != round % me->n) {
            atomic_fetch_add(called, 1);
        } else {
            while (atomic_load(called) < (round + 1) * (me->n - 1))
                ranks_sleep_us(100);
            ranks_sleep_us(LATE_US); /* the others are in their calls, or through */
            allocate_on(&rig, (me->rank + 1) % me->n);
        }
        graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
        allocate_on(&rig, me->rank);
    }
    graph_settle(&rig);
    ranks_ok(me, tutti_comm_state(rig.comm), "state");
    ranks_part(me, rig.comm);
}

Test(api_device_waits, threads_of_several_devices_allocate)
{
    plugin_must_be_stub();
    graph_run({ "devices=3", 2, RANKS_THREADS, allocate_meanwhile, NULL, 0 },
        { "devices=3", 3, RANKS_THREADS, allocate_meanwhile, NULL, 0 });
}

/* --- A thread that waits for another rank of its process is woken when that leaves; that nobody rings for it
 * would be a lost wake-up, which every test here looks for at its end. */
static void leave_who_is_waited_for(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig))
        return;
    for (int round = 0; round < 5 && graph_rig_join(&rig); round++) {
        if (me->rank == 1)
            ranks_sleep_us(150000);
        else
            tutti_barrier(rig.comm, tutti_cuda_stream(rig.streams[0]));
        ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
        graph_settle(&rig);
        ranks_meet(me);
    }
}

Test(api_device_waits, a_rank_of_the_process_leaves)
{
    plugin_must_be_stub();
    graph_run({ "devices=2", 2, RANKS_THREADS, leave_who_is_waited_for, NULL, 0 });
}

/* --- Another communicator pins memory for all devices of the process, which waits for what these have to do,
 * with the lock that everybody needs to enqueue. So it is legal once all have called what is waited for, also
 * if a stream has not come so far; the calls of one rank need nothing that another has yet to enqueue. */
static void hold_up(void *argument)
{
    (void)argument;
    ranks_sleep_us(20000);
}

static void join_meanwhile(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    for (int round = 0; round < 2 * me->n; round++) {
        struct graph_rig another = rig;
        ranks_at(me, "round %d", round);
        graph_give(&rig, round, rig.streams[0]);
        if (me->rank == round % me->n)
            graph_fine(&rig, rig.dev->host_call(rig.streams[0], hold_up, NULL));
        graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
        graph_fetch(&rig, round, REDUCED, rig.streams[0]);
        if (!graph_rig_join(&another))
            return;
        graph_reduce(&another, GIVEN, EAGER, another.streams[0]);
        graph_fetch(&another, round, EAGER, another.streams[0]);
        graph_settle(&rig);
        graph_is_sum(&rig, round, REDUCED, 1);
        graph_is_sum(&another, round, EAGER, 1);
        ranks_part(me, another.comm);
    }
    ranks_part(me, rig.comm);
}

Test(api_device_waits, communicators_are_made_meanwhile)
{
    plugin_must_be_stub();
    graph_run({ "devices=3,queues=1,lock=process", 3, RANKS_THREADS, join_meanwhile, NULL, 0 },
        { "devices=2,queues=8,lock=process", 2, RANKS_THREADS, join_meanwhile, NULL, 0 });
}

Test(api_device_waits, communicators_are_made_while_the_host_serves)
{
    plugin_must_be_stub();
    setenv("TUTTI_EXECUTOR", "host", 1);
    graph_run({ "devices=2,queues=8,lock=process", 2, RANKS_THREADS, join_meanwhile, NULL, 0 });
}

/* --- A worker that waits until an item may begin looks for that, whatever its hook looks for: that the last
 * graph is gone nobody rings for. */
static _Atomic bool may;

static bool no(void *context)
{
    (void)context;
    return false;
}

static bool it_may(void *context, const struct tt_batch *next)
{
    (void)context;
    (void)next;
    return atomic_load(&may);
}

Test(api_device_waits, an_item_that_nobody_rings_for)
{
    static const struct tt_idle_hook hook = { no, no, it_may, NULL };
    enum { ASLEEP_US = 150000 };
    tutti_stream handle;
    tutti_status status;
    uint64_t before = tt_wait_lost();
    cr_assert_eq(tt_stream_make(&hook, &handle), TUTTI_OK);
    struct tt_work_item *item = tt_work_item_take(NULL);
    cr_assert_not_null(item);
    cr_assert_eq(tt_work_item_submit_after(item, handle, (struct tt_position){ 0 }), TUTTI_OK);
    struct tt_stream *stream = tt_stream_find("a test", handle, &status);
    ranks_sleep_us(ASLEEP_US);
    atomic_store(&may, true);
    cr_expect(tt_position_wait((struct tt_position){ stream, tt_stream_last(stream) }, -1));
    tt_stream_unmake(handle);
    cr_expect_eq(tt_wait_lost(), before);
}
