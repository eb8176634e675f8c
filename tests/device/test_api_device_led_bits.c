/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_led_bits.c: what a leader's kernels do for ranks of several processes has the bits of the
 * host's executor, whatever the call is, and wherever each rank has its operands and wants its results.
 *
 * All ranks draw the same calls, and each its own kinds of memory. Three calls are enqueued back to back,
 * with what fills their buffers and what fetches the results; then the same on a communicator of the same
 * ranks whose calls the host runs. Operands are any bits; both ways must leave the same ones behind, also
 * where nothing should be stored. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "led_rig.h"
#include "tests/rig/matrix_case.h"

TestSuite(api_device_led_bits, .timeout = 240);

enum { LANES = 3, ROOM = 3 * LED_SLICE + 8192, TYPES = 12 };
enum kind { ORDINARY, PINNED, MANAGED, DEVICE, KINDS };
enum way { LED, HOST, WAYS };

/* Where the device memory of ranks is that the leader's process has not: in cells; in pads, if those cost
 * nothing; or where it lies, at ranks that register it, which every second one does. */
static enum { IN_CELLS, IN_PADS, REGISTERED } places;
static const char costs[] = "cost cells_call 1000000\ncost pads_call 0\n";
static char rules[] = "/tmp/tutti-led-XXXXXX";

struct buffer { /* of one side of a call */
    uint8_t *areas[KINDS];
    uint8_t *bounce; /* pinned: on its way to and from other memory */
    uint8_t *given, *left; /* what it held, and what is there after the call was led */
    enum kind kind;
};

struct lane { /* a call under way */
    struct matrix_case call;
    struct buffer buffers[SIDES];
    bool served; /* by a leader's kernel */
    bool scaled, on_device; /* by this rank's factor, which the host has, or the device */
    uint8_t factor[8];
};

struct table { /* of a rank */
    struct local_desk desk;
    tutti_comm *comms[WAYS];
    void *streams[2];
    struct lane lanes[LANES];
    uint8_t *factors; /* of the device: one each for the types, as bits */
};

/* --- What there is */

static bool make_buffer(struct local_desk *d, struct buffer *b)
{
    void *memory[3] = { 0 }, *bounce = NULL;
    bool good = local_fine(d, d->dev->memory.alloc(ROOM, &memory[0])) &&
                local_fine(d, d->dev->memory.alloc_managed(ROOM, &memory[1])) &&
                local_fine(d, d->dev->memory.alloc_pinned(ROOM, &memory[2])) &&
                local_fine(d, d->dev->memory.alloc_pinned(ROOM, &bounce));
    *b = (struct buffer){ .areas = { [DEVICE] = memory[0], [MANAGED] = memory[1], [PINNED] = memory[2] },
        .bounce = bounce,
        .given = calloc(1, ROOM),
        .left = calloc(1, ROOM) };
    b->areas[ORDINARY] = aligned_alloc(64, ROOM);
    return good;
}

static void hand_over(struct ranks_me *me, struct table *t)
{
    tutti_registration *registration;
    for (int i = 0; i < LANES * SIDES && places == REGISTERED && me->rank % 2 == 1; i++)
        ranks_ok(me,
            tutti_mem_register(
                t->comms[LED], t->lanes[i / SIDES].buffers[i % SIDES].areas[DEVICE], ROOM, &registration),
            "mem_register");
}

static bool sit_down(struct ranks_me *me, struct table *t)
{
    char options[160];
    void *memory = NULL;
    const char *exact = me->context;
    bool good = local_prepare(me, &t->desk);
    t->streams[0] = t->desk.stream;
    good = good && local_fine(&t->desk, t->desk.dev->stream.create(&t->streams[1])) &&
           local_fine(&t->desk, t->desk.dev->memory.alloc(TYPES * 8, &memory));
    t->factors = memory;
    for (int i = 0; i < LANES * SIDES && good; i++)
        good = make_buffer(&t->desk, &t->lanes[i / SIDES].buffers[i % SIDES]);
    snprintf(options, sizeof options, ";executor=led;device_pad=512K%s%s%s", exact,
        places == IN_PADS ? ";rules=" : "", places == IN_PADS ? rules : "");
    good = good && (t->comms[LED] = led_join(me, options, LED_LONG_MS)) != NULL;
    if (good)
        hand_over(me, t);
    snprintf(options, sizeof options,
        ";executor=host;algo=all_reduce:direct,reduce:direct,reduce_scatter:direct%s", exact);
    return good && (t->comms[HOST] = led_join(me, options, LED_LONG_MS)) != NULL;
}

/* --- Which calls */

static tutti_op draw_op(uint64_t *random, tutti_type type)
{
    static const tutti_op ops[] = { TUTTI_SUM, TUTTI_PROD, TUTTI_MAX, TUTTI_MIN, TUTTI_AVG, TUTTI_BIT_AND,
        TUTTI_BIT_OR, TUTTI_BIT_XOR };
    bool whole = type <= TUTTI_UINT64;
    return ops[ranks_below(random, whole ? 8 : 5)];
}

