/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_abort_local.c: a rank that ends a communicator for itself: its waits end, its buffers are its own
 * again as soon as its calls have returned, and the others go on until they need it.
 *
 * What a peer could still read or write of those buffers is taken away (PROT_NONE) in the moment in which the
 * call returns, or used for something else, so a peer that is late ends the test by a signal, or shows. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/rig/aborter.h"
#include "tests/rig/patience.h"
#include "tests/rig/ranks.h"

TestSuite(api_abort_local, .timeout = 240);

enum { LONG = 4 << 20, ROUNDS = 5 }; /* to see that a rank is gone takes a while */

/* Waits until this place of the shared memory has the value. */
static void await(struct ranks_me *me, int place, int value)
{
    _Atomic int *shared = me->shared;
    struct patience patience = patience_of(60000);
    while (shared[place] != value && !patience_is_over(&patience))
        ranks_sleep_us(200);
    ranks_expect(me, shared[place] == value, "place %d is %d, not %d", place, shared[place], value);
}

/* The first three ranks have come here. */
static void meet_of_three(struct ranks_me *me, int place)
{
    _Atomic int *shared = me->shared;
    shared[place]++;
    await(me, place, 3);
}

static void tell(struct ranks_me *me, int place, int value)
{
    ((_Atomic int *)me->shared)[place] = value;
}

static tutti_comm *join(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = -1 };
    return ranks_join(me, &config);
}

static tutti_status sum(tutti_comm *comm, float *x)
{
    return tutti_all_reduce(x, x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
}

static void expect_aborted(struct ranks_me *me, tutti_comm *comm)
{
    char words[40];
    tutti_error error = { .size = sizeof error };
    snprintf(words, sizeof words, "aborted by rank %d", me->rank);
    ranks_refused(me, tutti_comm_state(comm), TUTTI_ABORTED, "state", words);
    ranks_ok(me, tutti_comm_get_error(comm, &error), "get_error");
    ranks_expect(me,
        error.status == TUTTI_ABORTED && error.rank == me->rank && error.peer == -1 &&
            strcmp(error.operation, "abort_local") == 0,
        "%s: rank %d, peer %d, %s", tutti_status_string(error.status), error.rank, error.peer,
        error.operation);
}

/* --- Its own waits */

static tutti_status in_barrier(struct ranks_me *me, tutti_comm *comm)
{
    (void)me;
    return tutti_barrier(comm, tutti_no_stream());
}

static tutti_status in_recv(struct ranks_me *me, tutti_comm *comm)
{
    float x;
    return tutti_recv(&x, 1, TUTTI_FLOAT32, (me->rank + 1) % me->n, comm, tutti_no_stream());
}

static tutti_status in_many(struct ranks_me *me, tutti_comm *comm)
{
    tutti_status status = TUTTI_OK;
    float x = 1;
    (void)me;
    for (int i = 0; i < 2000 && status == TUTTI_OK; i++)
        status = sum(comm, &x);
    return status == TUTTI_OK ? tutti_barrier(comm, tutti_no_stream()) : status;
}

static tutti_status in_split(struct ranks_me *me, tutti_comm *comm)
{
    tutti_comm *child = NULL;
    (void)me;
    return tutti_comm_split(comm, 0, 0, NULL, &child);
}

static tutti_status in_stream(struct ranks_me *me, tutti_comm *comm)
{
    tutti_stream stream;
    uint64_t point;
    ranks_ok(me, tutti_stream_create(&stream), "stream_create");
    tutti_status status = tutti_barrier(comm, stream);
    ranks_ok(me, tutti_stream_record(stream, &point), "record");
    if (status == TUTTI_OK)
        status = tutti_stream_wait(stream, point, -1);
    tutti_stream_destroy(stream);
    return status;
}

static tutti_status (*const waits[])(
    struct ranks_me *, tutti_comm *) = { in_barrier, in_recv, in_many, in_split, in_stream };
enum { WAITS = sizeof waits / sizeof waits[0] };

/* One rank aborts, while the others call nothing, so that its wait has no other end; then they do. */
static void wait_ends(struct ranks_me *me)
{
    ranks_go_to_host(me);
    for (int i = 0; i < WAITS; i++) {
        int who = i % me->n;
        tutti_comm *comm = join(me);
        struct aborter a = { .me = me, .comm = comm, .delay_us = 1000 * (uint32_t)(i % 3) * 20 };
        ranks_at(me, "wait %d, of rank %d", i, who);
        if (comm == NULL)
            return;
        if (me->rank == who) {
            aborter_begin(&a);
            ranks_refused(me, waits[i](me, comm), TUTTI_ABORTED, "the wait", "aborted by rank");
            aborter_end(&a);
            expect_aborted(me, comm);
            tell(me, i, 1);
        } else {
            await(me, i, 1);
            ranks_ok(me, tutti_comm_state(comm), "state, of who has not needed it");
            tutti_status status = TUTTI_OK;
            char words[64];
            for (int again = 0; again < 3 && status == TUTTI_OK; again++) /* what it had sent is taken */
                status = (waits[i] == in_recv ? in_barrier : waits[i])(me, comm);
            snprintf(words, sizeof words, "rank %d aborted its end", who);
            ranks_refused(me, status, TUTTI_PEER_LOST, "a call", words);
        }
        ranks_meet(me);
        if (me->rank == who)
            expect_aborted(me, comm); /* still: what ended it for the others is not this rank's */
        ranks_part(me, comm);
    }
}

Test(api_abort_local, ends_every_wait)
{
    for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind++)
        ranks_run(&(struct ranks_plan){ .n = 3, .kind = (enum ranks_kind)kind, .run = wait_ends });
    ranks_run(&(struct ranks_plan){ .n = 3, .run = wait_ends, .context = &(struct ranks_hosts){ 2 } });
    ranks_run(&(struct ranks_plan){ .n = 2, .run = wait_ends, .context = &(struct ranks_hosts){ 2 } });
}

