/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_wire.c: what goes over a connection of tcp, byte by byte: an endpoint that no thread drives, and
 * at the other end of its connection a test that says what no rank would say just so. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/schedule.h"
#include "base/status.h"
#include "tests/rig/patience.h"
#include "transport_suite.h"
#include "transports/tcp.h"

static void limit_time(void)
{
    alarm(patience_seconds(60));
}

TestSuite(tcp_wire, .init = limit_time);

/* Rank `me` of three, and the other end of its connection with rank `peer`. */
enum { N = 3 };
static struct tcp_endpoint *open_end(int me, int peer, int *other)
{
    struct tt_endpoint_params params = { .n = N, .me = me, .slot_bytes = SUITE_SLOT_BYTES };
    uint8_t address[TT_ADDRESS_BYTES];
    struct tt_endpoint *head;
    int ends[2];
    cr_assert_eq(tt_tcp.open(&params, address, &head), TUTTI_OK, "%s", tt_last_error());
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    struct tcp_endpoint *e = (struct tcp_endpoint *)head;
    tt_clofork_lock();
    tt_clofork_add(ends[0]);
    tt_clofork_unlock();
    tt_tcp_know(e, peer);
    e->peers[peer].fd = ends[0];
    atomic_store(&e->peers[peer].connection, TCP_OPEN);
    *other = ends[1];
    return e;
}

static void say(int fd, struct tcp_frame frame, const void *payload)
{
    cr_assert_eq(send(fd, &frame, sizeof frame, MSG_NOSIGNAL), sizeof frame);
    if (frame.bytes > 0)
        cr_assert_eq(send(fd, payload, frame.bytes, MSG_NOSIGNAL), (ssize_t)frame.bytes);
}

/* --- A turn of reading */

/* Many short frames, and one now and then whose bytes are read past the buffer. */
enum { BLOCKS = 32, WORDS = 40000, LONG_BYTES = 20008 };
struct block {
    struct tcp_frame message;
    uint8_t payload[LONG_BYTES];
    struct tcp_frame words[WORDS];
};
_Static_assert(
    offsetof(struct block, words) == sizeof(struct tcp_frame) + LONG_BYTES, "frames without a gap");

static void *say_much(void *fd)
{
    struct block *block = calloc(1, sizeof *block);
    block->message = (struct tcp_frame){ .kind = TCP_MESSAGE, .bytes = sizeof block->payload };
    for (int i = 0; i < WORDS; i++)
        block->words[i].kind = TCP_WANT;
    for (int i = 0; i < BLOCKS; i++, block->message.number++)
        if (send(*(int *)fd, block, sizeof *block, MSG_NOSIGNAL) != sizeof *block)
            break;
    shutdown(*(int *)fd, SHUT_WR);
    free(block);
    return NULL;
}

/* A turn is limited, for the sake of other peers; but what a turn has taken from the socket nobody is woken
 * for: it must not keep a whole frame of that. */
Test(tcp_wire, a_turn_of_reading_keeps_no_whole_frame)
{
    enum { ROOM = 16 << 20, FILL_MS = 20 };
    int other, room = ROOM;
    pthread_t thread;
    struct tcp_endpoint *e = open_end(0, 1, &other);
    const struct tcp_peer *p = &e->peers[1];
    struct tcp_slot *in = tt_tcp_link_of(e, 0, 1)->in;
    setsockopt(other, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room); /* root may, and turns are longer */
    cr_assert_eq(pthread_create(&thread, NULL, say_much, &other), 0);
    while (atomic_load(&p->connection) == TCP_OPEN) {
        tt_sleep_ms(FILL_MS); /* until there is more than a turn takes */
        tt_tcp_read(e, 1);
        for (int i = 0; i < TCP_SLOTS; i++)
            atomic_store(&in[i].state, TCP_FREE);
        cr_assert_lt(p->have - p->used, sizeof(struct tcp_frame), "%zu bytes stay", p->have - p->used);
    }
    pthread_join(thread, NULL);
    close(other);
    tt_tcp.close(&e->head);
}

/* --- System calls: a message of few bytes takes little else */

/* The linker puts these before those of the system (Makefile.am). */
static _Thread_local char calls[16];
static _Thread_local size_t ncalls;
static _Thread_local size_t send_most = SIZE_MAX; /* of a send: so little room does the socket have */

