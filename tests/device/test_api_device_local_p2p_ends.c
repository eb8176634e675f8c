/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_local_p2p_ends.c: what becomes of a message between ranks of one process on one device when
 * the two ends differ, leave or fail. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/handle.h"
#include "device/device_local.h"
#include "local_rig.h"

TestSuite(api_device_local_p2p_ends, .timeout = 240);

static tutti_status pass(const struct local_desk *d, int from, int to, size_t count, tutti_type type)
{
    if (d->me->rank == from)
        return tutti_send(d->areas[GIVEN], count, type, to, d->comm, local_on(d));
    return d->me->rank == to ? tutti_recv(d->areas[GOT], count, type, from, d->comm, local_on(d)) : TUTTI_OK;
}

/* --- Both ends are told what the host tells them. */

static const struct {
    size_t count;
    tutti_type type;
} differences[] = { { 1024, TUTTI_INT32 }, { 1000, TUTTI_INT32 }, { 1024, TUTTI_FLOAT32 },
    { 4000, TUTTI_INT32 } };

static void differ(struct ranks_me *me)
{
    for (int k = 1; k < 4; k++) {
        struct local_desk d;
        tutti_error errors[2];
        int which = me->rank == 1 ? k : 0;
        if (!local_sit_down(me, &d, 100000))
            return;
        tutti_comm *host = local_join(me, ";executor=host", 100000);
        for (int way = 0; way < 2 && host != NULL; way++) {
            ranks_at(me, "difference %d, %s", k, way == 0 ? "undecided" : "by the host");
            d.comm = way == 0 ? d.comm : host;
            pass(&d, 0, 1, differences[which].count, differences[which].type);
            local_drains(&d);
            errors[way] = ranks_same_error(me, d.comm, TUTTI_MISMATCH, "rank 1|rank 0 sent a message");
            ranks_meet(me);
            ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
        }
        const char *said[2] = { strstr(errors[0].text, "found by"), strstr(errors[1].text, "found by") };
        ranks_expect(me, said[0] != NULL && said[1] != NULL && strcmp(said[0], said[1]) == 0, "%s, not %s",
            errors[0].text, errors[1].text);
    }
}

Test(api_device_local_p2p_ends, ends_that_differ)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 2, differ);
}

/* --- The end that never calls is named, when the deadline has passed: also in a group whose other message is
 * over, or is still held up on the device. */

static void stay_away(struct ranks_me *me)
{
    for (int grouped = 0; grouped < 3; grouped++) {
        struct local_desk d;
        void *memory = NULL;
        ranks_at(me, "%d", grouped);
        if (!local_sit_down(me, &d, 100000) || !local_fine(&d, d.dev->memory.alloc_pinned(64, &memory)))
            return;
        local_hurry(d.comm, 300);
        uint32_t *word = memory;
        *word = 0;
        local_poison(&d);
        if (me->rank == 2 && grouped == 2)
            local_fine(&d, d.dev->wait_word(d.stream, word, 1));
        if (grouped > 0 && me->rank == 0)
            tutti_group_start();
        if (grouped > 0)
            pass(&d, 0, 2, 100, TUTTI_INT32);
        tutti_status status = TUTTI_TIMEOUT;
        if (me->rank == 0)
            status = tutti_recv(d.areas[GOT], 1000, TUTTI_INT32, 1, d.comm, local_on(&d));
        if (grouped > 0 && me->rank == 0)
            status = tutti_group_end();
        if (me->rank == 0)
            ranks_refused(me, status, TUTTI_TIMEOUT, "recv", "recv|waiting for rank 1");
        while (tutti_comm_state(d.comm) == TUTTI_OK)
            ranks_sleep_us(1000);
        __atomic_store_n(word, 1, __ATOMIC_RELEASE);
        local_drains(&d);
        ranks_same_error(me, d.comm, TUTTI_TIMEOUT, "recv");
        if (me->rank == 1) /* too late */
            ranks_refused(me, pass(&d, 1, 0, 1000, TUTTI_INT32), TUTTI_TIMEOUT, "send", "waiting for rank 1");
        local_drains(&d);
        ranks_expect(me, me->rank == 2 || local_is_poisoned(&d), "something came");
        ranks_meet(me);
        ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
    }
}

Test(api_device_local_p2p_ends, an_end_that_never_calls)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, stay_away);
}

/* --- Aborted while an end waits, or is about to: when a stream is through after an error, its buffer is left
 * alone, though the other end comes at that very moment. */