/* --- The others go on */

enum { ABORTED, GONE, THROUGH, PLACES };

static tutti_status exchange(tutti_comm *comm, int peer, uint8_t *out, uint8_t *in, size_t bytes)
{
    tutti_group_start();
    tutti_send(out, bytes, TUTTI_UINT8, peer, comm, tutti_no_stream());
    tutti_recv(in, bytes, TUTTI_UINT8, peer, comm, tutti_no_stream());
    return tutti_group_end();
}

static void exchange_all(struct ranks_me *me, tutti_comm *comm, int peer)
{
    static const size_t sizes[] = { 1, 40, 3000, 100000, LONG };
    uint8_t *out = malloc(LONG), *in = malloc(LONG);
    for (int i = 0; i < 20; i++) {
        size_t bytes = sizes[i % 5];
        memset(out, me->rank * 16 + i, bytes);
        if (!ranks_ok(me, exchange(comm, peer, out, in, bytes), "exchange"))
            break;
        ranks_expect(
            me, in[0] == peer * 16 + i && in[bytes - 1] == peer * 16 + i, "wrong bytes in round %d", i);
    }
    free(out);
    free(in);
}

/* Rank 3 aborts, and in every second round destroys its end at once. Ranks 0 and 1 exchange messages all the
 * time; then the three make a communicator without it, and only what needs it fails. */
