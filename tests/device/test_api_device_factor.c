/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_factor.c: sums of vectors times a factor that a device has.
 *
 * Calls read it when the stream comes to them. So each round here writes the factors anew, in the order of
 * the stream, while calls with the older ones are still queued: who reads too early or too late, or another
 * call's, has a wrong sum. Vectors and factors are small whole numbers, which every type can sum exactly. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_rig.h"
#include "tests/rig/ranks_values.h"

TestSuite(api_device_factor, .timeout = 240);

enum { TYPES = 12, ON_HOST = 3, KINDS = 4, SCALAR_BYTES = 64 };
enum { FACTORS = 2 * AT_ONCE /* two of each round */ };

struct desk {
    struct graph_rig rig;
    uint8_t *scalars[KINDS]; /* device, managed, pinned: two factors in each */
    uint8_t *factors; /* pinned: what the stream writes there */
    int most; /* elements of a vector; else all that there is room for */
};

static bool sit_down(struct ranks_me *me, struct desk *d)
{
    void *memory[KINDS] = { 0 };
    if (!graph_rig_make(me, &d->rig) || !graph_rig_join(&d->rig))
        return false;
    const struct tt_dev *dev = d->rig.dev;
    bool good = graph_fine(&d->rig, dev->memory.alloc(SCALAR_BYTES, &memory[0])) &&
                graph_fine(&d->rig, dev->memory.alloc_managed(SCALAR_BYTES, &memory[1])) &&
                graph_fine(&d->rig, dev->memory.alloc_pinned(SCALAR_BYTES, &memory[2])) &&
                graph_fine(&d->rig, dev->memory.alloc_pinned(FACTORS * 8, &memory[ON_HOST]));
    for (int k = 0; k < ON_HOST; k++)
        d->scalars[k] = memory[k];
    d->factors = memory[ON_HOST];
    d->most = BYTES;
    return good;
}

static int length(const struct desk *d, tutti_type type)
{
    int room = BYTES / (int)tutti_type_bytes(type);
    return room < d->most ? room : d->most;
}

/* 1, 2 or 4, another one in each round; the second one of a round is another one, too. Three ranks sum to 7
 * at most, which float8 can hold. */
static int factor(int rank, int round, int which)
{
    return 1 << (rank + round + which) % 3;
}

static int value(int rank, int round, int i)
{
    return (i * 7 + rank * 5 + round) % 3 - 1;
}

static void store(tutti_type type, int number, void *dst)
{
    size_t bytes = tutti_type_bytes(type);
    int64_t whole = number;
    bool is_float = type == TUTTI_FLOAT16 || type == TUTTI_FLOAT32 || type >= TUTTI_FLOAT64;
    if (is_float)
        ranks_encode(type, number, dst);
    else
        memcpy(dst, &whole, bytes); /* little-endian */
}

static void give(const struct desk *d, tutti_type type, int round, int area, void *stream)
{
    uint8_t *from = (uint8_t *)d->rig.pinned[round % AT_ONCE][area];
    int bytes = (int)tutti_type_bytes(type);
    for (int i = 0; i < BYTES / bytes; i++)
        store(type, value(d->rig.me->rank, round, i), from + i * bytes);
    graph_fine(&d->rig, d->rig.dev->copy(d->rig.device[area], from, BYTES, stream));
}

static void set_factor(
    const struct desk *d, tutti_type type, int round, int which, uint8_t *scalar, void *stream)
{
    uint8_t *from = d->factors + (2 * (round % AT_ONCE) + which) * 8;
    store(type, factor(d->rig.me->rank, round, which), from);
    graph_fine(&d->rig, d->rig.dev->copy(scalar, from, tutti_type_bytes(type), stream));
}

static tutti_op scaled(const struct desk *d, tutti_type type, const void *scalar, int on_device)
{
    tutti_op op = 0;
    ranks_ok(d->rig.me, tutti_op_create_pre_mul_sum(d->rig.comm, scalar, type, on_device, &op),
        "op_create_pre_mul_sum");
    return op;
}

