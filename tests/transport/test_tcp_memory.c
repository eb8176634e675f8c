/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_memory.c: whose memory tcp reads and writes, and until when: two endpoints of one process, whose
 * connection takes a few KiB, so that long messages are under way for as long as a test wants. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "tests/rig/patience.h"
#include "transport_suite.h"
#include "transports/tcp.h"

enum { LONG = SUITE_SLOT_BYTES, LOOK_MS = 20000, SPOILT = 0xee, LITTLE = 4096, MUCH = 1 << 20 };

static void limit_time(void)
{
    alarm(patience_seconds(60));
}

TestSuite(tcp_memory, .init = limit_time);

static struct tcp_endpoint *ends[2];

static struct tt_link *link_from(int rank)
{
    return tt_link_to(&ends[rank]->head, TT_CLASS_P2P, 1 - rank);
}

static bool arrives(int rank, uint64_t number, struct tt_arrival *a)
{
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (!link_arrived(link_from(rank), number, NULL, a) && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    return link_arrived(link_from(rank), number, NULL, a);
}

/* Each connection takes about so many bytes at a time. */
static void set_room(int bytes)
{
    for (int me = 0; me < 2; me++) {
        setsockopt(ends[me]->peers[1 - me].fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
        setsockopt(ends[me]->peers[1 - me].fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
}

/* Message 0 has gone from rank 0 to rank 1, by a connection that takes little at a time from now on. */
static void make_ends(void)
{
    uint8_t addresses[2][TT_ADDRESS_BYTES];
    struct tt_arrival a;
    struct tt_endpoint *made[2];
    for (int me = 0; me < 2; me++) {
        struct tt_endpoint_params params = { .n = 2, .me = me, .slot_bytes = SUITE_SLOT_BYTES };
        cr_assert_eq(tt_tcp.open(&params, addresses[me], &made[me]), TUTTI_OK, "%s", tt_last_error());
    }
    for (int me = 0; me < 2; me++) {
        cr_assert_eq(tt_tcp.connect(made[me], addresses[0]), TUTTI_OK, "%s", tt_last_error());
        ends[me] = (struct tcp_endpoint *)made[me];
    }
    cr_assert(link_post(link_from(0), 0, 7, "x", 1));
    cr_assert(arrives(1, 0, &a));
    link_release(link_from(1), 0);
    set_room(LITTLE);
}

static void close_ends(void)
{
    for (int me = 0; me < 2; me++)
        tt_tcp.close(&ends[me]->head);
}

static void send_bytes(int rank, uint64_t number, uint8_t *from, uint64_t bytes)
{
    struct tt_layout layout;
    tt_layout_even(&layout, bytes, 1, 1, 1);
    struct tt_message m = { .number = number,
        .bytes = bytes,
        .source = { .layout = &layout, .nchunks = 1, .space = { .base = (uintptr_t)from } } };
    for (uint64_t i = 0; i < bytes; i++)
        from[i] = suite_byte(number, i);
    cr_assert(link_send(link_from(rank), &m));
}

static void send_long(int rank, uint64_t number, uint8_t *from)
{
    send_bytes(rank, number, from, LONG);
}

/* Few bytes in each slot of a peer touch few pages, or a rank that talks with many would take much. */
Test(tcp_memory, few_bytes_lie_close_together)
{
    struct tt_arrival a;
    make_ends();
    const struct tcp_link *from = tt_tcp_link_of(ends[0], TT_CLASS_P2P, 1);
    const struct tcp_link *to = tt_tcp_link_of(ends[1], TT_CLASS_P2P, 0);
    for (uint64_t number = 1; number <= TCP_SLOTS; number++) {
        cr_assert(link_post(link_from(0), number, 7, "few", 4));
        cr_assert(arrives(1, number, &a));
        cr_expect_eq(memcmp((const void *)a.base, "few", 4), 0);
        link_release(link_from(1), number);
    }
    for (int i = 1; i < TCP_SLOTS; i++) {
        cr_expect_eq(from->out[i].memory - from->out[i - 1].memory, 512, "slot %d to send from", i);
        cr_expect_eq(to->in[i].memory - to->in[i - 1].memory, 512, "slot %d to receive into", i);
    }
    close_ends();
}

/* A rank that gives up has its memory back: what is still to be written from there, one message that is under
 * way and others that are not, is what it was. */
Test(tcp_memory, what_was_sent_before_a_rank_gives_up_arrives)
{
    enum { MESSAGES = 3 };
    uint8_t *from = malloc((size_t)MESSAGES * LONG);
    struct tt_arrival a;
    struct transport_suite suite = { 0 };
    make_ends();
    pthread_mutex_lock(&ends[1]->driving); /* it reads nothing */
    for (int i = 0; i < MESSAGES; i++)
        send_long(0, (uint64_t)i + 1, from + (size_t)i * LONG);
    const struct tcp_transfer *to = &ends[0]->peers[1].to;
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    for (bool begun = false; !begun && tt_now_ns() < deadline_ns; tt_sleep_ms(1)) {
        pthread_mutex_lock(&ends[0]->driving);
        begun = to->size > 0 && to->at > sizeof to->frame;
        pthread_mutex_unlock(&ends[0]->driving);
    }
    cr_assert(ends[0]->head.control->quiet(&ends[0]->head, true));
    cr_assert(to->size > 0 && to->at > sizeof to->frame && to->at < to->size, "none is under way");
    memset(from, SPOILT, (size_t)MESSAGES * LONG);
    set_room(MUCH);
    pthread_mutex_unlock(&ends[1]->driving);
    for (uint64_t number = 1; number <= MESSAGES; number++) {
        cr_assert(arrives(1, number, &a), "message %llu does not come", (unsigned long long)number);
        cr_assert(suite_read(&suite, &a, number, LONG), "%s", suite.wrong);
        link_release(link_from(1), number);
    }
    close_ends();
    free(from);
}

/* Grants this place for a message of rank 0 to rank 1. */
static void grant(uint64_t number, uint8_t *place)
{
    struct tt_layout layout;
    tt_layout_even(&layout, LONG, 1, 1, 1);
    struct tt_view view = { .layout = &layout, .nchunks = 1, .space = { .base = (uintptr_t)place } };
    while (!link_grant(link_from(1), number, 0, &view, 0))
        continue; /* who drives is at work */
}

/* What was granted is nobody else's any more when a rank has given up, though one message for it is under
 * way, and another one comes later. */
Test(tcp_memory, what_comes_after_a_rank_gave_up_leaves_its_memory_alone)
{
    uint8_t *from = malloc(LONG), *place = malloc(2 * LONG);
    struct tt_arrival a;
    make_ends();
    grant(1, place);
    grant(2, place + LONG);
    memset(place, SPOILT, LONG);
    pthread_mutex_lock(&ends[0]->driving);
    send_long(0, 1, from); /* nobody drives */
    tt_tcp_write(ends[0], 1); /* as much as the connection takes */
    const struct tcp_transfer *in = &ends[1]->peers[0].in;
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (place[0] != suite_byte(1, 0) && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    cr_assert(ends[1]->head.control->quiet(&ends[1]->head, true));
    cr_assert(place[0] == suite_byte(1, 0) && in->at > sizeof in->frame && in->at < in->size, "none comes");
    memset(place, SPOILT, 2 * LONG);
    set_room(MUCH);
    pthread_mutex_unlock(&ends[0]->driving);
    tt_tcp_wake(ends[0]);
    cr_assert(arrives(1, 1, &a));
    send_long(0, 2, from);
    while (!link_sent(link_from(0), 2))
        continue;
    cr_assert(arrives(1, 2, &a));
    for (int i = 0; i < 2 * LONG; i++)
        cr_assert_eq(place[i], SPOILT, "byte %d is written", i);
    close_ends();
    free(from);
    free(place);
}

/* A place is for a message of its length: another one, as of ranks whose calls differ, might not fit. */
Test(tcp_memory, a_message_of_another_length_is_not_placed)
{
    uint8_t *from = malloc(LONG), *place = malloc(LONG);
    struct tt_arrival a;
    make_ends();
    set_room(MUCH);
    memset(place, SPOILT, LONG);
    grant(1, place);
    send_bytes(0, 1, from, LONG / 2);
    cr_assert(arrives(1, 1, &a));
    cr_assert(a.path == TT_PATH_COPIED && a.bytes == LONG / 2 && place[0] == SPOILT);
    close_ends();
    free(from);
    free(place);
}

/* Who falls asleep with a message half written leaves it to the thread, which was in poll before. */
Test(tcp_memory, what_is_half_written_is_left_to_the_thread)
{
    enum { IDLE_MS = 100 };
    uint8_t *from = malloc(LONG);
    struct tt_arrival a;
    make_ends();
    tt_sleep_ms(IDLE_MS);
    pthread_mutex_lock(&ends[1]->driving); /* it reads nothing */
    send_long(0, 1, from);
    atomic_fetch_add(&ends[0]->head.doorbell->sleeping, 1);
    cr_assert_not(link_sent(link_from(0), 1));
    pthread_mutex_unlock(&ends[1]->driving);
    cr_assert(arrives(1, 1, &a));
    atomic_fetch_sub(&ends[0]->head.doorbell->sleeping, 1);
    close_ends();
    free(from);
}

/* Who closes does not wait for ever for a peer that takes nothing. */
Test(tcp_memory, who_closes_leaves_a_silent_peer)
{
    uint8_t *from = malloc(LONG);
    make_ends();
    pthread_mutex_lock(&ends[1]->driving);
    send_long(0, 1, from);
    int64_t began_ns = tt_now_ns();
    tt_tcp.close(&ends[0]->head);
    cr_assert_lt(tt_now_ns() - began_ns, LOOK_MS * INT64_C(1000000));
    pthread_mutex_unlock(&ends[1]->driving);
    tt_tcp.close(&ends[1]->head);
    free(from);
}

/* A rank sends from a place, and grants it for what the peer sends back. That may come first, so it must not
 * lie there before the rank's own message has been written. */
Test(tcp_memory, a_message_is_not_placed_over_one_that_is_still_to_be_written)
{
    enum { TRIES = 20 };
    uint8_t *cells = malloc(LONG), *back = malloc(LONG);
    struct tt_layout layout;
    struct tt_arrival a;
    struct transport_suite suite = { 0 };
    make_ends();
    tt_layout_even(&layout, LONG, 1, 1, 1);
    struct tt_view view = { .layout = &layout, .nchunks = 1, .space = { .base = (uintptr_t)cells } };
    pthread_mutex_lock(&ends[1]->driving); /* it reads nothing */
    send_long(0, 1, cells);
    for (int i = 0; i < TRIES && !link_grant(link_from(0), 0, 0, &view, 1 + 1); i++)
        tt_sleep_ms(1); /* who drives may be at work */
    send_long(1, 0, back);
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (!link_arrived(link_from(0), 0, NULL, &a) && tt_now_ns() < deadline_ns)
        tt_tcp_write(ends[1], 0);
    cr_assert(ends[0]->peers[1].to.size > 0, "its own has been written");
    set_room(MUCH);
    pthread_mutex_unlock(&ends[1]->driving);
    cr_assert(suite_read(&suite, &a, 0, LONG), "%s", suite.wrong);
    cr_assert(arrives(1, 1, &a));
    cr_assert(suite_read(&suite, &a, 1, LONG), "%s", suite.wrong);
    close_ends();
    free(cells);
    free(back);
}