static void others_go_on(struct ranks_me *me)
{
    ranks_go_to_host(me);
    for (int round = 0; round < 4; round++) {
        tutti_comm *comm = join(me), *rest = NULL;
        float x = 1;
        int place = PLACES * round;
        bool destroys = round % 2 == 1;
        ranks_at(me, "round %d", round);
        if (comm == NULL || !ranks_ok(me, sum(comm, &x), "all_reduce"))
            return;
        if (me->rank == 3) {
            ranks_sleep_us(2000 * (uint32_t)round);
            ranks_ok(me, tutti_comm_abort_local(comm), "abort_local");
            tell(me, place + ABORTED, 1);
            ranks_refused(me, sum(comm, &x), TUTTI_ABORTED, "all_reduce", "aborted by rank 3");
            ranks_refused(me, tutti_comm_shrink(comm, NULL, 0, 0, NULL, &rest), TUTTI_INVALID_USAGE, "shrink",
                "rank|3|tutti_comm_abort_local");
            ranks_ok(me, tutti_comm_abort(comm), "abort, which has no effect any more");
            if (destroys)
                ranks_ok(me, tutti_comm_destroy(comm), "destroy");
            tell(me, place + GONE, 1);
            ranks_meet(me);
            if (!destroys)
                ranks_part(me, comm);
            continue;
        }
        if (me->rank < 2)
            exchange_all(me, comm, 1 - me->rank);
        await(me, place + GONE, 1);
        if (me->rank < 2)
            exchange_all(me, comm, 1 - me->rank);
        ranks_ok(me, tutti_comm_state(comm), "state");
        ranks_ok(me, tutti_comm_shrink(comm, &(int){ 3 }, 1, 0, NULL, &rest), "shrink");
        x = 1;
        ranks_ok(me, sum(rest, &x), "all_reduce of the rest");
        ranks_expect(me, x == 3, "the sum is %g", (double)x);
        ranks_part(me, rest);
        if (me->rank < 2)
            exchange_all(me, comm, 1 - me->rank);
        meet_of_three(me, place + THROUGH);
        bool strange = destroys && me->context != NULL; /* other hosts have nothing of it any more */
        ranks_refused(me, sum(comm, &x), TUTTI_PEER_LOST, "all_reduce",
            strange ? "rank 3" : "rank 3 aborted its end|tutti_comm_abort_local");
        ranks_meet(me);
        ranks_part(me, comm);
    }
}

Test(api_abort_local, others_go_on)
{
    for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind++)
        ranks_run(&(struct ranks_plan){ .n = 4, .kind = (enum ranks_kind)kind, .run = others_go_on });
    ranks_run(&(struct ranks_plan){ .n = 4, .run = others_go_on, .context = &(struct ranks_hosts){ 2 } });
    ranks_run(&(struct ranks_plan){ .n = 4, .run = others_go_on, .context = &(struct ranks_hosts){ 4 } });
}

/* What was sent before and needs nothing of the sender any more can be received. */
static void sent_before(struct ranks_me *me)
{
    uint8_t few[16] = { 0 };
    ranks_go_to_host(me);
    tutti_comm *comm = join(me);
    if (comm == NULL)
        return;
    if (me->rank == 0) {
        memset(few, 7, sizeof few);
        ranks_ok(me, tutti_send(few, sizeof few, TUTTI_UINT8, 1, comm, tutti_no_stream()), "send");
        ranks_ok(me, tutti_comm_abort_local(comm), "abort_local");
        tell(me, 0, 1);
    } else {
        await(me, 0, 1);
        ranks_ok(me, tutti_recv(few, sizeof few, TUTTI_UINT8, 0, comm, tutti_no_stream()), "recv");
        ranks_expect(me, few[0] == 7 && few[15] == 7, "wrong bytes");
        ranks_refused(me, tutti_recv(few, sizeof few, TUTTI_UINT8, 0, comm, tutti_no_stream()),
            TUTTI_PEER_LOST, "a second recv", "rank 0 aborted its end");
    }
    ranks_meet(me);
    ranks_part(me, comm);
}

Test(api_abort_local, what_was_sent_before_arrives)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = sent_before });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = sent_before });
    ranks_run(&(struct ranks_plan){ .n = 2, .run = sent_before, .context = &(struct ranks_hosts){ 2 } });
}

/* --- Whose memory it is */

struct memory {
    bool registered; /* of tutti_mem_alloc */
    bool sends; /* rank 0 does; else it receives */
    int hosts;
};

