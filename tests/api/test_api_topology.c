/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_topology.c: cache domains given as text, as programs meet them: told, inherited, refused, and
 * used by the algorithms that need them.
 *
 * The matrix (test_api_matrix.c) has these algorithms over counts and types. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/comm.h"
#include "base/handle.h"
#include "run/settings.h"
#include "tests/rig/ranks.h"

TestSuite(api_topology, .timeout = 120);

static void expect_answer(struct ranks_me *me, tutti_comm *comm, const char *question, const char *expected)
{
    char answer[256] = "";
    tutti_query(comm, question, answer, sizeof answer);
    ranks_expect(me, strcmp(answer, expected) == 0, "%s is \"%s\", not \"%s\"", question, answer, expected);
}

static void expect_sum(struct ranks_me *me, tutti_comm *comm)
{
    enum { COUNT = 5000 };
    int64_t send[COUNT], recv[COUNT];
    int n = tutti_comm_size(comm);
    bool right = true;
    for (int i = 0; i < COUNT; i++)
        send[i] = (int64_t)i * (tutti_comm_rank(comm) + 1);
    if (!ranks_ok(me, tutti_all_reduce(send, recv, COUNT, TUTTI_INT64, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce"))
        return;
    for (int i = 0; i < COUNT; i++)
        right = right && recv[i] == (int64_t)i * n * (n + 1) / 2;
    ranks_expect(me, right, "another sum of %d ranks", n);
}

/* Domains 0, 2, 4 and 1, 3, 5: a child of the first four has two of each, however it orders them. */
static void inherited(struct ranks_me *me)
{
    static const char *const options[] = { "topology=0,2,4/1,3,5;slice=8K;algo=all_reduce:hierarchical",
        "topology=6x1" };
    tutti_config config = { .size = sizeof config, .options = options[me->rank > 0] };
    tutti_comm *comm = ranks_join(me, &config), *child = NULL;
    if (comm == NULL)
        return;
    expect_answer(me, comm, "topology", "0,2,4/1,3,5");
    expect_answer(me, comm, "choice all_reduce 8", "hierarchical");
    expect_sum(me, comm);
    if (ranks_ok(me, tutti_comm_split(comm, me->rank < 4, -me->rank, NULL, &child), "split")) {
        expect_answer(me, child, "topology", me->rank < 4 ? "0,2/1,3" : "0/1");
        if (me->rank < 4)
            expect_sum(me, child);
        ranks_ok(me, tutti_comm_destroy(child), "destroy");
    }
    ranks_part(me, comm);
}

Test(api_topology, told_and_inherited)
{
    ranks_run(&(struct ranks_plan){ .n = 6, .run = inherited });
}

/* Of one process, the text is known without an exchange. */
static void together(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "topology=2x2;algo=all_reduce:hierarchical" };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    expect_answer(me, comm, "topology", "0-1/2-3");
    expect_sum(me, comm);
    ranks_part(me, comm);
}

Test(api_topology, of_init_all)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_TOGETHER, .run = together });
}

static void refused(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "topology=2x2" };
    tutti_comm *comm = NULL;
    tutti_id id;
    int32_t value = 3;
    if (ranks_id(me, &id))
        ranks_refused(me, tutti_comm_init_rank(me->n, me->rank, &id, &config, &comm), TUTTI_INVALID_ARGUMENT,
            "init_rank", "topology|2x2|4 ranks|has 3");
    config.options = "topology=0-1/1-2";
    ranks_refused(me, tutti_comm_init_rank(me->n, me->rank, &id, &config, &comm), TUTTI_INVALID_ARGUMENT,
        "init_rank", "topology|0-1/1-2|auto");
    config.options = "topology=0-1/2;algo=all_reduce:hierarchical";
    comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    ranks_refused(me, tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
        TUTTI_INVALID_USAGE, "all_reduce", "hierarchical|two cache domains|eligible|direct");
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    ranks_part(me, comm);
}

Test(api_topology, refused)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = refused });
}

static void questions(struct ranks_me *me)
{
    char text[4096] = "";
    tutti_query(NULL, "schedule all_reduce hierarchical 4 0 1 out_of_place 2x2", text, sizeof text);
    ranks_expect(me, strstr(text, "chunks 4 out_of_place domains 0-1/2-3\n0 send 0 in 0..1 #0\n") != NULL,
        "the schedule is: %s", text);
    tutti_query(NULL, "schedule reduce hierarchical 4 0 1 in_place exact 0-1/2-3", text, sizeof text);
    ranks_expect(me, strstr(text, "in_place domains 0-1/2-3\n") != NULL, "the schedule is: %s", text);
    tutti_query(NULL, "schedule all_reduce hierarchical 4 0 1 out_of_place", text, sizeof text);
    ranks_expect(
        me, strstr(text, "refused: it needs at least two cache domains") != NULL, "it says: %s", text);
    ranks_expect(me, tutti_query(NULL, "schedule barrier dissemination 4 0 1 out_of_place 2x3", NULL, 0) == 0,
        "a topology of six serves four");
    ranks_expect(
        me, tutti_query(NULL, "topology", text, sizeof text) > 0, "topology: %s", tutti_get_last_error(NULL));
    ranks_expect(me, strstr(text, "this process is in") != NULL, "it says: %s", text);
}

Test(api_topology, questions)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = questions });
}

/* --- Hosts, in whatever order ranks are on them */

