/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_memory.c: memory of a device from tutti_mem_alloc: what it holds, whose it is, how it ends,
 * and what goes wrong. That calls take it as they take other memory is in test_api_device.c. The device is
 * the stub's (tests/stub), whose fresh memory holds rubbish, and of which a host that touches it dies. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "graph_rig.h"
#include "tests/rig/plugin.h"

TestSuite(api_device_memory, .timeout = 120);

enum { MIB = 1 << 20, AREA = 100000, THREADS = 4, ROUNDS = 30 };

static const struct tt_dev *table(struct ranks_me *me)
{
    const struct tt_dev *dev = NULL;
    return ranks_ok(me, tt_dev_find("", &dev), "tt_dev_find") ? dev : NULL;
}

static bool is_fine(struct ranks_me *me, const struct tt_dev *dev, enum tt_dev_error error)
{
    return ranks_expect(me, error == TT_DEV_OK, "device: %s", error == TT_DEV_OK ? "" : dev->why());
}

/* All bytes of it are zeros; then it is filled. */
static bool look_and_fill(struct ranks_me *me, const struct tt_dev *dev, void *memory, size_t bytes)
{
    void *pinned = NULL, *stream = NULL;
    bool good = is_fine(me, dev, dev->stream.create(&stream)) &&
                is_fine(me, dev, dev->memory.alloc_pinned(bytes, &pinned)) &&
                is_fine(me, dev, dev->copy(pinned, memory, bytes, stream)) &&
                is_fine(me, dev, dev->fill(memory, 0xee, bytes, stream)) &&
                is_fine(me, dev, dev->stream.sync(stream));
    for (size_t i = 0; i < bytes && good; i++)
        good = ranks_expect(me, ((uint8_t *)pinned)[i] == 0, "byte %zu is not zero", i);
    is_fine(me, dev, dev->memory.free_pinned(pinned));
    is_fine(me, dev, dev->stream.destroy(stream));
    return good;
}

static bool is_of(struct ranks_me *me, const struct tt_dev *dev, const void *memory, int device)
{
    struct tt_dev_pointer what = { 0 };
    return is_fine(me, dev, dev->memory.classify(memory, &what)) &&
           ranks_expect(me, what.kind == TT_DEV_DEVICE && what.device == device,
               "it is memory of kind %d, device %d; expected of device %d", (int)what.kind, what.device,
               device);
}

/* --- What it is */

/* Of the device that is current, which stays so; of 0 in a thread that has none. Used again it is zeroed,
 * too. */
static void of_each_device(struct ranks_me *me)
{
    const struct tt_dev *dev;
    void *memory = NULL, *next = NULL;
    int now = -1;
    if (!ranks_ok(me, tutti_mem_alloc(AREA, TUTTI_MEM_CUDA, &memory), "mem_alloc") ||
        (dev = table(me)) == NULL)
        return;
    is_fine(me, dev, dev->current(&now));
    ranks_expect(me, now == 0, "device %d is current, expected 0", now);
    ranks_expect(me, (uintptr_t)memory % 4096 == 0, "not page-aligned");
    is_of(me, dev, memory, 0);
    look_and_fill(me, dev, memory, AREA);
    is_fine(me, dev, dev->use(1));
    ranks_ok(me, tutti_mem_alloc(0, TUTTI_MEM_CUDA, &next), "mem_alloc of nothing");
    is_of(me, dev, next, 1);
    ranks_ok(me, tutti_mem_free(memory), "mem_free of another device's");
    is_fine(me, dev, dev->current(&now));
    ranks_expect(me, now == 1, "device %d is current, expected 1", now);
    ranks_ok(me, tutti_mem_free(next), "mem_free");
    for (int round = 0; round < 4; round++) {
        ranks_ok(me, tutti_mem_alloc(AREA, TUTTI_MEM_CUDA, &memory), "mem_alloc");
        look_and_fill(me, dev, memory, AREA);
        ranks_ok(me, tutti_mem_free(memory), "mem_free");
    }
}

