/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_waiting.c: an initialisation that waits for ranks which do not come: when it ends, and what is
 * told of it until then. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/wait.h"
#include "run/settings.h"
#include "bootstrap/init_progress.h"

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
    cr_expect_eq(tt_init_progress_patience_ms, 10000);
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

/* --- What is told of a wait */

enum { TELL_MS = 50 }; /* in place of ten seconds, of which no test may depend */

/* What the log and tutti-info attach say of a process that waits in an initialisation until it is killed. */
struct waiter {
    pid_t pid;
    char path[64]; /* of its log */
};

static tutti_status wait_by_id(const tutti_id *id, int n, int rank)
{
    tutti_comm *comm;
    tutti_config config = { .size = sizeof config, .name = "train" };
    return tutti_comm_init_rank(n, rank, id, &config, &comm);
}

static void begin_waiter(struct waiter *w)
{
    snprintf(w->path, sizeof w->path, "/tmp/tutti_waiting_XXXXXX");
    close(mkstemp(w->path));
    tt_init_progress_patience_ms = TELL_MS;
    setenv("TUTTI_DEBUG_FILE", w->path, 1);
    unsetenv("TUTTI_DEBUG");
}

static void start_waiter(struct waiter *w, const tutti_id *id, int n, int rank)
{
    begin_waiter(w);
    w->pid = fork();
    if (w->pid == 0)
        _exit(wait_by_id(id, n, rank) == TUTTI_OK ? 0 : 1);
}

static void end_waiter(const struct waiter *w)
{
    kill(w->pid, SIGKILL);
    waitpid(w->pid, NULL, 0);
    unlink(w->path);
}

/* A line of the log: who waits, some seconds, and for whom. */
static bool log_says(const struct waiter *w, const char *who, const char *what)
{
    char text[8192] = "";
    FILE *file = fopen(w->path, "r");
    size_t bytes = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL)
        fclose(file);
    text[bytes] = '\0';
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        if (strstr(line, who) != NULL && strstr(line, what) != NULL)
            return true;
    return false;
}

static bool attach_says(const struct waiter *w, bool json, const char *words)
{
    char question[64], text[8192] = "";
    snprintf(question, sizeof question, "attach %d%s", (int)w->pid, json ? " json" : "");
    return tutti_query(NULL, question, text, sizeof text) > 0 && strstr(text, words) != NULL;
}

/* These come, however long it takes; a minute is for a machine that does a hundred other things. */
#define EVENTUALLY(condition)                                                                                \
    do {                                                                                                     \
        int64_t deadline_ns = tt_deadline_ns(60000);                                                         \
        while (!(condition) && tt_now_ns() < deadline_ns)                                                    \
            tt_sleep_ms(5);                                                                                  \
        cr_expect(condition);                                                                                \
    } while (0)

/* Rank 0's process made the id, so it knows who is missing, and the others hear it from there. */
Test(api_waiting, who_is_missing_is_told_by_all_who_wait)
{
    int made[2];
    tutti_id id;
    struct waiter root, other;
    cr_assert_eq(pipe(made), 0);
    begin_waiter(&root);
    root.pid = fork();
    if (root.pid == 0) {
        bool right = tutti_get_id(&id) == TUTTI_OK && write(made[1], &id, sizeof id) == sizeof id;
        _exit(right && wait_by_id(&id, 5, 0) == TUTTI_OK ? 0 : 1);
    }
    cr_assert_eq(read(made[0], &id, sizeof id), sizeof id);
    start_waiter(&other, &id, 5, 3);
    EVENTUALLY(
        log_says(&root, "WARN: train, rank 0 of 5: not ready after ", " s: ranks 1-2, 4 of 5 have not come"));
    EVENTUALLY(
        log_says(&other, "train, rank 3 of 5: not ready after ", " s: ranks 1-2, 4 of 5 have not come"));
    EVENTUALLY(attach_says(&root, false, "train, rank 0 of 5: is being made for "));
    EVENTUALLY(attach_says(&root, false, " s; ranks 1-2, 4 of 5 have not come\n"));
    EVENTUALLY(attach_says(&other, false, "train, rank 3 of 5: is being made for "));
    EVENTUALLY(attach_says(&other, false, "; ranks 1-2, 4 of 5 have not come\n"));
    EVENTUALLY(attach_says(&other, true,
        "\"communicator\": \"train\", \"id\": \"0000000000000000\", \"rank\": 3, \"ranks\": 5, \"calls\": "
        "0, "));
    EVENTUALLY(attach_says(&other, true, "\"status\": 1, \"error\": null, \"joining_ns\": "));
    EVENTUALLY(
        attach_says(&other, true, ", \"waits\": \"ranks 1-2, 4 of 5 have not come\", \"operations\": []}\n"));
    end_waiter(&root);
    end_waiter(&other);
}

/* Its end is the job's, so who waits for it names it. */
Test(api_waiting, lost_maker_of_the_id_is_named)
{
    int made[2];
    tutti_id id;
    char named[96];
    struct waiter root, other;
    cr_assert_eq(pipe(made), 0);
    begin_waiter(&root);
    root.pid = fork();
    if (root.pid == 0) {
        bool right = tutti_get_id(&id) == TUTTI_OK && write(made[1], &id, sizeof id) == sizeof id;
        _exit(right && wait_by_id(&id, 3, 2) == TUTTI_OK ? 0 : 1);
    }
    cr_assert_eq(read(made[0], &id, sizeof id), sizeof id);
    start_waiter(&other, &id, 3, 0);
    EVENTUALLY(log_says(&other, "", "rank 1 of 3 has not come"));
    snprintf(named, sizeof named, "the process that made the id (rank 2, process %d) closed", (int)root.pid);
    end_waiter(&root);
    EVENTUALLY(log_says(&other, "ERROR", named));
    end_waiter(&other);
}