static void count_call(char what)
{
    if (ncalls < sizeof calls - 1)
        calls[ncalls++] = what;
}

ssize_t __real_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags);
ssize_t __wrap_recv(int fd, void *to, size_t bytes, int flags)
{
    count_call('r');
    return __real_recv(fd, to, bytes, flags);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    count_call('w');
    return __real_sendmsg(fd, message, flags);
}

ssize_t __real_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *from, size_t bytes, int flags)
{
    count_call('s');
    return __real_send(fd, from, bytes < send_most ? bytes : send_most, flags);
}

static void expect_calls(const char *like, const char *when)
{
    calls[ncalls] = 0;
    ncalls = 0;
    cr_expect_str_eq(calls, like, "%s: %s, not %s", when, calls, like);
}

static void lend_rooms(struct tcp_endpoint *e)
{
    struct tcp_link *link = tt_tcp_link_of(e, 0, 1);
    for (int i = 0; i < TCP_SLOTS; i++)
        tt_tcp_make_room(link, &link->out[i], 1);
}

/* A socket that gave less than it was asked for is empty. */
Test(tcp_wire, who_got_less_than_asked_for_does_not_ask_again)
{
    static const uint8_t payload[SUITE_SLOT_BYTES];
    enum { LONG = TCP_BUFFER_BYTES + 8 };
    int other;
    struct tcp_endpoint *e = open_end(0, 1, &other);
    struct tcp_slot *in = tt_tcp_link_of(e, 0, 1)->in;
    lend_rooms(e);
    tt_tcp_read(e, 1);
    expect_calls("r", "nothing is there");
    say(other, (struct tcp_frame){ .kind = TCP_MESSAGE, .bytes = 8 }, payload);
    say(other, (struct tcp_frame){ .kind = TCP_MESSAGE, .number = 1, .bytes = 8 }, payload);
    ncalls = 0;
    tt_tcp_read(e, 1);
    expect_calls("r", "two messages are there");
    cr_expect(atomic_load(&in[0].state) == TCP_FULL && atomic_load(&in[1].state) == TCP_FULL);
    say(other, (struct tcp_frame){ .kind = TCP_MESSAGE, .number = 2, .bytes = LONG }, payload);
    ncalls = 0;
    tt_tcp_read(e, 1);
    expect_calls("rr", "more is there than the buffer holds");
    cr_expect(atomic_load(&in[2].state) == TCP_FULL);
    close(other);
    tt_tcp_read(e, 1);
    cr_expect_eq(atomic_load(&e->peers[1].connection), TCP_CLOSED, "that it has ended is found later");
    tt_tcp.close(&e->head);
}

static void fill(struct tcp_endpoint *e, uint64_t number, uint64_t bytes)
{
    struct tcp_slot *out = &tt_tcp_link_of(e, 0, 1)->out[number % TCP_SLOTS];
    out->number = number;
    out->bytes = bytes;
    out->payload = out->memory;
    atomic_store(&out->state, TCP_FULL);
    atomic_fetch_or(&tt_tcp_link_of(e, 0, 1)->full, UINT64_C(1) << (number % TCP_SLOTS));
}

/* Who sends does not look first, or afterwards, what has come. Who cannot send all must, for the peer may be
 * at the same point; and who looks for something looks. */
Test(tcp_wire, what_is_to_be_said_goes_first)
{
    static const uint8_t payload[8];
    int other;
    struct tcp_endpoint *e = open_end(0, 1, &other);
    const struct tcp_link *link = tt_tcp_link_of(e, 0, 1);
    lend_rooms(e);
    say(other, (struct tcp_frame){ .kind = TCP_MESSAGE, .bytes = 8 }, payload);
    fill(e, 0, 8);
    ncalls = 0;
    tt_tcp_drive(e, 1, true);
    expect_calls("s", "a message is sent");
    cr_expect(atomic_load(&link->out[0].state) == TCP_DONE && atomic_load(&link->in[0].state) == TCP_FREE);
    tt_tcp_drive(e, 1, false);
    expect_calls("r", "a message is looked for");
    cr_expect_eq(atomic_load(&link->in[0].state), TCP_FULL);
    for (int i = 1; i < TCP_SLOTS; i++)
        fill(e, (uint64_t)i, SUITE_SLOT_BYTES);
    ncalls = 0;
    say(other, (struct tcp_frame){ .kind = TCP_MESSAGE, .number = 1, .bytes = 8 }, payload);
    tt_tcp_drive(e, 1, true);
    cr_expect_eq(atomic_load(&link->in[1].state), TCP_FULL, "who cannot send reads");
    close(other);
    tt_tcp.close(&e->head);
}

