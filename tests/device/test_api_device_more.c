/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_more.c: on a device's stream: operators that users create, programs, groups of several
 * streams and of many messages, a stream after another. Integers: each element has one right value. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/dev.h"
#include "tests/rig/plugin.h"
#include "tests/rig/ranks.h"

TestSuite(api_device_more, .timeout = 120);

enum { COUNT = 10000, BYTES = COUNT * 4, AREAS = 8 };

struct desk { /* of a rank */
    const struct tt_dev *dev;
    tutti_comm *comm;
    void *streams[2];
    uint32_t *host, *memory; /* AREAS times COUNT, pinned and on the device */
};

static bool fine(struct ranks_me *me, const struct desk *d, enum tt_dev_error error, const char *what)
{
    return ranks_expect(me, error == TT_DEV_OK, "%s: %s", what, error == TT_DEV_OK ? "" : d->dev->why());
}

static bool sit_down(struct ranks_me *me, struct desk *d)
{
    void *host = NULL, *memory = NULL;
    tutti_config config = { .size = sizeof config, .options = "slice=8192;device=0", .timeout_ms = 200000 };
    *d = (struct desk){ 0 };
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &d->dev), "tt_dev_find") ||
        !fine(me, d, d->dev->use(0), "use"))
        return false;
    fine(me, d, d->dev->stream.create(&d->streams[0]), "stream_create");
    fine(me, d, d->dev->stream.create(&d->streams[1]), "stream_create");
    fine(me, d, d->dev->memory.alloc_pinned(AREAS * BYTES, &host), "alloc_pinned");
    fine(me, d, d->dev->memory.alloc(AREAS * BYTES, &memory), "alloc");
    d->host = host;
    d->memory = memory;
    return (d->comm = ranks_join(me, &config)) != NULL;
}

static void get_up(struct ranks_me *me, struct desk *d)
{
    ranks_part(me, d->comm);
    d->dev->memory.free_pinned(d->host);
    d->dev->memory.free(d->memory);
    d->dev->stream.destroy(d->streams[0]);
    d->dev->stream.destroy(d->streams[1]);
}

static uint32_t value(int rank, int area, int i)
{
    return (uint32_t)ranks_mix((uint64_t)rank * 1000003 + (uint64_t)area * 101 + (uint64_t)i);
}

static void give(struct ranks_me *me, struct desk *d, int area, int round, void *stream)
{
    uint32_t *host = d->host + area * COUNT;
    for (int i = 0; i < COUNT; i++)
        host[i] = value(me->rank, area + 10 * round, i);
    fine(me, d, d->dev->copy(d->memory + area * COUNT, host, BYTES, stream), "copy");
}

static void take(struct ranks_me *me, struct desk *d, int area, void *stream)
{
    fine(me, d, d->dev->copy(d->host + area * COUNT, d->memory + area * COUNT, BYTES, stream), "copy");
}

static bool is_sum(struct ranks_me *me, const struct desk *d, int area, int from, int round)
{
    for (int i = 0; i < COUNT; i++) {
        uint32_t sum = 0, is = d->host[area * COUNT + i];
        for (int r = 0; r < me->n; r++)
            sum += value(r, from + 10 * round, i);
        if (!ranks_expect(me, is == sum, "area %d, element %d is %u, expected %u", area, i, is, sum))
            return false;
    }
    return true;
}

/* --- Operators: affine maps, which do not commute, and a factor of each rank's own, which the host has and
 * then the device. */

static void compose(void *dst, const void *left, const void *right, size_t count, void *context)
{
    const uint32_t *l = left, *r = right;
    (void)context;
    for (size_t i = 0; i < count; i++) {
        uint32_t a = l[2 * i] * r[2 * i], b = l[2 * i + 1] * r[2 * i] + r[2 * i + 1];
        ((uint32_t *)dst)[2 * i] = a;
        ((uint32_t *)dst)[2 * i + 1] = b;
    }
}

