/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_group.c: groups of several communicators on a device.
 *
 * Ranks may name the communicators in any order, and a rank has fewer slices of a call than another where it
 * knows shorter blocks only. All the same no rank may wait in its stream for what a peer enqueues behind a
 * wait for this one. One hardware queue, and one stream for all: so whatever is out of order hangs. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/schedule.h"
#include "device/dev.h"
#include "tests/rig/plugin.h"
#include "tests/rig/ranks.h"

TestSuite(api_device_group, .timeout = 120);

enum { N = 3, LONG = 40000, SHORT = 1, AREA = N * LONG, ROUNDS = 4, COMMS = 2, MESSAGES = 3, EACH = 3000 };

struct bench { /* of a rank */
    const struct tt_dev *dev;
    tutti_comm *comms[COMMS];
    void *stream;
    uint32_t *send, *recv[COMMS], *sums[COMMS]; /* pinned */
};

static bool fine(struct ranks_me *me, const struct bench *b, enum tt_dev_error error)
{
    return ranks_expect(me, error == TT_DEV_OK, "device: %s", error == TT_DEV_OK ? "" : b->dev->why());
}

static uint32_t *managed(struct ranks_me *me, const struct bench *b, size_t count)
{
    void *memory = NULL;
    fine(me, b, b->dev->memory.alloc_managed(count * sizeof(uint32_t), &memory));
    return memory;
}

static bool set_up(struct ranks_me *me, struct bench *b)
{
    tutti_config config = { .size = sizeof config, .options = "slice=8K;device=0", .timeout_ms = 20000 };
    *b = (struct bench){ 0 };
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &b->dev), "tt_dev_find") || !fine(me, b, b->dev->use(0)) ||
        !fine(me, b, b->dev->stream.create(&b->stream)) || (b->send = managed(me, b, AREA)) == NULL)
        return false;
    for (int c = 0; c < COMMS; c++) {
        b->recv[c] = managed(me, b, AREA);
        b->sums[c] = managed(me, b, SHORT);
        b->comms[c] = ranks_join(me, &config);
        if (b->recv[c] == NULL || b->sums[c] == NULL || b->comms[c] == NULL)
            return false;
    }
    return true;
}

static void take_down(struct ranks_me *me, struct bench *b)
{
    for (int c = 0; c < COMMS; c++) {
        ranks_part(me, b->comms[c]);
        fine(me, b, b->dev->memory.free(b->recv[c]));
        fine(me, b, b->dev->memory.free(b->sums[c]));
    }
    fine(me, b, b->dev->memory.free(b->send));
    fine(me, b, b->dev->stream.destroy(b->stream));
}

/* Of communicator c the blocks between one pair are long; the third rank does not know. */
static size_t block(int c, int from, int to)
{
    return from != to && from != c * 2 && to != c * 2 ? LONG : SHORT;
}

static void exchange(struct ranks_me *me, const struct bench *b, int c)
{
    size_t sent[N], received[N], displs[N];
    for (int r = 0; r < N; r++) {
        sent[r] = block(c, me->rank, r);
        received[r] = block(c, r, me->rank);
        displs[r] = (size_t)r * LONG;
    }
    ranks_ok(me,
        tutti_all_to_all_v(b->send, sent, displs, b->recv[c], received, displs, TUTTI_UINT32, b->comms[c],
            tutti_cuda_stream(b->stream)),
        "all_to_all_v");
}

static void sum(struct ranks_me *me, const struct bench *b, int c)
{
    ranks_ok(me,
        tutti_all_reduce(b->sums[c], b->sums[c], SHORT, TUTTI_UINT32, TUTTI_SUM, b->comms[c],
            tutti_cuda_stream(b->stream)),
        "all_reduce");
}

/* What rank `from` has for all, in this round. */
static uint32_t value(int from, int round, size_t i)
{
    return (uint32_t)(from * 1000003 + round * 7919) + (uint32_t)i;
}

static bool is_summed(struct ranks_me *me, const struct bench *b, int c, int round)
{
    return ranks_ok(me, tutti_comm_state(b->comms[c]), "the group") &&
           ranks_expect(me, b->sums[c][0] == 3u * (unsigned)round + 6, "communicator %d: the sum is %u", c,
               b->sums[c][0]);
}

static void check(struct ranks_me *me, const struct bench *b, int c, int round)
{
    if (!is_summed(me, b, c, round))
        return;
    for (int r = 0; r < N; r++)
        for (size_t i = 0; i < block(c, r, me->rank); i++) {
            size_t at = (size_t)r * LONG + i;
            uint32_t expected = value(r, round, (size_t)me->rank * LONG + i);
            if (!ranks_expect(
                    me, b->recv[c][at] == expected, "communicator %d: element %zu of rank %d", c, i, r))
                return;
        }
}