/* Sends a message of so many bytes by a turn, and hears it at the other end. */
static void send_one(struct tcp_endpoint *e, int other, uint64_t number, uint64_t bytes)
{
    static uint8_t heard[SUITE_SLOT_BYTES];
    struct tcp_slot *out = &tt_tcp_link_of(e, 0, 1)->out[number % TCP_SLOTS];
    struct tcp_frame frame;
    fill(e, number, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        out->memory[i] = (uint8_t)(31 * i + number);
    ncalls = 0;
    tt_tcp_drive(e, 1, true);
    size_t n = ncalls;
    cr_assert_eq(atomic_load(&out->state), TCP_DONE);
    cr_assert_eq(recv(other, &frame, sizeof frame, MSG_WAITALL), sizeof frame);
    cr_assert(frame.kind == TCP_MESSAGE && frame.number == number && frame.bytes == bytes);
    cr_assert_eq(recv(other, heard, bytes, MSG_WAITALL), (ssize_t)bytes);
    cr_expect_eq(memcmp(heard, out->memory, bytes), 0, "%llu bytes", (unsigned long long)bytes);
    ncalls = n;
}

/* Few bytes go with their head as one part; more are not copied. */
Test(tcp_wire, few_bytes_go_with_their_head)
{
    static const uint64_t few[] = { 1, 8, 511, 512 }, many[] = { 513, 4096, SUITE_SLOT_BYTES / 2 };
    uint64_t number = 0;
    int other;
    struct tcp_endpoint *e = open_end(0, 1, &other);
    lend_rooms(e);
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
        send_one(e, other, number++, few[i]);
        expect_calls("s", "few");
    }
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        send_one(e, other, number++, many[i]);
        expect_calls("w", "many");
    }
    close(other);
    tt_tcp.close(&e->head);
}

/* A socket with little room takes a part of them, and then the rest, and not the first part again. */
Test(tcp_wire, few_bytes_that_a_socket_takes_in_parts_come_whole)
{
    static const size_t rooms[] = { 1, 10, sizeof(struct tcp_frame), sizeof(struct tcp_frame) + 3 };
    int other;
    struct tcp_endpoint *e = open_end(0, 1, &other);
    lend_rooms(e);
    for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
        send_most = rooms[i];
        send_one(e, other, i, 100);
    }
    send_most = SIZE_MAX;
    close(other);
    tt_tcp.close(&e->head);
}

/* Where the system paces, a long message is written in parts. */
Test(tcp_wire, little_is_written_at_once_where_the_system_paces)
{
    enum { ROOM = 4 << 20 };
    int other, room = ROOM;
    struct tcp_endpoint *e = open_end(0, 1, &other);
    lend_rooms(e);
    setsockopt(e->peers[1].fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room); /* root may */
    for (uint64_t number = 0; number < 2; number++) {
        e->peers[1].paced = number == 1;
        fill(e, number, SUITE_SLOT_BYTES);
        ncalls = 0;
        tt_tcp_write(e, 1);
        expect_calls(number == 1 ? "ww" : "w", number == 1 ? "paced" : "not paced");
        cr_expect_eq(atomic_load(&tt_tcp_link_of(e, 0, 1)->out[number].state), TCP_DONE);
    }
    close(other);
    tt_tcp.close(&e->head);
}

/* --- A caller that sleeps */

static _Thread_local struct pollfd asleep[8];
static _Thread_local nfds_t asleep_count;

int __real_ppoll(struct pollfd *polled, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *polled, nfds_t count, const struct timespec *timeout, const sigset_t *mask);
int __wrap_ppoll(struct pollfd *polled, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    asleep_count = count < 8 ? count : 8;
    memcpy(asleep, polled, asleep_count * sizeof *asleep);
    return __real_ppoll(polled, count, timeout, mask);
}

static short sleeps_for(int fd)
{
    for (nfds_t i = 0; i < asleep_count; i++)
        if (asleep[i].fd == fd)
            return asleep[i].events;
    return 0;
}

