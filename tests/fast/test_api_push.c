/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_push.c: all_reduce by two shots, the fast path (lib/run/fast_path.c): each rank stores the sum of
 * its part where its peers want it, whatever memory they have, whichever way they go, and whoever is late, or
 * stopped, or dies. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/comm.h"
#include "base/handle.h"
#include "run/call_cache.h"
#include "tests/rig/ranks.h"

enum { ROUNDS = 3, MOST_BYTES = 200 << 10, SOON_MS = 60000 };

/* Around what is lent, granted and stored in blocks; the last is two slices of some ranks. */
static const size_t sizes[] = { 600, 1024, 2048, 2056, 4096, 9000, 8192, 33000, 65536, 100000, MOST_BYTES };
enum { SIZES = sizeof sizes / sizeof sizes[0] };

struct form {
    tutti_type type;
    tutti_op op;
};
static const struct form forms[] = { { TUTTI_FLOAT32, TUTTI_SUM }, { TUTTI_BFLOAT16, TUTTI_AVG },
    { TUTTI_INT8, TUTTI_MAX }, { TUTTI_FLOAT64, TUTTI_PROD }, { TUTTI_INT32, TUTTI_SUM } };
enum { FORMS = sizeof forms / sizeof forms[0] };

/* Who has memory that peers can map, of what is read and of what is written. */
enum kind { NOBODY, ALL, ODD_RANKS, INPUTS, OUTPUTS, KINDS };

struct way {
    bool odd; /* odd ranks take the slow path */
    const char *options;
};

static bool registers(const struct ranks_me *me, enum kind kind, bool input)
{
    return kind == ALL || (kind == ODD_RANKS && me->rank % 2 == 1) || (kind == INPUTS && input) ||
           (kind == OUTPUTS && !input);
}

struct buffers {
    struct ranks_buffer send, recv[2];
};

/* Short and slow path from the same input; `shift` elements from an aligned address. */
static void compare(struct ranks_me *me, const struct buffers *b, const struct form *f, size_t bytes,
    int round, tutti_comm *both[2])
{
    bool in_place = round == 1;
    size_t element = tutti_type_bytes(f->type), count = bytes / element, shift = (size_t)round * element;
    struct ranks_buffer *send = (struct ranks_buffer *)&b->send, *recv = (struct ranks_buffer *)b->recv;
    uint8_t *input = ranks_buffer_place(send, count * element, 0);
    for (size_t i = 0; i < count * element; i++)
        input[i] = (uint8_t)(ranks_random(&me->random) & 0x3f);
    uint8_t *to[2];
    for (int side = 0; side < 2; side++) {
        to[side] = ranks_buffer_place(&recv[side], count * element, shift);
        if (in_place)
            memcpy(to[side], input, count * element);
        ranks_ok(me,
            tutti_all_reduce(
                in_place ? to[side] : input, to[side], count, f->type, f->op, both[side], tutti_no_stream()),
            "all_reduce");
        ranks_buffer_check(me, &recv[side], "recv");
    }
    ranks_expect(me, memcmp(to[0], to[1], count * element) == 0, "the fast path has other bits");
    ranks_buffer_check(me, send, "send");
}

static void compare_all(struct ranks_me *me, enum kind kind, tutti_comm *both[2])
{
    struct buffers b;
    bool made = ranks_buffer_create(me, &b.send, MOST_BYTES, registers(me, kind, true));
    for (int side = 0; side < 2; side++)
        made = ranks_buffer_create(me, &b.recv[side], MOST_BYTES + 64, registers(me, kind, false)) && made;
    for (int s = 0; made && s < SIZES; s++)
        for (int round = 0; round < 2 * ROUNDS; round++) {
            const struct form *f = &forms[(s + kind) % FORMS];
            ranks_at(me, "n %d rank %d: memory %d, %zu bytes, type %d, round %d", me->n, me->rank, kind,
                sizes[s], f->type, round);
            compare(me, &b, f, sizes[s], round % ROUNDS, both);
        }
    ranks_buffer_free(me, &b.send);
    for (int side = 0; side < 2; side++)
        ranks_buffer_free(me, &b.recv[side]);
}

