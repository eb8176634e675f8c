/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_fused.c: many calls in a group on a stream: they share gates, so that a group of hundreds
 * is enqueued at once, and are what they would be one by one.
 *
 * A rank keeps a model of the memory of all ranks, in which it does one call after the other. How ranks group
 * the same calls, and where each has its memory, is everybody's own: so they fuse differently. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/dev.h"
#include "tests/rig/plugin.h"
#include "tests/rig/ranks.h"

TestSuite(api_device_fused, .timeout = 120);

enum { AREAS = 12, ROOM = 6000, N = 3, CALLS = 60, ROUNDS = 6 };

struct bench { /* of a rank */
    struct ranks_me *me;
    const struct tt_dev *dev;
    tutti_comm *comm;
    void *stream;
    uint32_t *memory, *host; /* AREAS times ROOM words; `host` is pinned */
};

static bool fine(const struct bench *b, enum tt_dev_error error)
{
    return ranks_expect(b->me, error == TT_DEV_OK, "device: %s", error == TT_DEV_OK ? "" : b->dev->why());
}

static int device_of(const struct ranks_me *me)
{
    return me->kind == RANKS_PROCESSES ? 0 : me->rank % 2; /* threads: two share one device */
}

static tutti_comm *join(struct ranks_me *me)
{
    char options[64];
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = 60000 };
    snprintf(options, sizeof options, "slice=8K;device=%d", device_of(me));
    return ranks_join(me, &config);
}

static bool set_up(struct ranks_me *me, struct bench *b, size_t words, bool pinned)
{
    int device = device_of(me);
    void *memory = NULL, *host = NULL;
    *b = (struct bench){ .me = me };
    bool good = ranks_ok(me, tt_dev_find(plugin_path(), &b->dev), "tt_dev_find") &&
                fine(b, b->dev->use(device)) && fine(b, b->dev->stream.create(&b->stream)) &&
                fine(b, b->dev->memory.alloc_pinned(words * 4, &host)) &&
                fine(b, pinned ? b->dev->memory.alloc_pinned(words * 4, &memory)
                               : b->dev->memory.alloc(words * 4, &memory));
    b->memory = memory;
    b->host = host;
    return good && (b->comm = join(me)) != NULL;
}

static void take_down(struct bench *b, bool pinned)
{
    ranks_part(b->me, b->comm);
    fine(b, pinned ? b->dev->memory.free_pinned(b->memory) : b->dev->memory.free(b->memory));
    fine(b, b->dev->memory.free_pinned(b->host));
    fine(b, b->dev->stream.destroy(b->stream));
}

/* --- Calls that read and write each other's memory. */

struct plan { /* of one call: the same at all ranks */
    enum { REDUCE_ALL, REDUCE, BROADCAST, GATHER_ALL, SCATTER_SUM, BARRIER, KINDS } kind;
    int from, to, root;
    size_t count; /* of the whole vector, or of a block */
};

static uint32_t model[N][N][AREAS][ROOM]; /* threads have one each: [who models][rank] */

static struct plan draw(uint64_t *random, int n)
{
    static const size_t counts[] = { 1, 2, 3, 17, 64, 200, 333, 1999 };
    struct plan p = { .kind = (int)ranks_below(random, KINDS) };
    p.from = (int)ranks_below(random, AREAS);
    p.to = (int)ranks_below(random, AREAS);
    p.root = (int)ranks_below(random, (uint32_t)n);
    p.count = ranks_below(random, 12) == 0 ? ROOM / N : counts[ranks_below(random, 8)];
    if (p.from == p.to && (p.kind == GATHER_ALL || p.kind == SCATTER_SUM))
        p.to = (p.from + 1) % AREAS; /* in place these take other addresses */
    return p;
}

