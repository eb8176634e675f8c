/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_group_cost.c: what a call costs does not grow with the calls that are in its group.
 *
 * Time is too noisy to tell, on a busy machine most of all. So this counts which messages a rank asks for
 * that waits, and where nobody waits, the processor time of a group that is forty times as long. A call of
 * that takes a few times as long, for the caches; in a library that looks at all calls of a group for each
 * call, forty times, and in one that compares all pairs for that a thousand times. */
#include <criterion/criterion.h>
#include <string.h>
#include <time.h>

#include "base/handle.h"
#include "run/comm.h"
#include "tests/rig/ranks.h"

TestSuite(api_group_cost, .timeout = 120);

/* --- A rank that waits */

enum { MESSAGES = 200, COUNT = 100 };

static struct {
    const struct tt_link_ops *ops; /* the transport's */
    uint64_t released; /* 1 + the last number that was */
    uint64_t furthest; /* from there to what was asked for */
} asked;

static void ask(uint64_t number)
{
    if (number > asked.released + asked.furthest)
        asked.furthest = number - asked.released;
}

static bool arrived(
    struct tt_link *link, uint64_t number, const struct tt_view *like, struct tt_arrival *arrival)
{
    ask(number);
    return asked.ops->arrived(link, number, like, arrival);
}

static enum tt_peek peek(
    struct tt_link *link, uint64_t number, uint32_t signature, uint32_t bytes, const void **payload)
{
    ask(number);
    return asked.ops->peek(link, number, signature, bytes, payload);
}

static void release(struct tt_link *link, uint64_t number)
{
    asked.released = number >= asked.released ? number + 1 : asked.released;
    asked.ops->release(link, number);
}

/* Rank 1 receives a group of messages, which rank 0 sends by and by. */
static void waits(struct ranks_me *me)
{
    static int32_t values[MESSAGES][COUNT];
    tutti_comm *comm = ranks_join(me, NULL);
    const struct tt_comm *inside = comm != NULL ? tt_comm_find(comm) : NULL;
    if (inside == NULL)
        return;
    struct tt_link *link = tt_link_to(inside->endpoint, TT_CLASS_P2P, 1 - me->rank);
    struct tt_link_ops counting = *link->ops;
    asked.ops = link->ops;
    counting.arrived = arrived;
    counting.peek = peek;
    counting.release = release;
    for (int round = 0; round < 2; round++) {
        ranks_at(me, "rank %d: %d messages, round %d", me->rank, MESSAGES, round);
        if (me->rank == 1) {
            link->ops = &counting;
            tutti_group_start();
            for (int i = 0; i < MESSAGES; i++)
                tutti_recv(values[i], COUNT, TUTTI_INT32, 0, comm, tutti_no_stream());
            ranks_ok(me, tutti_group_end(), "group_end");
            link->ops = asked.ops;
        }
        for (int i = 0; i < MESSAGES; i++) {
            if (me->rank == 1) {
                ranks_expect(
                    me, values[i][COUNT - 1] == round + i, "message %d has %d", i, values[i][COUNT - 1]);
                continue;
            }
            ranks_sleep_us(i % 50 == 0 ? 20000 : 0);
            values[i][COUNT - 1] = round + i;
            ranks_ok(me, tutti_send(values[i], COUNT, TUTTI_INT32, 1, comm, tutti_no_stream()), "send");
        }
    }
    ranks_expect(me, asked.furthest <= TT_SLOTS, "it asked for a message that is %llu behind the first",
        (unsigned long long)asked.furthest);
    ranks_expect(me, me->rank == 0 || asked.furthest > 0, "it asked for one message at a time");
    ranks_part(me, comm);
}

Test(api_group_cost, only_messages_that_may_have_come_are_asked_for)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = waits });
}

/* --- A rank alone, which waits for nobody */

enum { FEW = 100, MANY = 4000, COMMS = 3, TRIES = 5, MOST_TIMES = 12 };

struct cost { /* of what is measured */
    struct ranks_me *me;
    tutti_comm *comms[COMMS];
    int n; /* communicators that take part, by turns */
    bool messages; /* of the rank to itself; else collectives */
    bool kept;
};

static void make_calls(const struct cost *c, int count)
{
    static int32_t values[MANY][2];
    for (int i = 0; i < count; i++) {
        tutti_comm *comm = c->comms[i * c->n / count]; /* one after the other */
        if (i % 2 == 1)
            comm = c->comms[i % c->n]; /* and by turns */
        if (!c->messages) {
            tutti_all_reduce(values[i], values[i], 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
            continue;
        }
        tutti_send(&values[i][0], 1, TUTTI_INT32, 0, c->comms[0], tutti_no_stream());
        tutti_recv(&values[i][1], 1, TUTTI_INT32, 0, c->comms[0], tutti_no_stream());
    }
}

static int64_t used_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Returns the least processor time of a group of so many calls, or of a start of the program that it is. */
static int64_t least_ns(const struct cost *c, int count)
{
    int64_t least = INT64_MAX;
    tutti_program *program = NULL;
    if (c->kept) {
        tutti_group_start();
        make_calls(c, count);
        ranks_ok(c->me, tutti_group_keep(&program), "group_keep");
    }
    for (int i = 0; i < TRIES; i++) {
        int64_t began = used_ns();
        if (c->kept) {
            ranks_ok(c->me, tutti_program_start(program), "program_start");
        } else {
            tutti_group_start();
            make_calls(c, count);
            ranks_ok(c->me, tutti_group_end(), "group_end");
        }
        int64_t took = used_ns() - began;
        least = took < least ? took : least;
    }
    if (c->kept)
        ranks_ok(c->me, tutti_program_destroy(program), "program_destroy");
    return least;
}

static void alone(struct ranks_me *me)
{
    struct cost c = { .me = me };
    for (int i = 0; i < COMMS; i++)
        if ((c.comms[i] = ranks_join(me, NULL)) == NULL)
            return;
    for (int kind = 0; kind < 3; kind++)
        for (int kept = 0; kept < 2; kept++) {
            c.n = kind == 1 ? COMMS : 1;
            c.messages = kind == 2;
            c.kept = kept == 1;
            ranks_at(me, "%s of %s", c.kept ? "a program" : "a group",
                c.messages ? "messages"
                : c.n > 1  ? "collectives of several communicators"
                           : "collectives");
            int64_t few = least_ns(&c, FEW), many = least_ns(&c, MANY);
            ranks_expect(me, many < MOST_TIMES * (MANY / FEW) * few,
                "%d calls take %lld ns and %d calls %lld ns: %.1f times as long for each", FEW,
                (long long)few, MANY, (long long)many, (double)many * FEW / ((double)few * MANY));
        }
    for (int i = 0; i < COMMS; i++)
        ranks_part(me, c.comms[i]);
}

Test(api_group_cost, a_call_takes_as_long_in_a_long_group)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = alone });
}
