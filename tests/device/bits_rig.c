/* SPDX-License-Identifier: BSD-3-Clause */
/* bits_rig.c: drawing calls, and making them both ways. */
#include "bits_rig.h"

#include <stdlib.h>
#include <string.h>

/* --- What there is */

static bool make_buffer(struct local_desk *d, struct bits_buffer *b, size_t room, bool given)
{
    void *memory[3] = { 0 }, *bounce = NULL;
    bool good = (given ? ranks_ok(d->me, tutti_mem_alloc(room, TUTTI_MEM_CUDA, &memory[0]), "mem_alloc")
                       : local_fine(d, d->dev->memory.alloc(room, &memory[0]))) &&
                local_fine(d, d->dev->memory.alloc_managed(room, &memory[1])) &&
                local_fine(d, d->dev->memory.alloc_pinned(room, &memory[2])) &&
                local_fine(d, d->dev->memory.alloc_pinned(room, &bounce));
    *b = (struct bits_buffer){
        .areas = { [BITS_DEVICE] = memory[0], [BITS_MANAGED] = memory[1], [BITS_PINNED] = memory[2] },
        .bounce = bounce,
        .given = calloc(1, room),
        .left = calloc(1, room)
    };
    b->areas[BITS_ORDINARY] = aligned_alloc(64, room);
    return good;
}

static bool sit_down(struct ranks_me *me, const struct bits_plan *plan, struct bits_table *t)
{
    void *memory = NULL;
    bool good = plan->prepare(me, &t->desk);
    t->streams[0] = t->desk.stream;
    good = good && local_fine(&t->desk, t->desk.dev->stream.create(&t->streams[1])) &&
           local_fine(&t->desk, t->desk.dev->memory.alloc(BITS_TYPES * 8, &memory));
    t->factors = memory;
    for (int i = 0; i < BITS_LANES * SIDES && good; i++)
        good = make_buffer(&t->desk, &t->lanes[i / SIDES].buffers[i % SIDES], plan->room, plan->given);
    return good && plan->join(me, t);
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
static void draw(const struct bits_plan *plan, struct bits_lane *l, const struct ranks_me *me, int index)
{
    struct matrix_case *c = &l->call;
    uint64_t random = ranks_mix((uint64_t)index * 977 + (uint64_t)me->n);
    *c = (struct matrix_case){
        .collective = plan->collectives[index % plan->ncollectives], .n = me->n, .rank = me->rank
    };
    c->vector.n = me->n;
    c->vector.type = (tutti_type)ranks_below(&random, BITS_TYPES);
    c->vector.op = draw_op(&random, c->vector.type);
    const struct matrix_shape *shape = &matrix_shapes[c->collective];
    size_t n = (size_t)me->n, bytes = tutti_type_bytes(c->vector.type);
    size_t blocks = shape->send == HOLDS_ALL || shape->recv == HOLDS_ALL ? n : 1;
    size_t slice = plan->piece / bytes / blocks;
    const size_t counts[] = { 0, 1, 3, 77, slice, slice + 1, 2 * slice - 5, 3 * slice + 29 };
    c->count = counts[ranks_below(&random, 8)];
    c->root = (int)ranks_below(&random, (uint32_t)n);
    c->in_place = ranks_below(&random, 2);
    c->offset = ranks_below(&random, 2) * bytes;
    c->vector.seed = ranks_random(&random);
    l->scaled = shape->reduces && ranks_below(&random, 3) == 0;
    matrix_cut(c);
    l->served = plan->serves(c);
}

static void say(struct ranks_me *me, const struct bits_lane *l, const char *doing)
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
    return RANKS_GUARD + c->offset + (within ? other->displs[c->rank] * bytes : 0);
}

/* --- Both ways */

static struct bits_buffer *buffer_of(struct bits_lane *l, int side)
{
    return &l->buffers[l->call.in_place ? RECEIVED : side];
}

