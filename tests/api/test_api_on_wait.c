/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_on_wait.c: what a call does for others while it waits (tutti_config.on_wait).
 *
 * In each case rank 1 makes no call before rank 0's callback has let it go on, as a program does whose
 * progress is another library's. So a wait that does not run the callback never ends. */
#include <criterion/criterion.h>
#include <stdatomic.h>

#include "tests/rig/ranks.h"

TestSuite(api_on_wait, .timeout = 120);

enum { COUNT = 300, LONG = 100000, CALLS_OF_A_WAIT = 3 };

struct shared { /* among all ranks */
    _Atomic int rounds; /* how often rank 0's callback has let the others go on */
};
struct waiter { /* of a rank: the context of its callback */
    struct ranks_me *me;
    int seen, answer;
};
static _Thread_local struct waiter mine; /* of the rank that this thread is */

static int32_t send_space[RANKS_MAX][LONG], recv_space[RANKS_MAX][LONG];

static int let_others_go_on(void *context)
{
    struct waiter *given = context, *w = &mine;
    struct shared *shared = given->me->shared;
    if (!ranks_expect(given->me, w->me != NULL, "on_wait runs on a thread that makes no call"))
        return 0;
    bool right = w == given || w->me->kind == RANKS_TOGETHER; /* all made by rank 0, and with its context */
    ranks_expect(w->me, right, "on_wait has the context of another rank");
    if (++w->seen == CALLS_OF_A_WAIT && w->me->rank == 0)
        atomic_fetch_add(&shared->rounds, 1);
    return w->answer;
}

static struct waiter *begin_to_wait(struct ranks_me *me, int answer)
{
    mine = (struct waiter){ .me = me, .answer = answer };
    return &mine;
}

/* Before each call: rank 0 goes on, the others wait until its callback has been run often enough. */
static void after_rank_0(struct waiter *w, int round)
{
    struct shared *shared = w->me->shared;
    ranks_at(w->me, "round %d", round);
    w->seen = 0;
    while (w->me->rank != 0 && atomic_load(&shared->rounds) <= round)
        ranks_sleep_us(200);
}

static tutti_status sum(struct ranks_me *me, size_t count, tutti_comm *comm, tutti_stream stream)
{
    return tutti_all_reduce(
        send_space[me->rank], recv_space[me->rank], count, TUTTI_INT32, TUTTI_SUM, comm, stream);
}

static tutti_status exchange(struct ranks_me *me, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    int next = (me->rank + 1) % me->n, last = (me->rank + me->n - 1) % me->n;
    tutti_group_start();
    tutti_send(send_space[me->rank], COUNT, TUTTI_INT32, next, comm, none);
    tutti_recv(recv_space[me->rank], COUNT, TUTTI_INT32, last, comm, none);
    return tutti_group_end();
}

static void from_stream_to_none(struct ranks_me *me, tutti_comm *comm)
{
    tutti_stream stream;
    if (!ranks_ok(me, tutti_stream_create(&stream), "stream_create"))
        return;
    ranks_ok(me, sum(me, COUNT, comm, stream), "all_reduce on a stream");
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier behind it");
    ranks_ok(me, tutti_stream_destroy(stream), "stream_destroy");
}

static void half_on_a_stream(struct ranks_me *me, tutti_comm *comm)
{
    tutti_stream stream;
    if (!ranks_ok(me, tutti_stream_create(&stream), "stream_create"))
        return;
    tutti_group_start();
    tutti_barrier(comm, stream);
    tutti_barrier(comm, tutti_no_stream());
    ranks_ok(me, tutti_group_end(), "a group of which half has a stream");
    ranks_ok(me, tutti_stream_destroy(stream), "stream_destroy");
}

static void serves(struct ranks_me *me)
{
    tutti_stream none = tutti_no_stream();
    struct waiter *w = begin_to_wait(me, 0);
    tutti_config config = { .size = sizeof config, .on_wait = let_others_go_on, .on_wait_context = w };
    tutti_comm *child = NULL, *comm = ranks_join(me, &config);
    int round = 0;
    if (comm == NULL)
        return;
    for (int again = 0; again < 4; again++) { /* from the second on the short ways are taken */
        after_rank_0(w, round++);
        ranks_ok(me, sum(me, 2, comm, none), "all_reduce of 2");
        after_rank_0(w, round++);
        ranks_ok(me, sum(me, LONG, comm, none), "all_reduce, long");
        after_rank_0(w, round++);
        ranks_ok(me, exchange(me, comm), "send and recv");
    }
    after_rank_0(w, round++);
    from_stream_to_none(me, comm);
    after_rank_0(w, round++);
    half_on_a_stream(me, comm);
    after_rank_0(w, round++);
    tutti_config named = { .size = sizeof named, .name = "child" };
    ranks_ok(me, tutti_comm_split(comm, 0, me->rank, &named, &child), "split");
    after_rank_0(w, round++);
    ranks_ok(me, tutti_barrier(child, none), "barrier of the child, which has its parent's on_wait");
    after_rank_0(w, round++);
    ranks_ok(me, tutti_comm_finalize(child), "finalize");
    ranks_ok(me, tutti_comm_destroy(child), "destroy of the child");
    ranks_part(me, comm);
}

