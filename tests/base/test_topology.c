/* SPDX-License-Identifier: BSD-3-Clause */
/* test_topology.c: domains as text and lists, what follows from them, and what hwloc says of machines that
 * are not here. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/topology.h"
#include "base/cache_domain.h"

static struct tt_topology of_text(const char *text)
{
    struct tt_topology t;
    int n = tt_topology_ranks(text);
    cr_assert_gt(n, 0, "%s", text);
    int32_t *domain_of = calloc((size_t)n, sizeof *domain_of);
    cr_assert(domain_of != NULL);
    tt_topology_parse(text, domain_of);
    cr_assert_eq(tt_topology_create(&t, n, domain_of), TUTTI_OK);
    free(domain_of);
    return t;
}

static void expect_text(const struct tt_topology *t, const char *text)
{
    char printed[64];
    struct tt_text out = { printed, sizeof printed, 0 };
    tt_topology_put(t, &out);
    cr_expect_str_eq(printed, text);
    cr_expect_eq(out.length, strlen(text));
}

Test(topology, texts)
{
    static const struct {
        const char *text, *printed;
        int domains;
        bool divides, even, ordered, nests;
    } legal[] = {
        { "0", "0", 1, false, true, true, true },
        { "0-3", "0-3", 1, false, true, true, true },
        { "0-3/4-7", "0-3/4-7", 2, true, true, true, true },
        { "2x4", "0-3/4-7", 2, true, true, true, true },
        { "3x1", "0/1/2", 3, false, true, true, true },
        { "0-2/3-5", "0-2/3-5", 2, true, true, true, false },
        { "0,2,4/1,3,5", "0,2,4/1,3,5", 2, true, true, false, false },
        { "4-7/0-3", "0-3/4-7", 2, true, true, true, true },
        { "0-3/4-6", "0-3/4-6", 2, true, false, true, true },
        { "0-2/3-6", "0-2/3-6", 2, true, false, true, false },
        { "0-3/4/5,6,7", "0-3/4/5-7", 3, true, false, true, false },
        { "0-3/4", "0-3/4", 2, false, false, true, true },
        { "0,1,3/2,4-5", "0-1,3/2,4-5", 2, true, true, false, false },
        { "0-1/2-3/4", "0-1/2-3/4", 3, true, false, true, true },
    };
    for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++) {
        struct tt_topology t = of_text(legal[i].text);
        expect_text(&t, legal[i].printed);
        cr_expect_eq(t.domains, legal[i].domains, "%s", legal[i].text);
        cr_expect_eq(t.divides, legal[i].divides, "%s", legal[i].text);
        cr_expect_eq(t.even, legal[i].even, "%s", legal[i].text);
        cr_expect_eq(t.ordered, legal[i].ordered, "%s", legal[i].text);
        cr_expect_eq(t.nests, legal[i].nests, "%s", legal[i].text);
        for (int r = 0; r < t.n; r++) {
            int d = t.domain[r], seen = 0;
            for (int k = t.first[d]; k < t.first[d + 1]; k++)
                seen += t.ranks[k] == r;
            cr_expect_eq(seen, 1, "%s: rank %d", legal[i].text, r);
        }
        tt_topology_free(&t);
    }
}

Test(topology, illegal_texts)
{
    static const char *const illegal[] = { "", "/", "0/", "/0", "0,", "0-", "-1", "1", "0-3/5-7", "0-3/3-7",
        "0,0", "3-0", "0-3//4-7", "0-3/4-7 ", " 0", "x", "2x", "x4", "0x4", "2x0", "2x4x2", "2x-4", "a/b",
        "0-99999999999", "65536x1", "256x257", "99999999999x1" };
    for (size_t i = 0; i < sizeof illegal / sizeof illegal[0]; i++)
        cr_expect_eq(tt_topology_ranks(illegal[i]), -1, "\"%s\" is taken", illegal[i]);
    cr_expect_eq(tt_topology_ranks("256x256"), 65536);
}

/* Whatever the numbers are; one who does not know makes all of them one. */
Test(topology, lists)
{
    static const int32_t far[] = { 900, 7, 900, 7, 7 }, unknown[] = { 0, 1, -1, 1, 0 };
    struct tt_topology t;
    cr_assert_eq(tt_topology_create(&t, 5, far), TUTTI_OK);
    expect_text(&t, "0,2/1,3-4");
    tt_topology_free(&t);
    cr_assert_eq(tt_topology_create(&t, 5, unknown), TUTTI_OK);
    expect_text(&t, "0-4");
    cr_expect_not(t.divides);
    tt_topology_free(&t);
}

#ifdef HAVE_HWLOC
/* Four caches of four cores each. */
static int domain_of_cores(int first, int last)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (int c = first; c <= last; c++)
        CPU_SET(c, &cores);
    return tt_cache_domain_of(&cores);
}

Test(topology, caches_of_a_machine_that_is_not_here)
{
    setenv("HWLOC_SYNTHETIC", "package:2 l3:2 core:4 pu:1", 1);
    cr_expect_eq(domain_of_cores(0, 0), 0);
    cr_expect_eq(domain_of_cores(0, 3), 0);
    cr_expect_eq(domain_of_cores(5, 6), 1);
    cr_expect_eq(domain_of_cores(8, 8), 2);
    cr_expect_eq(domain_of_cores(15, 15), 3);
    cr_expect_eq(domain_of_cores(3, 4), -1, "two caches serve these cores");
    cr_expect_eq(domain_of_cores(0, 15), -1);
    cr_expect_eq(domain_of_cores(16, 17), -1, "there are no such cores");
    setenv("HWLOC_SYNTHETIC", "package:2 core:4 pu:1", 1);
    cr_expect_eq(domain_of_cores(0, 0), -1, "a machine without such caches");
    cr_expect_eq(tt_cache_bytes(), 0);
    setenv("HWLOC_SYNTHETIC", "package:2 l3:1(size=33554432) l2:4(size=786432) core:1 pu:1", 1);
    cr_expect_eq(tt_cache_bytes(), 768 << 10);
}
#endif
