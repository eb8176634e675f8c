/* SPDX-License-Identifier: BSD-3-Clause */
/* led_rig.c: making the rig. */
#include "led_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/handle.h"
#include "device/device_led.h"

void led_run_all(const struct led_plan *plans, size_t count)
{
    plugin_must_have_kernels();
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
    if (!local_prepare(me, d) || (d->comm = led_join(me, ";executor=led", timeout_ms)) == NULL)
        return false;
    /* A kernel has eight operands. */
    const char *by = tt_device_executor(tt_comm_find(d->comm)), *wanted = me->n <= 8 ? "W" : "H";
    return ranks_expect(me, strcmp(by, wanted) == 0, "calls go by %s", by);
}

void led_get_up(struct local_desk *d)
{
    ranks_ok(d->me, tutti_comm_destroy(d->comm), "tutti_comm_destroy");
    for (int a = 0; a < AREAS; a++)
        local_fine(d, d->dev->memory.free(d->areas[a]));
    local_fine(d, d->dev->memory.free_pinned(d->host));
    local_fine(d, d->dev->stream.destroy(d->stream));
}

struct tt_device *led_device(const struct local_desk *d)
{
    return tt_comm_find(d->comm)->device;
}

/* --- Nothing is stored */

enum { POISON = 0xa5 };

uint8_t *led_cell(const struct local_desk *d)
{
    return led_device(d)->cells + led_device(d)->led->cell_bytes;
}

void led_poison(const struct local_desk *d)
{
    memset(led_cell(d), POISON, LED_POISONED);
    memset(d->stub->look(d->areas[GOT]), POISON, LED_POISONED);
}

void led_is_poisoned(const struct local_desk *d)
{
    const uint8_t *cell = led_cell(d);
    local_is_poisoned(d);
    for (int i = 0; i < LED_POISONED; i++)
        if (!ranks_expect(d->me, cell[i] == POISON, "byte %d of the cell is %u", i, cell[i]))
            return;
}

static uint64_t turn_of(const struct local_desk *d)
{
    const struct tt_led *led = led_device(d)->led;
    return atomic_load(&led->rows[led->leader]->turn);
}

void led_is_cancelled(const struct local_desk *d)
{
    uint64_t turn = turn_of(d);
    ranks_expect(d->me, turn == TT_LED_CANCELLED, "the turn is %llu", (unsigned long long)turn);
}

/* --- Kernels that are held up */

static struct {
    const struct tt_dev *real;
    struct tt_dev dev;
    _Atomic bool open;
} held;

static void await_open(void *argument)
{
    (void)argument;
    while (!atomic_load(&held.open))
        ranks_sleep_us(100);
}

static enum tt_dev_error launch_held(const struct tt_dev_launch *launch, void *stream)
{
    enum tt_dev_error error = held.real->host_call(stream, await_open, NULL);
    return error == TT_DEV_OK ? held.real->launch(launch, stream) : error;
}

void led_hold(const struct local_desk *d)
{
    held.real = d->dev;
    held.dev = *d->dev;
    held.dev.launch = launch_held;
    atomic_store(&held.open, false);
    led_device(d)->led->dev = &held.dev;
}

void led_let_go(const struct local_desk *d)
{
    (void)d;
    atomic_store(&held.open, true);
}

void led_await_kernel(const struct local_desk *d)
{
    int64_t until_ms = ranks_now_ms() + LED_LONG_MS / 2;
    while (turn_of(d) % 2 == 0 && ranks_now_ms() < until_ms)
        ranks_sleep_us(1000);
    ranks_expect(d->me, turn_of(d) % 2 == 1, "no kernel is let go");
}
