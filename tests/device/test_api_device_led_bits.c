/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_led_bits.c: what a leader's kernels do for ranks of several processes has the bits of the
 * host's executor (bits_rig.h). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bits_rig.h"
#include "led_rig.h"

TestSuite(api_device_led_bits, .timeout = 240);

enum { ROOM = 3 * LED_SLICE + 8192 };

/* Where the device memory of ranks is that the leader's process has not: in cells; in pads, if those cost
 * nothing; or where it lies, at ranks that register it, which every second one does. */
static enum { IN_CELLS, IN_PADS, REGISTERED } places;
static const char costs[] = "cost cells_call 1000000\ncost pads_call 0\n";
static char rules[] = "/tmp/tutti-led-XXXXXX";

static void hand_over(struct ranks_me *me, struct bits_table *t)
{
    tutti_registration *registration;
    for (int i = 0; i < BITS_LANES * SIDES && places == REGISTERED && me->rank % 2 == 1; i++)
        ranks_ok(me,
            tutti_mem_register(t->comms[BITS_KERNELS],
                t->lanes[i / SIDES].buffers[i % SIDES].areas[BITS_DEVICE], ROOM, &registration),
            "mem_register");
}

static bool join(struct ranks_me *me, struct bits_table *t)
{
    char options[160];
    const char *exact = me->context;
    snprintf(options, sizeof options, ";executor=led;device_pad=512K%s%s%s", exact,
        places == IN_PADS ? ";rules=" : "", places == IN_PADS ? rules : "");
    if ((t->comms[BITS_KERNELS] = led_join(me, options, LED_LONG_MS)) == NULL)
        return false;
    hand_over(me, t);
    snprintf(options, sizeof options,
        ";executor=host;algo=all_reduce:direct,reduce:direct,reduce_scatter:direct%s", exact);
    return (t->comms[BITS_HOST] = led_join(me, options, LED_LONG_MS)) != NULL;
}

static bool serves(const struct matrix_case *c)
{
    size_t bytes = c->count * tutti_type_bytes(c->vector.type) * (size_t)c->n;
    return c->count > 0 && !(c->collective == ALL_TO_ALL && bytes > LED_SLICE);
}

static void compare(struct ranks_me *me)
{
    static const enum matrix_collective collectives[] = { ALL_REDUCE, REDUCE_SCATTER, REDUCE, ALL_GATHER,
        BROADCAST, ALL_TO_ALL, GATHER, SCATTER };
    static const int calls[RANKS_MAX + 1] = { [2] = 72, [3] = 72, [4] = 48, [8] = 24 };
    const struct bits_plan plan = { .collectives = collectives,
        .ncollectives = sizeof collectives / sizeof collectives[0],
        .room = ROOM,
        .piece = LED_SLICE,
        .calls = calls,
        .prepare = local_prepare,
        .join = join,
        .serves = serves,
        .launches = led_leads };
    bits_compare(me, &plan);
}

Test(api_device_led_bits, processes)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, compare, "", 0 }, { "queues=1", 3, 0, compare, "", 0 },
        { "queues=2", 4, 0, compare, "", 0 }, { "queues=8", 8, 0, compare, "", 0 });
}

Test(api_device_led_bits, exact_sums)
{
    plugin_must_be_stub();
    led_run({ "queues=2", 3, 0, compare, ";exact=on", 0 }, { "queues=8", 4, 0, compare, ";exact=on", 0 });
}

Test(api_device_led_bits, several_ranks_of_each_process)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 4, 2, compare, "", 0 }, { "queues=1", 3, 2, compare, "", 0 },
        { "queues=2", 8, 3, compare, ";exact=on", 0 });
}

Test(api_device_led_bits, in_pads)
{
    plugin_must_be_stub();
    places = IN_PADS;
    int file = mkstemp(rules);
    cr_assert_eq(write(file, costs, sizeof costs - 1), (ssize_t)sizeof costs - 1);
    led_run({ "queues=8", 2, 0, compare, "", 0 }, { "queues=1", 4, 2, compare, "", 0 });
    close(file);
    unlink(rules);
}

Test(api_device_led_bits, registered)
{
    plugin_must_be_stub();
    places = REGISTERED;
    led_run({ "queues=8", 2, 0, compare, "", 0 }, { "queues=2", 4, 0, compare, "", 0 });
}
