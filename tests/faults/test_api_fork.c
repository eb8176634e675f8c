/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_fork.c: processes that fork, as Python's multiprocessing does.
 *
 * A child has its parent's handles. Any use of them is refused, and changes nothing: the parent's ranks go on
 * with right results. What the child makes itself works at once, whatever other threads of its parent were
 * doing as it was forked. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/patience.h"
#include "tests/rig/ranks.h"

/* AddressSanitizer's allocator may be locked by another thread in the moment of a fork. */
#ifdef __SANITIZE_ADDRESS__
enum { FORKS_HANG = true };
#else
enum { FORKS_HANG = false };
#endif

TestSuite(api_fork, .timeout = 120);

enum { COUNT = 4, CALLS = 30, FORKS = 400, PATIENCE_S = 30 };

struct parents { /* handles that the child finds */
    tutti_comm *comm;
    tutti_program *program;
    tutti_op op;
};
static const struct parents *old;
static int64_t send_space[RANKS_MAX * COUNT], recv_space[RANKS_MAX * COUNT];
static const size_t counts[RANKS_MAX], displs[RANKS_MAX];

static void add(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((int64_t *)dst)[i] = ((const int64_t *)left)[i] + ((const int64_t *)right)[i];
}

#define NONE tutti_no_stream()
#define TYPE TUTTI_INT64
static tutti_status barrier(void)
{
    return tutti_barrier(old->comm, NONE);
}
static tutti_status all_reduce(void)
{
    return tutti_all_reduce(send_space, recv_space, COUNT, TYPE, TUTTI_SUM, old->comm, NONE);
}
static tutti_status with_op(void)
{
    return tutti_all_reduce(send_space, recv_space, COUNT, TYPE, old->op, old->comm, NONE);
}
static tutti_status reduce(void)
{
    return tutti_reduce(send_space, recv_space, COUNT, TYPE, TUTTI_SUM, 0, old->comm, NONE);
}
static tutti_status broadcast(void)
{
    return tutti_broadcast(send_space, recv_space, COUNT, TYPE, 0, old->comm, NONE);
}
static tutti_status reduce_scatter(void)
{
    return tutti_reduce_scatter(send_space, recv_space, COUNT, TYPE, TUTTI_SUM, old->comm, NONE);
}
static tutti_status all_gather(void)
{
    return tutti_all_gather(send_space, recv_space, COUNT, TYPE, old->comm, NONE);
}
static tutti_status all_gather_v(void)
{
    return tutti_all_gather_v(send_space, 0, recv_space, counts, displs, TYPE, old->comm, NONE);
}
static tutti_status all_to_all(void)
{
    return tutti_all_to_all(send_space, recv_space, COUNT, TYPE, old->comm, NONE);
}
static tutti_status gather(void)
{
    return tutti_gather(send_space, recv_space, COUNT, TYPE, 0, old->comm, NONE);
}
static tutti_status scatter(void)
{
    return tutti_scatter(send_space, recv_space, COUNT, TYPE, 0, old->comm, NONE);
}
static tutti_status reduce_scatter_v(void)
{
    return tutti_reduce_scatter_v(send_space, counts, recv_space, TYPE, TUTTI_SUM, old->comm, NONE);
}
static tutti_status all_to_all_v(void)
{
    return tutti_all_to_all_v(send_space, counts, NULL, recv_space, counts, NULL, TYPE, old->comm, NONE);
}
static tutti_status gather_v(void)
{
    return tutti_gather_v(send_space, 0, recv_space, counts, NULL, TYPE, 0, old->comm, NONE);
}
static tutti_status scatter_v(void)
{
    return tutti_scatter_v(send_space, counts, NULL, recv_space, 0, TYPE, 0, old->comm, NONE);
}
static tutti_status send(void)
{
    return tutti_send(send_space, COUNT, TYPE, 1, old->comm, NONE);
}
static tutti_status recv(void)
{
    return tutti_recv(recv_space, COUNT, TYPE, 1, old->comm, NONE);
}
static tutti_status in_a_group(void)
{
    tutti_group_start();
    send();
    return tutti_group_end();
}
static tutti_status split(void)
{
    tutti_comm *child;
    return tutti_comm_split(old->comm, 0, 0, NULL, &child);
}
static tutti_status op_create(void)
{
    tutti_op op;
    return tutti_op_create(old->comm, add, NULL, 8, 1, &op);
}
static tutti_status pre_mul_sum(void)
{
    tutti_op op;
    return tutti_op_create_pre_mul_sum(old->comm, send_space, TYPE, 0, &op);
}
static tutti_status op_destroy(void)
{
    return tutti_op_destroy(old->comm, old->op);
}
static tutti_status start(void)
{
    return tutti_program_start(old->program);
}
static tutti_status program_destroy(void)
{
    return tutti_program_destroy(old->program);
}
static tutti_status state(void)
{
    return tutti_comm_state(old->comm);
}
static tutti_status get_error(void)
{
    tutti_error error = { .size = sizeof error };
    return tutti_comm_get_error(old->comm, &error);
}
static tutti_status finalize(void)
{
    return tutti_comm_finalize(old->comm);
}
static tutti_status end(void)
{
    return tutti_comm_abort(old->comm);
}
static tutti_status destroy(void)
{
    return tutti_comm_destroy(old->comm);
}

