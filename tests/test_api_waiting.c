/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_waiting.c: an initialisation that waits for ranks which do not come: when it ends, and what is
 * told of it until then. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/status.h"
#include "comm.h"

static int64_t init_timeout(const char *options, int64_t timeout_ms)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = timeout_ms, .options = options };
    struct tt_settings settings;
    cr_assert_eq(tt_comm_settings(&config, &settings), TUTTI_OK, "%s", tt_last_error());
    return tt_comm_init_timeout(&settings, &config);
}

Test(api_waiting, the_shorter_timeout_holds)
{
    unsetenv("TUTTI_TIMEOUT");
    unsetenv("TUTTI_INIT_TIMEOUT");
    cr_expect_eq(init_timeout(NULL, 0), 300000);
    cr_expect_eq(init_timeout(NULL, 1500), 1500);
    cr_expect_eq(init_timeout(NULL, 3600000), 300000);
    cr_expect_eq(init_timeout(NULL, -1), -1, "who waits for ever waits for ever here, too");
    cr_expect_eq(init_timeout("timeout=2000", 0), 2000);
    cr_expect_eq(init_timeout("init_timeout=7000", 0), 7000);
    cr_expect_eq(init_timeout("init_timeout=7000", -1), 7000);
    cr_expect_eq(init_timeout("init_timeout=7000", 1500), 1500);
    cr_expect_eq(init_timeout("init_timeout=700000", 900000), 700000);
}

/* A rank that dies before it has come to the id is nobody's peer yet. */
Test(api_waiting, rank_that_died_before_it_came_is_named)
{
    tutti_id id;
    tutti_comm *comm = NULL;
    tutti_config config = { .size = sizeof config, .options = "init_timeout=400" };
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    cr_assert_eq(waitpid(child, NULL, 0), child);
    cr_expect_eq(tutti_comm_init_rank(2, 0, &id, &config, &comm), TUTTI_TIMEOUT);
    cr_expect(strstr(tutti_get_last_error(NULL), "rank 1 did not come within 400 ms"), "%s",
        tutti_get_last_error(NULL));
    cr_expect_null(comm);
}
