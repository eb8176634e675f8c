/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_duplex.c: results of a long call have a stream of their own: a device's bus goes both ways
 * at once.
 *
 * What may overlap is seen by holding one side up: a wait that only this test ends stands in the stream of
 * results, or the peer has not called. What may not is seen in the same way, by words that do not move. That
 * results are right is tried with copies that are late by chance, and with as few hardware queues as there
 * are. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "base/handle.h"
#include "device/dev.h"
#include "device/device.h"
#include "graph_rig.h"
#include "tests/rig/plugin.h"

TestSuite(api_device_duplex, .timeout = 120);

enum { LONG = 50000, LIMIT_MS = 20000, SETTLE_US = 50000, FAR = 1000, ROUNDS = 4 };
enum { OWN, SUM, SQUARE, PEERS, ALL, ROWS }; /* what a rank has: ALL of every rank */

struct scene { /* a rank's */
    struct ranks_me *me;
    const struct tt_dev *dev;
    tutti_comm *comm;
    struct tt_device *device;
    void *stream;
    uint32_t *rows[ROWS], *word; /* managed, but for the word that a stream waits for */
};

static bool fine(const struct scene *s, enum tt_dev_error error)
{
    return ranks_expect(s->me, error == TT_DEV_OK, "device: %s", error == TT_DEV_OK ? "" : s->dev->why());
}

static bool set_up(struct ranks_me *me, struct scene *s)
{
    char options[96];
    int device = me->kind == RANKS_PROCESSES ? 0 : me->rank;
    void *memory = NULL;
    snprintf(options, sizeof options, "executor=host;slice=8K;first_number=4294967200;device=%d", device);
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = 200000 };
    *s = (struct scene){ .me = me };
    bool good = ranks_ok(me, tt_dev_find(plugin_path(), &s->dev), "tt_dev_find") &&
                fine(s, s->dev->use(device)) && fine(s, s->dev->stream.create(&s->stream)) &&
                fine(s, s->dev->memory.alloc_pinned(64, &memory));
    s->word = memory;
    for (int row = 0; row < ROWS && good; row++) {
        size_t count = LONG * (row == ALL ? (size_t)me->n : 1);
        good = fine(s, s->dev->memory.alloc_managed(count * sizeof(uint32_t), &memory));
        s->rows[row] = memory;
    }
    if (!good || (s->comm = ranks_join(me, &config)) == NULL)
        return false;
    s->device = tt_comm_find(s->comm)->device;
    return true;
}

static uint32_t value(int rank, int round, size_t i)
{
    return (uint32_t)(rank + 1) * 1000003u + (uint32_t)round * 65599u + (uint32_t)i * 31u;
}

static void give(const struct scene *s, int round)
{
    for (size_t i = 0; i < LONG; i++)
        s->rows[OWN][i] = value(s->me->rank, round, i);
}

/* The row is so many times the sum of what all ranks gave. */
static void is_sum(const struct scene *s, int round, const uint32_t *row, uint32_t times)
{
    for (size_t i = 0; i < LONG; i++) {
        uint32_t sum = 0;
        for (int r = 0; r < s->me->n; r++)
            sum += value(r, round, i);
        if (!ranks_expect(s->me, row[i] == times * sum, "round %d, element %zu of %d sums is %u, not %u",
                round, i, (int)times, row[i], times * sum))
            return;
    }
}

static void is_of_rank(const struct scene *s, int round, const uint32_t *row, int rank)
{
    size_t i = 0;
    while (i < LONG && row[i] == value(rank, round, i))
        i++;
    ranks_expect(s->me, i == LONG, "round %d, of rank %d: element %zu is %u", round, rank, i, row[i % LONG]);
}

static void reduce(const struct scene *s, int from, int to)
{
    ranks_ok(s->me,
        tutti_all_reduce(
            s->rows[from], s->rows[to], LONG, TUTTI_UINT32, TUTTI_SUM, s->comm, tutti_cuda_stream(s->stream)),
        "all_reduce");
}

static void exchange(const struct scene *s, int from, int to, int next, int before)
{
    tutti_stream on = tutti_cuda_stream(s->stream);
    ranks_ok(s->me, tutti_group_start(), "group_start");
    ranks_ok(s->me, tutti_send(s->rows[from], LONG, TUTTI_UINT32, next, s->comm, on), "send");
    ranks_ok(s->me, tutti_recv(s->rows[to], LONG, TUTTI_UINT32, before, s->comm, on), "recv");
    ranks_ok(s->me, tutti_group_end(), "group_end");
}

static void end(struct scene *s)
{
    fine(s, s->dev->stream.sync(s->stream));
    ranks_ok(s->me, tutti_comm_state(s->comm), "state");
}

static void hold_results(const struct scene *s)
{
    *s->word = 0;
    fine(s, s->dev->wait_word(s->device->results, s->word, 1));
}

static void let_results_go(const struct scene *s)
{
    __atomic_store_n(s->word, 1, __ATOMIC_RELEASE);
}

static uint32_t ready_of(const struct scene *s, uint32_t gate, uint32_t base)
{
    return atomic_load(&s->device->words[gate].ready) - base;
}

/* The operands of so many slices come in, and no more. */
static void comes_in(const struct scene *s, uint32_t gate, uint32_t base, uint32_t slices)
{
    int64_t until = ranks_now_ms() + LIMIT_MS;
    while (ready_of(s, gate, base) < slices && ranks_now_ms() < until)
        ranks_sleep_us(100);
    ranks_sleep_us(SETTLE_US);
    ranks_expect(s->me, ready_of(s, gate, base) == slices, "operands of %u slices are in, not of %u",
        ready_of(s, gate, base), slices);
}

