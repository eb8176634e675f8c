/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_limits.c: the transport by TCP where a process may open few files. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/tcp_thread.h"

enum { RANKS = 3 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(tcp_limits, .init = limit_time);

/* This process may have so many files open from now on. */
static void limit_files(rlim_t files)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){ files, files });
}

/* Fewer than there are places for strangers: no connection is refused, for none is one too many. */
static void exchange_with_few_files(struct shm_rank *r)
{
    enum { FEW = 30 };
    r->suite.transport = &tt_tcp;
    r->suite.memory[0] = malloc(SUITE_EXCHANGE_BYTES);
    limit_files(FEW);
    struct tt_endpoint *e = shm_join(r);
    suite_exchange(&r->suite, e, r->stage->params.first_number, 5, 5);
    tt_tcp.close(e);
    free(r->suite.memory[0]);
}

Test(tcp_limits, few_files_are_enough_for_few_ranks)
{
    shm_stage_run(shm_stage_new(RANKS), exchange_with_few_files, -1);
}

/* A process that lowers its limit below what it has open is served all the same: poll refuses it. */
static void exchange_blindly(struct shm_rank *r)
{
    r->suite.transport = &tt_tcp;
    r->suite.memory[0] = malloc(SUITE_EXCHANGE_BYTES);
    struct tt_endpoint *e = shm_join(r);
    suite_exchange(&r->suite, e, r->stage->params.first_number, 1, 5);
    limit_files(1);
    suite_exchange(&r->suite, e, r->stage->params.first_number + TCP_SLOTS, 2, 6);
    tt_tcp.close(e);
    free(r->suite.memory[0]);
}

Test(tcp_limits, who_cannot_poll_looks_by_itself)
{
    shm_stage_run(shm_stage_new(RANKS), exchange_blindly, -1);
}

/* --- A process that has no file left */

enum { ALL = 4, FULL = 1, LOOK_MS = 20000 };

static void fill_files(void)
{
    enum { FILES = 40 };
    limit_files(FILES);
    while (dup(STDERR_FILENO) >= 0)
        continue;
}

/* How long the process was at work. */
static int64_t busy_ms(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000) +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1000;
}

/* All are told what that rank lacks. Until then, and later, nobody spins. */
static void expect_lack(struct shm_rank *r, struct tt_endpoint *e, int lacks)
{
    enum { IDLE_MS = 500, BUSY_MS = 600 };
    struct tt_cause seen = { 0 };
    char words[64];
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    snprintf(words, sizeof words, "rank %d has no file descriptor left", lacks);
    int64_t before_ms = busy_ms();
    while (!e->control->cause(e, &seen) && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    tt_sleep_ms(IDLE_MS);
    suite_expect(&r->suite, seen.status == TUTTI_SYSTEM_ERROR && seen.rank == lacks,
        "status %d of rank %d: %s", (int)seen.status, (int)seen.rank, seen.text);
    suite_expect(&r->suite, strstr(seen.text, words) != NULL && strstr(seen.text, "40 (ulimit -n)") != NULL,
        "%s", seen.text);
    suite_expect(&r->suite, busy_ms() - before_ms < BUSY_MS, "it spins");
    shm_meet(r);
}

/* Rank `lacks` has no file left, and is to send to all others; or all others to it. */
static void lack_files(struct shm_rank *r, int lacks, bool sends)
{
    uint8_t text[100];
    r->suite.transport = &tt_tcp;
    struct tt_endpoint *e = shm_join(r);
    if (r->me == lacks)
        fill_files();
    shm_meet(r);
    for (int peer = 0; peer < r->n; peer++)
        if (peer != r->me && (r->me == lacks ? sends : !sends && peer == lacks))
            shm_post(e, peer, r->stage->params.first_number, 7, text, sizeof text);
    expect_lack(r, e, lacks);
    tt_tcp.close(e);
}

static void lack_to_dial(struct shm_rank *r)
{
    lack_files(r, FULL, true);
}

static void lack_to_be_dialed(struct shm_rank *r)
{
    lack_files(r, FULL, false);
}

static void lack_and_decide(struct shm_rank *r)
{
    lack_files(r, 0, true);
}

static void lack_to_be_dialed_and_decide(struct shm_rank *r)
{
    lack_files(r, 0, false);
}

Test(tcp_limits, who_cannot_dial_for_lack_of_files_says_so_to_all)
{
    shm_stage_run(shm_stage_new(ALL), lack_to_dial, -1);
}

Test(tcp_limits, who_cannot_be_dialed_for_lack_of_files_says_so_to_all)
{
    shm_stage_run(shm_stage_new(ALL), lack_to_be_dialed, -1);
}

Test(tcp_limits, who_decides_and_lacks_files_says_so_to_all)
{
    shm_stage_run(shm_stage_new(ALL), lack_and_decide, -1);
    shm_stage_run(shm_stage_new(ALL), lack_to_be_dialed_and_decide, -1);
}

/* The thread waits in its set again, whose descriptor it had lent. */
static void expect_set(struct shm_rank *r, struct tt_endpoint *e)
{
    const struct tcp_server *server = ((struct tcp_endpoint *)e)->server;
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (atomic_load(&server->set) < 0 && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    suite_expect(&r->suite, atomic_load(&server->set) >= 0, "the set does not come back");
}

/* One connection is all that is needed, and there is no file left for another one: strangers come all the
 * same, end nothing, and leave the descriptor that they were heard by. */
static void be_visited(struct shm_rank *r)
{
    enum { VISITS = 3, LATER_MS = 1500 };
    int stays = -1;
    uint8_t text[100];
    uint64_t number = r->stage->params.first_number;
    struct tcp_address theirs;
    struct tt_cause seen;
    r->suite.transport = &tt_tcp;
    struct tt_endpoint *e = shm_join(r);
    for (int round = 0; round < 2 && !e->control->cause(e, &seen); round++) {
        shm_post(e, 1 - r->me, number + (uint64_t)round, 7, text, sizeof text);
        shm_take(r, e, 1 - r->me, number + (uint64_t)round, 7, sizeof text);
        shm_meet(r);
        if (r->me == 1 && round == 0)
            fill_files();
        shm_meet(r);
        memcpy(&theirs, r->stage->addresses[1], sizeof theirs);
        for (int i = 0; r->me == 0 && i < VISITS && round == 0; i++) {
            int fd = tt_net_connect(&theirs.net, LOOK_MS);
            suite_expect(&r->suite, fd >= 0 && write(fd, "GET / HTTP/1.0\r\n\r\n", 18) == 18, "no visit");
            if (i > 0)
                close(fd);
            else
                stays = fd;
        }
        tt_sleep_ms(LATER_MS);
        shm_meet(r);
    }
    suite_expect(&r->suite, !e->control->cause(e, &seen), "it ended: %s", seen.text);
    if (r->me == 0)
        close(stays);
    else
        expect_set(r, e);
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_limits, strangers_end_nothing_where_there_are_no_files_left)
{
    shm_stage_run(shm_stage_new(2), be_visited, -1);
}
