/* SPDX-License-Identifier: BSD-3-Clause */
/* ready.c: what each unit of a schedule waits for: its dependencies, and the slots of its messages. */
#include "base/ready.h"

void tt_ready_order(struct tt_ready_order *order, const struct tt_schedule *schedule, uint32_t *recent)
{
    order->schedule = schedule;
    order->units = 0;
    order->slots_wait = false;
    for (uint32_t i = 0; i < schedule->nsteps; i++)
        order->opening[i] = schedule->steps[i].dep_count;
    for (uint32_t i = 0; i < schedule->nsteps; i++) {
        const struct tt_step *step = &schedule->steps[i];
        uint32_t unit = i - step->fold_index, sends = step->verb == TT_VERB_SEND;
        order->units += step->fold_index == 0;
        order->next_in_slot[i] = TT_NO_STEP;
        if (step->peer == TT_NONE)
            continue;
        uint32_t *last =
            &recent[(2 * (uint32_t)step->peer + sends) * TT_SLOTS_AHEAD + step->ordinal % TT_SLOTS_AHEAD];
        if (step->ordinal >= TT_SLOTS_AHEAD && *last < unit) {
            order->next_in_slot[*last] = unit;
            order->slots_wait = true;
            order->opening[unit]++;
        }
        *last = i;
    }
}
