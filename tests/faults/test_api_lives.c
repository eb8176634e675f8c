/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_lives.c: whatever ends a rank, its peers hear of it long before their deadline: where the kernel
 * or a container has no pidfd, where a child of the rank lives on with all that it inherited, and where the
 * rank becomes another program. Who only closes its descriptors lives. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/rig/ranks.h"

TestSuite(api_lives, .timeout = 120);

enum { PIDFD_OPEN = 434, TIMEOUT_MS = 40000 };
enum ending { DIES, BECOMES_ANOTHER, LEAVES_A_CHILD, LEAVES_A_CLONE };

struct way {
    enum ending ending;
    int pidfd; /* what pidfd_open answers; 0: as the kernel does */
};

/* As a kernel before 5.3, or a container that forbids what it does not know. */
static bool forbid_pidfds(int answer)
{
    struct sock_filter filter[] = { BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PIDFD_OPEN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)answer),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
    struct sock_fprog program = { sizeof filter / sizeof filter[0], filter };
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return false;
    return syscall(PIDFD_OPEN, getpid(), 0) == -1 && errno == answer;
}

/* It ends with the rank that its parent waits for, but has nothing more to do with the communicator. */
static void live_on(struct ranks_me *me, pid_t child)
{
    if (child != 0)
        return;
    prctl(PR_SET_PDEATHSIG, 0);
    int64_t began = ranks_now_ms();
    while (!me->world->slots[0].over && ranks_now_ms() - began < 2 * TIMEOUT_MS)
        ranks_sleep_us(10000);
    _exit(0);
}

static _Noreturn void end(struct ranks_me *me, enum ending ending)
{
    atomic_store(&me->world->slots[me->rank].over, true);
    if (ending == LEAVES_A_CHILD)
        live_on(me, fork());
    if (ending == LEAVES_A_CLONE) /* without what the C library does at a fork */
        live_on(me, (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, 0UL));
    if (ending == BECOMES_ANOTHER)
        execl("/bin/sleep", "sleep", "1000", (char *)NULL);
    raise(SIGKILL);
    _exit(1);
}

static void lose_rank_1(struct ranks_me *me)
{
    const struct way *way = me->context;
    tutti_config config = { .size = sizeof config, .timeout_ms = TIMEOUT_MS };
    ranks_at(me, "rank %d: rank 1 ends, way %d, pidfd_open answers %d", me->rank, way->ending, way->pidfd);
    if (way->pidfd != 0 && !ranks_expect(me, forbid_pidfds(way->pidfd), "no filter: %s", strerror(errno)))
        return;
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    for (int i = 0; i < 3; i++)
        ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    if (me->rank == 1)
        end(me, way->ending);
    ranks_refused(me, tutti_barrier(comm, tutti_no_stream()), TUTTI_PEER_LOST, "barrier",
        "rank 1 died or became another program");
    tutti_error error = { .size = sizeof error };
    tutti_comm_get_error(comm, &error);
    ranks_expect(me, error.peer == 1, "the peer is %d", error.peer);
    ranks_part(me, comm);
    if (me->rank == 0)
        kill(me->world->slots[1].pid, SIGKILL); /* what it has become */
}

static void run(enum ending ending, int pidfd)
{
    struct way way = { ending, pidfd };
    ranks_run(&(struct ranks_plan){ .n = 3, .run = lose_rank_1, .context = &way, .may_die = 1 << 1 });
}

Test(api_lives, without_pidfds)
{
    run(DIES, ENOSYS);
    run(DIES, EPERM);
}

Test(api_lives, exec)
{
    run(BECOMES_ANOTHER, 0);
    run(BECOMES_ANOTHER, ENOSYS);
}

Test(api_lives, child_that_lives_on)
{
    run(LEAVES_A_CHILD, 0);
    run(LEAVES_A_CLONE, 0);
}

static void close_all(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    if (me->rank == 1) {
        for (int fd = 3; fd < 256; fd++)
            close(fd);
        ranks_sleep_us(300000); /* its peers look around meanwhile */
    }
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    ranks_part(me, comm);
}

Test(api_lives, without_descriptors)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = close_all });
}
