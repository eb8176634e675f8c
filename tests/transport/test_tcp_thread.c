/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_thread.c: the transport by TCP: what the endpoint's thread does beside a caller that drives. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/tcp.h"

enum { RANKS = 2 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(tcp_thread, .init = limit_time);

static struct tt_endpoint *join(struct shm_rank *r)
{
    r->suite.transport = &tt_tcp;
    return shm_join(r);
}

/* How often the other threads of this process have gone to sleep. */
static long sleeps_of_others(void)
{
    char path[300], line[200];
    long sleeps = 0, found;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *d; (d = readdir(tasks)) != NULL;) {
        if (d->d_name[0] == '.' || atoi(d->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", d->d_name);
        FILE *status = fopen(path, "r");
        while (status != NULL && fgets(line, sizeof line, status) != NULL)
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &found) == 1)
                sleeps += found;
        if (status != NULL)
            fclose(status);
    }
    closedir(tasks);
    return sleeps;
}

/* Each nap of the thread that ends takes the caller's core for a moment, or its peer's. */
static void drive_long(struct shm_rank *r)
{
    enum { DRIVE_MS = 400, NAP_US = 1600, LOOKS = 2 };
    struct tt_endpoint *e = join(r);
    long before = sleeps_of_others();
    int64_t began = tt_now_ns(), until = began + DRIVE_MS * INT64_C(1000000);
    while (tt_now_ns() < until)
        tt_tcp_drive((struct tcp_endpoint *)e, 1 - r->me, false);
    long sleeps = sleeps_of_others() - before, ms = (tt_now_ns() - began) / 1000000;
    suite_expect(
        &r->suite, sleeps < LOOKS * ms * 1000 / NAP_US, "the thread slept %ld times in %ld ms", sleeps, ms);
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_thread, naps_get_long_while_the_caller_drives)
{
    shm_stage_run(shm_stage_new(RANKS), drive_long, -1);
}

/* It is needed now: a nap does not go on. */
static void wake_a_napper(struct shm_rank *r)
{
    enum { TIMES = 100, LONG_NS = 1200000, PAUSE_NS = 20000000 };
    struct tcp_endpoint *e = (struct tcp_endpoint *)join(r);
    int late = 0;
    for (int i = 0; i < TIMES; i++) {
        int64_t until = tt_now_ns() + PAUSE_NS / 4;
        while (tt_now_ns() < until)
            tt_tcp_drive(e, 1 - r->me, false);
        int64_t began = tt_now_ns();
        tt_tcp_wake(e);
        while (atomic_load(&e->woken))
            tt_nap_ns(1000);
        late += tt_now_ns() - began > LONG_NS;
    }
    suite_expect(&r->suite, late < TIMES / 4, "the thread came late %d times of %d", late, TIMES);
    shm_meet(r);
    tt_tcp.close(&e->head);
}

Test(tcp_thread, who_needs_it_ends_its_nap)
{
    shm_stage_run(shm_stage_new(RANKS), wake_a_napper, -1);
}
