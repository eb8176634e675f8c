/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_stream_faults.c: streams and calls in them that are wrong, that fail, or that nobody waits for. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/patience.h"
#include "tests/rig/ranks.h"

TestSuite(api_stream_faults, .timeout = 120);

enum { SOON_MS = 60000 };

static tutti_stream open_stream(struct ranks_me *me)
{
    tutti_stream stream = tutti_no_stream();
    ranks_ok(me, tutti_stream_create(&stream), "tutti_stream_create");
    return stream;
}

static uint64_t point_of(struct ranks_me *me, tutti_stream stream)
{
    uint64_t point = 0;
    ranks_ok(me, tutti_stream_record(stream, &point), "tutti_stream_record");
    return point;
}

static tutti_status sum(uint64_t *value, tutti_comm *comm, tutti_stream stream)
{
    return tutti_all_reduce(value, value, 1, TUTTI_UINT64, TUTTI_SUM, comm, stream);
}

static void expect_status(struct ranks_me *me, const char *call, tutti_status status, tutti_status expected)
{
    ranks_expect(me, status == expected, "%s returned %d (%s), expected %d", call, status,
        tutti_get_last_error(NULL), expected);
}

/* --- Wrong arguments */

static void refuse_stream(struct ranks_me *me, tutti_comm *comm, tutti_stream s, tutti_stream good,
    tutti_status expected, const char *words)
{
    uint64_t point = 77, value = 1;
    ranks_refused(me, tutti_stream_record(s, &point), expected, "record", words);
    ranks_refused(me, tutti_stream_query(s, 0), expected, "query", words);
    ranks_refused(me, tutti_stream_wait(s, 0, -1), expected, "wait", words);
    ranks_refused(me, tutti_stream_after(s, good, 0), expected, "after: later", words);
    ranks_refused(me, tutti_stream_after(good, s, 0), expected, "after: earlier", words);
    ranks_refused(me, tutti_stream_destroy(s), expected, "destroy", words);
    ranks_expect(me, point == 77, "a refused record has set its output");
    if (s.kind != TUTTI_STREAM_NONE)
        ranks_refused(me, sum(&value, comm, s), expected, "all_reduce", words);
}

static void wrong_streams(struct ranks_me *me)
{
    _Alignas(64) uint8_t garbage[128] = { 1, 2, 3 };
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream good = open_stream(me), dead = open_stream(me);
    tutti_status bad = TUTTI_INVALID_ARGUMENT;
    if (comm == NULL)
        return;
    ranks_ok(me, tutti_stream_destroy(dead), "tutti_stream_destroy");
    refuse_stream(me, comm, tutti_no_stream(), good, bad, "stream|tutti_no_stream");
    refuse_stream(me, comm, dead, good, bad, "stream|destroyed");
    refuse_stream(me, comm, (tutti_stream){ NULL, TUTTI_STREAM_HOST, -1 }, good, bad, "stream|NULL");
    refuse_stream(me, comm, (tutti_stream){ garbage, TUTTI_STREAM_HOST, -1 }, good, bad, "not a stream");
    refuse_stream(me, comm, (tutti_stream){ comm, TUTTI_STREAM_HOST, -1 }, good, bad, "not a stream");
    refuse_stream(me, comm, (tutti_stream){ NULL, 2, 0 }, good, TUTTI_UNSUPPORTED, "kind 2");
    for (int i = 0; i < 20; i++) { /* a handle is not reused soon */
        tutti_stream another = open_stream(me);
        refuse_stream(me, comm, dead, good, bad, "stream|destroyed");
        ranks_ok(me, tutti_stream_destroy(another), "tutti_stream_destroy");
    }
    ranks_refused(me, tutti_stream_create(NULL), bad, "create", "NULL");
    ranks_refused(me, tutti_stream_record(good, NULL), bad, "record", "point");
    ranks_refused(me, tutti_stream_query(good, 1), bad, "query", "point is 1|up to 0");
    ranks_refused(me, tutti_stream_wait(good, 1, -1), bad, "wait", "point is 1");
    ranks_refused(me, tutti_stream_wait(good, 0, -2), bad, "wait", "timeout_ms is -2");
    ranks_refused(me, tutti_stream_after(good, good, 9), bad, "after", "point is 9");
    ranks_refused(me, tutti_barrier((tutti_comm *)good.handle, good), bad, "barrier", "not a communicator");
    ranks_ok(me, tutti_stream_wait(good, 0, 0), "an empty stream");
    ranks_ok(me, tutti_stream_destroy(good), "tutti_stream_destroy");
    ranks_part(me, comm);
}

