/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_exact_leaves.c: the general form of what TUTTI_COMM_EXACT promises.
 *
 * Twelve leaves lie in a row on n ranks, which combine their own by tutti_reduce_local and all by a call. One
 * thread has all the ranks, in a process that ranks_run forks. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/rig/ranks.h"

TestSuite(api_exact_leaves, .timeout = 300);

enum { LEAVES = 12, COUNT = 1200 /* for a block of each of 12 ranks */ };

static float leaves[LEAVES][COUNT], parts[LEAVES][COUNT], sums[LEAVES][COUNT], first[COUNT];

static void fill(struct ranks_me *me)
{
    for (int l = 0; l < LEAVES; l++)
        for (int i = 0; i < COUNT; i++) {
            float magnitude = ldexpf(1, (int)ranks_below(&me->random, 24));
            leaves[l][i] = magnitude * ((float)ranks_below(&me->random, 1 << 20) / (1 << 19) - 1);
        }
}

enum call { ALL_REDUCE, REDUCE, SCATTERED, CALLS };

/* The sum of all leaves on n ranks is in sums[0] afterwards. */
static void sum_on(struct ranks_me *me, int n, enum call call, const char *algorithm)
{
    tutti_comm *comms[LEAVES];
    const void *own[LEAVES];
    char options[64] = "";
    static const char *const names[] = { "all_reduce", "reduce", "reduce_scatter" };
    if (algorithm != NULL)
        snprintf(options, sizeof options, "algo=%s:%s", names[call], algorithm);
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT, .options = options };
    ranks_ok(me, tutti_comm_init_all(n, NULL, &config, comms), "init_all");
    tutti_group_start();
    for (int r = 0; r < n; r++) {
        for (int l = 0; l < LEAVES / n; l++)
            own[l] = leaves[r * (LEAVES / n) + l];
        ranks_ok(me, tutti_reduce_local(own, LEAVES / n, parts[r], COUNT, TUTTI_FLOAT32, TUTTI_SUM),
            "reduce_local");
        tutti_stream none = tutti_no_stream();
        if (call == ALL_REDUCE)
            tutti_all_reduce(parts[r], sums[r], COUNT, TUTTI_FLOAT32, TUTTI_SUM, comms[r], none);
        else if (call == REDUCE)
            tutti_reduce(parts[r], sums[r], COUNT, TUTTI_FLOAT32, TUTTI_SUM, 0, comms[r], none);
        else
            tutti_reduce_scatter(parts[r], &sums[0][r * (COUNT / n)], (size_t)(COUNT / n), TUTTI_FLOAT32,
                TUTTI_SUM, comms[r], none);
    }
    ranks_ok(me, tutti_group_end(), "the sum");
    for (int r = 0; r < n; r++)
        tutti_comm_destroy(comms[r]);
}

static void twelve(struct ranks_me *me)
{
    static const int all[] = { 1, 3, 6, 12 };
    static const char *const algorithms[CALLS][4] = { { NULL, "tree", "direct", "star" },
        { NULL, "direct", "split" }, { NULL, "direct" } };
    fill(me);
    sum_on(me, 1, ALL_REDUCE, NULL);
    memcpy(first, sums[0], sizeof first);
    for (int call = ALL_REDUCE; call < CALLS; call++)
        for (int i = 0; i < 4; i++)
            for (int a = 0; a < 4 && (a == 0 || algorithms[call][a] != NULL); a++) {
                const char *algorithm = all[i] > 1 ? algorithms[call][a] : NULL;
                ranks_at(me, "call %d on %d ranks, %s", call, all[i], algorithm ? algorithm : "chosen");
                sum_on(me, all[i], (enum call)call, algorithm);
                ranks_expect(me, memcmp(sums[0], first, sizeof first) == 0, "call %d, %d ranks: other bits",
                    call, all[i]);
            }
    for (int n = 2; n <= 4; n += 2) { /* so these values do tell one tree from another */
        sum_on(me, n, ALL_REDUCE, NULL);
        ranks_expect(me, memcmp(sums[0], first, sizeof first) != 0, "%d ranks have another tree", n);
    }
}

Test(api_exact_leaves, twelve_have_the_same_sum_on_1_3_6_and_12_ranks)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = twelve, .seed = 12 });
}

/* Of a value that one rank has, and +0s: itself, but for -0. */
static void zeros(struct ranks_me *me)
{
    memset(leaves, 0, sizeof leaves);
    leaves[5][0] = -0.0F;
    leaves[5][1] = -1.5F;
    leaves[5][2] = 0x1p-149F;
    sum_on(me, 12, ALL_REDUCE, NULL);
    ranks_expect(me, sums[0][0] == 0 && !signbit(sums[0][0]), "-0 becomes +0");
    ranks_expect(me, sums[0][1] == -1.5F && sums[0][2] == 0x1p-149F, "other values stay");
    for (int l = 0; l < LEAVES; l++)
        leaves[l][0] = -0.0F;
    sum_on(me, 12, ALL_REDUCE, NULL);
    ranks_expect(me, signbit(sums[0][0]), "a sum of -0s is -0");
}

Test(api_exact_leaves, a_zero_in_place_of_no_leaf_changes_minus_zero_only)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = zeros });
}