/* `count` elements from the first-th one on are the sum of what all gave in that round. */
static bool check(const struct desk *d, tutti_type type, int round, int which, int area, int first, int count)
{
    struct ranks_me *me = d->rig.me;
    int bytes = (int)tutti_type_bytes(type);
    const uint8_t *got = (const uint8_t *)d->rig.pinned[round % AT_ONCE][area];
    for (int i = 0; i < count; i++) {
        uint8_t expected[8];
        int sum = 0;
        for (int r = 0; r < me->n; r++)
            sum += factor(r, round, which) * value(r, round, first + i);
        store(type, sum, expected);
        if (memcmp(got + i * bytes, expected, (size_t)bytes) != 0)
            return ranks_expect(me, false, "round %d, area %d: element %d of %s is wrong, expected %d", round,
                area, i, ranks_type_name(type), sum);
    }
    return true;
}

/* --- Every type, with factors in memory of each kind and in the operator, differently on each rank; the
 * operator is destroyed as soon as the call is made. */

enum shape { ALL_REDUCE, REDUCE, REDUCE_SCATTER, SHAPES };

static void enqueue(struct desk *d, tutti_type type, int round)
{
    const struct graph_rig *rig = &d->rig;
    void *stream = rig->streams[0];
    int kind = (round + rig->me->rank) % KINDS, count = length(d, type), n = rig->me->n;
    bool in_place = round / SHAPES % 2 == 1;
    uint8_t own[8], *scalar = kind == ON_HOST ? own : d->scalars[kind];
    void *send = rig->device[GIVEN], *recv = in_place ? send : rig->device[REDUCED];
    tutti_stream on = tutti_cuda_stream(stream);
    give(d, type, round, GIVEN, stream);
    if (kind == ON_HOST)
        store(type, factor(rig->me->rank, round, 0), own);
    else
        set_factor(d, type, round, 0, scalar, stream);
    tutti_op op = scaled(d, type, scalar, kind != ON_HOST);
    if (round % SHAPES == ALL_REDUCE)
        ranks_ok(rig->me, tutti_all_reduce(send, recv, (size_t)count, type, op, rig->comm, on), "all_reduce");
    else if (round % SHAPES == REDUCE)
        ranks_ok(
            rig->me, tutti_reduce(send, recv, (size_t)count, type, op, round % n, rig->comm, on), "reduce");
    else {
        size_t block = (size_t)(count / n), bytes = block * tutti_type_bytes(type);
        recv = in_place ? (uint8_t *)send + (size_t)rig->me->rank * bytes : recv;
        ranks_ok(rig->me, tutti_reduce_scatter(send, recv, block, type, op, rig->comm, on), "reduce_scatter");
    }
    ranks_ok(rig->me, tutti_op_destroy(rig->comm, op), "op_destroy");
    memset(own, 0x55, sizeof own);
    size_t from = (size_t)((uint8_t *)recv - (uint8_t *)(in_place ? send : rig->device[REDUCED]));
    graph_fine(rig, rig->dev->copy(rig->pinned[round % AT_ONCE][REDUCED], recv, BYTES - from, stream));
}

static void check_round(const struct desk *d, tutti_type type, int round)
{
    int n = d->rig.me->n, rank = d->rig.me->rank, count = length(d, type);
    if (round % SHAPES == REDUCE_SCATTER)
        check(d, type, round, 0, REDUCED, rank * (count / n), count / n);
    else if (round % SHAPES == ALL_REDUCE || round % n == rank)
        check(d, type, round, 0, REDUCED, 0, count);
}

static void all_types(struct ranks_me *me)
{
    struct desk d;
    if (!sit_down(me, &d))
        return;
    for (int t = 0; t < TYPES && me->world->slots[me->rank].failures == 0; t++) {
        ranks_at(me, "%s", ranks_type_name((tutti_type)t));
        for (int round = t * AT_ONCE; round < (t + 1) * AT_ONCE; round++)
            enqueue(&d, (tutti_type)t, round);
        graph_settle(&d.rig);
        for (int round = t * AT_ONCE; round < (t + 1) * AT_ONCE; round++)
            check_round(&d, (tutti_type)t, round);
    }
    ranks_part(me, d.rig.comm);
}

Test(api_device_factor, types)
{
    graph_run({ "queues=8", 1, RANKS_PROCESSES, all_types, NULL, 0 },
        { "queues=8,copy_delay=200,one_address=0", 2, RANKS_PROCESSES, all_types, NULL, 0 },
        { "queues=1", 3, RANKS_PROCESSES, all_types, NULL, 0 },
        { "queues=2,devices=3", 3, RANKS_THREADS, all_types, NULL, 0 });
}

