/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_spin_replays.c: graphs that are replayed where ranks have a device each, when the ranks
 * differ, leave, fail or die: no worker knows of a replay, and all are told why all the same. */
#include <criterion/criterion.h>
#include <signal.h>

#include "spin/spin.h"
#include "ends_rig.h"
#include "spin_rig.h"

TestSuite(api_device_spin_replays, .timeout = 240);

enum { N = 3, COUNT = 1024, SHORT_MS = 300 };

static tutti_status sum(const struct local_desk *d)
{
    return tutti_all_reduce(
        d->areas[GIVEN], d->areas[GOT], COUNT, TUTTI_INT32, TUTTI_SUM, d->comm, local_on(d));
}

/* Of replays no worker knows: a rank that does not launch its own is named all the same. */
static void replay_alone(struct ranks_me *me)
{
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    void *runnable = local_capture(&d, sum);
    local_hurry(d.comm, SHORT_MS);
    ranks_meet(me);
    if (me->rank != 1)
        local_fine(&d, d.dev->graph.launch(runnable, d.stream));
    ends_await(d.comm);
    local_drains(&d);
    tutti_error error = ranks_same_error(me, d.comm, TUTTI_TIMEOUT, "a replay of captured calls|rank 1");
    ranks_expect(me, error.peer == 1, "the peer is %d", error.peer);
    local_fine(&d, d.dev->graph.runnable_destroy(runnable));
    ranks_meet(me);
    spin_get_up(&d);
}

/* A call and a replay of the same call are not alike: no worker knows of the replay. */
static void replay_and_call(struct ranks_me *me)
{
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    void *runnable = local_capture(&d, sum);
    local_hurry(d.comm, 4 * SHORT_MS);
    ranks_meet(me);
    if (me->rank != 1)
        local_fine(&d, d.dev->graph.launch(runnable, d.stream));
    else
        sum(&d);
    local_drains(&d);
    ends_await(d.comm);
    tutti_status state = tutti_comm_state(d.comm);
    ranks_expect(me, state == TUTTI_MISMATCH || state == TUTTI_TIMEOUT, "state %d: %s", state,
        tutti_get_last_error(d.comm));
    local_fine(&d, d.dev->graph.runnable_destroy(runnable));
    ranks_meet(me);
    spin_get_up(&d);
}

/* A rank that replays dies: the others are told. */
static void replay_and_die(struct ranks_me *me)
{
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    void *runnable = local_capture(&d, sum);
    ranks_meet(me);
    if (me->rank == 1)
        raise(SIGKILL);
    local_fine(&d, d.dev->graph.launch(runnable, d.stream));
    ends_await(d.comm);
    local_drains(&d);
    ranks_expect(me, tutti_comm_state(d.comm) == TUTTI_PEER_LOST, "state %d: %s", tutti_comm_state(d.comm),
        tutti_get_last_error(d.comm));
    local_fine(&d, d.dev->graph.runnable_destroy(runnable));
    spin_get_up(&d);
}

Test(api_device_spin_replays, replays_that_wait)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, replay_alone, NULL, 0, 0 }, { "queues=8", N, N, replay_alone, NULL, 0, 0 },
        { "queues=8", N, 1, replay_and_call, NULL, 0, 0 },
        { "queues=8", N, 1, replay_and_die, NULL, 1U << 1, 0 });
}

/* It has failed, or has gone, at all ranks, or at one first: replays end, and what they use is there. */
static void replay_to_the_end(struct ranks_me *me)
{
    for (int first = -1; first < me->n; first++)
        for (int fails = 0; fails < 2; fails++) {
            struct local_desk d;
            bool ends = me->rank == first || first < 0, gone = !fails && ends;
            ranks_at(me, "%s, rank %d first", fails ? "aborted" : "destroyed", first);
            if (!spin_sit_down(me, &d, SPIN_LONG_MS))
                return;
            void *runnable = local_capture(&d, sum);
            ranks_meet(me);
            if (fails && ends)
                ranks_ok(me, tutti_comm_abort(d.comm), "tutti_comm_abort");
            if (gone)
                ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
            ranks_meet(me);
            for (int i = 0; i < 3; i++)
                local_fine(&d, d.dev->graph.launch(runnable, d.stream));
            local_drains(&d);
            ranks_meet(me);
            local_fine(&d, d.dev->graph.runnable_destroy(runnable));
            if (!gone)
                ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
            ranks_meet(me);
        }
}

Test(api_device_spin_replays, replays_after_the_end)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 1, replay_to_the_end, NULL, 0, 0 },
        { "queues=1", 3, 3, replay_to_the_end, NULL, 0, 0 });
}
