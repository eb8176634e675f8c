/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_again_v.c: collectives that were made before and whose blocks differ in length
 * (lib/run/call_cache.h).
 *
 * A few calls take turns, so that each finds what it came to before still bound, or finds another call there,
 * or tables that another call filled. Buffers move from call to call; the arrays are overwritten and given
 * back as soon as a call is over. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "run/comm.h"
#include "base/handle.h"
#include "run/call_cache.h"
#include "tests/rig/ranks.h"

enum { ROUNDS = 600, COUNTS = 6, SHAPES = 4, SHIFTS = 5, KINDS = 2, MOST_RANKS = 4 };
enum { PITCH = 6001, ROOM = MOST_RANKS * PITCH, SPACE = ROOM + SHIFTS };
static const size_t counts[COUNTS] = { 1, 2, 5, 40, 700, 3000 };
static const enum tt_collective forms[] = { TT_ALL_GATHER_V, TT_REDUCE_SCATTER_V, TT_ALL_TO_ALL_V,
    TT_GATHER_V, TT_SCATTER_V };

enum placing { PACKED, LAST_FIRST, APART, PLACINGS };
static const char *const placings[] = { "packed", "the last block first", "apart" };

struct shape {
    enum tt_collective form;
    size_t count; /* of which the lengths of the blocks are made */
    int root;
    bool in_place; /* as this rank likes */
    enum placing placing; /* as this rank likes, and not always the same: with equal counts, too */
};

struct again {
    struct shape shape;
    const struct ranks_me *me;
    int round;
    int32_t *send, *recv;
};

static int32_t own_space[2][MOST_RANKS][SPACE], images[MOST_RANKS][ROOM];

struct
    spaces { /* of a rank, for what it sends and what it gets: some of its own, and some that peers can map */
    int32_t *memory[2][KINDS];
};

/* Some are empty. Only exchanges have as many as there are pairs. */
static size_t block(const struct again *a, int from, int to)
{
    return (size_t)(from * 2 + (a->shape.form == TT_ALL_TO_ALL_V ? to : 0) + (int)a->shape.count) % 3 *
           a->shape.count;
}

static bool is_root(const struct again *a)
{
    return a->me->rank == a->shape.root;
}

/* Does this rank have all blocks there, or its own one, or none? */
enum part { NONE, OWN, ALL };
static enum part part_of(const struct again *a, bool out)
{
    switch (a->shape.form) {
    case TT_ALL_GATHER_V:
        return out ? ALL : OWN;
    case TT_REDUCE_SCATTER_V:
        return out ? OWN : ALL;
    case TT_GATHER_V:
        return !out ? OWN : is_root(a) ? ALL : NONE;
    case TT_SCATTER_V:
        return out ? OWN : is_root(a) ? ALL : NONE;
    default:
        return ALL;
    }
}

/* What this rank sends to r, or gets from it. */
static size_t length(const struct again *a, bool out, int r)
{
    bool sends = a->shape.form == TT_ALL_TO_ALL_V && !out;
    return sends ? block(a, a->me->rank, r) : block(a, r, a->me->rank);
}

static bool is_placed(const struct again *a)
{
    return a->shape.placing != PACKED && a->shape.form != TT_REDUCE_SCATTER_V;
}

/* Of r's block among all. */
static size_t start(const struct again *a, bool out, int r)
{
    size_t packed = 0;
    if (is_placed(a))
        return (size_t)(a->shape.placing == APART ? r : a->me->n - 1 - r) * PITCH;
    for (int q = 0; q < r; q++)
        packed += length(a, out, q);
    return packed;
}

static int32_t input(const struct again *a, int from, int to, size_t k)
{
    return (int32_t)(from * 1000003 + to * 10007 + a->round * 7 + (int)k);
}

/* Element k of r's block: as this rank gives it, or as it must be in the end. */
static int32_t given(const struct again *a, int r, size_t k)
{
    bool for_all = a->shape.form == TT_ALL_GATHER_V || a->shape.form == TT_GATHER_V;
    return input(a, a->me->rank, for_all ? 0 : r, k);
}

static int32_t expected(const struct again *a, int r, size_t k)
{
    int me = a->me->rank;
    int32_t sum = 0;
    switch (a->shape.form) {
    case TT_REDUCE_SCATTER_V:
        for (int from = 0; from < a->me->n; from++)
            sum += input(a, from, me, k);
        return sum;
    case TT_SCATTER_V:
        return input(a, a->shape.root, me, k);
    default:
        return input(a, r, a->shape.form == TT_ALL_TO_ALL_V ? me : 0, k);
    }
}

static void fill(const struct again *a)
{
    enum part part = part_of(a, false);
    for (int r = 0; r < a->me->n; r++) {
        bool has = part == ALL || (part == OWN && r == a->me->rank);
        int32_t *to = a->send + (part == ALL ? start(a, false, r) : 0);
        for (size_t k = 0; has && k < length(a, false, r); k++)
            to[k] = given(a, r, k);
    }
}

