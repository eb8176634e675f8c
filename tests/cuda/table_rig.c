/* SPDX-License-Identifier: BSD-3-Clause */
/* table_rig.c: what tests of the device table over CUDA begin with, and how they tell what it called. */
#include "table_rig.h"

#include <criterion/criterion.h>

const struct tt_dev *dev;

void table_begin(void)
{
    dev = tutti_device_table(TT_DEV_VERSION);
}

void called(enum tt_dev_error error, const char *calls)
{
    cr_expect_eq(error, TT_DEV_OK, "%s", dev->why());
    cr_expect_str_eq(fake_calls(), calls);
}

void fail(const char *function, int code)
{
    fake.failing = function;
    fake.code = code;
    fake_calls();
}
