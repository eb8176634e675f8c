/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_timeout.c: a wait fails when nothing has moved for its time, however long all of it takes; and who
 * gets its buffers back then gets them from every communicator that has failed. */
#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

#include "base/handle.h"
#include "run/comm.h"
#include "tests/rig/ranks.h"

enum { CALLS = 4 };

static tutti_status sum(tutti_comm *comm, int64_t *value)
{
    return tutti_all_reduce(value, value, 1, TUTTI_INT64, TUTTI_SUM, comm, tutti_no_stream());
}

/* Rank 0 is in all calls at once, and rank 1 comes to one after the other. */
static void come_now_and_then(struct ranks_me *me)
{
    enum { TIMEOUT_MS = 4000, PAUSE_MS = 1100 };
    tutti_config config = { .size = sizeof config, .timeout_ms = TIMEOUT_MS };
    tutti_comm *comm = ranks_join(me, &config);
    int64_t values[CALLS] = { 1, 1, 1, 1 };
    if (comm == NULL)
        return;
    if (me->rank == 0)
        tutti_group_start();
    for (int i = 0; i < CALLS; i++) {
        if (me->rank == 1)
            ranks_sleep_us(PAUSE_MS * 1000);
        ranks_ok(me, sum(comm, &values[i]), "all_reduce");
    }
    if (me->rank == 0)
        ranks_ok(me, tutti_group_end(), "a group whose calls end one by one");
    for (int i = 0; i < CALLS; i++)
        ranks_expect(me, values[i] == 2, "sum %d is %lld", i, (long long)values[i]);
    ranks_part(me, comm);
}

Test(api_timeout, begins_anew_with_what_moves)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = come_now_and_then });
}

/* Rank 0 is stopped for longer than its timeout, and rank 1 dies meanwhile: that is the reason. */
enum { SUSPENDED_MS = 1000 };
static void suspended(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = SUSPENDED_MS };
    tutti_comm *comm = ranks_join(me, &config);
    int64_t value = 1;
    if (comm == NULL)
        return;
    atomic_fetch_add((_Atomic int *)me->shared, 1);
    while (me->rank == 1)
        pause();
    const bool *receives = me->context;
    tutti_status status =
        *receives ? tutti_recv(&value, 1, TUTTI_INT64, 1, comm, tutti_no_stream()) : sum(comm, &value);
    ranks_refused(me, status, TUTTI_PEER_LOST, "the call", "rank 1 died");
    ranks_part(me, comm);
}

static void suspend_rank_0(struct ranks_world *world, const struct ranks_plan *plan)
{
    while (atomic_load((_Atomic int *)(void *)world->shared) < plan->n)
        ranks_sleep_us(1000);
    ranks_sleep_us(SUSPENDED_MS * 1000 / 2); /* it waits, and has looked */
    kill(world->slots[0].pid, SIGSTOP);
    kill(world->slots[1].pid, SIGKILL);
    ranks_sleep_us(2 * SUSPENDED_MS * 1000);
    kill(world->slots[0].pid, SIGCONT);
}

Test(api_timeout, a_death_is_told_before_it)
{
    static const bool receives[] = { false, true };
    for (int i = 0; i < 2; i++)
        ranks_run(&(struct ranks_plan){ .n = 2,
            .kind = RANKS_PROCESSES,
            .run = suspended,
            .context = &receives[i],
            .meddle = suspend_rank_0,
            .may_die = 1 << 1 });
}

/* --- Whether each endpoint is asked if its peers have left the buffers alone */

enum { COMMS = 3 };
static struct {
    const struct tt_control_ops *real;
    struct tt_control_ops control;
    const struct tt_endpoint *endpoint;
    int asked;
} watched[COMMS];

static bool count_quiet(struct tt_endpoint *e, bool patient)
{
    int i = 0;
    while (watched[i].endpoint != e)
        i++;
    watched[i].asked++;
    return watched[i].real->quiet(e, patient);
}

static void watch(int i, tutti_comm *comm)
{
    struct tt_endpoint *e = tt_comm_peek(comm)->endpoint;
    watched[i].real = e->control;
    watched[i].control = *e->control;
    watched[i].control.quiet = count_quiet;
    watched[i].endpoint = e;
    e->control = &watched[i].control;
}

/* Rank 1 comes to the last call only. */
static void fail_on_two_of_three(struct ranks_me *me)
{
    tutti_comm *comms[COMMS];
    int64_t values[COMMS] = { 1, 1, 1 };
    for (int i = 0; i < COMMS; i++)
        if ((comms[i] = ranks_join(me, NULL)) == NULL)
            return;
    for (int i = 0; i < COMMS; i++)
        watch(i, comms[i]);
    for (int i = 0; i < 2; i++) /* to join takes its time */
        tt_comm_peek(comms[i])->waiting.timeout_ms = 300;
    if (me->rank == 0) {
        tutti_group_start();
        for (int i = 0; i < COMMS; i++)
            ranks_ok(me, sum(comms[i], &values[i]), "all_reduce in a group");
        ranks_refused(me, tutti_group_end(), TUTTI_TIMEOUT, "group_end", "all_reduce|rank 1");
        for (int i = 0; i < COMMS; i++)
            ranks_expect(me, (watched[i].asked > 0) == (i < 2), "communicator %d was asked %d times", i,
                watched[i].asked);
    } else {
        ranks_ok(me, sum(comms[2], &values[2]), "all_reduce");
    }
    ranks_expect(me, values[2] == 2, "the last sum is %lld", (long long)values[2]);
    ranks_meet(me);
    for (int i = 0; i < COMMS; i++) {
        tt_comm_peek(comms[i])->endpoint->control = watched[i].real;
        ranks_part(me, comms[i]);
    }
}

Test(api_timeout, buffers_come_back_from_each_communicator)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = fail_on_two_of_three });
}

/* Of several communicators that fail in a group, what failed first is told. */
static void fail_in_two_ways(struct ranks_me *me)
{
    tutti_comm *comms[2];
    int64_t values[2] = { 1, 1 };
    for (int i = 0; i < 2; i++)
        if ((comms[i] = ranks_join(me, NULL)) == NULL)
            return;
    tt_comm_peek(comms[0])->waiting.timeout_ms = 2000;
    ranks_meet(me);
    if (me->rank == 0) {
        tutti_group_start();
        for (int i = 0; i < 2; i++)
            sum(comms[i], &values[i]);
        ranks_refused(me, tutti_group_end(), TUTTI_ABORTED, "group_end", "");
    } else {
        ranks_sleep_us(200000);
        ranks_ok(me, tutti_comm_abort(comms[1]), "abort");
    }
    ranks_meet(me);
    for (int i = 0; i < 2; i++)
        ranks_part(me, comms[i]);
}

Test(api_timeout, what_failed_first_is_told)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = fail_in_two_ways });
}