/* By kernels of the one that leads. */
Test(api_device_factor, of_ranks_that_are_led)
{
    setenv("TUTTI_EXECUTOR", "led", 1);
    graph_run({ "queues=2,copy_delay=200,one_address=0", 2, RANKS_PROCESSES, all_types, NULL, 0 },
        { "queues=1", 3, RANKS_PROCESSES, all_types, NULL, 0 });
}

/* Nothing, less than a block for each rank, and what no rank's share of is even; more ranks than cores. */
static void few_elements(struct ranks_me *me)
{
    static const int lengths[] = { 0, 1, 2, 4, 7, 0 };
    struct desk d;
    if (!sit_down(me, &d))
        return;
    for (int round = 0; round < 18 * SHAPES; round += AT_ONCE) {
        d.most = lengths[round / AT_ONCE % 6];
        for (int k = 0; k < AT_ONCE; k++)
            enqueue(&d, TUTTI_INT32, round + k);
        graph_settle(&d.rig);
        for (int k = 0; k < AT_ONCE; k++)
            check_round(&d, TUTTI_INT32, round + k);
    }
    ranks_part(me, d.rig.comm);
}

Test(api_device_factor, few_elements)
{
    graph_run({ "queues=8", 1, RANKS_PROCESSES, few_elements, NULL, 0 },
        { "queues=1", 3, RANKS_PROCESSES, few_elements, NULL, 0 },
        { "queues=2,copy_delay=100", 5, RANKS_PROCESSES, few_elements, NULL, 0 });
}

/* --- Groups and programs: two calls with factors of their own, each written on the call's own stream. */

static void set_both(struct desk *d, int round)
{
    for (int k = 0; k < 4; k++) /* so that the second stream comes late */
        graph_fine(&d->rig,
            d->rig.dev->copy(d->rig.device[EAGER], d->rig.pinned[0][EAGER], BYTES, d->rig.streams[1]));
    for (int which = 0; which < 2; which++) {
        int area = which == 0 ? GIVEN : RECEIVED;
        give(d, TUTTI_INT32, round, area, d->rig.streams[which]);
        set_factor(d, TUTTI_INT32, round, which, d->scalars[0] + 8 * which, d->rig.streams[which]);
    }
}

static void call_both(const struct desk *d, const tutti_op *ops)
{
    uint32_t *const *device = d->rig.device;
    tutti_all_reduce(device[GIVEN], device[REDUCED], COUNT, TUTTI_INT32, ops[0], d->rig.comm,
        tutti_cuda_stream(d->rig.streams[0]));
    tutti_all_reduce(device[RECEIVED], device[GATHERED], COUNT, TUTTI_INT32, ops[1], d->rig.comm,
        tutti_cuda_stream(d->rig.streams[1]));
}

static void check_both(const struct desk *d, int round)
{
    graph_fetch(&d->rig, round, REDUCED, d->rig.streams[0]);
    graph_fetch(&d->rig, round, GATHERED, d->rig.streams[1]);
    graph_settle(&d->rig);
    check(d, TUTTI_INT32, round, 0, REDUCED, 0, COUNT);
    check(d, TUTTI_INT32, round, 1, GATHERED, 0, COUNT);
}

static void call_together(struct ranks_me *me)
{
    struct desk d;
    tutti_program *program = NULL;
    if (!sit_down(me, &d))
        return;
    const tutti_op ops[] = { scaled(&d, TUTTI_INT32, d.scalars[0], 1),
        scaled(&d, TUTTI_INT32, d.scalars[0] + 8, 1) };
    ranks_ok(me, tutti_group_start(), "group_start");
    call_both(&d, ops);
    ranks_ok(me, tutti_group_keep(&program), "group_keep");
    for (int round = 0; round < 20 && me->world->slots[me->rank].failures == 0; round++) {
        ranks_at(me, "round %d", round);
        set_both(&d, round);
        if (round % 2 == 0) {
            ranks_ok(me, tutti_program_start(program), "program_start");
        } else {
            ranks_ok(me, tutti_group_start(), "group_start");
            call_both(&d, ops);
            ranks_ok(me, tutti_group_end(), "group_end");
        }
        check_both(&d, round);
    }
    ranks_ok(me, tutti_program_destroy(program), "program_destroy");
    ranks_part(me, d.rig.comm);
}