static int pushing_calls(tutti_comm *comm)
{
    const struct tt_comm *c = tt_comm_find(comm);
    int known = 0;
    for (int i = 0; i < TT_CACHED_CALLS; i++)
        known += c->calls.cached[i].moves != NULL && c->calls.cached[i].way == TT_FAST_PUSHES;
    return known;
}

static void same_bits(struct ranks_me *me)
{
    const struct way *way = me->context;
    tutti_comm *both[2];
    for (int side = 0; side < 2; side++) {
        char options[128];
        bool fused = (side == 0) != (way->odd && me->rank % 2 == 1);
        snprintf(
            options, sizeof options, "algo=all_reduce:direct;fused=%s%s", fused ? "on" : "off", way->options);
        both[side] = ranks_join(me, &(tutti_config){ .size = sizeof(tutti_config), .options = options });
    }
    if (both[0] == NULL || both[1] == NULL)
        return;
    for (enum kind kind = 0; kind < KINDS; kind++)
        compare_all(me, kind, both);
    tutti_comm *fused = both[way->odd && me->rank % 2 == 1];
    ranks_expect(me, pushing_calls(fused) > SIZES, "only %d calls push", pushing_calls(fused));
    for (int side = 0; side < 2; side++)
        ranks_part(me, both[side]);
}

static const struct way plain = { false, "" }, mixed = { true, "" }, exact = { false, ";exact=1" };

Test(api_push, same_bits)
{
    static const int ranks[] = { 2, 3, 8 };
    for (int i = 0; i < 3; i++)
        ranks_run(&(struct ranks_plan){ .n = ranks[i], .run = same_bits, .context = &plain });
}

Test(api_push, same_bits_of_threads)
{
    for (int n = 2; n <= 3; n++)
        ranks_run(
            &(struct ranks_plan){ .n = n, .kind = RANKS_TOGETHER, .run = same_bits, .context = &plain });
}

Test(api_push, peers_on_the_other_way)
{
    for (int n = 2; n <= 3; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = same_bits, .context = &mixed });
}

Test(api_push, exact)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = same_bits, .context = &exact });
}

/* --- What goes where */

enum { COUNT = 16001 };

static void put_values(const struct ranks_me *me, int32_t *to, int32_t round)
{
    for (int32_t i = 0; i < COUNT; i++)
        to[i] = round + me->rank * 7 + i;
}

static bool right_sums(struct ranks_me *me, const int32_t *sums, int32_t round)
{
    for (int32_t i = 0; i < COUNT; i++)
        if (sums[i] != me->n * (round + i) + 7 * me->n * (me->n - 1) / 2)
            return ranks_expect(me, false, "round %d: element %d is %d", round, i, sums[i]) && false;
    return true;
}

struct vectors {
    int32_t send[COUNT], recv[COUNT];
};

/* As soon as a call is over, its buffers are the caller's, who writes them. */
static bool reduce_once(
    struct ranks_me *me, int32_t *from, int32_t *to, tutti_comm *comm, int32_t round, tutti_status *status)
{
    put_values(me, from, round);
    *status = tutti_all_reduce(from, to, COUNT, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    bool right = *status == TUTTI_OK && right_sums(me, to, round);
    memset(from, 0xee, COUNT * sizeof *from);
    memset(to, 0xee, COUNT * sizeof *to);
    return right;
}

static void copy_nothing(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "algo=all_reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    struct vectors *v;
    tutti_status status = TUTTI_OK;
    if (comm == NULL || !ranks_ok(me, tutti_mem_alloc(sizeof *v, TUTTI_MEM_HOST, (void **)&v), "mem_alloc"))
        return;
    for (int32_t round = 0; round < 40 && status == TUTTI_OK; round++) {
        ranks_at(me, "n %d rank %d: round %d", me->n, me->rank, round);
        struct ranks_paths before = ranks_paths(me, comm);
        if (!reduce_once(me, round % 2 == 1 ? v->recv : v->send, v->recv, comm, round, &status))
            break;
        struct ranks_paths after = ranks_paths(me, comm);
        unsigned long long others = (unsigned long long)me->n - 1,
                           part = COUNT / (size_t)me->n + ((size_t)me->rank < COUNT % (size_t)me->n);
        ranks_expect(me,
            after.mapped - before.mapped == 4 * (COUNT - part) &&
                after.placed - before.placed == 4 * part * others,
            "%s, then %s", before.text, after.text);
        ranks_expect(me, after.line == before.line && after.copied == before.copied, "%s, then %s",
            before.text, after.text);
    }
    ranks_ok(me, status, "all_reduce");
    ranks_expect(me, pushing_calls(comm) == 2, "%d cached calls push", pushing_calls(comm));
    tutti_mem_free(v);
    ranks_part(me, comm);
}

Test(api_push, memory_that_is_shared_is_not_copied)
{
    static const int ranks[] = { 2, 3, 8 };
    for (int i = 0; i < 3; i++)
        ranks_run(&(struct ranks_plan){ .n = ranks[i], .run = copy_nothing });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = copy_nothing });
}

