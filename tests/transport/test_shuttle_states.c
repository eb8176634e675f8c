/* SPDX-License-Identifier: BSD-3-Clause */
/* test_shuttle_states.c: the table of states that shm_shuttle.h draws, and each way that it has not. */
#ifndef TT_CHECKS
#define TT_CHECKS
#endif
#include <criterion/criterion.h>
#include <signal.h>

#include "transports/shm_shuttle.h"

enum { OTHER = TT_SHM_SHUTTLES_OF_PAIR - 1 };

/* All are away but number 2, which is in this state. */
static struct tt_shuttles in_state(enum tt_shuttle_state state)
{
    struct tt_shuttles s = { .state = { [2] = (uint8_t)state } };
    return s;
}

Test(shuttle_states, an_owned_one_leaves_and_no_other)
{
    for (enum tt_shuttle_state state = TT_SHUTTLE_AWAY; state <= TT_SHUTTLE_REPLY; state++) {
        struct tt_shuttles s = in_state(state);
        cr_expect_eq(tt_shuttle_leave(&s), state == TT_SHUTTLE_OWNED ? 2 : -1, "state %d", state);
        cr_expect_eq(s.state[2], state == TT_SHUTTLE_OWNED ? TT_SHUTTLE_AWAY : state);
    }
}

Test(shuttle_states, the_one_that_was_read_last_leaves_first)
{
    struct tt_shuttles s = { .state = { TT_SHUTTLE_OWNED, [OTHER] = TT_SHUTTLE_READING } };
    tt_shuttle_release(&s, OTHER, 10);
    cr_expect_eq(s.read_bytes[OTHER], 10);
    cr_expect_eq(tt_shuttle_leave(&s), OTHER);
    cr_expect_eq(tt_shuttle_leave(&s), 0);
    cr_expect_eq(tt_shuttle_leave(&s), -1);
}

/* A peer that lies may say that a message came by any of them. */
Test(shuttle_states, what_is_here_cannot_arrive)
{
    static const enum tt_shuttle_state after[] = { TT_SHUTTLE_READING, TT_SHUTTLE_OWNED, TT_SHUTTLE_READING,
        TT_SHUTTLE_RESERVED, TT_SHUTTLE_REPLY };
    for (enum tt_shuttle_state state = TT_SHUTTLE_AWAY; state <= TT_SHUTTLE_REPLY; state++) {
        struct tt_shuttles s = in_state(state);
        bool here = state == TT_SHUTTLE_OWNED || state == TT_SHUTTLE_REPLY;
        cr_expect_eq(tt_shuttle_arrive(&s, 2), !here, "state %d", state);
        cr_expect_eq(s.state[2], after[state], "state %d", state);
    }
}

Test(shuttle_states, a_reply_leaves_by_what_it_answers)
{
    struct tt_shuttles s = in_state(TT_SHUTTLE_READING);
    tt_shuttle_reserve(&s, 2);
    tt_shuttle_reserve(&s, 2);
    cr_expect(tt_shuttle_is_read(&s, 2));
    tt_shuttle_release(&s, 2, 10);
    cr_expect_eq(tt_shuttle_leave(&s), -1, "it left with another message");
    tt_shuttle_leave_as_reply(&s, 2);
    cr_expect_eq(s.state[2], TT_SHUTTLE_AWAY);
}

/* --- What no caller may do, by a build with checks */

Test(shuttle_states, what_is_away_is_not_released, .signal = SIGABRT)
{
    struct tt_shuttles s = in_state(TT_SHUTTLE_AWAY);
    tt_shuttle_release(&s, 2, 10);
}

Test(shuttle_states, what_is_owned_is_not_reserved, .signal = SIGABRT)
{
    struct tt_shuttles s = in_state(TT_SHUTTLE_OWNED);
    tt_shuttle_reserve(&s, 2);
}

Test(shuttle_states, a_reply_does_not_leave_while_its_question_is_read, .signal = SIGABRT)
{
    struct tt_shuttles s = in_state(TT_SHUTTLE_RESERVED);
    tt_shuttle_leave_as_reply(&s, 2);
}