Test(api_device_factor, groups_and_programs)
{
    graph_run({ "queues=8,copy_delay=2000", 2, RANKS_PROCESSES, call_together, NULL, 0 },
        { "queues=1,devices=3", 3, RANKS_THREADS, call_together, NULL, 0 });
}

/* --- Graphs: every replay reads the factor, and so does a call between replays, whose factor is another
 * one. */

static void replay(struct ranks_me *me)
{
    struct desk d;
    if (!sit_down(me, &d))
        return;
    const struct graph_rig *rig = &d.rig;
    void *stream = rig->streams[0];
    tutti_op op = scaled(&d, TUTTI_INT32, d.scalars[0], 1);
    tutti_op other = scaled(&d, TUTTI_INT32, d.scalars[1] + 8, 1);
    ranks_meet(me); /* what another thread does before or after would break the capture */
    graph_fine(rig, rig->dev->graph.capture_begin(stream));
    ranks_ok(me,
        tutti_all_reduce(rig->device[GIVEN], rig->device[REDUCED], COUNT, TUTTI_INT32, op, rig->comm,
            tutti_cuda_stream(stream)),
        "all_reduce");
    void *runnable = graph_capture_end(rig, stream);
    ranks_meet(me);
    ranks_ok(me, tutti_op_destroy(rig->comm, op), "op_destroy");
    for (int round = 0; round < 10 * AT_ONCE && me->world->slots[me->rank].failures == 0; round++) {
        ranks_at(me, "round %d", round);
        give(&d, TUTTI_INT32, round, GIVEN, stream);
        set_factor(&d, TUTTI_INT32, round, 0, d.scalars[0], stream);
        set_factor(&d, TUTTI_INT32, round, 1, d.scalars[1] + 8, stream);
        graph_fine(rig, rig->dev->graph.launch(runnable, stream));
        ranks_ok(me,
            tutti_all_reduce(rig->device[GIVEN], rig->device[EAGER], COUNT, TUTTI_INT32, other, rig->comm,
                tutti_cuda_stream(stream)),
            "all_reduce");
        graph_fetch(rig, round, REDUCED, stream);
        graph_fetch(rig, round, EAGER, stream);
        if ((round + 1) % AT_ONCE > 0)
            continue;
        graph_settle(rig);
        for (int k = round + 1 - AT_ONCE; k <= round; k++) {
            check(&d, TUTTI_INT32, k, 0, REDUCED, 0, COUNT);
            check(&d, TUTTI_INT32, k, 1, EAGER, 0, COUNT);
        }
    }
    graph_fine(rig, rig->dev->graph.runnable_destroy(runnable));
    ranks_part(me, rig->comm);
}

Test(api_device_factor, graphs)
{
    graph_run({ "queues=8,copy_delay=200", 2, RANKS_PROCESSES, replay, NULL, 0 },
        { "queues=2", 3, RANKS_PROCESSES, replay, NULL, 0 },
        { "queues=1,devices=2", 2, RANKS_THREADS, replay, NULL, 0 });
}

/* --- Wrong. The communicator goes on. */

static void refuse_calls(const struct desk *d, tutti_op op)
{
    struct ranks_me *me = d->rig.me;
    uint32_t *pinned = d->rig.pinned[0][GIVEN];
    tutti_stream host;
    ranks_refused(me, tutti_all_reduce(pinned, pinned, 4, TUTTI_INT32, op, d->rig.comm, tutti_no_stream()),
        TUTTI_INVALID_ARGUMENT, "without a stream", "scalar of the pre-mul-sum|no CUDA stream|on_device 0");
    ranks_ok(me, tutti_stream_create(&host), "stream_create");
    ranks_refused(me, tutti_all_reduce(pinned, pinned, 4, TUTTI_INT32, op, d->rig.comm, host),
        TUTTI_INVALID_ARGUMENT, "on a host stream", "scalar of the pre-mul-sum|no CUDA stream");
    ranks_ok(me, tutti_stream_destroy(host), "stream_destroy");
}