/* The same at all ranks. Vectors end in the middle of a slice, or are longer than three. */
static void draw(struct lane *l, const struct ranks_me *me, int index)
{
    static const enum matrix_collective collectives[] = { ALL_REDUCE, REDUCE_SCATTER, REDUCE, ALL_GATHER,
        BROADCAST, ALL_TO_ALL, GATHER, SCATTER };
    struct matrix_case *c = &l->call;
    uint64_t random = ranks_mix((uint64_t)index * 977 + (uint64_t)me->n);
    *c = (struct matrix_case){ .collective = collectives[index % 8], .n = me->n, .rank = me->rank };
    c->vector.n = me->n;
    c->vector.type = (tutti_type)ranks_below(&random, TYPES);
    c->vector.op = draw_op(&random, c->vector.type);
    const struct matrix_shape *shape = &matrix_shapes[c->collective];
    size_t n = (size_t)me->n, bytes = tutti_type_bytes(c->vector.type);
    size_t blocks = shape->send == HOLDS_ALL || shape->recv == HOLDS_ALL ? n : 1;
    size_t slice = LED_SLICE / bytes / blocks;
    const size_t counts[] = { 0, 1, 3, 77, slice, slice + 1, 2 * slice - 5, 3 * slice + 29 };
    c->count = counts[ranks_below(&random, 8)];
    c->root = (int)ranks_below(&random, (uint32_t)n);
    c->in_place = ranks_below(&random, 2);
    c->offset = ranks_below(&random, 2) * bytes;
    c->vector.seed = ranks_random(&random);
    l->scaled = shape->reduces && ranks_below(&random, 3) == 0;
    l->served = c->count > 0 && !(c->collective == ALL_TO_ALL && c->count * bytes * n > LED_SLICE);
    matrix_cut(c);
}

static void say(struct ranks_me *me, const struct lane *l, const char *doing)
{
    const struct matrix_case *c = &l->call;
    ranks_at(me, "n %d rank %d, %s %s of %zu %s, %s%s, root %d, offset %zu, memory %d and %d, %s", c->n,
        c->rank, doing, matrix_shapes[c->collective].name, c->count, ranks_type_name(c->vector.type),
        ranks_op_name(c->vector.op), l->scaled ? ", of factors" : "", c->root, c->offset,
        l->buffers[SENT].kind, l->buffers[RECEIVED].kind, c->in_place ? "in place" : "out of place");
}

/* Where in its buffer a side begins: in place both have one, and the shorter is a block of the longer. */
static size_t begin_of(const struct matrix_case *c, int side)
{
    const struct matrix_shape *shape = &matrix_shapes[c->collective];
    const struct matrix_side *other = &c->sides[1 - side];
    uint8_t holds = side == SENT ? shape->send : shape->recv;
    bool within = c->in_place && holds == HOLDS_OWN && other->blocks == c->n;
    size_t bytes = tutti_type_bytes(c->vector.type);
    return RANKS_GUARD + c->offset + (within ? (size_t)c->rank * c->count * bytes : 0);
}

/* --- Both ways */

static struct buffer *buffer_of(struct lane *l, int side)
{
    return &l->buffers[l->call.in_place ? RECEIVED : side];
}

static void enqueue(struct table *t, struct lane *l, enum way way, void *stream)
{
    struct local_desk *d = &t->desk;
    struct matrix_case c = l->call;
    tutti_op op = c.vector.op;
    c.stream = tutti_cuda_stream(stream);
    for (int side = 0; side < SIDES; side++) {
        struct buffer *b = &l->buffers[side];
        memcpy(b->bounce, b->given, ROOM);
        if (b->kind == ORDINARY)
            memcpy(b->areas[ORDINARY], b->given, ROOM);
        else
            local_fine(d, d->dev->copy(b->areas[b->kind], b->bounce, ROOM, stream));
        b = buffer_of(l, side);
        c.sides[side].data = b->areas[b->kind] + begin_of(&c, side);
    }
    const uint8_t *scalar = l->on_device ? t->factors + 8 * c.vector.type : l->factor;
    if (l->scaled)
        ranks_ok(d->me, tutti_op_create_pre_mul_sum(t->comms[way], scalar, c.vector.type, l->on_device, &op),
            "pre_mul_sum");
    c.vector.op = op;
    ranks_ok(d->me, matrix_call(&c, t->comms[way]), matrix_shapes[c.collective].name);
    for (int side = 0; side < SIDES; side++) {
        struct buffer *b = &l->buffers[side];
        if (b->kind != ORDINARY)
            local_fine(d, d->dev->copy(b->bounce, b->areas[b->kind], ROOM, stream));
    }
    if (l->scaled)
        ranks_ok(d->me, tutti_op_destroy(t->comms[way], op), "op_destroy");
}

