/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device.c: every collective in the order of a device's stream, on memory of every kind.
 *
 * The same cases as of the matrix on the host, but each rank takes the memory of each buffer as it comes:
 * the device's, managed, pinned, ordinary. Three operations are enqueued back to back, with what fills their
 * buffers and what fetches the results on the same stream; only then does the rank wait. The device is the
 * stub's (tests/stub), or of the library that TUTTI_DEVICE_LIBRARY names; with 1, 2 and 8 hardware queues
 * nothing may hang. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/dev.h"
#include "tests/rig/matrix_case.h"
#include "tests/rig/plugin.h"

TestSuite(api_device, .timeout = 300);

enum { SLICE = 8192, ROOM = 160 * 1024, IN_FLIGHT = 3, ROWS = 44, PART = 4 };
enum kind { ORDINARY, PINNED, MANAGED, DEVICE, KINDS };

struct place { /* of one buffer of a case: what the host sees, and where the call finds it */
    struct ranks_buffer buffer;
    uint8_t *areas[KINDS], *bounce;
    enum kind kind;
};

struct rig {
    tutti_comm *comm;
    const struct tt_dev *dev;
    void *streams[3];
    struct place places[IN_FLIGHT][2];
    struct ranks_buffer expected;
};

static bool fine(struct ranks_me *me, const struct rig *rig, enum tt_dev_error error)
{
    return ranks_expect(me, error == TT_DEV_OK, "device: %s", error == TT_DEV_OK ? "" : rig->dev->why());
}

static void set_case(struct matrix_case *c, const struct ranks_me *me, int index, uint64_t seed)
{
    static const tutti_type types[] = { TUTTI_FLOAT32, TUTTI_UINT64, TUTTI_BFLOAT16, TUTTI_INT8 };
    static const tutti_op ops[] = { TUTTI_SUM, TUTTI_MAX, TUTTI_AVG, TUTTI_PROD };
    *c = (struct matrix_case){
        .collective = (enum matrix_collective)(index % COLLECTIVES), .n = me->n, .rank = me->rank
    };
    uint64_t random = ranks_mix(seed + (uint64_t)index * 977);
    c->vector.n = me->n;
    c->vector.seed = ranks_random(&random);
    c->vector.type = types[ranks_below(&random, 4)];
    c->vector.op = matrix_shapes[c->collective].reduces ? ops[ranks_below(&random, 4)] : RANKS_MOVE;
    size_t slice = SLICE / tutti_type_bytes(c->vector.type), n = (size_t)me->n;
    const size_t counts[] = { 0, 1, n + 1, 1009, slice, 2 * slice + 13, n * slice + 1 };
    const struct matrix_shape *shape = &matrix_shapes[c->collective];
    bool blocks = shape->send == HOLDS_ALL || shape->recv == HOLDS_ALL;
    c->count = counts[ranks_below(&random, blocks ? 6 : 7)];
    c->offset = ranks_below(&random, 2) * tutti_type_bytes(c->vector.type);
    c->root = (int)ranks_below(&random, (uint32_t)n);
    c->in_place = ranks_below(&random, 2);
    matrix_cut(c);
}

static void describe(struct ranks_me *me, const struct matrix_case *c, const char *doing)
{
    ranks_at(me, "n %d rank %d, %s %s of %zu %s, %s, root %d, offset %zu, %s", c->n, c->rank, doing,
        matrix_shapes[c->collective].name, c->count, ranks_type_name(c->vector.type),
        ranks_op_name(c->vector.op), c->root, c->offset, c->in_place ? "in place" : "out of place");
}

/* The call's own view of a side: the same bytes, in memory of the kind. */
static void put(struct ranks_me *me, struct rig *rig, struct place *p, void *stream)
{
    if (p->kind == ORDINARY)
        return;
    memcpy(p->bounce, p->buffer.memory, p->buffer.room);
    fine(me, rig, rig->dev->copy(p->areas[p->kind], p->bounce, p->buffer.room, stream));
}

static void fetch(struct ranks_me *me, struct rig *rig, struct place *p, void *stream)
{
    if (p->kind != ORDINARY)
        fine(me, rig, rig->dev->copy(p->bounce, p->areas[p->kind], p->buffer.room, stream));
}

static void move_side(struct matrix_side *s, const struct place *p)
{
    if (p->kind != ORDINARY)
        s->data = p->areas[p->kind] + (s->data - p->buffer.memory);
}

static void enqueue(
    struct ranks_me *me, struct rig *rig, const struct matrix_case *c, struct place *places, void *stream)
{
    struct matrix_case moved = *c;
    moved.stream = tutti_cuda_stream(stream);
    for (int side = 0; side < SIDES; side++) {
        places[side].kind = (enum kind)ranks_below(&me->random, KINDS);
        if (c->sides[side].buffer == &places[side].buffer)
            put(me, rig, &places[side], stream);
    }
    for (int side = 0; side < SIDES; side++)
        move_side(&moved.sides[side], &places[c->in_place ? RECEIVED : side]);
    ranks_ok(me, matrix_call(&moved, rig->comm), matrix_shapes[c->collective].name);
    for (int side = 0; side < SIDES; side++)
        if (c->sides[side].buffer == &places[side].buffer)
            fetch(me, rig, &places[side], stream);
}