/* The memory goes before the operator: a call says so, alone and in a group. */
static void refuse_freed(const struct desk *d)
{
    struct ranks_me *me = d->rig.me;
    tutti_stream on = tutti_cuda_stream(d->rig.streams[0]);
    void *memory = NULL;
    uint32_t *pinned = d->rig.pinned[0][GIVEN];
    graph_fine(&d->rig, d->rig.dev->memory.alloc(4, &memory));
    tutti_op op = 77, gone = scaled(d, TUTTI_INT32, memory, 1);
    ranks_refused(me, tutti_op_create_pre_mul_sum(d->rig.comm, memory, TUTTI_INT64, 1, &op),
        TUTTI_INVALID_ARGUMENT, "half a factor", "scalar|needs 8 bytes|ends after 4");
    graph_fine(&d->rig, d->rig.dev->memory.free(memory));
    ranks_refused(me, tutti_all_reduce(pinned, pinned, 4, TUTTI_INT32, gone, d->rig.comm, on),
        TUTTI_INVALID_ARGUMENT, "freed", "all_reduce|scalar of the pre-mul-sum|freed");
    ranks_ok(me, tutti_group_start(), "group_start");
    tutti_all_reduce(pinned, pinned, 4, TUTTI_INT32, TUTTI_SUM, d->rig.comm, on);
    tutti_all_reduce(pinned, pinned, 4, TUTTI_INT32, gone, d->rig.comm, on);
    ranks_refused(me, tutti_group_end(), TUTTI_INVALID_ARGUMENT, "freed, in a group", "all_reduce|freed");
    ranks_expect(me, op == 77, "op was set by a failure");
}

static void wrong(struct ranks_me *me)
{
    struct desk d;
    int32_t plain = 2;
    tutti_op op = 77;
    void *elsewhere = NULL;
    if (!sit_down(me, &d))
        return;
    tutti_comm *comm = d.rig.comm;
    ranks_refused(me, tutti_op_create_pre_mul_sum(comm, d.scalars[0], TUTTI_INT32, 2, &op),
        TUTTI_INVALID_ARGUMENT, "on_device 2", "on_device is 2|0|1");
    ranks_refused(me, tutti_op_create_pre_mul_sum(comm, &plain, TUTTI_INT32, 1, &op), TUTTI_INVALID_ARGUMENT,
        "ordinary memory", "scalar|ordinary memory|device 0|managed or pinned");
    graph_fine(&d.rig, d.rig.dev->use(1));
    graph_fine(&d.rig, d.rig.dev->memory.alloc(8, &elsewhere));
    graph_fine(&d.rig, d.rig.dev->use(0));
    ranks_refused(me, tutti_op_create_pre_mul_sum(comm, elsewhere, TUTTI_INT32, 1, &op),
        TUTTI_INVALID_ARGUMENT, "of another device", "scalar|device 1|communicator's, 0");
    ranks_expect(me, op == 77, "op was set by a failure");
    op = scaled(&d, TUTTI_INT32, d.scalars[2], 1);
    refuse_calls(&d, op);
    refuse_freed(&d);
    give(&d, TUTTI_INT32, 0, GIVEN, d.rig.streams[0]);
    set_factor(&d, TUTTI_INT32, 0, 0, d.scalars[2], d.rig.streams[0]);
    ranks_ok(me,
        tutti_all_reduce(d.rig.device[GIVEN], d.rig.device[REDUCED], COUNT, TUTTI_INT32, op, comm,
            tutti_cuda_stream(d.rig.streams[0])),
        "all_reduce");
    graph_fetch(&d.rig, 0, REDUCED, d.rig.streams[0]);
    graph_settle(&d.rig);
    check(&d, TUTTI_INT32, 0, 0, REDUCED, 0, COUNT);
    ranks_part(me, comm);
}

static void no_device(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "device=none" };
    tutti_comm *comm = ranks_join(me, &config);
    float plain = 2;
    tutti_op op = 77;
    if (comm == NULL)
        return;
    ranks_refused(me, tutti_op_create_pre_mul_sum(comm, &plain, TUTTI_FLOAT32, 1, &op), TUTTI_UNSUPPORTED,
        "no device", "on_device is 1|no device|device is none");
    ranks_expect(me, op == 77, "op was set by a failure");
    ranks_part(me, comm);
}

Test(api_device_factor, wrong)
{
    graph_run({ "queues=8,devices=2", 2, RANKS_PROCESSES, wrong, NULL, 0 },
        { "queues=8", 2, RANKS_PROCESSES, no_device, NULL, 0 });
}
