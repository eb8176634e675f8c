/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_traffic.c: what tutti_comm_traffic tells is what the algorithm of each call is known to send.
 *
 * The sums over all ranks have closed forms whatever the count, for uneven chunks make up for each other; so
 * each rank leaves its counters in shared memory, and rank 0 adds. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"

TestSuite(api_traffic, .timeout = 300);

enum { TIMES = 3, MOST = 300001 /* elements of a vector */ };

static const tutti_stream none = { 0, TUTTI_STREAM_NONE, -1 };
static const size_t counts[] = { 0, 2, 700, 33333, MOST }; /* none, a line, a page, slices, many slices */

struct spot {
    struct ranks_me *me;
    tutti_comm *comm;
    tutti_stream stream;
    size_t count;
    int32_t *in, *out;
};

/* `unit` times the vector's bytes is what all ranks send together. */
struct form {
    const char *collective, *algorithm;
    tutti_status (*call)(const struct spot *s);
    uint64_t (*unit)(uint64_t n);
    bool blocks; /* the vector has n times count elements, else count */
    bool power; /* holds for n = 2^k */
};

static tutti_status all_reduce(const struct spot *s)
{
    return tutti_all_reduce(s->in, s->out, s->count, TUTTI_INT32, TUTTI_SUM, s->comm, s->stream);
}
static tutti_status reduce(const struct spot *s)
{
    return tutti_reduce(s->in, s->out, s->count, TUTTI_INT32, TUTTI_SUM, 0, s->comm, s->stream);
}
static tutti_status broadcast(const struct spot *s)
{
    return tutti_broadcast(s->in, s->out, s->count, TUTTI_INT32, s->me->n - 1, s->comm, s->stream);
}
static tutti_status reduce_scatter(const struct spot *s)
{
    return tutti_reduce_scatter(s->in, s->out, s->count, TUTTI_INT32, TUTTI_SUM, s->comm, s->stream);
}
static tutti_status all_gather(const struct spot *s)
{
    return tutti_all_gather(s->in, s->out, s->count, TUTTI_INT32, s->comm, s->stream);
}
static tutti_status all_to_all(const struct spot *s)
{
    return tutti_all_to_all(s->in, s->out, s->count, TUTTI_INT32, s->comm, s->stream);
}
static tutti_status gather(const struct spot *s)
{
    return tutti_gather(s->in, s->out, s->count, TUTTI_INT32, 0, s->comm, s->stream);
}
static tutti_status scatter(const struct spot *s)
{
    return tutti_scatter(s->in, s->out, s->count, TUTTI_INT32, 0, s->comm, s->stream);
}

static uint64_t once_each(uint64_t n) /* all but one rank send the vector */
{
    return n - 1;
}
static uint64_t twice_each(uint64_t n)
{
    return 2 * (n - 1);
}
static uint64_t all_to_others(uint64_t n)
{
    return n * (n - 1);
}
static uint64_t in_rounds(uint64_t n)
{
    uint64_t rounds = 0;
    while (UINT64_C(1) << rounds < n)
        rounds++;
    return n * rounds;
}
static uint64_t blocks_to_root(uint64_t n) /* times a block */
{
    return n - 1;
}