static void operate(struct ranks_me *me)
{
    struct desk d;
    tutti_op maps, scaled, same;
    uint32_t factor = (uint32_t)me->rank + 2;
    if (!sit_down(me, &d))
        return;
    uint32_t *in = d.memory, *out = d.memory + COUNT, *sums = d.memory + 2 * COUNT;
    uint32_t *again = d.memory + 3 * COUNT, *scalar = d.memory + 4 * COUNT;
    ranks_ok(me, tutti_op_create(d.comm, compose, NULL, 8, 0, &maps), "op_create");
    ranks_ok(me, tutti_op_create_pre_mul_sum(d.comm, &factor, TUTTI_UINT32, 0, &scaled), "pre_mul_sum");
    ranks_ok(me, tutti_op_create_pre_mul_sum(d.comm, scalar, TUTTI_UINT32, 1, &same), "pre_mul_sum");
    tutti_stream stream = tutti_cuda_stream(d.streams[0]);
    give(me, &d, 0, 0, stream.handle);
    d.host[4 * COUNT] = factor;
    fine(me, &d, d.dev->copy(scalar, d.host + 4 * COUNT, sizeof factor, stream.handle), "copy");
    ranks_ok(me, tutti_all_reduce(in, out, COUNT, TUTTI_UINT32, maps, d.comm, stream), "maps");
    ranks_ok(me, tutti_all_reduce(in, sums, COUNT, TUTTI_UINT32, scaled, d.comm, stream), "scaled");
    ranks_ok(me, tutti_all_reduce(in, again, COUNT, TUTTI_UINT32, same, d.comm, stream), "the same");
    for (int area = 1; area <= 3; area++)
        take(me, &d, area, stream.handle);
    fine(me, &d, d.dev->stream.sync(stream.handle), "sync");
    for (int i = 0; i < COUNT; i += 2) {
        uint32_t a = 1, b = 0, sum = 0;
        for (int r = 0; r < me->n; r++) {
            b = b * value(r, 0, i) + value(r, 0, i + 1);
            a *= value(r, 0, i);
            sum += value(r, 0, i) * ((uint32_t)r + 2);
        }
        const uint32_t *maps_are = d.host + COUNT + i, *sums_are = maps_are + COUNT,
                       *same_are = sums_are + COUNT;
        bool right = maps_are[0] == a && maps_are[1] == b && sums_are[0] == sum && same_are[0] == sum;
        if (!ranks_expect(me, right, "element %d", i))
            break;
    }
    get_up(me, &d);
}

Test(api_device_more, operators)
{
    plugin_must_have_kernels();
    ranks_run(&(struct ranks_plan){ .n = 3, .run = operate });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_THREADS, .run = operate });
}

/* --- A program is started again and again, behind what fills its buffers. */

static void repeat(struct ranks_me *me)
{
    struct desk d;
    tutti_program *program;
    if (!sit_down(me, &d))
        return;
    tutti_stream stream = tutti_cuda_stream(d.streams[0]);
    tutti_group_start();
    tutti_all_reduce(d.memory, d.memory + COUNT, COUNT, TUTTI_UINT32, TUTTI_SUM, d.comm, stream);
    tutti_all_reduce(
        d.memory + 2 * COUNT, d.memory + 2 * COUNT, COUNT, TUTTI_UINT32, TUTTI_SUM, d.comm, stream);
    ranks_ok(me, tutti_group_keep(&program), "group_keep");
    for (int round = 0; round < 10; round++) {
        give(me, &d, 0, round, stream.handle);
        give(me, &d, 2, round, stream.handle);
        ranks_ok(me, tutti_program_start(program), "program_start");
        take(me, &d, 1, stream.handle);
        take(me, &d, 2, stream.handle);
        fine(me, &d, d.dev->stream.sync(stream.handle), "sync");
        if (!is_sum(me, &d, 1, 0, round) || !is_sum(me, &d, 2, 2, round))
            break;
    }
    ranks_ok(me, tutti_program_start(program), "program_start");
    ranks_ok(me, tutti_program_destroy(program), "program_destroy");
    fine(me, &d, d.dev->stream.sync(stream.handle), "sync");
    get_up(me, &d);
}

Test(api_device_more, programs)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = repeat });
}

/* --- Groups: calls on two streams, each behind its own operands; results on both. */

