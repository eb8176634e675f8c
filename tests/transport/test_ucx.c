/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ucx.c: communicators of one process that share its worker of UCX: what the common suite, which has one
 * communicator at a time, cannot ask. Both ranks of a pair are in one process, and so have one worker. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/schedule.h"
#include "base/status.h"
#include "link.h"
#include "tests/rig/patience.h"
#include "transports/tcp.h"

enum { BYTES = 300000, COMMUNICATORS = 4, LOOK_MS = 20000 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
    if (!has_ucx())
        cr_skip_test("there is no plugin for UCX");
}

TestSuite(ucx, .init = limit_time);

struct pair { /* a communicator of two ranks */
    struct tt_endpoint *ends[2];
};

static void open_pair(struct pair *pair)
{
    uint8_t addresses[2 * TT_ADDRESS_BYTES];
    for (int r = 0; r < 2; r++) {
        struct tt_endpoint_params params = {
            .n = 2, .me = r, .slot_bytes = BYTES, .network = TT_NETWORK_UCX
        };
        cr_assert_eq(tt_tcp.open(&params, addresses + r * TT_ADDRESS_BYTES, &pair->ends[r]), TUTTI_OK, "%s",
            tt_last_error());
    }
    for (int r = 0; r < 2; r++) {
        cr_assert_eq(tt_tcp.connect(pair->ends[r], addresses), TUTTI_OK);
        tt_endpoint_enter(pair->ends[r]);
    }
}

static void close_pair(struct pair *pair)
{
    for (int r = 0; r < 2; r++)
        tt_tcp.close(pair->ends[r]);
}

/* Message `number`, from rank 0, which is all bytes of `key`. */
static void send_one(struct pair *pair, uint64_t number, uint8_t key, uint8_t *memory, uint64_t bytes)
{
    struct tt_layout layout;
    struct tt_message m = { .number = number, .bytes = bytes, .signature = 7 };
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    memset(memory, key, bytes);
    tt_layout_even(&layout, bytes, 1, 1, 1);
    m.source = (struct tt_view){ .layout = &layout, .nchunks = 1, .space.base = (uintptr_t)memory };
    while (!link_send(tt_link_to(pair->ends[0], TT_CLASS_P2P, 1), &m))
        cr_assert_lt(tt_now_ns(), deadline_ns, "message %d is never taken", (int)number);
}

static void expect_one(struct pair *pair, uint64_t number, uint8_t key, uint64_t bytes)
{
    struct tt_link *link = tt_link_to(pair->ends[1], TT_CLASS_P2P, 0);
    struct tt_view like = { 0 };
    struct tt_arrival a;
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (!link_arrived(link, number, &like, &a))
        cr_assert_lt(tt_now_ns(), deadline_ns, "message %d never arrives", (int)number);
    const uint8_t *there = (const uint8_t *)a.base;
    uint64_t right = 0;
    while (right < bytes && there[right] == key)
        right++;
    cr_expect_eq(a.bytes, bytes);
    cr_expect_eq(right, bytes, "byte %d of message %d is wrong", (int)right, (int)number);
    link_release(link, number);
    while (!link_sent(tt_link_to(pair->ends[0], TT_CLASS_P2P, 1), number))
        cr_assert_lt(tt_now_ns(), deadline_ns, "message %d is never sent", (int)number);
}

static uint8_t memory[COMMUNICATORS][BYTES];

/* Sends in all communicators before it looks, in the other order, so that what comes is another one's. */
static void exchange(struct pair *pairs, int count, uint64_t number)
{
    /* Up to 512: as one part with the head. */
    static const uint64_t sizes[] = { 8, 9000, BYTES, 512, 513, 13 };
    uint64_t bytes = sizes[number % (sizeof sizes / sizeof *sizes)];
    for (int i = 0; i < count; i++)
        send_one(&pairs[i], number, (uint8_t)(number + 50 * (uint64_t)i), memory[i], bytes);
    for (int i = count - 1; i >= 0; i--)
        expect_one(&pairs[i], number, (uint8_t)(number + 50 * (uint64_t)i), bytes);
}

static int count_descriptors(void)
{
    DIR *open = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(open) != NULL)
        count++;
    closedir(open);
    return count;
}

/* A communicator costs each rank a listener, an eventfd, a spare descriptor, and a connection to a peer, two
 * for a moment. A worker of its own would be nine or more, and a connection of it to each peer. */
Test(ucx, communicators_share_a_worker)
{
    struct pair pairs[COMMUNICATORS];
    open_pair(&pairs[0]);
    exchange(pairs, 1, 0);
    int one = count_descriptors();
    for (int i = 1; i < COMMUNICATORS; i++)
        open_pair(&pairs[i]);
    for (uint64_t number = 1; number < 60; number++) {
        exchange(&pairs[0], 1, number);
        exchange(&pairs[1], COMMUNICATORS - 1, number - 1);
    }
    int all = count_descriptors();
    cr_expect_leq(all - one, (COMMUNICATORS - 1) * 10, "%d descriptors more for %d communicators more",
        all - one, COMMUNICATORS - 1);
    for (int i = 0; i < COMMUNICATORS; i++)
        close_pair(&pairs[i]);
}

