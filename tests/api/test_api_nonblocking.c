/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_nonblocking.c: communicators that are made while the caller goes on. All ranks are this one
 * thread's, which no blocking call could do without a group. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/patience.h"
#include "tutti.h"

enum { MANY = 4 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(api_nonblocking, .init = limit_time);

static const tutti_config behind = { .size = sizeof behind, .flags = TUTTI_COMM_NONBLOCKING };
static const tutti_config impatient = {
    .size = sizeof impatient, .flags = TUTTI_COMM_NONBLOCKING, .timeout_ms = 300
};

static void pause_ms(int ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&time, NULL);
}

static tutti_status settle(tutti_comm *comm)
{
    tutti_status status;
    while ((status = tutti_comm_state(comm)) == TUTTI_IN_PROGRESS)
        pause_ms(1);
    return status;
}

static int entries(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static tutti_comm *begin(int n, int rank, const tutti_id *id, const tutti_config *config)
{
    tutti_comm *comm = NULL;
    cr_assert_eq(
        tutti_comm_init_rank(n, rank, id, config, &comm), TUTTI_OK, "%s", tutti_get_last_error(NULL));
    return comm;
}

static void add_up(tutti_comm **comms, int n)
{
    uint64_t sums[MANY] = { 0 };
    cr_assert_eq(tutti_group_start(), TUTTI_OK);
    for (int r = 0; r < n; r++) {
        sums[r] = (uint64_t)r + 1;
        cr_assert_eq(
            tutti_all_reduce(&sums[r], &sums[r], 1, TUTTI_UINT64, TUTTI_SUM, comms[r], tutti_no_stream()),
            TUTTI_OK);
    }
    cr_assert_eq(tutti_group_end(), TUTTI_OK, "%s", tutti_get_last_error(NULL));
    for (int r = 0; r < n; r++)
        cr_expect_eq(sums[r], (uint64_t)(n * (n + 1) / 2));
}

Test(api_nonblocking, all_ranks_of_one_thread)
{
    tutti_id id;
    tutti_comm *comms[MANY];
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    for (int r = 0; r < MANY; r++)
        comms[r] = begin(MANY, r, &id, &behind);
    for (int r = 0; r < MANY; r++) {
        cr_expect_eq(settle(comms[r]), TUTTI_OK, "%s", tutti_get_last_error(NULL));
        cr_expect_eq(tutti_comm_rank(comms[r]), r);
    }
    add_up(comms, MANY);
    for (int r = 0; r < MANY; r++)
        cr_expect_eq(tutti_comm_destroy(comms[r]), TUTTI_OK);
}

Test(api_nonblocking, in_a_group)
{
    tutti_id id;
    tutti_comm *comms[2];
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    cr_assert_eq(tutti_group_start(), TUTTI_OK);
    for (int r = 0; r < 2; r++)
        comms[r] = begin(2, r, &id, &behind);
    cr_assert_eq(tutti_group_end(), TUTTI_OK);
    for (int r = 0; r < 2; r++)
        cr_expect_eq(settle(comms[r]), TUTTI_OK);
    add_up(comms, 2);
    for (int r = 0; r < 2; r++)
        tutti_comm_destroy(comms[r]);
}

/* The other rank has not come, so this one cannot be ready. */
Test(api_nonblocking, calls_before_it_is_ready)
{
    tutti_id id;
    float x = 7;
    tutti_error error = { .size = sizeof error };
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    tutti_comm *comms[2] = { begin(2, 0, &id, &behind) };
    cr_expect_eq(tutti_comm_state(comms[0]), TUTTI_IN_PROGRESS);
    cr_expect_eq(tutti_comm_get_error(comms[0], &error), TUTTI_OK);
    cr_expect_eq(error.status, TUTTI_IN_PROGRESS);
    cr_expect_str_empty(tutti_get_last_error(comms[0]));
    cr_expect_eq(tutti_comm_rank(comms[0]), -1);
    cr_expect_eq(tutti_comm_size(comms[0]), -1);
    cr_expect_eq(tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comms[0], tutti_no_stream()),
        TUTTI_INVALID_ARGUMENT);
    cr_expect_not_null(
        strstr(tutti_get_last_error(NULL), "tutti_comm_state"), "%s", tutti_get_last_error(NULL));
    cr_expect_eq(tutti_comm_finalize(comms[0]), TUTTI_INVALID_ARGUMENT);
    comms[1] = begin(2, 1, &id, NULL);
    cr_expect_eq(settle(comms[0]), TUTTI_OK);
    add_up(comms, 2);
    for (int r = 0; r < 2; r++)
        tutti_comm_destroy(comms[r]);
}