static void group_streams(struct ranks_me *me)
{
    struct desk d;
    if (!sit_down(me, &d))
        return;
    for (int round = 0; round < 10; round++) {
        for (int k = 0; k < 8; k++) /* so that the second one comes late */
            fine(me, &d, d.dev->copy(d.memory + 4 * COUNT, d.host + 4 * COUNT, BYTES, d.streams[1]), "copy");
        for (int s = 0; s < 2; s++)
            give(me, &d, s, round, d.streams[s]);
        tutti_group_start();
        for (int s = 0; s < 2; s++)
            tutti_all_reduce(d.memory + s * COUNT, d.memory + (2 + s) * COUNT, COUNT, TUTTI_UINT32, TUTTI_SUM,
                d.comm, tutti_cuda_stream(d.streams[s]));
        ranks_ok(me, tutti_group_end(), "group_end");
        for (int s = 0; s < 2; s++)
            take(me, &d, 2 + s, d.streams[s]);
        for (int s = 0; s < 2; s++)
            fine(me, &d, d.dev->stream.sync(d.streams[s]), "sync");
        if (!is_sum(me, &d, 2, 0, round) || !is_sum(me, &d, 3, 1, round))
            break;
    }
    get_up(me, &d);
}

Test(api_device_more, streams_of_a_group)
{
    plugin_must_have_kernels();
    setenv("STUB_GPU", "queues=8,copy_delay=5000", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = group_streams });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_THREADS, .run = group_streams });
}

/* --- A stream that is destroyed with a call to do, and one of the same handle that has the next call. */

static void replace_streams(struct ranks_me *me)
{
    struct desk d;
    if (!sit_down(me, &d))
        return;
    for (int round = 0; round < 10; round++) {
        void *gone = d.streams[0];
        if (me->rank == round % 2)
            ranks_sleep_us(20000);
        for (int k = 0; k < 2; k++) {
            give(me, &d, k, round, d.streams[0]);
            ranks_ok(me,
                tutti_all_reduce(d.memory + k * COUNT, d.memory + (2 + k) * COUNT, COUNT, TUTTI_UINT32,
                    TUTTI_SUM, d.comm, tutti_cuda_stream(d.streams[0])),
                "all_reduce");
            if (k > 0)
                continue;
            fine(me, &d, d.dev->stream.destroy(gone), "stream_destroy");
            fine(me, &d, d.dev->stream.create(&d.streams[0]), "stream_create");
            ranks_expect(me, d.streams[0] == gone || !plugin_is_stub(), "the stub gives another handle");
        }
        for (int k = 0; k < 2; k++)
            take(me, &d, 2 + k, d.streams[0]);
        fine(me, &d, d.dev->stream.sync(d.streams[0]), "sync");
        if (!is_sum(me, &d, 2, 0, round) || !is_sum(me, &d, 3, 1, round))
            break;
    }
    get_up(me, &d);
}

Test(api_device_more, a_stream_in_the_place_of_another)
{
    setenv("STUB_GPU", "queues=8", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = replace_streams });
}

/* --- A stream of another context than the communicator's is refused, and nothing is lost by that. */

static void is_refused(struct ranks_me *me, const struct desk *d, tutti_comm *comm, void *stream)
{
    ranks_refused(me,
        tutti_all_reduce(
            d->memory, d->memory + COUNT, COUNT, TUTTI_UINT32, TUTTI_SUM, comm, tutti_cuda_stream(stream)),
        TUTTI_INVALID_ARGUMENT, "all_reduce", "stream|context|device 0|cudaSetDevice");
    ranks_ok(me, tutti_comm_state(comm), "state");
}

static void is_served(struct ranks_me *me, struct desk *d, tutti_comm *comm, void *stream, int round)
{
    give(me, d, 0, round, stream);
    ranks_ok(me,
        tutti_all_reduce(
            d->memory, d->memory + COUNT, COUNT, TUTTI_UINT32, TUTTI_SUM, comm, tutti_cuda_stream(stream)),
        "all_reduce");
    take(me, d, 1, stream);
    fine(me, d, d->dev->stream.sync(stream), "sync");
    is_sum(me, d, 1, 0, round);
    ranks_ok(me, tutti_comm_state(comm), "state");
}