/* It closes while messages of it are on their way, as of a rank that has failed. */
Test(ucx, one_that_ends_leaves_the_others)
{
    struct pair pairs[2], third;
    int before = count_descriptors();
    open_pair(&pairs[0]);
    open_pair(&pairs[1]);
    exchange(pairs, 2, 0);
    for (uint64_t number = 1; number < 5; number++)
        send_one(&pairs[0], number, 1, memory[0], BYTES);
    for (int r = 0; r < 2; r++)
        cr_expect(pairs[0].ends[r]->control->quiet(pairs[0].ends[r], true));
    memset(memory[0], 9, BYTES); /* nobody reads it any more */
    exchange(&pairs[1], 1, 1);
    close_pair(&pairs[0]);
    exchange(&pairs[1], 1, 2);
    open_pair(&third);
    exchange(&third, 1, 0);
    exchange(&pairs[1], 1, 3);
    close_pair(&pairs[1]);
    exchange(&third, 1, 1);
    close_pair(&third);
    /* what stays is the context's */
    open_pair(&third);
    close_pair(&third);
    int once = count_descriptors();
    open_pair(&third);
    exchange(&third, 1, 0);
    close_pair(&third);
    cr_expect_eq(count_descriptors(), once, "%d descriptors before, %d and %d after", before, once,
        count_descriptors());
}

/* A user may have UCX fetch all messages. The head of one of few bytes lies before them, so those come. */
Test(ucx, few_bytes_are_never_fetched)
{
    struct pair pairs[2];
    setenv("UCX_RNDV_THRESH", "0", 1);
    open_pair(&pairs[0]);
    open_pair(&pairs[1]);
    for (uint64_t number = 0; number < 20; number++)
        exchange(pairs, 2, number);
    close_pair(&pairs[0]);
    close_pair(&pairs[1]);
}