static void look(struct table *t, struct lane *l, enum way way)
{
    for (int side = 0; side < SIDES; side++) {
        struct buffer *b = &l->buffers[side];
        const uint8_t *got = b->kind == ORDINARY ? b->areas[ORDINARY] : b->bounce;
        if (way == LED)
            memcpy(b->left, got, ROOM);
        for (size_t i = 0; way == HOST && i < ROOM; i++)
            if (!ranks_expect(t->desk.me, got[i] == b->left[i],
                    "byte %lld of %s is 0x%02x, and 0x%02x by the host",
                    (long long)(i - begin_of(&l->call, side)), side == SENT ? "send" : "recv", b->left[i],
                    got[i]))
                return;
    }
}

static void run(struct table *t, enum way way, uint64_t *random)
{
    struct local_desk *d = &t->desk;
    uint64_t launches = d->stub->calls("launch");
    int served = 0;
    for (int i = 0; i < LANES; i++) {
        say(d->me, &t->lanes[i], way == LED ? "leading" : "running");
        ranks_delay(d->me, 100);
        enqueue(t, &t->lanes[i], way, t->streams[ranks_below(random, 2)]);
        served += way == LED && t->lanes[i].served;
    }
    for (int s = 0; s < 2; s++)
        local_fine(d, d->dev->stream.sync(t->streams[s]));
    bool all = d->stub->calls("launch") >= launches + (uint64_t)served;
    bool none = served > 0 || d->stub->calls("launch") == launches;
    ranks_expect(d->me, !led_leads(d) || (all && none), "%llu kernels for %d calls",
        (unsigned long long)(d->stub->calls("launch") - launches), served);
    for (int i = 0; i < LANES; i++) {
        say(d->me, &t->lanes[i], "after");
        look(t, &t->lanes[i], way);
    }
    ranks_meet(d->me); /* the leader counts its own */
}

/* What this rank alone decides. */
static void choose(struct table *t, struct lane *l)
{
    struct ranks_me *me = t->desk.me;
    for (int side = 0; side < SIDES; side++) {
        struct buffer *b = &l->buffers[side];
        b->kind = (enum kind)ranks_below(&me->random, KINDS);
        for (size_t i = 0; i < ROOM; i += 8) {
            uint64_t bits = ranks_random(&me->random);
            memcpy(b->given + i, &bits, 8);
        }
    }
    l->on_device = ranks_below(&me->random, 2);
    memset(l->factor, 0, sizeof l->factor);
    if (l->call.vector.type <= TUTTI_UINT64)
        l->factor[0] = (uint8_t)(2 + me->rank);
    else
        ranks_encode(l->call.vector.type, 1 + (double)(me->rank % 3) / 2, l->factor);
}

static bool somebody_failed(const struct ranks_me *me)
{
    for (int r = 0; r < me->n; r++)
        if (atomic_load(&me->world->slots[r].failures) > 0)
            return true;
    return false;
}

static void compare(struct ranks_me *me)
{
    static const int parts[RANKS_MAX + 1] = { [2] = 72, [3] = 72, [4] = 48, [8] = 24 };
    struct table *t = calloc(1, sizeof *t);
    if (t == NULL || !sit_down(me, t))
        return;
    local_fine(&t->desk, t->desk.dev->fill(t->factors, 0x3c, TYPES * 8, t->streams[0]));
    local_settle(&t->desk);
    uint64_t random = 5; /* the same at all ranks, so that neither stream waits for the other's peers */
    for (int i = 0; i < parts[me->n] && !somebody_failed(me); i += LANES) {
        for (int k = 0; k < LANES; k++) {
            draw(&t->lanes[k], me, i + k);
            choose(t, &t->lanes[k]);
        }
        run(t, LED, &random);
        run(t, HOST, &random);
        ranks_meet(me);
    }
    ranks_part(me, t->comms[LED]);
    ranks_part(me, t->comms[HOST]);
}

Test(api_device_led_bits, processes)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, compare, "", 0 }, { "queues=1", 3, 0, compare, "", 0 },
        { "queues=2", 4, 0, compare, "", 0 }, { "queues=8", 8, 0, compare, "", 0 });
}

Test(api_device_led_bits, exact_sums)
{
    plugin_must_be_stub();
    led_run({ "queues=2", 3, 0, compare, ";exact=on", 0 }, { "queues=8", 4, 0, compare, ";exact=on", 0 });
}

Test(api_device_led_bits, several_ranks_of_each_process)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 4, 2, compare, "", 0 }, { "queues=1", 3, 2, compare, "", 0 },
        { "queues=2", 8, 3, compare, ";exact=on", 0 });
}

Test(api_device_led_bits, in_pads)
{
    plugin_must_be_stub();
    places = IN_PADS;
    int file = mkstemp(rules);
    cr_assert_eq(write(file, costs, sizeof costs - 1), (ssize_t)sizeof costs - 1);
    led_run({ "queues=8", 2, 0, compare, "", 0 }, { "queues=1", 4, 2, compare, "", 0 });
    close(file);
    unlink(rules);
}

Test(api_device_led_bits, registered)
{
    plugin_must_be_stub();
    places = REGISTERED;
    led_run({ "queues=8", 2, 0, compare, "", 0 }, { "queues=2", 4, 0, compare, "", 0 });
}