/* Where peers have not said where they want it, they read the sum where it lies, before the call ends. */
static void lend_sums(struct ranks_me *me)
{
    static int32_t own[RANKS_MAX][COUNT];
    tutti_config config = { .size = sizeof config, .options = "algo=all_reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    struct vectors *v;
    tutti_status status = TUTTI_OK;
    if (comm == NULL || !ranks_ok(me, tutti_mem_alloc(sizeof *v, TUTTI_MEM_HOST, (void **)&v), "mem_alloc"))
        return;
    for (int32_t round = 0; round < 1000; round++) {
        ranks_at(me, "n %d rank %d: lent sums, round %d", me->n, me->rank, round);
        if (!reduce_once(me, v->send, me->rank == 0 ? v->recv : own[me->rank], comm, round, &status))
            break;
    }
    ranks_ok(me, status, "all_reduce");
    struct ranks_paths paths = ranks_paths(me, comm);
    ranks_expect(me, me->rank > 0 || (paths.copied == 0 && paths.placed == 0), "%s", paths.text);
    tutti_mem_free(v);
    ranks_part(me, comm);
}

Test(api_push, sums_that_are_lent_are_read_before_the_call_ends)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = lend_sums });
    ranks_run(&(struct ranks_plan){ .n = 3, .run = lend_sums });
}

/* --- Who is late, stopped, or dies */

struct trouble {
    bool shared, in_place;
};