Test(api_stream_faults, handles_and_points_that_are_none)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = wrong_streams });
}

/* What a call's arguments tell is told by the call: nothing is queued, in a group neither. */
static void wrong_calls(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "algo=all_gather:nonesuch" };
    tutti_comm *comm = ranks_join(me, &config);
    tutti_stream stream = open_stream(me), dead = open_stream(me);
    uint64_t value = 1, all[2] = { 0 };
    if (comm == NULL)
        return;
    ranks_refused(me, tutti_all_reduce(NULL, &value, 1, TUTTI_UINT64, TUTTI_SUM, comm, stream),
        TUTTI_INVALID_ARGUMENT, "all_reduce", "send is NULL");
    ranks_refused(me, tutti_all_gather(&value, all, 1, TUTTI_UINT64, comm, stream), TUTTI_INVALID_USAGE,
        "all_gather", "nonesuch|eligible");
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, sum(&value, comm, stream), "all_reduce");
    ranks_refused(
        me, tutti_barrier(comm, (tutti_stream){ NULL, 9, -1 }), TUTTI_UNSUPPORTED, "barrier", "kind 9");
    expect_status(me, "group_end", tutti_group_end(), TUTTI_UNSUPPORTED);
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, sum(&value, comm, stream), "all_reduce");
    ranks_ok(me, tutti_barrier(comm, dead), "barrier");
    ranks_ok(me, tutti_stream_destroy(dead), "tutti_stream_destroy");
    ranks_refused(me, tutti_group_end(), TUTTI_INVALID_ARGUMENT, "group_end", "barrier|destroyed");
    ranks_expect(me, point_of(me, stream) == 0 && value == 1, "a call of a wrong group was queued");
    ranks_ok(me, sum(&value, comm, stream), "all_reduce");
    ranks_ok(me, tutti_stream_destroy(stream), "tutti_stream_destroy");
    ranks_expect(me, value == 2, "the sum is %llu", (unsigned long long)value);
    ranks_part(me, comm);
}

Test(api_stream_faults, wrong_calls_are_told_at_once)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = wrong_calls });
}

/* --- Failures */