static void call(const struct bench *b, const struct plan *p)
{
    uint32_t *from = b->memory + p->from * ROOM, *to = b->memory + p->to * ROOM;
    tutti_stream s = tutti_cuda_stream(b->stream);
    tutti_type u = TUTTI_UINT32;
    tutti_status status =
        p->kind == REDUCE_ALL    ? tutti_all_reduce(from, to, p->count, u, TUTTI_SUM, b->comm, s)
        : p->kind == REDUCE      ? tutti_reduce(from, to, p->count, u, TUTTI_SUM, p->root, b->comm, s)
        : p->kind == BROADCAST   ? tutti_broadcast(from, to, p->count, u, p->root, b->comm, s)
        : p->kind == GATHER_ALL  ? tutti_all_gather(from, to, p->count, u, b->comm, s)
        : p->kind == SCATTER_SUM ? tutti_reduce_scatter(from, to, p->count, u, TUTTI_SUM, b->comm, s)
                                 : tutti_barrier(b->comm, s);
    ranks_ok(b->me, status, "a call");
}

static void do_in_model(int n, uint32_t (*m)[AREAS][ROOM], const struct plan *p)
{
    static _Thread_local uint32_t was[N][ROOM];
    for (int r = 0; r < n; r++)
        memcpy(was[r], m[r][p->from], sizeof was[r]);
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < p->count && p->kind != BARRIER; i++) {
            uint32_t sum = 0;
            for (int k = 0; k < n; k++)
                sum += was[k][p->kind == SCATTER_SUM ? (size_t)r * p->count + i : i];
            for (int k = 0; k < n && p->kind == GATHER_ALL; k++)
                m[r][p->to][(size_t)k * p->count + i] = was[k][i];
            if (p->kind == REDUCE_ALL || p->kind == SCATTER_SUM || (p->kind == REDUCE && r == p->root))
                m[r][p->to][i] = sum;
            if (p->kind == BROADCAST)
                m[r][p->to][i] = was[p->root][i];
        }
}

static bool is_as_modelled(const struct bench *b, int round, uint32_t (*m)[AREAS][ROOM])
{
    const uint32_t *mine = &m[b->me->rank][0][0];
    for (size_t i = 0; i < (size_t)AREAS * ROOM; i++)
        if (b->host[i] != mine[i])
            return ranks_expect(b->me, false, "round %d, area %zu, word %zu is %u, expected %u", round,
                i / ROOM, i % ROOM, b->host[i], mine[i]);
    return true;
}

static void give_values(const struct bench *b, int round, uint32_t (*m)[AREAS][ROOM])
{
    for (int r = 0; r < b->me->n; r++)
        for (size_t i = 0; i < (size_t)AREAS * ROOM; i++)
            m[r][i / ROOM][i % ROOM] =
                (uint32_t)ranks_mix((uint64_t)r << 40 | (uint64_t)round << 32 | (uint64_t)i);
    memcpy(b->host, m[b->me->rank], (size_t)AREAS * ROOM * 4);
    fine(b, b->dev->copy(b->memory, b->host, (size_t)AREAS * ROOM * 4, b->stream));
}

/* Ranks have their groups where they like. */
static void call_in_groups(const struct bench *b, uint64_t *shared, uint32_t (*m)[AREAS][ROOM])
{
    struct plan plans[CALLS];
    int left = 0;
    for (int i = 0; i < CALLS; i++) {
        plans[i] = draw(shared, b->me->n);
        do_in_model(b->me->n, m, &plans[i]);
    }
    for (int i = 0; i < CALLS; i++) {
        if (left == 0 && ranks_ok(b->me, tutti_group_start(), "group_start"))
            left = b->me->rank == 0 ? CALLS : 1 + (int)ranks_below(&b->me->random, 20);
        call(b, &plans[i]);
        if (--left == 0 || i + 1 == CALLS)
            ranks_ok(b->me, tutti_group_end(), "group_end");
    }
}

