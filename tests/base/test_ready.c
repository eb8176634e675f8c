/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ready.c: the ready list, unit by unit: what waits for a dependency, for a whole fold, for a slot. */
#include <criterion/criterion.h>

#include "base/ready.h"
#include "tests/proof/schedules.h"

enum { MESSAGES = 6, STEPS_MAX = 16 };

static uint32_t opening[STEPS_MAX], next_in_slot[STEPS_MAX], waiting[STEPS_MAX];
static uint32_t recent[2 * 2 * TT_SLOTS_AHEAD];
static struct tt_active active[STEPS_MAX];

/* The schedule of rank 0 of two, which `generate` writes, and its list as a slice begins. */
static void begin(
    tt_generator generate, struct schedule_set *set, struct tt_ready_order *order, struct tt_ready_list *list)
{
    *set = generated(TT_ALL_REDUCE, generate, 2, false);
    *order = (struct tt_ready_order){ .opening = opening, .next_in_slot = next_in_slot };
    *list = (struct tt_ready_list){ .active = active, .waiting = waiting };
    cr_assert_leq(set->schedules[0].nsteps, STEPS_MAX);
    tt_ready_order(order, &set->schedules[0], recent);
    tt_ready_start(order, list);
}

static void send_each(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, MESSAGES);
    for (uint32_t c = 0; c < MESSAGES; c++)
        tt_send(s, 1 - team->me, tt_in(c));
}

Test(ready, a_message_waits_for_its_slot)
{
    struct schedule_set set;
    struct tt_ready_order order;
    struct tt_ready_list list;
    begin(send_each, &set, &order, &list);
    cr_expect_eq(order.units, MESSAGES);
    cr_assert_eq(list.nactive, TT_SLOTS_AHEAD);
    for (uint32_t i = 0; i < TT_SLOTS_AHEAD; i++)
        cr_expect_eq(active[i].step, i);
    cr_expect_eq(
        tt_ready_retire(&order, &list, 1), 3); /* message 1 is done: 3 takes its place, then comes 5 */
    cr_assert_eq(list.nactive, TT_SLOTS_AHEAD);
    cr_expect_eq(active[1].step, 3);
    cr_expect_eq(active[3].step, 5);
    cr_expect_eq(tt_ready_retire(&order, &list, 3), 3); /* message 5 is done: nothing follows it */
    cr_expect_eq(list.nactive, 3);
    cr_expect_eq(list.left, MESSAGES - 2);
    set_free(&set);
}

static void fold_of_two(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 1);
    tt_copy(s, tt_out(0), tt_in(0));
    tt_fold_begin(s, false);
    tt_recv_reduce(s, 1 - team->me, tt_out(0), tt_out(0), false);
    tt_recv_reduce(s, 1 - team->me, tt_out(0), tt_out(0), false);
    tt_fold_end(s);
    tt_send(s, 1 - team->me, tt_out(0));
    tt_send(s, 1 - team->me, tt_in(0));
}

Test(ready, a_unit_waits_for_all_before_it)
{
    struct schedule_set set;
    struct tt_ready_order order;
    struct tt_ready_list list;
    begin(fold_of_two, &set, &order, &list);
    cr_expect_eq(order.units, 4); /* a fold is one */
    cr_assert_eq(list.nactive, 2);
    cr_expect_eq(active[0].step, 0);
    cr_expect_eq(active[1].step, 4); /* it reads IN, which nobody writes */
    cr_expect_eq(tt_ready_retire(&order, &list, 0), 1); /* the copy is done: the fold may run */
    cr_expect_eq(active[0].step, 4);
    cr_expect_eq(active[1].step, 1);
    active[1].posted = true;
    cr_expect_eq(tt_ready_retire(&order, &list, 1), 1); /* and then the send of its sum */
    cr_expect_eq(active[1].step, 3);
    cr_expect_not(active[1].posted);
    cr_expect_eq(list.left, 2);
    set_free(&set);
}
