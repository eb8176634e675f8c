/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_regroup.c: communicators of those that are left after a failure, and of more ranks than there
 * were. The ranks have nothing in common but a communicator that has ended: what a test tells them by memory
 * that they share is only when to die. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/ranks.h"

TestSuite(api_regroup, .timeout = 180);

/* A sum over all ranks of a communicator, each of which gives the number of its rank in the first one. */
static void add_up(struct ranks_me *me, tutti_comm *comm, uint64_t expected)
{
    uint64_t mine[3] = { (uint64_t)me->rank + 1, 1, 7 }, sums[3] = { 0 };
    ranks_ok(
        me, tutti_all_reduce(mine, sums, 3, TUTTI_UINT64, TUTTI_SUM, comm, tutti_no_stream()), "all_reduce");
    ranks_expect(me, sums[0] == expected, "the sum is %llu, not %llu", (unsigned long long)sums[0],
        (unsigned long long)expected);
    ranks_expect(me, sums[1] == (uint64_t)tutti_comm_size(comm), "%llu ranks take part, of %d",
        (unsigned long long)sums[1], tutti_comm_size(comm));
}

static void expect_rank(struct ranks_me *me, tutti_comm *comm, int rank, int n)
{
    ranks_expect(me, tutti_comm_rank(comm) == rank && tutti_comm_size(comm) == n,
        "rank %d of %d, not %d of %d", tutti_comm_rank(comm), tutti_comm_size(comm), rank, n);
}

/* --- Fewer, of a communicator that goes on */

static void shrink_well(struct ranks_me *me)
{
    static const int excluded[] = { 2, 0 };
    ranks_go_to_host(me);
    tutti_comm *comm = ranks_join(me, NULL), *rest = NULL, *again = NULL;
    ranks_at(me, "without 0 and 2");
    if (me->rank == 1 || me->rank == 3) {
        ranks_ok(me, tutti_comm_shrink(comm, excluded, 2, 0, NULL, &rest), "shrink");
        expect_rank(me, rest, me->rank / 2, 2);
        add_up(me, rest, 2 + 4);
        ranks_ok(me, tutti_comm_shrink(comm, excluded, 2, 0, NULL, &again), "shrink again");
        add_up(me, again, 2 + 4);
        ranks_part(me, again);
    }
    ranks_at(me, "all of them");
    add_up(me, comm, 1 + 2 + 3 + 4);
    ranks_ok(me, tutti_comm_shrink(comm, NULL, 0, 0, NULL, &again), "shrink by none");
    expect_rank(me, again, me->rank, 4);
    add_up(me, again, 1 + 2 + 3 + 4);
    ranks_part(me, again);
    if (rest != NULL)
        ranks_part(me, rest);
    ranks_part(me, comm);
}

Test(api_regroup, fewer)
{
    for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind++)
        ranks_run(&(struct ranks_plan){ .n = 4, .kind = (enum ranks_kind)kind, .run = shrink_well });
    ranks_run(&(struct ranks_plan){
        .n = 4, .kind = RANKS_PROCESSES, .run = shrink_well, .context = &(struct ranks_hosts){ 3 } });
}

static void shrink_to_one(struct ranks_me *me)
{
    static const int excluded[] = { 0 };
    tutti_comm *comm = ranks_join(me, NULL), *rest = NULL;
    if (me->rank == 1) {
        ranks_ok(me, tutti_comm_shrink(comm, excluded, 1, 0, NULL, &rest), "shrink");
        add_up(me, rest, 2);
        ranks_part(me, rest);
    }
    add_up(me, comm, 3);
    ranks_part(me, comm);
}

Test(api_regroup, one_is_left)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_PROCESSES, .run = shrink_to_one });
}

/* --- After a failure */

enum { JOB = 5 };

/* All that live have made their sum: what a rank that dies has sent may be lost. */
static void await_sums(struct ranks_me *me, int round, int living)
{
    _Atomic int *through = me->shared;
    through[round]++;
    while (through[round] < living)
        ranks_sleep_us(500);
}

/* One after another dies in a call of all, the lowest first, until one is left; each time the others make a
 * communicator of what is left of the last one. */