Test(api_device_memory, zeroed_and_of_the_current_device)
{
    graph_run({ "devices=2", 1, RANKS_PROCESSES, of_each_device, NULL, 0 },
        { "devices=2,fds=0,queues=1", 1, RANKS_PROCESSES, of_each_device, NULL, 0 });
}

/* Another thread frees it, one that has no device. */
static void *free_it(void *memory)
{
    return (void *)(intptr_t)tutti_mem_free(memory);
}

static void *come_and_go(void *context)
{
    struct ranks_me *me = context;
    for (int round = 0; round < ROUNDS; round++) {
        void *some[3] = { 0 };
        for (int i = 0; i < 3; i++)
            ranks_ok(me, tutti_mem_alloc((size_t)(i + 1) * 10000, TUTTI_MEM_CUDA, &some[i]), "mem_alloc");
        ranks_expect(me, some[0] != some[1] && some[1] != some[2] && some[0] != some[2], "given twice");
        for (int i = 0; i < 3; i++)
            ranks_ok(me, tutti_mem_free(some[(i + round) % 3]), "mem_free");
    }
    return NULL;
}

static void by_threads(struct ranks_me *me)
{
    pthread_t threads[THREADS];
    void *memory = NULL, *status = NULL;
    ranks_ok(me, tutti_mem_alloc(AREA, TUTTI_MEM_CUDA, &memory), "mem_alloc");
    pthread_create(&threads[0], NULL, free_it, memory);
    pthread_join(threads[0], &status);
    ranks_expect(me, (intptr_t)status == TUTTI_OK, "another thread cannot free it");
    for (int t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, come_and_go, me);
    for (int t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    ranks_ok(me, tutti_mem_alloc(8 * MIB, TUTTI_MEM_CUDA, &memory), "mem_alloc of the whole device");
    ranks_ok(me, tutti_mem_free(memory), "mem_free");
}

Test(api_device_memory, threads)
{
    graph_run({ "memory=8", 1, RANKS_PROCESSES, by_threads, NULL, 0 });
}

/* --- A child of fork has no devices: it is told so, and harms nothing. */

static int in_child(struct ranks_me *me, void *memory)
{
    void *other = NULL;
    ranks_refused(me, tutti_mem_alloc(AREA, TUTTI_MEM_CUDA, &other), TUTTI_INVALID_USAGE, "in a child",
        "mem_alloc|fork");
    ranks_refused(me, tutti_mem_free(memory), TUTTI_INVALID_USAGE, "the parent's, in a child", "fork");
    ranks_expect(me, other == NULL, "a failed mem_alloc has set ptr");
    ranks_ok(me, tutti_mem_alloc(AREA, TUTTI_MEM_HOST, &other), "mem_alloc of the host, in a child");
    ranks_ok(me, tutti_mem_free(other), "mem_free of that");
    return 0;
}

static void forked(struct ranks_me *me)
{
    void *memory = NULL;
    const struct tt_dev *dev;
    int how = -1;
    if (!ranks_ok(me, tutti_mem_alloc(AREA, TUTTI_MEM_CUDA, &memory), "mem_alloc") ||
        (dev = table(me)) == NULL)
        return;
    pid_t child = fork();
    if (child == 0)
        _exit(in_child(me, memory));
    ranks_expect(me, waitpid(child, &how, 0) == child && how == 0, "the child ended so: %d", how);
    look_and_fill(me, dev, memory, AREA);
    ranks_ok(me, tutti_mem_free(memory), "mem_free");
}

Test(api_device_memory, children)
{
    graph_run({ "queues=8", 1, RANKS_PROCESSES, forked, NULL, 0 });
}

/* --- Wrong */

static void wrong(struct ranks_me *me)
{
    void *memory = NULL, *none = NULL, *plain = malloc(100), *theirs = NULL, *rest = NULL;
    ranks_refused(me, tutti_mem_alloc(10, 2, &none), TUTTI_INVALID_ARGUMENT, "kind 2", "kind is 2|0|1");
    ranks_refused(me, tutti_mem_alloc(10, -1, &none), TUTTI_INVALID_ARGUMENT, "kind -1", "kind is -1");
    ranks_refused(
        me, tutti_mem_alloc(10, TUTTI_MEM_CUDA, NULL), TUTTI_INVALID_ARGUMENT, "nowhere", "ptr is NULL");
    ranks_refused(me, tutti_mem_alloc(SIZE_MAX, TUTTI_MEM_CUDA, &none), TUTTI_OUT_OF_MEMORY, "all",
        "bytes|device 0 has 8388608");
    ranks_refused(
        me, tutti_mem_alloc(9 * MIB, TUTTI_MEM_CUDA, &none), TUTTI_OUT_OF_MEMORY, "9 MiB", "device 0");
    ranks_ok(me, tutti_mem_alloc(5 * MIB, TUTTI_MEM_CUDA, &memory), "mem_alloc of 5 MiB");
    ranks_refused(me, tutti_mem_alloc(5 * MIB, TUTTI_MEM_CUDA, &none), TUTTI_OUT_OF_MEMORY, "5 more",
        "device 0|no room");
    ranks_expect(me, none == NULL, "a failed mem_alloc has set ptr");
    const struct tt_dev *dev = table(me);
    if (dev == NULL || !is_fine(me, dev, dev->memory.alloc(4096, &theirs)))
        return;
    ranks_refused(me, tutti_mem_free(plain), TUTTI_INVALID_ARGUMENT, "malloc'ed memory", "mem_free|ptr");
    ranks_refused(me, tutti_mem_free(theirs), TUTTI_INVALID_ARGUMENT, "the device's own", "mem_free|ptr");
    ranks_refused(me, tutti_mem_free((uint8_t *)memory + 4096), TUTTI_INVALID_ARGUMENT, "its middle", "ptr");
    ranks_ok(me, tutti_mem_alloc(2 * MIB, TUTTI_MEM_CUDA, &rest), "mem_alloc of the rest");
    ranks_ok(me, tutti_mem_free(memory), "mem_free");
    ranks_refused(me, tutti_mem_free(memory), TUTTI_INVALID_ARGUMENT, "twice", "mem_free|ptr");
    ranks_ok(me, tutti_mem_free(rest), "mem_free of the rest");
    is_fine(me, dev, dev->memory.free(theirs));
    free(plain);
}

static void no_device(struct ranks_me *me)
{
    void *memory = NULL;
    ranks_refused(
        me, tutti_mem_alloc(10, TUTTI_MEM_CUDA, &memory), TUTTI_UNSUPPORTED, "mem_alloc", me->context);
    ranks_expect(me, memory == NULL, "a failed mem_alloc has set ptr");
    ranks_ok(me, tutti_mem_alloc(10, TUTTI_MEM_HOST, &memory), "mem_alloc of the host");
    ranks_ok(me, tutti_mem_free(memory), "mem_free");
}

Test(api_device_memory, wrong)
{
    graph_run({ "memory=8", 1, RANKS_PROCESSES, wrong, NULL, 0 },
        { "devices=0", 1, RANKS_PROCESSES, no_device, "mem_alloc|kind is TUTTI_MEM_CUDA|no device", 0 });
}

/* A communicator of the host: the program would end by a signal. */
static void call_without(struct ranks_me *me)
{
    static float host[64];
    void *memory = NULL;
    tutti_stream none = tutti_no_stream();
    tutti_config config = { .size = sizeof config, .options = "device=none", .timeout_ms = 200000 };
    tutti_comm *comm = NULL;
    if (!ranks_ok(me, tutti_mem_alloc(AREA, TUTTI_MEM_CUDA, &memory), "mem_alloc") ||
        !(comm = ranks_join(me, &config)))
        return;
    ranks_refused(me, tutti_all_reduce(memory, host, 64, TUTTI_FLOAT32, TUTTI_SUM, comm, none),
        TUTTI_UNSUPPORTED, "all_reduce", "send is|device|has no device: its setting device is none");
    ranks_refused(me, tutti_all_gather(host, memory, 1, TUTTI_FLOAT32, comm, none), TUTTI_UNSUPPORTED,
        "all_gather", "recv is|device|none");
    ranks_refused(me, tutti_send(memory, 1, TUTTI_FLOAT32, !me->rank, comm, none), TUTTI_UNSUPPORTED, "send",
        "send is|device|none");
    ranks_ok(me, tutti_all_reduce(host, host, 64, TUTTI_FLOAT32, TUTTI_SUM, comm, none), "nothing is lost");
    ranks_ok(me, tutti_barrier(comm, none), "barrier");
    ranks_ok(me, tutti_mem_free(memory), "mem_free");
    ranks_part(me, comm);
}

/* Can the processor read a device's memory by itself, as where the two share one page table (GH200)? */
static void read_by_itself(struct ranks_me *me)
{
    bool *reads = *(bool *const *)me->context;
    int ends[2];
    void *memory = NULL;
    if (!ranks_ok(me, tutti_mem_alloc(AREA, TUTTI_MEM_CUDA, &memory), "mem_alloc") ||
        !ranks_expect(me, pipe(ends) == 0, "there is no pipe"))
        return;
    *reads = write(ends[1], memory, 1) == 1;
    ranks_ok(me, tutti_mem_free(memory), "mem_free");
}

Test(api_device_memory, a_communicator_without_a_device)
{
    bool *reads =
        mmap(NULL, sizeof *reads, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); /* of a rank */
    cr_assert(reads != MAP_FAILED);
    graph_run({ "queues=8", 1, RANKS_PROCESSES, read_by_itself, &reads, 0 });
    if (*reads && !plugin_is_stub())
        cr_skip_test("the processor reads this device's memory itself: there is nothing to refuse");
    graph_run({ "queues=8", 2, RANKS_PROCESSES, call_without, NULL, 0 });
}

/* As in a build for hosts only: where a device would have its memory there are addresses, and no more. */
static void call_without_library(struct ranks_me *me)
{
    float host[64] = { 0 };
    void *theirs = mmap(NULL, AREA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *none = NULL;
    ranks_refused(me, tutti_mem_alloc(10, TUTTI_MEM_CUDA, &none), TUTTI_UNSUPPORTED, "mem_alloc", "none.so");
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    ranks_refused(me, tutti_all_reduce(theirs, host, 64, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()),
        TUTTI_UNSUPPORTED, "all_reduce", "send is|device|none.so");
    ranks_part(me, comm);
}

Test(api_device_memory, no_library)
{
    setenv("TUTTI_DEVICE_LIBRARY", "./none.so", 1);
    ranks_run(&(struct ranks_plan){
        .n = 1, .run = no_device, .context = "mem_alloc|kind is TUTTI_MEM_CUDA|none.so" });
    ranks_run(&(struct ranks_plan){ .n = 2, .run = call_without_library });
}

/* Whatever the runtime refuses, nothing of the device's memory is lost. */
struct refusal {
    const char *stub;
    tutti_status alloc, free;
};

static void refused(struct ranks_me *me)
{
    const struct refusal *expected = me->context;
    void *memory = NULL;
    tutti_status status = tutti_mem_alloc(8 * MIB, TUTTI_MEM_CUDA, &memory);
    ranks_at(me, "%s", expected->stub);
    ranks_expect(me, status == expected->alloc && (status == TUTTI_OK || memory == NULL),
        "mem_alloc returned %d (%s)", status, tutti_get_last_error(NULL));
    if (status != TUTTI_OK)
        ranks_ok(me, tutti_mem_alloc(8 * MIB, TUTTI_MEM_CUDA, &memory), "mem_alloc");
    status = tutti_mem_free(memory);
    ranks_expect(
        me, status == expected->free, "mem_free returned %d (%s)", status, tutti_get_last_error(NULL));
    if (status != TUTTI_OK)
        ranks_ok(me, tutti_mem_free(memory), "mem_free");
    ranks_ok(me, tutti_mem_alloc(8 * MIB, TUTTI_MEM_CUDA, &memory), "mem_alloc once more");
}

Test(api_device_memory, refusals)
{
    static const struct refusal all[] = {
        { "memory=8,fail=segment_alloc:1", TUTTI_DEVICE_ERROR, TUTTI_OK },
        { "memory=8,fail=segment_alloc:1:no_memory", TUTTI_OUT_OF_MEMORY, TUTTI_OK },
        { "memory=8,fail=facts:1", TUTTI_DEVICE_ERROR, TUTTI_OK },
        { "memory=8,fail=current:1", TUTTI_DEVICE_ERROR, TUTTI_OK },
        { "memory=8,fail=use:1", TUTTI_DEVICE_ERROR, TUTTI_OK },
        { "memory=8,fail=stream_create:1", TUTTI_DEVICE_ERROR, TUTTI_OK },
        { "memory=8,fail=fill:1", TUTTI_DEVICE_ERROR, TUTTI_OK },
        { "memory=8,fail=stream_sync:1", TUTTI_DEVICE_ERROR, TUTTI_OK },
        { "memory=8,fail=segment_free:1", TUTTI_OK, TUTTI_DEVICE_ERROR },
    };
    enum { REFUSALS = sizeof all / sizeof all[0] };
    struct graph_plan plans[REFUSALS];
    for (int i = 0; i < REFUSALS; i++)
        plans[i] = (struct graph_plan){ all[i].stub, 1, RANKS_PROCESSES, refused, &all[i], 0 };
    graph_run_all(plans, REFUSALS);
}

/* --- Memory that grows: parts that are mapped side by side in one range of addresses, as PyTorch's may be */

static void grown(struct ranks_me *me)
{
    enum { PART = 65536, EACH = PART / 4 /* elements */ };
    tutti_config config = { .size = sizeof config, .device = tutti_device(0), .timeout_ms = 200000 };
    void *stream = NULL;
    tutti_comm *comm = ranks_join(me, &config);
    const struct tt_dev *dev = table(me);
    if (dev == NULL || comm == NULL || !is_fine(me, dev, dev->use(0)) ||
        !is_fine(me, dev, dev->stream.create(&stream)))
        return;
    char *whole = plugin_stub()->map_parts(PART, 3, -1), *with_hole = plugin_stub()->map_parts(PART, 3, 1);
    tutti_stream on = tutti_cuda_stream(stream);
    if (!ranks_expect(me, whole != NULL && with_hole != NULL, "no memory"))
        return;
    is_fine(me, dev, dev->fill(whole, 1, 3 * PART, stream));
    ranks_ok(
        me, tutti_all_reduce(whole, whole, 3 * EACH, TUTTI_INT32, TUTTI_MAX, comm, on), "over three parts");
    ranks_ok(me, tutti_all_reduce(whole + PART - 4, whole + PART - 4, 2, TUTTI_INT32, TUTTI_MAX, comm, on),
        "over an edge");
    ranks_ok(me, tutti_all_reduce(with_hole, with_hole, EACH, TUTTI_INT32, TUTTI_MAX, comm, on), "a part");
    ranks_refused(me, tutti_all_reduce(whole, whole, 3 * EACH + 1, TUTTI_INT32, TUTTI_MAX, comm, on),
        TUTTI_INVALID_ARGUMENT, "beyond the last part", "send is|needs 196612 bytes|ends after 65536");
    ranks_refused(me, tutti_all_reduce(with_hole, with_hole, EACH + 1, TUTTI_INT32, TUTTI_MAX, comm, on),
        TUTTI_INVALID_ARGUMENT, "into a hole", "send is|needs 65540 bytes|ends after 65536");
    ranks_refused(me, tutti_all_reduce(whole, with_hole + PART, 1, TUTTI_INT32, TUTTI_MAX, comm, on),
        TUTTI_INVALID_ARGUMENT, "a hole", "recv is|nothing is mapped");
    ranks_refused(me,
        tutti_all_reduce(
            with_hole + 2 * PART, with_hole, EACH, TUTTI_INT32, TUTTI_MAX, comm, tutti_no_stream()),
        TUTTI_INVALID_ARGUMENT, "a part, without a stream", "send is memory of a device");
    char *one = NULL, *next = NULL; /* no parts of one range, however near they are */
    if (!is_fine(me, dev, dev->memory.alloc(PART, (void **)&one)) ||
        !is_fine(me, dev, dev->memory.alloc(PART, (void **)&next)))
        return;
    ranks_refused(me,
        tutti_all_reduce(one, one, (size_t)(next + 4 - one) / 4, TUTTI_INT32, TUTTI_MAX, comm, on),
        TUTTI_INVALID_ARGUMENT, "into what is next to it", "send is|ends after 65536");
    ranks_ok(me, tutti_barrier(comm, on), "barrier");
    is_fine(me, dev, dev->stream.sync(stream));
    int *seen = plugin_stub()->look(whole + 2 * PART);
    ranks_expect(me, seen != NULL && *seen == 0x01010101, "the third part is not what was sent");
    ranks_part(me, comm);
}

Test(api_device_memory, ranges_that_are_mapped_in_parts)
{
    plugin_must_be_stub();
    graph_run({ "devices=1", 2, RANKS_PROCESSES, grown, NULL, 0 });
}

/* --- The memory of a communicator's own */

/* Bytes of this process's memory that peers can map for which large pages are wanted; -1: no one tells. */
static long long advised_bytes(void)
{
    char line[512];
    unsigned long long begin = 0, end = 0, from, to;
    long long sum = -1;
    bool ours = false;
    FILE *maps = fopen("/proc/self/smaps", "re");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        if (sscanf(line, "%llx-%llx ", &from, &to) == 2 && strstr(line, "-") < strstr(line, " ")) {
            begin = from;
            end = to;
            ours = strstr(line, "memfd:tutti ") != NULL;
        } else if (strncmp(line, "VmFlags:", 8) == 0) {
            sum = sum < 0 ? 0 : sum;
            sum += ours && strstr(line, " hg") != NULL ? (long long)(end - begin) : 0;
        }
    }
    if (maps != NULL)
        fclose(maps);
    return sum;
}

static void large_pages(struct ranks_me *me)
{
    tutti_config host = { .size = sizeof host, .device = TUTTI_DEVICE_NONE };
    tutti_config device = { .size = sizeof device, .device = tutti_device(0) };
    tutti_comm *comm = ranks_join(me, &host);
    ranks_expect(me, advised_bytes() <= 0, "the host's memory is used in parts");
    ranks_part(me, comm);
    comm = ranks_join(me, &device);
    long long bytes = advised_bytes();
    ranks_expect(me, bytes < 0 || bytes >= 16 * MIB, "large pages are wanted for %lld bytes", bytes);
    ranks_part(me, comm);
}

Test(api_device_memory, large_pages_are_wanted_for_what_is_pinned)
{
    void *some = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (some == MAP_FAILED || madvise(some, 4 * MIB, MADV_HUGEPAGE) != 0)
        cr_skip_test("this kernel has no large pages");
    graph_run({ "queues=8", 2, RANKS_PROCESSES, large_pages, NULL, 0 });
}