static const struct {
    const char *name;
    tutti_status (*use)(void);
} uses[] = { { "barrier", barrier }, { "all_reduce", all_reduce }, { "with_op", with_op },
    { "reduce", reduce }, { "broadcast", broadcast }, { "reduce_scatter", reduce_scatter },
    { "all_gather", all_gather }, { "all_gather_v", all_gather_v }, { "all_to_all", all_to_all },
    { "gather", gather }, { "scatter", scatter }, { "reduce_scatter_v", reduce_scatter_v },
    { "all_to_all_v", all_to_all_v }, { "gather_v", gather_v }, { "scatter_v", scatter_v }, { "send", send },
    { "recv", recv }, { "group", in_a_group }, { "split", split }, { "op_create", op_create },
    { "pre_mul_sum", pre_mul_sum }, { "op_destroy", op_destroy }, { "program_start", start },
    { "program_destroy", program_destroy }, { "state", state }, { "get_error", get_error },
    { "finalize", finalize }, { "abort", end }, { "destroy", destroy } };
enum { USES = sizeof uses / sizeof uses[0] };

/* Of the child: a communicator of its own, and a call. */
static bool works_alone(void)
{
    tutti_comm *mine;
    int64_t value = 7, sum = 0;
    return tutti_comm_init_all(1, NULL, NULL, &mine) == TUTTI_OK &&
           tutti_all_reduce(&value, &sum, 1, TYPE, TUTTI_SUM, mine, NONE) == TUTTI_OK && sum == 7 &&
           tutti_comm_destroy(mine) == TUTTI_OK;
}

/* In the child. Returns which use was not refused; 0: all were. */
static int use_all(void)
{
    char parent[32];
    alarm(patience_seconds(PATIENCE_S));
    snprintf(parent, sizeof parent, "process %ld,", (long)getppid());
    if (tutti_group_end() != TUTTI_INVALID_USAGE) /* it was forked by a thread inside a group */
        return 100;
    for (int i = 0; i < USES; i++)
        if (uses[i].use() != TUTTI_INVALID_USAGE || strstr(tutti_get_last_error(NULL), parent) == NULL ||
            strstr(tutti_get_last_error(NULL), "forked this one") == NULL)
            return i + 1;
    if (tutti_comm_rank(old->comm) != -1 || tutti_comm_size(old->comm) != -1)
        return 101;
    return works_alone() ? 0 : 102;
}

