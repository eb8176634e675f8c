/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_refused.c: one rank's call is refused for its arguments, and the others are in theirs.
 *
 * The last rank makes each wrong call while its peers wait in the right one. If it leaves it at that, all
 * get INVALID_USAGE with its reason, long before the timeout, which here is that of the suite. If it makes
 * the call right, all is as if nothing had been. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/rig/ranks.h"

TestSuite(api_refused, .timeout = 300);

enum { MOST = 300000, LEAST = 5 };
enum { WRONG = 1, RIGHT = 0 };

static int32_t send_space[RANKS_MAX][MOST], recv_space[RANKS_MAX][MOST];
static const tutti_stream none = { 0, TUTTI_STREAM_NONE, -1 };

struct spot { /* where a call is made: by whom, on what */
    struct ranks_me *me;
    tutti_comm *comm;
    tutti_stream stream;
    size_t count;
    int32_t *in, *out;
};

static tutti_status all_reduce(const struct spot *s, bool wrong)
{
    return tutti_all_reduce(
        s->in, wrong ? s->in + 1 : s->out, s->count, TUTTI_INT32, TUTTI_SUM, s->comm, s->stream);
}

static tutti_status broadcast(const struct spot *s, bool wrong)
{
    return tutti_broadcast(s->in, wrong ? NULL : s->out, s->count, TUTTI_INT32, 0, s->comm, s->stream);
}

static tutti_status reduce(const struct spot *s, bool wrong)
{
    const void *in = wrong ? (const void *)((const uint8_t *)s->in + 1) : s->in;
    return tutti_reduce(in, s->out, s->count, TUTTI_INT32, TUTTI_MAX, 0, s->comm, s->stream);
}

static tutti_status wrong_operator(const struct spot *s, bool wrong)
{
    return tutti_all_reduce(s->in, s->out, s->count, TUTTI_INT32, wrong ? 99 : TUTTI_SUM, s->comm, s->stream);
}

static tutti_status all_to_all_v(const struct spot *s, bool wrong)
{
    size_t counts[RANKS_MAX], displs[RANKS_MAX];
    for (int r = 0; r < s->me->n; r++) {
        counts[r] = LEAST;
        displs[r] = (size_t)r * (wrong ? LEAST - 1 : LEAST);
    }
    return tutti_all_to_all_v(s->in, counts, NULL, s->out, counts, displs, TUTTI_INT32, s->comm, s->stream);
}

static tutti_status barrier_of_a_group(const struct spot *s, bool wrong)
{
    tutti_group_start();
    tutti_barrier(s->comm, s->stream);
    if (wrong)
        tutti_broadcast(s->in, s->out, s->count, (tutti_type)77, 0, s->comm, s->stream);
    return tutti_group_end();
}

/* The last rank sends to rank 0; the others have their part, a barrier, behind that. */
static tutti_status message(const struct spot *s, bool wrong, bool comes)
{
    bool last = s->me->rank == s->me->n - 1;
    int peer = last ? 0 : s->me->n - 1;
    if (!last && s->me->rank != 0)
        return tutti_barrier(s->comm, s->stream);
    tutti_status status =
        last == comes ? tutti_send(wrong ? NULL : s->in, s->count, TUTTI_INT32, peer, s->comm, s->stream)
                      : tutti_recv(wrong ? NULL : s->out, s->count, TUTTI_INT32, peer, s->comm, s->stream);
    return status == TUTTI_OK ? tutti_barrier(s->comm, s->stream) : status;
}

static tutti_status send_of_last(const struct spot *s, bool wrong)
{
    return message(s, wrong, true);
}

static tutti_status recv_of_last(const struct spot *s, bool wrong)
{
    return message(s, wrong, false);
}

static tutti_status message_of_a_group(const struct spot *s, bool wrong)
{
    bool last = s->me->rank == s->me->n - 1;
    tutti_group_start();
    if (last)
        tutti_send(s->in, s->count, TUTTI_INT32, 0, s->comm, s->stream);
    else if (s->me->rank == 0)
        tutti_recv(s->out, s->count, TUTTI_INT32, s->me->n - 1, s->comm, s->stream);
    if (wrong)
        tutti_barrier(NULL, s->stream);
    tutti_barrier(s->comm, s->stream);
    return tutti_group_end();
}