static void die_in_turn(struct ranks_me *me)
{
    ranks_go_to_host(me);
    tutti_comm *comm = ranks_join(me, NULL);
    uint64_t sum = JOB * (JOB + 1) / 2;
    for (int dead = 0; dead < JOB - 1; dead++) {
        tutti_comm *rest = NULL;
        float x = 1;
        ranks_at(me, "rank %d dies", dead);
        add_up(me, comm, sum);
        await_sums(me, dead, JOB - dead);
        if (me->rank == dead)
            raise(SIGKILL);
        tutti_status status;
        do
            status = tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_MAX, comm, tutti_no_stream());
        while (status == TUTTI_OK);
        ranks_expect(me, status == TUTTI_PEER_LOST, "%s", tutti_get_last_error(comm));
        ranks_at(me, "without rank %d", dead);
        status = tutti_comm_shrink(comm, &(int){ 0 }, 1, 0, NULL, &rest);
        ranks_expect(me, status == TUTTI_PEER_LOST, "of what has failed: %s", tutti_get_last_error(NULL));
        if (!ranks_ok(me, tutti_comm_shrink(comm, &(int){ 0 }, 1, TUTTI_SHRINK_ABORT, NULL, &rest), "shrink"))
            return;
        ranks_part(me, comm);
        comm = rest;
        expect_rank(me, comm, me->rank - dead - 1, JOB - dead - 1);
        sum -= (uint64_t)dead + 1;
    }
    add_up(me, comm, JOB);
    ranks_part(me, comm);
}

Test(api_regroup, survivors)
{
    static const struct ranks_hosts hosts[] = { { 0 }, { 2 }, { 3 } };
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        ranks_run(&(struct ranks_plan){ .n = JOB,
            .kind = RANKS_PROCESSES,
            .run = die_in_turn,
            .context = &hosts[i],
            .may_die = (1U << (JOB - 1)) - 1 });
}

/* Two die at once, and calls of streams are under way. */
static void two_die(struct ranks_me *me)
{
    static const int dead[] = { 1, 3 };
    tutti_comm *comm = ranks_join(me, NULL), *rest = NULL;
    tutti_stream stream;
    float x[2] = { 1, 1 };
    ranks_ok(me, tutti_stream_create(&stream), "stream_create");
    add_up(me, comm, 15);
    ranks_meet(me); /* who is through aborts it for all */
    if (me->rank == 1 || me->rank == 3)
        raise(SIGKILL);
    tutti_all_reduce(&x[0], &x[0], 1, TUTTI_FLOAT32, TUTTI_MAX, comm, stream);
    if (ranks_ok(me, tutti_comm_shrink(comm, dead, 2, TUTTI_SHRINK_ABORT, NULL, &rest), "shrink")) {
        add_up(me, rest, 1 + 3 + 5);
        ranks_expect(me, tutti_comm_state(comm) < 0, "the parent goes on");
        ranks_part(me, rest);
    }
    ranks_part(me, comm);
    ranks_ok(me, tutti_stream_destroy(stream), "stream_destroy");
}

Test(api_regroup, two_die_at_once)
{
    ranks_run(&(struct ranks_plan){
        .n = JOB, .kind = RANKS_PROCESSES, .run = two_die, .may_die = 1U << 1 | 1U << 3 });
}

/* Nobody has died: the ranks drop one that they do not trust any more, which learns that. */
static void drop_one(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL), *rest = NULL;
    float x = 1;
    if (me->rank == 2) {
        tutti_status status = tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_MAX, comm, tutti_no_stream());
        ranks_expect(me, status == TUTTI_ABORTED, "%s", tutti_get_last_error(comm));
    } else {
        ranks_ok(me, tutti_comm_shrink(comm, &(int){ 2 }, 1, TUTTI_SHRINK_ABORT, NULL, &rest), "shrink");
        add_up(me, rest, 1 + 2);
        ranks_part(me, rest);
    }
    ranks_part(me, comm);
}

Test(api_regroup, one_is_dropped)
{
    for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind++)
        ranks_run(&(struct ranks_plan){ .n = 3, .kind = (enum ranks_kind)kind, .run = drop_one });
}

/* --- What the child has of its parent */