static void fuse_differently(struct ranks_me *me)
{
    struct bench b;
    bool pinned = me->rank == 1;
    uint64_t shared = 12345;
    uint32_t(*m)[AREAS][ROOM] = model[me->rank];
    if (!set_up(me, &b, (size_t)AREAS * ROOM, pinned))
        return;
    for (int round = 0; round < ROUNDS && me->world->slots[me->rank].failures == 0; round++) {
        ranks_at(me, "round %d", round);
        give_values(&b, round, m);
        if (pinned) /* the host works in it: its own work must be over */
            fine(&b, b.dev->stream.sync(b.stream));
        call_in_groups(&b, &shared, m);
        fine(&b, b.dev->copy(b.host, b.memory, (size_t)AREAS * ROOM * 4, b.stream));
        fine(&b, b.dev->stream.sync(b.stream));
        if (!ranks_ok(me, tutti_comm_state(b.comm), "state") || !is_as_modelled(&b, round, m))
            return;
    }
    take_down(&b, pinned);
}

static void run_with(const char *stub, int n, enum ranks_kind kind)
{
    setenv("STUB_GPU", stub, 1);
    ranks_run(&(struct ranks_plan){ .n = n, .kind = kind, .run = fuse_differently, .seed = 7 });
}

Test(api_device_fused, groups_are_as_calls_one_by_one)
{
    plugin_must_be_stub();
    run_with("queues=8,delay=20", 2, RANKS_PROCESSES);
    run_with("queues=1", 3, RANKS_PROCESSES);
    run_with("queues=1,devices=2", 2, RANKS_THREADS);
    run_with("queues=1,devices=2", 3, RANKS_THREADS);
}

/* --- Thousands of calls are enqueued though no peer has called: by kernels, dozens of calls each way each;
 * or, where they cannot be loaded, hundreds, as a copy each way. */

enum { MANY = 2000, SOME = 400, PATIENCE_MS = 20000, STEP = 16 };

struct scene { /* in the shared mapping */
    _Atomic int returned;
};
static int calls, singles, most_pieces; /* of the group; calls before it; of the group */

static uint64_t pieces(void)
{
    static const char *const functions[] = { "copy", "copy_rows", "write_word", "wait_word", "event_wait",
        "event_record", "launch" };
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        sum += plugin_stub()->calls(functions[i]);
    return sum;
}

static void sum_words(const struct bench *b, tutti_comm *comm, int from, int to)
{
    ranks_ok(b->me,
        tutti_all_reduce(
            b->memory + from, b->memory + to, 1, TUTTI_UINT32, TUTTI_SUM, comm, tutti_cuda_stream(b->stream)),
        "all_reduce");
}

/* Waits until rank 0, which calls alone, has returned from its group. */
static void await_rank_0(struct ranks_me *me, const struct scene *scene)
{
    for (int ms = 0; me->rank == 1 && !atomic_load(&scene->returned) && ms < PATIENCE_MS; ms++)
        ranks_sleep_us(1000);
    ranks_expect(me, me->rank == 0 || atomic_load(&scene->returned), "the end of the group waits for a peer");
}

static void sum_many(const struct bench *b)
{
    ranks_ok(b->me, tutti_group_start(), "group_start");
    for (int i = 0; i < calls; i++)
        ranks_ok(b->me,
            tutti_all_reduce(b->memory + i * STEP, b->memory + i * STEP, (size_t)(1 + i % STEP), TUTTI_UINT32,
                TUTTI_SUM, b->comm, tutti_cuda_stream(b->stream)),
            "all_reduce");
    ranks_ok(b->me, tutti_group_end(), "group_end");
}

