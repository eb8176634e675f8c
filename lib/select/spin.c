/* SPDX-License-Identifier: BSD-3-Clause */
/* spin.c: the price of kernels that meet, against that of the host's memory. */
#include "select/spin.h"

#include "select/led.h"

uint64_t tt_spin_time(const struct tt_costs *c, int n, uint64_t bytes)
{
    return tt_costs_sum(tt_costs_product(c->spin.call, (uint64_t)n), tt_costs_product(c->spin.byte, bytes));
}

bool tt_spin_pays(const struct tt_settings *settings, int n, uint64_t bytes)
{
    switch ((enum tt_executor)settings->executor) {
    case TT_EXECUTOR_HOST:
        return false;
    case TT_EXECUTOR_SPIN:
        return true;
    case TT_EXECUTOR_AUTO:
    case TT_EXECUTOR_LED:
        break;
    }
    return tt_spin_time(&settings->costs, n, bytes) < tt_staged_time(&settings->costs, n, bytes);
}

void tt_spin_put(const struct tt_settings *settings, int n, uint64_t bytes, struct tt_text *text)
{
    tt_put(
        text, "  by the host's memory: %.1f us\n", (double)tt_staged_time(&settings->costs, n, bytes) * 1e-9);
    tt_put(text, "  by kernels of several devices: %.1f us\n",
        (double)tt_spin_time(&settings->costs, n, bytes) * 1e-9);
}