static void inherit(struct ranks_me *me)
{
    tutti_config exact = { .size = sizeof exact,
        .flags = TUTTI_COMM_EXACT,
        .name = "crew",
        .options = "slice=32K;topology=0-1/2-3" };
    tutti_config named = { .size = sizeof named, .name = "night shift" };
    tutti_comm *comm = ranks_join(me, &exact), *rest = NULL, *other = NULL;
    char config[8192], topology[64];
    tutti_error error = { .size = sizeof error };
    if (me->rank == 0) {
        ranks_meet(me);
        ranks_part(me, comm);
        return;
    }
    ranks_ok(me, tutti_comm_shrink(comm, &(int){ 0 }, 1, TUTTI_SHRINK_ABORT, NULL, &rest), "shrink");
    tutti_query(rest, "config", config, sizeof config);
    ranks_expect(me, strstr(config, "32768") != NULL || strstr(config, "32K") != NULL, "%s", config);
    tutti_query(rest, "topology", topology, sizeof topology);
    ranks_expect(me, strcmp(topology, "0/1-2") == 0, "domains %s", topology);
    ranks_ok(me, tutti_comm_shrink(rest, NULL, 0, 0, &named, &other), "shrink");
    ranks_meet(me);
    tutti_comm_abort(rest);
    tutti_comm_abort(other);
    tutti_comm_get_error(rest, &error);
    ranks_expect(me, strstr(error.text, "rest of crew") != NULL, "%s", error.text);
    snprintf(config, sizeof config, "rank %d is rank %d of the world", error.rank, error.rank + 1);
    ranks_expect(me, strstr(error.text, config) != NULL, "%s", error.text);
    tutti_comm_get_error(other, &error);
    ranks_expect(me, strstr(error.text, "night shift") != NULL, "%s", error.text);
    ranks_part(me, other);
    ranks_part(me, rest);
    ranks_part(me, comm);
}

Test(api_regroup, what_a_child_has_of_its_parent)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_PROCESSES, .run = inherit });
}

/* --- What cannot be */

static void ranks_disagree(struct ranks_me *me)
{
    tutti_config hasty = { .size = sizeof hasty, .options = "init_timeout=400" };
    tutti_comm *comm = ranks_join(me, &hasty), *rest = NULL;
    tutti_status status = TUTTI_OK;
    if (me->rank < 2) /* rank 1 says that 2 is in, rank 0 that it is not */
        status = tutti_comm_shrink(comm, &(int){ 2 }, 1 - me->rank, 0, NULL, &rest);
    ranks_expect(
        me, me->rank == 2 || status == TUTTI_TIMEOUT, "%d: %s", (int)status, tutti_get_last_error(NULL));
    ranks_expect(me, rest == NULL, "there is a communicator");
    ranks_meet(me);
    add_up(me, comm, 1 + 2 + 3);
    ranks_part(me, comm);
}

Test(api_regroup, ranks_that_disagree)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_PROCESSES, .run = ranks_disagree });
}

static void lowest_is_gone(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL), *rest = NULL;
    if (me->rank == 0) {
        ranks_part(me, comm);
        return;
    }
    ranks_refused(me, tutti_comm_shrink(comm, NULL, 0, TUTTI_SHRINK_ABORT, NULL, &rest), TUTTI_PEER_LOST,
        "shrink", "rank 0|exclude it");
    ranks_ok(me, tutti_comm_shrink(comm, &(int){ 0 }, 1, TUTTI_SHRINK_ABORT, NULL, &rest), "shrink");
    add_up(me, rest, 2 + 3);
    ranks_part(me, rest);
    ranks_part(me, comm);
}

Test(api_regroup, the_lowest_is_gone)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_PROCESSES, .run = lowest_is_gone });
}

