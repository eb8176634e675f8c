/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_split.c: children of a communicator: who is in which, in what order, with which settings; and that
 * parent and children live side by side. */
#include <criterion/criterion.h>
#include <ctype.h>
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

/* --- What a child inherits */

/* The value of a setting, as it stands in the answer to "config". */
static void value_of(const tutti_comm *comm, const char *setting, char *value, size_t bytes)
{
    static char text[8192];
    size_t length = strlen(setting);
    tutti_query(comm, "config", text, sizeof text);
    const char *line = text;
    while (line != NULL && (strncmp(line, setting, length) != 0 || line[length] != '='))
        line = (line = strchr(line, '\n')) != NULL ? line + 1 : NULL;
    snprintf(value, bytes, "%.*s", line != NULL ? (int)strcspn(line + length + 1, " \n") : 1,
        line != NULL ? line + length + 1 : "?");
}

static void expect_value(
    struct ranks_me *me, const char *who, const tutti_comm *comm, const char *setting, const char *expected)
{
    char value[512];
    value_of(comm, setting, value, sizeof value);
    ranks_expect(
        me, strcmp(value, expected) == 0, "%s has %s=%s, expected %s", who, setting, value, expected);
}

/* Each setting with a value that is not its default, and another one. */
static const char *const unusual[][3] = { { "algo", "all_reduce:tree", "all_reduce:ring" },
    { "slice", "12K", "16K" }, { "timeout", "200000", "150000" }, { "refusal", "700", "800" },
    { "network", "tcp", "auto" }, { "heartbeat", "5000", "6000" }, { "first_number", "7", "8" },
    { "exact", "on", "off" }, { "topology", "0-1/2", "0/1-2" }, { "init_timeout", "190000", "180000" },
    { "map", "off", "on" }, { "pull", "off", "always" }, { "membarrier", "off", "on" },
    { "fused", "off", "on" }, { "stream_bytes", "1M", "2M" }, { "isa", "generic", "auto" } };
enum { UNUSUAL = sizeof unusual / sizeof unusual[0] };

static void put_options(char *options, size_t bytes, int column, int only)
{
    size_t length = 0;
    options[0] = '\0';
    for (int i = 0; i < UNUSUAL; i++)
        if (only < 0 || only == i)
            length += (size_t)snprintf(options + length, bytes - length, "%s%s=%s", length > 0 ? ";" : "",
                unusual[i][0], unusual[i][column]);
}

/* A config that only names the child, or says one setting, changes nothing else; what the environment says
 * by then is not asked. */
static void inherits(struct ranks_me *me)
{
    char options[1024], variable[64];
    put_options(options, sizeof options, 1, -1);
    tutti_config config = { .size = sizeof config, .options = options, .name = "parent" };
    tutti_comm *comm = ranks_join(me, &config);
    for (int i = 0; i < UNUSUAL; i++) {
        snprintf(variable, sizeof variable, "TUTTI_%s", unusual[i][0]);
        for (char *c = variable; *c != '\0'; c++)
            *c = (char)toupper((unsigned char)*c);
        setenv(variable, unusual[i][2], 1);
    }
    for (int only = -2; only < UNUSUAL && comm != NULL; only++) { /* -2: no config; -1: a name */
        char one[128] = "";
        tutti_config own = { .size = sizeof own, .name = "child", .options = only < 0 ? NULL : one };
        tutti_comm *child = NULL;
        if (only >= 0)
            put_options(one, sizeof one, 2, only);
        ranks_at(me, "rank %d: a child %s", me->rank,
            only == -2 ? "without a config"
            : only < 0 ? "with a name"
                       : one);
        if (!ranks_ok(me, tutti_comm_split(comm, 0, 0, only == -2 ? NULL : &own, &child), "split"))
            continue;
        for (int i = 0; i < UNUSUAL; i++)
            expect_value(me, "the child", child, unusual[i][0], unusual[i][i == only ? 2 : 1]);
        ranks_part(me, child);
    }
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_split, a_child_has_what_it_does_not_set_of_its_parent)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = inherits });
}

/* The parent's deadline holds in a child that only has a name; one of its own may come by the struct or by
 * the options, of the child's rank 0 for all. */
