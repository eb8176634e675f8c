/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_split.c: children of a communicator: who is in which, in what order, with which settings; and that
 * parent and children live side by side. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"

TestSuite(api_split, .timeout = 120);

/* What a rank asks for, from a seed that all know. */
struct request {
    int color, key;
};

static struct request request_of(uint64_t seed, int rank, int colors)
{
    uint64_t drawn = ranks_mix(seed ^ ranks_mix((uint64_t)rank));
    struct request q = { (int)(drawn % (uint64_t)(colors + 1)) - 1, (int)(drawn >> 32 & 3) - 2 };
    if (seed % 3 == 0) /* far apart, and in falling order */
        q.key = rank == 0 ? INT32_MAX : rank == 1 ? INT32_MIN : -rank;
    return q;
}

/* Ranks of the parent in the order of this rank's child; returns how many. */
static int members_of(uint64_t seed, int n, int me, int colors, int *members)
{
    struct request mine = request_of(seed, me, colors);
    int count = 0;
    for (int r = 0; r < n; r++) {
        struct request q = request_of(seed, r, colors);
        int at = count;
        if (q.color != mine.color)
            continue;
        for (; at > 0 && request_of(seed, members[at - 1], colors).key > q.key; at--)
            members[at] = members[at - 1];
        members[at] = r;
        count++;
    }
    return count;
}

/* Everybody tells its rank in the parent. */
static void check_members(struct ranks_me *me, tutti_comm *child, const int *members, int count)
{
    int32_t own = me->rank, all[RANKS_MAX];
    if (!ranks_expect(me, tutti_comm_size(child) == count, "the child has %d ranks, not %d",
            tutti_comm_size(child), count))
        return;
    ranks_expect(me, members[tutti_comm_rank(child)] == me->rank, "this is rank %d of the child",
        tutti_comm_rank(child));
    ranks_ok(me, tutti_all_gather(&own, all, 1, TUTTI_INT32, child, tutti_no_stream()), "all_gather");
    for (int i = 0; i < count; i++)
        ranks_expect(me, all[i] == members[i], "rank %d of the child is rank %d of the parent, not %d", i,
            all[i], members[i]);
}

static void orders(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    for (uint64_t seed = 0; comm != NULL && seed < 30; seed++) {
        int colors = 1 + (int)(seed % 4), members[RANKS_MAX];
        struct request q = request_of(seed, me->rank, colors);
        tutti_comm *child = comm;
        ranks_at(me, "n %d rank %d: split %llu, colour %d, key %d", me->n, me->rank, (unsigned long long)seed,
            q.color, q.key);
        ranks_ok(me, tutti_comm_split(comm, q.color, q.key, NULL, &child), "split");
        ranks_expect(me, (child == NULL) == (q.color < 0), "a child where there is none, or none");
        if (child == NULL || child == comm)
            continue;
        check_members(me, child, members, members_of(seed, me->n, me->rank, colors, members));
        ranks_part(me, child);
    }
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_split, colours_and_keys)
{
    ranks_run(&(struct ranks_plan){ .n = 7, .run = orders });
    ranks_run(&(struct ranks_plan){ .n = 8, .kind = RANKS_THREADS, .run = orders });
    ranks_run(&(struct ranks_plan){ .n = 1, .run = orders });
}

/* Halves of halves, down to one rank, all alive and used in turn, then gone in any order. */
static void nested(struct ranks_me *me)
{
    enum { DEEP = 4 };
    tutti_comm *comms[DEEP] = { ranks_join(me, NULL) };
    for (int d = 1; d < DEEP; d++) {
        int rank = tutti_comm_rank(comms[d - 1]), n = tutti_comm_size(comms[d - 1]);
        ranks_at(me, "rank %d: split at depth %d", me->rank, d);
        if (!ranks_ok(me, tutti_comm_split(comms[d - 1], rank < (n + 1) / 2, 0, NULL, &comms[d]), "split"))
            return;
    }
    for (int round = 0; round < 50; round++) {
        int32_t values[DEEP];
        bool grouped = round & 1;
        ranks_at(me, "rank %d: a family in use, round %d", me->rank, round);
        if (grouped)
            tutti_group_start();
        for (int d = 0; d < DEEP; d++) {
            values[d] = 1;
            tutti_all_reduce(&values[d], &values[d], 1, TUTTI_INT32, TUTTI_SUM, comms[d], tutti_no_stream());
        }
        if (grouped)
            ranks_ok(me, tutti_group_end(), "group_end");
        for (int d = 0; d < DEEP; d++)
            ranks_expect(me, values[d] == tutti_comm_size(comms[d]), "%d ranks at depth %d, not %d",
                values[d], d, tutti_comm_size(comms[d]));
    }
    for (int i = 0; i < DEEP; i++)
        ranks_part(me, comms[(i + me->rank) % DEEP]);
}

Test(api_split, nested_children)
{
    ranks_run(&(struct ranks_plan){ .n = 7, .run = nested });
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_TOGETHER, .run = nested });
}

/* A child has its parent's settings, or its own. */
static void settings(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config,
        .flags = TUTTI_COMM_EXACT,
        .name = "parent",
        .timeout_ms = 3000,
        .options = "algo=all_reduce:tree;slice=12K" };
    tutti_config other = { .size = sizeof other, .name = "child", .options = "algo=all_reduce:ring" };
    tutti_comm *comm = ranks_join(me, &config), *heir = NULL, *stranger = NULL;
    char text[1024];
    if (comm == NULL || !ranks_ok(me, tutti_comm_split(comm, 0, 0, NULL, &heir), "split") ||
        !ranks_ok(me, tutti_comm_split(comm, 0, 0, &other, &stranger), "split"))
        return;
    ranks_at(me, "rank %d: settings of children", me->rank);
    tutti_query(heir, "choice all_reduce 8", text, sizeof text);
    ranks_expect(me, strcmp(text, "tree") == 0, "the heir takes '%s'", text);
    tutti_query(heir, "algorithms all_reduce", text, sizeof text);
    ranks_expect(me, strstr(text, "ring") == NULL, "the heir is not exact: %s", text);
    tutti_query(stranger, "choice all_reduce 8", text, sizeof text);
    ranks_expect(me, strcmp(text, "ring") == 0, "the stranger takes '%s'", text);
    ranks_expect(me,
        tutti_query(stranger, "config", text, sizeof text) > 0 && strstr(text, "algo=all_reduce:ring"),
        "the stranger's settings are %s", text);
    ranks_meet(me);
    if (me->rank > 0) { /* rank 0 does not come, and the parent's deadline holds in the child */
        tutti_status status = tutti_barrier(heir, tutti_no_stream());
        ranks_expect(me, status == TUTTI_TIMEOUT, "barrier returned %d", status);
    }
    ranks_meet(me);
    ranks_same_error(me, heir, TUTTI_TIMEOUT, "parent|rank 0|barrier");
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier of the parent");
    ranks_ok(me, tutti_barrier(stranger, tutti_no_stream()), "barrier of the other child");
    ranks_part(me, heir);
    ranks_part(me, stranger);
    ranks_part(me, comm);
}

Test(api_split, settings)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = settings });
}