Test(api_on_wait, each_wait_serves)
{
    for (int n = 2; n <= 4; n += 2)
        for (enum ranks_kind kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind++)
            ranks_run(&(struct ranks_plan){ .n = n, .kind = kind, .run = serves });
}

struct parent {
    struct ranks_me *me;
    bool waits; /* in a call of its own, and not of its child */
};

static int serve_parent(void *context)
{
    struct parent *parent = context;
    struct shared *shared = parent->me->shared;
    ranks_expect(parent->me, parent->waits, "a child that has an on_wait of its own has its parent's");
    if (!parent->waits)
        atomic_fetch_add(&shared->rounds, 1);
    return 0;
}

/* Who has an on_wait of its own has not its parent's. */
static void serves_its_own(struct ranks_me *me)
{
    struct waiter *w = begin_to_wait(me, 0);
    struct parent parent = { me, true };
    tutti_config of_parent = {
        .size = sizeof of_parent, .on_wait = serve_parent, .on_wait_context = &parent
    };
    tutti_config own = { .size = sizeof own, .on_wait = let_others_go_on, .on_wait_context = w };
    tutti_comm *child = NULL, *comm = NULL;
    comm = ranks_join(me, &of_parent);
    if (comm == NULL || !ranks_ok(me, tutti_comm_split(comm, 0, me->rank, &own, &child), "split"))
        return;
    parent.waits = false;
    after_rank_0(w, 0);
    ranks_ok(me, tutti_barrier(child, tutti_no_stream()), "barrier of the child");
    parent.waits = true;
    ranks_ok(me, tutti_comm_destroy(child), "destroy of the child");
    ranks_part(me, comm);
}

Test(api_on_wait, a_child_has_its_own)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = serves_its_own });
}

static int note_time(void *context)
{
    int64_t *first = context;
    if (*first == 0)
        *first = ranks_now_ms();
    return 0;
}

/* A call that was made before serves as soon as the first one: long before it would look around, which it
 * does ten times a second. */
static void soon(struct ranks_me *me)
{
    enum { ROUNDS = 20, WAIT_US = 150 * 1000, LOOK_MS = 90 };
    int64_t first = 0, least = INT64_MAX;
    tutti_config config = { .size = sizeof config, .on_wait = note_time, .on_wait_context = &first };
    tutti_comm *comm = ranks_join(me, &config);
    for (int round = 0; round < ROUNDS && comm != NULL; round++) {
        ranks_meet(me);
        ranks_sleep_us(me->rank == 1 ? WAIT_US : 0);
        first = 0;
        int64_t began = ranks_now_ms();
        ranks_ok(me, sum(me, 2, comm, tutti_no_stream()), "all_reduce");
        if (round > 2 && first != 0 && first - began < least)
            least = first - began;
    }
    ranks_expect(me, me->rank != 0 || least < LOOK_MS, "it was run after %lld ms at best", (long long)least);
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_on_wait, a_call_that_was_made_before_serves_soon)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = soon });
}

/* Rank 0 has had enough of a call that rank 1 never makes. */
static void ends(struct ranks_me *me)
{
    struct waiter *w = begin_to_wait(me, me->rank == 0 ? 7 : 0);
    tutti_config config = { .size = sizeof config, .on_wait = let_others_go_on, .on_wait_context = w };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    if (me->rank == 0) {
        tutti_status status = sum(me, COUNT, comm, tutti_no_stream());
        ranks_refused(me, status, TUTTI_ABORTED, "all_reduce", "rank 0|on_wait|7");
        ranks_expect(me, w->seen == 1, "on_wait was run %d times, and ended it the first time", w->seen);
    }
    ranks_meet(me);
    if (me->rank != 0)
        ranks_refused(me, sum(me, COUNT, comm, tutti_no_stream()), TUTTI_ABORTED, "all_reduce", "on_wait");
    ranks_same_error(me, comm, TUTTI_ABORTED, "rank 0|on_wait|7");
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_on_wait, an_answer_ends_it)
{
    for (enum ranks_kind kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind++)
        ranks_run(&(struct ranks_plan){ .n = 3, .kind = kind, .run = ends });
}

/* Who does not wait does nothing for others. */
static void alone(struct ranks_me *me)
{
    struct waiter *w = begin_to_wait(me, 1);
    tutti_config config = { .size = sizeof config, .on_wait = let_others_go_on, .on_wait_context = w };
    tutti_comm *comm = ranks_join(me, &config);
    for (int again = 0; again < 50 && comm != NULL; again++)
        ranks_ok(me, sum(me, again % 2 == 0 ? COUNT : LONG, comm, tutti_no_stream()), "all_reduce");
    ranks_expect(me, w->seen == 0, "on_wait was run %d times", w->seen);
    ranks_part(me, comm);
}

Test(api_on_wait, not_without_a_wait)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = alone });
}