static void deadlines(struct ranks_me *me)
{
    enum { SOON_MS = 1000, LATE_MS = 100000 }; /* also of a start */
    static const struct {
        int64_t parent_ms, timeout_ms;
        const char *options, *of_others; /* of rank 0, and of rank 1 */
    } cases[] = { { SOON_MS, 0, NULL, NULL }, { SOON_MS, 0, "slice=16K", NULL },
        { LATE_MS, SOON_MS, NULL, NULL }, { LATE_MS, 0, "timeout=1000", "timeout=1000" },
        { LATE_MS, 0, "timeout=1000", NULL }, { SOON_MS, 0, NULL, "timeout=100000" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tutti_config config = { .size = sizeof config, .timeout_ms = cases[i].parent_ms };
        tutti_config own = { .size = sizeof own, .name = "child", .timeout_ms = cases[i].timeout_ms };
        own.options = me->rank == 0 ? cases[i].options : cases[i].of_others;
        tutti_comm *child = NULL, *comm = ranks_join(me, &config);
        ranks_at(me, "rank %d: deadline %zu", me->rank, i);
        if (comm == NULL || !ranks_ok(me, tutti_comm_split(comm, 0, me->rank, &own, &child), "split"))
            return;
        int64_t began = ranks_now_ms();
        if (me->rank == 1) { /* rank 0 does not come */
            tutti_status status = tutti_barrier(child, tutti_no_stream());
            ranks_expect(me, status == TUTTI_TIMEOUT, "barrier returned %d", status);
        }
        int64_t took = ranks_now_ms() - began;
        ranks_meet(me);
        ranks_same_error(me, child, TUTTI_TIMEOUT, "child|rank 0");
        ranks_expect(me, me->rank == 0 || (took >= SOON_MS - 50 && took < LATE_MS), "it took %lld ms",
            (long long)took);
        ranks_part(me, child);
        ranks_part(me, comm);
    }
}

Test(api_split, a_child_has_its_parents_deadline)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = deadlines, .limit_s = 110 });
}

/* Exactness is of the flags, and ends by the options alone; which ranks share a cache comes from the parent,
 * or from the child's options. */
static void exact_and_places(struct ranks_me *me)
{
    static const struct {
        const char *options;
        bool exact, two_caches;
    } cases[] = { { NULL, true, true }, { "exact=off", false, true }, { "topology=0-3", true, false } };
    tutti_config config = {
        .size = sizeof config, .flags = TUTTI_COMM_EXACT, .options = "topology=0-1/2-3", .name = "parent"
    };
    tutti_config own = { .size = sizeof own, .name = "child" };
    tutti_comm *comm = ranks_join(me, &config), *child = NULL;
    char text[1024];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0] && comm != NULL; i++) {
        own.options = cases[i].options;
        ranks_at(me, "rank %d: a child, options %s", me->rank, own.options != NULL ? own.options : "none");
        if (!ranks_ok(me, tutti_comm_split(comm, 0, 0, &own, &child), "split"))
            return;
        expect_value(me, "the child", child, "exact", cases[i].exact ? "on" : "off");
        tutti_query(child, "algorithms all_reduce", text, sizeof text);
        ranks_expect(
            me, (strstr(text, "hierarchical") != NULL) == cases[i].two_caches, "its algorithms are %s", text);
        ranks_part(me, child);
    }
    if (comm == NULL)
        return;
    own.options = "topology=0/1/2";
    ranks_refused(me, tutti_comm_split(comm, 0, 0, &own, &child), TUTTI_INVALID_ARGUMENT, "split",
        "topology|3 ranks|has 4");
    ranks_part(me, comm);
}

Test(api_split, exactness_and_places_of_a_child)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .run = exact_and_places });
}

/* A child has its parent's settings, or its own. */
static void settings(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config,
        .flags = TUTTI_COMM_EXACT,
        .name = "parent",
        .timeout_ms = 3000,
        .options = "algo=all_reduce:tree;slice=12K" };
    tutti_config other = {
        .size = sizeof other, .name = "child", .options = "algo=all_reduce:ring;exact=off"
    };
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