static void enqueue_many(struct ranks_me *me)
{
    struct scene *scene = me->shared;
    struct bench b;
    int words = calls * STEP;
    if (!set_up(me, &b, (size_t)words + 1, false))
        return;
    for (int i = 0; i < words; i++)
        b.host[i] = (uint32_t)(i + me->rank);
    fine(&b, b.dev->copy(b.memory, b.host, (size_t)words * 4, b.stream));
    await_rank_0(me, scene);
    for (int i = 0; i < singles; i++)
        sum_words(&b, b.comm, words, words);
    uint64_t before = pieces(), launches = plugin_stub()->calls("launch");
    sum_many(&b);
    uint64_t took = pieces() - before;
    atomic_store(&scene->returned, 1);
    ranks_expect(me, took <= (uint64_t)most_pieces, "%d calls are %llu pieces of work", calls,
        (unsigned long long)took);
    ranks_expect(
        me, calls > SOME || plugin_stub()->calls("launch") == launches, "what is not loaded is launched");
    fine(&b, b.dev->copy(b.host, b.memory, (size_t)words * 4, b.stream));
    fine(&b, b.dev->stream.sync(b.stream));
    for (int i = 0; i < words; i++) {
        bool summed = i % STEP < 1 + i / STEP % STEP;
        uint32_t expected = summed ? (uint32_t)(2 * i + 1) : (uint32_t)(i + me->rank);
        if (!ranks_expect(me, b.host[i] == expected, "word %d is %u, expected %u", i, b.host[i], expected))
            break;
    }
    ranks_meet(me);
    take_down(&b, false);
}

Test(api_device_fused, a_group_of_thousands_returns_at_once)
{
    plugin_must_be_stub();
    plugin_must_have_kernels();
    setenv("STUB_GPU", "queues=8", 1);
    calls = MANY;
    singles = 100; /* beside which there is no room for a copy of each */
    most_pieces = MANY / 16;
    ranks_run(&(struct ranks_plan){ .n = 2, .run = enqueue_many });
}

Test(api_device_fused, a_group_of_hundreds_returns_at_once_without_kernels)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "queues=8,fail=preload:1:unsupported", 1);
    calls = SOME;
    singles = 0;
    most_pieces = 2 * SOME + 8;
    ranks_run(&(struct ranks_plan){ .n = 2, .run = enqueue_many });
}

/* --- A group is bounded in any case, for each of these calls reads what the one before wrote: the rest waits
 * in the library, and not in the driver, with its lock. */
static void *sum_chain(void *bench)
{
    const struct bench *b = bench;
    ranks_ok(b->me, tutti_group_start(), "group_start");
    for (int i = 0; i < SOME; i++)
        sum_words(b, b->comm, i, i + 1);
    ranks_ok(b->me, tutti_group_end(), "group_end");
    return NULL;
}

static void enqueue_too_many(struct ranks_me *me)
{
    enum { HELD = 1000 };
    struct scene *scene = me->shared;
    struct bench b;
    pthread_t thread;
    if (!set_up(me, &b, SOME + 1, false))
        return;
    for (int ms = 0; me->rank == 1 && !atomic_load(&scene->returned) && ms < PATIENCE_MS; ms++)
        ranks_sleep_us(1000);
    uint64_t before = pieces(), last;
    pthread_create(&thread, NULL, sum_chain, &b);
    do {
        last = pieces();
        ranks_sleep_us(200000);
    } while (me->rank == 0 && (last == before || pieces() != last));
    ranks_expect(me, me->rank == 1 || (last - before > HELD / 2 && last - before < HELD), "%llu are enqueued",
        (unsigned long long)(last - before));
    atomic_store(&scene->returned, 1);
    pthread_join(thread, NULL);
    fine(&b, b.dev->stream.sync(b.stream));
    ranks_ok(me, tutti_comm_state(b.comm), "state");
    ranks_meet(me);
    take_down(&b, false);
}

Test(api_device_fused, what_is_enqueued_is_bounded)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "queues=8", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = enqueue_too_many });
}

/* --- Later results win, where two have the same place. */

