/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp.c: the transport by TCP between processes: what the common suite cannot ask. Processes
 * exchange, leave, die, and end a communicator at the same time; strangers knock. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/schedule.h"
#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/tcp.h"

enum { RANKS = 3, LOOK_MS = 20000 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(tcp, .init = limit_time);

static struct tt_endpoint *join(struct shm_rank *r)
{
    r->suite.transport = &tt_tcp;
    return shm_join(r);
}

/* Waits until it is seen that the peer is in this state. */
static bool becomes(struct tt_endpoint *e, int peer, enum tt_peer_state state)
{
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (peer_state(e, peer) != state && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    return peer_state(e, peer) == state;
}

static void exchange(struct shm_rank *r)
{
    struct tt_endpoint *e = join(r);
    r->suite.memory[0] = malloc(SUITE_EXCHANGE_BYTES);
    suite_exchange(&r->suite, e, r->stage->params.first_number, 40, 5);
    uint64_t copied = e->path_bytes[TT_PATH_COPIED];
    suite_expect(&r->suite, copied > 1 << 20, "only %llu bytes were sent", (unsigned long long)copied);
    tt_tcp.close(e); /* while others may still read what this rank sent */
    free(r->suite.memory[0]);
}

Test(tcp, processes_exchange)
{
    shm_stage_run(shm_stage_new(RANKS), exchange, -1);
}

enum { DIES = 2, CLAIM_MS = 100 /* more than a claim takes to come */ };

static void lose_one(struct shm_rank *r)
{
    uint8_t text[900];
    struct tt_endpoint *e = join(r);
    uint64_t number = r->stage->params.first_number;
    int other = 1 - r->me;
    suite_expect(&r->suite, peer_state(e, (r->me + 1) % RANKS) == TT_PEER_ALIVE, "it is not alive");
    if (r->me == DIES) {
        shm_meet(r);
        raise(SIGKILL);
    }
    shm_meet(r);
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    enum tt_peer_state state; /* a look may have met it before it died */
    while ((state = peer_state(e, DIES)) == TT_PEER_ALIVE && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    suite_expect(&r->suite, state == TT_PEER_REFUSES || state == TT_PEER_DEAD, "its death is not seen");
    suite_expect(&r->suite, peer_state(e, other) == TT_PEER_ALIVE, "the other one seems dead, too");
    shm_post(e, other, number, 7, text, sizeof text);
    shm_take(r, e, other, number, 7, sizeof text);
    if (r->me == 0) {
        tt_tcp.close(e);
        return;
    }
    suite_expect(&r->suite, becomes(e, 0, TT_PEER_LEFT), "who left is not seen to");
    tt_tcp.close(e);
}

/* The rank has talked with the others, and leaves a child behind that lives on. */
static void lose_a_parent(struct shm_rank *r)
{
    uint8_t text[900];
    struct tt_endpoint *e = join(r);
    uint64_t number = r->stage->params.first_number;
    int next = (r->me + 1) % RANKS, before = (r->me + RANKS - 1) % RANKS;
    shm_post(e, next, number, 7, text, sizeof text);
    shm_take(r, e, before, number, 7, sizeof text);
    shm_meet(r);
    if (r->me == DIES && fork() == 0) {
        alarm(2 * LOOK_MS / 1000);
        pause();
        _exit(0);
    }
    if (r->me == DIES)
        raise(SIGKILL);
    suite_expect(&r->suite, becomes(e, DIES, TT_PEER_DEAD), "its death is not seen");
    tt_tcp.close(e);
}

Test(tcp, a_death_is_seen_behind_a_child)
{
    shm_stage_run(shm_stage_new(RANKS), lose_a_parent, DIES);
}

Test(tcp, a_death_is_seen)
{
    shm_stage_run(shm_stage_new(RANKS), lose_one, DIES);
}

/* Waits until this rank sees a cause. */
static bool sees_cause(struct tt_endpoint *e, struct tt_cause *cause)
{
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (!e->control->cause(e, cause) && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    return e->control->cause(e, cause);
}

/* All find a cause at the same time; rank 0, which decides, is late in every second round. */
static void abort_together(struct shm_rank *r)
{
    enum { ROUNDS = 60 };
    _Atomic uint64_t *winners = r->stage->numbers;
    for (int round = 0; round < ROUNDS; round++) {
        struct tt_endpoint *e = join(r);
        struct tt_cause mine = { .status = TUTTI_ABORTED, .rank = r->me, .sequence = (uint64_t)round };
        struct tt_cause *seen = &r->stage->causes[r->me];
        snprintf(mine.text, sizeof mine.text, "%d of %d", r->me, round);
        shm_meet(r);
        if (r->me == 0 && round % 2 == 0)
            tt_sleep_ms(1);
        uint64_t won = e->control->abort(e, &mine);
        atomic_fetch_add(&winners[round % 2], won);
        suite_expect(&r->suite, sees_cause(e, seen), "no cause after an abort");
        suite_expect(&r->suite, (seen->rank == r->me) == won, "the first cause is this one's, or is not");
        shm_meet(r);
        for (int peer = 0; peer < r->n; peer++)
            suite_expect(&r->suite, strcmp(r->stage->causes[peer].text, seen->text) == 0, "%s, but %s",
                r->stage->causes[peer].text, seen->text);
        suite_expect(&r->suite, seen->sequence == (uint64_t)round, "a cause of round %d, in round %d",
            (int)seen->sequence, round);
        suite_expect(&r->suite, atomic_load(&winners[round % 2]) == 1, "not one winner");
        if (r->me == 0)
            atomic_store(&winners[(round + 1) % 2], 0);
        tt_tcp.close(e);
        shm_meet(r);
    }
}

Test(tcp, one_cause_wins)
{
    shm_stage_run(shm_stage_new(RANKS), abort_together, -1);
}

/* A rank's thread finds that another one cannot be reached, and then its caller finds something, too: what
 * the thread found is the cause, and the caller is told that its own is not. */
static void abort_after_thread(struct shm_rank *r)
{
    struct tt_endpoint *e = join(r);
    struct tt_cause mine = { .status = TUTTI_ABORTED, .rank = r->me, .text = "of the caller" }, seen;
    if (r->me == 1) {
        tt_tcp_claim_unreachable((struct tcp_endpoint *)e, 2, "no way");
        suite_expect(&r->suite, !e->control->abort(e, &mine), "the caller's cause has won");
    }
    suite_expect(&r->suite, sees_cause(e, &seen), "no cause after an abort");
    suite_expect(
        &r->suite, seen.rank == 1 && seen.peer == 2 && strstr(seen.text, "no way") != NULL, "%s", seen.text);
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp, what_the_thread_found_first_is_the_cause)
{
    shm_stage_run(shm_stage_new(RANKS), abort_after_thread, -1);
}

/* One ends it for itself, and its thread cannot reach another one after that, which ends it for nobody. */
static void abort_alone(struct shm_rank *r)
{
    const struct tt_cause why = { .status = TUTTI_ABORTED, .rank = DIES, .text = "alone" };
    struct tt_cause seen;
    uint8_t text[900];
    struct tt_endpoint *e = join(r);
    uint64_t number = r->stage->params.first_number;
    int next = (r->me + 1) % RANKS, before = (r->me + RANKS - 1) % RANKS, other = 1 - r->me;
    shm_post(e, next, number, 7, text, sizeof text);
    shm_take(r, e, before, number, 7, sizeof text);
    shm_meet(r);
    if (r->me == DIES) {
        suite_expect(&r->suite, e->control->abort_local(e, &why), "it had ended before");
        tt_tcp_claim_unreachable((struct tcp_endpoint *)e, 0, "for this test");
        suite_expect(&r->suite, e->control->cause(e, &seen) && strcmp(seen.text, "alone") == 0,
            "it has another cause");
    } else {
        suite_expect(&r->suite, becomes(e, DIES, TT_PEER_ABORTED), "it is not seen that one has left");
        shm_post(e, other, number + (r->me == 0), 7, text, sizeof text);
        shm_take(r, e, other, number + (r->me == 1), 7, sizeof text);
    }
    tt_sleep_ms(CLAIM_MS);
    suite_expect(&r->suite, r->me == DIES || !e->control->cause(e, &seen), "it has ended for all");
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp, a_rank_that_ends_it_for_itself_claims_nothing)
{
    shm_stage_run(shm_stage_new(RANKS), abort_alone, -1);
}

/* Rank 0, which decides, ends the communicator and dies at once, as a process that exits with an error. No
 * rank has said a word before. */
static void abort_and_die(struct shm_rank *r)
{
    struct tt_endpoint *e = join(r);
    struct tt_cause mine = { .status = TUTTI_ABORTED, .rank = r->me, .text = "last words" }, seen;
    if (r->me == 0) {
        suite_expect(&r->suite, e->control->abort(e, &mine), "its cause has not won");
        raise(SIGKILL);
    }
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (peer_state(e, 0) == TT_PEER_ALIVE && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    bool sees = e->control->cause(e, &seen);
    suite_expect(&r->suite, sees && strcmp(seen.text, "last words") == 0, "it died, and said nothing");
    tt_tcp.close(e);
}

Test(tcp, who_decides_tells_all_before_its_caller)
{
    for (int i = 0; i < 20; i++)
        shm_stage_run(shm_stage_new(RANKS), abort_and_die, 0);
}

/* A rank that is stopped takes no word: the one that decides does not wait for it for long. */
static void abort_beside_stopped(struct shm_rank *r)
{
    struct tt_endpoint *e = join(r);
    struct tt_cause mine = { .status = TUTTI_ABORTED, .rank = r->me }, seen;
    if (r->me == DIES)
        atomic_store(&r->stage->numbers[0], (uint64_t)getpid());
    if (r->me == 0) {
        pid_t stopped;
        while ((stopped = (pid_t)atomic_load(&r->stage->numbers[0])) == 0)
            tt_sleep_ms(1);
        kill(stopped, SIGSTOP);
        int64_t began_ns = tt_now_ns();
        e->control->abort(e, &mine);
        int64_t took_ms = (tt_now_ns() - began_ns) / 1000000;
        kill(stopped, SIGCONT);
        suite_expect(&r->suite, took_ms < 4000, "an abort took %lld ms", (long long)took_ms);
    }
    suite_expect(&r->suite, sees_cause(e, &seen), "no cause after an abort");
    tt_tcp.close(e);
}

Test(tcp, who_decides_does_not_wait_for_the_stopped)
{
    shm_stage_run(shm_stage_new(RANKS), abort_beside_stopped, -1);
}

/* The rank that would decide is dead: the others agree without it. */
static void abort_without_first(struct shm_rank *r)
{
    struct tt_endpoint *e = join(r);
    struct tt_cause mine = { .status = TUTTI_PEER_LOST, .rank = r->me, .peer = 0 }, seen;
    snprintf(mine.text, sizeof mine.text, "found by %d", r->me);
    if (r->me == 0) /* nothing that it hears from now on is decided by it */
        pthread_mutex_lock(&((struct tcp_endpoint *)e)->driving);
    shm_meet(r);
    if (r->me == 0)
        raise(SIGKILL);
    int64_t began_ns = tt_now_ns();
    bool won = e->control->abort(e, &mine);
    suite_expect(&r->suite, sees_cause(e, &seen), "no cause after an abort");
    suite_expect(&r->suite, (seen.rank == r->me) == won, "%s, but won is %d", seen.text, won);
    int64_t took_ms = (tt_now_ns() - began_ns) / 1000000;
    suite_expect(&r->suite, took_ms < 4000, "an abort took %lld ms", (long long)took_ms);
    atomic_store(&r->stage->numbers[r->me], (uint64_t)seen.rank);
    while (atomic_load(&r->stage->numbers[3 - r->me]) == 0)
        tt_sleep_ms(1);
    suite_expect(&r->suite, atomic_load(&r->stage->numbers[3 - r->me]) == (uint64_t)seen.rank, "two causes");
    tt_tcp.close(e);
}

Test(tcp, the_next_rank_decides)
{
    shm_stage_run(shm_stage_new(RANKS), abort_without_first, 0);
}

/* The rank that would decide is dead. The next one is outside of any call and has no connection with it, as
 * where they share a host, so it does not know; and others have no time to lose. */
static void abort_beside_idle(struct shm_rank *r)
{
    uint8_t text[900];
    struct tt_endpoint *e = join(r);
    uint64_t number = r->stage->params.first_number;
    struct tt_cause mine = { .status = TUTTI_PEER_LOST, .rank = r->me, .peer = 0 }, seen;
    if (r->me == 0)
        shm_post(e, 2, number, 7, text, sizeof text);
    if (r->me == 2)
        shm_take(r, e, 0, number, 7, sizeof text);
    shm_meet(r);
    if (r->me == 0)
        raise(SIGKILL);
    if (r->me == 2) {
        suite_expect(&r->suite, becomes(e, 0, TT_PEER_DEAD), "its death is not seen");
        int64_t began_ns = tt_now_ns();
        suite_expect(&r->suite, e->control->abort(e, &mine), "its cause has not won");
        int64_t took_ms = (tt_now_ns() - began_ns) / 1000000;
        suite_expect(&r->suite, took_ms < 4000, "an abort took %lld ms", (long long)took_ms);
    }
    suite_expect(&r->suite, sees_cause(e, &seen), "no cause after an abort");
    suite_expect(&r->suite, seen.rank == 2, "the cause is said to be found by %d", seen.rank);
    tt_tcp.close(e);
}

Test(tcp, the_next_rank_decides_though_it_waits_for_nothing)
{
    shm_stage_run(shm_stage_new(RANKS), abort_beside_idle, 0);
}

/* Returns how many sockets this process has. */
static int count_sockets(void)
{
    char path[64], what[64] = "";
    int found = 0;
    for (int fd = 0; fd < 256; fd++) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ssize_t length = readlink(path, what, sizeof what - 1);
        found += length > 7 && memcmp(what, "socket:", 7) == 0;
    }
    return found;
}

/* All dial each other at the same time: each two keep one connection, and what was said before goes on it. */
static void keep_one_connection(struct shm_rank *r)
{
    enum { ROUNDS = 30 };
    uint8_t text[100];
    for (int round = 0; round < ROUNDS; round++) {
        int before = count_sockets();
        struct tt_endpoint *e = join(r);
        uint64_t number = r->stage->params.first_number;
        shm_meet(r);
        for (int peer = 0; peer < RANKS; peer++)
            if (peer != r->me)
                shm_post(e, peer, number, (uint64_t)(10 * r->me + peer), text, sizeof text);
        for (int peer = 0; peer < RANKS; peer++)
            if (peer != r->me)
                shm_take(r, e, peer, number, (uint64_t)(10 * peer + r->me), sizeof text);
        shm_meet(r);
        int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
        while (count_sockets() - before > RANKS && tt_now_ns() < deadline_ns)
            tt_sleep_ms(1);
        int made = count_sockets() - before;
        suite_expect(
            &r->suite, made == RANKS, "a listener and %d connections to %d peers", made - 1, RANKS - 1);
        shm_meet(r);
        tt_tcp.close(e);
    }
}

Test(tcp, two_ranks_keep_one_connection)
{
    shm_stage_run(shm_stage_new(RANKS), keep_one_connection, -1);
}

/* Hands on what comes at one of two connections to the other one, until both ends have said all. */
static void relay(int one, int other)
{
    char bytes[4096];
    struct pollfd polled[] = { { one, POLLIN, 0 }, { other, POLLIN, 0 } };
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        poll(polled, 2, -1);
        for (int i = 0; i < 2; i++) {
            ssize_t got =
                polled[i].fd >= 0 && polled[i].revents != 0 ? read(polled[i].fd, bytes, sizeof bytes) : -1;
            if (got > 0 && send(i == 0 ? other : one, bytes, (size_t)got, MSG_NOSIGNAL) == got)
                continue;
            if (polled[i].revents != 0) {
                shutdown(i == 0 ? other : one, SHUT_WR);
                polled[i].fd = -1;
            }
        }
    }
}

/* Stands before a rank: hangs up on so many who come, and lets the others pass. */
struct doorman {
    struct tt_net rank;
    int listener, refuses;
};
static void *stand(void *argument)
{
    struct doorman *d = argument;
    for (int comes; (comes = accept(d->listener, NULL, NULL)) >= 0; close(comes)) {
        int rank = d->refuses-- > 0 ? -1 : tt_net_connect(&d->rank, LOOK_MS);
        if (rank >= 0)
            relay(comes, rank);
        if (rank >= 0)
            close(rank);
    }
    return NULL;
}

/* Rank 1 is told to be where its doorman is. */
static void post_doorman(struct shm_rank *r, struct doorman *d)
{
    struct tcp_address mine;
    memcpy(&mine, r->stage->addresses[1], sizeof mine);
    d->rank = mine.net;
    mine.net.port = 0;
    d->listener = tt_net_listen(&mine.net);
    fcntl(d->listener, F_SETFL, 0);
    memcpy(r->stage->addresses[1], &mine, sizeof mine);
}

/* Opens an endpoint, and connects it; rank 1 behind a doorman. */
static struct tt_endpoint *join_behind(struct shm_rank *r, struct doorman *d)
{
    struct tt_endpoint_params params = r->stage->params;
    struct tt_endpoint *e = NULL;
    params.me = r->me;
    suite_expect(&r->suite, tt_tcp.open(&params, r->stage->addresses[r->me], &e) == TUTTI_OK, "no endpoint");
    if (r->me == 1)
        post_doorman(r, d);
    shm_meet(r);
    suite_expect(&r->suite, tt_tcp.connect(e, r->stage->addresses[0]) == TUTTI_OK, "not connected");
    return e;
}

enum { TURNED_AWAY = 4, TOO_OFTEN = 5 };

/* Rank 0 dials rank 1 and is turned away, as where there is no room for one more stranger. It comes again,
 * and its message arrives; after five times rank 1 counts as gone. */
static void come_again(struct shm_rank *r)
{
    uint8_t text[100];
    uint64_t number = r->stage->params.first_number;
    for (int times = TURNED_AWAY; times <= TOO_OFTEN; times++) {
        struct doorman d = { .refuses = times };
        pthread_t thread;
        struct tt_endpoint *e = join_behind(r, &d);
        if (r->me == 0)
            shm_post(e, 1, number, 7, text, sizeof text);
        else
            pthread_create(&thread, NULL, stand, &d);
        if (times == TURNED_AWAY && r->me == 1)
            shm_take(r, e, 0, number, 7, sizeof text);
        if (times == TOO_OFTEN && r->me == 0)
            suite_expect(&r->suite, becomes(e, 1, TT_PEER_GONE), "it is not seen to be gone");
        shm_meet(r);
        tt_tcp.close(e);
        if (r->me == 1) {
            shutdown(d.listener, SHUT_RDWR);
            pthread_join(thread, NULL);
            close(d.listener);
        }
    }
}

Test(tcp, who_is_turned_away_comes_again)
{
    shm_stage_run(shm_stage_new(2), come_again, -1);
}

/* Rank 0 dials rank 1, and nobody answers; rank 1 dials rank 0 meanwhile. When rank 0's attempt fails, it
 * takes that connection. */
static void be_dialed(struct shm_rank *r)
{
    enum { MEANWHILE_MS = 100 };
    uint8_t text[100];
    uint64_t number = r->stage->params.first_number;
    struct doorman d = { .listener = -1 };
    struct tt_endpoint *e = join_behind(r, &d);
    if (r->me == 1) /* when rank 0 dials */
        tt_sleep_ms(MEANWHILE_MS);
    shm_post(e, 1 - r->me, number, (uint64_t)r->me, text, sizeof text);
    if (r->me == 1) {
        tt_sleep_ms(MEANWHILE_MS);
        close(d.listener);
    }
    shm_take(r, e, 1 - r->me, number, (uint64_t)(1 - r->me), sizeof text);
    tt_tcp.close(e);
}

Test(tcp, who_cannot_dial_is_dialed)
{
    shm_stage_run(shm_stage_new(2), be_dialed, -1);
}

/* Connects to a rank, and returns the connection. With `from`, which is a higher rank, it says what that one
 * would, but for the token, which it does not know; with TT_NONE it hangs up. */
static int knock(const uint8_t *address, int from)
{
    struct tcp_address read;
    memcpy(&read, address, sizeof read);
    struct tcp_greeting words = { .magic = TCP_MAGIC, .from = from, .to = read.rank };
    int fd = tt_net_connect(&read.net, LOOK_MS);
    cr_assert_geq(fd, 0);
    if (from != TT_NONE)
        cr_assert_eq(send(fd, &words, sizeof words, MSG_NOSIGNAL), sizeof words);
    else
        close(fd);
    return fd;
}

/* Strangers come first: they are turned away, and the ranks meet. */
static void meet_late(struct shm_rank *r)
{
    struct tt_endpoint_params params = r->stage->params;
    struct tt_endpoint *e = NULL;
    uint8_t text[100], *mine = r->stage->addresses[r->me];
    params.me = r->me;
    suite_expect(&r->suite, tt_tcp.open(&params, mine, &e) == TUTTI_OK, "no endpoint");
    knock(mine, TT_NONE);
    int stranger = knock(mine, RANKS - 1);
    shm_meet(r);
    suite_expect(&r->suite, tt_tcp.connect(e, r->stage->addresses[0]) == TUTTI_OK, "not connected");
    close(stranger);
    shm_meet(r);
    int next = (r->me + 1) % r->n, before = (r->me + r->n - 1) % r->n;
    shm_post(e, next, params.first_number, (uint64_t)r->me, text, sizeof text);
    shm_take(r, e, before, params.first_number, (uint64_t)before, sizeof text);
    tt_tcp.close(e);
}

Test(tcp, strangers_are_turned_away)
{
    shm_stage_run(shm_stage_new(RANKS), meet_late, -1);
}