static void abort_meanwhile(struct ranks_me *me)
{
    for (int round = 0; round < 40; round++) {
        struct local_desk d;
        uint8_t got[4096];
        ranks_at(me, "round %d", round);
        if (!local_sit_down(me, &d, 100000))
            return;
        local_poison(&d);
        if (me->rank != 0 && me->rank % 2 == round % 2)
            ranks_spin_ns((uint32_t)round * 4000);
        tutti_status status = me->rank == 0 ? tutti_comm_abort(d.comm) : pass(&d, 1, 2, 4096, TUTTI_UINT8);
        ranks_expect(me, status == TUTTI_OK || status == TUTTI_ABORTED, "status %d", status);
        local_drains(&d);
        memcpy(got, d.stub->look(d.areas[GOT]), sizeof got);
        ranks_same_error(me, d.comm, TUTTI_ABORTED, "rank 0");
        ranks_meet(me);
        ranks_expect(
            me, memcmp(got, d.stub->look(d.areas[GOT]), sizeof got) == 0, "it was stored into its buffer");
        ranks_meet(me);
        ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
        for (int a = 0; a < AREAS; a++)
            local_fine(&d, d.dev->memory.free(d.areas[a]));
        local_fine(&d, d.dev->memory.free_pinned(d.host));
        local_fine(&d, d.dev->stream.destroy(d.stream));
    }
}

Test(api_device_local_p2p_ends, abort_while_an_end_waits)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, abort_meanwhile);
}

/* The same as the two ends see it: one leaves before the other one comes, or when it is decided. */

enum { N = 2 };
struct ends {
    tutti_comm *comms[N];
    struct tt_call calls[N];
    struct tt_local_call local[N];
};

static bool make_ends(struct ranks_me *me, struct local_desk *d, struct ends *e)
{
    const int devices[N] = { 0 };
    if (!ranks_ok(me, tutti_comm_init_all(N, devices, NULL, e->comms), "tutti_comm_init_all"))
        return false;
    for (int r = 0; r < N; r++) {
        e->calls[r] = (struct tt_call){ .collective = r == 0 ? TT_P2P_SEND : TT_P2P_RECV,
            .comm = tt_comm_find(e->comms[r]),
            .send = d->areas[GIVEN],
            .recv = d->areas[GOT],
            .root = 1 - r,
            .count = 4,
            .type = TUTTI_INT32 };
        e->local[r] = tt_local_call_of(&e->calls[r]);
        e->local[r].stream = d->stream;
        e->local[r].captured = true; /* no worker has it */
        e->local[r].staged[TT_IN] = e->local[r].staged[TT_OUT] = true;
    }
    return true;
}

static void leave(struct ranks_me *me)
{
    struct local_desk d;
    struct ends e;
    if (!local_sit_down(me, &d, 100000))
        return;
    for (int late = 0; late < 2 && make_ends(me, &d, &e); late++) {
        uint64_t copies = d.stub->calls("copy"), waits = d.stub->calls("event_wait");
        ranks_at(me, "the first one leaves %s the other comes", late ? "after" : "before");
        ranks_ok(me, tt_pair_arrive(e.calls[0].comm, &e.local[0]), "the first arrives");
        if (late)
            ranks_ok(me, tt_pair_arrive(e.calls[1].comm, &e.local[1]), "the second arrives");
        ranks_ok(me, tutti_comm_abort(e.comms[0]), "tutti_comm_abort");
        tt_pair_leave(e.calls[0].comm, &e.local[0]);
        if (!late)
            ranks_ok(me, tt_pair_arrive(e.calls[1].comm, &e.local[1]), "the second arrives");
        ranks_expect(me, tt_pair_is_decided(e.calls[1].comm, &e.local[1]) == late, "it is decided");
        if (!late)
            tt_pair_leave(e.calls[1].comm, &e.local[1]);
        ranks_expect(me, d.stub->calls("copy") == copies + (unsigned)late, "copied to what was given back");
        ranks_expect(me, d.stub->calls("event_wait") == waits + 2 * (unsigned)late,
            "who leaves does not wait for the copy");
        for (int r = 0; r < N; r++)
            ranks_ok(me, tutti_comm_destroy(e.comms[r]), "tutti_comm_destroy");
    }
    ranks_part(me, d.comm);
}

Test(api_device_local_p2p_ends, no_copy_after_an_end_has_left)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 1, leave);
}

/* --- What an end enqueues fails: both are told, and no stream is left waiting. */

static void fail_to_enqueue(struct ranks_me *me)
{
    static const char *const functions[] = { "copy", "event_wait", "event_record", "write_word" };
    for (int f = 0; f < 8; f++) {
        struct local_desk d;
        const char *function = functions[f / 2];
        ranks_at(me, "failing %s, %d late", function, f % 2);
        if (!local_sit_down(me, &d, 100000))
            return;
        local_settle(&d);
        if (me->rank == 0)
            d.stub->fail(function, 1, TT_DEV_UNSUPPORTED);
        ranks_meet(me);
        if (me->rank == f % 2)
            ranks_sleep_us(20000);
        pass(&d, 0, 1, 1024, TUTTI_INT32);
        local_drains(&d);
        ranks_same_error(me, d.comm, TUTTI_DEVICE_ERROR, function);
        ranks_meet(me);
        ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
    }
}

Test(api_device_local_p2p_ends, an_enqueue_that_fails)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 2, fail_to_enqueue);
}

/* --- A rank whose message was copied may go, though the other end is still held up by another message. */