/* How much of recv is there for this call: more than its blocks, if they are placed. */
static size_t extent(const struct again *a)
{
    enum part part = part_of(a, true);
    return part == ALL ? ROOM : part == OWN ? length(a, true, a->me->rank) : 0;
}

/* The blocks are there, and nothing else was written between them: `image` is what was there before. */
static void check(struct ranks_me *me, const struct again *a, int32_t *image)
{
    enum part part = part_of(a, true);
    for (int r = 0; r < me->n; r++) {
        bool has = part == ALL || (part == OWN && r == me->rank);
        size_t at = part == ALL ? start(a, true, r) : 0;
        for (size_t k = 0; has && k < length(a, true, r); k++) {
            image[at + k] = expected(a, r, k);
            if (!ranks_expect(me, a->recv[at + k] == image[at + k],
                    "element %zu of block %d is %d and not %d", k, r, a->recv[at + k], image[at + k]))
                return;
        }
    }
    ranks_expect(me, memcmp(a->recv, image, extent(a) * sizeof *image) == 0, "something else was written");
}

struct arrays {
    size_t *counts[2], *displs[2]; /* of what is sent, of what is received */
};

static struct arrays make_arrays(const struct again *a)
{
    struct arrays s;
    for (int out = 0; out < 2; out++) {
        s.counts[out] = malloc(2 * (size_t)a->me->n * sizeof(size_t));
        size_t *displs = s.counts[out] + a->me->n;
        for (int r = 0; r < a->me->n; r++) {
            s.counts[out][r] = length(a, out, r);
            displs[r] = start(a, out, r);
        }
        s.displs[out] = is_placed(a) ? displs : NULL;
    }
    return s;
}

static void spoil_arrays(const struct again *a, struct arrays *s)
{
    for (int out = 0; out < 2; out++) {
        memset(s->counts[out], 0xee, 2 * (size_t)a->me->n * sizeof(size_t));
        free(s->counts[out]);
    }
}

static tutti_status make(const struct again *a, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    struct arrays s = make_arrays(a);
    size_t own = block(a, a->me->rank, 0);
    tutti_status status;
    switch (a->shape.form) {
    case TT_ALL_GATHER_V:
        status = tutti_all_gather_v(a->send, own, a->recv, s.counts[1], s.displs[1], TUTTI_INT32, comm, none);
        break;
    case TT_REDUCE_SCATTER_V:
        status = tutti_reduce_scatter_v(a->send, s.counts[1], a->recv, TUTTI_INT32, TUTTI_SUM, comm, none);
        break;
    case TT_ALL_TO_ALL_V:
        status = tutti_all_to_all_v(
            a->send, s.counts[0], s.displs[0], a->recv, s.counts[1], s.displs[1], TUTTI_INT32, comm, none);
        break;
    case TT_GATHER_V:
        status = tutti_gather_v(
            a->send, own, a->recv, s.counts[1], s.displs[1], TUTTI_INT32, a->shape.root, comm, none);
        break;
    default:
        status = tutti_scatter_v(
            a->send, s.counts[0], s.displs[0], a->recv, own, TUTTI_INT32, a->shape.root, comm, none);
    }
    spoil_arrays(a, &s);
    return status;
}

/* The same on all ranks but for what each decides alone. */
static void draw_shape(struct ranks_me *me, uint64_t *shared, struct shape *shape)
{
    uint64_t bits = ranks_random(shared), own = ranks_random(&me->random);
    shape->form = forms[bits % (sizeof forms / sizeof forms[0])];
    shape->count = counts[bits / 16 % COUNTS];
    shape->root = (int)(bits / 4096 % (unsigned)me->n);
    shape->in_place = own & 1;
    shape->placing = (enum placing)((own >> 8) % PLACINGS);
}

static void draw_buffers(struct ranks_me *me, const struct spaces *spaces, struct again *a)
{
    uint64_t own = ranks_random(&me->random);
    a->send = spaces->memory[0][own % KINDS] + own / 16 % SHIFTS;
    a->recv = spaces->memory[1][own / 4 % KINDS] + own / 256 % SHIFTS;
    bool sends_all = part_of(a, false) == ALL, gets_all = part_of(a, true) == ALL;
    if (a->shape.in_place && gets_all && !sends_all)
        a->send = a->recv + start(a, true, me->rank);
    else if (a->shape.in_place && sends_all && !gets_all)
        a->recv = a->send + start(a, false, me->rank);
}

