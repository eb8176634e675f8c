/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_group_again.c: calls that were made before (lib/run/call_cache.h), in groups.
 *
 * Such messages are kept by the thread as it is, not by the group. So a group that is refused must leave none
 * behind, or the next group of that thread would send it. Collectives are checked and chosen no more, and
 * what they share with others of their kind is bound to each in turn. */
#include <criterion/criterion.h>

#include "tests/rig/ranks.h"

TestSuite(api_group_again, .timeout = 120);

enum { WRONG = 111, RIGHT = 222 };

static tutti_status say(int32_t *word, int peer, tutti_comm *comm)
{
    return tutti_send(word, 1, TUTTI_INT32, peer, comm, tutti_no_stream());
}

static tutti_status hear(int32_t *word, int peer, tutti_comm *comm)
{
    return tutti_recv(word, 1, TUTTI_INT32, peer, comm, tutti_no_stream());
}

/* A group that has the message, and ends by a refusal: of a call, of what ends the group, or with its
 * program. */
enum refusal { OF_A_CALL, OF_THE_PROGRAM, REFUSALS };

static void refused_group(struct ranks_me *me, tutti_comm *comm, enum refusal refusal)
{
    int32_t wrong = WRONG;
    tutti_program *program = NULL;
    tutti_group_start();
    ranks_ok(me, say(&wrong, 1, comm), "a message of the wrong group");
    ranks_refused(me, tutti_broadcast(&wrong, &wrong, 1, TUTTI_INT32, 9, comm, tutti_no_stream()),
        TUTTI_INVALID_ARGUMENT, "broadcast", "root|9");
    ranks_refused(me, refusal == OF_A_CALL ? tutti_group_end() : tutti_group_keep(&program),
        TUTTI_INVALID_ARGUMENT, "the end of the wrong group", "root|9");
    ranks_expect(me, program == NULL, "a program of a wrong group");
}

static void leave_nothing(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    for (enum refusal refusal = 0; refusal < REFUSALS; refusal++) {
        int32_t word = RIGHT;
        ranks_at(me, "rank %d: after refusal %d", me->rank, (int)refusal);
        for (int again = 0; again < 3; again++)
            ranks_ok(me, me->rank == 0 ? say(&word, 1, comm) : hear(&word, 0, comm), "a message");
        ranks_expect(me, ranks_cached(comm) > 0, "the message is not cached");
        if (me->rank == 0)
            refused_group(me, comm, refusal);
        /* The first call after a refusal takes the slow path; the group then has what is known. */
        ranks_ok(me, me->rank == 0 ? say(&word, 1, comm) : hear(&word, 0, comm), "a message between");
        word = me->rank == 0 ? RIGHT + (int)refusal : 0;
        tutti_group_start();
        ranks_ok(me, me->rank == 0 ? say(&word, 1, comm) : hear(&word, 0, comm), "the right message");
        ranks_ok(me, tutti_group_end(), "group_end");
        ranks_expect(me, word == RIGHT + (int)refusal, "received %d", word);
    }
    ranks_part(me, comm);
}

Test(api_group_again, a_refused_group_leaves_nothing)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = leave_nothing });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = leave_nothing });
}

/* Collectives that are known, each several times in one group, with other buffers and mixed with one that is
 * not known; arrays are the caller's again at once. */
static void collectives(struct ranks_me *me)
{
    enum { ROUNDS = 6, CALLS = 12, MOST = 8 };
    tutti_stream none = tutti_no_stream();
    tutti_comm *comm = ranks_join(me, NULL);
    for (int round = 0; round < ROUNDS && comm != NULL; round++) {
        int32_t sums[CALLS][2], all[CALLS][MOST], mine[CALLS], root[CALLS];
        bool known = round > 1;
        ranks_at(me, "rank %d: collectives in a group, round %d", me->rank, round);
        if (round > 0)
            tutti_group_start();
        for (int i = 0; i < CALLS; i++) {
            size_t counts[RANKS_MAX], displs[RANKS_MAX];
            int place = (round + i) % 2; /* other buffers each time */
            for (int r = 0; r < me->n; r++)
                counts[r] = 1, displs[r] = (size_t)(i % 2 == 0 ? r : me->n - 1 - r);
            sums[i][place] = mine[i] = 1000 * i + 10 * round + me->rank;
            root[i] = me->rank == i % me->n ? mine[i] : -1;
            tutti_all_reduce(&sums[i][place], &sums[i][place], 1, TUTTI_INT32,
                i % 3 == 0 ? TUTTI_MAX : TUTTI_SUM, comm, none);
            tutti_all_gather_v(&mine[i], 1, all[i], counts, displs, TUTTI_INT32, comm, none);
            for (int r = 0; r < me->n; r++)
                counts[r] = 7, displs[r] = 0;
            tutti_broadcast(&root[i], &root[i], 1, TUTTI_INT32, i % me->n, comm, none);
            if (known && i == 5) /* a length that no round has twice */
                tutti_all_reduce(
                    all[CALLS - 1], all[CALLS - 1], (size_t)(round - 1), TUTTI_INT32, TUTTI_MIN, comm, none);
        }
        if (round > 0)
            ranks_ok(me, tutti_group_end(), "group_end");
        for (int i = 0; i < CALLS; i++) {
            int sum = 0, most = 1000 * i + 10 * round + me->n - 1, is = sums[i][(round + i) % 2];
            for (int r = 0; r < me->n; r++) {
                int theirs = 1000 * i + 10 * round + r, at = i % 2 == 0 ? r : me->n - 1 - r;
                sum += theirs;
                ranks_expect(me, all[i][at] == theirs, "call %d: %d of rank %d", i, all[i][at], r);
            }
            ranks_expect(me, is == (i % 3 == 0 ? most : sum), "call %d: the sum is %d", i, is);
            ranks_expect(
                me, root[i] == 1000 * i + 10 * round + i % me->n, "call %d: the root's is %d", i, root[i]);
        }
    }
    ranks_expect(me, comm == NULL || ranks_cached(comm) > 0, "no call is known");
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_group_again, collectives_that_are_known)
{
    for (int n = 2; n <= 4; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = collectives });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = collectives });
}