static void is_under_way(const struct scene *s)
{
    ranks_expect(s->me, s->dev->stream.query(s->stream) == TT_DEV_NOT_READY, "its stream is past the call");
}

/* --- Results are held up: operands come in all the same, and the worker writes into no cell that is not
 * free. */

static void reduce_with_results_held(struct ranks_me *me)
{
    struct scene s;
    if (!set_up(me, &s))
        return;
    uint32_t base = s.device->counts[0];
    /* as if calls of one stream had gone round since the last one of two */
    atomic_store(&s.device->words[0].drained, base + FAR);
    give(&s, 0);
    hold_results(&s);
    reduce(&s, OWN, SUM);
    comes_in(&s, 0, base, 2 * TT_WINDOW);
    uint32_t done = atomic_load(&s.device->words[0].done) - base;
    ranks_expect(me, done == TT_WINDOW, "%u slices are done, and cells of %d were free", done, TT_WINDOW);
    is_under_way(&s);
    ranks_meet(me);
    let_results_go(&s);
    end(&s);
    is_sum(&s, 0, s.rows[SUM], 1);
    ranks_part(me, s.comm);
}

Test(api_device_duplex, operands_come_in_beside_results)
{
    plugin_must_be_stub();
    graph_run({ "queues=32", 2, RANKS_PROCESSES, reduce_with_results_held, NULL, 0 },
        { "queues=32,devices=3", 3, RANKS_THREADS, reduce_with_results_held, NULL, 0 });
}

static void exchange_with_results_held(struct ranks_me *me)
{
    struct scene s;
    int peer = 1 - me->rank;
    if (!set_up(me, &s))
        return;
    uint32_t sends = tt_device_gate(peer, false), base = s.device->counts[sends];
    give(&s, 0);
    hold_results(&s);
    exchange(&s, OWN, PEERS, peer, peer);
    comes_in(&s, sends, base, 2 * TT_WINDOW);
    is_under_way(&s);
    ranks_meet(me);
    let_results_go(&s);
    end(&s);
    is_of_rank(&s, 0, s.rows[PEERS], peer);
    ranks_part(me, s.comm);
}

Test(api_device_duplex, messages_leave_beside_those_that_come)
{
    plugin_must_be_stub();
    graph_run({ "queues=32", 2, RANKS_PROCESSES, exchange_with_results_held, NULL, 0 });
}

/* --- Operands wait until their cells are free: a slice is done only when the peer has called. */

static void reduce_before_the_peer(struct ranks_me *me)
{
    struct scene s;
    if (!set_up(me, &s))
        return;
    uint32_t base = s.device->counts[0];
    give(&s, 0);
    if (me->rank == 1)
        ranks_meet(me);
    reduce(&s, OWN, SUM);
    if (me->rank == 0) {
        comes_in(&s, 0, base, TT_WINDOW);
        ranks_meet(me);
    }
    end(&s);
    is_sum(&s, 0, s.rows[SUM], 1);
    ranks_part(me, s.comm);
}

Test(api_device_duplex, operands_wait_for_cells)
{
    plugin_must_be_stub();
    graph_run({ "queues=32", 2, RANKS_PROCESSES, reduce_before_the_peer, NULL, 0 });
}

/* --- Calls of which each reads what the one before wrote, in a group and not */

static void run_chain(struct ranks_me *me)
{
    struct scene s;
    if (!set_up(me, &s))
        return;
    int next = (me->rank + 1) % me->n, before = (me->rank + me->n - 1) % me->n;
    tutti_stream on = tutti_cuda_stream(s.stream);
    for (int round = 0; round < ROUNDS; round++) {
        give(&s, round);
        ranks_ok(me, tutti_group_start(), "group_start");
        reduce(&s, OWN, SUM);
        reduce(&s, SUM, SQUARE);
        ranks_ok(me, tutti_group_end(), "group_end");
        reduce(&s, SQUARE, SQUARE);
        exchange(&s, SQUARE, PEERS, next, before);
        ranks_ok(me, tutti_all_gather(s.rows[OWN], s.rows[ALL], LONG, TUTTI_UINT32, s.comm, on), "gather");
        reduce(&s, PEERS, PEERS);
        end(&s);
        uint32_t n = (uint32_t)me->n;
        is_sum(&s, round, s.rows[SUM], 1);
        is_sum(&s, round, s.rows[SQUARE], n * n);
        is_sum(&s, round, s.rows[PEERS], n * n * n);
        for (int r = 0; r < me->n; r++)
            is_of_rank(&s, round, s.rows[ALL] + (size_t)r * LONG, r);
    }
    ranks_part(me, s.comm);
}

Test(api_device_duplex, a_chain_of_calls_is_right)
{
    plugin_must_be_stub();
    graph_run({ "queues=1", 2, RANKS_PROCESSES, run_chain, NULL, 0 },
        { "queues=2,copy_delay=200", 2, RANKS_PROCESSES, run_chain, NULL, 0 },
        { "queues=8,copy_delay=200,word_delay=100", 3, RANKS_PROCESSES, run_chain, NULL, 0 },
        { "queues=1,devices=3", 3, RANKS_THREADS, run_chain, NULL, 0 },
        { "queues=8,devices=3,copy_delay=200", 3, RANKS_THREADS, run_chain, NULL, 0 });
}