static void cross_contexts(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "device=0", .timeout_ms = 200000 };
    struct desk d;
    void *own;
    if (!sit_down(me, &d))
        return;
    const struct tt_stub *stub = plugin_stub();
    stub->own_context(true);
    fine(me, &d, d.dev->stream.create(&own), "stream_create");
    tutti_comm *made_there = ranks_join(me, &config);
    for (int round = 0; round < 3; round++) {
        stub->own_context(true);
        if (me->rank == 0) { /* the others call meanwhile */
            is_refused(me, &d, d.comm, own);
            is_refused(me, &d, d.comm, NULL);
            is_refused(me, &d, d.comm, TT_DEV_STREAM_PER_THREAD);
            tutti_group_start();
            tutti_barrier(d.comm, tutti_cuda_stream(d.streams[0]));
            is_refused(me, &d, d.comm, own);
            ranks_refused(me, tutti_group_end(), TUTTI_INVALID_ARGUMENT, "group_end", "context");
        }
        is_served(me, &d, d.comm, d.streams[0], round);
        is_served(me, &d, made_there, own, round);
        is_served(me, &d, made_there, NULL, round);
        stub->own_context(false);
        if (me->rank == 0) {
            is_refused(me, &d, made_there, d.streams[0]);
            is_refused(me, &d, made_there, NULL);
        }
        is_served(me, &d, made_there, own, round);
        is_served(me, &d, d.comm, NULL, round);
    }
    ranks_part(me, made_there);
    fine(me, &d, d.dev->stream.destroy(own), "stream_destroy");
    get_up(me, &d);
}

Test(api_device_more, a_stream_of_another_context)
{
    plugin_must_be_stub();
    plugin_must_have_kernels();
    ranks_run(&(struct ranks_plan){ .n = 3, .run = cross_contexts });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_THREADS, .run = cross_contexts });
}

/* --- Destroyed where another device is used, or none: that stays so. */

static void destroy_elsewhere(struct ranks_me *me)
{
    static const int devices[] = { -1, 0, 1 };
    tutti_config config = { .size = sizeof config, .options = "device=1", .timeout_ms = 200000 };
    const struct tt_dev *dev;
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &dev), "tt_dev_find"))
        return;
    for (int i = 0; i < 30; i++) {
        int now = 7, expected = devices[i % 3];
        void *stream = NULL;
        ranks_expect(me, dev->use(1) == TT_DEV_OK, "use of 1: %s", dev->why());
        ranks_expect(me, dev->stream.create(&stream) == TT_DEV_OK, "stream_create: %s", dev->why());
        tutti_comm *comm = ranks_join(me, &config);
        ranks_ok(me, tutti_barrier(comm, tutti_cuda_stream(stream)), "barrier");
        if (me->n > 1) /* alone its end is nobody's loss, and the call may be under way */
            ranks_expect(me, dev->stream.sync(stream) == TT_DEV_OK, "sync: %s", dev->why());
        ranks_expect(me, dev->use(expected) == TT_DEV_OK, "use of %d: %s", expected, dev->why());
        ranks_part(me, comm);
        ranks_expect(me, dev->current(&now) == TT_DEV_OK, "current: %s", dev->why());
        ranks_expect(
            me, now == expected, "after destroy device %d is current, before it was %d", now, expected);
        ranks_expect(me, dev->stream.destroy(stream) == TT_DEV_OK, "stream_destroy: %s", dev->why());
    }
}

Test(api_device_more, destroyed_where_no_device_is_used)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "devices=2", 1);
    ranks_run(&(struct ranks_plan){ .n = 1, .run = destroy_elsewhere });
    ranks_run(&(struct ranks_plan){ .n = 2, .run = destroy_elsewhere });
}

/* --- Made by a thread of the library: with the device that is current where the call is made. */

