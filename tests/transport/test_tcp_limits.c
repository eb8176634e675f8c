/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_limits.c: the transport by TCP where a process may open few files. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/tcp.h"

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
    suite_exchange(&r->suite, e, r->stage->params.first_number + TT_SLOTS, 2, 6);
    tt_tcp.close(e);
    free(r->suite.memory[0]);
}

Test(tcp_limits, who_cannot_poll_looks_by_itself)
{
    shm_stage_run(shm_stage_new(RANKS), exchange_blindly, -1);
}