static void prepare(struct matrix_case *c, struct place *places)
{
    struct ranks_buffer buffers[2][2];
    for (int side = 0; side < 2; side++)
        buffers[side][0] = places[side].buffer;
    matrix_prepare(c, buffers);
    for (int side = 0; side < 2; side++) {
        places[side].buffer = buffers[side][0];
        c->sides[side].buffer = &places[c->in_place ? RECEIVED : side].buffer;
    }
}

static void run_three(struct ranks_me *me, struct rig *rig, const int *indices, int count, uint64_t seed)
{
    struct matrix_case cases[IN_FLIGHT];
    void *last = NULL;
    for (int i = 0; i < count; i++) {
        set_case(&cases[i], me, indices[i], seed);
        describe(me, &cases[i], "preparing");
        prepare(&cases[i], rig->places[i]);
    }
    for (int i = 0; i < count; i++) {
        describe(me, &cases[i], "enqueueing");
        ranks_delay(me, 60);
        last = rig->streams[ranks_below(&me->random, 3)];
        enqueue(me, rig, &cases[i], rig->places[i], last);
    }
    for (int s = 0; s < 3; s++)
        fine(me, rig, rig->dev->stream.sync(rig->streams[s]));
    ranks_ok(me, tutti_comm_state(rig->comm), "these calls"); /* else a stream goes on without results */
    for (int i = 0; i < count; i++) {
        describe(me, &cases[i], "after");
        for (int side = 0; side < 2; side++)
            if (cases[i].sides[side].buffer == &rig->places[i][side].buffer &&
                rig->places[i][side].kind != ORDINARY)
                memcpy(rig->places[i][side].buffer.memory, rig->places[i][side].bounce,
                    rig->places[i][side].buffer.room);
        matrix_verify(me, &cases[i], rig->expected.data);
    }
}

/* By the library at some ranks, by the device's own means at others. */
static bool alloc_device(struct ranks_me *me, struct rig *rig, size_t bytes, void **area)
{
    return me->rank % 2 == 1 ? ranks_ok(me, tutti_mem_alloc(bytes, TUTTI_MEM_CUDA, area), "mem_alloc")
                             : fine(me, rig, rig->dev->memory.alloc(bytes, area));
}

static void free_device(struct ranks_me *me, struct rig *rig, void *area)
{
    if (me->rank % 2 == 1)
        ranks_ok(me, tutti_mem_free(area), "mem_free");
    else
        fine(me, rig, rig->dev->memory.free(area));
}

static bool make_place(struct ranks_me *me, struct rig *rig, struct place *p)
{
    void *areas[KINDS] = { 0 }, *bounce = NULL;
    const struct tt_dev *dev = rig->dev;
    bool good = ranks_buffer_create(me, &p->buffer, ROOM, false);
    good = good && alloc_device(me, rig, p->buffer.room, &areas[DEVICE]);
    good = good && fine(me, rig, dev->memory.alloc_managed(p->buffer.room, &areas[MANAGED]));
    good = good && fine(me, rig, dev->memory.alloc_pinned(p->buffer.room, &areas[PINNED]));
    good = good && fine(me, rig, dev->memory.alloc_pinned(p->buffer.room, &bounce));
    for (int k = 0; k < KINDS; k++)
        p->areas[k] = areas[k];
    p->bounce = bounce;
    return good;
}

static void free_rig(struct ranks_me *me, struct rig *rig)
{
    for (int i = 0; i < IN_FLIGHT * 2; i++) {
        struct place *p = &rig->places[i / 2][i % 2];
        ranks_buffer_free(me, &p->buffer);
        free_device(me, rig, p->areas[DEVICE]);
        fine(me, rig, rig->dev->memory.free(p->areas[MANAGED]));
        fine(me, rig, rig->dev->memory.free_pinned(p->areas[PINNED]));
        fine(me, rig, rig->dev->memory.free_pinned(p->bounce));
    }
    ranks_buffer_free(me, &rig->expected);
    fine(me, rig, rig->dev->stream.destroy(rig->streams[0]));
}

/* All ranks are on one, or each has its own. */
static int device_of(const struct ranks_me *me)
{
    return me->context != NULL ? me->rank : 0;
}

static bool make_rig(struct ranks_me *me, struct rig *rig)
{
    bool good = ranks_ok(me, tt_dev_find(getenv("TUTTI_DEVICE_LIBRARY"), &rig->dev), "tt_dev_find");
    good = good && fine(me, rig, rig->dev->use(device_of(me)));
    good = good && fine(me, rig, rig->dev->stream.create(&rig->streams[0]));
    rig->streams[1] = NULL;
    rig->streams[2] = TT_DEV_STREAM_PER_THREAD;
    for (int i = 0; i < IN_FLIGHT * 2 && good; i++)
        good = make_place(me, rig, &rig->places[i / 2][i % 2]);
    good = good && ranks_buffer_create(me, &rig->expected, ROOM, false);
    if (good)
        ranks_buffer_place(&rig->expected, ROOM, 0);
    return good;
}

