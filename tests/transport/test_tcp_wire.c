/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_wire.c: what goes over a connection of tcp, byte by byte: an endpoint that no thread drives, and at
 * the other end of its connection a test that says what no rank would say just so. */
#include <criterion/criterion.h>
#include <pthread.h>
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
    e->peers[peer].fd = ends[0];
    atomic_store(&e->peers[peer].connection, TCP_OPEN);
    *other = ends[1];
    return e;
}

/* --- A turn of reading */

/* Many short frames, and one now and then whose bytes are read past the buffer. */
enum { BLOCKS = 32, WORDS = 40000, LONG_BYTES = 20008 };
struct block {
    struct tcp_frame message;
    uint8_t payload[LONG_BYTES];
    struct tcp_frame words[WORDS];
};
_Static_assert(offsetof(struct block, words) == sizeof(struct tcp_frame) + LONG_BYTES, "frames without a gap");

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
    for (int i = 0; i < TT_SLOTS; i++)
        in[i].memory = e->memory;
    setsockopt(other, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room); /* root may, and turns are longer */
    cr_assert_eq(pthread_create(&thread, NULL, say_much, &other), 0);
    while (atomic_load(&p->connection) == TCP_OPEN) {
        tt_sleep_ms(FILL_MS); /* until there is more than a turn takes */
        tt_tcp_read(e, 1);
        for (int i = 0; i < TT_SLOTS; i++)
            atomic_store(&in[i].state, TCP_FREE);
        cr_assert_lt(p->have - p->used, sizeof(struct tcp_frame), "%zu bytes stay", p->have - p->used);
    }
    pthread_join(thread, NULL);
    close(other);
    tt_tcp.close(&e->head);
}