static const struct form forms[] = {
    { "all_reduce", "ring", all_reduce, twice_each, false, false },
    { "all_reduce", "direct", all_reduce, twice_each, false, false },
    { "all_reduce", "circulant", all_reduce, twice_each, false, false },
    { "all_reduce", "one_shot", all_reduce, all_to_others, false, false },
    { "all_reduce", "star", all_reduce, twice_each, false, false },
    { "all_reduce", "tree", all_reduce, twice_each, false, false },
    { "all_reduce", "doubling", all_reduce, in_rounds, false, true },
    { "all_reduce", "halving", all_reduce, twice_each, false, true },
    { "reduce", "direct", reduce, once_each, false, false },
    { "reduce", "tree", reduce, once_each, false, false },
    { "broadcast", "direct", broadcast, once_each, false, false },
    { "broadcast", "tree", broadcast, once_each, false, false },
    { "reduce_scatter", "direct", reduce_scatter, all_to_others, true, false },
    { "reduce_scatter", "ring", reduce_scatter, all_to_others, true, false },
    { "all_gather", "direct", all_gather, all_to_others, true, false },
    { "all_gather", "ring", all_gather, all_to_others, true, false },
    { "all_gather", "bruck", all_gather, all_to_others, true, false },
    { "all_to_all", "direct", all_to_all, all_to_others, true, false },
    { "all_to_all", "pairwise", all_to_all, all_to_others, true, false },
    { "gather", "direct", gather, blocks_to_root, true, false },
    { "scatter", "direct", scatter, blocks_to_root, true, false },
};

static tutti_traffic ask(struct ranks_me *me, tutti_comm *comm)
{
    tutti_traffic t = { .size = sizeof t };
    ranks_ok(me, tutti_comm_traffic(comm, &t), "comm_traffic");
    return t;
}

static tutti_traffic since(struct ranks_me *me, tutti_comm *comm, const tutti_traffic *before)
{
    tutti_traffic t = ask(me, comm);
    t.calls -= before->calls;
    t.called_bytes -= before->called_bytes;
    t.sent_bytes -= before->sent_bytes;
    t.received_bytes -= before->received_bytes;
    return t;
}

/* All ranks have this many calls of so many bytes; together they have sent, and received, `sent`. */
static void expect(struct ranks_me *me, const tutti_traffic *mine, uint64_t calls, uint64_t called,
    uint64_t sent, const char *what)
{
    tutti_traffic *all = me->shared, sum = { 0 };
    all[me->rank] = *mine;
    ranks_expect(me, mine->calls == calls, "%s: %llu calls, not %llu", what, (unsigned long long)mine->calls,
        (unsigned long long)calls);
    ranks_expect(me, mine->called_bytes == called, "%s: called %llu, not %llu", what,
        (unsigned long long)mine->called_bytes, (unsigned long long)called);
    ranks_meet(me);
    for (int r = 0; me->rank == 0 && r < me->n; r++) {
        sum.sent_bytes += all[r].sent_bytes;
        sum.received_bytes += all[r].received_bytes;
    }
    if (me->rank == 0) {
        ranks_expect(me, sum.sent_bytes == sent, "%s: sent %llu, not %llu", what,
            (unsigned long long)sum.sent_bytes, (unsigned long long)sent);
        ranks_expect(me, sum.received_bytes == sent, "%s: received %llu, not %llu", what,
            (unsigned long long)sum.received_bytes, (unsigned long long)sent);
    }
    ranks_meet(me);
}

static bool spot_open(struct spot *s)
{
    size_t room = (size_t)MOST * RANKS_MAX * sizeof *s->in;
    s->stream = none;
    s->in = malloc(room);
    s->out = malloc(room);
    if (s->in != NULL)
        memset(s->in, 1, room);
    return ranks_expect(s->me, s->in != NULL && s->out != NULL, "there is memory");
}

static void spot_close(struct spot *s)
{
    free(s->in);
    free(s->out);
}

/* What a start of a program of this call will be; it is never started. */
static tutti_traffic foresee(struct spot *s, const struct form *f)
{
    tutti_program *program = NULL;
    tutti_traffic t = { .size = sizeof t };
    ranks_ok(s->me, tutti_group_start(), "group_start");
    ranks_ok(s->me, f->call(s), f->collective);
    ranks_ok(s->me, tutti_group_keep(&program), "group_keep");
    ranks_ok(s->me, tutti_program_traffic(program, &t), "program_traffic");
    ranks_ok(s->me, tutti_program_destroy(program), "program_destroy");
    return t;
}