static void go_on(struct ranks_me *me, tutti_comm *comm, int round)
{
    int64_t mine[COUNT], sum[COUNT];
    for (int i = 0; i < COUNT; i++)
        mine[i] = me->rank + round * 10 + i;
    ranks_ok(me, tutti_all_reduce(mine, sum, COUNT, TYPE, TUTTI_SUM, comm, NONE), "the parent's all_reduce");
    for (int i = 0; i < COUNT; i++) {
        int64_t expected = me->n * (me->n - 1) / 2 + me->n * (round * 10 + i);
        ranks_expect(me, sum[i] == expected, "element %d is %lld, not %lld", i, (long long)sum[i],
            (long long)expected);
    }
}

static void child_of_each(struct ranks_me *me)
{
    int outcome = -1;
    struct parents mine = { .comm = ranks_join(me, NULL) };
    old = &mine;
    ranks_ok(me, tutti_op_create(mine.comm, add, NULL, 8, 1, &mine.op), "op_create");
    tutti_group_start();
    tutti_barrier(mine.comm, NONE);
    ranks_ok(me, tutti_group_keep(&mine.program), "group_keep");
    for (int i = 0; i < CALLS; i++) /* so that it knows the calls */
        go_on(me, mine.comm, i);
    tutti_group_start();
    pid_t child = fork();
    if (child == 0)
        _exit(use_all());
    ranks_ok(me, tutti_group_end(), "the parent's group");
    for (int i = 0; i < CALLS; i++)
        go_on(me, mine.comm, i);
    bool ended = waitpid(child, &outcome, 0) == child && WIFEXITED(outcome);
    int use = ended ? WEXITSTATUS(outcome) : -1;
    ranks_expect(me, use == 0, "the child ended with 0x%x: %s", outcome,
        use > 0 && use <= USES ? uses[use - 1].name : "not by a call");
    for (int i = 0; i < CALLS; i++)
        go_on(me, mine.comm, i);
    ranks_ok(me, tutti_program_start(mine.program), "the parent's program");
    ranks_ok(me, tutti_program_destroy(mine.program), "program_destroy");
    ranks_part(me, mine.comm);
}

Test(api_fork, no_call_of_a_child_goes_through)
{
    for (int n = 1; n <= 3; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = child_of_each });
}

/* --- Forks at any moment */

static _Atomic bool over;

static void *make_and_end(void *argument)
{
    struct ranks_me *me = argument;
    while (!atomic_load(&over))
        ranks_expect(me, works_alone(), "a thread's communicator: %s", tutti_get_last_error(NULL));
    return NULL;
}

static void *attempt(void *argument)
{
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_NONBLOCKING, .timeout_ms = 20 };
    tutti_comm *comm;
    tutti_id id;
    struct ranks_me *me = argument;
    while (!atomic_load(&over)) {
        bool made =
            tutti_get_id(&id) == TUTTI_OK && tutti_comm_init_rank(1, 0, &id, &config, &comm) == TUTTI_OK;
        ranks_expect(
            me, made && tutti_comm_destroy(comm) == TUTTI_OK, "an attempt: %s", tutti_get_last_error(NULL));
    }
    return NULL;
}

static void fork_often(struct ranks_me *me)
{
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, make_and_end, me);
    pthread_create(&threads[1], NULL, make_and_end, me);
    pthread_create(&threads[2], NULL, attempt, me);
    for (int i = 0; i < FORKS; i++) {
        int outcome = -1;
        ranks_at(me, "fork %d", i);
        pid_t child = fork();
        if (child == 0) {
            alarm(patience_seconds(PATIENCE_S));
            _exit(works_alone() ? 0 : 1);
        }
        bool waited = waitpid(child, &outcome, 0) == child;
        ranks_expect(me, waited && outcome == 0, "child %d ended with 0x%x", i, outcome);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

Test(api_fork, while_other_threads_are_inside, .disabled = FORKS_HANG)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = fork_often, .limit_s = 100 });
}
