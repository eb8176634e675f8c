/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_threads.c: threads as ranks: everything that two of them may do at the same time. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transport_suite.h"
#include "transport_threads.h"
#include "transports/arena.h"

enum { RANKS_MAX = 8 };

struct rank_threads {
    const struct tt_transport *transport;
    int n, rounds;
    bool map;
    uint64_t first_number;
    void (*run)(struct rank_threads *c, int me, struct transport_suite *s);
    pthread_barrier_t barrier;
    uint8_t addresses[RANKS_MAX][TT_ADDRESS_BYTES];
    struct transport_suite suites[RANKS_MAX];
    _Atomic int winners[2], spinning;
    struct tt_cause causes[RANKS_MAX];
};

struct member {
    struct rank_threads *threads;
    int me;
};

static char wrong[256];

static void together(struct rank_threads *c)
{
    pthread_barrier_wait(&c->barrier);
}

static struct tt_endpoint *join(struct rank_threads *c, int me, struct transport_suite *s)
{
    struct tt_endpoint_params params = {
        .n = c->n, .me = me, .slot_bytes = SUITE_SLOT_BYTES, .first_number = c->first_number, .map = c->map
    };
    struct tt_endpoint *e = NULL;
    suite_expect(s, c->transport->open(&params, c->addresses[me], &e) == TUTTI_OK, "open failed");
    together(c);
    suite_expect(s, c->transport->connect(e, c->addresses[0]) == TUTTI_OK, "connect failed");
    together(c);
    return e;
}

static void *run_member(void *member)
{
    struct member *m = member;
    m->threads->run(m->threads, m->me, &m->threads->suites[m->me]);
    return NULL;
}

static const char *run_threads(struct rank_threads *c)
{
    pthread_t threads[RANKS_MAX];
    struct member members[RANKS_MAX];
    uint64_t lost = tt_wait_lost();
    c->first_number = 0xfffffff5u;
    pthread_barrier_init(&c->barrier, NULL, (unsigned)c->n);
    for (int i = 0; i < c->n; i++) {
        c->suites[i].transport = c->transport;
        members[i] = (struct member){ c, i };
        if (pthread_create(&threads[i], NULL, run_member, &members[i]) != 0)
            abort();
    }
    wrong[0] = '\0';
    for (int i = 0; i < c->n; i++) {
        pthread_join(threads[i], NULL);
        if (wrong[0] == '\0')
            memcpy(wrong, c->suites[i].wrong, sizeof wrong);
    }
    pthread_barrier_destroy(&c->barrier);
    if (wrong[0] == '\0' && tt_wait_lost() != lost)
        snprintf(wrong, sizeof wrong, "%d wake-ups were lost", (int)(tt_wait_lost() - lost));
    free(c);
    return wrong;
}

static struct rank_threads *new_threads(
    int n, int rounds, void (*run)(struct rank_threads *, int, struct transport_suite *))
{
    struct rank_threads *c = calloc(1, sizeof *c);
    if (c == NULL)
        abort();
    c->transport = &tt_shm;
    c->n = n;
    c->rounds = rounds;
    c->map = true;
    c->run = run;
    return c;
}

static void exchange(struct rank_threads *c, int me, struct transport_suite *s)
{
    struct tt_endpoint *e = join(c, me, s);
    s->memory[0] = malloc(SUITE_EXCHANGE_BYTES);
    suite_expect(s, tt_arena_alloc(SUITE_EXCHANGE_BYTES, (void **)&s->memory[1]) == TUTTI_OK, "no memory");
    suite_exchange(s, e, c->first_number, c->rounds, 11);
    together(c); /* memory that is mapped is read until all are done */
    c->transport->close(e);
    free(s->memory[0]);
    tt_arena_free(s->memory[1]);
}

const char *threads_exchange(const struct tt_transport *transport, int n, int batches, bool map)
{
    struct rank_threads *c = new_threads(n, batches, exchange);
    c->transport = transport;
    c->map = map;
    return run_threads(c);
}

/* Closer together than a barrier can bring them. */
static void spin_together(struct rank_threads *c, int round)
{
    atomic_fetch_add(&c->spinning, 1);
    while (atomic_load(&c->spinning) < (round + 1) * c->n)
        sched_yield();
}

