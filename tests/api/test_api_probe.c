/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_probe.c: ranks of several hosts measure the network between them once, and agree on its class.
 *
 * Hosts are ranks of different TUTTI_HOSTID. What is measured hangs on how busy the machine is, so no test
 * here asks which class it is; tests/test_hosts.sh does, on networks that it makes. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/handle.h"
#include "comm/probe.h"
#include "run/comm.h"
#include "tests/rig/ranks.h"

TestSuite(api_probe, .timeout = 120);

struct plan {
    const char *of_rank; /* a letter for the host of each */
    const char *options;
};

static tutti_comm *join(struct ranks_me *me, const char *of_rank, const char *options)
{
    const char name[] = { of_rank[me->rank], '\0' };
    tutti_config config = { .size = sizeof config, .options = options };
    setenv("TUTTI_HOSTID", name, 1);
    setenv("TUTTI_INTERFACE", "127.0.0.1", 1);
    return ranks_join(me, &config);
}

/* Options with a file of rules that say what a link carries. */
static void put_rules(char *path, char *options, size_t bytes)
{
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, "cost link 0.5 GB/s\n", 19) == 19);
    close(fd);
    snprintf(options, bytes, "probe=auto;rules=%s", path);
}

static const struct tt_costs *costs_of(const tutti_comm *comm)
{
    return &tt_comm_peek(comm)->settings.costs;
}

static void expect_made(struct ranks_me *me, uint32_t expected)
{
    uint32_t made = atomic_load(&tt_probed.links);
    ranks_expect(me, made == expected, "rank %d measured %u links, not %u", me->rank, made, expected);
}

/* Its network is told so, in the end; NULL: there is none. */
static void expect_told(struct ranks_me *me, const tutti_comm *comm, const char *end)
{
    char answer[128] = "";
    size_t length = tutti_query(comm, "network", answer, sizeof answer);
    bool right =
        end == NULL ? length == 0 : length >= strlen(end) && strcmp(answer + length - strlen(end), end) == 0;
    ranks_expect(me, right, "the network is \"%s\", not \"%s\"", answer, end != NULL ? end : "");
}

/* All ranks have the same costs, those of their class. */
static void expect_alike(struct ranks_me *me, const tutti_comm *comm)
{
    struct tt_costs *all = me->shared, priced = *costs_of(comm);
    all[me->rank] = priced;
    ranks_meet(me);
    ranks_expect(me, memcmp(&all[me->rank], &all[0], sizeof priced) == 0, "ranks %d and 0 differ", me->rank);
    tt_link_price(priced.network, &priced);
    ranks_expect(me, memcmp(&priced, &all[0], sizeof priced) == 0, "these are not the costs of their class");
    ranks_meet(me);
}

static void expect_sum(struct ranks_me *me, tutti_comm *comm)
{
    int value = tutti_comm_rank(comm) + 1, sum = 0, n = tutti_comm_size(comm);
    ranks_ok(me, tutti_all_reduce(&value, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()), "sum");
    ranks_expect(me, sum == n * (n + 1) / 2, "the sum is %d", sum);
}

/* --- Once, by all alike */

static void split_to(struct ranks_me *me, tutti_comm *comm, const char *options, const char *told)
{
    tutti_config config = { .size = sizeof config, .options = options };
    tutti_comm *child = NULL;
    if (!ranks_ok(me, tutti_comm_split(comm, 0, me->rank, &config, &child), "split"))
        return;
    expect_told(me, child, told);
    expect_alike(me, child);
    expect_sum(me, child);
    ranks_ok(me, tutti_comm_destroy(child), "destroy");
}

/* Another network between the same hosts is another way, of which nothing is known. */
static bool measure_otherwise(struct ranks_me *me, const struct plan *plan, uint32_t own)
{
    char options[256];
    snprintf(options, sizeof options, "%s;network=tcp", plan->options);
    tutti_comm *comm = join(me, plan->of_rank, options);
    if (comm == NULL)
        return false;
    expect_told(me, comm, ", measured");
    expect_made(me, 2 * own);
    ranks_part(me, comm);
    return true;
}