static tutti_status split(const struct spot *s, bool wrong)
{
    tutti_comm *child;
    tutti_status status = tutti_comm_split(s->comm, 0, 0, NULL, wrong ? NULL : &child);
    return status == TUTTI_OK ? tutti_comm_destroy(child) : status;
}

/* By the program itself, before it comes to the call. */
static tutti_status refused_by_program(const struct spot *s, bool wrong)
{
    const char *why = "this program refuses it";
    if (!wrong)
        return all_reduce(s, RIGHT);
    ranks_ok(s->me, tutti_comm_refuse(s->comm, -1, why), "refuse");
    return TUTTI_INVALID_ARGUMENT;
}

static tutti_status message_refused_by_program(const struct spot *s, bool wrong)
{
    const char *why = "this program refuses it";
    if (!wrong)
        return message(s, RIGHT, true);
    ranks_ok(s->me, tutti_comm_refuse(s->comm, 0, why), "refuse");
    return TUTTI_INVALID_ARGUMENT;
}

static const struct kind {
    const char *name, *reason; /* names in the text, of the rank's own and of all */
    tutti_status (*run)(const struct spot *s, bool wrong);
    bool blocks; /* also where the others are on streams */
} kinds[] = {
    { "all_reduce", "all_reduce|overlap", all_reduce, false },
    { "broadcast", "broadcast|recv is NULL", broadcast, false },
    { "reduce, misaligned", "reduce|a multiple of 4", reduce, false },
    { "all_reduce by no operator", "op is 99", wrong_operator, false },
    { "all_to_all_v", "all_to_all_v|overlap", all_to_all_v, false },
    { "a group", "type is 77", barrier_of_a_group, false },
    { "send", "send is NULL", send_of_last, false },
    { "recv", "recv is NULL", recv_of_last, false },
    { "a message of a group", "comm is NULL", message_of_a_group, false },
    { "a refusal", "program refuses it", refused_by_program, false },
    { "a refusal of a message", "program refuses it", message_refused_by_program, false },
    { "split", "child is NULL", split, true },
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

struct trial {
    const char *options;
    bool streams;
    size_t count;
};

static bool open_spot(struct ranks_me *me, const struct trial *t, struct spot *s)
{
    tutti_config config = { .size = sizeof config, .options = t->options };
    *s = (struct spot){ .me = me, .stream = none, .count = t->count };
    s->in = send_space[me->rank];
    s->out = recv_space[me->rank];
    s->comm = ranks_join(me, &config);
    return s->comm != NULL && (!t->streams || ranks_ok(me, tutti_stream_create(&s->stream), "stream_create"));
}

static void close_spot(const struct spot *s)
{
    if (s->stream.kind == TUTTI_STREAM_HOST)
        ranks_ok(s->me, tutti_stream_destroy(s->stream), "stream_destroy");
}

static tutti_status await(const struct spot *s)
{
    uint64_t point;
    if (s->stream.kind == TUTTI_STREAM_NONE)
        return TUTTI_OK;
    tutti_status status = tutti_stream_record(s->stream, &point);
    return status == TUTTI_OK ? tutti_stream_wait(s->stream, point, -1) : status;
}

/* The others wait in theirs; the last rank's error is its own, then that of all. */
static void end_all(struct ranks_me *me, const struct trial *t, const struct kind *kind)
{
    struct spot s;
    if (!open_spot(me, t, &s))
        return;
    ranks_at(me, "%s, %zu elements%s", kind->name, t->count, t->streams ? ", on streams" : "");
    ranks_ok(me, kind->run(&s, RIGHT), "the call, right"); /* so that numbers are not those of the first */
    ranks_ok(me, await(&s), "its stream");
    if (me->rank == me->n - 1) {
        tutti_status status = kind->run(&s, WRONG);
        ranks_expect(me, status < 0 && status > TUTTI_SYSTEM_ERROR, "the wrong call returned %d", status);
        ranks_expect(me, tutti_comm_state(s.comm) != TUTTI_IN_PROGRESS, "the state");
        while (tutti_comm_state(s.comm) == TUTTI_OK)
            ranks_sleep_us(1000);
    } else {
        tutti_status status = kind->run(&s, RIGHT);
        if (status == TUTTI_OK) /* it had nothing to wait for, or will wait on its stream */
            status = tutti_barrier(s.comm, none);
        ranks_refused(me, status, TUTTI_INVALID_USAGE, "the call", kind->reason);
    }
    char names[200];
    snprintf(names, sizeof names, "rank %d refused|%s", me->n - 1, kind->reason);
    ranks_same_error(me, s.comm, TUTTI_INVALID_USAGE, names);
    tutti_error error = { .size = sizeof error };
    ranks_ok(me, tutti_comm_get_error(s.comm, &error), "get_error");
    ranks_expect(me, error.peer == me->n - 1, "the error concerns rank %d", error.peer);
    close_spot(&s);
    ranks_ok(me, tutti_comm_destroy(s.comm), "destroy");
}

static void all_hear_of_it(struct ranks_me *me)
{
    for (int k = 0; k < KINDS; k++)
        for (int streams = 0; streams < 2; streams++) {
            struct trial t = { "refusal=1", streams == 1, k % 2 == 0 ? MOST / 2 : LEAST };
            if (streams == 0 || !kinds[k].blocks)
                end_all(me, &t, &kinds[k]);
        }
}

Test(api_refused, the_peers_hear_of_it_at_once)
{
    for (enum ranks_kind kind = RANKS_PROCESSES; kind <= RANKS_THREADS; kind++)
        for (int n = 2; n <= 3; n++)
            ranks_run(&(struct ranks_plan){ .n = n, .kind = kind, .run = all_hear_of_it, .limit_s = 120 });
}

/* The others have looked around by then; the word must not outlast the call. */
static void made_right(struct ranks_me *me)
{
    enum { SEEN_US = 250 * 1000 };
    struct trial t = { "refusal=600000", false, LEAST };
    for (int k = 0; k < 2 * KINDS; k++) {
        struct spot s;
        const struct kind *kind = &kinds[k % KINDS];
        t.streams = k >= KINDS;
        t.count = k % 3 == 0 ? MOST / 2 : LEAST;
        if ((t.streams && kind->blocks) || !open_spot(me, &t, &s))
            continue;
        ranks_at(me, "%s, made right%s", kind->name, t.streams ? ", on streams" : "");
        for (int again = 0; again < 3; again++) {
            if (me->rank == me->n - 1) {
                tutti_status status = kind->run(&s, WRONG);
                ranks_expect(
                    me, status < 0 && status > TUTTI_SYSTEM_ERROR, "the wrong call returned %d", status);
                ranks_sleep_us(again == 0 ? SEEN_US : 0);
            }
            ranks_ok(me, kind->run(&s, RIGHT), "the call, right");
            ranks_ok(me, await(&s), "its stream");
        }
        close_spot(&s);
        ranks_part(me, s.comm);
    }
}

Test(api_refused, a_call_that_is_made_right_goes_on)
{
    for (enum ranks_kind kind = RANKS_PROCESSES; kind <= RANKS_THREADS; kind++)
        ranks_run(&(struct ranks_plan){ .n = 3, .kind = kind, .run = made_right, .limit_s = 120 });
}

/* Here the last rank comes much later than a refusal is borne, and has nothing to make right: all ranks
 * refused the same call; or it has started another call since. */
static void comes_late(struct ranks_me *me)
{
    enum { LATE_US = 500 * 1000 };
    struct trial t = { "refusal=1", false, LEAST };
    bool last = me->rank == me->n - 1;
    for (int alone = 0; alone < 2; alone++) {
        struct spot s;
        if (!open_spot(me, &t, &s))
            return;
        ranks_at(me, "%s refused a call", alone ? "one" : "all");
        for (int again = 0; again < 3; again++) { /* from the second on messages take the fast path */
            if (last || !alone)
                ranks_expect(me, all_reduce(&s, WRONG) == TUTTI_INVALID_ARGUMENT, "the wrong call");
            if (last && alone)
                ranks_ok(me, tutti_send(s.in, 1, TUTTI_INT32, 0, s.comm, none), "send");
            ranks_meet(me);
            if (me->rank == 0 && alone)
                ranks_ok(me, tutti_recv(s.out, 1, TUTTI_INT32, me->n - 1, s.comm, none), "recv");
            ranks_sleep_us(last ? LATE_US : 0);
            ranks_ok(me, tutti_barrier(s.comm, none), "barrier");
        }
        ranks_part(me, s.comm);
    }
}

Test(api_refused, who_comes_late_is_not_blamed_for_what_is_past)
{
    for (int n = 2; n <= 3; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = comes_late });
}

