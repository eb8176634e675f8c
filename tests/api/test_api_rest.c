/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_rest.c: what ranks hold in memory that they share, while nothing is to do.
 *
 * Pages of an arena belong to its owner here, however many map them, so the sum over the ranks is what they
 * hold together; what processes see of it (resident or proportional set sizes) says less. A rank has less
 * than 1 MiB besides. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/rig/ranks.h"
#include "transports/arena.h"

enum { RANKS = 8, LARGEST = 8 << 20, ARENA_MEAN = 7 << 20, ARENA_RESTED = 5 << 19 };

static uint64_t resident(void)
{
    const struct tt_arena *own;
    struct stat file = { 0 };
    if (tt_arena_get(&own) == TUTTI_OK)
        fstat(own->fd, &file);
    return (uint64_t)file.st_blocks * 512;
}

/* Of a rank, if all are looked at. */
static uint64_t mean_resident(struct ranks_me *me, tutti_comm *comm)
{
    uint64_t mine = resident(), all = 0;
    ranks_ok(
        me, tutti_all_reduce(&mine, &all, 1, TUTTI_UINT64, TUTTI_SUM, comm, tutti_no_stream()), "the sum");
    return all / (uint64_t)me->n;
}

/* Each collective on vectors of so many bytes, its root and then another one, and in place. */
static void run_all(struct ranks_me *me, tutti_comm *comm, uint8_t *send, uint8_t *recv, size_t bytes)
{
    tutti_stream none = tutti_no_stream();
    tutti_type f = TUTTI_FLOAT32;
    size_t count = bytes / sizeof(float), n = (size_t)me->n, each = count / n, own = (size_t)me->rank * each;
    int next = (me->rank + 1) % me->n, before = (me->rank + me->n - 1) % me->n;
    ranks_at(me, "rank %d: %zu bytes", me->rank, bytes);
    ranks_ok(me, tutti_all_reduce(send, recv, count, f, TUTTI_SUM, comm, none), "all_reduce");
    ranks_ok(me, tutti_all_reduce(recv, recv, count, f, TUTTI_SUM, comm, none), "all_reduce");
    ranks_ok(me, tutti_reduce_scatter(send, recv, each, f, TUTTI_SUM, comm, none), "reduce_scatter");
    ranks_ok(me, tutti_all_gather(send, recv, each, f, comm, none), "all_gather");
    ranks_ok(me, tutti_all_gather(recv + own * sizeof(float), recv, each, f, comm, none), "all_gather");
    ranks_ok(me, tutti_all_to_all(send, recv, each, f, comm, none), "all_to_all");
    ranks_ok(me, tutti_all_to_all(recv, recv, each, f, comm, none), "all_to_all");
    ranks_ok(me, tutti_broadcast(send, recv, count, f, 0, comm, none), "broadcast");
    ranks_ok(me, tutti_reduce(send, recv, count, f, TUTTI_SUM, 0, comm, none), "reduce");
    ranks_ok(me, tutti_gather(send, recv, each, f, 0, comm, none), "gather");
    ranks_ok(me, tutti_scatter(send, recv, each, f, 0, comm, none), "scatter");
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, tutti_send(send, each, f, next, comm, none), "send");
    ranks_ok(me, tutti_recv(recv, each, f, before, comm, none), "recv");
    ranks_ok(me, tutti_group_end(), "group_end");
}

/* Slices are set, since they are otherwise as long as the caches of this machine ask for. */
static tutti_comm *join(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "slice=128K" };
    return ranks_join(me, &config);
}

static void use_all(struct ranks_me *me)
{
    uint8_t *send = calloc(1, LARGEST), *recv = calloc(1, LARGEST);
    tutti_comm *comm = join(me);
    if (comm == NULL || send == NULL || recv == NULL)
        return;
    for (size_t bytes = 256; bytes <= LARGEST; bytes *= 8)
        for (int round = 0; round < 2; round++)
            run_all(me, comm, send, recv, bytes);
    uint64_t mean = mean_resident(me, comm);
    ranks_expect(me, mean > 1 << 20 && mean <= ARENA_MEAN, "a rank has %llu KiB in its arena",
        (unsigned long long)mean >> 10);
    ranks_part(me, comm);
    free(send);
    free(recv);
}

/* Ranks of which one is late wait long, each at one of the two barriers. */
static void wait_long(struct ranks_me *me, tutti_comm *comm)
{
    for (int late = 0; late < 2; late++) {
        if (me->rank == late)
            ranks_sleep_us(50000);
        ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    }
}

/* A rank looks at most once a second, and what it has seen twice, unused, it gives back. */
static void rest(struct ranks_me *me)
{
    uint8_t *send = calloc(1, LARGEST), *recv = calloc(1, LARGEST);
    tutti_comm *comm = join(me);
    if (comm == NULL || send == NULL || recv == NULL)
        return;
    run_all(me, comm, send, recv, LARGEST);
    uint64_t before = mean_resident(me, comm);
    for (int look = 0; look < 3; look++) {
        ranks_sleep_us(1100000);
        wait_long(me, comm);
    }
    uint64_t after = resident();
    ranks_expect(me, before > ARENA_RESTED && after <= ARENA_RESTED,
        "%llu KiB, before it rested %llu of each", (unsigned long long)after >> 10,
        (unsigned long long)before >> 10);
    run_all(me, comm, send, recv, LARGEST);
    ranks_part(me, comm);
    free(send);
    free(recv);
}

Test(api_rest, slots_return_when_ranks_rest)
{
    ranks_run(&(struct ranks_plan){ .n = RANKS, .run = rest });
}

Test(api_rest, all_collectives_use_the_same_memory)
{
    ranks_run(&(struct ranks_plan){ .n = RANKS, .run = use_all });
}
