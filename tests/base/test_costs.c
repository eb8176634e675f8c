/* SPDX-License-Identifier: BSD-3-Clause */
/* test_costs.c: what folds, messages and copies cost, in figures worked out by hand.
 *
 * The simulator and the predictions that test_cost_model.c compares with it ask the same functions of
 * lib/base/costs.h: a formula that is wrong there is wrong in both. */
#include <criterion/criterion.h>

#include "base/costs.h"
#include "select/led.h"

static const struct tt_costs machine = { .latency = { 1000, 5000 },
    .byte = { 2, 3 },
    .fold = 7,
    .copy = 11,
    .message = { 13, 13, 13 },
    .context_switch = 100000,
    .eager = 1024,
    .cores = 4 };

/* Each operand is read, and the result is written. */
Test(costs, a_fold_moves_its_operands_and_its_result)
{
    cr_expect_eq(tt_costs_fold(&machine, 1, 100), 1400);
    cr_expect_eq(tt_costs_fold(&machine, 2, 100), 2100);
    cr_expect_eq(tt_costs_fold(&machine, 8, 100), 6300);
    cr_expect_eq(tt_costs_fold(&machine, 2, 0), 0);
    cr_expect_eq(tt_costs_fold(&machine, 2, UINT64_C(1) << 40), UINT64_C(23089744183296));
}

/* With a core for each it takes as long as a line does; with more ranks than cores, a context switch more. */
Test(costs, a_message_waits_for_a_switch_where_ranks_share_cores)
{
    cr_expect_eq(tt_costs_latency(&machine, TT_NEAR, 2), 1000);
    cr_expect_eq(tt_costs_latency(&machine, TT_FAR, 2), 5000);
    cr_expect_eq(tt_costs_latency(&machine, TT_NEAR, 4), 1000);
    cr_expect_eq(tt_costs_latency(&machine, TT_NEAR, 5), 101000);
    cr_expect_eq(tt_costs_latency(&machine, TT_FAR, 64), 105000);
}

/* Two domains are two hosts where there are several. */
Test(costs, hosts_are_further_away_than_domains)
{
    struct tt_costs spread = machine;
    cr_expect_eq(tt_costs_level(&spread, true), TT_NEAR);
    cr_expect_eq(tt_costs_level(&spread, false), TT_FAR);
    tt_costs_spread(&spread, 3);
    cr_expect_eq(tt_costs_level(&spread, true), TT_NEAR);
    cr_expect_eq(tt_costs_level(&spread, false), TT_AWAY);
    cr_expect_eq(spread.cores, 12);
    tt_costs_spread(&spread, 1);
    cr_expect_eq(tt_costs_level(&spread, false), TT_FAR);
    cr_expect_eq(spread.cores, 4);
}

/* Who copies up to 1 KiB where ranks have a core each copies up to 12 KiB where they share them. */
Test(costs, who_shares_a_core_copies_more)
{
    struct tt_costs lender = machine;
    lender.eager = 0;
    cr_expect_eq(tt_costs_eager(&machine, 4), 1024);
    cr_expect_eq(tt_costs_eager(&machine, 5), 12288);
    cr_expect_eq(tt_costs_eager(&machine, 64), 12288);
    cr_expect_eq(tt_costs_eager(&lender, 5), 0);
}

/* What takes longer than 64 bits of femtoseconds hold takes the most that they hold, and not next to
 * nothing. */
Test(costs, what_is_too_long_is_the_greatest_number)
{
    const uint64_t half = UINT64_C(1) << 63, root = UINT64_C(1) << 32, most = UINT64_MAX;
    struct tt_costs far = machine;
    far.byte[TT_AWAY] = far.link = 16;
    cr_expect_eq(tt_costs_sum(half, half - 1), most);
    cr_expect_eq(tt_costs_sum(half, half), most);
    cr_expect_eq(tt_costs_product(root, root - 1), most - root + 1);
    cr_expect_eq(tt_costs_product(root, root), most);
    cr_expect_eq(tt_costs_fold(&far, 8, half), most);
    cr_expect_eq(tt_costs_gap(&far, half), most);
    cr_expect_eq(tt_costs_on_link(&far, half, 2), most, "of the bytes");
    cr_expect_eq(tt_costs_on_link(&far, half / 16, 4), most, "of the ranks");
    uint64_t until = half;
    cr_expect_eq(tt_costs_take(&until, 0, half), half);
    cr_expect_eq(until, most);
}

/* Two ranks: 30 us and 2 x 0.0525 ns a byte by the host's memory; 35 and 2 x 0.0668 by cells; 290 and 2 x
 * 0.00159 by pads, each time that they are filled; 15 and 2 x 0.000515 mapped. */
Test(costs, a_leader_pays_where_pads_are_cheaper_than_the_host)
{
    struct tt_settings settings = { .costs = tt_costs_default() };
    const uint64_t mib = 1 << 20, pad = 64 * mib;
    cr_expect_not(tt_led_pays(&settings, 2, 8, pad));
    cr_expect_not(tt_led_pays(&settings, 2, 2 * mib, pad)); /* 250, and 297 */
    cr_expect(tt_led_pays(&settings, 2, 3 * mib, pad)); /* 360, and 300 */
    cr_expect(tt_led_pays(&settings, 2, 65 * mib, pad)); /* 7,187, and 797 */
    cr_expect_not(tt_led_pays(&settings, 2, 3 * mib, mib)); /* 880 */
    cr_expect_not(tt_led_pays(&settings, 2, 64 * mib, 0));
    cr_expect_not(tt_led_pays(&settings, 8, 2 * mib, pad)); /* 911, and 1,187 */
    cr_expect(tt_led_pays(&settings, 8, 3 * mib, pad)); /* 1,351, and 1,200 */
    cr_expect_not(tt_led_prefers_pad(&settings.costs, 2, mib));
    cr_expect(tt_led_prefers_pad(&settings.costs, 2, 4 * mib)); /* 595, and 303 */
    settings.device_mapped = true;
    cr_expect(tt_led_pays(&settings, 2, 8, 0));
    settings.executor = TT_EXECUTOR_HOST;
    cr_expect_not(tt_led_pays(&settings, 2, 64 * mib, pad));
    settings = (struct tt_settings){ .costs = tt_costs_default(), .executor = TT_EXECUTOR_LED };
    cr_expect(tt_led_pays(&settings, 2, 8, 0));
}