static void sleep_shortly(struct tcp_endpoint *e, uint32_t ticket)
{
    asleep_count = 0;
    e->head.park(e, ticket, 1000000);
}

/* It is woken by bytes that come, by room for what it has begun to write, and by its bell, also if that rang
 * just before. Who connects wakes the thread. */
Test(tcp_wire, a_caller_sleeps_for_all_that_concerns_it)
{
    int other;
    struct tcp_endpoint *e = open_end(0, 1, &other);
    struct tcp_peer *p = &e->peers[1];
    uint32_t ticket = atomic_load(&e->head.doorbell->word);
    cr_assert_eq(tt_tcp_sleep_open(e), TUTTI_OK);
    cr_assert_not_null(e->head.park);
    sleep_shortly(e, ticket);
    cr_expect_eq(asleep_count, 2, "its bell and a peer");
    cr_expect_eq(sleeps_for(p->fd), POLLIN);
    p->to.size = 8; /* a frame is under way */
    sleep_shortly(e, ticket);
    cr_expect_eq(sleeps_for(p->fd), POLLIN | POLLOUT);
    p->to.size = 0;
    sleep_shortly(e, ticket - 1);
    cr_expect_eq(asleep_count, 0, "it was rung");
    close(other);
    tt_tcp.close(&e->head);
}

/* --- Versions */

/* An address of another version is refused with words: frames of it would be read as what they are not. */
Test(tcp_wire, another_version_is_refused)
{
    struct tt_endpoint_params params = { .n = 2, .slot_bytes = SUITE_SLOT_BYTES };
    uint8_t addresses[2 * TT_ADDRESS_BYTES];
    struct tcp_address other;
    struct tt_endpoint *head;
    cr_assert_eq(tt_tcp.open(&params, addresses, &head), TUTTI_OK);
    memcpy(&other, addresses, sizeof other);
    other.rank = 1;
    other.magic -= UINT64_C(1) << 48;
    memset(addresses + TT_ADDRESS_BYTES, 0, TT_ADDRESS_BYTES);
    memcpy(addresses + TT_ADDRESS_BYTES, &other, sizeof other);
    cr_assert_eq(tt_tcp.connect(head, addresses), TUTTI_MISMATCH);
    cr_assert_not_null(strstr(tt_last_error(), "rank 1"), "%s", tt_last_error());
    cr_assert_not_null(strstr(tt_last_error(), "one version of Tutti on all"), "%s", tt_last_error());
    tt_tcp.close(head);
}

/* --- Frames that no rank sends */

/* They end the connection, and nothing is written. A frame is read after one message, which is in slot 0. */
Test(tcp_wire, what_no_rank_sends_ends_the_connection)
{
    static const uint8_t payload[SUITE_SLOT_BYTES + 8];
    const struct tcp_frame wrong[] = { { .kind = TCP_KINDS }, { .kind = TCP_RELEASE, .class = TT_CLASSES },
        { .kind = TCP_RELEASE, .released = { 1 } }, { .kind = TCP_ASK, .bytes = 8 },
        { .kind = TCP_CLAIM, .bytes = 8 }, { .kind = TCP_MESSAGE, .number = 1 },
        { .kind = TCP_MESSAGE, .number = TCP_SLOTS, .bytes = 8 },
        { .kind = TCP_MESSAGE, .number = 1, .bytes = SUITE_SLOT_BYTES + 1 } };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        int other;
        struct tcp_endpoint *e = open_end(0, 1, &other);
        struct tcp_slot *in = tt_tcp_link_of(e, 0, 1)->in;
        say(other, (struct tcp_frame){ .kind = TCP_MESSAGE, .bytes = 8 }, payload);
        cr_assert_eq(send(other, &wrong[i], sizeof wrong[i], MSG_NOSIGNAL), sizeof wrong[i]);
        tt_tcp_read(e, 1);
        cr_expect(atomic_load(&in[0].state) == TCP_FULL && atomic_load(&in[1].state) == TCP_FREE);
        cr_expect_eq(atomic_load(&e->peers[1].state), TT_PEER_DEAD, "frame %zu is taken", i);
        close(other);
        tt_tcp.close(&e->head);
    }
}

/* --- What ends a communicator */

static void say_claim(int fd, int finder)
{
    struct tt_cause cause = { .status = TUTTI_ABORTED, .rank = finder };
    say(fd, (struct tcp_frame){ .kind = TCP_CLAIM, .number = (uint64_t)finder, .bytes = sizeof cause },
        &cause);
}