static void enqueue(
    const struct bits_plan *plan, struct bits_table *t, struct bits_lane *l, enum bits_way way, void *stream)
{
    struct local_desk *d = &t->desk;
    struct matrix_case c = l->call;
    tutti_op op = c.vector.op;
    c.stream = tutti_cuda_stream(stream);
    for (int side = 0; side < SIDES; side++) {
        struct bits_buffer *b = &l->buffers[side];
        memcpy(b->bounce, b->given, plan->room);
        if (b->kind == BITS_ORDINARY)
            memcpy(b->areas[BITS_ORDINARY], b->given, plan->room);
        else
            local_fine(d, d->dev->copy(b->areas[b->kind], b->bounce, plan->room, stream));
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
        struct bits_buffer *b = &l->buffers[side];
        if (b->kind != BITS_ORDINARY)
            local_fine(d, d->dev->copy(b->bounce, b->areas[b->kind], plan->room, stream));
    }
    if (l->scaled)
        ranks_ok(d->me, tutti_op_destroy(t->comms[way], op), "op_destroy");
}

static void look(const struct bits_plan *plan, struct bits_table *t, struct bits_lane *l, enum bits_way way)
{
    for (int side = 0; side < SIDES; side++) {
        struct bits_buffer *b = &l->buffers[side];
        const uint8_t *got = b->kind == BITS_ORDINARY ? b->areas[BITS_ORDINARY] : b->bounce;
        if (way == BITS_KERNELS)
            memcpy(b->left, got, plan->room);
        if (memcmp(got, b->left, plan->room) == 0)
            continue;
        for (size_t i = 0; way == BITS_HOST && i < plan->room; i++)
            if (!ranks_expect(t->desk.me, got[i] == b->left[i],
                    "byte %lld of %s is 0x%02x, and 0x%02x by the host",
                    (long long)(i - begin_of(&l->call, side)), side == SENT ? "send" : "recv", b->left[i],
                    got[i]))
                return;
    }
}

static void run(const struct bits_plan *plan, struct bits_table *t, enum bits_way way, uint64_t *random)
{
    struct local_desk *d = &t->desk;
    uint64_t launches = d->stub->calls("launch");
    int served = 0, unsure = 0; /* blocks of a v-form may all be empty */
    for (int i = 0; i < BITS_LANES; i++) {
        say(d->me, &t->lanes[i], way == BITS_KERNELS ? "by kernels:" : "by the host:");
        ranks_delay(d->me, 100);
        enqueue(plan, t, &t->lanes[i], way, t->streams[ranks_below(random, 2)]);
        served += way == BITS_KERNELS && t->lanes[i].served;
        unsure += way == BITS_KERNELS && matrix_shapes[t->lanes[i].call.collective].v;
    }
    for (int s = 0; s < 2; s++)
        local_fine(d, d->dev->stream.sync(t->streams[s]));
    bool all = d->stub->calls("launch") >= launches + (uint64_t)served;
    bool none = served + unsure > 0 || d->stub->calls("launch") == launches;
    ranks_expect(d->me, !plan->launches(d) || (all && none), "%llu kernels for %d calls",
        (unsigned long long)(d->stub->calls("launch") - launches), served);
    for (int i = 0; i < BITS_LANES; i++) {
        say(d->me, &t->lanes[i], "after");
        look(plan, t, &t->lanes[i], way);
    }
    ranks_meet(d->me); /* the leader counts its own */
}

/* What this rank alone decides. */
static void choose(const struct bits_plan *plan, struct bits_table *t, struct bits_lane *l)
{
    struct ranks_me *me = t->desk.me;
    for (int side = 0; side < SIDES; side++) {
        struct bits_buffer *b = &l->buffers[side];
        b->kind = plan->given ? BITS_DEVICE : (enum bits_kind)ranks_below(&me->random, BITS_KINDS);
        for (size_t i = 0; i < plan->room; i += 8) {
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

void bits_compare(struct ranks_me *me, const struct bits_plan *plan)
{
    struct bits_table *t = calloc(1, sizeof *t);
    if (t == NULL || !sit_down(me, plan, t))
        return;
    local_fine(&t->desk, t->desk.dev->fill(t->factors, 0x3c, BITS_TYPES * 8, t->streams[0]));
    local_settle(&t->desk);
    uint64_t random = 5; /* the same at all ranks, so that neither stream waits for the other's peers */
    for (int i = 0; i < plan->calls[me->n] && !somebody_failed(me); i += BITS_LANES) {
        for (int k = 0; k < BITS_LANES; k++) {
            draw(plan, &t->lanes[k], me, i + k);
            choose(plan, t, &t->lanes[k]);
        }
        run(plan, t, BITS_KERNELS, &random);
        run(plan, t, BITS_HOST, &random);
        ranks_meet(me);
    }
    ranks_part(me, t->comms[BITS_KERNELS]);
    ranks_part(me, t->comms[BITS_HOST]);
}