static void begin_and_wait(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_NONBLOCKING };
    const struct tt_dev *dev;
    tutti_id id;
    tutti_comm *comm;
    int count;
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &dev), "tt_dev_find"))
        return;
    ranks_expect(me, dev->count(&count) == TT_DEV_OK && dev->use(count - 1) == TT_DEV_OK, "%s", dev->why());
    ranks_ok(me, tutti_get_id(&id), "get_id");
    ranks_ok(me, tutti_comm_init_rank(1, 0, &id, &config, &comm), "init_rank");
    while (tutti_comm_state(comm) == TUTTI_IN_PROGRESS)
        sched_yield();
    ranks_expect(me, tutti_comm_device(comm) == count - 1, "device %d, behind the call's back, not %d",
        tutti_comm_device(comm), count - 1);
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

static void initialise_in_a_group(struct ranks_me *me)
{
    enum { N = 2 };
    const struct tt_dev *dev;
    tutti_id id;
    tutti_comm *comms[N];
    int count;
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &dev), "tt_dev_find"))
        return;
    ranks_expect(me, dev->count(&count) == TT_DEV_OK, "%s", dev->why());
    ranks_ok(me, tutti_get_id(&id), "get_id");
    ranks_ok(me, tutti_group_start(), "group_start");
    for (int i = 0; i < N; i++) {
        ranks_expect(me, dev->use(i % count) == TT_DEV_OK, "%s", dev->why());
        ranks_ok(me, tutti_comm_init_rank(N, i, &id, NULL, &comms[i]), "init_rank");
    }
    if (!ranks_ok(me, tutti_group_end(), "group_end"))
        return;
    for (int i = 0; i < N; i++)
        ranks_expect(me, tutti_comm_device(comms[i]) == i % count, "rank %d of a group: device %d, not %d", i,
            tutti_comm_device(comms[i]), i % count);
    for (int i = 0; i < N; i++)
        ranks_ok(me, tutti_comm_destroy(comms[i]), "destroy");
}

Test(api_device_more, made_by_another_thread)
{
    setenv("STUB_GPU", "devices=2", 1);
    ranks_run(&(struct ranks_plan){ .n = 1, .run = begin_and_wait });
    ranks_run(&(struct ranks_plan){ .n = 1, .run = initialise_in_a_group });
}

/* Three messages to each rank, itself as well, and three from each; the receives in another order. */
static void exchange(struct ranks_me *me)
{
    enum { EACH = 3, MOST = 2500 };
    struct desk d;
    static const size_t counts[EACH] = { MOST, 7, 1201 };
    if (!sit_down(me, &d))
        return;
    tutti_stream stream = tutti_cuda_stream(d.streams[0]);
    uint32_t *received = d.memory + 4 * COUNT;
    give(me, &d, 0, 0, stream.handle);
    tutti_group_start();
    for (int k = 0; k < EACH; k++)
        for (int peer = 0; peer < me->n; peer++)
            tutti_send(d.memory + peer * MOST + k, counts[k], TUTTI_UINT32, peer, d.comm, stream);
    for (int peer = me->n - 1; peer >= 0; peer--)
        for (int k = 0; k < EACH; k++)
            tutti_recv(received + (peer * EACH + k) * MOST, counts[k], TUTTI_UINT32, peer, d.comm, stream);
    ranks_ok(me, tutti_group_end(), "group_end");
    fine(me, &d, d.dev->copy(d.host + 4 * COUNT, received, 4 * BYTES, stream.handle), "copy");
    fine(me, &d, d.dev->stream.sync(stream.handle), "sync");
    for (int peer = 0; peer < me->n; peer++)
        for (int k = 0; k < EACH; k++)
            for (size_t i = 0; i < counts[k]; i++) {
                uint32_t is = d.host[(size_t)(4 * COUNT + (peer * EACH + k) * MOST) + i];
                if (!ranks_expect(me, is == value(peer, 0, me->rank * MOST + k + (int)i),
                        "message %d of rank %d, element %zu", k, peer, i))
                    return;
            }
    get_up(me, &d);
}

Test(api_device_more, many_messages)
{
    setenv("STUB_GPU", "queues=1", 1);
    ranks_run(&(struct ranks_plan){ .n = 3, .run = exchange });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_THREADS, .run = exchange });
    setenv("TUTTI_EXECUTOR", "host", 1);
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_THREADS, .run = exchange });
}

/* --- Long calls, of the slices that a communicator has by itself: by each algorithm, of whatever chunks. */

enum { LONG = 2500000, STEP = 997 }; /* words: 10 MB, several slices */