static void store_twice(struct ranks_me *me)
{
    enum { TURNS = 40, WORDS = 4096 };
    struct bench b;
    if (!set_up(me, &b, (TURNS + 1) * WORDS, false))
        return;
    for (int i = 0; i < (TURNS + 1) * WORDS; i++)
        b.host[i] = (uint32_t)i;
    fine(&b, b.dev->copy(b.memory, b.host, (TURNS + 1) * WORDS * 4, b.stream));
    ranks_ok(me, tutti_group_start(), "group_start");
    for (int i = 0; i < TURNS; i++)
        ranks_ok(me,
            tutti_broadcast(b.memory + i * WORDS, b.memory + TURNS * WORDS, i % 2 == 0 ? WORDS : WORDS / 2,
                TUTTI_UINT32, i % 2, b.comm, tutti_cuda_stream(b.stream)),
            "broadcast");
    ranks_ok(me, tutti_group_end(), "group_end");
    fine(&b, b.dev->copy(b.host, b.memory + TURNS * WORDS, WORDS * 4, b.stream));
    fine(&b, b.dev->stream.sync(b.stream));
    for (int i = 0; i < WORDS; i++) {
        uint32_t last = i < WORDS / 2 ? TURNS - 1 : TURNS - 2;
        if (!ranks_expect(
                me, b.host[i] == last * WORDS + (uint32_t)i, "word %d is of call %u", i, b.host[i] / WORDS))
            break;
    }
    take_down(&b, false);
}

Test(api_device_fused, the_last_result_stays)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "queues=8", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = store_twice });
}

/* --- Groups of two communicators, of whose calls ranks could fuse different ones: each would wait for the
 * other. */

/* Words 1, 2, .. on the device, and a second communicator; NULL if one failed. */
static tutti_comm *set_up_two(struct ranks_me *me, struct bench *b, int words)
{
    tutti_config config = { .size = sizeof config, .options = "device=0", .timeout_ms = 10000 };
    if (!set_up(me, b, words, false))
        return NULL;
    for (int i = 0; i < words; i++)
        b->host[i] = (uint32_t)(i + 1);
    fine(b, b->dev->copy(b->memory, b->host, (size_t)words * 4, b->stream));
    return ranks_join(me, &config);
}

static void group_two(struct ranks_me *me)
{
    enum { WORDS = 16, LAST = 8 };
    struct bench b;
    tutti_comm *other = set_up_two(me, &b, WORDS);
    if (other == NULL)
        return;
    ranks_ok(me, tutti_group_start(), "group_start");
    sum_words(&b, b.comm, 0, 1);
    sum_words(&b, b.comm, me->rank == 0 ? 2 : 1, 3); /* at rank 1 it reads the first result */
    sum_words(&b, other, 4, 5);
    sum_words(&b, other, me->rank == 0 ? 5 : 6, 7); /* at rank 0 */
    ranks_ok(me, tutti_group_end(), "group_end");
    fine(&b, b.dev->copy(b.host, b.memory, WORDS * 4, b.stream));
    fine(&b, b.dev->stream.sync(b.stream));
    bool right = b.host[1] == 2 && b.host[3] == 3 + 2 && b.host[5] == 10 && b.host[7] == 10 + 7;
    ranks_expect(me, right, "sums are %u, %u, %u, %u", b.host[1], b.host[3], b.host[5], b.host[7]);
    ranks_part(me, other);
    take_down(&b, false);
}

Test(api_device_fused, two_communicators_do_not_wait_for_each_other)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "queues=8", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = group_two });
}

/* So could two small calls that a rank fuses and a long one of the other communicator. */
static void group_with_a_long_one(struct ranks_me *me)
{
    enum { LONG = 40000, WORDS = 8 + LONG };
    struct bench b;
    tutti_comm *other = set_up_two(me, &b, WORDS);
    if (other == NULL)
        return;
    ranks_ok(me, tutti_group_start(), "group_start");
    sum_words(&b, other, 0, 1);
    sum_words(&b, other, me->rank == 0 ? 2 : 1, 3); /* at rank 1 it reads the first result */
    ranks_ok(me,
        tutti_all_reduce(
            b.memory + 8, b.memory + 8, LONG, TUTTI_UINT32, TUTTI_SUM, b.comm, tutti_cuda_stream(b.stream)),
        "all_reduce");
    ranks_ok(me, tutti_group_end(), "group_end");
    fine(&b, b.dev->copy(b.host, b.memory, WORDS * 4, b.stream));
    fine(&b, b.dev->stream.sync(b.stream));
    bool right = b.host[1] == 2 && b.host[3] == 3 + 2;
    for (uint32_t i = 8; i < WORDS && right; i++)
        right = b.host[i] == 2 * (i + 1);
    ranks_expect(me, right, "sums are %u, %u, %u, ..", b.host[1], b.host[3], b.host[8]);
    ranks_part(me, other);
    take_down(&b, false);
}

