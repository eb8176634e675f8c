/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_choice.c: the ranks of a host choose algorithms together: one of them predicts times, all take the
 * same, and none depends on another one: a rank that dies or stays away in the middle of a choice is told of
 * as ever. Counted in predictions, not in time; the words by themselves are in test_host_choice.c. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/handle.h"
#include "run/comm.h"
#include "tests/rig/ranks.h"

enum { MOST = 6000, NOTHING_MS = 1000000 };

struct told { /* by each rank, in what all share */
    _Atomic uint32_t predicted;
    _Atomic bool done;
    uint8_t known[TT_CHOICES];
};
_Static_assert(7 * sizeof(struct told) <= RANKS_SHARED_BYTES, "it fits");

static struct told *told(const struct ranks_me *me, int rank)
{
    return (struct told *)me->shared + rank;
}

static struct tt_choice_cache *cache_of(const tutti_comm *comm)
{
    return tt_comm_peek(comm)->choice_cache;
}

/* Joins ranks that wait for each other's choices as long as it takes: a busy machine is no reason to choose
 * twice. */
static tutti_comm *join(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm != NULL)
        cache_of(comm)->host.patience_ms = NOTHING_MS;
    ranks_meet(me);
    return comm;
}

static bool sums_to(const float *values, size_t count, float sum)
{
    size_t right = 0;
    while (right < count && values[right] == sum) // NOLINT(clang-diagnostic-float-equal)
        right++;
    return right == count;
}

static void call_all(struct ranks_me *me, tutti_comm *comm)
{
    static _Thread_local float in[MOST * 8], out[MOST * 8];
    tutti_stream none = tutti_no_stream();
    for (size_t count = 1; count <= MOST; count = count * 5 / 2 + 1) {
        for (size_t i = 0; i < MOST * 8; i++)
            in[i] = 1;
        ranks_at(me, "%zu elements", count);
        ranks_ok(me, tutti_all_reduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, comm, none), "all_reduce");
        ranks_expect(me, sums_to(out, count, (float)me->n), "all_reduce of %zu is wrong", count);
        ranks_ok(me, tutti_broadcast(in, out, count, TUTTI_FLOAT32, 0, comm, none), "broadcast");
        ranks_ok(me, tutti_all_gather(in, out, count, TUTTI_FLOAT32, comm, none), "all_gather");
        ranks_ok(me, tutti_all_to_all(in, out, count, TUTTI_FLOAT32, comm, none), "all_to_all");
        ranks_ok(me, tutti_reduce(in, out, count, TUTTI_FLOAT32, TUTTI_SUM, me->n - 1, comm, none), "reduce");
    }
    ranks_ok(me, tutti_barrier(comm, none), "barrier");
}

/* Tells the others what this rank knows; then all have. */
static void tell(struct ranks_me *me, const tutti_comm *comm)
{
    struct told *mine = told(me, me->rank);
    memcpy(mine->known, cache_of(comm)->known, sizeof mine->known);
    mine->predicted = cache_of(comm)->predicted;
    ranks_meet(me);
}

/* All ranks know the same, and what each would have chosen alone; each class was predicted once on a host,
 * where ranks are by turns. */
static void compare(struct ranks_me *me, const tutti_comm *comm, int hosts)
{
    uint32_t classes = 0, predicted = 0;
    for (int i = 0; i < TT_CHOICES; i++)
        classes += told(me, 0)->known[i] != 0;
    for (int r = 0; r < me->n; r++)
        ranks_expect(me, memcmp(told(me, r)->known, told(me, 0)->known, TT_CHOICES) == 0,
            "rank %d knows something else", r);
    for (int r = me->rank % hosts; r < me->n; r += hosts)
        predicted += told(me, r)->predicted;
    ranks_expect(
        me, predicted == classes && classes > 20, "%u classes, predicted %u times", classes, predicted);
    for (int i = 0; i < TT_CHOICES; i++) {
        char question[64], answer[64];
        int collective = i / (4 * TT_SIZE_CLASSES);
        if (told(me, me->rank)->known[i] == 0 || tt_collectives[collective].p2p)
            continue;
        snprintf(question, sizeof question, "choice %s %llu", tt_collectives[collective].name,
            (unsigned long long)tt_size_of_class((unsigned)i % TT_SIZE_CLASSES));
        tutti_query(comm, question, answer, sizeof answer);
        const char *known = tt_algorithms[told(me, me->rank)->known[i] - 1].name;
        ranks_expect(me, strcmp(answer, known) == 0, "%s: %s, not %s", question, known, answer);
    }
}

static void choose_all(struct ranks_me *me)
{
    const char *hosts = me->kind == RANKS_PROCESSES ? getenv("TUTTI_TEST_HOSTS") : NULL;
    tutti_comm *comm = join(me);
    if (comm == NULL)
        return;
    call_all(me, comm);
    tell(me, comm);
    compare(me, comm, hosts != NULL ? atoi(hosts) : 1);
    ranks_meet(me);
    ranks_part(me, comm);
}

Test(api_choice, one_process_of_a_host_predicts)
{
    ranks_run(&(struct ranks_plan){ .n = 7, .kind = RANKS_PROCESSES, .run = choose_all });
}

Test(api_choice, one_thread_of_a_process_predicts)
{
    ranks_run(&(struct ranks_plan){ .n = 5, .kind = RANKS_THREADS, .run = choose_all });
    ranks_run(&(struct ranks_plan){ .n = 6, .kind = RANKS_TOGETHER, .run = choose_all });
}

Test(api_choice, one_process_of_each_host_predicts)
{
    setenv("TUTTI_TEST_HOSTS", "2", 1);
    ranks_run(&(struct ranks_plan){ .n = 5, .kind = RANKS_PROCESSES, .run = choose_all });
}