static void measure(struct ranks_me *me)
{
    const struct plan *plan = me->context;
    tutti_comm *comm = join(me, plan->of_rank, plan->options), *again, *rest = NULL;
    uint32_t own = memchr(plan->of_rank, plan->of_rank[me->rank], (size_t)me->rank) == NULL;
    if (comm == NULL)
        return;
    expect_told(me, comm, ", measured");
    expect_alike(me, comm);
    expect_made(me, own);
    struct ranks_paths paths = ranks_paths(me, comm);
    ranks_expect(me, paths.line + paths.mapped + paths.copied + paths.placed + paths.pulled == 0,
        "bytes count as the program's: %s", paths.text);
    expect_sum(me, comm);
    split_to(me, comm, NULL, ", measured");
    split_to(me, comm, "probe=auto", ", measured");
    split_to(me, comm, "probe=off", "10g,lan, assumed");
    split_to(me, comm, "probe=1g,wan", "1g,wan, as the setting probe says");
    struct tt_link_class first = costs_of(comm)->network;
    again = join(me, plan->of_rank, plan->options);
    if (again == NULL)
        return;
    expect_told(me, again, ", measured");
    expect_alike(me, again);
    ranks_expect(me, tt_link_number(first) == tt_link_number(costs_of(again)->network), "another class");
    expect_made(me, own);
    ranks_part(me, again);
    if (!measure_otherwise(me, plan, own))
        return;
    own *= 2;
    if (ranks_ok(me, tutti_comm_shrink(comm, NULL, 0, 0, NULL, &rest), "shrink")) {
        expect_told(me, rest, ", measured");
        expect_made(me, own);
        expect_sum(me, rest);
        ranks_ok(me, tutti_comm_destroy(rest), "destroy");
    }
    ranks_part(me, comm);
}

Test(api_probe, once_for_all_communicators)
{
    static const struct plan plans[] = { { "ab", "probe=auto" }, { "abba", "probe=auto;slice=12K" },
        { "abcab", "probe=auto;first_number=9223372036854775800" }, { "abcd", "probe=auto" },
        { "abcde", "probe=auto" } };
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        ranks_run(
            &(struct ranks_plan){ .n = (int)strlen(plans[i].of_rank), .run = measure, .context = &plans[i] });
}

/* Ranks 0 and 1 know each other's hosts when rank 2, on a third one, comes. */
static void meet_a_newcomer(struct ranks_me *me)
{
    tutti_id id;
    tutti_comm *two = NULL, *all;
    tutti_config config = { .size = sizeof config, .options = "probe=auto" };
    const char name[] = { (char)('a' + me->rank), '\0' };
    setenv("TUTTI_HOSTID", name, 1);
    setenv("TUTTI_INTERFACE", "127.0.0.1", 1);
    if (!ranks_id(me, &id))
        return;
    if (me->rank < 2 && ranks_ok(me, tutti_comm_init_rank(2, me->rank, &id, &config, &two), "init_rank")) {
        expect_told(me, two, ", measured");
        expect_made(me, 1);
    }
    ranks_meet(me);
    all = join(me, "abc", "probe=auto");
    if (all == NULL)
        return;
    expect_told(me, all, ", measured");
    expect_alike(me, all);
    expect_made(me, me->rank == 1 ? 2 : 1); /* 0 to 1 is known; 1 to 2 and 2 to 0 are not */
    expect_sum(me, all);
    ranks_part(me, all);
    if (two != NULL)
        ranks_ok(me, tutti_comm_destroy(two), "destroy");
}

Test(api_probe, who_knows_meets_who_does_not)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = meet_a_newcomer });
}

/* Ranks 1 and 3 lead no host when all meet, and do among themselves. */
static void meet_without_leaders(struct ranks_me *me)
{
    tutti_id id;
    tutti_comm *all = join(me, "aabb", "probe=auto"), *two = NULL;
    tutti_config config = { .size = sizeof config, .options = "probe=auto" };
    if (all == NULL || !ranks_id(me, &id))
        return;
    if (me->rank % 2 == 1 &&
        ranks_ok(me, tutti_comm_init_rank(2, me->rank / 2, &id, &config, &two), "init_rank")) {
        expect_told(me, two, ", measured");
        expect_made(me, 0);
        ranks_ok(me, tutti_comm_destroy(two), "destroy");
    }
    ranks_meet(me); /* rank 0 has made the id, and serves it until then */
    ranks_part(me, all);
}

Test(api_probe, who_led_no_host_knows_what_was_measured)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .run = meet_without_leaders });
}

/* Wherever it would be looked for, there is what was found of other hosts. */
static void know_others(struct ranks_me *me)
{
    for (uint64_t place = 0; place < TT_PROBED_MOST; place++)
        atomic_store(&tt_probed.known[place], place << 8 | 1);
    tutti_comm *comm = join(me, "ab", "probe=auto");
    if (comm == NULL)
        return;
    expect_made(me, 1);
    ranks_part(me, comm);
}