static void go_early(struct ranks_me *me)
{
    enum { LATE_US = 30000, LONG_US = 600000 };
    struct local_desk d;
    void *memory = NULL;
    if (!local_sit_down(me, &d, 100000) || !local_fine(&d, d.dev->memory.alloc_pinned(64, &memory)))
        return;
    uint32_t *word = memory;
    *word = 0;
    local_give(&d, GIVEN, "sent", 4);
    ranks_meet(me);
    if (me->rank == 1)
        local_fine(&d, d.dev->wait_word(d.stream, word, 1));
    if (me->rank == 0)
        tutti_group_start();
    else
        ranks_sleep_us((uint32_t)me->rank * LATE_US);
    ranks_ok(me, pass(&d, 0, 1, 4, TUTTI_UINT8), "to rank 1");
    ranks_ok(me, pass(&d, 0, 2, 4, TUTTI_UINT8), "to rank 2");
    if (me->rank == 0)
        ranks_ok(me, tutti_group_end(), "group_end");
    if (me->rank == 2) { /* and gives back what it has, for which it waits until the device is idle */
        local_drains(&d);
        ranks_expect(me, memcmp(d.stub->look(d.areas[GOT]), "sent", 4) == 0, "other bytes came");
        ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
    } else {
        ranks_sleep_us(LONG_US);
        ranks_ok(me, tutti_comm_state(d.comm), "state");
    }
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    local_drains(&d);
    if (me->rank == 1)
        ranks_expect(me, memcmp(local_take(&d, GOT, 4), "sent", 4) == 0, "other bytes came");
    if (me->rank != 2)
        ranks_ok(me, tutti_comm_state(d.comm), "state");
    ranks_meet(me);
    if (me->rank != 2)
        ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
}

Test(api_device_local_p2p_ends, a_rank_that_goes_early)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, go_early);
}

/* --- While a graph of the communicator lives, its worker begins no call before the device has reached it:
 * the deadline of one that a rank never makes passes all the same. */

static void stay_away_from_graph(struct ranks_me *me)
{
    struct local_desk d;
    tutti_comm *comms[N];
    const int devices[N] = { 0 };
    void *graph = NULL;
    tutti_config config = { .size = sizeof config, .options = "device=0", .timeout_ms = 300 };
    for (int message = 0; message < 2; message++) {
        if (!local_sit_down(me, &d, 100000) ||
            !ranks_ok(me, tutti_comm_init_all(N, devices, &config, comms), "tutti_comm_init_all"))
            return;
        local_fine(&d, d.dev->graph.capture_begin(d.stream));
        tutti_group_start();
        for (int r = 0; r < N; r++)
            tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 4, TUTTI_INT32, TUTTI_SUM, comms[r], local_on(&d));
        ranks_ok(me, tutti_group_end(), "group");
        local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
        tutti_status status = message ? tutti_recv(d.areas[GOT], 4, TUTTI_INT32, 1, comms[0], local_on(&d))
                                      : tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 4, TUTTI_INT32,
                                            TUTTI_SUM, comms[0], local_on(&d));
        ranks_refused(me, status, TUTTI_TIMEOUT, "a call of one rank", "by rank 0|rank 1");
        local_drains(&d);
        local_fine(&d, d.dev->graph.destroy(graph));
        for (int r = 0; r < N; r++)
            ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
        ranks_part(me, d.comm);
    }
}

Test(api_device_local_p2p_ends, an_end_that_never_calls_while_a_graph_lives)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 1, stay_away_from_graph);
}

/* --- What both ends have called has no deadline as long as their own streams are held up. */

static void take_time(struct ranks_me *me)
{
    static uint8_t ordinary[2][16];
    for (int host = 0; host < 2; host++) {
        struct local_desk d;
        void *memory = NULL;
        ranks_at(me, "%s", host ? "by the host" : "copied");
        if (!local_sit_down(me, &d, 100000) || !local_fine(&d, d.dev->memory.alloc_pinned(64, &memory)))
            return;
        local_hurry(d.comm, 300);
        uint32_t *word = memory;
        *word = 0;
        ranks_meet(me);
        local_fine(&d, d.dev->wait_word(d.stream, word, 1));
        void *to = host ? (void *)ordinary[me->rank] : d.areas[GOT];
        tutti_status status = me->rank == 0
                                  ? tutti_send(d.areas[GIVEN], 16, TUTTI_UINT8, 1, d.comm, local_on(&d))
                                  : tutti_recv(to, 16, TUTTI_UINT8, 0, d.comm, local_on(&d));
        ranks_ok(me, status, "a message");
        ranks_sleep_us(1200000);
        ranks_ok(me, tutti_comm_state(d.comm), "state");
        ranks_meet(me);
        __atomic_store_n(word, 1, __ATOMIC_RELEASE);
        local_drains(&d);
        ranks_ok(me, tutti_comm_state(d.comm), "state");
        ranks_part(me, d.comm);
    }
}

Test(api_device_local_p2p_ends, streams_that_are_held_up)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 2, take_time);
}
