/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_group_later.c: one thread that has several ranks makes communicators of others, and finalizes, in
 * groups: each of these waits for all ranks, so that one after the other would hang. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/ranks.h"

TestSuite(api_group_later, .timeout = 120);

enum { EACH = 3 };

static bool make(struct ranks_me *me, int n, int first, tutti_comm **comms, const tutti_config *config)
{
    tutti_id id;
    memset(comms, 0, EACH * sizeof(tutti_comm *));
    if (!ranks_id(me, &id))
        return false;
    tutti_group_start();
    for (int i = 0; i < EACH; i++)
        ranks_ok(me, tutti_comm_init_rank(n, first + i, &id, config, &comms[i]), "init_rank in a group");
    return ranks_ok(me, tutti_group_end(), "the end of the group");
}

static void adds_up(struct ranks_me *me, tutti_comm **comms, int count, int expected)
{
    int32_t values[EACH] = { 1, 1, 1 };
    tutti_group_start();
    for (int i = 0; i < count; i++)
        tutti_all_reduce(&values[i], &values[i], 1, TUTTI_INT32, TUTTI_SUM, comms[i], tutti_no_stream());
    ranks_ok(me, tutti_group_end(), "all_reduce in a group");
    for (int i = 0; i < count; i++)
        ranks_expect(me, values[i] == expected, "the sum is %d, expected %d", values[i], expected);
}

static void destroy(struct ranks_me *me, tutti_comm **comms, int count)
{
    for (int i = 0; i < count; i++)
        ranks_ok(me, tutti_comm_destroy(comms[i]), "destroy");
}

/* All ranks of all processes; what comes of them is used, and all of it finalized by one thread. Calls of the
 * group run first, in their place of the order. */
static void split_all(struct ranks_me *me)
{
    tutti_comm *comms[EACH], *children[EACH] = { 0 }, *second[EACH] = { 0 };
    int32_t values[EACH] = { 1, 1, 1 };
    int n = me->n * EACH, first = me->rank * EACH;
    if (!make(me, n, first, comms, NULL))
        return;
    tutti_group_start();
    for (int i = 0; i < EACH; i++) {
        ranks_ok(me, tutti_comm_split(comms[i], 0, -first - i, NULL, &children[i]), "split");
        tutti_all_reduce(&values[i], &values[i], 1, TUTTI_INT32, TUTTI_SUM, comms[i], tutti_no_stream());
        ranks_ok(me, tutti_comm_split(comms[i], (first + i) % 2 == 0 ? 0 : -1, 0, NULL, &second[i]), "split");
        ranks_expect(me, children[i] == NULL, "an output is set before the end");
    }
    ranks_ok(me, tutti_group_end(), "the end of the group");
    for (int i = 0; i < EACH; i++) {
        ranks_expect(me, tutti_comm_rank(children[i]) == n - 1 - first - i, "keys do not order the child");
        ranks_expect(me, (second[i] != NULL) == ((first + i) % 2 == 0), "no colour");
        ranks_expect(me, values[i] == n, "a call of the group gives %d", values[i]);
    }
    adds_up(me, children, EACH, n);
    tutti_group_start();
    for (int i = 0; i < EACH; i++) {
        ranks_ok(me, tutti_comm_finalize(children[i]), "finalize");
        if (second[i] != NULL)
            ranks_ok(me, tutti_comm_finalize(second[i]), "finalize");
        ranks_ok(me, tutti_comm_finalize(comms[i]), "finalize");
    }
    ranks_ok(me, tutti_group_end(), "the end of the group");
    ranks_expect(
        me, tutti_barrier(comms[0], tutti_no_stream()) == TUTTI_INVALID_USAGE, "a call after finalize");
    for (int i = 0; i < EACH; i++)
        if (second[i] != NULL)
            destroy(me, &second[i], 1);
    destroy(me, children, EACH);
    destroy(me, comms, EACH);
}

Test(api_group_later, splits_and_finalizes_of_one_thread)
{
    for (int n = 1; n <= 2; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = split_all });
}