/* Of communicator c ranks c and c + 1 exchange messages, of which the third knows nothing, either. */
static int partner(const struct ranks_me *me, int c)
{
    return me->rank == c ? c + 1 : me->rank == c + 1 ? c : TT_NONE;
}

static void talk(struct ranks_me *me, const struct bench *b, int c)
{
    tutti_stream stream = tutti_cuda_stream(b->stream);
    int peer = partner(me, c);
    for (size_t k = 0; k < MESSAGES && peer != TT_NONE; k++) {
        ranks_ok(me, tutti_send(b->send + k * EACH, EACH, TUTTI_UINT32, peer, b->comms[c], stream), "send");
        ranks_ok(
            me, tutti_recv(b->recv[c] + k * EACH, EACH, TUTTI_UINT32, peer, b->comms[c], stream), "recv");
    }
}

static void check_talk(struct ranks_me *me, const struct bench *b, int c, int round)
{
    int peer = partner(me, c);
    if (!is_summed(me, b, c, round))
        return;
    for (size_t i = 0; i < MESSAGES * EACH && peer != TT_NONE; i++)
        if (!ranks_expect(me, b->recv[c][i] == value(peer, round, i), "communicator %d: word %zu", c, i))
            return;
}

struct parts { /* of a group, of each communicator, before its sum */
    void (*call)(struct ranks_me *me, const struct bench *b, int c);
    void (*check)(struct ranks_me *me, const struct bench *b, int c, int round);
};

static void in_any_order(struct ranks_me *me)
{
    const struct parts *parts = me->context;
    struct bench b;
    if (!set_up(me, &b))
        return;
    for (int round = 0; round < ROUNDS; round++) {
        ranks_at(me, "rank %d: round %d", me->rank, round);
        for (size_t i = 0; i < AREA; i++)
            b.send[i] = value(me->rank, round, i);
        for (int c = 0; c < COMMS; c++)
            b.sums[c][0] = (uint32_t)(round + me->rank + 1);
        tutti_group_start();
        for (int k = 0; k < COMMS; k++) {
            int c = (k + me->rank + round) % COMMS;
            parts->call(me, &b, c);
            sum(me, &b, c);
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        fine(me, &b, b.dev->stream.sync(b.stream));
        for (int c = 0; c < COMMS; c++)
            parts->check(me, &b, c, round);
        if (me->world->slots[me->rank].failures > 0)
            return;
    }
    take_down(me, &b);
}

static void run_all(const struct parts *parts)
{
    plugin_must_be_stub();
    plugin_must_have_kernels();
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    setenv("STUB_GPU", "queues=1", 1);
    ranks_run(&(struct ranks_plan){ .n = N, .run = in_any_order, .context = parts });
    ranks_run(&(struct ranks_plan){ .n = N, .kind = RANKS_THREADS, .run = in_any_order, .context = parts });
    setenv("TUTTI_EXECUTOR", "host", 1);
    ranks_run(&(struct ranks_plan){ .n = N, .kind = RANKS_THREADS, .run = in_any_order, .context = parts });
}

Test(api_device_group, communicators_in_any_order)
{
    run_all(&(struct parts){ exchange, check });
}

Test(api_device_group, messages_before_collectives)
{
    run_all(&(struct parts){ talk, check_talk });
}

/* A profiler is told of each call and of each group, and that they are over. */
static void tell_profilers(struct ranks_me *me)
{
    const struct tt_stub *stub = plugin_stub();
    struct bench b;
    if (stub == NULL || !set_up(me, &b))
        return;
    tutti_stream on = tutti_cuda_stream(b.stream);
    uint64_t begun = stub->calls("range_begin");
    ranks_ok(
        me, tutti_all_reduce(b.send, b.recv[0], 1, TUTTI_UINT32, TUTTI_SUM, b.comms[0], on), "all_reduce");
    ranks_ok(me, tutti_group_start(), "group_start");
    for (int c = 0; c < COMMS; c++)
        ranks_ok(
            me, tutti_all_reduce(b.send, b.recv[c], 1, TUTTI_UINT32, TUTTI_SUM, b.comms[c], on), "in it");
    ranks_ok(me, tutti_group_end(), "group_end");
    ranks_expect(me, tutti_all_reduce(b.send, b.recv[0], 1, TUTTI_UINT32, TUTTI_SUM, NULL, on) != TUTTI_OK,
        "a call on no communicator");
    fine(me, &b, b.dev->stream.sync(b.stream));
    ranks_expect(
        me, stub->calls("range_begin") == begun + 2, "%d ranges", (int)(stub->calls("range_begin") - begun));
    ranks_expect(me, stub->calls("range_end") == stub->calls("range_begin"), "some range does not end");
    take_down(me, &b);
}

Test(api_device_group, profilers_are_told_of_calls)
{
    ranks_run(&(struct ranks_plan){ .n = N, .run = tell_profilers });
}
