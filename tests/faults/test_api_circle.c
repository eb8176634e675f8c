/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_circle.c: ranks that wait for each other in a circle are told so, and nobody else is.
 *
 * There is no deadline in these tests but that of the suite: the communicators wait for ever. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/ranks.h"

TestSuite(api_circle, .timeout = 300);

enum { LARGE = 1 << 21 /* of 4 bytes: no rank has room for so much on the way */ };

static const tutti_stream none = { 0, TUTTI_STREAM_NONE, -1 };

static tutti_comm *join(struct ranks_me *me, const char *options)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = -1, .options = options };
    return ranks_join(me, &config);
}

static void part(struct ranks_me *me, tutti_comm *comm)
{
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

/* Every rank sends to the next, and would then receive. `context`: what the error says of the circle. */
static void all_send(struct ranks_me *me)
{
    tutti_comm *comm = join(me, NULL);
    int32_t *words = calloc(LARGE, sizeof *words);
    int next = (me->rank + 1) % me->n;
    tutti_status status = tutti_send(words, LARGE, TUTTI_INT32, next, comm, none);
    ranks_expect(me, status == TUTTI_INVALID_USAGE, "send: %s", tutti_get_last_error(NULL));
    ranks_meet(me);
    ranks_same_error(me, comm, TUTTI_INVALID_USAGE, me->context);
    free(words);
    part(me, comm);
}

Test(api_circle, sends)
{
    ranks_run(&(struct ranks_plan){
        .n = 2, .run = all_send, .context = "send of 2097152 int32 to rank|circle, |1 -> 0|group" });
    ranks_run(
        &(struct ranks_plan){ .n = 5, .kind = RANKS_THREADS, .run = all_send, .context = "4 -> 0|group" });
}

static void both_receive(struct ranks_me *me)
{
    tutti_comm *comm = join(me, NULL);
    int32_t word;
    tutti_status status = tutti_recv(&word, 1, TUTTI_INT32, 1 - me->rank, comm, none);
    ranks_expect(me, status == TUTTI_INVALID_USAGE, "recv: %s", tutti_get_last_error(NULL));
    ranks_meet(me);
    ranks_same_error(me, comm, TUTTI_INVALID_USAGE, "recv of 1 int32 from rank|circle");
    part(me, comm);
}

Test(api_circle, receives)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = both_receive });
}

/* What tutti.h says of two streams: on one communicator they do not help, on two they do. */
static void on_streams(struct ranks_me *me)
{
    tutti_comm *there = join(me, NULL), *back = join(me, NULL);
    int32_t *in = calloc(LARGE, sizeof *in), *out = calloc(LARGE, sizeof *out);
    tutti_stream a, b;
    uint64_t sent, received;
    int peer = 1 - me->rank;
    ranks_ok(me, tutti_stream_create(&a), "stream");
    ranks_ok(me, tutti_stream_create(&b), "stream");
    for (int comms = 2; comms >= 1; comms--) {
        tutti_comm *to = me->rank == 0 || comms == 1 ? there : back;
        tutti_comm *from = me->rank == 0 && comms == 2 ? back : there;
        ranks_at(me, "%d communicators", comms);
        ranks_ok(me, tutti_send(out, LARGE, TUTTI_INT32, peer, to, a), "send");
        ranks_ok(me, tutti_recv(in, LARGE, TUTTI_INT32, peer, from, b), "recv");
        ranks_ok(me, tutti_stream_record(a, &sent), "record");
        ranks_ok(me, tutti_stream_record(b, &received), "record");
        tutti_status expected = comms == 2 ? TUTTI_OK : TUTTI_INVALID_USAGE;
        ranks_expect(me, tutti_stream_wait(a, sent, -1) == expected, "send on A");
        ranks_expect(me, tutti_stream_wait(b, received, -1) == expected, "recv on B");
        ranks_meet(me);
    }
    ranks_ok(me, tutti_stream_destroy(a), "stream_destroy");
    ranks_ok(me, tutti_stream_destroy(b), "stream_destroy");
    free(in);
    free(out);
    part(me, back);
    part(me, there);
}

Test(api_circle, streams)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = on_streams });
}

/* --- What is no circle. */

static void exchange(struct ranks_me *me, tutti_comm *comm, int32_t *in, int32_t *out, size_t count, int peer)
{
    bool first = me->rank < peer;
    tutti_status status = first ? tutti_send(out, count, TUTTI_INT32, peer, comm, none)
                                : tutti_recv(in, count, TUTTI_INT32, peer, comm, none);
    ranks_ok(me, status, "the first half");
    status = first ? tutti_recv(in, count, TUTTI_INT32, peer, comm, none)
                   : tutti_send(out, count, TUTTI_INT32, peer, comm, none);
    ranks_ok(me, status, "the second half");
}

