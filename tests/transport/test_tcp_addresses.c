/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_addresses.c: the transport by TCP between ranks whose addresses are not what they should be: one
 * that refuses, one that no network reaches, one of loopback. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/tcp.h"

enum { LOOK_MS = 20000 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(tcp_addresses, .init = limit_time);

/* Opens an endpoint, and connects it; `change` changes what rank 1 says of itself. */
static struct tt_endpoint *join(struct shm_rank *r, void (*change)(struct tcp_address *a))
{
    struct tt_endpoint_params params = r->stage->params;
    struct tt_endpoint *e = NULL;
    struct tcp_address mine;
    params.me = r->me;
    suite_expect(&r->suite, tt_tcp.open(&params, r->stage->addresses[r->me], &e) == TUTTI_OK, "no endpoint");
    if (r->me == 1) {
        memcpy(&mine, r->stage->addresses[1], sizeof mine);
        change(&mine);
        memcpy(r->stage->addresses[1], &mine, sizeof mine);
    }
    shm_meet(r);
    return e;
}

static struct tt_endpoint *join_all(struct shm_rank *r, void (*change)(struct tcp_address *a))
{
    struct tt_endpoint *e = join(r, change);
    suite_expect(&r->suite, tt_tcp.connect(e, r->stage->addresses[0]) == TUTTI_OK, "not connected");
    shm_meet(r);
    return e;
}

static bool sees_cause(struct tt_endpoint *e, struct tt_cause *cause)
{
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (!e->control->cause(e, cause) && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    return e->control->cause(e, cause);
}

static void ask(struct tt_endpoint *e, int peer, enum tt_peer_state *state, struct tt_peer_place *place)
{
    *state = e->control->peer_state(e, peer, place);
}

/* A port at which nobody listens. */
static void close_port(struct tcp_address *a)
{
    struct tt_net net = a->net;
    net.port = 0;
    int fd = tt_net_listen(&net);
    close(fd);
    a->net = net;
}

/* Rank 0 is refused by what is not rank 1, and says so with both ends. It has ended the communicator when
 * rank 1 dials it: that is told the cause, and not that rank 0 has ended. */
static void be_refused(struct shm_rank *r)
{
    struct tt_endpoint *e = join_all(r, close_port);
    struct tt_peer_place place;
    enum tt_peer_state state;
    struct tt_cause mine = { .status = TUTTI_PEER_LOST, .rank = 0, .peer = 1, .text = "refused" }, seen;
    if (r->me == 0) {
        int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
        for (ask(e, 1, &state, &place); state == TT_PEER_ALIVE && tt_now_ns() < deadline_ns;
             ask(e, 1, &state, &place))
            tt_sleep_ms(1);
        suite_expect(&r->suite, state == TT_PEER_REFUSES, "its state is %d", (int)state);
        suite_expect(&r->suite, strchr(place.host, ':') != NULL && place.from[0] != '\0', "%s from %s",
            place.host, place.from);
        e->control->abort(e, &mine);
    }
    shm_meet(r);
    if (r->me == 1)
        for (int i = 0; i < LOOK_MS && !e->control->cause(e, &seen); i++) {
            ask(e, 0, &state, &place);
            tt_sleep_ms(1);
        }
    suite_expect(&r->suite, sees_cause(e, &seen), "it is told nothing");
    suite_expect(&r->suite, strcmp(seen.text, "refused") == 0, "it is told: %s", seen.text);
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_addresses, who_refuses_is_told_why_when_it_comes)
{
    shm_stage_run(shm_stage_new(2), be_refused, -1);
}

/* No connection can be made to this. */
static void name_no_network(struct tcp_address *a)
{
    a->net = (struct tt_net){ .family = TT_FAMILY_IPV4, .port = 1, .address = { 224, 0, 0, 1 } };
}

/* Rank 0 cannot dial rank 1, which dials it: one connection is enough for both. */
static void be_dialed(struct shm_rank *r)
{
    enum { MEANWHILE_MS = 200 };
    uint8_t text[100];
    uint64_t number = r->stage->params.first_number;
    struct tt_endpoint *e = join_all(r, name_no_network);
    if (r->me == 1)
        tt_sleep_ms(MEANWHILE_MS);
    shm_post(e, 1 - r->me, number, (uint64_t)r->me, text, sizeof text);
    shm_take(r, e, 1 - r->me, number, (uint64_t)(1 - r->me), sizeof text);
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_addresses, who_is_not_reached_may_dial)
{
    shm_stage_run(shm_stage_new(2), be_dialed, -1);
}

/* Rank 1 comes when rank 0 has given up: both say that rank 0 cannot connect to rank 1. */
static void come_too_late(struct shm_rank *r)
{
    uint8_t text[100];
    uint64_t number = r->stage->params.first_number;
    struct tt_endpoint *e = join_all(r, name_no_network);
    struct tt_cause seen;
    if (r->me == 0) {
        shm_post(e, 1, number, 7, text, sizeof text);
        suite_expect(&r->suite, sees_cause(e, &seen), "no cause");
    }
    shm_meet(r);
    if (r->me == 1)
        shm_post(e, 0, number, 7, text, sizeof text);
    suite_expect(&r->suite, sees_cause(e, &seen), "no cause");
    suite_expect(&r->suite, strstr(seen.text, "cannot connect to rank 1 at 224.0.0.1") != NULL,
        "it is told: %s", seen.text);
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_addresses, both_ends_say_that_one_is_not_reached)
{
    shm_stage_run(shm_stage_new(2), come_too_late, -1);
}

/* A host that answers nothing: a listener whose queue is full lets the system drop what comes. */
static int dropping[64];
static void drop_all(struct tcp_address *a)
{
    a->net.port = 0;
    dropping[0] = tt_net_listen(&a->net);
    listen(dropping[0], 0);
    for (int i = 1; i < 64; i++)
        dropping[i] = tt_net_dial(&a->net);
}

/* Rank 0 dials what does not answer, and is dialed by nobody: that ends with the heartbeat. */
static void be_dropped(struct shm_rank *r)
{
    uint8_t text[100];
    struct tt_cause seen;
    r->stage->params.heartbeat_ms = 500;
    struct tt_endpoint *e = join_all(r, drop_all);
    if (r->me == 0) {
        shm_post(e, 1, r->stage->params.first_number, 7, text, sizeof text);
        suite_expect(&r->suite, sees_cause(e, &seen), "no cause");
        suite_expect(&r->suite, strstr(seen.text, "cannot connect to rank 1") != NULL, "%s", seen.text);
    }
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_addresses, who_does_not_answer_counts_as_unreachable)
{
    shm_stage_run(shm_stage_new(2), be_dropped, -1);
}

/* As a rank of another host that has no other address than that of its loopback. */
static void be_elsewhere(struct tcp_address *a)
{
    a->net.family = TT_FAMILY_IPV4;
    memcpy(a->net.address, (uint8_t[]){ 127, 0, 0, 1 }, 4);
    a->loopback++;
}

static void be_at_loopback(struct shm_rank *r)
{
    struct tt_endpoint *e = join(r, be_elsewhere);
    tutti_status status = tt_tcp.connect(e, r->stage->addresses[0]);
    suite_expect(&r->suite, status == TUTTI_INVALID_USAGE, "status %d", (int)status);
    suite_expect(&r->suite,
        strstr(tt_last_error(), "rank 1 is at 127.0.0.1, which is loopback and not reached by rank 0") &&
            strstr(tt_last_error(), "TUTTI_INTERFACE of rank 1"),
        "%s", tt_last_error());
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_addresses, loopback_is_refused_between_hosts)
{
    shm_stage_run(shm_stage_new(3), be_at_loopback, -1);
}

static void stay_here(struct tcp_address *a)
{
    memcpy(a->net.address, (uint8_t[]){ 127, 0, 0, 1 }, 4);
}

static void share_a_loopback(struct shm_rank *r)
{
    struct tt_endpoint *e = join(r, stay_here);
    suite_expect(&r->suite, tt_tcp.connect(e, r->stage->addresses[0]) == TUTTI_OK, "%s", tt_last_error());
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_addresses, loopback_serves_one_host)
{
    shm_stage_run(shm_stage_new(3), share_a_loopback, -1);
}