Test(api_device_fused, a_long_call_beside_small_ones)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "queues=8", 1);
    setenv("TUTTI_EXECUTOR", "host", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = group_with_a_long_one });
}

/* Independent calls of two communicators in turn: rank 0 has all in one group, rank 1 has them one by one, in
 * another order, and the last rank in groups of several. */
enum { TURNS = 40, FEW = 3, COMMS = 2, SPACE = 24 };

static void sum_in_turn(const struct bench *b, tutti_comm *const comms[COMMS], int i)
{
    uint32_t *words = b->memory + i * SPACE;
    size_t count = (size_t)(1 + i % SPACE);
    ranks_ok(b->me,
        tutti_all_reduce(
            words, words, count, TUTTI_UINT32, TUTTI_SUM, comms[i % COMMS], tutti_cuda_stream(b->stream)),
        "all_reduce");
}

static void sum_differently(const struct bench *b, tutti_comm *const comms[COMMS])
{
    int at_once = b->me->rank == 0 ? TURNS : b->me->rank == 1 ? 1 : FEW * COMMS;
    for (int first = 0; first < TURNS; first += at_once) {
        if (at_once > 1)
            ranks_ok(b->me, tutti_group_start(), "group_start");
        for (int i = first; i < first + at_once && i < TURNS; i++) /* rank 1: the second one first */
            sum_in_turn(b, comms, at_once > 1 ? i : i ^ 1);
        if (at_once > 1)
            ranks_ok(b->me, tutti_group_end(), "group_end");
    }
}

static void group_in_turn(struct ranks_me *me)
{
    const size_t words = TURNS * SPACE;
    struct bench b;
    if (!set_up(me, &b, words, false))
        return;
    tutti_comm *comms[COMMS] = { b.comm, join(me) };
    for (int round = 0; round < ROUNDS && comms[1] != NULL; round++) {
        for (size_t i = 0; i < words; i++)
            b.host[i] = (uint32_t)(i + (size_t)(me->rank * round));
        fine(&b, b.dev->copy(b.memory, b.host, words * 4, b.stream));
        uint64_t before = pieces();
        sum_differently(&b, comms);
        bool counts = me->rank == 0 && me->kind == RANKS_PROCESSES; /* threads count each other's */
        ranks_expect(me, !counts || pieces() - before <= TURNS / 2, "%d calls are %llu pieces of work", TURNS,
            (unsigned long long)(pieces() - before));
        fine(&b, b.dev->copy(b.host, b.memory, words * 4, b.stream));
        fine(&b, b.dev->stream.sync(b.stream));
        for (size_t i = 0; i < words; i++) {
            bool summed = i % SPACE < 1 + i / SPACE % SPACE;
            uint32_t expected = summed ? (uint32_t)(N * i) + (uint32_t)(N * (N - 1) / 2 * round)
                                       : (uint32_t)(i + (size_t)(me->rank * round));
            if (!ranks_expect(me, b.host[i] == expected, "round %d: word %zu is %u, expected %u", round, i,
                    b.host[i], expected))
                break;
        }
    }
    ranks_part(me, comms[1]);
    take_down(&b, false);
}