/* Shrink and grow: the last rank is left out, and comes again as a new one. */
static void regroup(struct ranks_me *me)
{
    tutti_comm *comms[EACH], *rest[EACH] = { 0 }, *more[EACH] = { 0 };
    int last = EACH - 1;
    tutti_id id;
    if (!make(me, EACH, 0, comms, NULL))
        return;
    tutti_group_start();
    for (int i = 0; i < last; i++) {
        int gone[] = { last }; /* it is copied */
        ranks_ok(me, tutti_comm_shrink(comms[i], gone, 1, 0, NULL, &rest[i]), "shrink");
        gone[0] = 0;
    }
    ranks_ok(me, tutti_group_end(), "the end of the group");
    adds_up(me, rest, last, last);
    ranks_ok(me, tutti_comm_get_id(rest[0], &id), "get_id");
    tutti_group_start();
    for (int i = 0; i < last; i++) {
        tutti_id mine = id; /* it is copied */
        ranks_ok(me, tutti_comm_grow(rest[i], EACH, i == 0 ? &mine : NULL, -1, NULL, &more[i]), "grow");
        memset(&mine, 0, sizeof mine);
    }
    ranks_ok(me, tutti_comm_grow(NULL, EACH, &id, last, NULL, &more[last]), "grow");
    tutti_status status = tutti_group_end();
    ranks_ok(me, status, "the end of the group");
    if (status == TUTTI_OK)
        adds_up(me, more, EACH, EACH);
    destroy(me, more, EACH);
    destroy(me, rest, last);
    destroy(me, comms, EACH);
}

Test(api_group_later, shrinks_and_grows_of_one_thread)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = regroup });
}

/* One split is wrong, which is found at the end: all fail, and no output is set. */
static void wrong_one(struct ranks_me *me)
{
    tutti_comm *comms[EACH], *others[EACH], *children[EACH] = { 0 };
    tutti_config wrong = { .size = sizeof wrong, .options = "no_such=1" };
    if (!make(me, EACH, 0, comms, NULL) || !make(me, EACH, 0, others, NULL))
        return;
    tutti_group_start();
    for (int i = 0; i < EACH; i++) { /* those of the others are made, and taken back */
        tutti_comm_split(comms[i], 0, 0, i == 1 ? &wrong : NULL, &children[i]);
        tutti_comm_split(others[i], 0, 0, NULL, &children[i]);
    }
    ranks_refused(me, tutti_group_end(), TUTTI_INVALID_ARGUMENT, "the end of the group", "no_such|split");
    for (int i = 0; i < EACH; i++)
        ranks_expect(me, children[i] == NULL, "an output is set");
    char question[32], text[32768] = "";
    snprintf(question, sizeof question, "attach %d", (int)getpid());
    ranks_expect(me, tutti_query(NULL, question, text, sizeof text) > 0 && !strstr(text, "split 1 of"),
        "a child of a group that failed is there: %.200s", text);
    adds_up(me, comms, EACH, EACH);
    adds_up(me, others, EACH, EACH);
    /* A group that fails before, or is cancelled, makes none. */
    tutti_group_start();
    for (int i = 0; i < EACH; i++)
        tutti_comm_split(comms[i], 0, 0, NULL, &children[i]);
    tutti_barrier(NULL, tutti_no_stream());
    ranks_expect(me, tutti_group_end() == TUTTI_INVALID_ARGUMENT, "the group is wrong");
    tutti_group_start();
    for (int i = 0; i < EACH; i++)
        tutti_comm_finalize(comms[i]);
    ranks_ok(me, tutti_group_cancel(), "cancel");
    tutti_program *program = NULL;
    tutti_group_start();
    tutti_comm_finalize(comms[0]);
    ranks_refused(me, tutti_group_keep(&program), TUTTI_INVALID_USAGE, "keep", "finalize");
    ranks_expect(me, children[0] == NULL, "an output is set");
    adds_up(me, comms, EACH, EACH);
    destroy(me, comms, EACH);
    destroy(me, others, EACH);
}

Test(api_group_later, all_or_nothing)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = wrong_one });
}

/* Peers that wait for a group which is wrong are told. */
static void peers_are_told(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "refusal=1" };
    tutti_comm *comm = ranks_join(me, &config), *child = NULL;
    if (comm == NULL)
        return;
    if (me->rank == 0) {
        tutti_group_start();
        tutti_comm_split(comm, 0, 0, NULL, &child);
        tutti_barrier(NULL, tutti_no_stream());
        ranks_expect(me, tutti_group_end() == TUTTI_INVALID_ARGUMENT, "the group is wrong");
        while (tutti_comm_state(comm) == TUTTI_OK)
            ranks_sleep_us(1000);
    } else {
        ranks_refused(me, tutti_comm_split(comm, 0, 0, NULL, &child), TUTTI_INVALID_USAGE, "split",
            "rank 0 refused its own call");
    }
    ranks_expect(me, child == NULL, "an output is set");
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_group_later, peers_of_a_wrong_group_are_told)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = peers_are_told });
}