/* --- A child, and two communicators at a time */

struct caller {
    struct ranks_me *me;
    tutti_comm *comm;
};

static void *call_all_on(void *argument)
{
    struct caller *caller = argument;
    call_all(caller->me, caller->comm);
    return NULL;
}

static void choose_on_two(struct ranks_me *me)
{
    pthread_t thread;
    tutti_comm *comm = join(me), *child = NULL;
    if (comm == NULL || !ranks_ok(me, tutti_comm_split(comm, 0, -me->rank, NULL, &child), "split"))
        return;
    cache_of(child)->host.patience_ms = NOTHING_MS;
    ranks_meet(me);
    struct caller other = { me, child };
    if (!ranks_expect(me, pthread_create(&thread, NULL, call_all_on, &other) == 0, "no thread"))
        return;
    call_all(me, comm);
    pthread_join(thread, NULL);
    tell(me, comm);
    compare(me, comm, 1);
    ranks_meet(me);
    tell(me, child);
    compare(me, child, 1);
    ranks_meet(me);
    ranks_part(me, child);
    ranks_part(me, comm);
}

Test(api_choice, two_communicators_choose_at_a_time)
{
    unsetenv("TUTTI_TEST_HOSTS"); /* of one host */
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_PROCESSES, .run = choose_on_two });
}

/* --- A rank that goes in the middle of a choice */

enum { COUNT = 3000 };

/* Claims the next choice of an all_reduce or broadcast, as a rank does that is about to predict. */
static void claim(struct ranks_me *me, const tutti_comm *comm, enum tt_collective collective)
{
    struct tt_request request = { .collective = collective, .bytes = COUNT * sizeof(float) };
    ranks_expect(me, tt_host_choice_ask(&cache_of(comm)->host, tt_choice_of(&request)) == -1,
        "somebody else has chosen");
}

static void die_choosing(struct ranks_me *me)
{
    static float in[COUNT], out[COUNT];
    uint32_t predicted = 0;
    tutti_comm *comm = join(me);
    if (comm == NULL)
        return;
    if (me->rank == 1) {
        claim(me, comm, TT_ALL_REDUCE);
        ranks_meet(me);
        raise(SIGKILL);
    }
    ranks_meet(me);
    tutti_status status = tutti_all_reduce(in, out, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
    ranks_refused(me, status, TUTTI_PEER_LOST, "all_reduce", "rank 1|all_reduce");
    told(me, me->rank)->predicted = cache_of(comm)->predicted;
    atomic_store(&told(me, me->rank)->done, true);
    for (int r = 0; r < me->n; r++)
        while (r != 1 && !atomic_load(&told(me, r)->done))
            ranks_sleep_us(1000);
    for (int r = 0; r < me->n; r++)
        predicted += told(me, r)->predicted;
    ranks_expect(me, predicted == 1, "%u survivors predicted", predicted);
    ranks_part(me, comm);
}

/* Nobody's patience ends here: that the rank has died does, and one of the others chooses in its place. */
Test(api_choice, a_rank_is_killed_while_it_chooses)
{
    unsetenv("TUTTI_TEST_HOSTS");
    ranks_run(
        &(struct ranks_plan){ .n = 5, .kind = RANKS_PROCESSES, .run = die_choosing, .may_die = 1 << 1 });
}

/* Rank 1 has claimed the choice and does not go on before rank 0, which needs nobody, is through. */
static void be_late(struct ranks_me *me)
{
    static float in[COUNT], out[COUNT];
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)me->rank + 7;
    cache_of(comm)->host.patience_ms = me->rank == 1 ? NOTHING_MS : 100;
    if (me->rank == 1)
        claim(me, comm, TT_BROADCAST);
    ranks_meet(me);
    while (me->rank == 1 && !atomic_load(&told(me, 0)->done))
        ranks_sleep_us(1000);
    ranks_ok(me, tutti_broadcast(in, out, COUNT, TUTTI_FLOAT32, 0, comm, tutti_no_stream()), "broadcast");
    told(me, me->rank)->predicted = cache_of(comm)->predicted;
    atomic_store(&told(me, me->rank)->done, true);
    ranks_expect(me, sums_to(out, COUNT, 7), "the broadcast is wrong");
    ranks_meet(me);
    ranks_expect(me, told(me, 0)->predicted + told(me, 2)->predicted > 0, "nobody predicted");
    ranks_expect(me, told(me, 1)->predicted == 0, "who was late predicted what was known");
    ranks_part(me, comm);
}

Test(api_choice, a_rank_is_late_while_it_chooses)
{
    unsetenv("TUTTI_TEST_HOSTS");
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_PROCESSES, .run = be_late });
}

/* A call does not wait for another rank's choice longer than for anything else. */
static void wait_no_longer(struct ranks_me *me)
{
    static float in[COUNT], out[COUNT];
    tutti_config config = { .size = sizeof config, .timeout_ms = 1000 };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    ranks_expect(me, cache_of(comm)->host.patience_ms == 1000, "patience is %lld ms",
        (long long)cache_of(comm)->host.patience_ms);
    if (me->rank == 1)
        claim(me, comm, TT_ALL_REDUCE);
    ranks_meet(me);
    if (me->rank == 0)
        ranks_refused(me, tutti_all_reduce(in, out, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()),
            TUTTI_TIMEOUT, "all_reduce", "rank 1");
    ranks_meet(me);
    ranks_part(me, comm);
}

Test(api_choice, a_short_timeout_holds_while_others_choose)
{
    unsetenv("TUTTI_TEST_HOSTS");
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_PROCESSES, .run = wait_no_longer });
}
