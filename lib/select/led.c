/* SPDX-License-Identifier: BSD-3-Clause */
/* led.c: the prices of the ways in which ranks of several processes share a device. */
#include "select/led.h"

/* What the vector costs, of which each rank has all. */
static uint64_t of_bytes(uint64_t byte, int n, uint64_t bytes)
{
    return tt_costs_product(tt_costs_product(byte, (uint64_t)n), bytes);
}

static uint64_t of_cells(const struct tt_costs *c, int n, uint64_t bytes)
{
    return tt_costs_sum(c->cells.call, of_bytes(c->cells.byte, n, bytes));
}

/* A pad is filled and emptied by copies on the device, one process after another, as often as it must be. */
static uint64_t of_pads(const struct tt_costs *c, int n, uint64_t bytes, uint64_t pad_bytes)
{
    uint64_t times = pad_bytes > 0 ? (bytes + pad_bytes - 1) / pad_bytes : UINT64_MAX;
    uint64_t calls = tt_costs_product(tt_costs_product(c->pads.call, (uint64_t)n), times);
    return tt_costs_sum(calls, of_bytes(c->pads.byte, n, bytes));
}

bool tt_led_prefers_pad(const struct tt_costs *costs, int n, uint64_t bytes)
{
    return of_pads(costs, n, bytes, bytes) < of_cells(costs, n, bytes);
}

uint64_t tt_staged_time(const struct tt_costs *c, int n, uint64_t bytes)
{
    return tt_costs_sum(c->staged.call, of_bytes(c->staged.byte, n, bytes));
}

uint64_t tt_mapped_time(const struct tt_costs *c, int n, uint64_t bytes)
{
    return tt_costs_sum(c->mapped.call, of_bytes(c->mapped.byte, n, bytes));
}

uint64_t tt_led_time(const struct tt_settings *settings, int n, uint64_t bytes, uint64_t pad_bytes)
{
    const struct tt_costs *c = &settings->costs;
    uint64_t pads = of_pads(c, n, bytes, pad_bytes), cells = of_cells(c, n, bytes);
    return settings->device_mapped ? tt_mapped_time(c, n, bytes) : pads < cells ? pads : cells;
}

bool tt_led_pays(const struct tt_settings *settings, int n, uint64_t bytes, uint64_t pad_bytes)
{
    switch ((enum tt_executor)settings->executor) {
    case TT_EXECUTOR_HOST:
        return false;
    case TT_EXECUTOR_LED:
        return true;
    case TT_EXECUTOR_AUTO:
    case TT_EXECUTOR_SPIN:
        break;
    }
    return tt_led_time(settings, n, bytes, pad_bytes) < tt_staged_time(&settings->costs, n, bytes);
}

static void put_time(struct tt_text *text, const char *way, uint64_t femtoseconds)
{
    if (femtoseconds != UINT64_MAX)
        tt_put(text, "  %s: %.1f us\n", way, (double)femtoseconds * 1e-9);
}

void tt_led_put(
    const struct tt_settings *settings, int n, uint64_t bytes, uint64_t pad_bytes, struct tt_text *text)
{
    const struct tt_costs *c = &settings->costs;
    put_time(text, "by the host's memory", tt_staged_time(c, n, bytes));
    put_time(text, "by a leader's kernel and pinned cells", of_cells(c, n, bytes));
    put_time(text, "by a leader's kernel and pads", of_pads(c, n, bytes, pad_bytes));
    put_time(text, "by a leader's kernel and memory that it has mapped", tt_mapped_time(c, n, bytes));
}
