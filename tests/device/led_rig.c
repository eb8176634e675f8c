/* SPDX-License-Identifier: BSD-3-Clause */
/* led_rig.c: making the rig. */
#include "led_rig.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/handle.h"
#include "device/device_led.h"

void led_run_all(const struct led_plan *plans, size_t count)
{
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    for (const struct led_plan *p = plans; p < plans + count; p++) {
        setenv("STUB_GPU", p->stub, 1);
        ranks_run(&(struct ranks_plan){ .n = p->n,
            .kind = RANKS_PROCESSES,
            .per_process = p->per_process,
            .run = p->run,
            .context = p->context,
            .seed = 11,
            .limit_s = 100,
            .may_die = p->may_die });
    }
}

tutti_comm *led_join(struct ranks_me *me, const char *more, int64_t timeout_ms)
{
    char options[160];
    snprintf(options, sizeof options, "slice=8192;device=0%s", more);
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = timeout_ms };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm != NULL)
        led_shorten(comm);
    return comm;
}

void led_shorten(tutti_comm *comm)
{
    struct tt_led *led = tt_comm_find(comm)->device->led;
    if (led == NULL)
        return;
    led->cell_bytes = LED_SLICE;
    led->pad_bytes = led->pad_bytes > 0 ? 2 * LED_SLICE : 0;
}

void led_shorten_messages(tutti_comm *comm)
{
    const struct tt_led *led = tt_comm_find(comm)->device->led;
    for (int k = 0; k < 2 * led->n; k++) {
        struct tt_led *pair = tt_led_pair(led, k / 2, k % 2 != 0);
        if (pair == NULL)
            continue;
        pair->cell_bytes = LED_PART;
        pair->pad_bytes = pair->pad_bytes > 0 ? 2 * LED_PART : 0;
    }
}

bool led_sit_down(struct ranks_me *me, struct local_desk *d, int64_t timeout_ms)
{
    return local_prepare(me, d) && (d->comm = led_join(me, ";executor=led", timeout_ms)) != NULL;
}

void led_get_up(struct local_desk *d)
{
    ranks_ok(d->me, tutti_comm_destroy(d->comm), "tutti_comm_destroy");
    for (int a = 0; a < AREAS; a++)
        local_fine(d, d->dev->memory.free(d->areas[a]));
    local_fine(d, d->dev->memory.free_pinned(d->host));
    local_fine(d, d->dev->stream.destroy(d->stream));
}