static void call_form(struct spot *s, const struct form *f)
{
    char what[96];
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t n = (uint64_t)s->me->n;
        s->count = f->blocks ? (counts[i] + n - 1) / n : counts[i];
        uint64_t block = s->count * sizeof(int32_t), bytes = f->blocks ? n * block : block;
        snprintf(what, sizeof what, "%s %s of %zu", f->collective, f->algorithm, s->count);
        ranks_at(s->me, "%s", what);
        tutti_traffic foreseen = foresee(s, f);
        ranks_ok(s->me, f->call(s), what); /* so that later ones may take the fast path */
        tutti_traffic before = ask(s->me, s->comm);
        for (int k = 0; k < TIMES; k++)
            ranks_ok(s->me, f->call(s), what);
        tutti_traffic mine = since(s->me, s->comm, &before);
        expect(s->me, &mine, TIMES, TIMES * bytes, TIMES * block * f->unit(n), what);
        ranks_expect(s->me,
            foreseen.calls == 1 && TIMES * foreseen.called_bytes == mine.called_bytes &&
                TIMES * foreseen.sent_bytes == mine.sent_bytes &&
                TIMES * foreseen.received_bytes == mine.received_bytes,
            "%s: foreseen are %llu bytes to send and %llu to receive", what,
            (unsigned long long)foreseen.sent_bytes, (unsigned long long)foreseen.received_bytes);
    }
}

/* Of one algorithm after the other. */
static void formulas(struct ranks_me *me)
{
    struct spot s = { .me = me };
    char options[64];
    if (!spot_open(&s))
        return;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const struct form *f = &forms[i];
        if (f->power && (me->n & (me->n - 1)) != 0)
            continue;
        snprintf(options, sizeof options, "algo=%s:%s;slice=64K", f->collective, f->algorithm);
        tutti_config config = { .size = sizeof config, .options = options };
        s.comm = ranks_join(me, &config);
        if (s.comm == NULL)
            break;
        call_form(&s, f);
        ranks_part(me, s.comm);
    }
    spot_close(&s);
}

static void run(int n, enum ranks_kind kind, ranks_fn fn)
{
    struct ranks_plan plan = { .n = n, .kind = kind, .run = fn, .seed = 7 };
    ranks_run(&plan);
}

