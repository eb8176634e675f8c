/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_scale.c: many processes: that they get a communicator within usual limits, and what each keeps of
 * the meeting: no connection, and one descriptor for each peer, by which its death is seen. */
#include <sys/resource.h>

#include "tests/boot/meeting.h"
#include "tutti.h"

enum { MANY = 256, SOME = 64, USUAL_FILES = 1024 };

static int count_sockets(void)
{
    int count = 0;
    DIR *d = opendir("/proc/self/fd");
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        char path[300], target[64] = "";
        snprintf(path, sizeof path, "/proc/self/fd/%s", e->d_name);
        count += readlink(path, target, sizeof target - 1) > 0 && strncmp(target, "socket:", 7) == 0;
    }
    if (d)
        closedir(d);
    return count;
}

/* The thread that answered at the id ends a moment after all have met. */
static bool sockets_settle(int count)
{
    int64_t deadline_ns = tt_deadline_ns(PATIENCE_MS);
    while (count_sockets() > count && tt_now_ns() < deadline_ns)
        tt_sleep_ms(5);
    return count_sockets() <= count;
}

static int be_rank(int n, int rank, tutti_id *id, const int *pipes)
{
    tutti_comm *comm;
    int64_t mine = rank, sum = -1;
    int files = count_entries("/proc/self/fd"), sockets = count_sockets();
    if (rank == 0) {
        if (tutti_get_id(id) != TUTTI_OK)
            return 1;
        for (int r = 1; r < n; r++)
            if (write(pipes[1], id, sizeof *id) != sizeof *id)
                return 1;
    } else if (read(pipes[0], id, sizeof *id) != sizeof *id) {
        return 1;
    }
    if (tutti_comm_init_rank(n, rank, id, NULL, &comm) != TUTTI_OK)
        return 2;
    tutti_status status = tutti_all_reduce(&mine, &sum, 1, TUTTI_INT64, TUTTI_SUM, comm, tutti_no_stream());
    if (status != TUTTI_OK || sum != (int64_t)n * (n - 1) / 2)
        return 3;
    if (!sockets_settle(sockets))
        return 4;
    if (count_entries("/proc/self/fd") > files + n + 8)
        return 5;
    status = tutti_barrier(comm, tutti_no_stream());
    return status == TUTTI_OK && tutti_comm_destroy(comm) == TUTTI_OK ? 0 : 6;
}

static void run_ranks(int n)
{
    static pid_t children[MANY];
    struct rlimit limit;
    tutti_id id;
    int pipes[2];
    cr_assert(pipe(pipes) == 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (limit.rlim_cur > USUAL_FILES)
        limit.rlim_cur = USUAL_FILES;
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (int r = 0; r < n; r++) {
        children[r] = fork();
        if (children[r] == 0)
            _exit(be_rank(n, r, &id, pipes));
    }
    for (int r = 0; r < n; r++) {
        int status;
        waitpid(children[r], &status, 0);
        cr_expect_eq(status, 0, "rank %d of %d: %x", r, n, status);
    }
    close(pipes[0]);
    close(pipes[1]);
}

Test(api_scale, no_connection_is_kept)
{
    run_ranks(SOME);
}

Test(api_scale, processes_of_a_large_machine_reduce)
{
    run_ranks(MANY);
}