/* One communicator fails; its later calls fail, those of another go on, and points tell which was which. */
static void one_fails(struct ranks_me *me)
{
    tutti_config hasty = { .size = sizeof hasty, .timeout_ms = 3000, .name = "hasty" };
    tutti_comm *bad = ranks_join(me, &hasty), *good = ranks_join(me, NULL);
    tutti_stream stream = open_stream(me), other = open_stream(me);
    uint64_t x[4] = { 1, 1, 1, 1 }, points[3];
    if (bad == NULL || good == NULL)
        return;
    ranks_at(me, "rank %d: a communicator that fails", me->rank);
    ranks_ok(me, sum(&x[0], good, stream), "all_reduce");
    points[0] = point_of(me, stream);
    if (me->rank != 2) {
        ranks_ok(me, sum(&x[1], bad, stream), "all_reduce");
        ranks_ok(me, sum(&x[2], bad, other), "all_reduce");
    }
    points[1] = point_of(me, stream);
    ranks_ok(me, sum(&x[3], good, stream), "all_reduce");
    points[2] = point_of(me, stream);
    tutti_status expected = me->rank != 2 ? TUTTI_TIMEOUT : TUTTI_OK;
    expect_status(me, "wait", tutti_stream_wait(stream, points[2], -1), expected);
    ranks_expect(me, me->rank == 2 || strstr(tutti_get_last_error(NULL), "hasty") != NULL,
        "the last error is \"%s\"", tutti_get_last_error(NULL));
    expect_status(me, "query", tutti_stream_query(stream, points[0]), TUTTI_OK);
    expect_status(me, "query", tutti_stream_query(stream, points[1]), expected);
    expect_status(me, "wait", tutti_stream_wait(other, point_of(me, other), -1), expected);
    ranks_expect(me, x[0] == 3 && x[3] == 3, "the good sums are %llu and %llu", (unsigned long long)x[0],
        (unsigned long long)x[3]);
    ranks_same_error(me, bad, TUTTI_TIMEOUT, "hasty|rank 2|operation 0");
    expect_status(me, "state", tutti_comm_state(good), TUTTI_OK);
    expect_status(me, "a call of it", sum(&x[1], bad, stream), TUTTI_TIMEOUT);
    ranks_ok(me, tutti_stream_destroy(stream), "tutti_stream_destroy");
    ranks_ok(me, tutti_stream_destroy(other), "tutti_stream_destroy");
    stream = open_stream(me); /* perhaps the same inside: it knows nothing of that */
    expect_status(me, "query", tutti_stream_query(stream, point_of(me, stream)), TUTTI_OK);
    ranks_ok(me, tutti_stream_destroy(stream), "tutti_stream_destroy");
    ranks_part(me, bad);
    ranks_part(me, good);
}

Test(api_stream_faults, errors_belong_to_the_communicator)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = one_fails });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = one_fails });
}

/* A failing call of a group over two streams and none is told by all of them. */
static void group_fails(struct ranks_me *me)
{
    tutti_config hasty = { .size = sizeof hasty, .timeout_ms = 3000 };
    tutti_comm *bad = ranks_join(me, &hasty), *good = ranks_join(me, NULL);
    tutti_stream streams[2] = { open_stream(me), open_stream(me) };
    uint64_t x[3] = { 1, 1, 1 };
    if (bad == NULL || good == NULL)
        return;
    ranks_at(me, "rank %d: a group that fails", me->rank);
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, sum(&x[0], good, streams[0]), "all_reduce");
    if (me->rank == 0)
        ranks_ok(me, sum(&x[1], bad, streams[1]), "all_reduce");
    ranks_ok(me, sum(&x[2], good, tutti_no_stream()), "all_reduce");
    tutti_status expected = me->rank == 0 ? TUTTI_TIMEOUT : TUTTI_OK;
    expect_status(me, "group_end", tutti_group_end(), expected);
    ranks_expect(me, x[0] == 2 && x[2] == 2, "the good sums are %llu and %llu", (unsigned long long)x[0],
        (unsigned long long)x[2]);
    for (int i = 0; i < 2; i++) {
        expect_status(me, "wait", tutti_stream_wait(streams[i], point_of(me, streams[i]), -1), expected);
        ranks_ok(me, tutti_stream_destroy(streams[i]), "tutti_stream_destroy");
    }
    ranks_part(me, good);
    ranks_meet(me);
    ranks_part(me, bad);
}

Test(api_stream_faults, all_streams_of_a_group_tell_its_failure)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = group_fails });
}

