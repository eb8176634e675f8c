/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_bounce.c: long messages out of private memory, of many ranks: that each byte is copied once by its
 * sender, however many read it, and that the caller may rewrite it as soon as the call returns. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/handle.h"
#include "run/comm.h"
#include "tests/rig/ranks.h"

enum { BLOCK = 30011, ROUNDS = 6 };

static int32_t value(int rank, size_t i, int round)
{
    return (int32_t)(i % 5000) + 10000 * rank + 100000 * round;
}

/* Who comes late to a round finds what the others have sent, and they must not have gone on from it. */
static void gather_all(struct ranks_me *me)
{
    static int32_t mine[BLOCK], all[8 * BLOCK];
    tutti_config config = { .size = sizeof config, .options = "slice=48K;algo=all_gather:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    for (int round = 0; round < ROUNDS; round++) {
        ranks_at(me, "rank %d: all_gather, round %d", me->rank, round);
        for (size_t i = 0; i < BLOCK; i++)
            mine[i] = value(me->rank, i, round);
        if (round % me->n == me->rank)
            ranks_sleep_us(2000);
        ranks_ok(me, tutti_all_gather(mine, all, BLOCK, TUTTI_INT32, comm, tutti_no_stream()), "all_gather");
        memset(mine, 0x5a, sizeof mine);
        size_t wrong = 0;
        for (int r = 0; r < me->n; r++)
            for (size_t i = 0; i < BLOCK; i++)
                wrong += all[(size_t)r * BLOCK + i] != value(r, i, round);
        ranks_expect(me, wrong == 0, "round %d: %zu wrong", round, wrong);
    }
    struct ranks_paths p = ranks_paths(me, comm);
    unsigned long long bytes = ROUNDS * sizeof mine;
    ranks_expect(me, p.copied == bytes, "%llu bytes should be copied: %s", bytes, p.text);
    ranks_expect(me, p.mapped == ((unsigned long long)me->n - 1) * bytes, "mapped: %s", p.text);
    ranks_part(me, comm);
}

Test(api_bounce, each_byte_is_copied_once)
{
    ranks_run(&(struct ranks_plan){ .n = 8, .run = gather_all });
}

/* In a ring a rank sends the same cells twice: a part of the sum, and later the sum. */
static void sum_in_a_ring(struct ranks_me *me)
{
    static int32_t send[8 * BLOCK], recv[8 * BLOCK];
    tutti_config config = { .size = sizeof config, .options = "slice=48K;algo=all_reduce:ring" };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    for (int round = 0; round < ROUNDS; round++) {
        bool in_place = round % 2 == 1;
        int32_t *to = in_place ? send : recv;
        ranks_at(me, "rank %d: all_reduce, round %d", me->rank, round);
        for (size_t i = 0; i < (size_t)8 * BLOCK; i++)
            send[i] = value(me->rank, i, round);
        ranks_ok(me,
            tutti_all_reduce(send, to, (size_t)8 * BLOCK, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce");
        size_t wrong = 0;
        for (size_t i = 0; i < (size_t)8 * BLOCK; i++) {
            int32_t sum = 0;
            for (int r = 0; r < me->n; r++)
                sum += value(r, i, round);
            wrong += to[i] != sum;
        }
        ranks_expect(me, wrong == 0, "round %d: %zu wrong", round, wrong);
    }
    ranks_part(me, comm);
}

Test(api_bounce, cells_that_are_sent_again)
{
    ranks_run(&(struct ranks_plan){ .n = 8, .run = sum_in_a_ring });
}

/* From this length on, and not one byte earlier or later, whether the call is new or was made before. */
static void gather_at_the_limit(struct ranks_me *me)
{
    static uint8_t mine[48 << 10], all[8 * sizeof mine];
    tutti_config config = { .size = sizeof config, .options = "slice=48K;algo=all_gather:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    uint64_t from = tt_comm_peek(comm)->memory.bounce_from, others = (uint64_t)me->n - 1;
    ranks_expect(me, from < sizeof mine, "no message of a slot is long enough");
    for (size_t bytes = from - 1; bytes <= from && from < sizeof mine; bytes++)
        for (int round = 0; round < ROUNDS; round++) {
            struct ranks_paths before = ranks_paths(me, comm);
            ranks_ok(
                me, tutti_all_gather(mine, all, bytes, TUTTI_UINT8, comm, tutti_no_stream()), "all_gather");
            struct ranks_paths after = ranks_paths(me, comm);
            uint64_t copied = after.copied - before.copied;
            ranks_expect(me, copied == (bytes < from ? others * bytes : bytes),
                "of %zu bytes %llu are copied in round %d; a bounce buffer is for %llu and more", bytes,
                (unsigned long long)copied, round, (unsigned long long)from);
        }
    ranks_part(me, comm);
}

Test(api_bounce, begins_at_one_length)
{
    ranks_run(&(struct ranks_plan){ .n = 8, .run = gather_at_the_limit });
}