/* Two ranks have found a cause: the first that comes wins. */
Test(tcp_wire, the_first_claim_wins)
{
    int other;
    struct tcp_endpoint *e = open_end(0, 1, &other);
    say_claim(other, 2);
    say_claim(other, 1);
    tt_tcp_read(e, 1);
    tt_tcp_decide(e);
    cr_assert_eq(atomic_load(&e->end.decided), 1 + 2);
    cr_assert_eq(e->end.cause.rank, 2);
    close(other);
    tt_tcp.close(&e->head);
}

/* Who is not to decide says the claim of another rank to the one that is, in that one's name. */
Test(tcp_wire, a_claim_is_passed_on_to_who_decides)
{
    int other;
    struct tcp_frame frame;
    struct tt_cause cause;
    struct tcp_endpoint *e = open_end(1, 0, &other);
    say_claim(other, 2);
    tt_tcp_read(e, 0);
    tt_tcp_decide(e);
    cr_assert_eq(atomic_load(&e->end.decided), 0);
    tt_tcp_write(e, 0);
    cr_assert_eq(recv(other, &frame, sizeof frame, MSG_WAITALL), sizeof frame);
    cr_assert_eq(recv(other, &cause, sizeof cause, MSG_WAITALL), sizeof cause);
    cr_assert(frame.kind == TCP_CLAIM && frame.number == 2 && cause.rank == 2);
    tt_tcp_lose(e, 0, TT_PEER_DEAD);
    tt_tcp_decide(e);
    cr_assert_eq(atomic_load(&e->end.decided), 1 + 2);
    close(other);
    tt_tcp.close(&e->head);
}

/* A rank that no communicator of three has found nothing. */
Test(tcp_wire, a_claim_of_nobody_is_dropped)
{
    int other;
    struct tcp_endpoint *e = open_end(0, 1, &other);
    say_claim(other, N);
    tt_tcp_read(e, 1);
    tt_tcp_decide(e);
    cr_assert_eq(atomic_load(&e->end.decided), 0);
    close(other);
    tt_tcp.close(&e->head);
}

/* --- What ranks know of each other */

/* That a peer has completed an operation counts once the messages that a carrier has of it are here. */
Test(tcp_wire, a_promise_counts_after_what_was_sent_before)
{
    int other;
    struct tcp_endpoint *e = open_end(0, 1, &other);
    struct tcp_peer *p = &e->peers[1];
    say(other, (struct tcp_frame){ .kind = TCP_COMPLETED, .signature = 2, .number = 77 }, NULL);
    p->carried.received = 1;
    tt_tcp_read(e, 1);
    tt_tcp_keep_promises(e, 1);
    cr_assert_eq(atomic_load(&p->completed), 0);
    p->carried.received = 2;
    tt_tcp_keep_promises(e, 1);
    cr_assert_eq(atomic_load(&p->completed), 77);
    close(other);
    tt_tcp.close(&e->head);
}

enum { CELL_WORDS = 64, CELL_TIMES = 400000 };
static tcp_word cell[1 + CELL_WORDS];

static void *replace_often(void *unused)
{
    uint64_t words[CELL_WORDS];
    (void)unused;
    for (uint64_t time = 1; time <= CELL_TIMES; time++) {
        for (int i = 0; i < CELL_WORDS; i++)
            words[i] = time;
        tt_tcp_cell_write(cell, words, CELL_WORDS);
    }
    return NULL;
}

/* What is read while it is replaced is not taken: all words are of one time, and the version says which. */
Test(tcp_wire, a_cell_is_not_torn)
{
    pthread_t thread;
    uint64_t words[CELL_WORDS], version = 0;
    cr_assert_eq(tt_tcp_cell_read(cell, words, CELL_WORDS), 0);
    cr_assert_eq(pthread_create(&thread, NULL, replace_often, NULL), 0);
    while (version < 2 * CELL_TIMES) {
        version = tt_tcp_cell_read(cell, words, CELL_WORDS);
        for (int i = 0; i < CELL_WORDS && version != 0; i++)
            cr_assert_eq(words[i], version / 2, "word %d is of %llu, in version %llu", i,
                (unsigned long long)words[i], (unsigned long long)version);
    }
    pthread_join(thread, NULL);
}