static uint8_t *take_memory(struct ranks_me *me, const struct memory *m)
{
    void *at = MAP_FAILED;
    if (m->registered)
        ranks_ok(me, tutti_mem_alloc(LONG, TUTTI_MEM_HOST, &at), "mem_alloc");
    else
        at = mmap(NULL, LONG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at;
}

static void give_back(const struct memory *m, uint8_t *memory)
{
    if (m->registered)
        tutti_mem_free(memory);
    else
        munmap(memory, LONG);
}

/* Rank 0 aborts in the midst of a long message with rank 1, which is in others with rank 2. As soon as its
 * call has returned, nobody may touch its buffer. */
static void in_the_midst(struct ranks_me *me)
{
    const struct memory *m = me->context;
    uint8_t *third = malloc(LONG);
    ranks_go_to_host(&(struct ranks_me){ .rank = me->rank, .context = &(struct ranks_hosts){ m->hosts } });
    for (int round = 0; round < ROUNDS; round++) {
        tutti_comm *comm = join(me);
        uint8_t *buffer = take_memory(me, m), *other = take_memory(me, m);
        struct aborter a = { .me = me, .comm = comm, .delay_us = ranks_below(&me->random, 4000) };
        tutti_status status = TUTTI_OK;
        ranks_at(me, "round %d", round);
        if (comm == NULL)
            return;
        memset(buffer, 1, LONG);
        if (me->rank == 0) {
            aborter_begin(&a);
            for (int i = 0; status == TUTTI_OK; i++)
                status = m->sends ? tutti_send(buffer, LONG, TUTTI_UINT8, 1, comm, tutti_no_stream())
                                  : tutti_recv(buffer, LONG, TUTTI_UINT8, 1, comm, tutti_no_stream());
            if (m->registered)
                memset(buffer, 0xa5, LONG);
            else
                mprotect(buffer, LONG, PROT_NONE);
            ranks_expect(me, status == TUTTI_ABORTED, "%s", tutti_get_last_error(comm));
            aborter_end(&a);
        } else {
            while (status == TUTTI_OK) {
                tutti_group_start();
                if (me->rank == 1 && m->sends)
                    tutti_recv(other, LONG, TUTTI_UINT8, 0, comm, tutti_no_stream());
                if (me->rank == 1 && !m->sends)
                    tutti_send(other, LONG, TUTTI_UINT8, 0, comm, tutti_no_stream());
                tutti_send(buffer, LONG, TUTTI_UINT8, 3 - me->rank, comm, tutti_no_stream());
                tutti_recv(third, LONG, TUTTI_UINT8, 3 - me->rank, comm, tutti_no_stream());
                status = tutti_group_end();
            }
            ranks_refused(me, status, TUTTI_PEER_LOST, "the group", "rank 0 aborted its end");
        }
        ranks_meet(me);
        for (size_t i = 0; m->registered && me->rank == 0 && i < LONG; i++)
            if (!ranks_expect(me, buffer[i] == 0xa5, "byte %zu was written", i))
                break;
        give_back(m, buffer);
        give_back(m, other);
        ranks_part(me, comm);
    }
    free(third);
}

Test(api_abort_local, in_the_midst_of_messages)
{
    for (int way = 0; way < 4; way++) {
        const struct memory memory = { .registered = way % 2 != 0, .sends = way / 2 != 0 };
        for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind += RANKS_TOGETHER)
            ranks_run(&(struct ranks_plan){
                .n = 3, .kind = (enum ranks_kind)kind, .run = in_the_midst, .context = &memory });
        const struct memory far = { .registered = memory.registered, .sends = memory.sends, .hosts = 3 };
        ranks_run(&(struct ranks_plan){ .n = 3, .run = in_the_midst, .context = &far });
    }
}