/* Which one was asked for, if one was. */
static void says_way(struct ranks_me *me, const tutti_comm *comm)
{
    const char *wanted = getenv("TUTTI_EXECUTOR");
    char answer[16] = "";
    const char *letter = wanted == NULL                ? answer
                         : strcmp(wanted, "host") == 0 ? "H"
                         : strcmp(wanted, "led") == 0  ? "W"
                                                       : "S";
    tutti_query(comm, "executor", answer, sizeof answer);
    ranks_expect(me, strcmp(answer, letter) == 0, "calls go by %s", answer);
}

static void walk(struct ranks_me *me)
{
    struct rig rig = { 0 };
    char options[128];
    snprintf(options, sizeof options, "slice=%d;first_number=4294967293;device=%d", SLICE, device_of(me));
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = 200000 };
    if (!make_rig(me, &rig) || (rig.comm = ranks_join(me, &config)) == NULL)
        return;
    ranks_expect(me, tutti_comm_device(rig.comm) == device_of(me), "device %d", tutti_comm_device(rig.comm));
    says_way(me, rig.comm);
    int indices[IN_FLIGHT], held = 0;
    for (int i = 0; i < ROWS * COLLECTIVES; i++) {
        if ((i + me->n) % PART != 0)
            continue;
        indices[held++] = i;
        if (held == IN_FLIGHT) {
            run_three(me, &rig, indices, held, (uint64_t)me->n);
            held = 0;
        }
        if (me->world->slots[me->rank].failures > 0)
            return;
    }
    ranks_part(me, rig.comm);
    free_rig(me, &rig);
}

static void run_with(const char *stub, int n, enum ranks_kind kind)
{
    setenv("STUB_GPU", stub, 1);
    setenv("TUTTI_DEVICE_LIBRARY", "tests/.libs/libtutti_stub.so", 0);
    ranks_run(&(struct ranks_plan){ .n = n, .kind = kind, .run = walk, .seed = (uint64_t)n, .limit_s = 100 });
}

static void run_processes(const char *stub)
{
    for (int n = 1; n <= 4; n++)
        run_with(stub, n, RANKS_PROCESSES);
}

static void run_threads(const char *stub)
{
    plugin_must_have_kernels();
    run_with(stub, 2, RANKS_TOGETHER);
    run_with(stub, 3, RANKS_THREADS);
    run_with(stub, 5, RANKS_THREADS);
}

Test(api_device, processes_8_queues)
{
    run_processes("queues=8");
}

Test(api_device, processes_2_queues)
{
    run_processes("queues=2,delay=30");
}

Test(api_device, processes_1_queue)
{
    run_processes("queues=1");
}

Test(api_device, threads_8_queues)
{
    run_threads("queues=8,delay=30");
}

Test(api_device, threads_2_queues)
{
    run_threads("queues=2");
}

Test(api_device, threads_1_queue)
{
    run_threads("queues=1");
}

/* Ranks of one process, which would else have kernels and copies that pass the host by. */
Test(api_device, threads_by_the_host)
{
    setenv("TUTTI_EXECUTOR", "host", 1);
    run_with("queues=1", 3, RANKS_THREADS);
    run_with("queues=8,delay=30", 2, RANKS_THREADS);
}

/* Collectives that one of the processes leads, and what it does not lead, by turns (device_led.h). */
Test(api_device, led_processes)
{
    plugin_must_have_kernels();
    setenv("TUTTI_EXECUTOR", "led", 1);
    run_with("queues=1,delay=30", 2, RANKS_PROCESSES);
    run_with("queues=2", 3, RANKS_PROCESSES);
    run_with("queues=8,delay=30", 3, RANKS_PROCESSES);
}

/* Collectives of kernels that meet, of ranks with a device each, and what they do not do, by turns
 * (lib/spin). Processes have the devices in common by a file, for without one several run there at once. */
static void run_each_on_its_own(const char *queues, int n, enum ranks_kind kind)
{
    static const bool own = true;
    char file[] = "/tmp/tutti-devices-XXXXXX", stub[96];
    plugin_must_be_stub();
    plugin_must_have_kernels();
    int fd = mkstemp(file);
    snprintf(stub, sizeof stub, "devices=%d,share=%s,%s", n, file, queues);
    setenv("STUB_GPU", stub, 1);
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    setenv("TUTTI_EXECUTOR", "spin", 1);
    ranks_run(&(struct ranks_plan){
        .n = n, .kind = kind, .run = walk, .context = &own, .seed = (uint64_t)n, .limit_s = 100 });
    close(fd);
    unlink(file);
}

Test(api_device, spinning_processes)
{
    run_each_on_its_own("queues=1", 2, RANKS_PROCESSES);
    run_each_on_its_own("queues=8,delay=30", 3, RANKS_PROCESSES);
}

Test(api_device, spinning_threads)
{
    run_each_on_its_own("queues=2", 3, RANKS_THREADS);
}