Test(api_device_fused, communicators_in_turn)
{
    plugin_must_be_stub();
    plugin_must_have_kernels();
    static const char *const stubs[] = { "queues=1", "queues=2,copy_delay=100", "queues=8" };
    setenv("TUTTI_EXECUTOR", "host", 1);
    for (size_t i = 0; i < sizeof stubs / sizeof stubs[0]; i++) {
        setenv("STUB_GPU", stubs[i], 1);
        ranks_run(&(struct ranks_plan){ .n = N, .run = group_in_turn });
        ranks_run(&(struct ranks_plan){ .n = N, .kind = RANKS_THREADS, .run = group_in_turn });
    }
}

/* --- Factors that the device has: each call has its own. */

static void scale_two(struct ranks_me *me)
{
    struct bench b;
    tutti_op ops[2];
    if (!set_up(me, &b, 16, false))
        return;
    for (uint32_t i = 0; i < 16; i++)
        b.host[i] = i + 1;
    fine(&b, b.dev->copy(b.memory, b.host, 64, b.stream));
    for (int k = 0; k < 2; k++)
        ranks_ok(me, tutti_op_create_pre_mul_sum(b.comm, b.memory + 8 + k, TUTTI_UINT32, 1, &ops[k]), "op");
    ranks_ok(me, tutti_group_start(), "group_start");
    for (int k = 0; k < 2; k++)
        ranks_ok(me,
            tutti_all_reduce(
                b.memory + k, b.memory + k, 1, TUTTI_UINT32, ops[k], b.comm, tutti_cuda_stream(b.stream)),
            "all_reduce");
    ranks_ok(me, tutti_group_end(), "group_end");
    fine(&b, b.dev->copy(b.host, b.memory, 64, b.stream));
    fine(&b, b.dev->stream.sync(b.stream));
    ranks_expect(me, b.host[0] == 2 * 9 && b.host[1] == 2 * 2 * 10, "sums are %u, %u", b.host[0], b.host[1]);
    take_down(&b, false);
}

Test(api_device_fused, factors_of_the_device)
{
    plugin_must_be_stub();
    setenv("STUB_GPU", "queues=8", 1);
    ranks_run(&(struct ranks_plan){ .n = 2, .run = scale_two });
}

/* --- Which calls join: as long as their cells have room, of operands and of results. */

static bool joins(struct tt_fuse *f, uint64_t operands, uint64_t results, uint64_t offsets[2])
{
    uintptr_t to = (uintptr_t)(2 + f->count) << 20;
    struct tt_span spans[2] = { { 1 << 20, (1 << 20) + operands }, { to, to + results } };
    return tt_fuse_joins(f, spans, 1024, offsets);
}

Test(api_device_fused, cells_have_room)
{
    struct tt_fuse f;
    uint64_t at[2];
    for (int side = 0; side < 2; side++) {
        uint64_t long_in = side == 0 ? 100 : 0, long_out = side == 1 ? 100 : 0;
        tt_fuse_begin(&f);
        cr_expect(!joins(&f, long_in, long_out, at) && at[side] == 0, "the first joins none");
        for (int i = 1; i < 8; i++)
            cr_expect(joins(&f, long_in, long_out, at) && at[side] == (uint64_t)i * 128, "call %d", i);
        cr_expect(!joins(&f, long_in, long_out, at) && at[side] == 0, "there is no room for it");
        cr_expect(joins(&f, 1, 1, at) && at[side] == 128);
    }
    tt_fuse_begin(&f);
    struct tt_span same[2] = { { 0, 0 }, { 64, 128 } };
    cr_expect(!tt_fuse_joins(&f, same, 1024, at));
    cr_expect(!tt_fuse_joins(&f, same, 1024, at), "it stores where the one before does");
    tt_fuse_begin(&f);
    int many = 0;
    joins(&f, 0, 0, at);
    while (many < 2 * TT_DEVICE_FUSED && joins(&f, 0, 0, at))
        many++;
    cr_expect_eq(many, TT_DEVICE_FUSED - 1);
}
