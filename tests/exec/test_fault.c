/* SPDX-License-Identifier: BSD-3-Clause */
/* test_fault.c: what a long wait decides when two things happen at once, which no test can time: here the
 * transport does them, at the very moment when it is asked. */
#include <criterion/criterion.h>
#include <string.h>

#include "run/comm.h"
#include "base/handle.h"
#include "tests/rig/ranks.h"

TestSuite(fault, .timeout = 120);

static struct {
    tutti_comm *sender;
    bool sends;
    int asked;
} last_words;

/* The peer sends, and then leaves, between the last poll of who waits for it and this look at its life. */
static enum tt_peer_state send_and_leave(struct tt_endpoint *e, int peer, struct tt_peer_place *place)
{
    *place = (struct tt_peer_place){ 0 };
    int32_t value = 4711;
    (void)e;
    if (last_words.sends && last_words.asked == 0 &&
        tutti_send(&value, 1, TUTTI_INT32, 1 - peer, last_words.sender, tutti_no_stream()) != TUTTI_OK)
        return TT_PEER_ALIVE;
    last_words.asked++;
    return TT_PEER_DEAD;
}

static void receive_last_words(struct ranks_me *me)
{
    for (int sends = 1; sends >= 0; sends--) {
        tutti_comm *comms[2];
        int32_t value = 0;
        if (!ranks_ok(me, tutti_comm_init_all(2, NULL, NULL, comms), "init_all"))
            return;
        struct tt_endpoint *e = tt_comm_peek(comms[0])->endpoint;
        const struct tt_control_ops *its_own = e->control;
        struct tt_control_ops control = *its_own;
        control.peer_state = send_and_leave;
        e->control = &control;
        last_words.sender = comms[1];
        last_words.sends = sends == 1;
        last_words.asked = 0;
        tutti_status status = tutti_recv(&value, 1, TUTTI_INT32, 1, comms[0], tutti_no_stream());
        ranks_expect(me, last_words.asked > 0, "nobody asked for the peer's life");
        ranks_expect(me, status == (sends ? TUTTI_OK : TUTTI_PEER_LOST) && value == (sends ? 4711 : 0),
            "what was sent before the end: status %d, value %d (%s)", status, value,
            tutti_get_last_error(NULL));
        e->control = its_own;
        for (int i = 0; i < 2; i++)
            ranks_ok(me, tutti_comm_destroy(comms[i]), "destroy");
    }
}

Test(fault, a_message_that_was_sent_before_the_end)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = receive_last_words });
}
