/* SPDX-License-Identifier: BSD-3-Clause */
/* test_layout.c: how many slices the chunks of a call are cut into. */
#include <criterion/criterion.h>

#include "base/layout.h"

static void expect_slicing(uint64_t chunk, uint64_t slot_bytes, uint32_t span, struct tt_slicing expected)
{
    struct tt_slicing got = tt_layout_slicing(chunk, slot_bytes, 4, span);
    cr_expect_eq(got.slices, expected.slices, "%u slices", got.slices);
    cr_expect_eq(got.most, expected.most);
    cr_expect_eq(got.longest, expected.longest);
}

Test(layout, slices_fit_a_slot)
{
    expect_slicing(16, 64, 1, (struct tt_slicing){ 1, 16, 16 });
    expect_slicing(17, 64, 1, (struct tt_slicing){ 2, 16, 9 }); /* as even as can be */
    expect_slicing(17, 64, 3, (struct tt_slicing){ 4, 5, 5 }); /* of messages of three chunks each */
    expect_slicing(0, 64, 1, (struct tt_slicing){ 1, 16, 0 });
    expect_slicing(3, 2, 1, (struct tt_slicing){ 3, 1, 1 }); /* an element is never cut */
}