struct placed {
    const char *of_rank; /* a letter for the host of each */
    const char *told;
    uint64_t hosts;
    const char *of_child; /* of all but rank 0, the last one first */
};

/* Slices are those of ranks apart where no two have a host in common. A level 2 cache of 2 MiB hides it. */
static void expect_slices(struct ranks_me *me, const tutti_comm *comm, const char *hosts)
{
    const struct tt_comm *c = tt_comm_peek(comm);
    bool apart = strchr(hosts, '/') != NULL && strpbrk(hosts, ",-") == NULL;
    uint64_t expected = tt_comm_slot_bytes(&c->settings, c->n, apart), slot = c->endpoint->slot_bytes;
    ranks_expect(me, slot == expected, "hosts %s: slices of %llu bytes, not %llu", hosts,
        (unsigned long long)slot, (unsigned long long)expected);
}

static void on_hosts(struct ranks_me *me)
{
    const struct placed *p = me->context;
    const char name[] = { p->of_rank[me->rank], '\0' };
    setenv("TUTTI_HOSTID", name, 1);
    setenv("TUTTI_INTERFACE", "127.0.0.1", 1);
    tutti_comm *comm = ranks_join(me, NULL), *child = NULL;
    if (comm == NULL)
        return;
    expect_answer(me, comm, "hosts", p->told);
    if (p->hosts > 1) /* caches, of which each host has others, are not looked at */
        expect_answer(me, comm, "topology", p->told);
    uint64_t hosts = tt_comm_peek(comm)->settings.costs.hosts;
    ranks_expect(me, hosts == p->hosts, "predictions are of %llu hosts", (unsigned long long)hosts);
    expect_slices(me, comm, p->told);
    expect_sum(me, comm);
    if (ranks_ok(me, tutti_comm_split(comm, me->rank > 0 ? 0 : -1, -me->rank, NULL, &child), "split") &&
        child != NULL) {
        expect_answer(me, child, "hosts", p->of_child);
        expect_slices(me, child, p->of_child);
        expect_sum(me, child);
        ranks_ok(me, tutti_comm_destroy(child), "destroy");
    }
    ranks_part(me, comm);
}

Test(api_topology, hosts_are_told_and_counted)
{
    static const struct placed cases[] = { { "aaa", "0-2", 1, "0-1" }, { "aab", "0-1/2", 2, "0/1" },
        { "baa", "0/1-2", 2, "0-1" }, { "aba", "0,2/1", 2, "0/1" }, { "abba", "0,3/1-2", 2, "0/1-2" },
        { "abcab", "0,3/1,4/2", 3, "0,3/1/2" }, { "abc", "0/1/2", 3, "0/1" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ranks_run(&(struct ranks_plan){
            .n = (int)strlen(cases[i].of_rank), .run = on_hosts, .context = &cases[i] });
}

/* Places that the user tells hold on several hosts as well. */
static void on_hosts_as_told(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "topology=0-1/2" };
    setenv("TUTTI_HOSTID", me->rank == 1 ? "b" : "a", 1);
    setenv("TUTTI_INTERFACE", "127.0.0.1", 1);
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    expect_answer(me, comm, "hosts", "0,2/1");
    expect_answer(me, comm, "topology", "0-1/2");
    expect_sum(me, comm);
    ranks_part(me, comm);
}

Test(api_topology, of_a_user_on_several_hosts)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = on_hosts_as_told });
}

/* --- Cores: a rank that a launcher has bound sees only its own. */

struct binding {
    bool cores, hosts; /* each rank has one of its own */
};

static void bind_to(int k)
{
    cpu_set_t mine, one;
    int core = -1;
    sched_getaffinity(0, sizeof mine, &mine);
    for (int seen = -1; seen < k; seen += CPU_ISSET(core, &mine) != 0)
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof one, &one);
}

static void bound(struct ranks_me *me)
{
    const struct binding *b = me->context;
    const bool apart = b->cores || b->hosts;
    bind_to(b->cores ? me->rank : 0);
    if (b->hosts) { /* where a core of the same number is another one */
        setenv("TUTTI_HOSTID", me->rank == 1 ? "b" : "a", 1);
        setenv("TUTTI_INTERFACE", "127.0.0.1", 1);
    }
    tutti_comm *comm = ranks_join(me, NULL), *child = NULL;
    if (comm == NULL)
        return;
    ranks_expect(me, (tt_comm_find(comm)->waiting.policy.spins > 0) == apart,
        "ranks on cores of their own spin, and those on one do not");
    if (ranks_ok(me, tutti_comm_split(comm, 0, 0, NULL, &child), "split"))
        ranks_expect(me, (tt_comm_find(child)->waiting.policy.spins > 0) == apart, "a child knows as much");
    ranks_part(me, child);
    ranks_part(me, comm);
}

Test(api_topology, ranks_bound_to_cores)
{
    static const struct binding bindings[] = { { false, false }, { true, false }, { false, true } };
    cpu_set_t mine;
    sched_getaffinity(0, sizeof mine, &mine);
    if (CPU_COUNT(&mine) < 2)
        cr_skip_test("two ranks cannot have a core each here");
    for (int i = 0; i < 3; i++) {
        int last = bindings[i].hosts ? RANKS_PROCESSES : RANKS_THREADS;
        for (int kind = RANKS_PROCESSES; kind <= last; kind++)
            ranks_run(&(struct ranks_plan){
                .n = 2, .kind = (enum ranks_kind)kind, .run = bound, .context = &bindings[i] });
    }
}
