/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_limit.c: how many ranks a limit of open files allows where the process that made the id is
 * a rank, too, as in NCCL's way of starting: it needs no more than a connection and two descriptors of each.
 */
#include <sys/resource.h>

#include "meeting.h"

enum { N = 40, OTHERS = 24 }; /* ranks, and descriptors that are needed whatever their number is */

static void limit_files(int spare)
{
    int highest = dup(0), fds[3 * N + OTHERS];
    close(highest);
    for (int i = 0; i < spare; i++)
        highest = fds[i] = dup(0);
    for (int i = 0; i < spare; i++)
        close(fds[i]);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)highest + 1, (rlim_t)highest + 1 });
}

/* The others are there before it has anything that they could inherit. */
static int make_and_be_rank_0(void)
{
    tutti_id id;
    pid_t children[N];
    int made[2];
    if (pipe(made) != 0)
        return 1;
    limit_files(3 * N + OTHERS);
    for (int r = 1; r < N; r++) {
        children[r] = fork();
        if (children[r] == 0) {
            bool told = read(made[0], &id, sizeof id) == sizeof id;
            _exit(told && ended_well(fork_call(call_for(&id, N, r))) ? 0 : 1);
        }
    }
    bool right = tt_bootstrap_create(&id, PATIENCE_MS) == TUTTI_OK;
    for (int r = 1; r < N; r++)
        right = write(made[1], &id, sizeof id) == sizeof id && right;
    struct call c = call_for(&id, N, 0);
    run_call(&c);
    right = right && c.status == TUTTI_OK && c.right;
    for (int r = 1; r < N; r++)
        right = ended_well(children[r]) && right;
    return right ? 0 : 2;
}

Test(bootstrap_limit, maker_that_is_a_rank_holds_descriptors_once)
{
    pid_t maker = fork();
    if (maker == 0)
        _exit(make_and_be_rank_0());
    cr_expect(ended_well(maker));
}

/* How many descriptors of the first ranks it holds. */
static int held_of(int ranks)
{
    int count = 0;
    for (int r = 0; r < ranks; r++)
        count += 1 + gives(r, 0) + gives(r, 1);
    return count;
}

/* The last rank is forked when all others have come. */
static int make_and_fork_ranks(void)
{
    tutti_id id;
    pid_t children[N];
    limit_files(3 * N + OTHERS);
    int before = count_entries("/proc/self/fd");
    bool right = tt_bootstrap_create(&id, PATIENCE_MS) == TUTTI_OK;
    for (int r = 0; r < N; r++) {
        if (r == N - 1)
            right = settles("/proc/self/fd", before + 1 + held_of(r)) && right;
        children[r] = fork_call(call_for(&id, N, r));
    }
    for (int r = 0; r < N; r++)
        right = ended_well(children[r]) && right;
    return right ? 0 : 1;
}

Test(bootstrap_limit, rank_that_the_maker_forks_late_has_room)
{
    pid_t maker = fork();
    if (maker == 0)
        _exit(make_and_fork_ranks());
    cr_expect(ended_well(maker));
}

/* Each of its ranks has descriptors of its own, and only the last one gets those that were there. */
Test(bootstrap_limit, ranks_of_one_process_have_descriptors_of_their_own)
{
    tutti_id id;
    pid_t children[N];
    struct call calls[N];
    int before = count_entries("/proc/self/fd");
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int r = 3; r < N; r++)
        children[r] = fork_call(call_for(&id, N, r));
    for (int r = 0; r < 3; r++)
        calls[r] = call_for(&id, N, r);
    run_threads(calls, 3);
    for (int r = 0; r < 3; r++)
        cr_expect(calls[r].status == TUTTI_OK && calls[r].right, "rank %d: %s", r, calls[r].text);
    for (int r = 3; r < N; r++)
        cr_expect(ended_well(children[r]), "rank %d", r);
    cr_expect(settles("/proc/self/fd", before));
}

/* Two ranks in the process that made the id, of which one cannot take what the others brought: it ends at
 * once, and with it the thread that is to tell them. */
static void *fail_and_exit(void *argument)
{
    struct call *c = argument;
    run_call(c);
    if (strstr(c->text, "cannot hold the"))
        _exit(0);
    return NULL;
}