Test(api_nonblocking, nobody_comes)
{
    tutti_id id;
    tutti_error error = { .size = sizeof error };
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    tutti_comm *comm = begin(2, 1, &id, &impatient);
    cr_expect_eq(settle(comm), TUTTI_TIMEOUT);
    cr_expect_eq(tutti_comm_get_error(comm, &error), TUTTI_OK);
    cr_expect_eq(error.status, TUTTI_TIMEOUT);
    cr_expect_eq(error.rank, 1);
    cr_expect_str_eq(error.text, tutti_get_last_error(comm));
    cr_expect_str_not_empty(error.text);
    cr_expect_eq(tutti_barrier(comm, tutti_no_stream()), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tutti_comm_destroy(comm), TUTTI_OK);
    cr_expect_eq(tutti_comm_destroy(comm), TUTTI_INVALID_ARGUMENT);
}

Test(api_nonblocking, aborted_before_it_is_ready)
{
    tutti_id id;
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    tutti_comm *comm = begin(2, 0, &id, &behind);
    cr_expect_eq(tutti_comm_abort(comm), TUTTI_OK);
    cr_expect_eq(tutti_comm_state(comm), TUTTI_ABORTED);
    tutti_comm *other = begin(2, 1, &id, &behind); /* meets it, and then sees it go */
    cr_expect_eq(settle(other), TUTTI_OK);
    cr_expect_eq(tutti_barrier(other, tutti_no_stream()), TUTTI_PEER_LOST);
    cr_expect_eq(tutti_comm_state(comm), TUTTI_ABORTED);
    cr_expect_eq(tutti_comm_destroy(comm), TUTTI_OK);
    cr_expect_eq(tutti_comm_destroy(other), TUTTI_OK);
}

/* Its thread and descriptors are gone once its time has passed. */
Test(api_nonblocking, destroyed_before_it_is_ready)
{
    for (int round = 0, descriptors = 0; round < 4; round++) {
        tutti_id id;
        cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
        tutti_comm *comm = begin(2, 1, &id, &impatient);
        int threads = entries("/proc/self/task");
        cr_expect_eq(tutti_comm_destroy(comm), TUTTI_OK);
        cr_expect_eq(tutti_comm_state(comm), TUTTI_INVALID_ARGUMENT);
        while (entries("/proc/self/task") >= threads)
            pause_ms(5);
        if (round == 1)
            descriptors = entries("/proc/self/fd");
        while (round == 3 && entries("/proc/self/fd") > descriptors + 2) /* each id answers at a socket */
            pause_ms(5);
    }
}

Test(api_nonblocking, from_a_launcher)
{
    tutti_id id;
    char digits[2 * sizeof id + 1];
    tutti_comm *comm = NULL;
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    for (size_t i = 0; i < sizeof id; i++)
        snprintf(digits + 2 * i, 3, "%02x", id.bytes[i]);
    setenv("TUTTI_ID", digits, 1);
    setenv("TUTTI_RANK", "0", 1);
    setenv("TUTTI_SIZE", "1", 1);
    cr_assert_eq(tutti_comm_init_env(&behind, &comm), TUTTI_OK);
    cr_expect_eq(settle(comm), TUTTI_OK, "%s", tutti_get_last_error(NULL));
    cr_expect_eq(tutti_comm_size(comm), 1);
    tutti_comm_destroy(comm);
    setenv("TUTTI_SIZE", "none", 1); /* is read behind the caller's back, too */
    cr_assert_eq(tutti_comm_init_env(&behind, &comm), TUTTI_OK);
    cr_expect_eq(settle(comm), TUTTI_INVALID_USAGE);
    cr_expect_not_null(strstr(tutti_get_last_error(comm), "TUTTI_SIZE"));
    tutti_comm_destroy(comm);
}

/* The config's strings are the caller's again as soon as the call returns. */
Test(api_nonblocking, wrong_arguments_at_once)
{
    tutti_id id;
    char options[] = "exact=on";
    tutti_comm *comm = NULL, *child = NULL;
    tutti_config config = behind;
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    cr_expect_eq(tutti_comm_init_rank(1, 1, &id, &behind, &comm), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tutti_comm_init_rank(1, 0, &id, &behind, NULL), TUTTI_INVALID_ARGUMENT);
    config.options = "exact=perhaps";
    cr_expect_lt(tutti_comm_init_rank(1, 0, &id, &config, &comm), 0);
    cr_expect_null(comm);
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK); /* who is refused tells the others, and the id has served */
    config.options = options;
    comm = begin(1, 0, &id, &config);
    memset(options, 'x', sizeof options - 1);
    cr_expect_eq(settle(comm), TUTTI_OK, "%s", tutti_get_last_error(NULL));
    cr_expect_eq(tutti_comm_split(comm, 0, 0, &behind, &child), TUTTI_UNSUPPORTED);
    cr_expect_null(child);
    tutti_comm_destroy(comm);
    cr_assert_eq(tutti_comm_init_all(1, NULL, &behind, &comm), TUTTI_OK);
    cr_expect_eq(tutti_comm_state(comm), TUTTI_OK);
    tutti_comm_destroy(comm);
}
