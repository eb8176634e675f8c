/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_visitors.c: who comes to a rank of tcp and does not stay: strangers that are silent, and peers
 * that leave before they have said much. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/schedule.h"
#include "base/status.h"
#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/tcp.h"

enum { RANKS = 3, LOOK_MS = 20000 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(tcp_visitors, .init = limit_time);

static struct tt_endpoint *join(struct shm_rank *r)
{
    r->suite.transport = &tt_tcp;
    return shm_join(r);
}

/* Waits until it is seen that the peer does not live. */
static enum tt_peer_state await_end(struct tt_endpoint *e, int peer)
{
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (peer_state(e, peer) == TT_PEER_ALIVE && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    return peer_state(e, peer);
}

/* --- Strangers */

static int visit(struct shm_rank *r)
{
    struct tcp_address a;
    memcpy(&a, r->stage->addresses[r->me], sizeof a);
    int fd = tt_net_connect(&a.net, LOOK_MS);
    suite_expect(&r->suite, fd >= 0, "no connection");
    return fd;
}

/* True if the other end hangs up within so long. */
static bool is_hung_up(int fd, int ms)
{
    char byte;
    struct pollfd polled = { .fd = fd, .events = POLLIN };
    return poll(&polled, 1, ms) > 0 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

/* A rank has room for some strangers. Who comes when that is full takes the place of the one who came first:
 * it may be a peer, and is heard. Who says nothing is hung up on after a while. */
static void be_crowded(struct shm_rank *r)
{
    enum { ROOM = 32, MOMENT_MS = 20 };
    int fds[ROOM + 1];
    struct tt_endpoint *e = join(r);
    for (int i = 0; i <= ROOM; i++) {
        fds[i] = visit(r);
        tt_sleep_ms(i == 0 ? MOMENT_MS : 1); /* the first is accepted before the others come */
    }
    suite_expect(&r->suite, is_hung_up(fds[0], LOOK_MS), "who came first stays");
    for (int i = 1; i <= ROOM; i++)
        suite_expect(&r->suite, !is_hung_up(fds[i], 0), "number %d, who came later, is hung up on", i);
    suite_expect(&r->suite, is_hung_up(fds[ROOM], LOOK_MS), "a silent stranger stays");
    for (int i = 0; i <= ROOM; i++)
        close(fds[i]);
    tt_tcp.close(e);
}

Test(tcp_visitors, the_oldest_stranger_goes_and_no_silent_one_stays)
{
    shm_stage_run(shm_stage_new(1), be_crowded, -1);
}

/* --- Hosts that vanish */

/* The first message makes the connection of two ranks. */
static struct tt_endpoint *join_and_talk(struct shm_rank *r)
{
    uint8_t text[100] = "";
    uint64_t number = r->stage->params.first_number;
    struct tt_endpoint *e = join(r);
    if (r->me == 0)
        shm_post(e, 1, number, 7, text, sizeof text);
    else
        shm_take(r, e, 0, number, 7, sizeof text);
    shm_meet(r);
    return e;
}

/* The system asks a silent connection, and gives up one whose bytes are not acknowledged in time: at the end
 * that has dialed, and at the one that was. */
static void beat(struct shm_rank *r)
{
    r->stage->params.heartbeat_ms = 3000;
    struct tt_endpoint *e = join_and_talk(r);
    int fd = ((struct tcp_endpoint *)e)->peers[1 - r->me].fd;
    int timeout_ms = 0, asks = 0, idle_s = 0;
    socklen_t bytes = sizeof timeout_ms;
    getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, &bytes);
    getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &asks, &bytes);
    getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, &bytes);
    suite_expect(&r->suite, timeout_ms == 3000 && asks == 1 && idle_s == 1, "%d ms, asks %d, after %d s",
        timeout_ms, asks, idle_s);
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_visitors, both_ends_of_a_connection_have_a_heartbeat)
{
    shm_stage_run(shm_stage_new(2), beat, -1);
}

/* Both have the congestion control that is set, too. */
static void use_reno(struct shm_rank *r)
{
    char name[16] = "";
    socklen_t bytes = sizeof name;
    r->stage->params.congestion = "reno";
    struct tt_endpoint *e = join_and_talk(r);
    const struct tcp_peer *p = &((struct tcp_endpoint *)e)->peers[1 - r->me];
    getsockopt(p->fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes);
    suite_expect(&r->suite, strcmp(name, "reno") == 0 && !p->paced, "it is %s", name);
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_visitors, both_ends_of_a_connection_have_the_congestion_control_that_is_set)
{
    shm_stage_run(shm_stage_new(2), use_reno, -1);
}

/* A host that has it not says so, and what is legal there. */
Test(tcp_visitors, a_congestion_control_that_the_system_has_not_is_refused)
{
    struct tt_endpoint_params params = { .n = 2, .slot_bytes = SUITE_SLOT_BYTES, .congestion = "nobodys" };
    uint8_t address[TT_ADDRESS_BYTES];
    struct tt_endpoint *e;
    cr_assert_eq(tt_tcp.open(&params, address, &e), TUTTI_UNSUPPORTED);
    cr_assert_not_null(strstr(tt_last_error(), "congestion is nobodys"), "%s", tt_last_error());
    cr_assert_not_null(strstr(tt_last_error(), "system, or reno"), "%s", tt_last_error());
}

/* --- Peers that leave */