/* Rank 1 dies while rank 0 has calls in streams. */
static void dies(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream streams[2] = { open_stream(me), open_stream(me) };
    uint64_t x[8] = { 0 };
    if (comm == NULL)
        return;
    ranks_ok(me, sum(&x[0], comm, streams[0]), "all_reduce");
    if (me->rank == 1) {
        ranks_ok(me, tutti_stream_wait(streams[0], 1, -1), "tutti_stream_wait");
        raise(SIGKILL);
    }
    ranks_at(me, "rank %d: rank 1 dies", me->rank);
    for (int i = 1; i < 8; i++) {
        tutti_status status = sum(&x[i], comm, streams[i % 2]);
        ranks_expect(me, status == TUTTI_OK || status == TUTTI_PEER_LOST, "all_reduce returned %d", status);
    }
    expect_status(me, "the first", tutti_stream_wait(streams[0], 1, -1), TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        tutti_status status = tutti_stream_wait(streams[i], point_of(me, streams[i]), SOON_MS);
        ranks_expect(
            me, status == TUTTI_PEER_LOST || point_of(me, streams[i]) < 2, "stream %d: %d", i, status);
        ranks_ok(me, tutti_stream_destroy(streams[i]), "tutti_stream_destroy");
    }
    expect_status(me, "a call without a stream", sum(&x[0], comm, tutti_no_stream()), TUTTI_PEER_LOST);
    ranks_part(me, comm);
}

Test(api_stream_faults, a_rank_dies)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = dies, .may_die = 1 << 1 });
}

/* The communicator is destroyed while one call runs and others stand behind it, on another stream behind a
 * call of another communicator that goes on: destroy does not wait for that, and the buffers are free. */
static void destroyed(struct ranks_me *me)
{
    enum { BYTES = 1 << 20 };
    _Atomic int *gone = me->shared;
    tutti_comm *comm = ranks_join(me, NULL), *other = ranks_join(me, NULL);
    tutti_stream streams[2] = { open_stream(me), open_stream(me) };
    uint64_t x[2] = { 1, 1 };
    uint8_t *bytes = malloc(BYTES);
    if (comm == NULL || other == NULL || bytes == NULL)
        return;
    memset(bytes, 1, BYTES);
    if (me->rank == 0) {
        ranks_at(me, "rank 0: destroys with calls in streams");
        ranks_ok(me, sum(&x[0], other, streams[1]), "all_reduce");
        for (int i = 0; i < 2; i++)
            ranks_ok(me, tutti_all_reduce(bytes, bytes, BYTES / 4, TUTTI_INT32, TUTTI_SUM, comm, streams[i]),
                "all_reduce");
        int64_t began = ranks_now_ms();
        ranks_ok(me, tutti_comm_destroy(comm), "tutti_comm_destroy");
        ranks_expect(me, ranks_now_ms() - began < SOON_MS, "destroy took %lld ms",
            (long long)(ranks_now_ms() - began));
        memset(bytes, 2, BYTES);
        free(bytes);
        tutti_status status = sum(&x[1], comm, streams[0]);
        ranks_refused(me, status, TUTTI_INVALID_ARGUMENT, "all_reduce", "destroyed");
        expect_status(
            me, "first", tutti_stream_wait(streams[0], point_of(me, streams[0]), -1), TUTTI_ABORTED);
        expect_status(
            me, "second", tutti_stream_query(streams[1], point_of(me, streams[1])), TUTTI_IN_PROGRESS);
        atomic_store(gone, 1);
        expect_status(
            me, "second", tutti_stream_wait(streams[1], point_of(me, streams[1]), -1), TUTTI_ABORTED);
        expect_status(me, "other", tutti_stream_query(streams[1], 1), TUTTI_OK);
    } else {
        while (atomic_load(gone) == 0)
            ranks_sleep_us(100);
        expect_status(me, "barrier", tutti_barrier(comm, tutti_no_stream()), TUTTI_ABORTED);
        ranks_expect(me, strstr(tutti_get_last_error(comm), "rank 0") != NULL, "the error says \"%s\"",
            tutti_get_last_error(comm));
        ranks_part(me, comm);
        ranks_ok(me, sum(&x[0], other, tutti_no_stream()), "all_reduce");
        free(bytes);
    }
    for (int i = 0; i < 2; i++)
        ranks_ok(me, tutti_stream_destroy(streams[i]), "tutti_stream_destroy");
    ranks_expect(me, x[0] == 2, "the other communicator's sum is %llu", (unsigned long long)x[0]);
    ranks_part(me, other);
}

Test(api_stream_faults, a_communicator_is_destroyed_with_calls_in_streams)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = destroyed });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = destroyed });
}

