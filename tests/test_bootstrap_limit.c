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