Test(api_probe, what_is_known_of_other_hosts_is_not_believed)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = know_others });
}

/* --- The worst of all */

static const struct tt_link_class *found_here; /* in place of what is measured; NULL: nothing is */

struct tt_link_class __real_tt_link_classify(double bits_s, int64_t trip_ns);
struct tt_link_class __wrap_tt_link_classify(double bits_s, int64_t trip_ns);
struct tt_link_class __wrap_tt_link_classify(double bits_s, int64_t trip_ns)
{
    return found_here != NULL ? *found_here : __real_tt_link_classify(bits_s, trip_ns);
}

struct found { /* from each of three hosts to the next */
    struct tt_link_class from[3];
    const char *told;
};

static void find_another(struct ranks_me *me)
{
    const struct found *found = me->context;
    found_here = &found->from[me->rank % 3];
    tutti_comm *comm = join(me, "abcabc", "probe=auto");
    if (comm == NULL)
        return;
    expect_told(me, comm, found->told);
    expect_alike(me, comm);
    expect_sum(me, comm);
    ranks_part(me, comm);
}

Test(api_probe, all_take_the_worst)
{
    static const struct tt_link_class slow = { TT_RATE_1G, TT_TRIP_LAN },
                                      far = { TT_RATE_10G, TT_TRIP_METRO },
                                      best = { TT_RATE_100G, TT_TRIP_LAN };
    const struct found cases[] = { { { far, slow, best }, "1g,metro, measured" },
        { { best, far, slow }, "1g,metro, measured" }, { { slow, best, far }, "1g,metro, measured" },
        { { best, best, best }, "100g,lan, measured" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ranks_run(&(struct ranks_plan){ .n = 6, .run = find_another, .context = &cases[i] });
}

/* --- Children */

/* What a child is told replaces what its parent has; but not what its rules say. */
static void tell_children(struct ranks_me *me)
{
    const struct plan *plan = me->context;
    tutti_comm *comm = join(me, plan->of_rank, plan->options);
    if (comm == NULL)
        return;
    split_to(me, comm, NULL, "1g,wan, as the setting probe says");
    split_to(me, comm, "probe=auto", "1g,wan, as the setting probe says");
    split_to(me, comm, "probe=100m,metro", "100m,metro, as the setting probe says");
    expect_made(me, 0);
    tutti_config config = { .size = sizeof config, .options = "probe=100m,metro", .name = "child" };
    tutti_comm *ruled = join(me, plan->of_rank, plan[1].options), *child = NULL;
    if (ruled != NULL && ranks_ok(me, tutti_comm_split(ruled, 0, me->rank, &config, &child), "split")) {
        expect_told(me, child, "100m,metro, but for the costs that rules say");
        ranks_expect(me, costs_of(child)->link == 2000000, "the child's rules say 0.5 GB/s, not %llu",
            (unsigned long long)costs_of(child)->link);
        ranks_expect(me, costs_of(child)->byte[TT_AWAY] == 85000000, "and 100 Mbit/s, not %llu",
            (unsigned long long)costs_of(child)->byte[TT_AWAY]);
        ranks_ok(me, tutti_comm_destroy(child), "destroy");
    }
    if (ruled != NULL)
        ranks_part(me, ruled);
    ranks_part(me, comm);
}

Test(api_probe, a_child_has_what_it_is_told)
{
    char path[] = "/tmp/tutti-probe-XXXXXX", options[64];
    put_rules(path, options, sizeof options);
    const struct plan plans[] = { { "aab", "probe=1g,wan" }, { "aab", options } };
    ranks_run(&(struct ranks_plan){ .n = 3, .run = tell_children, .context = plans });
    unlink(path);
}

/* --- Not at all */

static void expect_unmeasured(struct ranks_me *me)
{
    const struct plan *plan = me->context;
    tutti_comm *comm = join(me, plan[0].of_rank, plan[0].options);
    if (comm == NULL)
        return;
    expect_told(me, comm, plan[1].options);
    expect_made(me, 0);
    expect_sum(me, comm);
    if (plan[1].of_rank == NULL)
        expect_alike(me, comm);
    ranks_part(me, comm);
}

Test(api_probe, nobody_measures_what_is_said)
{
    char path[] = "/tmp/tutti-probe-XXXXXX", options[64];
    put_rules(path, options, sizeof options);
    const struct plan plans[][2] = { { { "ab", "probe=off" }, { NULL, "10g,lan, assumed" } },
        { { "aba", "probe=100m,global" }, { NULL, "100m,global, as the setting probe says" } },
        { { "ab", options }, { "given", "10g,lan, but for the costs that rules say" } },
        { { "aaa", "probe=auto" }, { NULL, NULL } } };
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        ranks_run(&(struct ranks_plan){
            .n = (int)strlen(plans[i][0].of_rank), .run = expect_unmeasured, .context = plans[i] });
    unlink(path);
}

/* --- What goes wrong meanwhile, and in which order */

static int signal_of_who_measures; /* 0: none */
static char measured_with[64]; /* the ranks with which this one has measured so far */

void __real_tt_init_progress_wait(const char *format, ...);
void __wrap_tt_init_progress_wait(const char *format, ...) __attribute__((format(printf, 1, 2)));
void __wrap_tt_init_progress_wait(const char *format, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    __real_tt_init_progress_wait("%s", text);
    int one, other;
    size_t length = strlen(measured_with);
    if (sscanf(text, "the network between rank %d and rank %d is", &one, &other) == 2)
        snprintf(measured_with + length, sizeof measured_with - length, " %d", other);
    if (signal_of_who_measures != 0 && strstr(text, "being measured") != NULL)
        raise(signal_of_who_measures);
}

/* Rank 1, on another host than rank 0, gets a signal as it begins. */
static void fail_measuring(struct ranks_me *me)
{
    const char name[] = { "abb"[me->rank], '\0' };
    const bool stops = *(const int *)me->context == SIGSTOP;
    tutti_config config = { .size = sizeof config, .options = "probe=auto;init_timeout=3000" };
    tutti_comm *comm = NULL;
    tutti_id id;
    setenv("TUTTI_HOSTID", name, 1);
    setenv("TUTTI_INTERFACE", "127.0.0.1", 1);
    signal_of_who_measures = me->rank == 1 ? *(const int *)me->context : 0;
    if (!ranks_id(me, &id))
        return;
    int64_t began_ms = ranks_now_ms();
    tutti_status status = tutti_comm_init_rank(me->n, me->rank, &id, &config, &comm);
    /* Rank 2, who waits for both, may hear that neither has handed in what all exchange. */
    const char *late = stops && me->rank == 2 ? "1" : "rank 1";
    ranks_refused(me, status, stops ? TUTTI_TIMEOUT : TUTTI_PEER_LOST, "init_rank", late);
    ranks_expect(me, ranks_now_ms() - began_ms < (stops ? 20000 : 2900), "it took %lld ms",
        (long long)(ranks_now_ms() - began_ms));
    if (stops && me->rank == 0)
        kill(atomic_load(&me->world->slots[1].pid), SIGKILL);
}

/* A host is in one pair at a time. What one of them did with two at once would seem slow. */
static void measure_by_turns(struct ranks_me *me)
{
    static const char *const turns_of[][5] = { [2] = { " 1 1", " 0 0" },
        [3] = { " 1 2", " 0 2", " 1 0" },
        [4] = { " 1 3", " 0 2", " 3 1", " 2 0" },
        [5] = { " 1 4", " 0 2", " 3 1", " 2 4", " 3 0" } };
    char hosts[] = "abcde";
    hosts[me->n] = '\0';
    measured_with[0] = '\0';
    tutti_comm *comm = join(me, hosts, "probe=auto");
    if (comm == NULL)
        return;
    const char *right = turns_of[me->n][me->rank];
    ranks_expect(me, strcmp(measured_with, right) == 0, "of %d hosts %d measures with%s, not%s", me->n,
        me->rank, measured_with, right);
    ranks_part(me, comm);
}

Test(api_probe, a_host_is_in_one_pair_at_a_time)
{
    for (int n = 2; n <= 5; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = measure_by_turns });
}

Test(api_probe, a_rank_dies_while_it_measures)
{
    static const int how = SIGKILL;
    ranks_run(&(struct ranks_plan){ .n = 3, .run = fail_measuring, .context = &how, .may_die = 1 << 1 });
}

Test(api_probe, a_rank_is_stopped_while_it_measures)
{
    static const int how = SIGSTOP;
    ranks_run(&(struct ranks_plan){ .n = 3, .run = fail_measuring, .context = &how, .may_die = 1 << 1 });
}