/* Ranks that refuse the same message have nothing to reproach each other with; those that refuse different
 * ones have. So a word has the number of its message, which has come right on rank 1 before. */
static void another_message(struct ranks_me *me)
{
    struct trial t = { "refusal=1", false, LEAST };
    for (int sends = 0; sends < 2; sends++) { /* does rank 0? */
        struct spot s;
        if (!open_spot(me, &t, &s))
            return;
        bool mine = (me->rank == 0) == (sends == 1);
        ranks_at(me, "rank %d %s", me->rank, mine ? "sends" : "receives");
        for (int message_number = 0; message_number < 3; message_number++) {
            bool wrong = message_number == 2 ? me->rank == 0 : me->rank == 1;
            tutti_status status = TUTTI_OK;
            if (wrong)
                status = mine ? tutti_send(NULL, LEAST, TUTTI_INT32, 1 - me->rank, s.comm, none)
                              : tutti_recv(NULL, LEAST, TUTTI_INT32, 1 - me->rank, s.comm, none);
            ranks_expect(me, !wrong || status == TUTTI_INVALID_ARGUMENT, "the wrong one returned %d", status);
            if (message_number == 2 && wrong)
                break;
            status = mine ? tutti_send(s.in, LEAST, TUTTI_INT32, 1 - me->rank, s.comm, none)
                          : tutti_recv(s.out, LEAST, TUTTI_INT32, 1 - me->rank, s.comm, none);
            if (message_number == 2 && status == TUTTI_OK) /* it was sent, and nobody waited for that */
                status = tutti_recv(s.out, LEAST, TUTTI_INT32, 1 - me->rank, s.comm, none);
            if (message_number == 2)
                ranks_refused(
                    me, status, TUTTI_INVALID_USAGE, "the third", "rank 0 refused its own call|NULL");
            else
                ranks_ok(me, status, "a message");
        }
        while (tutti_comm_state(s.comm) == TUTTI_OK)
            ranks_sleep_us(1000);
        ranks_meet(me);
        ranks_ok(me, tutti_comm_destroy(s.comm), "destroy");
    }
}