static int make_and_fail(int made)
{
    /* A listener; of each of its ranks two files and a socket; a connection and two descriptors of each rank;
     * and not the six that the first of its ranks is given. */
    enum { SPARE = 1 + 2 * 3 + 4 * 3 + 3 };
    tutti_id id;
    struct call calls[2];
    limit_files(SPARE);
    if (tt_bootstrap_create(&id, PATIENCE_MS) != TUTTI_OK)
        return 1;
    for (int r = 0; r < 2; r++) {
        if (write(made, &id, sizeof id) != sizeof id)
            return 1;
        calls[r] = call_for(&id, 4, r);
        pthread_create(&calls[r].thread, NULL, fail_and_exit, &calls[r]);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(calls[r].thread, NULL);
    return 2;
}

Test(bootstrap_limit, others_hear_the_cause_before_the_maker_ends)
{
    for (int round = 0; round < 10; round++) {
        tutti_id id;
        struct call calls[2];
        int made[2];
        cr_assert_eq(pipe(made), 0);
        pid_t maker = fork();
        if (maker == 0)
            _exit(make_and_fail(made[1]));
        for (int i = 0; i < 2; i++) {
            cr_assert_eq(read(made[0], &id, sizeof id), sizeof id);
            calls[i] = call_for(&id, 4, 2 + i);
        }
        run_threads(calls, 2);
        cr_expect(ended_well(maker));
        expect_failure(calls, 2, TUTTI_SYSTEM_ERROR, WORDS("cannot hold the 6 descriptors", "ulimit -n"));
        close(made[0]);
        close(made[1]);
    }
}

/* Whose log it is: that of all processes of a job is one file here. */
static int count_lines(const char *path, const char *words)
{
    char line[1024];
    int count = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, words) != NULL;
    if (file)
        fclose(file);
    return count;
}

/* Of those who hear that a rank is missing, one writes it down. */
Test(bootstrap_limit, cause_is_in_the_log_once)
{
    enum { HERE = 6, IMPATIENT_MS = 1000 };
    char path[] = "/tmp/tutti_test_XXXXXX";
    tutti_id id;
    pid_t children[HERE];
    close(mkstemp(path));
    setenv("TUTTI_DEBUG_FILE", path, 1);
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int r = 1; r < HERE; r++) {
        struct call c = call_for(&id, HERE + 1, r);
        children[r] = fork_call(c);
    }
    struct call own = call_for(&id, HERE + 1, 0);
    own.timeout_ms = IMPATIENT_MS;
    run_call(&own);
    cr_expect(strstr(own.text, "did not come within"), "%s", own.text);
    for (int r = 1; r < HERE; r++)
        cr_expect_not(ended_well(children[r]));
    cr_expect_eq(count_lines(path, " did not come within "), 1);
    unlink(path);
}

/* It is found before any rank of the maker's process has come, and told to one that comes then. */
Test(bootstrap_limit, cause_found_early_is_in_the_log_once)
{
    char path[] = "/tmp/tutti_test_XXXXXX";
    tutti_id id;
    int sockets[2];
    close(mkstemp(path));
    setenv("TUTTI_DEBUG_FILE", path, 1);
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 2; i++) {
            sockets[i] = stranger_enter(&id, 1);
            stranger_hello(sockets[i], &id, 2 + i);
        }
        _exit(call_of(&id, sockets[0]).status == TUTTI_INVALID_ARGUMENT ? 0 : 1);
    }
    cr_expect(ended_well(child));
    struct call c = call_for(&id, 2, 0);
    run_call(&c);
    cr_expect(c.status == TUTTI_PEER_LOST || strstr(c.text, "rank 1 says n = 3"), "%s", c.text);
    cr_expect_eq(count_lines(path, "rank 1 says n = 3"), 1);
    unlink(path);
}

enum { FLOOD = 40, LEAST_FILES = 64 }; /* descriptors of a message; ulimit -n */

/* Sends so many descriptors, which nobody receives, that this user may have no more under way. */
static void flood(int socket)
{
    int fds[FLOOD];
    for (int i = 0; i < FLOOD; i++)
        fds[i] = 0;
    while (tt_wire_send(socket, "", 1, fds, FLOOD) == 1)
        ;
    if (errno != ETOOMANYREFS)
        abort();
}

static void *stop_flood(void *ends)
{
    tt_sleep_ms(200);
    for (int i = 0; i < 2; i++)
        close(((int *)ends)[i]);
    return NULL;
}

static int meet_in_a_flood(void)
{
    int ends[2];
    tutti_id id;
    pthread_t thread;
    uid_t user = geteuid() == 0 ? 100000 + (uid_t)getpid() : geteuid();
    struct rlimit limit = { LEAST_FILES, LEAST_FILES };
    if (setresuid(user, user, user) != 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || tt_bootstrap_create(&id, PATIENCE_MS) != TUTTI_OK)
        return 1;
    flood(ends[0]);
    struct call c = call_for(&id, 1, 0);
    if (pthread_create(&thread, NULL, stop_flood, ends) != 0)
        return 2;
    run_call(&c);
    pthread_join(thread, NULL);
    if (c.status != TUTTI_OK)
        fprintf(stderr, "%s\n", c.text);
    return c.status == TUTTI_OK ? 0 : 3;
}

/* The system counts the descriptors that a user has under way in all sockets: a rank that cannot send its own
 * for now waits. */
Test(bootstrap_limit, too_many_descriptors_under_way_are_waited_for)
{
    char path[64];
    unsetenv("XDG_RUNTIME_DIR");
    pid_t child = fork();
    if (child == 0)
        _exit(meet_in_a_flood());
    snprintf(path, sizeof path, "/tmp/tutti-%u", 100000 + (unsigned)child);
    cr_expect(ended_well(child));
    if (geteuid() == 0)
        rmdir(path);
}
