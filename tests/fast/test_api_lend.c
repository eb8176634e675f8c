/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_lend.c: which messages of calls that were made before are lent, so that their reader takes them
 * where they lie, and which are copied; and that what is lent is its caller's again only when it was read. */
#include <criterion/criterion.h>
#include <string.h>

#include "run/comm.h"
#include "base/handle.h"
#include "tests/rig/ranks.h"

TestSuite(api_lend, .timeout = 120);

enum { LENT = 2048, MEASURE = 1000 };

struct lent {
    int32_t send[LENT], recv[LENT];
};

/* As soon as a call is over, its source is the caller's, who writes it. Rank 0 says in the first element
 * whether this call is the last one. */
static bool lend_once(struct ranks_me *me, struct lent *l, tutti_comm *comm, int32_t round, bool last)
{
    size_t count = (size_t)(LENT >> round % 2);
    for (size_t i = 0; i < count; i++)
        l->send[i] = round + me->rank + (int32_t)i;
    l->send[0] = me->rank == 0 && last;
    tutti_status status =
        tutti_all_reduce(l->send, l->recv, count, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    memset(l->send, 0xee, sizeof l->send);
    for (size_t i = 1; status == TUTTI_OK && i < count; i++)
        if (l->recv[i] != 2 * (round + (int32_t)i) + 1)
            return ranks_expect(me, false, "round %d: element %zu is %d", round, i, l->recv[i]) && false;
    return ranks_ok(me, status, "all_reduce") && l->recv[0] == 0;
}

static void lend(struct ranks_me *me)
{
    const char *odd = me->context; /* which rank takes the slow path, or is stopped now and then */
    bool long_way = odd != NULL && odd[0] - '0' == me->rank, stops = odd != NULL && odd[0] == 's';
    tutti_config config = { .size = sizeof config, .options = long_way ? "fused=off" : "fused=on" };
    tutti_comm *comm = ranks_join(me, &config);
    struct lent *l = NULL;
    if (comm == NULL || !ranks_ok(me, tutti_mem_alloc(sizeof *l, TUTTI_MEM_HOST, (void **)&l), "mem_alloc"))
        return;
    _Atomic uint8_t *over = me->shared;
    tt_comm_find(comm)->endpoint->copy_bytes = 0; /* however often it is rewritten */
    struct ranks_paths before = ranks_paths(me, comm);
    ranks_at(me, "rank %d lends, %s", me->rank, odd == NULL ? "as does the other" : odd);
    for (int32_t round = 0;; round++)
        if (!lend_once(me, l, comm, round, stops ? atomic_load(over) != 0 : round == MEASURE))
            break;
    struct ranks_paths after = ranks_paths(me, comm);
    ranks_expect(me, after.mapped > before.mapped && after.copied == before.copied,
        "%llu bytes were lent, %llu copied", after.mapped - before.mapped, after.copied - before.copied);
    ranks_expect(me, long_way || ranks_cached(comm) == 2, "%d cached calls", ranks_cached(comm));
    ranks_part(me, comm);
    tutti_mem_free(l);
}

Test(api_lend, what_is_lent_is_read_before_the_call_ends)
{
    static const char *const ways[] = { NULL, "0", "1" };
    for (int i = 0; i < 3; i++)
        ranks_run(&(struct ranks_plan){ .n = 2, .run = lend, .context = ways[i] });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = lend });
}

/* What one more call copies, after one that is cached and one that is known to send the same. */
static unsigned long long copied_again(
    struct ranks_me *me, bool gathers, void *send, void *recv, size_t bytes, tutti_comm *comm)
{
    struct ranks_paths before = { 0 };
    for (int call = 0; call < 3; call++) {
        before = ranks_paths(me, comm);
        tutti_status status = gathers
                                  ? tutti_gather(send, recv, bytes, TUTTI_UINT8, 0, comm, tutti_no_stream())
                                  : tutti_all_gather(send, recv, bytes, TUTTI_UINT8, comm, tutti_no_stream());
        ranks_ok(me, status, "call");
    }
    return ranks_paths(me, comm).copied - before.copied;
}

/* Rather than wait for its reader a rank copies: more if it only sends, and most where ranks take turns on
 * cores. */