/* Each is stopped by turns, so that its peers see for long what it said before. */
static void in_order(struct ranks_me *me)
{
    tutti_comm *comm = join(me, NULL);
    volatile uint8_t *over = me->shared;
    int32_t *in = calloc(LARGE, sizeof *in), *out = calloc(LARGE, sizeof *out), go = 1;
    for (int round = 0; go; round++) {
        size_t count = round % 2 == 0 ? LARGE : 1;
        ranks_at(me, "round %d", round);
        for (int peer = 0; peer < me->n; peer++)
            for (int other = peer + 1; other < me->n; other++)
                if (me->rank == peer || me->rank == other)
                    exchange(me, comm, in, out, count, me->rank == peer ? other : peer);
        int32_t mine = *over == 0;
        if (!ranks_ok(me, tutti_all_reduce(&mine, &go, 1, TUTTI_INT32, TUTTI_MIN, comm, none), "all_reduce"))
            break;
    }
    free(in);
    free(out);
    ranks_part(me, comm);
}

Test(api_circle, ranks_that_are_stopped_are_in_none)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = in_order, .meddle = ranks_stop_in_turn, .limit_s = 120 });
}

/* Wake a process later. */
static pid_t wake_later(pid_t who, uint32_t ms)
{
    pid_t helper = fork();
    if (helper == 0) {
        ranks_sleep_us(1000 * ms);
        kill(who, SIGCONT);
        _exit(0);
    }
    return helper;
}

/* Rank 1 is stopped in a send that is received. What it said of its wait stands, and rank 0 is in a send
 * to it for so long that it would end anything that was only to be seen for long. */
static void stopped_in_send(struct ranks_me *me)
{
    enum { ONE_SLICE = 60000 };
    tutti_comm *comm = join(me, "slice=256K");
    void *memory;
    ranks_ok(me, tutti_mem_alloc(ONE_SLICE * sizeof(int32_t), TUTTI_MEM_HOST, &memory), "mem_alloc");
    int32_t *in = calloc(LARGE, sizeof *in), *out = calloc(LARGE, sizeof *out);
    ranks_meet(me);
    if (me->rank == 1) {
        ranks_ok(me, tutti_send(memory, ONE_SLICE, TUTTI_INT32, 0, comm, none), "send");
        ranks_ok(me, tutti_recv(in, LARGE, TUTTI_INT32, 0, comm, none), "recv");
    } else {
        pid_t other = me->world->slots[1].pid;
        ranks_sleep_us(500000); /* it has said that it waits */
        kill(other, SIGSTOP);
        pid_t helper = wake_later(other, 4000);
        ranks_ok(me, tutti_recv(in, ONE_SLICE, TUTTI_INT32, 1, comm, none), "recv");
        ranks_ok(me, tutti_send(out, LARGE, TUTTI_INT32, 1, comm, none), "send");
        waitpid(helper, NULL, 0);
    }
    free(in);
    free(out);
    ranks_ok(me, tutti_mem_free(memory), "mem_free");
    ranks_part(me, comm);
}

Test(api_circle, what_a_stopped_rank_said_is_no_proof)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = stopped_in_send, .limit_s = 120 });
}

/* --- Names */

/* Rank 0 of each child waits for ever: the child's end names itself, and who its ranks are in the world. */
static void names(struct ranks_me *me)
{
    tutti_comm *comm = join(me, NULL), *first, *child, *grandchild;
    ranks_ok(me, tutti_comm_split(comm, 0, 0, NULL, &first), "split");
    ranks_ok(me, tutti_comm_split(comm, me->rank / 2, -me->rank, NULL, &child), "split");
    ranks_ok(me, tutti_comm_split(child, 0, -tutti_comm_rank(child), NULL, &grandchild), "split");
    int32_t words[2] = { 0 }, count = 1 + me->rank % 2;
    tutti_status status =
        tutti_all_reduce(words, words, (size_t)count, TUTTI_INT32, TUTTI_SUM, grandchild, none);
    tutti_error error = { .size = sizeof error };
    ranks_expect(me, status == TUTTI_MISMATCH, "all_reduce: %s", tutti_status_string(status));
    ranks_ok(me, tutti_comm_get_error(grandchild, &error), "get_error");
    char name[64], who[64], other[64];
    /* Two keys turn the order round twice: rank r of the grandchild is the r-th of its two. */
    int world = me->rank / 2 * 2 + error.rank;
    snprintf(name, sizeof name, "split 1 of split 2 of comm-1, found by rank %d:", error.rank);
    snprintf(who, sizeof who, "; rank %d is rank %d of the world", error.rank, world);
    snprintf(other, sizeof other, ", rank %d is %d", 1 - error.rank, me->rank / 2 * 2 + 1 - error.rank);
    ranks_expect(me, strstr(error.text, name) && strstr(error.text, who) && strstr(error.text, other),
        "%s: no '%s', '%s' or '%s'", error.text, name, who, other);
    part(me, grandchild);
    part(me, child);
    part(me, first);
    ranks_part(me, comm);
}

Test(api_circle, names_of_children)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .run = names });
}
