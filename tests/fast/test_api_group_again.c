/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_group_again.c: messages that were made before (lib/run/call_cache.h), in groups that are wrong.
 *
 * Such messages are kept by the thread as it is, not by the group. So a group that is refused must leave none
 * behind, or the next group of that thread would send it. */
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