static uint64_t resident_bytes(void)
{
    unsigned long long all, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    cr_assert_eq(fscanf(file, "%llu %llu", &all, &resident), 2);
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A long message is read where UCX has it, and given back: 200 of them would be 60 MB. */
Test(ucx, what_is_kept_is_given_back)
{
    enum { MESSAGES = 200, WARM = 20 };
    struct pair pair;
    uint64_t before = 0;
    int kept = 0;
    open_pair(&pair);
    for (uint64_t number = 0; number < MESSAGES; number++) {
        const struct tcp_link *link = (const void *)tt_link_to(pair.ends[1], TT_CLASS_P2P, 0);
        if (number == WARM)
            before = resident_bytes();
        send_one(&pair, number, (uint8_t)number, memory[0], BYTES);
        expect_one(&pair, number, (uint8_t)number, BYTES);
        kept += link->in[number % TCP_SLOTS].payload != link->in[number % TCP_SLOTS].memory;
    }
    uint64_t grown = resident_bytes() - before;
    cr_expect_eq(kept, MESSAGES, "%d of %d messages were read where UCX had them", kept, MESSAGES);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what is freed */
    cr_expect_lt(grown, UINT64_C(10000000), "memory grew by %llu bytes", (unsigned long long)grown);
#else
    (void)grown;
#endif
    close_pair(&pair);
}

static bool refuses_in_child(void)
{
    uint8_t address[TT_ADDRESS_BYTES];
    struct tt_endpoint *end;
    struct tt_endpoint_params params = { .n = 2, .slot_bytes = BYTES, .network = TT_NETWORK_UCX };
    alarm(20);
    bool refused = tt_tcp.open(&params, address, &end) == TUTTI_UNSUPPORTED &&
                   strstr(tt_last_error(), "forked by one that used UCX") != NULL;
    params.network = TT_NETWORK_AUTO;
    bool by_tcp = tt_tcp.open(&params, address, &end) == TUTTI_OK;
    if (by_tcp)
        tt_tcp.close(end);
    return refused && by_tcp;
}

/* In a child of fork() UCX would wait for a thread that is not there; so the child is told, and may use TCP.
 * What the parent has goes on. */
Test(ucx, a_forked_child_is_told)
{
    struct pair pair;
    int status;
    open_pair(&pair);
    exchange(&pair, 1, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(refuses_in_child() ? 0 : 1);
    for (uint64_t number = 1; number < 7; number++)
        exchange(&pair, 1, number);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0, "the child ended with %x", (unsigned)status);
    exchange(&pair, 1, 7);
    close_pair(&pair);
}

/* --- A rank that sleeps, and a peer in another process */

struct meeting { /* in memory that both processes have */
    uint8_t addresses[2 * TT_ADDRESS_BYTES];
    _Atomic int here, wanted, taken;
};

static struct meeting *new_meeting(void)
{
    void *shared =
        mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(shared, MAP_FAILED);
    return shared;
}

static void wait_for(const _Atomic int *word, int value, const char *what)
{
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (atomic_load(word) < value) {
        cr_assert_lt(tt_now_ns(), deadline_ns, "%s %d", what, value);
        tt_sleep_ms(1);
    }
}

static struct tt_endpoint *meet(struct meeting *m, int me)
{
    struct tt_endpoint_params params = { .n = 2, .me = me, .slot_bytes = BYTES, .network = TT_NETWORK_UCX };
    struct tt_endpoint *e;
    cr_assert_eq(
        tt_tcp.open(&params, m->addresses + me * TT_ADDRESS_BYTES, &e), TUTTI_OK, "%s", tt_last_error());
    atomic_fetch_add(&m->here, 1);
    wait_for(&m->here, 2, "ranks do not meet:");
    cr_assert_eq(tt_tcp.connect(e, m->addresses), TUTTI_OK);
    tt_endpoint_enter(e);
    return e;
}

/* Sends a message whenever one more is wanted, and leaves when all have been taken. */
static void send_as_wanted(struct meeting *m, int count)
{
    struct pair pair = { { meet(m, 0), NULL } };
    for (int number = 0; number < count; number++) {
        wait_for(&m->wanted, number + 1, "nobody wants message");
        send_one(&pair, (uint64_t)number, 5, memory[0], 8);
        wait_for(&m->taken, number + 1, "nobody takes message");
    }
    tt_tcp.close(pair.ends[0]);
    _exit(0);
}

/* No call of the receiver drives: its thread finds the message by itself, while that of another communicator
 * is the one that looks, and when that one has gone. */
Test(ucx, a_sleeper_is_woken)
{
    enum { MESSAGES = 6, CLOSES = 3 };
    struct meeting *m = new_meeting();
    struct pair other;
    pid_t child = fork();
    if (child == 0)
        send_as_wanted(m, MESSAGES);
    struct tt_endpoint *e = meet(m, 1);
    struct tt_link *link = tt_link_to(e, TT_CLASS_P2P, 0);
    open_pair(&other);
    for (uint64_t number = 0; number < MESSAGES; number++) {
        if (number < CLOSES)
            exchange(&other, 1, number); /* its callers drive, so its threads look */
        if (number == CLOSES)
            close_pair(&other);
        tt_sleep_ms(20);
        const struct tcp_slot *slot = &((struct tcp_link *)(void *)link)->in[number % TCP_SLOTS];
        int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
        atomic_fetch_add(&m->wanted, 1);
        while (atomic_load(&slot->state) != TCP_FULL || slot->number != number)
            cr_assert_lt(tt_now_ns(), deadline_ns, "message %d wakes nobody", (int)number);
        link_release(link, number);
        atomic_fetch_add(&m->taken, 1);
    }
    tt_tcp.close(e);
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
}

/* --- A network that takes no message */

static struct tt_carrier_table broken;

static int refuse_to_send(struct tt_carrier *c, int peer, const struct tt_carrier_address *address,
    const struct tt_carrier_head *head, const void *payload, uint64_t bytes, void *send)
{
    (void)c, (void)peer, (void)address, (void)head, (void)payload, (void)bytes, (void)send;
    return -1;
}

/* Sends to a peer in another process, by a network that broke a moment ago. */
static struct tt_endpoint *send_in_vain(pid_t *peer)
{
    struct meeting *m = new_meeting();
    *peer = fork();
    struct tt_endpoint *e = meet(m, *peer == 0 ? 1 : 0);
    while (*peer == 0)
        pause();
    struct tcp_endpoint *t = (struct tcp_endpoint *)e;
    pthread_mutex_lock(&t->driving);
    broken = *t->carries;
    broken.send = refuse_to_send;
    t->carries = &broken;
    pthread_mutex_unlock(&t->driving);
    send_one(&(struct pair){ { e, NULL } }, 0, 5, memory[0], 8);
    return e;
}

static bool ends(struct tt_endpoint *e, int within_ms, struct tt_cause *cause)
{
    int64_t deadline_ns = tt_deadline_ns(within_ms);
    while (!e->control->cause(e, cause) && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    return e->control->cause(e, cause);
}

/* The network may see a death before the connection does, which alone can say so. */
Test(ucx, a_death_is_no_firewall)
{
    pid_t peer;
    struct tt_cause cause;
    struct tt_peer_place place;
    struct tt_endpoint *e = send_in_vain(&peer);
    tt_sleep_ms(100);
    kill(peer, SIGKILL);
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (e->control->peer_state(e, 1, &place) == TT_PEER_ALIVE && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    cr_expect_neq(e->control->peer_state(e, 1, &place), TT_PEER_ALIVE);
    cr_expect_not(ends(e, 2000, &cause), "%s", cause.text);
    waitpid(peer, NULL, 0);
    tt_tcp.close(e);
}

Test(ucx, a_broken_network_is_told)
{
    pid_t peer;
    struct tt_cause cause;
    struct tt_endpoint *e = send_in_vain(&peer);
    cr_expect(ends(e, LOOK_MS, &cause), "nothing ends");
    cr_expect(strstr(cause.text, "the network takes no message to it") != NULL, "%s", cause.text);
    kill(peer, SIGKILL);
    waitpid(peer, NULL, 0);
    tt_tcp.close(e);
}