/* The same in collectives, whose other ranks read and write each other's memory, TMP too. */
static void in_collectives(struct ranks_me *me)
{
    const struct memory *m = me->context;
    for (int round = 0; round < ROUNDS; round++) {
        tutti_comm *comm = join(me);
        uint8_t *in = take_memory(me, m), *out = take_memory(me, m);
        struct aborter a = { .me = me, .comm = comm, .delay_us = ranks_below(&me->random, 6000) };
        bool aborts = me->rank == round % me->n;
        size_t count = round % 2 == 0 ? LONG / 4 : 3000;
        tutti_status status = TUTTI_OK;
        ranks_at(me, "round %d", round);
        if (comm == NULL)
            return;
        memset(in, 1, LONG);
        if (aborts)
            aborter_begin(&a);
        while (status == TUTTI_OK)
            status = tutti_all_reduce(in, out, count, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
        if (aborts && m->registered) {
            memset(in, 0xa5, LONG);
            memset(out, 0xa5, LONG);
        } else if (aborts) {
            mprotect(in, LONG, PROT_NONE);
            mprotect(out, LONG, PROT_NONE);
        }
        ranks_expect(
            me, status == (aborts ? TUTTI_ABORTED : TUTTI_PEER_LOST), "%s", tutti_get_last_error(comm));
        if (aborts) {
            aborter_end(&a);
            ranks_part(me, comm); /* and with it its TMP, for others */
        }
        ranks_meet(me);
        for (size_t i = 0; m->registered && aborts && i < LONG; i++)
            if (!ranks_expect(me, in[i] == 0xa5 && out[i] == 0xa5, "byte %zu was written", i))
                break;
        give_back(m, in);
        give_back(m, out);
        if (!aborts)
            ranks_part(me, comm);
    }
}

Test(api_abort_local, in_the_midst_of_collectives)
{
    for (int registered = 0; registered < 2; registered++) {
        const struct memory memory = { .registered = registered != 0 };
        for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind += RANKS_TOGETHER)
            ranks_run(&(struct ranks_plan){
                .n = 4, .kind = (enum ranks_kind)kind, .run = in_collectives, .context = &memory });
    }
}

/* Rank 1 is in a call that lasts until rank 0 has its buffer back from one with rank 2: rank 0 need not wait
 * for the end of that call, for rank 1 looks. */
static void peer_stays_inside(struct ranks_me *me)
{
    const struct memory *m = me->context;
    tutti_comm *comm = join(me);
    uint8_t *buffer = take_memory(me, m);
    uint8_t word = 0;
    struct aborter a = { .me = me, .comm = comm, .delay_us = 20000 };
    if (comm == NULL)
        return;
    if (me->rank == 0) {
        await(me, 0, 1);
        aborter_begin(&a);
        tutti_status status = m->sends ? tutti_send(buffer, LONG, TUTTI_UINT8, 2, comm, tutti_no_stream())
                                       : tutti_recv(buffer, LONG, TUTTI_UINT8, 2, comm, tutti_no_stream());
        ranks_expect(me, status == TUTTI_ABORTED, "%s", tutti_get_last_error(comm));
        aborter_end(&a);
        tell(me, 1, 1);
    } else if (me->rank == 1) {
        tell(me, 0, 1);
        ranks_ok(me, tutti_recv(&word, 1, TUTTI_UINT8, 2, comm, tutti_no_stream()), "recv of rank 2");
    } else {
        await(me, 1, 1);
        ranks_ok(me, tutti_send(&word, 1, TUTTI_UINT8, 1, comm, tutti_no_stream()), "send to rank 1");
    }
    ranks_meet(me);
    ranks_part(me, comm);
    give_back(m, buffer);
}

Test(api_abort_local, does_not_wait_for_the_calls_of_others)
{
    for (int way = 0; way < 4; way++) {
        const struct memory memory = { .registered = way % 2 != 0, .sends = way / 2 != 0 };
        for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind += RANKS_TOGETHER)
            ranks_run(&(struct ranks_plan){
                .n = 3, .kind = (enum ranks_kind)kind, .run = peer_stays_inside, .context = &memory });
    }
}

/* --- Several at once, and its ends */