static void abort_together(struct rank_threads *c, int me, struct transport_suite *s)
{
    for (int round = 0; round < c->rounds; round++) {
        struct tt_endpoint *e = join(c, me, s);
        struct tt_cause cause = { .status = TUTTI_ABORTED, .rank = me, .sequence = (uint64_t)round }, *seen;
        snprintf(cause.text, sizeof cause.text, "%d of %d", me, round);
        spin_together(c, round);
        if (e->control->abort(e, &cause))
            atomic_fetch_add(&c->winners[round & 1], 1);
        seen = &c->causes[me];
        suite_expect(s, e->control->cause(e, seen), "no cause after an abort");
        suite_expect(s, seen->sequence == (uint64_t)round && seen->text[0] == '0' + seen->rank,
            "the cause is of round %d, not %d: %s", (int)seen->sequence, round, seen->text);
        together(c);
        suite_expect(s, c->causes[0].rank == seen->rank, "two causes");
        suite_expect(s, atomic_load(&c->winners[round & 1]) == 1, "not one winner");
        if (me == 0)
            atomic_store(&c->winners[(round + 1) & 1], 0);
        c->transport->close(e);
        together(c);
    }
}

const char *threads_abort(int n, int rounds)
{
    return run_threads(new_threads(n, rounds, abort_together));
}

static void send_note(
    struct rank_threads *c, struct tt_endpoint *e, int peer, uint64_t number, uint8_t *text, uint64_t bytes)
{
    struct tt_layout layout;
    tt_layout_even(&layout, bytes, 1, 1, 1);
    struct tt_message m = { .number = c->first_number + number,
        .bytes = bytes,
        .source = { .layout = &layout, .nchunks = 1, .space = { .base = (uintptr_t)text } } };
    for (uint64_t i = 0; i < bytes; i++)
        text[i] = suite_byte(number * 7 + (uint64_t)e->me, i);
    link_send(tt_link_to(e, TT_CLASS_P2P, peer), &m);
    memset(text, 0, bytes);
}

static void read_note(struct rank_threads *c, struct transport_suite *s, struct tt_endpoint *e, int peer,
    uint64_t number, uint64_t bytes)
{
    struct tt_layout layout;
    struct tt_arrival a;
    struct tt_view like = { .layout = &layout, .nchunks = 1 };
    tt_layout_even(&layout, bytes, 1, 1, 1);
    if (suite_expect(s, link_arrived(tt_link_to(e, TT_CLASS_P2P, peer), c->first_number + number, &like, &a),
            "what was sent before a close is lost"))
        suite_read(s, &a, number * 7 + (uint64_t)peer, bytes);
}

/* Ranks close one after the other, by chance; each reads from all just before it closes. */
static void close_by_turns(struct rank_threads *c, int me, struct transport_suite *s)
{
    uint8_t text[1000];
    for (int round = 0; round < c->rounds; round++) {
        struct tt_endpoint *e = join(c, me, s);
        for (int peer = 0; peer < c->n; peer++)
            for (uint64_t i = 0; i < TT_SLOTS; i++)
                send_note(c, e, peer, i, text, i % 2 == 0 ? 48 : sizeof text);
        together(c);
        if ((me + round) % c->n == 0)
            tt_sleep_ms(1);
        for (int peer = 0; peer < c->n; peer++)
            for (uint64_t i = 0; i < TT_SLOTS; i++)
                read_note(c, s, e, peer, i, i % 2 == 0 ? 48 : sizeof text);
        c->transport->close(e);
    }
}

const char *threads_close(int n, int rounds)
{
    return run_threads(new_threads(n, rounds, close_by_turns));
}

static void tell_and_ask(struct rank_threads *c, int me, struct transport_suite *s)
{
    struct tt_endpoint *e = join(c, me, s);
    struct tt_call_record record = { 0 };
    uint64_t last = c->first_number + (uint64_t)c->rounds;
    for (uint64_t q = c->first_number; me == 0 && q < last; q++) {
        record.count = q * 3;
        record.signature = (uint32_t)q;
        e->control->publish(e, &record, q);
        e->control->publish(e, NULL, q);
    }
    for (uint64_t done = 0; me != 0 && done < last && s->wrong[0] == '\0';) {
        done = e->control->completed_by(e, 0);
        for (uint64_t q = done - TT_CALLS_KEPT - 2; q < done + 2; q++) /* the oldest are being replaced */
            if (e->control->call_of(e, 0, q, &record))
                suite_expect(s, record.count == q * 3 && record.signature == (uint32_t)q, "a torn record");
    }
    together(c);
    c->transport->close(e);
}

const char *threads_calls(int n, int rounds)
{
    return run_threads(new_threads(n, rounds, tell_and_ask));
}