static uint32_t *long_memory(struct ranks_me *me, const struct tt_dev *dev)
{
    void *memory = NULL;
    ranks_expect(me, dev->memory.alloc_managed(LONG * 4, &memory) == TT_DEV_OK, "%s", dev->why());
    return memory;
}

static void reduce_long(struct ranks_me *me, const struct tt_dev *dev, const char *options)
{
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = 200000 };
    uint32_t *in = long_memory(me, dev), *out = long_memory(me, dev), n = (uint32_t)me->n;
    tutti_comm *comm = ranks_join(me, &config);
    void *stream = NULL;
    if (comm == NULL || in == NULL || out == NULL)
        return;
    ranks_expect(me, dev->stream.create(&stream) == TT_DEV_OK, "%s", dev->why());
    for (uint32_t i = 0; i < LONG; i++)
        in[i] = i * 3 + (uint32_t)me->rank;
    tutti_stream on = tutti_cuda_stream(stream);
    ranks_ok(me, tutti_all_reduce(in, out, LONG, TUTTI_UINT32, TUTTI_SUM, comm, on), options);
    ranks_ok(me, tutti_broadcast(in, in, LONG, TUTTI_UINT32, me->n - 1, comm, on), options);
    ranks_expect(me, dev->stream.sync(stream) == TT_DEV_OK, "%s", dev->why());
    ranks_ok(me, tutti_comm_state(comm), options);
    for (uint32_t i = 0; i < LONG; i += STEP)
        if (!ranks_expect(me, out[i] == n * i * 3 + n * (n - 1) / 2 && in[i] == i * 3 + n - 1,
                "%s: words %u are %u, %u", options, i, out[i], in[i]))
            break;
    ranks_part(me, comm);
    dev->stream.destroy(stream);
    dev->memory.free(in);
    dev->memory.free(out);
}

static void reduce_by_each(struct ranks_me *me)
{
    const struct tt_dev *dev;
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &dev), "tt_dev_find") || dev->use(0) != TT_DEV_OK)
        return;
    char options[512] = "device=0";
    for (int k = 0; ranks_algorithms(k, options, sizeof options); k++) {
        ranks_at(me, "%s", options);
        reduce_long(me, dev, options);
        if (me->world->slots[me->rank].failures > 0)
            return;
        strcpy(options, "device=0");
    }
}

Test(api_device_more, long_calls_by_each_algorithm)
{
    setenv("STUB_GPU", "queues=8", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = reduce_by_each });
    ranks_run(&(struct ranks_plan){ .n = 3, .run = reduce_by_each });
}

/* The longer a slice, the fewer pieces of work: of two ranks it is 5 MiB, and six pieces. */
static void enqueue_long(struct ranks_me *me)
{
    enum { MIB = 64, SLICES = (MIB + 4) / 5, MOST = 6 * SLICES + 2 };
    static const char *const functions[] = { "copy", "copy_rows", "write_word", "wait_word" };
    tutti_config config = { .size = sizeof config, .options = "device=0", .timeout_ms = 200000 };
    const struct tt_dev *dev;
    void *memory = NULL;
    uint64_t before = 0, after = 0;
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &dev), "tt_dev_find") || dev->use(0) != TT_DEV_OK)
        return;
    tutti_comm *comm = ranks_join(me, &config);
    ranks_expect(me, dev->memory.alloc((size_t)MIB << 20, &memory) == TT_DEV_OK, "%s", dev->why());
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        before += plugin_stub()->calls(functions[i]);
    ranks_ok(me,
        tutti_all_reduce(
            memory, memory, (size_t)MIB << 18, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_cuda_stream(NULL)),
        "all_reduce");
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        after += plugin_stub()->calls(functions[i]);
    ranks_expect(
        me, after - before <= MOST, "%d MiB are %llu pieces", MIB, (unsigned long long)(after - before));
    ranks_expect(me, dev->stream.sync(NULL) == TT_DEV_OK, "%s", dev->why());
    ranks_part(me, comm);
    dev->memory.free(memory);
}

Test(api_device_more, slices_are_as_long_as_there_is_room)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "queues=8", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = enqueue_long });
}