/* Aborted from outside: what is queued ends, and destroying the stream does not wait for long. */
static void aborted(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream stream = open_stream(me);
    uint64_t x[20] = { 0 };
    if (comm == NULL)
        return;
    for (int i = 0; i < 20 && me->rank == 0; i++)
        ranks_ok(me, sum(&x[i], comm, stream), "all_reduce");
    if (me->rank == 0)
        ranks_ok(me, tutti_comm_abort(comm), "tutti_comm_abort");
    ranks_ok(me, tutti_stream_destroy(stream), "tutti_stream_destroy");
    ranks_meet(me);
    ranks_same_error(me, comm, TUTTI_ABORTED, "rank 0");
    ranks_part(me, comm);
}

Test(api_stream_faults, abort_ends_what_is_queued)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = aborted });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = aborted });
}

/* --- Processes that end or fork with streams */

static void leave_streams(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream busy = open_stream(me);
    static uint64_t x = 1;
    open_stream(me); /* idle */
    if (comm == NULL)
        return;
    if (me->rank == 0)
        ranks_ok(me, sum(&x, comm, busy), "all_reduce"); /* and it never comes to that */
    ranks_meet(me);
    ranks_at(me, "rank %d: leaves streams behind", me->rank);
}

Test(api_stream_faults, a_process_ends_with_streams)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = leave_streams, .limit_s = 30 });
}

/* In the child what is old is refused and nothing hangs; what the parent has queued goes on, and the child
 * can have streams of its own. */
static int use_in_child(tutti_comm *parents, tutti_stream old)
{
    tutti_comm *comm;
    tutti_stream stream;
    uint64_t point, value = 5;
    alarm(patience_seconds(20));
    if (tutti_stream_record(old, &point) != TUTTI_INVALID_USAGE ||
        tutti_stream_destroy(old) != TUTTI_INVALID_USAGE)
        return 1;
    if (strstr(tutti_get_last_error(NULL), "fork") == NULL)
        return 2;
    if (tutti_comm_abort(parents) != TUTTI_INVALID_USAGE ||
        tutti_comm_destroy(parents) != TUTTI_INVALID_USAGE)
        return 7;
    if (strstr(tutti_get_last_error(NULL), "fork") == NULL)
        return 8;
    if (tutti_comm_init_all(1, NULL, NULL, &comm) != TUTTI_OK || tutti_stream_create(&stream) != TUTTI_OK)
        return 3;
    if (sum(&value, comm, old) != TUTTI_INVALID_USAGE || sum(&value, comm, stream) != TUTTI_OK)
        return 4;
    if (tutti_stream_wait(stream, 1, -1) != TUTTI_OK || tutti_stream_destroy(stream) != TUTTI_OK)
        return 5;
    return tutti_comm_destroy(comm) == TUTTI_OK ? 0 : 6;
}

static void forks(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream stream = open_stream(me);
    uint64_t x = 1;
    int outcome = -1;
    if (comm == NULL)
        return;
    for (int i = 0; i < 200; i++)
        ranks_ok(me, sum(&x, comm, stream), "all_reduce");
    ranks_at(me, "rank %d: forks while calls are queued", me->rank);
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(comm, stream));
    ranks_expect(me, waitpid(child, &outcome, 0) == child && WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0,
        "the child ended with 0x%x", outcome);
    ranks_ok(me, tutti_stream_destroy(stream), "tutti_stream_destroy");
    ranks_expect(me, x == 0, "2^200 modulo 2^64 is %llu", (unsigned long long)x);
    ranks_part(me, comm);
}

/* AddressSanitizer's allocator may be locked by another thread in the moment of the fork; then the child
 * waits for ever in malloc. */
#ifdef __SANITIZE_ADDRESS__
enum { FORKS_HANG = true };
#else
enum { FORKS_HANG = false };
#endif

Test(api_stream_faults, a_process_forks, .disabled = FORKS_HANG)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = forks });
}
