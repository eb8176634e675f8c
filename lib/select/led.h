/* SPDX-License-Identifier: BSD-3-Clause */
/* led.h: whether a leader's kernel does a collective of ranks that several processes have on one device.
 *
 * It is decided by what all ranks know. Where the bytes of a call lie is each rank's own affair, and no rank
 * knows it of another one: so what is priced is the worst place of all that any may choose, which is pinned
 * cells, or a pad where ranks have pads. A program that hands over all memory that its calls use says so by
 * the setting device_mapped. */
#ifndef TT_SELECT_LED_H
#define TT_SELECT_LED_H
#include "base/config.h"

/* Return what a vector of so many bytes takes of n ranks, in femtoseconds: by the host's memory; by a kernel
 * that reaches the buffers of all; and by a leader's kernel, at the place that is priced. */
uint64_t tt_staged_time(const struct tt_costs *costs, int n, uint64_t bytes);
uint64_t tt_mapped_time(const struct tt_costs *costs, int n, uint64_t bytes);
uint64_t tt_led_time(const struct tt_settings *settings, int n, uint64_t bytes, uint64_t pad_bytes);
/* `bytes` of the vector, `pad_bytes` of a pad for operands, and as much for results; 0: there are none. */
bool tt_led_pays(const struct tt_settings *settings, int n, uint64_t bytes, uint64_t pad_bytes);
/* Writes what the ways cost, as tt_led_pays has it. */
void tt_led_put(
    const struct tt_settings *settings, int n, uint64_t bytes, uint64_t pad_bytes, struct tt_text *text);
/* Whether so many bytes should lie in a rank's pad, rather than in its cells. */
bool tt_led_prefers_pad(const struct tt_costs *costs, int n, uint64_t bytes);

#endif