static void wrong_arguments(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL), *made = NULL;
    tutti_config behind = { .size = sizeof behind, .flags = TUTTI_COMM_NONBLOCKING };
    tutti_id id;
    int other = 1 - me->rank, twice[] = { other, other };
    const tutti_status bad = TUTTI_INVALID_ARGUMENT;
    ranks_refused(
        me, tutti_comm_shrink(comm, &me->rank, 1, 0, NULL, &made), bad, "itself", "excluded[0]|0 to 1");
    ranks_refused(
        me, tutti_comm_shrink(comm, &(int){ 2 }, 1, 0, NULL, &made), bad, "too high", "excluded[0] is 2");
    ranks_refused(
        me, tutti_comm_shrink(comm, &(int){ -1 }, 1, 0, NULL, &made), bad, "below", "excluded[0] is -1");
    ranks_refused(me, tutti_comm_shrink(comm, twice, 2, 0, NULL, &made), bad, "twice", "twice");
    ranks_refused(me, tutti_comm_shrink(comm, NULL, 1, 0, NULL, &made), bad, "NULL", "excluded");
    ranks_refused(me, tutti_comm_shrink(comm, &other, -1, 0, NULL, &made), bad, "count", "count");
    ranks_refused(
        me, tutti_comm_shrink(comm, &other, 1, 2, NULL, &made), bad, "flags", "0x2|TUTTI_SHRINK_ABORT");
    ranks_refused(me, tutti_comm_shrink(comm, &other, 1, 0, NULL, NULL), bad, "child", "child");
    ranks_refused(me, tutti_comm_shrink(comm, &other, 1, 0, &behind, &made), TUTTI_UNSUPPORTED, "nonblocking",
        "shrink|NONBLOCKING");
    ranks_refused(me, tutti_comm_grow(comm, 2, NULL, -1, NULL, &made), bad, "no more", "n is 2");
    ranks_refused(
        me, tutti_comm_grow(comm, 3, NULL, other, NULL, &made), bad, "another rank", "keeps its number");
    ranks_refused(me, tutti_comm_grow(comm, 3, NULL, -1, NULL, NULL), bad, "grown", "grown is NULL");
    ranks_refused(me, tutti_comm_grow(NULL, 3, NULL, 2, NULL, &made), bad, "no id", "id is NULL");
    ranks_refused(me, tutti_comm_get_id(comm, NULL), bad, "id", "id is NULL");
    ranks_expect(me, tutti_comm_get_id(NULL, &id) == bad, "get_id of nothing");
    ranks_expect(me, tutti_comm_shrink(NULL, NULL, 0, 0, NULL, &made) == bad, "shrink of nothing");
    tutti_group_start(); /* a wrong one spoils the group that it is in */
    ranks_expect(me, tutti_comm_grow(comm, 2, NULL, -1, NULL, &made) == bad, "in a group");
    ranks_expect(me, tutti_group_end() == bad, "the end of its group");
    tutti_group_start();
    ranks_expect(me, tutti_comm_shrink(comm, &other, 1, 2, NULL, &made) == bad, "in a group");
    ranks_expect(me, tutti_group_end() == bad, "the end of its group");
    tutti_group_start();
    ranks_ok(me, tutti_comm_shrink(comm, &other, 1, 0, NULL, &made), "in a group");
    ranks_ok(me, tutti_comm_grow(comm, 3, NULL, -1, NULL, &made), "in a group");
    ranks_ok(me, tutti_group_cancel(), "cancel");
    ranks_expect(me, made == NULL, "an output is set");
    add_up(me, comm, 3);
    ranks_part(me, comm);
}

Test(api_regroup, wrong_arguments)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_PROCESSES, .run = wrong_arguments });
}

/* --- More */

/* Ranks 0 and 1 begin; 2 joins, then 3. Another rank makes the id each time. */
static void grow_twice(struct ranks_me *me)
{
    ranks_go_to_host(me);
    struct {
        tutti_id id[3];
        _Atomic int ready;
    } *told = me->shared;
    tutti_comm *comm = NULL, *more = NULL;
    uint64_t sum = 1;
    if (me->rank == 0) {
        ranks_ok(me, tutti_get_id(&told->id[0]), "get_id");
        ranks_ok(me, tutti_comm_init_rank(1, 0, &told->id[0], NULL, &comm), "init_rank");
    }
    for (int n = 2; n <= 4; n++) {
        ranks_at(me, "to %d ranks", n);
        if (comm != NULL && me->rank == n - 2) {
            ranks_ok(me, tutti_comm_get_id(comm, &told->id[n - 2]), "comm_get_id");
            told->ready = n;
        }
        while (me->rank == n - 1 && told->ready < n)
            ranks_sleep_us(1000);
        if (me->rank >= n)
            continue;
        if (me->rank == n - 1)
            ranks_ok(me, tutti_comm_grow(NULL, n, &told->id[n - 2], me->rank, NULL, &more), "grow, new");
        else
            ranks_ok(me, tutti_comm_grow(comm, n, NULL, -1, NULL, &more), "grow");
        if (more == NULL)
            return;
        expect_rank(me, more, me->rank, n);
        if (comm != NULL && n > 2) {
            add_up(me, comm, sum);
            ranks_part(me, comm);
        } else if (comm != NULL) {
            ranks_part(me, comm);
        }
        comm = more;
        sum = (uint64_t)(n * (n + 1) / 2);
        add_up(me, comm, sum);
    }
    ranks_part(me, comm);
}