/* Two of four abort in the same moment, each in a call with the other, and destroy their ends. */
static void two_at_once(struct ranks_me *me)
{
    ranks_go_to_host(me);
    for (int round = 0; round < 10; round++) {
        tutti_comm *comm = join(me);
        struct aborter a = { .me = me, .comm = comm, .delay_us = ranks_below(&me->random, 3000) };
        float x = 1;
        tutti_status status = TUTTI_OK;
        bool aborts = me->rank % 2 == round / 5;
        ranks_at(me, "round %d", round);
        if (comm == NULL)
            return;
        if (aborts)
            aborter_begin(&a);
        while (status == TUTTI_OK)
            status = sum(comm, &x);
        ranks_expect(me,
            status == (aborts ? TUTTI_ABORTED : TUTTI_PEER_LOST) || (aborts && status == TUTTI_PEER_LOST),
            "%s", tutti_get_last_error(comm)); /* who is late finds the other gone */
        if (aborts)
            aborter_end(&a);
        ranks_part(me, comm);
    }
}

Test(api_abort_local, two_at_once)
{
    for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind++)
        ranks_run(&(struct ranks_plan){ .n = 4, .kind = (enum ranks_kind)kind, .run = two_at_once });
    ranks_run(&(struct ranks_plan){ .n = 4, .run = two_at_once, .context = &(struct ranks_hosts){ 2 } });
}

/* With calls in streams that nobody answers: destroy gives the buffers back, and ends nothing elsewhere. */
static void streams_then_destroy(struct ranks_me *me)
{
    ranks_go_to_host(me);
    tutti_comm *comm = join(me);
    tutti_stream stream;
    float *long_one = calloc(1, LONG);
    if (comm == NULL || !ranks_ok(me, tutti_stream_create(&stream), "stream_create"))
        return;
    if (me->rank == 0) {
        for (int i = 0; i < 3; i++)
            ranks_ok(me,
                tutti_all_reduce(long_one, long_one, LONG / 4, TUTTI_FLOAT32, TUTTI_SUM, comm, stream),
                "all_reduce on a stream");
        ranks_ok(me, tutti_comm_abort_local(comm), "abort_local");
        ranks_ok(me, tutti_comm_destroy(comm), "destroy");
        memset(long_one, 1, LONG);
    }
    ranks_meet(me);
    if (me->rank > 0) {
        ranks_ok(me, tutti_comm_state(comm), "state");
        if (me->n > 2)
            exchange_all(me, comm, 3 - me->rank);
        tutti_status status =
            tutti_all_reduce(long_one, long_one, LONG / 4, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
        ranks_refused(me, status, TUTTI_PEER_LOST, "all_reduce", "rank 0");
        ranks_part(me, comm);
    }
    free(long_one);
    ranks_ok(me, tutti_stream_destroy(stream), "stream_destroy");
}

Test(api_abort_local, then_destroy_with_calls_in_streams)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = streams_then_destroy });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = streams_then_destroy });
    ranks_run(
        &(struct ranks_plan){ .n = 3, .run = streams_then_destroy, .context = &(struct ranks_hosts){ 3 } });
}

/* In a group it acts at once: the calls of the group are refused then, and nothing has started. */
static void in_a_group(struct ranks_me *me)
{
    tutti_comm *comm = join(me), *sound = join(me);
    float x = 1, y = 1;
    if (comm == NULL || sound == NULL)
        return;
    if (me->rank == 0) {
        tutti_group_start();
        ranks_ok(me, sum(comm, &x), "all_reduce in a group");
        ranks_ok(me, tutti_comm_abort_local(comm), "abort_local");
        ranks_refused(me, tutti_group_end(), TUTTI_ABORTED, "group_end", "aborted by rank 0");
    }
    ranks_meet(me);
    ranks_ok(me, sum(sound, &y), "all_reduce of another communicator");
    ranks_expect(me, y == (float)me->n, "the sum is %g", (double)y);
    ranks_part(me, sound);
    ranks_part(me, comm);
}

Test(api_abort_local, in_a_group)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = in_a_group });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = in_a_group });
}
