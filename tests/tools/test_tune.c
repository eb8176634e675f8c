/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tune.c: which rules come of what was measured. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "perf/collperf/tune.h"

TestSuite(tune);

/* What is written of the rules, without comments and with one space between words. */
static void expect_rules(const struct perf_tune *tune, const char *want)
{
    char *text = NULL, got[1024] = "", line[5][32];
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);
    cr_assert(perf_tune_write(tune, file, 4));
    fclose(file);
    for (char *rest = text, *at; (at = strsep(&rest, "\n")) != NULL;)
        if (sscanf(at, "%31[^# ]%31s%31s%31s", line[0], line[1], line[2], line[3]) == 4)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s %s %s %s\n", line[0], line[1], line[2],
                line[3]);
    cr_expect_str_eq(got, want);
    free(text);
}

static void add(struct perf_tune *tune, const char *collective, const char *algorithm, int bytes, double us)
{
    char passing[32]; /* the caller's text may change afterwards */
    snprintf(passing, sizeof passing, "%s", algorithm);
    cr_assert(perf_tune_add(tune, collective, passing, (uint64_t)bytes, us));
}

Test(tune, the_fastest_at_each_size_is_a_rule_until_the_next_one)
{
    struct perf_tune tune = { .prices.of = { { -1, 0, 0 }, { -1, 0, 0 }, { -1, 0, 0 } } };
    add(&tune, "broadcast", "tree", 8, 3);
    add(&tune, "broadcast", "tree", 4096, 9);
    add(&tune, "broadcast", "chain", 8, 4);
    add(&tune, "broadcast", "chain", 4096, 8);
    add(&tune, "reduce", "chain", 8, 1);
    expect_rules(&tune, "broadcast 4 0-3K tree\nbroadcast 4 4K- chain\nreduce 4 0- chain\n");
    free(tune.points);
}

/* As of several types, whose sizes are rounded in different ways. */
Test(tune, rules_follow_each_other_by_size_in_whatever_order_sizes_come)
{
    struct perf_tune tune = { .prices.of = { { -1, 0, 0 }, { -1, 0, 0 }, { -1, 0, 0 } } };
    add(&tune, "reduce", "tree", 64, 1);
    add(&tune, "all_gather", "ring", 24, 5);
    add(&tune, "all_gather", "direct", 96, 5);
    add(&tune, "all_gather", "ring", 12, 5);
    add(&tune, "all_gather", "tree", 48, 5);
    add(&tune, "all_gather", "pairs", 48, 4);
    expect_rules(&tune, "reduce 4 0- tree\nall_gather 4 0-32 ring\nall_gather 4 48-64 pairs\n"
                        "all_gather 4 96- direct\n");
    free(tune.points);
}

Test(tune, any_number_of_sizes_finds_room)
{
    struct perf_tune tune = { .prices.of = { { -1, 0, 0 }, { -1, 0, 0 }, { -1, 0, 0 } } };
    for (int i = 2000; i > 0; i--)
        add(&tune, "reduce", "tree", i, 1);
    expect_rules(&tune, "reduce 4 0- tree\n");
    free(tune.points);
}

/* The library counts 32 to 47 bytes as one size, and refuses two rules that meet there. */
Test(tune, two_sizes_that_count_as_one_have_one_rule)
{
    struct perf_tune tune = { .prices.of = { { -1, 0, 0 }, { -1, 0, 0 }, { -1, 0, 0 } } };
    add(&tune, "reduce", "ring", 11, 1);
    add(&tune, "reduce", "ring", 33, 3);
    add(&tune, "reduce", "tree", 44, 4);
    add(&tune, "reduce", "tree", 33, 3.5);
    add(&tune, "reduce", "ring", 47, 9); /* the least size of the step decides */
    add(&tune, "reduce", "pairs", 3, 1);
    add(&tune, "reduce", "direct", 2, 1);
    add(&tune, "reduce", "tree", 6, 1);
    expect_rules(&tune, "reduce 4 0-2 direct\nreduce 4 3-4 pairs\nreduce 4 6-6 tree\nreduce 4 8- ring\n");
    free(tune.points);
}

/* TUTTI_RULES takes 64. What decides between nearly equal algorithms is noise; what is far apart stays. */
Test(tune, more_rules_than_a_file_takes_are_joined_where_it_costs_least)
{
    enum { COLLECTIVES = 7 };
    static const char *const collectives[COLLECTIVES] = { "all_reduce", "reduce", "broadcast", "gather",
        "scatter", "barrier", "all_gather" };
    struct perf_tune tune = { .prices.of = { { -1, 0, 0 }, { -1, 0, 0 }, { -1, 0, 0 } } };
    char want[1024] = "", *end = want;
    for (int c = 0; c < COLLECTIVES; c++) {
        for (int step = 0; step < 20; step++) {
            add(&tune, collectives[c], "ring", 8 << step, step % 2 == 0 ? 1.00 : 1.02);
            add(&tune, collectives[c], "tree", 8 << step, step % 2 == 0 ? 1.01 : 1.00);
            add(&tune, collectives[c], "direct", 8 << step, step < 10 ? 9.00 : 0.50);
        }
        end += sprintf(end, "%s 4 0-12 ring\n%s 4 16-6K tree\n%s 4 8K- direct\n", collectives[c],
            collectives[c], collectives[c]);
    }
    expect_rules(&tune, want);
    free(tune.points);
}
