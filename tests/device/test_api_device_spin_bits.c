/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_spin_bits.c: what kernels of several devices do has the bits of the host's executor
 * (bits_rig.h), of all collectives that they do. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "bits_rig.h"
#include "spin_rig.h"

TestSuite(api_device_spin_bits, .timeout = 240);

enum { PIECE = 128 * 1024 /* of a rank's cells, for one side */ };

static bool prepare(struct ranks_me *me, struct local_desk *d)
{
    return local_prepare_on(me, d, me->rank);
}

static bool join(struct ranks_me *me, struct bits_table *t)
{
    char options[160];
    const char *exact = me->context;
    snprintf(options, sizeof options, ";executor=spin%s", exact);
    if ((t->comms[BITS_KERNELS] = spin_join(me, options, SPIN_LONG_MS)) == NULL ||
        !spin_says(me, t->comms[BITS_KERNELS], "executor", "S"))
        return false;
    snprintf(options, sizeof options,
        ";executor=host;algo=all_reduce:direct,reduce:direct,reduce_scatter:direct,reduce_scatter_v:direct%s",
        exact);
    return (t->comms[BITS_HOST] = spin_join(me, options, SPIN_LONG_MS)) != NULL;
}

static bool serves(const struct matrix_case *c)
{
    return c->collective == BARRIER || (c->count > 0 && !matrix_shapes[c->collective].v);
}

static bool launches(const struct local_desk *d)
{
    return d->stub != NULL;
}

static void compare_all(struct ranks_me *me, bool given)
{
    static const enum matrix_collective collectives[] = { ALL_REDUCE, REDUCE_SCATTER, REDUCE, ALL_GATHER,
        BROADCAST, ALL_TO_ALL, GATHER, SCATTER, ALL_GATHER_V, REDUCE_SCATTER_V, GATHER_V, SCATTER_V,
        BARRIER };
    static const int calls[RANKS_MAX + 1] = { [2] = 78, [3] = 39, [4] = 39, [8] = 27 };
    const struct bits_plan plan = { .collectives = collectives,
        .ncollectives = sizeof collectives / sizeof collectives[0],
        .room = 3 * PIECE + 8192,
        .piece = PIECE,
        .calls = calls,
        .given = given,
        .prepare = prepare,
        .join = join,
        .serves = serves,
        .launches = launches };
    bits_compare(me, &plan);
}

static void compare(struct ranks_me *me)
{
    compare_all(me, false);
}

static void compare_in_place(struct ranks_me *me)
{
    compare_all(me, true);
}

Test(api_device_spin_bits, threads)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 2, compare, "", 0, 0 }, { "queues=1", 3, 3, compare, ";exact=on", 0, 0 },
        { "queues=2", 8, 8, compare, "", 0, 0 });
}

Test(api_device_spin_bits, processes)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 1, compare, ";exact=on", 0, 0 }, { "queues=1", 4, 2, compare, "", 0, 0 },
        { "queues=2", 8, 3, compare, ";exact=on", 0, 0 });
}

/* Where all ranks reach all buffers, as far as those are mapped by then. */
Test(api_device_spin_bits, in_place)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 2, compare_in_place, ";exact=on", 0, 0 },
        { "queues=2", 4, 4, compare_in_place, "", 0, 0 }, { "queues=1", 3, 1, compare_in_place, "", 0, 0 });
}