/* How many calls find their schedule bound to them. */
static int bound(tutti_comm *comm)
{
    const struct tt_comm *c = tt_comm_find(comm);
    int many = 0;
    for (int i = 0; i < TT_CACHED_CALLS; i++) {
        const struct tt_cached *cached = &c->calls.cached[i];
        many += cached->prepared != NULL && cached->prepared->bound_to == cached->call.id &&
                tt_collectives[cached->call.collective].counts != TT_COUNTS_EVEN;
    }
    return many;
}

/* A rank goes the first or the second way as its number is even or odd. Rings keep what they pass on in
 * temporary memory. */
struct way {
    const char *options[2];
    bool comes_late; /* now and then a rank does */
};
static const struct way ways[] = {
    { { "fused=off;slice=4096", "fused=off" }, false },
    { { "fused=off", "fused=on" }, true },
    { { "fused=off;slice=4096;algo=all_gather_v:ring,reduce_scatter_v:ring", "fused=off" }, false },
};

static void take_turns(struct ranks_me *me, const struct spaces *spaces, tutti_comm *comm)
{
    uint64_t shared = 1234;
    struct shape shapes[SHAPES];
    int32_t *image = images[me->rank];
    const struct way *way = me->context;
    int most = 0;
    for (int i = 0; i < SHAPES; i++)
        draw_shape(me, &shared, &shapes[i]);
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t bits = ranks_random(&shared);
        struct shape *shape = &shapes[bits % SHAPES];
        if ((bits >> 32 & 15) == 0)
            draw_shape(me, &shared, shape);
        if (ranks_below(&me->random, 8) == 0)
            shape->placing = (enum placing)ranks_below(&me->random, PLACINGS);
        struct again a = { .shape = *shape, .me = me, .round = round };
        draw_buffers(me, spaces, &a);
        ranks_at(me, "n %d rank %d: round %d, %s of %zu, root %d%s, %s", me->n, me->rank, round,
            tt_collectives[shape->form].name, shape->count, shape->root, shape->in_place ? ", in place" : "",
            placings[shape->placing]);
        memset(a.recv, 0x77, extent(&a) * sizeof *a.recv);
        fill(&a);
        memcpy(image, a.recv, extent(&a) * sizeof *image);
        if (way->comes_late && round % 300 == 99 && me->rank == round / 300 % me->n)
            ranks_sleep_us(150000); /* more than a tick of lib/base/wait.h: the others look who called what */
        ranks_ok(me, make(&a, comm), "the call");
        check(me, &a, image);
        most = bound(comm) > most ? bound(comm) : most;
    }
    bool by_executor = strstr(way->options[me->rank % 2], "fused=off") != NULL;
    ranks_expect(me, !by_executor || most > 1, "at most %d calls were bound at once", most);
}

static void call_again(struct ranks_me *me)
{
    struct spaces spaces;
    const struct way *way = me->context;
    tutti_config config = { .size = sizeof config, .options = way->options[me->rank % 2] };
    tutti_comm *comm = ranks_join(me, &config);
    for (int out = 0; out < 2; out++) {
        void *shared = NULL;
        ranks_ok(me, tutti_mem_alloc(SPACE * sizeof(int32_t), TUTTI_MEM_HOST, &shared), "mem_alloc");
        spaces.memory[out][0] = own_space[out][me->rank];
        spaces.memory[out][1] = shared;
    }
    if (comm != NULL) {
        take_turns(me, &spaces, comm);
        ranks_part(me, comm);
    }
    for (int out = 0; out < 2; out++)
        ranks_ok(me, tutti_mem_free(spaces.memory[out][1]), "mem_free");
}

Test(api_again_v, a_caller_may_take_back_arrays_and_buffers)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        for (int n = 2; n <= MOST_RANKS; n++)
            ranks_run(&(struct ranks_plan){ .n = n, .run = call_again, .context = &ways[i] });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = call_again, .context = &ways[0] });
}

/* Who takes part with nothing takes the fast path, too: ranks that share its core wait meanwhile. */
static void have_nothing(struct ranks_me *me)
{
    const size_t lengths[] = { 2, 0 };
    int32_t send[] = { 3, 4 }, recv[] = { 0, 0 };
    tutti_comm *comm = ranks_join(me, NULL);
    for (int again = 0; again < 3; again++)
        ranks_ok(me,
            tutti_scatter_v(
                send, lengths, NULL, recv, lengths[me->rank], TUTTI_INT32, 0, comm, tutti_no_stream()),
            "scatter_v");
    const struct tt_cached *cached = ((const struct tt_comm *)tt_comm_find(comm))->calls.last;
    ranks_expect(me, cached->key != 0 && cached->moves != NULL, "the call is not cached for %zu elements",
        lengths[me->rank]);
    ranks_expect(me, recv[1] == (me->rank == 0 ? 4 : 0), "%d", recv[1]);
    ranks_part(me, comm);
}

Test(api_again_v, who_has_nothing)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = have_nothing });
}
