/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_names.c: what communicators are called that were given no name: short, alike on all ranks, and no
 * two of a process the same. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/rig/ranks.h"

enum { N = 3, NAME = 64 };

/* tutti_query, the recorder and errors use it. */
static void is_called(struct ranks_me *me, const tutti_comm *comm, const char *expected)
{
    char name[NAME] = "", text[16384] = "", begin[NAME + 16];
    tutti_query(comm, "name", name, sizeof name);
    ranks_expect(me, strcmp(name, expected) == 0, "it is called %s, expected %s", name, expected);
    tutti_query(comm, "recorder", text, sizeof text);
    snprintf(begin, sizeof begin, "%s, rank %d of ", expected, tutti_comm_rank(comm));
    ranks_expect(me, strstr(text, begin) != NULL, "the recorder lacks %s: %.80s", begin, text);
}

static tutti_comm *make(struct ranks_me *me, const char *name, const char *expected)
{
    tutti_config config = { .size = sizeof config, .name = name };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm != NULL)
        is_called(me, comm, expected);
    return comm;
}

static void names(struct ranks_me *me)
{
    tutti_comm *one = make(me, NULL, "comm-1"), *trainer = make(me, "the trainer", "the trainer");
    tutti_comm *two = make(me, NULL, "comm-2"), *child = NULL, *alone[3], *rest = NULL;
    const int last = N - 1;
    if (one == NULL || two == NULL || trainer == NULL)
        return;
    if (ranks_ok(me, tutti_comm_split(two, me->rank == 0, 0, NULL, &child), "split"))
        is_called(me, child, "split 1 of comm-2");
    if (me->rank != last && ranks_ok(me, tutti_comm_shrink(one, &last, 1, 0, NULL, &rest), "shrink")) {
        is_called(me, rest, "rest of comm-1");
        ranks_ok(me, tutti_comm_destroy(rest), "destroy");
    }
    ranks_part(me, child);
    ranks_part(me, trainer);
    ranks_part(me, two);
    ranks_meet(me);
    for (int i = 0; i < 3 && me->rank == 1; i++) { /* that nobody else knows of */
        ranks_ok(me, tutti_comm_init_all(1, NULL, NULL, &alone[i]), "init_all");
        is_called(me, alone[i], i == 0 ? "comm-3" : i == 1 ? "comm-4" : "comm-5");
    }
    ranks_meet(me);
    two = make(me, NULL, "comm-6");
    ranks_meet(me);
    for (int i = 0; i < 3 && me->rank == 1; i++)
        ranks_part(me, alone[i]);
    ranks_ok(me, tutti_comm_abort(one), "abort");
    ranks_meet(me);
    ranks_expect(me, strstr(tutti_get_last_error(one), "comm-1: aborted by rank") != NULL, "%s",
        tutti_get_last_error(one));
    ranks_ok(me, tutti_comm_destroy(one), "destroy");
    if (two != NULL)
        ranks_part(me, two);
}

Test(api_names, are_alike_on_all_ranks_and_told_apart)
{
    for (int kind = 0; kind < 2; kind++)
        ranks_run(
            &(struct ranks_plan){ .n = N, .kind = kind ? RANKS_THREADS : RANKS_PROCESSES, .run = names });
}

static void all_in_one(struct ranks_me *me)
{
    tutti_comm *comms[2][2];
    for (int i = 0; i < 2; i++) {
        if (!ranks_ok(me, tutti_comm_init_all(2, NULL, NULL, comms[i]), "init_all"))
            return;
        for (int r = 0; r < 2; r++)
            is_called(me, comms[i][r], i == 0 ? "comm-1" : "comm-2");
    }
    for (int i = 0; i < 4; i++)
        ranks_ok(me, tutti_comm_destroy(comms[i / 2][i % 2]), "destroy");
}

Test(api_names, ranks_of_one_process)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = all_in_one });
}