/* Until the parent has done with it, which rank 0 tells by what it hands in. */
static void reduce_on(struct ranks_me *me)
{
    const struct trouble *trouble = me->context;
    tutti_config config = { .size = sizeof config, .options = "algo=all_reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    struct vectors *v = NULL;
    _Atomic uint8_t *over = me->shared;
    int32_t go = 1, goes = 1;
    tutti_status status = TUTTI_OK;
    if (trouble->shared)
        ranks_ok(me, tutti_mem_alloc(sizeof *v, TUTTI_MEM_HOST, (void **)&v), "mem_alloc");
    else
        v = malloc(sizeof *v);
    for (int32_t round = 0; comm != NULL && v != NULL && goes > 0; round++) {
        ranks_at(me, "rank %d: round %d", me->rank, round);
        if (!reduce_once(me, trouble->in_place ? v->recv : v->send, v->recv, comm, round, &status))
            break;
        go = me->rank > 0 || atomic_load(over) == 0;
        if (round % 20 == 0)
            ranks_ok(me, tutti_all_reduce(&go, &goes, 1, TUTTI_INT32, TUTTI_MIN, comm, tutti_no_stream()),
                "all_reduce");
    }
    ranks_ok(me, status, "all_reduce");
    if (trouble->shared)
        tutti_mem_free(v);
    else
        free(v);
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_push, the_executor_takes_over)
{
    static const struct trouble troubles[] = { { true, false }, { true, true }, { false, false } };
    for (int i = 0; i < 3; i++)
        for (int n = 2; n <= 3; n++)
            ranks_run(&(struct ranks_plan){
                .n = n, .run = reduce_on, .context = &troubles[i], .meddle = ranks_stop_in_turn });
}

/* Which of them sees the end first is chance; what the call returned is the caller's, and stays so. */
static void reduce_until_the_end(struct ranks_me *me)
{
    const struct trouble *trouble = me->context;
    tutti_config config = { .size = sizeof config, .options = "algo=all_reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    struct vectors *v = NULL;
    tutti_status status = TUTTI_OK;
    _Atomic int *begun = me->shared;
    if (comm == NULL || !ranks_ok(me, tutti_mem_alloc(sizeof *v, TUTTI_MEM_HOST, (void **)&v), "mem_alloc"))
        return;
    memset(v, 0xee, sizeof *v);
    for (int32_t round = 0; status == TUTTI_OK; round++) {
        reduce_once(me, trouble->in_place ? v->recv : v->send, v->recv, comm, round, &status);
        if (round == 10)
            atomic_fetch_add(begun, 1);
    }
    ranks_expect(me, status == TUTTI_PEER_LOST, "all_reduce: status %d", status);
    ranks_sleep_us(20000);
    size_t changed = 0;
    for (size_t i = 0; i < sizeof *v; i++)
        changed += ((const uint8_t *)v)[i] != 0xee;
    ranks_expect(me, changed == 0, "%zu bytes were written after the call had returned", changed);
    tutti_comm_destroy(comm);
    tutti_mem_free(v);
}

static void kill_one(struct ranks_world *world, const struct ranks_plan *plan)
{
    _Atomic int *begun = (_Atomic int *)(void *)world->shared;
    for (int64_t until = ranks_now_ms() + SOON_MS; atomic_load(begun) < plan->n && ranks_now_ms() < until;)
        ranks_sleep_us(100);
    ranks_sleep_us((uint32_t)(plan->seed * 137 % 2000));
    kill(atomic_load(&world->slots[plan->n - 1].pid), SIGKILL);
}

Test(api_push, a_rank_dies)
{
    static const struct trouble troubles[] = { { true, false }, { true, true } };
    for (uint64_t seed = 0; seed < 12; seed++)
        ranks_run(&(struct ranks_plan){ .n = 2 + (int)(seed % 2),
            .run = reduce_until_the_end,
            .context = &troubles[seed / 2 % 2],
            .meddle = kill_one,
            .seed = seed,
            .may_die = 1u << (1 + seed % 2) });
}

/* How long the first two were in a call that the third aborts: a second where each waits until the other
 * leaves its memory alone, and the other does not. */
static int64_t abort_at_the_third(struct ranks_me *me)
{
    int64_t took = 0;
    tutti_config config = { .size = sizeof config, .options = "algo=all_reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    struct vectors *v = NULL;
    tutti_status status = TUTTI_OK;
    if (comm == NULL || !ranks_ok(me, tutti_mem_alloc(sizeof *v, TUTTI_MEM_HOST, (void **)&v), "mem_alloc"))
        return 0;
    for (int32_t round = 0; round < 5; round++)
        reduce_once(me, v->send, v->recv, comm, round, &status);
    ranks_at(me, "rank %d: abort", me->rank);
    if (me->rank == 2) {
        ranks_sleep_us(20000);
        ranks_ok(me, tutti_comm_abort(comm), "abort");
    } else {
        int64_t began = ranks_now_ms();
        reduce_once(me, v->send, v->recv, comm, 5, &status);
        took = ranks_now_ms() - began;
        ranks_expect(me, status == TUTTI_ABORTED, "all_reduce: status %d", status);
    }
    ranks_meet(me);
    tutti_comm_destroy(comm);
    tutti_mem_free(v);
    return took;
}

/* Ranks that wait for the same one give up together. A loaded machine makes some tries as slow as that. */
static void give_up_together(struct ranks_me *me)
{
    enum { QUICK_MS = 900, TRIES = 20 };
    _Atomic int64_t *slowest = me->shared; /* of each try */
    for (int i = 0; i < TRIES; i++) {
        int64_t took = abort_at_the_third(me), before = atomic_load(&slowest[i]);
        while (before < took && !atomic_compare_exchange_weak(&slowest[i], &before, took))
            continue;
        ranks_meet(me);
        if (atomic_load(&slowest[i]) < QUICK_MS)
            return;
    }
    ranks_fail(me, "of %d tries none took less than %d ms", TRIES, QUICK_MS);
}

Test(api_push, ranks_give_up_together)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = give_up_together });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = give_up_together });
}