static void copy_or_wait(struct ranks_me *me)
{
    enum { MOST = 40 << 10 };
    static const size_t sizes[] = { 2 << 10, 8 << 10, 12 << 10, 16 << 10, 32 << 10, MOST };
    void *send = NULL, *recv = NULL;
    ranks_ok(me, tutti_mem_alloc(MOST, TUTTI_MEM_HOST, &send), "mem_alloc");
    ranks_ok(me, tutti_mem_alloc((size_t)me->n * MOST, TUTTI_MEM_HOST, &recv), "mem_alloc");
    for (int i = 0; i < 12; i++) {
        size_t bytes = sizes[i / 2], others = (size_t)me->n - 1;
        bool crowded = i & 1;
        tutti_comm *comm = ranks_join(me, NULL);
        tt_comm_find(comm)->waiting.policy.spins = !crowded;
        size_t most_one_way = (crowded ? 32U : 8U) << 10, most = (crowded ? 12U : 2U) << 10;
        unsigned long long gathered = me->rank > 0 && bytes <= most_one_way ? bytes : 0;
        unsigned long long exchanged = bytes <= most ? others * bytes : 0;
        ranks_at(me, "rank %d: %zu bytes%s", me->rank, bytes, crowded ? ", crowded" : "");
        ranks_expect(me, copied_again(me, true, send, recv, bytes, comm) == gathered, "gather");
        ranks_expect(me, copied_again(me, false, send, recv, bytes, comm) == exchanged, "all_gather");
        ranks_part(me, comm);
    }
    tutti_mem_free(send);
    tutti_mem_free(recv);
}

Test(api_lend, who_would_wait_for_a_reader_copies)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = copy_or_wait });
    ranks_run(&(struct ranks_plan){ .n = 8, .run = copy_or_wait });
}

/* In place a rank writes where its peer reads, or just beside. */
static void lend_in_place(struct ranks_me *me)
{
    static const enum tt_collective kinds[] = { TT_ALL_REDUCE, TT_REDUCE_SCATTER, TT_ALL_GATHER,
        TT_ALL_TO_ALL };
    tutti_stream none = tutti_no_stream();
    tutti_config config = { .size = sizeof config, .options = "algo=all_reduce:one_shot" };
    tutti_comm *comm = ranks_join(me, &config);
    int32_t *data = NULL, half = LENT / 2, peer = 1 - me->rank;
    if (comm == NULL ||
        !ranks_ok(me, tutti_mem_alloc(LENT * sizeof *data, TUTTI_MEM_HOST, (void **)&data), "mem_alloc"))
        return;
    tt_comm_find(comm)->endpoint->copy_bytes = 0; /* however often it is rewritten */
    for (int32_t round = 0; round < 4 * MEASURE; round++) {
        enum tt_collective kind = kinds[round % 4];
        int32_t *own = data + me->rank * half, wrong = 0;
        ranks_at(me, "rank %d: %s in place, round %d", me->rank, tt_collectives[kind].name, round);
        for (int32_t i = 0; i < LENT; i++)
            data[i] = round + me->rank * 5 + i;
        if (kind == TT_ALL_REDUCE)
            ranks_ok(me, tutti_all_reduce(data, data, LENT, TUTTI_INT32, TUTTI_SUM, comm, none), "");
        else if (kind == TT_REDUCE_SCATTER)
            ranks_ok(
                me, tutti_reduce_scatter(data, own, (size_t)half, TUTTI_INT32, TUTTI_SUM, comm, none), "");
        else if (kind == TT_ALL_GATHER)
            ranks_ok(me, tutti_all_gather(own, data, (size_t)half, TUTTI_INT32, comm, none), "");
        else
            ranks_ok(me, tutti_all_to_all(data, data, (size_t)half, TUTTI_INT32, comm, none), "");
        for (int32_t i = 0; i < LENT; i++) {
            bool mine = i / half == me->rank, sums = kind == TT_ALL_REDUCE || kind == TT_REDUCE_SCATTER;
            int32_t theirs = kind == TT_ALL_TO_ALL ? me->rank * half + i % half : i;
            int32_t expected =
                sums ? 2 * (round + i) + 5 : round + (mine ? me->rank * 5 + i : peer * 5 + theirs);
            wrong += (kind != TT_REDUCE_SCATTER || mine) && data[i] != expected;
        }
        memset(data, 0xee, LENT * sizeof *data);
        if (!ranks_expect(me, wrong == 0, "%d of %d elements are wrong", wrong, LENT))
            break;
    }
    ranks_expect(me, ranks_cached(comm) > 2, "%d cached calls", ranks_cached(comm));
    tutti_mem_free(data);
    ranks_part(me, comm);
}

