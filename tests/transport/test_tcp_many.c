/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_many.c: what an end of a large job takes. One rank makes its end of a communicator whose other
 * ranks are each on a host of their own; all that it hears of them are their addresses, so no other process
 * is needed. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "comm/lifecycle.h"
#include "run/settings.h"
#include "tests/rig/patience.h"
#include "transport_suite.h"
#include "transports/tcp.h"

enum { MANY = 1024, LOOK_MS = 20000, SLACK = 256 << 10 };

static void limit_time(void)
{
    alarm(patience_seconds(60));
}

TestSuite(tcp_many, .init = limit_time);

/* What the system has given this process of memory, in bytes. */
static long resident(void)
{
    char line[128];
    long kib = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    while (file != NULL && kib < 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Rss: %ld kB", &kib) != 1)
            kib = -1;
    if (file != NULL)
        fclose(file);
    cr_assert_geq(kib, 0, "no Rss in /proc/self/smaps_rollup");
    return kib * 1024;
}

/* The beginning of an address of shared memory (shm.c). */
struct here {
    uint64_t magic;
    uint32_t version, token;
    uint8_t uuid[16]; /* of memory that ranks of one host know */
    uint64_t offset, bytes, probe_at, probe;
    int32_t rank;
};

/* Makes of what one rank says of itself, its addresses among it, what one of another host would say. */
static void say_as(int rank, uint8_t *words, size_t bytes)
{
    const uint64_t away = TCP_MAGIC;
    for (size_t i = 0; i + sizeof(struct tcp_address) <= bytes; i += 8) {
        if (memcmp(words + i, "maddress", 8) == 0) {
            words[i + offsetof(struct here, uuid)] ^= rank > 0;
            memcpy(words + i + offsetof(struct here, rank), &rank, sizeof(int32_t));
        }
        if (memcmp(words + i, &away, sizeof away) == 0)
            memcpy(words + i + offsetof(struct tcp_address, rank), &rank, sizeof(int32_t));
    }
}

static tutti_status echo(void *n, tutti_status status, const void *mine, uint64_t bytes, void *all)
{
    for (int r = 0; r < *(int *)n && bytes > 0; r++) {
        memcpy((uint8_t *)all + (size_t)r * bytes, mine, bytes);
        say_as(r, (uint8_t *)all + (size_t)r * bytes, bytes);
    }
    return status;
}

/* Makes the end of rank 0 of n. Returns how many bytes it takes. */
static long make_end(int n, tutti_comm **comm)
{
    struct tt_settings settings;
    void *room = tt_comm_room(n);
    int32_t *host_of = calloc((size_t)n, sizeof *host_of);
    cr_assert_eq(tt_settings_read(&settings, "network=tcp"), TUTTI_OK, "%s", tt_last_error());
    for (int r = 0; r < n; r++)
        host_of[r] = r;
    long before = resident();
    cr_assert_eq(tt_comm_establish(n, 0, &settings, NULL, NULL, host_of, echo, &n, room, comm), TUTTI_OK,
        "%s", tt_last_error());
    long bytes = resident() - before;
    free(host_of);
    free(room);
    return bytes;
}

/* Opens the end of this rank, and says what the ranks behind it would say. */
static struct tt_endpoint *open_end(int n, int me, uint8_t *addresses)
{
    struct tt_endpoint_params params = { .n = n, .me = me, .slot_bytes = SUITE_SLOT_BYTES };
    struct tt_endpoint *e;
    uint8_t *mine = addresses + (size_t)me * TT_ADDRESS_BYTES;
    cr_assert_eq(tt_tcp.open(&params, mine, &e), TUTTI_OK, "%s", tt_last_error());
    for (int r = me + 1; r < n; r++) {
        memcpy(addresses + (size_t)r * TT_ADDRESS_BYTES, mine, TT_ADDRESS_BYTES);
        say_as(r, addresses + (size_t)r * TT_ADDRESS_BYTES, TT_ADDRESS_BYTES);
    }
    return e;
}

/* The first of these sizes is what any end takes, with its thread. */
enum { SIZES = 4 };
static const int sizes[SIZES] = { 2, 64, 256, MANY };

static void expect_linear(const long bytes[SIZES], long of_each)
{
    for (int i = 0; i < SIZES; i++) {
        cr_log_info("%d ranks: %ld KiB", sizes[i], bytes[i] / 1024);
        cr_expect_leq(bytes[i] - bytes[0], SLACK + sizes[i] * of_each, "%d ranks: %ld KiB; %d: %ld KiB",
            sizes[0], bytes[0] / 1024, sizes[i], bytes[i] / 1024);
    }
}

/* An address of 256 bytes, what is known of a rank besides, and its part of what is polled. */
Test(tcp_many, an_endpoint_takes_little_memory_of_each_rank)
{
    struct tt_endpoint *ends[SIZES];
    uint8_t *addresses = malloc(MANY * TT_ADDRESS_BYTES);
    long bytes[SIZES];
    for (int i = 0; i < SIZES; i++) {
        memset(addresses, 0, MANY * TT_ADDRESS_BYTES); /* so that it has its memory */
        long before = resident();
        ends[i] = open_end(sizes[i], 0, addresses);
        cr_assert_eq(tt_tcp.connect(ends[i], addresses), TUTTI_OK, "%s", tt_last_error());
        bytes[i] = resident() - before;
    }
    expect_linear(bytes, 1536);
    for (int i = 0; i < SIZES; i++)
        tt_tcp.close(ends[i]);
    free(addresses);
}

/* 8 KiB and more of each rank are shared memory, though it is on another host. */
Test(tcp_many, a_communicator_grows_with_its_ranks_and_no_faster)
{
    tutti_comm *comms[SIZES];
    long bytes[SIZES];
    for (int i = 0; i < SIZES; i++)
        bytes[i] = make_end(sizes[i], &comms[i]);
    expect_linear(bytes, 12 << 10);
    for (int i = 0; i < SIZES; i++)
        cr_expect_eq(tutti_comm_destroy(comms[i]), TUTTI_OK);
}

/* A rank that is talked with takes more, and none of it is of others. */
Test(tcp_many, who_talks_takes_memory_for_that_alone)
{
    enum { A_TALK = 512 << 10, LONG = SUITE_SLOT_BYTES };
    uint8_t *addresses = calloc(MANY, TT_ADDRESS_BYTES), *from = calloc(1, LONG);
    struct tt_endpoint *ends[2];
    struct tt_arrival a;
    for (int me = 0; me < 2; me++)
        ends[me] = open_end(MANY, me, addresses);
    for (int me = 0; me < 2; me++)
        cr_assert_eq(tt_tcp.connect(ends[me], addresses), TUTTI_OK, "%s", tt_last_error());
    struct tt_layout layout;
    tt_layout_even(&layout, LONG, 1, 1, 1);
    struct tt_message m = { .bytes = LONG,
        .source = { .layout = &layout, .nchunks = 1, .space = { .base = (uintptr_t)from } } };
    struct tt_link *link = tt_link_to(ends[0], TT_CLASS_P2P, 1),
                   *other = tt_link_to(ends[1], TT_CLASS_P2P, 0);
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    long before = resident();
    cr_assert(link_send(link, &m));
    while (!link_arrived(other, 0, NULL, &a) && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    cr_assert(link_arrived(other, 0, NULL, &a));
    long bytes = resident() - before;
    cr_expect_leq(bytes, A_TALK + LONG, "%ld KiB for one long message", bytes / 1024);
    link_release(other, 0);
    for (int me = 0; me < 2; me++)
        tt_tcp.close(ends[me]);
    free(addresses);
    free(from);
}