Test(api_regroup, more)
{
    static const struct ranks_hosts hosts[] = { { 0 }, { 2 } };
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        ranks_run(
            &(struct ranks_plan){ .n = 4, .kind = RANKS_PROCESSES, .run = grow_twice, .context = &hosts[i] });
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_THREADS, .run = grow_twice, .context = &hosts[0] });
}

/* Nobody has made an id: all ranks are told so, outside of groups and in one, as often as they try. Then one
 * makes it, while others look for it already. */
static void grow_without_id(struct ranks_me *me)
{
    ranks_go_to_host(me);
    enum { OLD = 3, TRIES = 20 };
    struct {
        tutti_id id, next;
        _Atomic int ready;
    } *told = me->shared;
    tutti_comm *comm = NULL, *more = NULL;
    const tutti_status bad = TUTTI_INVALID_ARGUMENT;
    if (me->rank == 0)
        ranks_ok(me, tutti_get_id(&told->id), "get_id");
    ranks_meet(me);
    if (me->rank < OLD)
        ranks_ok(me, tutti_comm_init_rank(OLD, me->rank, &told->id, NULL, &comm), "init_rank");
    for (int i = 0; i < TRIES && comm != NULL; i++)
        ranks_refused(
            me, tutti_comm_grow(comm, OLD + 1, NULL, -1, NULL, &more), bad, "grow", "no rank has an id");
    if (comm != NULL) {
        tutti_group_start();
        ranks_ok(me, tutti_comm_grow(comm, OLD + 1, NULL, -1, NULL, &more), "in a group");
        ranks_refused(me, tutti_group_end(), bad, "group_end", "no rank has an id|tutti_comm_get_id");
        ranks_expect(me, more == NULL, "an output is set");
    }
    if (me->rank == 1) {
        ranks_sleep_us(50000);
        ranks_ok(me, tutti_comm_get_id(comm, &told->next), "comm_get_id");
        atomic_store(&told->ready, 1);
    }
    while (me->rank == OLD && atomic_load(&told->ready) == 0)
        ranks_sleep_us(1000);
    ranks_ok(me,
        tutti_comm_grow(
            comm, OLD + 1, comm == NULL ? &told->next : NULL, comm == NULL ? OLD : -1, NULL, &more),
        "grow");
    expect_rank(me, more, me->rank, OLD + 1);
    add_up(me, more, (OLD + 1) * (OLD + 2) / 2);
    ranks_part(me, more);
    if (comm != NULL)
        ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_regroup, more_without_an_id)
{
    static const struct ranks_hosts hosts[] = { { 0 }, { 2 } };
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++)
        ranks_run(&(struct ranks_plan){
            .n = 4, .kind = RANKS_PROCESSES, .run = grow_without_id, .context = &hosts[i] });
    ranks_run(
        &(struct ranks_plan){ .n = 4, .kind = RANKS_THREADS, .run = grow_without_id, .context = &hosts[0] });
}

/* A communicator grows twice: the id of the first time is not taken for that of the second, which another
 * rank makes. */
static void grow_again(struct ranks_me *me)
{
    struct {
        tutti_id id[2];
        _Atomic int ready;
    } *told = me->shared;
    tutti_comm *comm = NULL, *made[2] = { NULL };
    int color = me->rank < 2 ? 0 : -1;
    tutti_comm *all = ranks_join(me, NULL);
    ranks_ok(me, tutti_comm_split(all, color, 0, NULL, &comm), "split");
    for (int i = 0; i < 2; i++) {
        if (me->rank == i) {
            ranks_ok(me, tutti_comm_get_id(comm, &told->id[i]), "comm_get_id");
            told->ready = i + 1;
        }
        while (told->ready <= i)
            ranks_sleep_us(1000);
        if (me->rank == 2)
            ranks_ok(me, tutti_comm_grow(NULL, 3, &told->id[i], 2, NULL, &made[i]), "grow, new");
        else
            ranks_ok(me, tutti_comm_grow(comm, 3, me->rank == i ? &told->id[i] : NULL, -1, NULL, &made[i]),
                "grow");
        add_up(me, made[i], 6);
    }
    for (int i = 0; i < 2; i++)
        ranks_part(me, made[i]);
    if (comm != NULL)
        ranks_part(me, comm);
    ranks_part(me, all);
}

Test(api_regroup, more_again)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_PROCESSES, .run = grow_again });
}