/* on_wait is run by the caller's thread only, which waits in the group; and it can end that. */
static pthread_t caller;
static int elsewhere, runs;

static int end_soon(void *context)
{
    (void)context;
    elsewhere += !pthread_equal(pthread_self(), caller);
    return ++runs >= 5;
}

static void serve(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = -1, .on_wait = end_soon };
    tutti_comm *comms[EACH], *children[EACH] = { 0 };
    if (!make(me, EACH + 1, 0, comms, &config))
        return;
    caller = pthread_self();
    tutti_group_start();
    for (int i = 0; i < EACH; i++)
        tutti_comm_split(comms[i], 0, 0, NULL, &children[i]);
    ranks_expect(me, tutti_group_end() == TUTTI_ABORTED, "the group was not ended by on_wait");
    ranks_expect(me, runs >= 5 && elsewhere == 0, "on_wait ran %d times, %d elsewhere", runs, elsewhere);
    destroy(me, comms, EACH);
}

/* The last rank never splits. */
static void stay_away(struct ranks_me *me)
{
    tutti_id id;
    tutti_comm *comm;
    if (me->rank == 0) {
        serve(me);
    } else if (ranks_id(me, &id) &&
               ranks_ok(me, tutti_comm_init_rank(EACH + 1, EACH, &id, NULL, &comm), "init_rank")) {
        while (tutti_comm_state(comm) == TUTTI_OK)
            ranks_sleep_us(1000);
        ranks_ok(me, tutti_comm_destroy(comm), "destroy");
    }
}

Test(api_group_later, on_wait_is_the_callers)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = stay_away });
}

/* --- A rank with a wrong id */

/* One that is none; and one whose process has ended. */
static void wrong_id(struct ranks_me *me, bool stale, tutti_id *id)
{
    int ends[2];
    memset(id, 0x5a, sizeof *id);
    if (!stale || pipe(ends) != 0)
        return;
    pid_t child = fork();
    if (child == 0) {
        bool told = tutti_get_id(id) == TUTTI_OK && write(ends[1], id, sizeof *id) == (ssize_t)sizeof *id;
        _exit(told ? 0 : 1);
    }
    ranks_expect(me, read(ends[0], id, sizeof *id) == (ssize_t)sizeof *id, "no id");
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
}

/* The others of the group wait for that rank, with no bound: they are told, and so is the caller. What is
 * right works afterwards, by another id. */
static void wrong_among_right(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = -1 };
    tutti_comm *comms[EACH], *more[EACH + 1] = { 0 };
    tutti_id id, wrong;
    for (int stale = 0; stale < 2; stale++) {
        wrong_id(me, stale != 0, &wrong);
        ranks_at(me, "%s, in init_rank", stale ? "stale" : "none");
        if (!ranks_id(me, &id))
            return;
        tutti_group_start();
        for (int i = 0; i < EACH; i++)
            tutti_comm_init_rank(EACH, i, i == 1 ? &wrong : &id, &config, &more[i]);
        ranks_refused(me, tutti_group_end(), stale ? TUTTI_PEER_LOST : TUTTI_INVALID_ARGUMENT,
            "the end of the group", "id");
        ranks_expect(me, more[0] == NULL && more[1] == NULL, "an output was set");
        ranks_at(me, "%s, in grow", stale ? "stale" : "none");
        if (!make(me, EACH, 0, comms, &config))
            return;
        ranks_ok(me, tutti_comm_get_id(comms[2], &id), "get_id");
        tutti_group_start();
        for (int i = 0; i < EACH; i++)
            tutti_comm_grow(comms[i], EACH + 1, NULL, -1, &config, &more[i]);
        tutti_comm_grow(NULL, EACH + 1, &wrong, EACH, &config, &more[EACH]);
        ranks_refused(me, tutti_group_end(), stale ? TUTTI_PEER_LOST : TUTTI_INVALID_ARGUMENT,
            "the end of the group", "id");
        ranks_expect(me, more[0] == NULL && more[EACH] == NULL, "an output was set");
        adds_up(me, comms, EACH, EACH); /* which goes on */
        destroy(me, comms, EACH);
        if (make(me, EACH, 0, comms, &config))
            destroy(me, comms, EACH);
    }
}

Test(api_group_later, a_wrong_id_among_right_ones)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = wrong_among_right });
}