Test(api_traffic, sums_have_the_closed_forms)
{
    static const int sizes[] = { 1, 2, 3, 4, 8 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        run(sizes[i], i % 2 == 0 ? RANKS_PROCESSES : RANKS_THREADS, formulas);
}

/* Each rank's own share of a ring, where the chunks are even. */
static void shares(struct ranks_me *me)
{
    struct spot s = { .me = me };
    tutti_config config = { .size = sizeof config, .options = "algo=all_reduce:ring" };
    if (!spot_open(&s))
        return;
    uint64_t n = (uint64_t)me->n, share;
    s.count = 1000 * n;
    s.comm = ranks_join(me, &config);
    tutti_traffic before = ask(me, s.comm);
    ranks_ok(me, all_reduce(&s), "all_reduce");
    tutti_traffic mine = since(me, s.comm, &before);
    share = 2 * (n - 1) * 1000 * sizeof(int32_t);
    ranks_expect(me, mine.sent_bytes == share && mine.received_bytes == share, "a ring's rank sends %llu",
        (unsigned long long)mine.sent_bytes);
    ranks_part(me, s.comm);
    spot_close(&s);
}

Test(api_traffic, a_rank_of_a_ring_sends_its_share)
{
    run(3, RANKS_PROCESSES, shares);
    run(8, RANKS_THREADS, shares);
}

/* Rank r has r + 1 elements more for each next rank, and none for itself. */
static size_t length(int from, int to)
{
    return from == to ? 0 : (size_t)(100 * from + to);
}

static void blocks(struct ranks_me *me)
{
    struct spot s = { .me = me };
    size_t send[RANKS_MAX], recv[RANKS_MAX];
    uint64_t mine_sent = 0, all = 0;
    if (!spot_open(&s))
        return;
    for (int r = 0; r < me->n; r++) {
        send[r] = length(me->rank, r);
        recv[r] = length(r, me->rank);
        mine_sent += send[r] * sizeof(int32_t);
        for (int to = 0; to < me->n; to++)
            all += length(r, to) * sizeof(int32_t);
    }
    s.comm = ranks_join(me, NULL);
    tutti_traffic before = ask(me, s.comm);
    for (int k = 0; k < TIMES; k++)
        ranks_ok(me, tutti_all_to_all_v(s.in, send, NULL, s.out, recv, NULL, TUTTI_INT32, s.comm, none),
            "all_to_all_v");
    tutti_traffic mine = since(me, s.comm, &before);
    ranks_expect(me, mine.sent_bytes == TIMES * mine_sent, "all_to_all_v: its own blocks");
    expect(me, &mine, TIMES, TIMES * mine_sent, TIMES * all, "all_to_all_v");
    for (int r = 0; r < me->n; r++)
        recv[r] = (size_t)(50 * r);
    before = ask(me, s.comm);
    ranks_ok(me,
        tutti_gather_v(s.in, recv[me->rank], s.out, recv, NULL, TUTTI_INT32, me->n - 1, s.comm, none),
        "gather_v");
    mine = since(me, s.comm, &before);
    uint64_t n = (uint64_t)me->n, whole = 50 * n * (n - 1) / 2, last = 50 * (n - 1);
    uint64_t called = me->rank == me->n - 1 ? whole : recv[me->rank];
    expect(me, &mine, 1, called * 4, (whole - last) * 4, "gather_v");
    ranks_part(me, s.comm);
    spot_close(&s);
}

Test(api_traffic, blocks_of_different_length)
{
    run(4, RANKS_PROCESSES, blocks);
    run(3, RANKS_THREADS, blocks);
}

/* A ring of messages, and a message to itself, which is sent to nobody. */
static void pass_round(const struct spot *s, bool itself)
{
    int n = s->me->n, next = (s->me->rank + 1) % n, before = (s->me->rank + n - 1) % n;
    tutti_send(s->in, s->count, TUTTI_INT32, next, s->comm, s->stream);
    tutti_recv(s->out, s->count, TUTTI_INT32, before, s->comm, s->stream);
    if (itself) {
        tutti_send(s->in, 10, TUTTI_INT32, s->me->rank, s->comm, s->stream);
        tutti_recv(s->out + s->count, 10, TUTTI_INT32, s->me->rank, s->comm, s->stream);
    }
}

static void groups(struct spot *s)
{
    uint64_t n = (uint64_t)s->me->n;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t bytes = counts[i] * sizeof(int32_t);
        s->count = counts[i];
        ranks_at(s->me, "groups of %zu", s->count);
        tutti_traffic before = ask(s->me, s->comm);
        for (int k = 0; k < TIMES; k++) {
            tutti_group_start();
            pass_round(s, k == 0);
            ranks_ok(s->me, tutti_group_end(), "group");
        }
        tutti_traffic mine = since(s->me, s->comm, &before);
        expect(s->me, &mine, 2 * TIMES + 2, 2 * TIMES * bytes + 80, TIMES * bytes * n, "groups");
    }
}