Test(api_refused, who_refuses_another_message_is_told)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = another_message });
}

/* Behind calls of a stream the last rank refuses a message, and then makes a call: the word is dropped, and
 * is not told with a later one, which all ranks refuse. */
static void dropped(struct ranks_me *me)
{
    enum { LATE_US = 500 * 1000 };
    struct trial t = { "refusal=1", true, LEAST };
    struct spot s;
    bool last = me->rank == me->n - 1;
    if (!open_spot(me, &t, &s))
        return;
    if (last) {
        ranks_ok(me, all_reduce(&s, RIGHT), "the first, which the others make later");
        ranks_expect(me, tutti_send(NULL, LEAST, TUTTI_INT32, 0, s.comm, s.stream) == TUTTI_INVALID_ARGUMENT,
            "the wrong message");
        ranks_ok(me, all_reduce(&s, RIGHT), "the second");
    }
    ranks_meet(me);
    for (int i = 0; i < 2 && !last; i++)
        ranks_ok(me, all_reduce(&s, RIGHT), "theirs");
    ranks_ok(me, await(&s), "the stream");
    ranks_expect(me, all_reduce(&s, WRONG) == TUTTI_INVALID_ARGUMENT, "what all refuse");
    ranks_meet(me);
    ranks_sleep_us(last ? LATE_US : 0); /* the others wait, and look around */
    ranks_ok(me, tutti_barrier(s.comm, none), "barrier");
    close_spot(&s);
    ranks_part(me, s.comm);
}

Test(api_refused, a_word_that_was_dropped_is_not_told_later)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = dropped });
}

/* On a stream that is busy a refusal has no number yet: it is told when the stream is idle, and not at all
 * if another call takes the number. */
