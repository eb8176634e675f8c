/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_spin_held.c: ranks with a device each destroy their ends as soon as they have their own
 * results, while the worker of one is held up: before it says that it has come, or looks at the others. */
#include <criterion/criterion.h>
#include <string.h>

#include "spin/spin.h"
#include "spin_rig.h"

TestSuite(api_device_spin_held, .timeout = 240);

enum { N = 3 };

static struct {
    bool told; /* in which step */
    _Atomic int *destroyed; /* by how many others */
    bool (*advance)(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature);
} slow;

static bool advance_late(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature)
{
    enum { HELD_MS = 80 };
    const struct tt_spin *spin = (const struct tt_spin *)(const void *)meeting;
    for (int ms = 0; ms < HELD_MS && spin->told == slow.told && atomic_load(slow.destroyed) < N - 1; ms++)
        ranks_sleep_us(1000);
    return slow.advance(meeting, gate, signature);
}

static void leave_at_once(struct ranks_me *me)
{
    for (int round = 0; round < 2 * N; round++) {
        struct local_desk d;
        int32_t given = me->rank + 1, got;
        _Atomic int *destroyed = (_Atomic int *)me->shared + round;
        ranks_at(me, "rank %d is held, step %d", round / 2, round % 2);
        if (!spin_sit_down(me, &d, SPIN_LONG_MS))
            return;
        local_give(&d, GIVEN, &given, sizeof given);
        if (me->rank == round / 2) {
            struct tt_meeting *meeting = &spin_of(d.comm)->meeting;
            slow.told = round % 2;
            slow.destroyed = destroyed;
            slow.advance = meeting->advance;
            meeting->advance = advance_late;
        }
        ranks_meet(me);
        ranks_ok(me,
            tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 1, TUTTI_INT32, TUTTI_SUM, d.comm, local_on(&d)),
            "all_reduce");
        local_drains(&d);
        memcpy(&got, local_take(&d, GOT, sizeof got), sizeof got);
        ranks_expect(me, got == N * (N + 1) / 2, "the sum is %d", got);
        ranks_ok(me, tutti_comm_state(d.comm), "the end of the call");
        spin_get_up(&d);
        atomic_fetch_add(destroyed, 1);
        ranks_meet(me);
    }
}

Test(api_device_spin_held, ends_that_are_destroyed_at_once)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, leave_at_once, NULL, 0, 0 });
}