/* Rank 0 has sent as much as there are slots when rank 1 dies, which has never said a word. It waits for a
 * slot, so that rank has not completed what it waits in. */
static void die_unheard(struct shm_rank *r)
{
    uint8_t text[100];
    uint64_t number = r->stage->params.first_number, sent = 0;
    struct tt_endpoint *e = join(r);
    while (r->me == 0 && shm_post(e, 1, number + sent, 7, text, sizeof text))
        sent++;
    suite_expect(&r->suite, r->me == 1 || sent == TCP_SLOTS, "%d messages were sent", (int)sent);
    shm_meet(r);
    if (r->me == 1)
        raise(SIGKILL);
    suite_expect(&r->suite, await_end(e, 1) != TT_PEER_LEFT, "its death is not seen");
    suite_expect(&r->suite, e->control->completed_by(e, 1) == number, "it has completed all");
    tt_tcp.close(e);
}

Test(tcp_visitors, who_dies_unheard_has_not_completed_what_waits_for_its_room)
{
    shm_stage_run(shm_stage_new(2), die_unheard, 1);
}

/* A rank refuses its own call, and leaves; it has never talked with the others. It comes to tell them. */
static void refuse_and_leave(struct shm_rank *r)
{
    struct tt_endpoint *e = join(r);
    struct tt_refusal mine = { .peer = TT_NONE, .number = 4, .text = "it is no call" },
                      seen = { .peer = TT_NONE };
    if (r->me == 1) {
        e->control->refuse(e, &mine);
        tt_tcp.close(e);
        shm_meet(r);
        return;
    }
    shm_meet(r);
    enum tt_peer_state state = await_end(e, 1);
    suite_expect(&r->suite, state == TT_PEER_LEFT, "its state is %d", (int)state);
    suite_expect(&r->suite, e->control->refused(e, 1, &seen), "it has refused nothing");
    suite_expect(&r->suite, seen.number == 4 && strcmp(seen.text, mine.text) == 0, "%llu, %s",
        (unsigned long long)seen.number, seen.text);
    tt_tcp.close(e);
}

Test(tcp_visitors, who_refuses_and_leaves_has_told_all)
{
    shm_stage_run(shm_stage_new(RANKS), refuse_and_leave, -1);
}

static bool says(struct tt_endpoint *e, int peer, bool sends, uint64_t number)
{
    struct tt_refusal seen = { .peer = peer, .sends = sends };
    return e->control->refused(e, 1, &seen) && seen.number == number && strcmp(seen.text, "the last") == 0;
}

/* Rank 1 refuses a send to rank 0 and a receive from rank 2: each is told of what it would wait for, and of
 * nothing else. What it then takes back was never refused. */
static void refuse_messages(struct shm_rank *r, bool takes_back)
{
    struct tt_endpoint *e = join(r);
    struct tt_refusal send = { .peer = 0, .sends = true, .number = 6, .text = "the first" },
                      recv = { .peer = 2, .number = 9, .text = "the last" };
    if (r->me == 1) {
        e->control->refuse(e, &send);
        e->control->refuse(e, &recv);
        if (takes_back)
            e->control->refuse(e, NULL);
        tt_tcp.close(e);
        shm_meet(r);
        return;
    }
    shm_meet(r);
    suite_expect(&r->suite, await_end(e, 1) == TT_PEER_LEFT, "its end is not seen");
    suite_expect(&r->suite, says(e, r->me, true, 6) == (r->me == 0 && !takes_back), "of a send");
    suite_expect(&r->suite, says(e, r->me, false, 9) == (r->me == 2 && !takes_back), "of a receive");
    suite_expect(&r->suite, !says(e, TT_NONE, false, 6) && !says(e, TT_NONE, false, 9), "of a collective");
    tt_tcp.close(e);
}

static void refuse_two(struct shm_rank *r)
{
    refuse_messages(r, false);
}

static void refuse_and_take_back(struct shm_rank *r)
{
    refuse_messages(r, true);
}

Test(tcp_visitors, refused_messages_are_told_to_whom_they_concern)
{
    shm_stage_run(shm_stage_new(RANKS), refuse_two, -1);
    shm_stage_run(shm_stage_new(RANKS), refuse_and_take_back, -1);
}

/* A rank leaves that never talked with another one. Nobody can say what it had completed: all, for who awaits
 * no message of it; nothing, for who does. */
static void leave_unmet(struct shm_rank *r)
{
    struct tt_arrival a;
    struct tt_endpoint *e = join(r);
    uint64_t number = r->stage->params.first_number;
    if (r->me == 1) {
        tt_tcp.close(e);
        shm_meet(r);
        return;
    }
    shm_meet(r);
    suite_expect(&r->suite, await_end(e, 1) == TT_PEER_REFUSES, "its end is not seen");
    suite_expect(&r->suite, e->control->completed_by(e, 1) == UINT64_MAX, "it has not completed all");
    suite_expect(&r->suite, !link_arrived(tt_link_to(e, TT_CLASS_COLLECTIVE, 1), number, NULL, &a),
        "a message of nobody");
    suite_expect(&r->suite, e->control->completed_by(e, 1) == number, "it has completed something");
    tt_tcp.close(e);
}

Test(tcp_visitors, who_leaves_unmet_has_completed_what_nobody_awaits)
{
    shm_stage_run(shm_stage_new(RANKS), leave_unmet, -1);
}