static void behind_others(struct ranks_me *me)
{
    struct trial t = { "refusal=1", true, LEAST };
    for (int more = 1; more >= 0; more--) {
        struct spot s;
        if (!open_spot(me, &t, &s))
            return;
        ranks_at(me, "behind a call that runs, %s", more ? "before another one" : "the last");
        bool last = me->rank == me->n - 1;
        if (last) {
            ranks_ok(me, all_reduce(&s, RIGHT), "the first, which the others make later");
            ranks_expect(me, all_reduce(&s, WRONG) == TUTTI_INVALID_ARGUMENT, "the wrong one");
            if (more)
                ranks_ok(me, all_reduce(&s, RIGHT), "the second");
        }
        ranks_meet(me);
        ranks_sleep_us(me->rank == 0 ? 300 * 1000 : 0); /* the last rank waits for us, and looks around */
        if (!last) {
            ranks_ok(me, all_reduce(&s, RIGHT), "the first");
            ranks_ok(me, await(&s), "its stream");
            ranks_ok(me, all_reduce(&s, RIGHT), "the second");
        }
        if (more) {
            ranks_ok(me, await(&s), "the stream");
            ranks_sleep_us(last ? 400 * 1000 : 0); /* the others look around once more */
            ranks_ok(me, tutti_barrier(s.comm, none), "barrier");
        } else if (!last) {
            ranks_refused(me, await(&s), TUTTI_INVALID_USAGE, "the second", "refused|overlap");
        }
        if (!more)
            while (tutti_comm_state(s.comm) == TUTTI_OK)
                ranks_sleep_us(1000);
        ranks_meet(me);
        close_spot(&s);
        ranks_ok(me, tutti_comm_destroy(s.comm), "destroy");
    }
}

Test(api_refused, a_call_behind_others_is_told_when_they_are_over)
{
    for (int n = 2; n <= 3; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = behind_others });
}

/* Without a limit of its own the refusal is named when the wait ends for another reason. */
static void named_at_the_end(struct ranks_me *me)
{
    struct trial t = { "refusal=0;timeout=400", false, LEAST };
    for (int k = 0; k < KINDS; k++) {
        struct spot s;
        if (!open_spot(me, &t, &s))
            return;
        ranks_at(me, "%s, until the timeout", kinds[k].name);
        if (me->rank == me->n - 1) {
            kinds[k].run(&s, WRONG);
            while (tutti_comm_state(s.comm) == TUTTI_OK)
                ranks_sleep_us(1000);
        } else {
            tutti_status status = kinds[k].run(&s, RIGHT);
            if (status == TUTTI_OK)
                status = tutti_barrier(s.comm, none);
            ranks_refused(me, status, TUTTI_TIMEOUT, "the call", kinds[k].reason);
        }
        ranks_same_error(me, s.comm, TUTTI_TIMEOUT, "rank 0|rank 1|refused its own call");
        ranks_ok(me, tutti_comm_destroy(s.comm), "destroy");
    }
}

static void named_at_its_death(struct ranks_me *me)
{
    struct trial t = { "refusal=0", false, LEAST };
    struct spot s;
    if (!open_spot(me, &t, &s))
        return;
    if (me->rank == 1) {
        all_reduce(&s, WRONG);
        ranks_ok(me, tutti_comm_destroy(s.comm), "destroy");
        return;
    }
    ranks_refused(
        me, all_reduce(&s, RIGHT), TUTTI_PEER_LOST, "all_reduce", "rank 1|destroyed|refused|overlap");
    ranks_ok(me, tutti_comm_destroy(s.comm), "destroy");
}

static void wrong_refusals(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    ranks_refused(me, tutti_comm_refuse(comm, me->n, "why"), TUTTI_INVALID_ARGUMENT, "refuse", "peer");
    ranks_refused(me, tutti_comm_refuse(comm, -2, "why"), TUTTI_INVALID_ARGUMENT, "refuse", "peer|-2");
    ranks_refused(me, tutti_comm_refuse(comm, 0, NULL), TUTTI_INVALID_ARGUMENT, "refuse", "why|NULL");
    ranks_part(me, comm);
}

Test(api_refused, refusals_that_are_wrong_themselves)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = wrong_refusals });
}

Test(api_refused, is_named_when_the_wait_ends_otherwise)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = named_at_the_end });
    ranks_run(&(struct ranks_plan){ .n = 2, .run = named_at_its_death });
}