static void programs(struct spot *s)
{
    tutti_program *program = NULL;
    uint64_t n = (uint64_t)s->me->n, bytes = 33333 * sizeof(int32_t);
    s->count = 33333;
    ranks_at(s->me, "programs");
    tutti_traffic before = ask(s->me, s->comm);
    tutti_group_start();
    pass_round(s, false);
    all_gather(s);
    ranks_ok(s->me, tutti_group_keep(&program), "keep");
    tutti_traffic mine = since(s->me, s->comm, &before);
    ranks_expect(s->me, mine.calls == 0, "what is kept has not run");
    tutti_traffic foreseen = { .size = sizeof foreseen };
    ranks_ok(s->me, tutti_program_traffic(program, &foreseen), "program_traffic");
    for (int k = 0; k < TIMES; k++)
        ranks_ok(s->me, tutti_program_start(program), "start");
    mine = since(s->me, s->comm, &before);
    ranks_expect(s->me,
        mine.calls == TIMES * foreseen.calls && mine.called_bytes == TIMES * foreseen.called_bytes &&
            mine.sent_bytes == TIMES * foreseen.sent_bytes &&
            mine.received_bytes == TIMES * foreseen.received_bytes,
        "a start sends %llu and receives %llu bytes, as foreseen: %llu and %llu",
        (unsigned long long)mine.sent_bytes / TIMES, (unsigned long long)mine.received_bytes / TIMES,
        (unsigned long long)foreseen.sent_bytes, (unsigned long long)foreseen.received_bytes);
    expect(s->me, &mine, 3 * TIMES, TIMES * (2 + n) * bytes, TIMES * bytes * (n + n * (n - 1)), "program");
    foreseen.size = sizeof(size_t);
    ranks_refused(
        s->me, tutti_program_traffic(program, &foreseen), TUTTI_INVALID_ARGUMENT, "traffic", "size");
    ranks_refused(s->me, tutti_program_traffic(program, NULL), TUTTI_INVALID_ARGUMENT, "traffic", "NULL");
    foreseen.size = sizeof foreseen;
    ranks_refused(s->me, tutti_program_traffic(NULL, &foreseen), TUTTI_INVALID_ARGUMENT, "program", "NULL");
    ranks_ok(s->me, tutti_program_destroy(program), "destroy");
}

/* The answer waits for what is queued. */
static void streams(struct spot *s)
{
    uint64_t n = (uint64_t)s->me->n;
    ranks_ok(s->me, tutti_stream_create(&s->stream), "stream");
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        uint64_t bytes = counts[i] * sizeof(int32_t);
        s->count = counts[i];
        ranks_at(s->me, "streams of %zu", s->count);
        tutti_traffic before = ask(s->me, s->comm);
        for (int k = 0; k < TIMES; k++)
            ranks_ok(s->me, all_gather(s), "all_gather");
        tutti_traffic mine = since(s->me, s->comm, &before);
        expect(s->me, &mine, TIMES, TIMES * n * bytes, TIMES * bytes * n * (n - 1), "streams");
    }
    ranks_ok(s->me, tutti_stream_destroy(s->stream), "stream_destroy");
    s->stream = none;
}

/* More kinds of calls than the cache has entries push each other out, and nothing of what they counted is
 * lost. */
static void crowd(struct spot *s)
{
    uint64_t elements = 0, n = (uint64_t)s->me->n;
    tutti_traffic before = ask(s->me, s->comm);
    ranks_at(s->me, "many kinds of calls");
    for (int k = 0; k < 900; k++) {
        s->count = (size_t)(k % 300 + 1);
        elements += s->count;
        ranks_ok(s->me, all_gather(s), "all_gather");
        ranks_ok(s->me, all_gather(s), "all_gather");
    }
    tutti_traffic mine = since(s->me, s->comm, &before);
    expect(s->me, &mine, 1800, 2 * n * elements * 4, 2 * elements * 4 * n * (n - 1), "many kinds");
}

static void ways(struct ranks_me *me)
{
    struct spot s = { .me = me };
    uint64_t n = (uint64_t)me->n;
    if (!spot_open(&s))
        return;
    tutti_config config = { .size = sizeof config, .options = "algo=barrier:direct" };
    s.comm = ranks_join(me, &config);
    if (s.comm != NULL) {
        tutti_traffic mine = ask(me, s.comm);
        expect(me, &mine, 0, 0, 0, "nothing");
        for (int k = 0; k < TIMES; k++)
            ranks_ok(me, tutti_barrier(s.comm, none), "barrier");
        mine = ask(me, s.comm);
        expect(me, &mine, TIMES, 0, TIMES * n * (n - 1) * 4, "barriers");
        groups(&s);
        programs(&s);
        streams(&s);
        crowd(&s);
        ranks_part(me, s.comm);
    }
    spot_close(&s);
}