/* A process that only holds the id is nobody's rank, and has a log of its own. */
Test(api_waiting, holder_of_the_id_tells_who_is_missing)
{
    int made[2];
    tutti_id id;
    struct waiter holder, rank;
    cr_assert_eq(pipe(made), 0);
    begin_waiter(&holder);
    holder.pid = fork();
    if (holder.pid == 0) {
        if (tutti_get_id(&id) == TUTTI_OK && write(made[1], &id, sizeof id) == sizeof id)
            pause();
        _exit(1);
    }
    cr_assert_eq(read(made[0], &id, sizeof id), sizeof id);
    start_waiter(&rank, &id, 2, 1);
    EVENTUALLY(
        log_says(&holder, "ranks wait at an id that was made here, after ", " s: rank 0 of 2 has not come"));
    EVENTUALLY(log_says(&rank, "not ready after ", " s: rank 0 of 2 has not come"));
    end_waiter(&rank);
    end_waiter(&holder);
}

/* It is stopped, so nobody is heard from it: who waits for it says so by itself. */
Test(api_waiting, silent_holder_of_the_id_is_told)
{
    int made[2];
    tutti_id id;
    struct waiter holder, rank;
    cr_assert_eq(pipe(made), 0);
    begin_waiter(&holder);
    holder.pid = fork();
    if (holder.pid == 0) {
        if (tutti_get_id(&id) == TUTTI_OK && write(made[1], &id, sizeof id) == sizeof id)
            pause();
        _exit(1);
    }
    cr_assert_eq(read(made[0], &id, sizeof id), sizeof id);
    kill(holder.pid, SIGSTOP);
    start_waiter(&rank, &id, 2, 1);
    EVENTUALLY(log_says(&rank, "not ready after ", " s: the process that made the id does not answer"));
    EVENTUALLY(attach_says(&rank, false, "; the process that made the id does not answer\n"));
    end_waiter(&rank);
    end_waiter(&holder);
}

/* Rank 1 under TUTTI_ROOT, and of torchrun: there is nobody yet who could tell anything. */
Test(api_waiting, rank_0_that_has_not_come_is_told)
{
    struct waiter root, torch;
    static const char digits[] = "00112233445566778899aabbccddeeff";
    char secret[] = "/tmp/tutti_secret_XXXXXX", address[32];
    int fd = mkstemp(secret);
    cr_assert(write(fd, digits, strlen(digits)) == (ssize_t)strlen(digits));
    close(fd);
    snprintf(address, sizeof address, "127.0.0.1:%d", 20000 + (int)(getpid() % 10000));
    begin_waiter(&root);
    root.pid = fork();
    if (root.pid == 0) {
        tutti_comm *comm;
        setenv("TUTTI_ROOT", address, 1);
        setenv("TUTTI_SECRET_FILE", secret, 1);
        setenv("TUTTI_RANK", "1", 1);
        setenv("TUTTI_SIZE", "2", 1);
        _exit(tutti_comm_init_env(NULL, &comm) == TUTTI_OK ? 0 : 1);
    }
    begin_waiter(&torch);
    torch.pid = fork();
    if (torch.pid == 0) {
        tutti_comm *comm;
        setenv("RANK", "1", 1);
        setenv("WORLD_SIZE", "2", 1);
        setenv("MASTER_ADDR", "127.0.0.1", 1);
        setenv("MASTER_PORT", address + 10, 1);
        _exit(tutti_comm_init_env(NULL, &comm) == TUTTI_OK ? 0 : 1);
    }
    EVENTUALLY(log_says(&root, "comm, rank 1 of 2: not ready after ", " s: rank 0 has not come"));
    EVENTUALLY(attach_says(&root, false, "comm, rank 1 of 2: is being made for "));
    EVENTUALLY(log_says(&torch, "comm: not ready after ", " s: rank 0 has not come, or not on this machine"));
    EVENTUALLY(attach_says(&torch, false, "comm: is being made for "));
    EVENTUALLY(attach_says(&torch, true, "\"rank\": -1, \"ranks\": 0, "));
    end_waiter(&root);
    end_waiter(&torch);
    unlink(secret);
}

/* The entry goes when the communicator is there, or could not be made. */
Test(api_waiting, nothing_is_left_of_a_wait_that_is_over)
{
    tutti_id id;
    tutti_comm *comm = NULL;
    tutti_config config = { .size = sizeof config, .options = "init_timeout=100" };
    struct waiter self = { .pid = getpid() };
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    cr_assert_eq(tutti_comm_init_rank(1, 0, &id, NULL, &comm), TUTTI_OK);
    cr_expect(attach_says(&self, false, "comm-1, rank 0 of 1: 0 calls; no error"));
    cr_expect_not(attach_says(&self, false, "is being made"));
    tutti_comm_destroy(comm);
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    cr_assert_eq(tutti_comm_init_rank(2, 0, &id, &config, &comm), TUTTI_TIMEOUT);
    cr_expect(attach_says(&self, false, "has no communicator now"));
}