Test(api_lend, nobody_writes_what_is_read)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = lend_in_place });
}

Test(api_lend, the_executor_takes_over_what_is_lent)
{
    ranks_run(
        &(struct ranks_plan){ .n = 2, .run = lend, .context = "stopped", .meddle = ranks_stop_in_turn });
}

/* --- Who rewrites what it sends between calls copies it, up to 16 KiB: the lines that a peer has read would
 * have to come back before the program can write. */

static tutti_status send_some(const struct ranks_me *me, enum tt_collective kind, void *send, void *recv,
    size_t bytes, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    switch (kind) {
    case TT_ALL_GATHER:
        return tutti_all_gather(send, recv, bytes, TUTTI_UINT8, comm, none);
    case TT_BROADCAST:
        return tutti_broadcast(send, recv, bytes, TUTTI_UINT8, 0, comm, none);
    default:
        return me->rank == 0 ? tutti_send(send, bytes, TUTTI_UINT8, 1, comm, none)
                             : tutti_recv(recv, bytes, TUTTI_UINT8, 0, comm, none);
    }
}

/* What one more call copies, after this rank has written `value` to what it sends. */
static unsigned long long copied_by(struct ranks_me *me, enum tt_collective kind, uint8_t *send,
    uint8_t *recv, size_t bytes, uint8_t value, tutti_comm *comm)
{
    memset(send, value, bytes);
    struct ranks_paths before = ranks_paths(me, comm);
    ranks_ok(me, send_some(me, kind, send, recv, bytes, comm), "call");
    for (size_t i = 0; i < bytes && (me->rank > 0 || kind == TT_ALL_GATHER); i++)
        if (recv[i] != value) {
            ranks_expect(me, false, "byte %zu is %d and not %d", i, recv[i], value);
            break;
        }
    return ranks_paths(me, comm).copied - before.copied;
}

static void rewrite(struct ranks_me *me)
{
    enum { MOST = 20 << 10 };
    static const enum tt_collective kinds[] = { TT_ALL_GATHER, TT_BROADCAST, TT_P2P_SEND };
    static const size_t sizes[] = { 12 << 10, 16 << 10, MOST };
    uint8_t *send = NULL, *recv = NULL;
    ranks_ok(me, tutti_mem_alloc(MOST, TUTTI_MEM_HOST, (void **)&send), "mem_alloc");
    ranks_ok(me, tutti_mem_alloc(2 * MOST, TUTTI_MEM_HOST, (void **)&recv), "mem_alloc");
    for (int i = 0; i < 9; i++) {
        enum tt_collective kind = kinds[i / 3];
        size_t bytes = sizes[i % 3];
        tutti_comm *comm = ranks_join(me, NULL);
        bool sends = kind == TT_ALL_GATHER || me->rank == 0;
        unsigned long long all = sends && bytes < MOST ? bytes : 0;
        ranks_at(me, "rank %d: %s of %zu bytes", me->rank, tt_collectives[kind].name, bytes);
        for (int call = 0; call < 3;
             call++) /* the second is cached, and the cache knows what it sent at the third */
            copied_by(me, kind, send, recv, bytes, 7, comm);
        ranks_expect(me, copied_by(me, kind, send, recv, bytes, 7, comm) == 0, "the same is not lent");
        ranks_expect(me, copied_by(me, kind, send, recv, bytes, 8, comm) == all, "rewritten");
        ranks_expect(me, copied_by(me, kind, send, recv, bytes, 9, comm) == all, "and again");
        ranks_expect(me, copied_by(me, kind, send, recv, bytes, 9, comm) == 0, "what stays is not lent");
        ranks_part(me, comm);
    }
    tutti_mem_free(send);
    tutti_mem_free(recv);
}

Test(api_lend, who_rewrites_its_source_copies_it)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = rewrite });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = rewrite });
}