Test(api_traffic, groups_programs_and_streams)
{
    run(2, RANKS_PROCESSES, ways);
    run(3, RANKS_PROCESSES, ways);
    run(4, RANKS_THREADS, ways);
}

/* An operator's elements are whole ones, and its factor is nobody's message. */
static void keep_first(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)right;
    (void)context;
    memmove(dst, left, count * 12);
}

static void operators(struct ranks_me *me)
{
    struct spot s = { .me = me };
    tutti_config config = { .size = sizeof config, .options = "algo=all_reduce:ring" };
    tutti_op op, scaled;
    int32_t factor = 2;
    uint64_t n = (uint64_t)me->n, bytes = 3 * 1001 * sizeof(int32_t);
    if (!spot_open(&s))
        return;
    s.comm = ranks_join(me, &config);
    ranks_ok(me, tutti_op_create(s.comm, keep_first, NULL, 12, 1, &op), "op");
    ranks_ok(me, tutti_op_create_pre_mul_sum(s.comm, &factor, TUTTI_INT32, 0, &scaled), "pre_mul_sum");
    for (int k = 0; k < 2; k++) {
        tutti_traffic before = ask(me, s.comm);
        ranks_ok(me, tutti_all_reduce(s.in, s.out, 3003, TUTTI_INT32, k == 0 ? op : scaled, s.comm, none),
            "all_reduce");
        tutti_traffic mine = since(me, s.comm, &before);
        expect(me, &mine, 1, bytes, 2 * (n - 1) * bytes, "an operator");
    }
    ranks_part(me, s.comm);
    spot_close(&s);
}

Test(api_traffic, operators)
{
    run(4, RANKS_PROCESSES, operators);
}

/* A refused call counts nothing, a communicator that has failed still answers, and a shorter struct is
 * filled as far as it goes. */
static void ends(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    int32_t one = 1, sum;
    struct {
        tutti_traffic whole;
        uint64_t guard;
    } t = { { .size = sizeof(size_t) + 2 * sizeof(uint64_t), .sent_bytes = 77 }, 99 };
    ranks_ok(me, tutti_all_reduce(&one, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, none), "all_reduce");
    ranks_expect(me, tutti_all_reduce(NULL, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, none) < 0, "refused");
    ranks_ok(me, tutti_comm_traffic(comm, &t.whole), "comm_traffic");
    ranks_expect(me, t.whole.calls == 1 && t.whole.called_bytes == 4 && t.whole.sent_bytes == 77, "short");
    t.whole.size = sizeof t;
    ranks_ok(me, tutti_comm_traffic(comm, &t.whole), "comm_traffic");
    ranks_expect(me, t.whole.size == sizeof t && t.guard == 99, "a longer one is left as it is");
    ranks_meet(me);
    tutti_comm_abort(comm);
    t.whole = (tutti_traffic){ .size = sizeof t.whole };
    ranks_ok(me, tutti_comm_traffic(comm, &t.whole), "comm_traffic after abort");
    ranks_expect(me, t.whole.calls == 1, "what was done before counts");
    t.whole.size = sizeof(size_t);
    ranks_refused(me, tutti_comm_traffic(comm, &t.whole), TUTTI_INVALID_ARGUMENT, "traffic", "size");
    ranks_refused(me, tutti_comm_traffic(comm, NULL), TUTTI_INVALID_ARGUMENT, "traffic", "NULL");
    ranks_refused(me, tutti_comm_traffic(NULL, &t.whole), TUTTI_INVALID_ARGUMENT, "traffic", "comm");
    ranks_meet(me);
    tutti_comm_destroy(comm);
}

Test(api_traffic, ends)
{
    run(2, RANKS_PROCESSES, ends);
}
